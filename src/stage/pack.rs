//! Ids in, sequences out.
//!
//! Held in memory: the parts of one sequence. Its cursor costs one number: the anchor is the cursor
//! before the document that the next sequence begins in, the skip how many of its ids come before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use crate::config::Pack as Mode;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Part, Sequence, Tokens};
use crate::error::Result;
use crate::meter::Meter;

/// How many rows a document fills that is too long to be kept for its last row's sake.
const LONG_DOCUMENT: usize = 16;

/// The stage of [`StageExt::pack`](super::StageExt::pack).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Pack<S> {
    tokens: Fuse<S>,
    packer: Packer,
    meter: Arc<Meter>,
    ended: bool,
}

impl<S> Pack<S>
where
    S: Stream<Item = Result<Tracked<Tokens>>>,
{
    pub(super) fn new(tokens: S, mode: Mode, seq_len: usize, start: &LaneCursor) -> Self {
        assert!(seq_len > 0, "a sequence of no targets");
        Self {
            tokens: tokens.fuse(),
            packer: Packer::new(mode, seq_len + 1, start),
            meter: Meter::new("pack"),
            ended: false,
        }
    }

    /// Counts in `meter`, which other lanes may share.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }
}

impl<S> Stream for Pack<S>
where
    S: Stream<Item = Result<Tracked<Tokens>>> + Unpin,
{
    type Item = Result<Tracked<Sequence>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(sequence) = this.meter.busy(|| this.packer.pop()) {
                let documents = std::mem::take(&mut this.packer.documents);
                this.meter.count(documents, sequence.value.len().saturating_sub(1) as u64, 0);
                return Poll::Ready(Some(Ok(sequence)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match ready!(this.tokens.poll_next_unpin(cx)) {
                Some(Ok(tokens)) => this.packer.push(tokens),
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.ended = true;
                    this.packer.finish();
                }
            }
        }
    }
}

/// Packing without its stream: push a document, then pop sequences until there is none.
#[derive(Debug)]
struct Packer {
    mode: Mode,
    width: usize,
    start: LaneCursor,
    /// The document that is being cut, the cursors before and after it, and how many ids are done.
    open: Option<Open>,
    /// The cursor after the document that was read last; unknown until one is read.
    before: Option<LaneCursor>,
    parts: Vec<Part>,
    len: usize,
    /// Documents that were read and not counted yet.
    documents: u64,
    finished: bool,
}

#[derive(Debug)]
struct Open {
    tokens: Tokens,
    before: LaneCursor,
    after: LaneCursor,
    done: usize,
}

impl Packer {
    fn new(mode: Mode, width: usize, start: &LaneCursor) -> Self {
        Self {
            mode,
            width,
            start: *start,
            open: None,
            before: None,
            parts: Vec::new(),
            len: 0,
            documents: 0,
            finished: false,
        }
    }

    fn push(&mut self, Tracked { value: tokens, cursor: after }: Tracked<Tokens>) {
        let depth = after.depth();
        let first = self.before.is_none();
        let before = self.before.unwrap_or_else(|| self.start.upstream(depth));
        let skip = if first { self.start.skip(depth) as usize } else { 0 };
        self.before = Some(after);
        let done = skip.min(tokens.len());
        self.documents += 1;
        if !tokens.is_empty() {
            self.open = Some(Open { tokens, before, after, done });
        }
    }

    /// No document follows.
    fn finish(&mut self) {
        self.finished = true;
    }

    fn pop(&mut self) -> Option<Tracked<Sequence>> {
        let Some(open) = &mut self.open else {
            // The last row of all; one id has no target.
            let last = self.finished && self.len > 1;
            return last.then(|| self.row(self.before.unwrap_or(self.start).anchored(0)));
        };
        let take = (self.width - self.len).min(open.tokens.len() - open.done);
        let range = open.done..open.done + take;
        open.done += take;
        self.len += take;
        if take > 0 {
            self.parts.push(Part::new(&open.tokens, range));
        }
        let whole = open.done == open.tokens.len();
        if self.len == self.width {
            // The row's last id is the next row's first.
            let last = open.done - 1..open.done;
            if !whole {
                let cursor = open.before.anchored(last.start as u64);
                open.done = last.start;
                return Some(self.row(cursor));
            }
            let Open { tokens, before, after, .. } = self.open.take()?;
            if self.mode == Mode::Pad {
                return Some(self.row(after.anchored(0)));
            }
            let row = self.row(before.anchored(last.start as u64));
            self.len = last.len();
            self.parts.push(self.kept(Part::new(&tokens, last)));
            return Some(row);
        }
        let after = open.after;
        self.open = None;
        if self.mode == Mode::Pad {
            return Some(self.row(after.anchored(0)));
        }
        if let Some(part) = self.parts.pop() {
            self.parts.push(self.kept(part));
        }
        None
    }

    /// The end of a document, in a row that has to wait for the next.
    fn kept(&self, part: Part) -> Part {
        part.detached(LONG_DOCUMENT * self.width)
    }

    /// Closes the row; `cursor` is the one after it.
    fn row(&mut self, cursor: LaneCursor) -> Tracked<Sequence> {
        self.len = 0;
        Tracked::new(Sequence::new(std::mem::take(&mut self.parts), self.width), cursor)
    }
}
