//! What each rule of packing pads, cuts and throws away, on real documents.
//!
//!     cargo bench -- packing
//!
//! The corpus is that of `configs/quickstart.toml`, the Rust sources that cargo has unpacked on this machine,
//! but each file is one whole document. The tokenizer is learned as there. Documents are shuffled by windows of 2,048, as by
//! default.
//!
//! `cropped` is a rule that this crate does not have, for comparison: each row begins with a document's
//! start; it is filled with the longest of 256 waiting documents that fits what is left, and when none
//! does, the shortest is cropped to fill the row and its rest is thrown away.
//!
//! Padding is a share of the rows' width; `cut` counts documents of at most `seq_len + 1` ids that lie
//! whole in no row, as a share of all such documents; what is thrown away is a share of all ids.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use millstream::config::{ByteCount, Config, Oversize, PackRule, Packing};
use millstream::loader::open_tokenizer;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{Encoder, Tokenizer};
use millstream::{LaneCursor, Result, Source, Tokens, Tracked};

use crate::common::runtime;

const SHUFFLED: usize = 2048;
const WAITING: usize = 256;

pub(crate) fn run(is_trial: bool) -> Result<()> {
    runtime().block_on(compare(is_trial))
}

async fn compare(is_trial: bool) -> Result<()> {
    let mut config = Config::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/quickstart.toml"))?;
    config.sources[0].max_document_bytes = ByteCount::mib(16);
    config.sources[0].oversize = Oversize::Skip;
    if is_trial {
        config.sources[0].paths = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/**/*.rs").to_owned()];
        config.tokenizer.train.get_or_insert_default().vocab_size = 512;
    }
    let tokenizer = open_tokenizer(&config).await?;
    let lengths = lengths(&config, &tokenizer).await?;
    let ids: usize = lengths.iter().sum();
    println!("{} documents, {ids} ids of {}", lengths.len(), tokenizer.fingerprint());

    println!("seq_len  packing            rows  padding  fit  cut     thrown away");
    for seq_len in [1024, 4096] {
        let fit = lengths.iter().filter(|&&len| len <= seq_len + 1).count();
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let print = |name: &str, figures: &Figures| {
            println!(
                "{seq_len:7}  {name:14} {:8}  {:6.2}%  {:2.0}%  {:5.2}%  {:6.2}%",
                figures.rows,
                percent(figures.padding, figures.rows * (seq_len + 1)),
                percent(fit, lengths.len()),
                percent(fit - figures.whole, fit),
                percent(figures.thrown, ids),
            );
        };
        print("concat", &packed(&lengths, Packing::new(PackRule::Concat, seq_len)).await?);
        print("pad", &packed(&lengths, Packing::new(PackRule::Pad, seq_len)).await?);
        for window in [64, 256, 1024] {
            let packing = Packing { window, ..Packing::new(PackRule::BestFit, seq_len) };
            print(&format!("best_fit {window}"), &packed(&lengths, packing).await?);
        }
        print("cropped", &cropped(&lengths, seq_len + 1));
    }
    Ok(())
}

/// How many ids each document has, in the order in which they are packed.
async fn lengths(config: &Config, tokenizer: &Arc<dyn Tokenizer>) -> Result<Vec<usize>> {
    let encoder = Encoder::new(tokenizer.clone()).with_eos("<|endoftext|>")?;
    let start = LaneCursor::default();
    let documents = Source::open(&config.sources).await?.documents(&start);
    let tokens = documents.tokenize(&encoder, &Workers::new(2));
    let lengths = tokens.map_ok(|tokens| tokens.map(|tokens| tokens.len()));
    lengths.shuffle(SHUFFLED, config.seed, &start).map_ok(|length| length.value).try_collect().await
}

/// What became of the documents; `whole` are those that lie whole in some row.
#[derive(Default)]
struct Figures {
    rows: usize,
    padding: usize,
    whole: usize,
    thrown: usize,
}

async fn packed(lengths: &[usize], packing: Packing) -> Result<Figures> {
    let start = LaneCursor::default();
    let mut rows = documents(lengths).pack(packing, &start);
    let (mut figures, mut whole) = (Figures::default(), HashSet::new());
    while let Some(row) = rows.next().await {
        let row = row?.value;
        figures.rows += 1;
        figures.padding += row.width() - row.len();
        whole.extend(row.parts().iter().filter_map(|part| {
            let document = part.ids()[0] as usize;
            (part.len() == lengths[document]).then_some(document)
        }));
    }
    figures.whole = whole.iter().filter(|&&document| lengths[document] <= packing.seq_len + 1).count();
    Ok(figures)
}

/// Documents of these lengths, all of whose ids are their number.
fn documents(lengths: &[usize]) -> impl Stream<Item = Result<Tracked<Tokens>>> + Unpin {
    stream::iter(lengths.iter().enumerate().map(|(document, &len)| {
        let tokens = Tokens::new(vec![document as u32; len], len);
        Ok(Tracked::new(tokens, LaneCursor::after(document as u64 + 1)))
    }))
}

fn cropped(lengths: &[usize], width: usize) -> Figures {
    let mut figures = Figures::default();
    let mut next = lengths.iter().copied().enumerate();
    let mut waiting: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut room = 0;
    loop {
        let missing = WAITING - waiting.len();
        waiting.extend(next.by_ref().take(missing).map(|(document, len)| (len, document)));
        let fits = waiting.range(..=(room, usize::MAX)).next_back().copied();
        let Some((len, document)) = fits.or_else(|| waiting.first().copied()) else { break };
        if room == 0 {
            figures.rows += 1;
            room = width;
            continue;
        }
        waiting.remove(&(len, document));
        figures.whole += usize::from(len <= room);
        figures.thrown += len.saturating_sub(room);
        room -= len.min(room);
    }
    figures.padding = room;
    figures
}
