//! Facts about a source for the rest of the crate: its documents, their amount, and their places.

use std::path::Path;
#[cfg(feature = "tokenizers")]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Source;
use super::catalog::origin::Origin;
use super::catalog::samples::{self, Samples};
use super::formats::Opened;
use super::framing::{self, Shape};
use super::interleave;
use super::lane::Lane;
use crate::config::{PipelineConfig, SourceConfig};
use crate::cursor::SAMPLES;
use crate::error::Result;
use crate::files::{File, Listing};
use crate::render::Renderer;
use crate::shards::{Manifest, ShardedFile, Shards};
use crate::store::{Cancellable, Stores};
use crate::tokenizer::Encoder;

/// The samples of files that are not read.
static NO_SAMPLES: Samples = Samples { all: None, of_files: Vec::new() };

impl Source {
    /// Whether anything is read from stores.
    pub(crate) fn has_remote(&self) -> bool {
        self.corpus.has_remote(self.dealt.clone())
    }

    /// The same for a single lane that takes a sample of all files.
    pub(crate) fn interleave_of_sample(&self) -> usize {
        self.corpus.interleave(self.dealt.clone(), interleave::MOST_OF_SAMPLE, 1)
    }

    /// How many lanes can each have a split open within the memory bound: a power of two.
    pub(crate) fn most_lanes(&self) -> usize {
        let most = interleave::MOST_HELD_BY_LANES / self.corpus.held(self.dealt.clone()).max(1);
        1 << most.clamp(1, 1 << 16).ilog2()
    }

    /// About how much memory the open splits of one lane take beside the text that is read, in bytes, if the lane reads
    /// `interleave` splits side by side.
    pub(crate) fn open_bytes(&self, interleave: usize) -> usize {
        // Stored tokens are memory-mapped.
        if self.corpus.has_shards(self.dealt.clone()) {
            return 0;
        }
        let held = usize::try_from(self.corpus.held(self.dealt.clone())).unwrap_or(usize::MAX);
        held.saturating_mul(interleave)
    }

    /// About how much memory source `source` takes whether its files are open or not, in bytes.
    pub(crate) fn index_bytes(&self, source: usize) -> usize {
        usize::try_from(self.corpus.index_bytes(source)).unwrap_or(usize::MAX)
    }

    /// How many of the dealt documents are in token shards.
    pub fn stored_documents(&self) -> u64 {
        let shards = (!self.dealt.is_empty()).then(|| self.corpus.shard_set(self.first_split())).flatten();
        shards.and_then(|shards| shards.document_ends().last().copied()).unwrap_or_default()
    }

    /// About how many stored bytes are dealt to each lane in the first epoch.
    pub(crate) fn dealt_bytes(&self, lane: Lane) -> Vec<u64> {
        let splits = self.corpus.splits(self.dealt.clone());
        let dealt = |number| Lane { lane: number, ..lane }.deal(splits.clone(), 0);
        let bytes = |n| dealt(n).into_iter().map(|number| self.corpus.stored_len(number)).sum();
        (0..lane.lanes).map(bytes).collect()
    }

    /// The stores that hold files or token shards; `None` if all are local.
    pub(crate) fn stores(&self) -> Option<&Arc<Stores>> {
        let has_files = self.files().iter().any(|file| file.location.is_remote());
        let has_segments = self.corpus.sources.iter().any(|source| source.origin.remote().next().is_some());
        (has_files || has_segments).then_some(&self.corpus.stores)
    }

    /// The stores, whether they are used or not.
    pub(crate) fn all_stores(&self) -> &Arc<Stores> {
        &self.corpus.stores
    }

    /// The total length of the dealt files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files()[self.dealt.clone()].iter().map(|file| file.len).sum()
    }

    /// Where the documents of source `source` come from.
    pub(crate) fn origin(&self, source: usize) -> &Origin {
        self.corpus.sources.get(source).map_or(&Origin::Program, |source| &source.origin)
    }

    /// Whether the program gives the documents.
    pub(crate) fn is_custom(&self) -> bool {
        self.corpus.sources.is_empty()
    }

    /// The settings of source `source` that the order depends on. For token shards, the config of the source that they
    /// were made from.
    pub(crate) fn settings(&self, source: usize) -> Option<&SourceConfig> {
        self.corpus.sources.get(source).map(|source| &source.settings)
    }

    /// The sources that a tokenizer can be tried or trained on: all of them if all have text, else the first that has.
    /// Standard input counts only if nothing else reads it (`is_all`), since it can be read once. `None` if no source
    /// has text.
    pub(crate) fn texts(&self, is_all: bool) -> Option<Self> {
        let has_text = |source: &usize| match self.origin(*source) {
            Origin::Files => true,
            Origin::Stdin => is_all,
            Origin::Shards(_) | Origin::Program => false,
        };
        let sources = 0..self.corpus.sources.len();
        match sources.clone().all(|source| has_text(&source)) {
            true => Some(self.clone()),
            false => sources.into_iter().find(has_text).map(|source| self.only(source)),
        }
    }

    /// The number of the first dealt split, among the splits of all sources.
    pub(crate) fn first_split(&self) -> u32 {
        self.corpus.splits(self.dealt.clone()).start
    }

    /// The manifest for token shards of source `source`, made by the tokenizer with the fingerprint `tokenizer`.
    pub(crate) fn manifest(&self, source: usize, tokenizer: String, vocab_size: usize) -> Manifest {
        let file = |number: usize| {
            let File { location, len, unit, etag, .. } = self.files()[number].clone();
            let path = location.as_path().to_owned();
            let (cut, held) = (self.corpus.layouts[number].cut(), self.corpus.held[number]);
            ShardedFile { path, len, unit, etag, cut, held, root: self.files().root(number) }
        };
        let files = self.only(source).dealt.map(file).collect();
        let mut manifest =
            Manifest::new(tokenizer, vocab_size, self.corpus.sources[source].settings.clone(), files);
        if let Some(rendering) = self.corpus.rendering(source) {
            (manifest.rendering, manifest.row_ids) = (Some(rendering.fingerprint()), rendering.row_ids());
        }
        manifest
    }

    /// What renders the records of source `source` as they are read, if something does.
    pub(crate) fn rendering(&self, source: usize) -> Option<&Arc<Renderer>> {
        self.corpus.rendering(source)
    }

    /// All that the records of source `source` are rendered with; for token shards, that they were rendered with.
    pub(crate) fn rendered(&self, source: usize) -> Option<String> {
        match self.origin(source).shards() {
            Some(shards) => shards.all()[0].manifest().rendering.clone(),
            None => self.rendering(source).map(|rendering| rendering.fingerprint()),
        }
    }

    /// Why nothing is learned from in all conversations so far of one of the sources, if there is such a source.
    pub(crate) fn unlearned(&self) -> Option<String> {
        (0..self.corpus.sources.len()).find_map(|source| self.rendering(source)?.unlearned())
    }

    /// Makes conversations fit into rows, unless packing cuts documents anywhere, and warns of tokens that templates lack.
    /// Call it before the first read, once the tokenizer is known.
    pub(crate) fn fit(&self, encoder: &Encoder, pipeline: &PipelineConfig) {
        for rendering in (0..self.corpus.sources.len()).filter_map(|source| self.corpus.rendering(source)) {
            if let Some(row_ids) = pipeline.row_ids() {
                rendering.fit(encoder, row_ids);
            }
            if self.logs {
                rendering.check_tokens(&**encoder.tokenizer());
            }
        }
    }

    /// The directories of token shards, each with the number of its source.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (usize, &Shards)> {
        let sources = self.corpus.sources.iter().enumerate();
        let shards = sources.filter_map(|(index, source)| Some((index, source.origin.shards()?.all())));
        shards.flat_map(|(index, all)| all.iter().map(move |shards| (index, shards)))
    }

    /// The file of the tokenizer that made the first token shards, if there are any and it has one.
    #[cfg(feature = "tokenizers")]
    pub(crate) fn stored_tokenizer(&self) -> Option<PathBuf> {
        self.shards().next().and_then(|(_, shards)| shards.tokenizer())
    }

    /// The first token shards, if there are any: where they are, and the fingerprint of the tokenizer that made them.
    pub(crate) fn stored_fingerprint(&self) -> Option<(&Path, &str)> {
        self.shards().next().map(|(_, shards)| (shards.place().path(), &*shards.manifest().tokenizer))
    }

    /// The number of the first dealt file, among those of all sources.
    pub(crate) fn first_file(&self) -> u32 {
        self.dealt.start as u32
    }

    /// The identity of the dealt files for a cursor: their summary and, where local files are read, a digest of samples
    /// of their text. Reads the samples on the calling thread.
    pub(crate) fn identity(&self) -> Result<String> {
        let samples = self.samples()?.all.as_ref();
        Ok(format!(
            "{}{}",
            self.summary(),
            samples.map_or_else(String::new, |samples| format!("{SAMPLES}{samples}"))
        ))
    }

    /// Samples of the local ones of the dealt files, which belong to one source. They are taken once, on the calling thread.
    fn samples(&self) -> Result<&Samples> {
        let files = &self.files()[self.dealt.clone()];
        let is_read = |file: &&File| matches!(self.origin(file.source), Origin::Files);
        let Some(first) = files.first().filter(is_read) else { return Ok(&NO_SAMPLES) };
        let taken = &self.corpus.samples[first.source];
        match taken.get() {
            Some(samples) => Ok(samples),
            None => Ok(samples::take(files).map(|samples| taken.get_or_init(|| samples))?),
        }
    }

    /// The listing of all files, whose sources have these names, with the samples that were taken of them.
    pub(crate) fn listing(&self, names: &[String]) -> Listing {
        let of_source = |(source, taken): (usize, &OnceLock<Samples>)| {
            let first = self.only(source).dealt.start;
            let samples = taken.get().map(|samples| samples.of_files.clone()).unwrap_or_default();
            samples.into_iter().map(move |(number, digest)| (first + number, digest))
        };
        let samples = self.corpus.samples.iter().enumerate().flat_map(of_source);
        Listing::new(names, self.files()).with_samples(samples)
    }

    /// Whether a document of file `file` may begin at `byte`: at the file's start, after a line's end, or where a
    /// record begins. Reads the file on the calling thread.
    pub(crate) fn may_begin(&self, file: u32, byte: u64) -> Result<bool> {
        if byte == 0 {
            return Ok(true);
        }
        if let Some(begins) = self.corpus.begins_in_shards(file, byte)? {
            return Ok(begins);
        }
        let opener = self.corpus.unplanned(Cancellable::never());
        let (mut content, shape) = match self.corpus.open(file, &opener)? {
            Opened::Text(content, shape) => (content, shape),
            Opened::Records(mut records) => return Ok(records.problem(byte)?.is_none()),
        };
        let mut bytes = Vec::new();
        content.read(byte.saturating_sub(3), byte.min(3) as usize + 1, &mut bytes)?;
        // The last of these bytes is the document's first.
        let is_within = bytes.len() as u64 == byte.min(3) + 1;
        let is_start = byte == 3 && framing::bom_len(&bytes) == 3;
        let is_line = shape != Shape::File && bytes.iter().rev().nth(1) == Some(&b'\n');
        Ok(is_within && (is_start || is_line))
    }

    /// Whether this stream logs.
    pub(crate) fn logs(&self) -> bool {
        self.logs
    }
}
