//! Gathers the documents of a stream into groups.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::Stream;

use super::super::input::Input;
use super::super::window_order::Delivered;
use super::group::budget_of;
use crate::budget::Budget;
use crate::cursor::Tracked;
use crate::document::{Document, DocumentGroup};
use crate::error::Result;
use crate::meter::Meter;

/// The bytes of text in one blocking job. At 250 MB/s that is two milliseconds of work, some hundred times
/// the cost of the hand-over.
const GROUP_BYTES: usize = 512 << 10;

/// A job's text is at most its budget divided by this number: the ids take four times as much as the text.
const BUDGET_SHARE: usize = 32;

/// The text of the first jobs of all lanes together is a job's text divided by two to this power. Each later
/// job has twice as much.
const FIRST_SHIFT: u32 = 4;

/// The text of a lane's first job is at least a job's text divided by two to this power.
const LEAST_SHIFT: u32 = 8;

/// The most documents in one blocking job; short documents reach this bound.
const GROUP_DOCUMENTS: usize = 4096;

/// A stream of documents, and those of the next group.
#[derive(Debug)]
pub(super) struct Gather<S> {
    documents: Input<S, Tracked<Document>>,
    /// Counts the time that it takes to get documents, if set.
    pub(super) upstream: Option<Arc<Meter>>,
    group: Vec<Tracked<Document>>,
    bytes: usize,
    /// Whether the first documents of the stream need no ids.
    is_delivered: std::vec::IntoIter<bool>,
}

impl<S> Gather<S> {
    pub(super) fn new(documents: S) -> Self {
        Self {
            documents: Input::new(documents),
            upstream: None,
            group: Vec::new(),
            bytes: 0,
            is_delivered: Vec::new().into_iter(),
        }
    }

    /// Whether more groups may come.
    pub(super) fn is_open(&self) -> bool {
        !self.documents.is_over()
    }

    /// Whether each document of a group needs no ids. The first group finds that out.
    pub(super) fn take_delivered(
        &mut self,
        delivered: &mut Option<Delivered>,
        group: &DocumentGroup,
    ) -> Vec<bool> {
        if let (Some(delivered), Some(first)) = (*delivered, group.documents.first()) {
            self.is_delivered = delivered.in_window(&first.cursor).into_iter();
        }
        *delivered = None;
        self.is_delivered.by_ref().take(group.documents.len()).collect()
    }
}

impl<S> Gather<S>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    /// Returns the next group, if it is worth a job of its own: it is whole, or there is nothing else to wait for. The
    /// error of the stream comes with the last group.
    pub(super) fn poll_group(
        &mut self,
        cx: &mut Context<'_>,
        started: u32,
        streams: usize,
        is_idle: bool,
    ) -> Option<DocumentGroup> {
        if !self.is_open() {
            return None;
        }
        // The first groups are small, so that the first batch comes at once.
        let shift = (FIRST_SHIFT + streams.ilog2()).min(LEAST_SHIFT).saturating_sub(started);
        let began = self.upstream.as_ref().map(|_| Instant::now());
        let gathered = self.gather(cx, shift);
        if let (Some(upstream), Some(began)) = (&self.upstream, began) {
            upstream.add_busy(began.elapsed());
        }
        let is_wanted = gathered.is_ready() || is_idle && !self.group.is_empty();
        if !is_wanted {
            return None;
        }
        // The next group has about as many documents, except that each of the first has twice as many as the one before.
        let likely = self.group.len() << u32::from(shift > 0);
        let documents = std::mem::replace(&mut self.group, Vec::with_capacity(likely.min(GROUP_DOCUMENTS)));
        self.bytes = 0;
        let moving = budget_of(&documents).map(Budget::moving);
        let error = match gathered {
            Poll::Ready(true) => self.documents.close(),
            Poll::Ready(false) | Poll::Pending => None,
        };
        Some(DocumentGroup { documents, events: VecDeque::new(), error, moving })
    }

    /// Takes documents until the group is whole. Returns whether none is left.
    fn gather(&mut self, cx: &mut Context<'_>, shift: u32) -> Poll<bool> {
        while !self.is_whole(shift) {
            let Some(document) = ready!(self.documents.poll_next(cx)) else { return Poll::Ready(true) };
            // A document as long as a group becomes its own group: otherwise the documents gathered before it
            // would keep its ids. One from another corpus does too, since a group has one list of files.
            let of_group = |first: &Tracked<Document>| {
                Arc::ptr_eq(first.value.files(), document.value.files())
                    && document.value.size() < most_bytes(first)
            };
            if !self.group.first().is_none_or(of_group) {
                self.documents.put_back(document);
                break;
            }
            self.bytes += document.value.size();
            self.group.push(document);
        }
        Poll::Ready(false)
    }

    /// Whether the group is as large as one job should be.
    fn is_whole(&self, shift: u32) -> bool {
        let most = self.group.first().map_or(GROUP_BYTES, most_bytes) >> shift;
        self.bytes >= most || self.group.len() >= GROUP_DOCUMENTS
    }
}

/// How much text a group that begins with this document has. In a small budget it has less: a single document
/// that waits downstream keeps the ids of its whole group.
fn most_bytes(first: &Tracked<Document>) -> usize {
    let budget = first.value.lease().budget();
    budget.map_or(GROUP_BYTES, |budget| GROUP_BYTES.min(budget.limit() / BUDGET_SHARE))
}
