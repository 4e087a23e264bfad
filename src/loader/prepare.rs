//! Token shards of a config's sources: tokenized once, to be read many times.
//!
//! Each worker takes a split, reads and tokenizes it, and writes it to a segment of its own. A segment is given its
//! name when it is whole, so that a kill costs the segments under way and nothing else; what is there is passed over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use futures::future::join_all;
use serde::Serialize;

use super::tokenizer;
use crate::config::{Config, OnError, SourceConfig, SourceKind, names};
use crate::error::{Error, Result, panic_message};
use crate::files::write_atomically;
use crate::shards::{Manifest, SegmentWriter, Shards, TOKENIZER, Width, sweep};
use crate::source::{Source, SplitDocument, digest};
use crate::tokenizer::Tokenizer;

/// How long a segment is, in bytes: what a kill may cost each worker.
const SEGMENT_BYTES: u64 = 64 << 20;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// Splits that are tokenized, those that were there before among them, and all of them.
    pub splits: u64,
    /// How many there are.
    pub of: u64,
    /// Documents that were tokenized now.
    pub documents: u64,
    /// Documents that were skipped now, by the sources' `on_error` or by the tokenizer's failure.
    pub skipped: u64,
    /// Bytes of text that were tokenized now.
    pub text_bytes: u64,
    /// Their ids.
    pub tokens: u64,
}

/// Tokenizes a config's sources into shard directories: `directory` for one source, and for several a directory of
/// each one's name in it. Nothing is held out, and weights are noted and not drawn, so that any run may read them.
///
/// Splits that are there are passed over. `progress` is told of every step, from any thread.
///
/// # Errors
/// What reading and tokenizing the sources may end with, [`Error::Io`] for a directory that cannot be written, and
/// [`Error::Corpus`] for one that holds the tokens of another corpus or another tokenizer.
///
/// # Cancel safety
/// Dropping it leaves whole segments; calling it again goes on behind them.
pub async fn prepare(
    config: &Config,
    directory: &Path,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    config.validate()?;
    let source = Source::open_with(&config.sources, &config.store).await?;
    config.sources.iter().enumerate().try_for_each(|(index, source)| refuse_unpreparable(index, source))?;
    let tokenizer = tokenizer::open(config, &source).await?;
    let several = config.sources.len() > 1;
    let mut todo = Vec::new();
    let mut done = Prepared::default();
    for (index, name) in names(&config.sources).into_iter().enumerate() {
        let directory = if several { directory.join(name) } else { directory.to_owned() };
        let settings = &config.sources[index];
        let manifest = source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size());
        let missing = begin(&directory, &manifest, &*tokenizer)?;
        let identity = manifest.identity();
        done.of += manifest.splits();
        done.splits += manifest.splits() - missing.len() as u64;
        let first = source.only(index).first_split();
        let job = |split| Job {
            directory: directory.clone(),
            identity,
            split,
            number: first + split,
            on_error: settings.on_error,
        };
        todo.extend(missing.into_iter().map(job));
    }
    progress(done);
    let shared = Arc::new(Shared {
        source,
        tokenizer,
        todo,
        next: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
        begun: done,
        counts: Counts::default(),
        progress: Box::new(progress),
    });
    let stop = StopAtDrop(shared.clone());
    let worker = |_| {
        let shared = shared.clone();
        tokio::task::spawn_blocking(move || shared.work())
    };
    let workers = join_all((0..config.pipeline.workers.get()).map(worker)).await;
    drop(stop);
    for worker in workers {
        worker.map_err(|lost| Error::lost("prepare", lost))??;
    }
    Ok(shared.prepared())
}

/// Compares the checksums of all blocks of a shard directory, and says how many documents and ids it has.
///
/// # Errors
/// [`Error::Corpus`] for a block that is damaged, or splits that are not there; [`Error::Io`].
pub async fn verify_shards(directory: &Path) -> Result<(u64, u64)> {
    let directory = directory.to_owned();
    let job = tokio::task::spawn_blocking(move || {
        let shards = Shards::open(&directory)?.whole()?;
        shards.verify()?;
        Ok(shards.counts())
    });
    job.await.map_err(|lost| Error::lost("verify", lost))?
}

/// Refuses what cannot be read split by split.
fn refuse_unpreparable(index: usize, source: &SourceConfig) -> Result<()> {
    let problem = match source.kind {
        SourceKind::Shards => "it is of token shards already",
        _ if source.name.as_ref().is_some_and(|name| name.contains(['/', '\\'])) => {
            let problem = "it is the name of a directory too, and must have no slash";
            return Err(Error::config(format!("source.{index}.name"), problem));
        }
        _ if source.is_stdin() => {
            "standard input comes only once, and preparing must be able to go on; name files"
        }
        _ => return Ok(()),
    };
    Err(Error::config(format!("source.{index}.paths"), problem))
}

/// Makes the directory, or checks that it is of the same corpus and tokenizer; the splits that are not there.
fn begin(directory: &Path, manifest: &Manifest, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
    sweep(directory)?;
    if Manifest::is_in(directory) {
        Manifest::load(directory)?.check(manifest, directory)?;
    } else {
        if let Some(json) = tokenizer.tokenizer_json() {
            write_atomically(&directory.join(TOKENIZER), json.as_bytes())?;
        }
        manifest.save(directory)?;
    }
    let there = Shards::open(directory)?;
    let splits = 0..u32::try_from(manifest.splits()).unwrap_or(u32::MAX);
    Ok(splits.filter(|&split| there.tokens(split).is_none()).collect())
}

/// One split to be tokenized.
struct Job {
    directory: PathBuf,
    /// That of its source's manifest.
    identity: [u8; 32],
    /// Its number in its source, and among all.
    split: u32,
    number: u32,
    on_error: OnError,
}

/// What the workers share.
struct Shared {
    source: Source,
    tokenizer: Arc<dyn Tokenizer>,
    todo: Vec<Job>,
    next: AtomicUsize,
    is_stopped: AtomicBool,
    begun: Prepared,
    counts: Counts,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
}

#[derive(Default)]
struct Counts {
    splits: AtomicU64,
    documents: AtomicU64,
    skipped: AtomicU64,
    /// Those of them that the tokenizer failed on.
    failed: AtomicU64,
    text_bytes: AtomicU64,
    tokens: AtomicU64,
}

/// Nobody begins another split once whoever waits has gone away.
struct StopAtDrop(Arc<Shared>);

impl Drop for StopAtDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Shared {
    fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.next.store(self.todo.len(), Relaxed);
    }

    fn prepared(&self) -> Prepared {
        Prepared {
            splits: self.begun.splits + self.counts.splits.load(Relaxed),
            of: self.begun.of,
            documents: self.counts.documents.load(Relaxed),
            skipped: self.counts.skipped.load(Relaxed),
            text_bytes: self.counts.text_bytes.load(Relaxed),
            tokens: self.counts.tokens.load(Relaxed),
        }
    }

    /// One worker: takes split after split.
    fn work(&self) -> Result<()> {
        let mut segment: Option<(PathBuf, SegmentWriter)> = None;
        let done = catch_unwind(AssertUnwindSafe(|| self.splits(&mut segment))).unwrap_or_else(|payload| {
            segment = None;
            Err(Error::Panic { stage: "prepare", message: panic_message(&*payload) })
        });
        if done.is_err() {
            self.stop();
        }
        // What is whole is kept, whatever happened then.
        let kept = segment.map_or(Ok(None), |(_, writer)| writer.finish());
        done.and(kept.map(drop))
    }

    fn splits(&self, segment: &mut Option<(PathBuf, SegmentWriter)>) -> Result<()> {
        while let Some(job) = self.todo.get(self.next.fetch_add(1, Relaxed)) {
            let is_full = |(directory, writer): &(PathBuf, SegmentWriter)| {
                *directory != job.directory || writer.len() >= SEGMENT_BYTES
            };
            if segment.as_ref().is_some_and(is_full)
                && let Some((_, writer)) = segment.take()
            {
                writer.finish()?;
            }
            let (_, writer) = match segment {
                Some(open) => open,
                None => {
                    let width = Width::of(self.tokenizer.vocab_size());
                    segment.insert((
                        job.directory.clone(),
                        SegmentWriter::new(&job.directory, width, &job.identity)?,
                    ))
                }
            };
            let whole = self.split(job, writer);
            if !matches!(whole, Ok(true)) {
                writer.give_up()?;
            }
            if !whole? {
                break;
            }
            self.counts.splits.fetch_add(1, Relaxed);
            (self.progress)(self.prepared());
        }
        Ok(())
    }

    /// Tokenizes one split; false if it was stopped before its end.
    fn split(&self, job: &Job, writer: &mut SegmentWriter) -> Result<bool> {
        let mut documents = self.source.split(job.number);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        while let Some(read) = documents.next()? {
            if self.is_stopped.load(Relaxed) {
                return Ok(false);
            }
            let SplitDocument { document, start, next, share, skipped } = read;
            ids.clear();
            let text = document.text();
            let encoded = match self.encode(text, &mut ids) {
                Ok(()) => Some(&ids[..]),
                Err(problem) => {
                    let error = document.error(problem, "change the tokenizer, or take the document out");
                    self.refuse(job.on_error, error)?;
                    None
                }
            };
            writer.document(&crate::shards::Document {
                ids: encoded,
                start,
                next,
                digest: digest(text.as_bytes()),
                share,
                text_bytes: text.len(),
                skipped,
            })?;
            self.counts.documents.fetch_add(1, Relaxed);
            self.counts.text_bytes.fetch_add(text.len() as u64, Relaxed);
            self.counts.tokens.fetch_add(ids.len() as u64, Relaxed);
            bytes += text.len();
            if bytes >= 1 << 20 {
                bytes = 0;
                (self.progress)(self.prepared());
            }
        }
        self.counts.skipped.fetch_add(documents.skipped(), Relaxed);
        writer.split(job.split, documents.skipped())?;
        Ok(true)
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode(text, ids)))
            .unwrap_or_else(|payload| Err(format!("the tokenizer panicked: {}", panic_message(&*payload))))?;
        let vocab_size = self.tokenizer.vocab_size();
        match ids.iter().find(|id| **id as usize >= vocab_size) {
            None => Ok(()),
            Some(id) => Err(format!("the tokenizer gave the id {id}, and its vocabulary has {vocab_size}")),
        }
    }

    /// Notes a document that the tokenizer failed on, or says that no more may be.
    fn refuse(&self, on_error: OnError, error: Error) -> Result<()> {
        let failed = self.counts.failed.fetch_add(1, Relaxed);
        match on_error {
            OnError::Skip(most) if failed < most => {
                tracing::warn!(%error, "document skipped");
                self.counts.skipped.fetch_add(1, Relaxed);
                Ok(())
            }
            OnError::Skip(_) | OnError::Fail => Err(error),
        }
    }
}
