//! Drops documents whose text is the same as one of the last 1,000: a stage with a sliding memory.
//!
//!     cargo run --release --example deduplicate
//!     millstream verify configs/tiny.toml --program target/release/examples/deduplicate
//!
//! A checkpoint stores nothing of that memory. Its cursor is an anchor (the place before the oldest remembered
//! document) and a skip (how many were read since). Resuming reads those again, only to remember them. The first
//! command runs the stage alone through `conformance::check`, on lines of text. The second checks the whole loader, in
//! processes that are killed.

use std::collections::{HashMap, VecDeque};
use std::future::ready;

use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::prelude::*;
use millstream::{LaneCursor, Source, Tracked, conformance, verify};

/// How many documents are remembered.
const MEMORY: usize = 1000;

/// The documents that were read last.
struct Recent {
    start: LaneCursor,
    /// The cursor before the oldest of them. The first document tells at what depth of the chain the stage is.
    anchor: Option<LaneCursor>,
    /// How many of the next documents were read before the interruption.
    replay: u64,
    /// The digest of each text, and the cursor after it.
    window: VecDeque<(blake3::Hash, LaneCursor)>,
    /// How many of them have this text.
    texts: HashMap<blake3::Hash, usize>,
}

impl Recent {
    fn new(start: &LaneCursor) -> Self {
        let (window, texts) = (VecDeque::new(), HashMap::new());
        Self { start: *start, anchor: None, replay: 0, window, texts }
    }

    /// Returns the document, unless a recent one has the same text or it was read before the interruption.
    fn pass(&mut self, document: Tracked<Document>) -> Option<Tracked<Document>> {
        let (depth, epoch) = (document.cursor.depth(), document.cursor.epoch);
        if self.anchor.is_none() {
            self.anchor = Some(self.start.upstream(depth));
            self.replay = self.start.skip(depth);
        }
        // Each epoch begins with an empty memory; otherwise a corpus of less than 1,000 documents would drop all of
        // itself.
        while self.window.front().is_some_and(|(_, oldest)| oldest.epoch != epoch) {
            self.forget();
        }
        let text = blake3::hash(document.value.text().as_bytes());
        let is_new = !self.texts.contains_key(&text);
        self.window.push_back((text, document.cursor));
        *self.texts.entry(text).or_default() += 1;
        if self.window.len() > MEMORY {
            self.forget();
        }
        if self.replay > 0 {
            self.replay -= 1;
            return None;
        }
        let cursor = self.anchor?.anchored(self.window.len() as u64);
        is_new.then(|| Tracked::new(document.value, cursor))
    }

    /// Forgets the oldest document: the anchor moves behind it.
    fn forget(&mut self) {
        let Some((text, cursor)) = self.window.pop_front() else { return };
        self.anchor = Some(cursor);
        if let Some(count) = self.texts.get_mut(&text) {
            *count -= 1;
            if *count == 0 {
                self.texts.remove(&text);
            }
        }
    }
}

/// The stage: documents in, documents out. An error passes through.
fn deduplicate(documents: DocumentStream, start: &LaneCursor) -> DocumentStream {
    let mut recent = Recent::new(start);
    documents.try_filter_map(move |document| ready(Ok(recent.pass(document)))).boxed()
}

/// Adds the stage to a loader. Its name includes everything that its output depends on, so that no other cursor is
/// accepted.
fn loader(config: &Config) -> LoaderBuilder {
    Loader::builder(config).stage(format!("drop copies of the last {MEMORY} documents"), deduplicate)
}

#[tokio::main]
async fn main() -> Result<()> {
    // True in a process that `millstream verify` has started.
    if verify::serve(loader).await? {
        return Ok(());
    }

    let source = Source::open(&[SourceConfig::text("src/**/*.rs")]).await?;
    let open = async |start: &LaneCursor| {
        let distinct = deduplicate(source.documents(start).boxed(), start);
        Ok(distinct.map_ok(|document| (document.value.position(), document.cursor)))
    };
    match conformance::check(&LaneCursor::default(), open, 1500).await {
        Ok(()) => println!("the stage keeps the laws of order and resume"),
        Err(problem) => println!("the stage breaks a law: {problem}"),
    }

    let all = source.documents(&LaneCursor::default()).try_fold(0, |count, _| ready(Ok(count + 1))).await?;
    let distinct = deduplicate(source.documents(&LaneCursor::default()).boxed(), &LaneCursor::default());
    let distinct = distinct.try_fold(0, |count, _| ready(Ok(count + 1))).await?;
    println!("{distinct} of {all} lines are new");
    Ok(())
}
