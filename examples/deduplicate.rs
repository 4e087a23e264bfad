//! A stage with a memory that slides: it drops documents whose text is that of one of the last 1,000.
//!
//!     cargo run --release --example deduplicate
//!     millstream verify configs/tiny.toml --program target/release/examples/deduplicate
//!
//! A checkpoint holds nothing of that memory. Its cursor is an anchor, the place before the oldest document that
//! is remembered, and a skip, how many were read since: resuming reads those again, only to remember them.
//! The first command puts the stage alone to `conformance::check`, on lines; the second the whole loader, in
//! processes that are killed.

use std::collections::{HashMap, VecDeque};
use std::future::ready;

use futures::{StreamExt, TryStreamExt};
use millstream::config::SourceConfig;
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::{Config, Document, LaneCursor, Loader, Result, Source, Tracked, conformance, verify};

/// How many documents are remembered.
const MEMORY: usize = 1000;

/// The last documents that were read.
struct Recent {
    start: LaneCursor,
    /// The cursor before the oldest of them; the first document tells where in the chain the stage stands.
    anchor: Option<LaneCursor>,
    /// How many of those that come were read before the interruption.
    replay: u64,
    /// The text of each, as a digest, and the cursor after it.
    window: VecDeque<(blake3::Hash, LaneCursor)>,
    /// How many of them have a text.
    texts: HashMap<blake3::Hash, usize>,
}

impl Recent {
    fn new(start: &LaneCursor) -> Self {
        let (window, texts) = (VecDeque::new(), HashMap::new());
        Self { start: *start, anchor: None, replay: 0, window, texts }
    }

    /// The document, unless a recent one has its text or it was read before the interruption.
    fn pass(&mut self, document: Tracked<Document>) -> Option<Tracked<Document>> {
        let (depth, epoch) = (document.cursor.depth(), document.cursor.epoch);
        if self.anchor.is_none() {
            self.anchor = Some(self.start.upstream(depth));
            self.replay = self.start.skip(depth);
        }
        // An epoch begins without a memory: a corpus of less than 1,000 documents would drop all of itself.
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

    /// Forgets the oldest document: the anchor is now behind it.
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

/// The stage in a loader. Its name says all that its output depends on, because a cursor is good for no other.
fn loader(config: &Config) -> LoaderBuilder {
    Loader::builder(config).stage(format!("drop copies of the last {MEMORY} documents"), deduplicate)
}

#[tokio::main]
async fn main() -> Result<()> {
    // True in a process that `millstream verify` has started.
    if verify::serve(loader).await? {
        return Ok(());
    }

    let lines = SourceConfig { paths: vec!["src/**/*.rs".to_owned()], ..SourceConfig::default() };
    let source = Source::open(&[lines]).await?;
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
