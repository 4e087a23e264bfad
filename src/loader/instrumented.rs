//! Measures a custom stage: how long it works, how much it outputs, and whether its output keeps the rules of later
//! stages.
//!
//! Both its input and its output are measured, so that time spent on getting input does not count as the stage's own.
//! Two reads of the clock cost as much as passing on several documents, so for short items only one in seven is
//! measured. Output is checked where it is new: ids that a stage made must be in the vocabulary, a mask must be known, and
//! rows must have their width. A mistake or a panic becomes an error that names the stage. So does a stage that gives
//! nothing of epoch after epoch: an endless stream would never have a batch, and say nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::cursor::{MAX_DEPTH, Tracked};
use crate::document::{Document, Sequence, Tokens};
use crate::error::{Error, Result, panic_message};
use crate::files::{Files, Position};
use crate::meter::{Meter, Sample};
use crate::stage::MOST_SILENT_EPOCHS;

/// The rules of the stages after a custom one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) vocab_size: usize,
    /// How wide a row is, in ids.
    pub(super) width: usize,
}

/// How many stages that hold items back come after documents and tokens: shuffle and pack.
const STAGES_BEHIND: usize = 2;

/// What flows through custom stages.
pub(super) trait Item: Send + Sized + 'static {
    const SAMPLE: fn() -> Sample;

    /// How many stages that hold items back may come before this place.
    const MOST_DEPTH: usize;

    /// How many documents, tokens and bytes of text the item is.
    fn size(&self) -> [u64; 3];

    /// Describes what is wrong with the item, if anything.
    fn problem(&self, bounds: &Bounds) -> Option<String>;
}

impl Item for Document {
    const SAMPLE: fn() -> Sample = Sample::seventh;
    const MOST_DEPTH: usize = MAX_DEPTH - STAGES_BEHIND;

    fn size(&self) -> [u64; 3] {
        [1, 0, self.text_bytes() as u64]
    }

    fn problem(&self, _: &Bounds) -> Option<String> {
        let problem = || {
            let place = place(self.files(), self.position());
            format!(
                "it changed the text of a document{place} of which only a part is learned from, or which was rendered \
                 from a record, and did not say which bytes of the new text are learned from; give it a mask with \
                 Document::with_mask, and say where its special tokens are with Document::with_special_tokens"
            )
        };
        self.is_mask_lost().then(problem)
    }
}

impl Item for Tokens {
    const SAMPLE: fn() -> Sample = Sample::seventh;
    const MOST_DEPTH: usize = MAX_DEPTH - STAGES_BEHIND;

    fn size(&self) -> [u64; 3] {
        [1, self.len() as u64, self.text_bytes() as u64]
    }

    fn problem(&self, bounds: &Bounds) -> Option<String> {
        let ids = self.custom_ids()?;
        let lost = || lost(self.files(), self.position());
        unknown(ids, bounds, self.files(), self.position()).or_else(|| self.is_mask_lost().then(lost))
    }
}

impl Item for Sequence {
    const SAMPLE: fn() -> Sample = Sample::all;
    const MOST_DEPTH: usize = MAX_DEPTH;

    fn size(&self) -> [u64; 3] {
        [0, self.len() as u64, 0]
    }

    fn problem(&self, bounds: &Bounds) -> Option<String> {
        if self.width() != bounds.width {
            let (width, is) = (bounds.width, self.width());
            return Some(format!(
                "it gave a row that is {is} ids wide, and rows of this config are {width} wide; make it with \
                 Sequence::new(parts, {width})"
            ));
        }
        let custom = self.parts().iter().filter_map(|part| Some((part, part.custom_ids()?)));
        let mut problems = custom.filter_map(|(part, ids)| {
            let lost = || lost(part.files(), part.position());
            unknown(ids, bounds, part.files(), part.position()).or_else(|| part.is_mask_lost().then(lost))
        });
        problems.next()
    }
}

/// The message for ids that a custom stage made, if one of them is not in the vocabulary.
fn unknown(ids: &[u32], bounds: &Bounds, files: &Files, position: Position) -> Option<String> {
    let vocab_size = bounds.vocab_size;
    if ids.iter().copied().max().is_none_or(|most| (most as usize) < vocab_size) {
        return None;
    }
    let id = ids.iter().find(|id| **id as usize >= vocab_size)?;
    let place = match files.known_path(position.file) {
        None => String::new(),
        Some(_) => format!(" in the document{}", place(files, position)),
    };
    Some(format!(
        "it gave the id {id}{place}, and the vocabulary has {vocab_size} ids; ids must be less than that"
    ))
}

/// The message for ids that a custom stage made, of which it is not known which are learned from.
fn lost(files: &Files, position: Position) -> String {
    let place = place(files, position);
    format!(
        "it changed the ids of a document{place} of which only a part is learned from, and did not say which of the new \
         ids are learned from; give them a mask with Tokens::with_mask"
    )
}

/// Where a document is, in words; empty if it came from no file.
fn place(files: &Files, position: Position) -> String {
    let path = files.known_path(position.file);
    path.map_or_else(String::new, |path| format!(" at byte {} of {}", position.byte, path.display()))
}

/// The state that the two ends of a stage share.
#[derive(Debug, Default)]
struct Ends {
    is_measured: AtomicBool,
    /// The time spent on its input so far, in nanoseconds.
    upstream: AtomicU64,
    /// Whether there was no input when the stage asked last.
    is_starved: AtomicBool,
    /// Whether the stage is being polled, and whether a task of its own asks for input instead.
    is_polled: AtomicBool,
    asks_apart: AtomicBool,
    /// Whether the stage has output a text, an id or a row since the last input.
    has_output: AtomicBool,
}

/// The input of a custom stage.
struct Input<T> {
    name: String,
    items: BoxStream<'static, Result<Tracked<T>>>,
    ends: Arc<Ends>,
    /// The epoch of the first item since the stage's last output.
    since: Option<u64>,
}

impl<T> Input<T> {
    /// Returns the item, or an error if the stage has output nothing of too many epochs.
    fn unless_silent(&mut self, item: Tracked<T>) -> Result<Tracked<T>> {
        let epoch = item.cursor.epoch;
        if self.ends.has_output.load(Relaxed) {
            self.ends.has_output.store(false, Relaxed);
            self.since = None;
        }
        // A stage before may have changed the order.
        if epoch.saturating_sub(*self.since.get_or_insert(epoch)) < MOST_SILENT_EPOCHS {
            return Ok(item);
        }
        let problem = format!(
            "it gave nothing of {MOST_SILENT_EPOCHS} whole epochs of a lane; let it leave out less, or set \
             pipeline.epochs"
        );
        Err(Error::Stage { name: self.name.clone(), problem })
    }
}

impl<T> Stream for Input<T> {
    type Item = Result<Tracked<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = if self.ends.is_measured.load(Relaxed) {
            let began = Instant::now();
            let next = self.items.poll_next_unpin(cx);
            self.ends.upstream.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
            next
        } else {
            self.items.poll_next_unpin(cx)
        };
        self.ends.is_starved.store(next.is_pending(), Relaxed);
        self.ends.asks_apart.store(!self.ends.is_polled.load(Relaxed), Relaxed);
        next.map(|item| item.map(|item| item.and_then(|item| self.unless_silent(item))))
    }
}

/// The output of a custom stage.
pub(super) struct Instrumented<T> {
    name: String,
    /// `None` once it has ended.
    items: Option<BoxStream<'static, Result<Tracked<T>>>>,
    ends: Arc<Ends>,
    bounds: Bounds,
    meter: Arc<Meter>,
    /// Counts the time that the stage spends on its input.
    upstream: Option<Arc<Meter>>,
    sample: Sample,
    /// The sizes of the items since the last count.
    counts: [u64; 3],
    is_awaited: bool,
}

impl<T: Item> Instrumented<T> {
    /// Returns the output of the stage that `open` opens on `items`.
    pub(super) fn around(
        name: &str,
        meter: &Arc<Meter>,
        items: BoxStream<'static, Result<Tracked<T>>>,
        bounds: Bounds,
        upstream: Option<Arc<Meter>>,
        open: impl FnOnce(BoxStream<'static, Result<Tracked<T>>>) -> BoxStream<'static, Result<Tracked<T>>>,
    ) -> BoxStream<'static, Result<Tracked<T>>> {
        let ends = Arc::new(Ends::default());
        let input = Input { name: name.to_owned(), items, ends: ends.clone(), since: None };
        let instrumented = Self {
            name: name.to_owned(),
            items: Some(open(input.boxed())),
            ends,
            bounds,
            meter: meter.clone(),
            upstream,
            sample: T::SAMPLE(),
            counts: [0; 3],
            is_awaited: false,
        };
        instrumented.boxed()
    }

    /// Polls the stage, and measures the time if this poll is to be measured.
    fn poll_measured(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Tracked<T>>>> {
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        let sampled = self.sample.begin();
        if sampled.is_some() {
            self.ends.upstream.store(0, Relaxed);
            self.ends.is_measured.store(true, Relaxed);
        }
        let next = catch_unwind(AssertUnwindSafe(|| items.poll_next_unpin(cx)));
        if let Some(sampled) = sampled {
            self.ends.is_measured.store(false, Relaxed);
            let upstream = Duration::from_nanos(self.ends.upstream.load(Relaxed));
            let upstream = self.meter.add_sample_without(sampled, upstream);
            self.upstream.iter().for_each(|meter| meter.add_busy(upstream));
            self.count();
        }
        next.unwrap_or_else(|payload| {
            Poll::Ready(Some(Err(self.error(format!("it panicked: {}", panic_message(&*payload))))))
        })
    }

    /// Returns the item, or an error that says what is wrong with it.
    fn checked(&mut self, item: Tracked<T>) -> Result<Tracked<T>> {
        if item.cursor.depth() > T::MOST_DEPTH {
            let (is, most) = (item.cursor.depth(), T::MOST_DEPTH);
            return Err(self.error(format!(
                "{is} custom stages hold items back up to here, and at most {most} can, because a cursor has \
                 {MAX_DEPTH} skips for all stages of a lane; put some of them into one stage"
            )));
        }
        if let Some(problem) = item.value.problem(&self.bounds) {
            return Err(self.error(problem));
        }
        let size = item.value.size();
        if size[1..].iter().any(|&size| size > 0) {
            self.ends.has_output.store(true, Relaxed);
        }
        for (sum, more) in self.counts.iter_mut().zip(size) {
            *sum += more;
        }
        Ok(item)
    }

    fn error(&self, problem: String) -> Error {
        Error::Stage { name: self.name.clone(), problem }
    }

    fn set_awaited(&mut self, is_awaited: bool) {
        if is_awaited != self.is_awaited {
            self.is_awaited = is_awaited;
            self.meter.set_awaited(is_awaited);
        }
    }
}

impl<T> Instrumented<T> {
    fn count(&mut self) {
        let [documents, tokens, bytes] = std::mem::take(&mut self.counts);
        self.meter.count(documents, tokens, bytes);
    }
}

impl<T: Item> Stream for Instrumented<T> {
    type Item = Result<Tracked<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // A stage that holds a group does not ask: its input had nothing when the group was taken, and has more by now.
        if !this.ends.asks_apart.load(Relaxed) {
            this.ends.is_starved.store(false, Relaxed);
        }
        this.ends.is_polled.store(true, Relaxed);
        let next = this.poll_measured(cx);
        this.ends.is_polled.store(false, Relaxed);
        this.set_awaited(next.is_pending() && !this.ends.is_starved.load(Relaxed));
        let next = match next {
            Poll::Ready(Some(item)) => Poll::Ready(Some(item.and_then(|item| this.checked(item)))),
            Poll::Pending => {
                this.count();
                return Poll::Pending;
            }
            end => end,
        };
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            this.items = None;
            this.count();
        }
        next
    }
}

impl<T> Drop for Instrumented<T> {
    fn drop(&mut self) {
        self.count();
        if self.is_awaited {
            self.meter.set_awaited(false);
        }
    }
}
