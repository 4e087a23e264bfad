//! Formats that say themselves where their documents are: records, one after the other.
//!
//! A place in such a file is a number that the format chooses, as long as it is 0 at the file's start and grows from
//! record to record: an offset in bytes, or the number of a row. Cursors and positions keep it where they keep bytes
//! of text.

use std::fmt::Debug;
use std::sync::Arc;

use super::cuts::Cuts;
use super::layout::{Laid, Layout};
use super::nominal::Nominal;
use super::problem::Problem;
use super::window::Window;
use crate::error::Result;
use crate::store::Stored;

/// A format of records, with what the config says of it.
pub(super) trait RecordFormat: Debug + Send + Sync {
    /// Whether even a short file has to be looked at to know how it is cut.
    fn always_says_cuts(&self) -> bool {
        false
    }

    /// How a file is cut into splits. One that is damaged is not cut, and [`Damaged`] when it
    /// is opened, so that the policy for bad input decides.
    fn layout(&self, stored: Arc<dyn Stored>, nominal: &Nominal) -> Result<Laid>;

    /// Opens a file.
    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>>;
}

/// The records of one open file. It runs on blocking threads.
pub(super) trait Records: Debug + Send {
    /// Appends the documents of the records that begin at `from` or after it and before `end`, in order, with
    /// [`Window::record`] and [`Window::refuse_record`]: at least one record, unless none is left, and then until the
    /// window is full or has `room` more bytes. Where a record begins at `end` or behind it, that is where it stops.
    ///
    /// Each call goes on where the last one stopped, or elsewhere.
    ///
    /// # Errors
    /// What ends the stream. Documents that were appended before are delivered first.
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop>;

    /// What is wrong with `at` as a place between records, if anything.
    fn problem(&mut self, at: u64) -> Result<Option<String>>;

    /// Where the records of a small file begin, the first of which is the file's, as far as they can be read.
    fn starts(&mut self, len: u64) -> Result<Vec<u64>> {
        let (mut starts, mut at) = (Vec::new(), 0);
        loop {
            let mut window = Window::default();
            let stop = self.take(at, u64::MAX, SCANNED_BYTES, &mut window)?;
            starts.extend(window.framed.iter().map(|framed| framed.frame.start.byte));
            match stop {
                Stop::At(next) if next > at && next < len => at = next,
                Stop::At(_) | Stop::End => break,
            }
        }
        if let Some(first) = starts.first_mut() {
            *first = 0;
        }
        starts.dedup();
        Ok(starts)
    }
}

/// How the text of a small file is cut whose records are found by reading them.
pub(super) fn small_layout(
    format: &dyn RecordFormat,
    stored: Arc<dyn Stored>,
    nominal: &Nominal,
) -> Result<Laid> {
    let len = stored.len();
    let mut records = format.open(stored)?;
    if !nominal.is_small {
        return Ok(Layout::Whole.into());
    }
    let cuts = nominal.cuts(len, &records.starts(len)?);
    Ok(if cuts.is_empty() { Layout::Whole } else { Layout::Cuts(Cuts::new(cuts)) }.into())
}

/// How much is read at once to find where records begin, in bytes.
const SCANNED_BYTES: usize = 256 << 10;

/// A file that is damaged where it says what it holds: nothing of it can be read.
#[derive(Debug)]
pub(super) struct Damaged(pub(super) Problem);

impl Records for Damaged {
    fn take(&mut self, from: u64, _: u64, _: usize, window: &mut Window) -> Result<Stop> {
        window.refuse_record(from, from, self.0.clone());
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        Ok((at > 0).then(|| self.0.what.clone()))
    }
}

/// An open file, or what stands for one that is damaged.
pub(super) fn opened(found: Result<impl Records + 'static, Problem>) -> Box<dyn Records> {
    match found {
        Ok(records) => Box::new(records),
        Err(problem) => Box::new(Damaged(problem)),
    }
}

/// Where a read of records stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Before the record at this place.
    At(u64),
    /// No record is left in the file, or none that can be read.
    End,
}
