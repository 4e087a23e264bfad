//! One group of documents in one blocking job: texts in, an arena of ids out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use super::skips::Refused;
use crate::budget::{Budget, Lease, Moving};
use crate::config::OnError;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Arena, Document, Position, Tokens};
use crate::error::Result;
use crate::shards::Recorder;
use crate::tokenizer::Encoder;

/// A group after its job: ids in one arena, and the documents that they belong to.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) arena: Arc<Arena>,
    pub(super) items: std::vec::IntoIter<Result<Item, Box<Refused>>>,
    start: usize,
    pub(super) finished: Instant,
    _moving: Option<Moving>,
}

#[derive(Debug)]
pub(super) struct Item {
    end: usize,
    pub(super) text_bytes: usize,
    position: Position,
    cursor: LaneCursor,
}

impl Encoded {
    /// Gives the documents to a recorder, without the ids `around` them.
    pub(super) fn record(&self, (before, behind): (usize, usize), recorder: &mut Recorder) {
        let mut start = self.start;
        // Those that were refused are missed by their count.
        for item in self.items.as_slice().iter().flatten() {
            let ids = &self.arena.ids[start + before..item.end - behind];
            start = item.end;
            let Position { byte, line, .. } = item.position;
            recorder.document(ids, (byte, line.saturating_sub(1)), item.text_bytes, &item.cursor);
        }
        recorder.settle();
    }

    pub(super) fn next(&mut self) -> Option<Result<Tracked<Tokens>, Refused>> {
        let item = match self.items.next()? {
            Ok(item) => item,
            Err(refused) => return Some(Err(*refused)),
        };
        let range: Range<usize> = self.start..item.end;
        self.start = item.end;
        let tokens = Tokens::in_arena(self.arena.clone(), range, item.text_bytes, item.position);
        Some(Ok(Tracked::new(tokens, item.cursor)))
    }
}

/// Encodes a group of documents, of which those that the tokenizer refuses leave no ids; it ends with the first
/// such if none may be skipped.
pub(super) fn encode(
    encoder: &Encoder,
    group: Vec<Tracked<Document>>,
    moving: Option<Moving>,
    on_error: OnError,
    ids_per_kib: &AtomicUsize,
) -> Encoded {
    let per_kib = ids_per_kib.load(Relaxed);
    let mut ids = Vec::with_capacity(group.iter().map(|document| document.value.likely_ids(per_kib)).sum());
    let mut items = Vec::with_capacity(group.len());
    for Tracked { value: document, cursor } in &group {
        if let Err(error) = encoder.accept(document) {
            items.push(Err(Box::new(Refused { epoch: cursor.epoch, error })));
            break;
        }
        let problem = match encoder.encode_document(document, &mut ids) {
            Ok(()) => {
                items.push(Ok(Item {
                    end: ids.len(),
                    text_bytes: document.text_bytes(),
                    position: document.position(),
                    cursor: *cursor,
                }));
                continue;
            }
            Err(problem) => problem,
        };
        let error = document.error(problem, "change the tokenizer, or take the document out");
        items.push(Err(Box::new(Refused { epoch: cursor.epoch, error })));
        if on_error == OnError::Fail {
            break;
        }
    }
    let text: usize = group.iter().map(|document| document.value.size()).sum();
    if text > 0 {
        // A sixteenth more, so that most arenas need not grow.
        ids_per_kib.store((ids.len() * (1024 + 64)).div_ceil(text), Relaxed);
    }
    let files = group[0].value.files().clone();
    let lease = ids_lease(&group, &mut ids);
    Encoded {
        arena: Arc::new(Arena { ids, files, _lease: lease }),
        items: items.into_iter(),
        start: 0,
        finished: Instant::now(),
        _moving: moving,
    }
}

/// The budget that a group's texts are charged to; a stage of the user's may have put in some that are not.
pub(super) fn budget_of(group: &[Tracked<Document>]) -> Option<&Arc<Budget>> {
    group.iter().find_map(|document| document.value.lease().budget())
}

/// Moves the room for ids that was taken with the documents' text to their arena.
fn ids_lease(group: &[Tracked<Document>], ids: &mut Vec<u32>) -> Lease {
    let Some(budget) = budget_of(group) else { return Lease::none() };
    let reserved: usize = group
        .chunk_by(|a, b| std::ptr::eq(a.value.lease(), b.value.lease()))
        .map(|run| {
            let most: usize = run.iter().map(|document| document.value.most_ids()).sum();
            run[0].value.lease().take(size_of::<u32>() * most)
        })
        .sum();
    // The room is guessed from the jobs before, which differ by chance; what is charged must not.
    if ids.capacity() > ids.len() + ids.len() / 8 {
        ids.shrink_to_fit();
    }
    budget.resize(reserved, ids.len() * size_of::<u32>())
}
