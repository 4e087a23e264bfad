//! The workers. Each makes one segment after the other, split by split, and tokenizes groups of any split while it
//! waits.
//!
//! So one long split keeps all workers busy, and many splits go on side by side. Held in memory: a bounded
//! number of groups over all splits, and one more for each split, so that every split can always go on.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};

use super::Prepared;
use super::groups::{Encoded, Group, Groups};
use crate::config::OnError;
use crate::document::Mask;
use crate::error::{Error, Result, panic_message};
use crate::lock::DirLock;
use crate::segment::{SegmentWriter, StoredDocument, StoredText, Width};
use crate::shards::ShardPlace;
use crate::source::{LeftOutDocument, Source, SplitDocument, SplitItem};
use crate::threads::lock;
use crate::tokenizer::Encoder;

/// How many groups are held per worker: while a reader tokenizes one of them, the others must not run out.
const GROUPS_A_WORKER: usize = 4;

/// Progress is reported each time this many bytes of a split's text are done.
const TOLD_BYTES: u64 = 1 << 20;

/// The shard directory of one source.
#[derive(Debug)]
pub(super) struct PrepareTarget {
    place: ShardPlace,
    /// Where its segments are written until they are complete.
    scratch: PathBuf,
    /// The identity in its manifest.
    identity: [u8; 32],
    on_error: OnError,
    /// Held until the last worker is done, even if nobody waits for it. A store has none.
    _lock: Option<DirLock>,
}

impl PrepareTarget {
    pub(super) fn new(
        place: ShardPlace,
        identity: [u8; 32],
        on_error: OnError,
        lock: Option<DirLock>,
    ) -> Self {
        let scratch = place.directory().map_or_else(std::env::temp_dir, Path::to_owned);
        Self { place, scratch, identity, on_error, _lock: lock }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) target: usize,
    pub(super) name: String,
    /// The numbers of its splits in their source.
    pub(super) splits: Range<u32>,
    /// The number of the source's first split among all.
    pub(super) first: u32,
}

/// The state that the workers share.
pub(super) struct PrepareWork {
    source: Source,
    /// It adds nothing around documents.
    encoder: Encoder,
    targets: Vec<PrepareTarget>,
    todo: Vec<Job>,
    next: AtomicUsize,
    /// Groups that wait to be tokenized. Closed when all segments are written, or when all workers must stop.
    groups: (async_channel::Sender<Group>, async_channel::Receiver<Group>),
    /// How many groups were read but not yet written, and how many there may be.
    held: AtomicUsize,
    most_held: usize,
    is_stopped: AtomicBool,
    done: Mutex<Prepared>,
    /// How many segments are written.
    segments: AtomicUsize,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
}

/// Stops all workers when the future that waits for them is dropped.
pub(super) struct StopAtDrop(pub(super) Arc<PrepareWork>);

impl Drop for StopAtDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl PrepareWork {
    pub(super) fn new(
        source: Source,
        encoder: Encoder,
        targets: Vec<PrepareTarget>,
        todo: Vec<Job>,
        workers: usize,
        begun: Prepared,
        progress: Box<dyn Fn(Prepared) + Send + Sync>,
    ) -> Self {
        Self {
            source,
            encoder,
            targets,
            todo,
            next: AtomicUsize::new(0),
            groups: async_channel::unbounded(),
            held: AtomicUsize::new(0),
            most_held: GROUPS_A_WORKER * workers,
            is_stopped: AtomicBool::new(false),
            done: Mutex::new(begun),
            segments: AtomicUsize::new(0),
            progress,
        }
    }

    /// Makes all workers end soon. They drop the segments under way.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.next.store(self.todo.len(), Relaxed);
        self.groups.0.close();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    pub(super) fn prepared(&self) -> Prepared {
        *lock(&self.done)
    }

    /// Runs one worker: it makes one segment after the other, and helps the others when none are left.
    pub(super) fn run(&self) -> Result<()> {
        self.caught(|| self.segments())?;
        self.caught(|| {
            while let Ok(group) = self.groups.1.recv_blocking() {
                self.encode(group);
            }
            Ok(())
        })
    }

    /// Does some of the work. If it fails, all workers stop.
    fn caught(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
            Err(Error::Panic { stage: "prepare", message: panic_message(&*payload) })
        });
        done.inspect_err(|_| self.stop())
    }

    fn segments(&self) -> Result<()> {
        while let Some(job) = self.todo.get(self.next.fetch_add(1, Relaxed)) {
            if !self.segment(job)? {
                break;
            }
            lock(&self.done).splits += job.splits.len() as u64;
            (self.progress)(self.prepared());
            if self.segments.fetch_add(1, Relaxed) + 1 == self.todo.len() {
                self.groups.0.close();
            }
        }
        Ok(())
    }

    /// Makes one segment. Returns false if it was stopped before its end.
    fn segment(&self, job: &Job) -> Result<bool> {
        let target = &self.targets[job.target];
        let width = Width::for_vocab(self.encoder.tokenizer().vocab_size());
        let mut writer = SegmentWriter::new(&target.scratch, width, &target.identity)?;
        for split in job.splits.clone() {
            if !self.split(job, split, &mut writer)? {
                return Ok(false);
            }
        }
        target.place.put(&job.name, writer.complete()?)?;
        Ok(true)
    }

    /// Tokenizes one split. Returns false if it was stopped before the split's end.
    fn split(&self, job: &Job, split: u32, writer: &mut SegmentWriter) -> Result<bool> {
        let on_error = self.targets[job.target].on_error;
        let mut groups = Groups::new(self.source.split(job.first + split));
        let mut pending = VecDeque::new();
        let (mut untold, mut failed) = (0, 0);
        while !self.is_stopped() {
            if self.may_read(pending.len())
                && let Some((group, answer)) = groups.next()
            {
                self.held.fetch_add(1, Relaxed);
                pending.push_back(answer);
                // The queue is closed when all workers must stop, which is checked next.
                let _ = self.groups.0.try_send(group);
                continue;
            }
            let Some(first) = pending.pop_front() else {
                groups.finish()?;
                writer.split(split)?;
                return Ok(true);
            };
            let Some(encoded) = self.wait(&first) else { break };
            untold += self.write(encoded, on_error, &mut failed, writer)?;
            self.held.fetch_sub(1, Relaxed);
            if untold >= TOLD_BYTES {
                untold = 0;
                (self.progress)(self.prepared());
            }
        }
        Ok(false)
    }

    /// Whether a split that holds `pending` groups may read another.
    fn may_read(&self, pending: usize) -> bool {
        pending == 0 || self.held.load(Relaxed) < self.most_held
    }

    /// Waits for a group's result, and tokenizes other groups meanwhile. Returns `None` if the work was
    /// stopped.
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

    /// Writes a group, and returns the bytes of its text. The tokenizer has `failed` on this many documents of its split;
    /// with more than `on_error` allows, this is the error of the next.
    fn write(
        &self,
        encoded: Encoded,
        on_error: OnError,
        failed: &mut u64,
        writer: &mut SegmentWriter,
    ) -> Result<u64> {
        let Encoded { ids, mask: of_group, documents } = encoded;
        let (mut begin, mut now) = (0, Prepared::default());
        for (item, end) in documents {
            let mut mask = Mask::default();
            let (stored, columns) = match item {
                SplitItem::Document(SplitDocument { document, start, share, digest }) => {
                    let text_bytes = document.text_bytes();
                    let (ids, text) = match end {
                        Ok(end) => {
                            let own = std::mem::replace(&mut begin, end)..end;
                            mask.append(&of_group, own.clone(), 0);
                            (&ids[own], StoredText::Bytes(text_bytes as u32))
                        }
                        Err(error) => {
                            if *failed >= on_error.most() {
                                return Err(error);
                            }
                            tracing::warn!(%error, "document skipped");
                            *failed += 1;
                            now.skipped += 1;
                            (&[][..], StoredText::Failed)
                        }
                    };
                    now.documents += 1;
                    now.text_bytes += text_bytes as u64;
                    now.tokens += ids.len() as u64;
                    // All have one since they were tokenized.
                    let digest = digest.unwrap_or_default();
                    let stored =
                        StoredDocument { ids, digest, share, ..StoredDocument::without_ids(start, text) };
                    (stored, document.columns().as_ref().map(|columns| columns.store()))
                }
                SplitItem::Skipped(start) => {
                    now.skipped += 1;
                    (StoredDocument::without_ids(start, StoredText::Skipped), None)
                }
                SplitItem::LeftOut(LeftOutDocument { start, share, digest, columns }) => {
                    now.skipped += 1;
                    let left_out = StoredDocument::without_ids(start, StoredText::LeftOut);
                    (StoredDocument { digest, share, ..left_out }, columns.map(|columns| columns.store()))
                }
            };
            writer.document(StoredDocument {
                masked: mask.masked(),
                columns: columns.as_deref(),
                ..stored
            })?;
        }
        let done = &mut *lock(&self.done);
        for (all, now) in [
            (&mut done.documents, now.documents),
            (&mut done.skipped, now.skipped),
            (&mut done.text_bytes, now.text_bytes),
            (&mut done.tokens, now.tokens),
        ] {
            *all += now;
        }
        Ok(now.text_bytes)
    }
}
