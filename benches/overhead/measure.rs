//! One run of either side.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use millstream::Batch;
use millstream::config::{Config, SourceKind};
use millstream::tokenizer::Tokenizer;

use super::corpus::{Case, Corpus, Shape};
use crate::common::{encode, open, runtime};

/// How often shards are read in one run: they are so much faster than text.
pub(crate) const EPOCHS: u64 = 8;

/// What a run of the loader came to.
pub(crate) struct Loaded {
    /// From before it was opened to its end.
    pub(crate) time: Duration,
    /// From before it was opened to the first batch.
    pub(crate) first: Duration,
    /// Ids that the tokenizer made, without those put around documents; of shards, all.
    pub(crate) tokens: u64,
}

/// Reads all batches and touches every id.
pub(crate) fn load(config: &Config, tokenizer: &Arc<dyn Tokenizer>) -> Loaded {
    let is_shards = config.sources[0].kind == SourceKind::Shards;
    let mut config = config.clone();
    if is_shards {
        config.pipeline.epochs = Some(EPOCHS);
    }
    runtime().block_on(async {
        let began = Instant::now();
        let mut loader = open(&config, tokenizer, None).await;
        let mut first = None;
        while let Some(batch) = loader.next().await {
            first.get_or_insert_with(|| began.elapsed());
            touch(&batch.expect("no error"));
        }
        let time = began.elapsed();
        let meters = loader.meters();
        let tokenize = meters.stages.iter().find(|stage| stage.stage == "tokenize").expect("it is there");
        let tokens = if is_shards { tokenize.tokens } else { tokenize.tokens - tokenize.documents };
        Loaded { time, first: first.unwrap_or(time), tokens }
    })
}

fn touch(batch: &Batch) {
    black_box(batch.ids().iter().fold(0_u32, |sum, id| sum.wrapping_add(*id)));
}

/// The other side: what the loader could reach if it cost nothing.
pub(crate) struct Bare<'a> {
    documents: Vec<&'a str>,
    tokenizer: &'a dyn Tokenizer,
    workers: usize,
    /// Ids to be copied in the tokenizer's place, and where to.
    copied: Option<std::sync::Mutex<(Vec<u32>, Vec<u32>)>>,
}

impl<'a> Bare<'a> {
    pub(crate) fn new(corpus: &'a Corpus, case: Case, workers: usize) -> Self {
        let documents = corpus.documents(case);
        let mut bare = Self { documents, tokenizer: &**corpus.tokenizer(), workers, copied: None };
        if case.shape == Shape::Shard {
            // One end of text for each document.
            let tokens = bare.encode() + bare.documents.len() as u64;
            let ids: Vec<u32> = (0..tokens as u32).collect();
            bare.copied = Some(std::sync::Mutex::new((ids.clone(), ids)));
        }
        bare
    }

    /// How many ids are copied in the tokenizer's place.
    pub(crate) fn tokens(&self) -> u64 {
        self.copied.as_ref().map_or(0, |buffers| buffers.lock().expect("no panic").0.len() as u64)
    }

    pub(crate) fn documents(&self) -> usize {
        self.documents.len()
    }

    /// How long it took, and how many tokens.
    pub(crate) fn run(&self) -> (Duration, u64) {
        let began = Instant::now();
        let tokens = match &self.copied {
            None => self.encode(),
            Some(buffers) => {
                let (from, to) = &mut *buffers.lock().expect("no panic");
                for _ in 0..EPOCHS {
                    to.copy_from_slice(black_box(from));
                    black_box(&to);
                }
                from.len() as u64 * EPOCHS
            }
        };
        (began.elapsed(), tokens)
    }

    fn encode(&self) -> u64 {
        encode(&self.documents, self.tokenizer, self.workers)
    }
}
