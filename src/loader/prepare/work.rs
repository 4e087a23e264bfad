//! The workers: each reads and writes split after split, and tokenizes groups of whichever split while it waits.
//!
//! So one long split keeps all of them busy, and many go on side by side. Held in memory: a bounded number of groups
//! over all splits, and one more for each split, which therefore always goes on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError};

use super::Prepared;
use super::groups::{Encoded, EncodedDocument, Group, Groups};
use crate::config::OnError;
use crate::error::{Error, Result, panic_message};
use crate::segment::{SEGMENT_BYTES, SegmentWriter, StoredDocument, Width};
use crate::source::{Source, SplitDocument};
use crate::tokenizer::{Encoder, Tokenizer};

/// How many groups are held for each worker: while who reads tokenizes one, the others must not run out of them.
const GROUPS_A_WORKER: usize = 4;

/// After how much text of a split progress is told, in bytes.
const TOLD_BYTES: u64 = 1 << 20;

/// The shard directory of one source.
#[derive(Debug)]
pub(super) struct Target {
    directory: PathBuf,
    /// That of its manifest.
    identity: [u8; 32],
    on_error: OnError,
    /// How many of its documents the tokenizer failed on.
    failed: AtomicU64,
}

impl Target {
    pub(super) fn new(directory: PathBuf, identity: [u8; 32], on_error: OnError) -> Self {
        Self { directory, identity, on_error, failed: AtomicU64::new(0) }
    }
}

/// One split to be tokenized.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) target: usize,
    /// Its number in its source, and among all.
    pub(super) split: u32,
    pub(super) number: u32,
}

/// What the workers share.
pub(super) struct Work {
    source: Source,
    /// With nothing around documents.
    encoder: Encoder,
    targets: Vec<Target>,
    todo: Vec<Job>,
    next: AtomicUsize,
    /// Groups that wait to be tokenized. It is closed when all splits are written, or nobody shall go on.
    groups: (async_channel::Sender<Group>, async_channel::Receiver<Group>),
    /// How many groups were read and not yet written, and how many may be.
    held: AtomicUsize,
    most_held: usize,
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
    text_bytes: AtomicU64,
    tokens: AtomicU64,
}

/// Nobody goes on once whoever waits has gone away.
pub(super) struct StopAtDrop(pub(super) Arc<Work>);

impl Drop for StopAtDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A segment under way, and whose it is.
type Segment = Option<(usize, SegmentWriter)>;

impl Work {
    pub(super) fn new(
        source: Source,
        tokenizer: Arc<dyn Tokenizer>,
        (targets, todo): (Vec<Target>, Vec<Job>),
        workers: usize,
        begun: Prepared,
        progress: Box<dyn Fn(Prepared) + Send + Sync>,
    ) -> Self {
        Self {
            source,
            encoder: Encoder::new(tokenizer),
            targets,
            todo,
            next: AtomicUsize::new(0),
            groups: async_channel::unbounded(),
            held: AtomicUsize::new(0),
            most_held: GROUPS_A_WORKER * workers,
            is_stopped: AtomicBool::new(false),
            begun,
            counts: Counts::default(),
            progress,
        }
    }

    fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.next.store(self.todo.len(), Relaxed);
        self.groups.0.close();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    pub(super) fn prepared(&self) -> Prepared {
        Prepared {
            splits: self.begun.splits + self.counts.splits.load(Relaxed),
            of: self.begun.of,
            documents: self.counts.documents.load(Relaxed),
            skipped: self.counts.skipped.load(Relaxed),
            text_bytes: self.counts.text_bytes.load(Relaxed),
            tokens: self.counts.tokens.load(Relaxed),
        }
    }

    /// One worker: takes split after split, and when there are none left it helps the others.
    pub(super) fn run(&self) -> Result<()> {
        let mut segment = None;
        let done = self.caught(|| self.splits(&mut segment));
        if matches!(done, Err(Error::Panic { .. })) {
            segment = None;
        }
        // What is whole is kept, whatever happened then.
        let kept = self.caught(|| segment.map_or(Ok(()), |(_, writer)| writer.finish().map(drop)));
        let help = || {
            while let Ok(group) = self.groups.1.recv_blocking() {
                self.encode(group);
            }
            Ok(())
        };
        done.and(kept).and_then(|()| self.caught(help))
    }

    /// Does some of the work. Nobody goes on if it fails.
    fn caught(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
            Err(Error::Panic { stage: "prepare", message: panic_message(&*payload) })
        });
        done.inspect_err(|_| self.stop())
    }

    fn splits(&self, segment: &mut Segment) -> Result<()> {
        while let Some(job) = self.todo.get(self.next.fetch_add(1, Relaxed)) {
            let writer = self.writer(segment, job.target)?;
            let whole = self.split(job, writer);
            if !matches!(whole, Ok(true)) {
                writer.give_up()?;
            }
            if !whole? {
                break;
            }
            let written = self.counts.splits.fetch_add(1, Relaxed) + 1;
            (self.progress)(self.prepared());
            if written == self.todo.len() as u64 {
                self.groups.0.close();
            }
        }
        Ok(())
    }

    /// The segment under way, or another if that is full or of another directory.
    fn writer<'a>(&self, segment: &'a mut Segment, target: usize) -> Result<&'a mut SegmentWriter> {
        let is_done =
            |(of, writer): &mut (usize, SegmentWriter)| *of != target || writer.len() >= SEGMENT_BYTES;
        if let Some((_, writer)) = segment.take_if(is_done) {
            writer.finish()?;
        }
        let (_, writer) = match segment {
            Some(open) => open,
            None => {
                let Target { directory, identity, .. } = &self.targets[target];
                let width = Width::of(self.encoder.tokenizer().vocab_size());
                segment.insert((target, SegmentWriter::new(directory, width, identity)?))
            }
        };
        Ok(writer)
    }

    /// Tokenizes one split; false if it was stopped before its end.
    fn split(&self, job: &Job, writer: &mut SegmentWriter) -> Result<bool> {
        let target = &self.targets[job.target];
        let mut groups = Groups::new(self.source.split(job.number));
        let mut pending = VecDeque::new();
        let mut untold = 0;
        while !self.is_stopped() {
            if self.may_read(pending.len())
                && let Some((group, answer)) = groups.next()
            {
                self.held.fetch_add(1, Relaxed);
                pending.push_back(answer);
                // It is closed when all shall stop, which is seen next.
                let _ = self.groups.0.try_send(group);
                continue;
            }
            let Some(first) = pending.pop_front() else {
                let skipped = groups.finish()?;
                self.counts.skipped.fetch_add(skipped, Relaxed);
                writer.split(job.split, skipped)?;
                return Ok(true);
            };
            let Some(encoded) = self.wait(&first) else { break };
            untold += self.write(encoded, target, writer)?;
            self.held.fetch_sub(1, Relaxed);
            if untold >= TOLD_BYTES {
                untold = 0;
                (self.progress)(self.prepared());
            }
        }
        Ok(false)
    }

    /// Whether a split of which `pending` groups are held may have another.
    fn may_read(&self, pending: usize) -> bool {
        pending == 0 || self.held.load(Relaxed) < self.most_held
    }

    /// What a group became; none if it was stopped. Meanwhile others are tokenized here.
    fn wait(&self, answer: &Receiver<Encoded>) -> Option<Encoded> {
        loop {
            match answer.try_recv() {
                Ok(encoded) => return Some(encoded),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => match self.groups.1.try_recv() {
                    Ok(group) => self.encode(group),
                    // Another worker has it already.
                    Err(_) => return answer.recv().ok(),
                },
            }
        }
    }

    fn encode(&self, group: Group) {
        group.encode(&self.encoder, || self.is_stopped());
    }

    /// Writes a group; the bytes of its text.
    fn write(&self, encoded: Encoded, target: &Target, writer: &mut SegmentWriter) -> Result<u64> {
        let Encoded { ids, documents } = encoded;
        let (mut start, mut bytes) = (0, 0);
        for EncodedDocument { read, digest, end } in documents {
            let SplitDocument { document, start: start_at, next, share, skipped } = read;
            let ids = match end {
                Ok(end) => Some(&ids[std::mem::replace(&mut start, end)..end]),
                Err(problem) => {
                    self.refuse(
                        target,
                        document.error(problem, "change the tokenizer, or take the document out"),
                    )?;
                    None
                }
            };
            let text_bytes = document.text_bytes();
            writer.document(&StoredDocument {
                ids,
                start: start_at,
                next,
                digest,
                share,
                text_bytes,
                skipped,
            })?;
            self.counts.documents.fetch_add(1, Relaxed);
            self.counts.text_bytes.fetch_add(text_bytes as u64, Relaxed);
            self.counts.tokens.fetch_add(ids.map_or(0, <[u32]>::len) as u64, Relaxed);
            bytes += text_bytes as u64;
        }
        Ok(bytes)
    }

    /// Notes a document that the tokenizer failed on, or says that no more of its source may be.
    fn refuse(&self, target: &Target, error: Error) -> Result<()> {
        let failed = target.failed.fetch_add(1, Relaxed);
        match target.on_error {
            OnError::Skip(most) if failed < most => {
                tracing::warn!(%error, "document skipped");
                self.counts.skipped.fetch_add(1, Relaxed);
                Ok(())
            }
            OnError::Skip(_) | OnError::Fail => Err(error),
        }
    }
}
