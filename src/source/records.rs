//! Formats that say themselves where their documents are: records, one after the other.
//!
//! A place in such a file is a number that the format chooses, as long as it is 0 at the file's start and grows from
//! record to record: an offset in bytes, or the number of a row. Cursors and positions keep it where they keep bytes
//! of text.

use std::fmt::Debug;
use std::sync::Arc;

use super::corpus::Layout;
use super::decode::Problem;
use super::window::Window;
use crate::error::Result;
use crate::store::Stored;

/// A format of records, with what the config says of it.
pub(super) trait RecordFormat: Debug + Send + Sync {
    /// Whether even a short file has to be looked at to know how it is cut.
    fn always_says_cuts(&self) -> bool {
        false
    }

    /// How a file is cut into splits of about `nominal` bytes. One that is damaged is not cut, and [`Damaged`] when it
    /// is opened, so that the policy for bad input decides.
    fn layout(&self, stored: Arc<dyn Stored>, nominal: u64) -> Result<Layout>;

    /// Opens a file.
    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>>;
}

/// The records of one open file. It runs on blocking threads.
pub(super) trait Records: Debug + Send {
    /// Appends the documents of the records that begin at `from` or after it and before `end`, in order, with
    /// [`Window::record`] and [`Window::refuse_record`]: at least one record, unless none is left, and then until the
    /// window is full or has `room` more bytes.
    ///
    /// Each call goes on where the last one stopped, or elsewhere.
    ///
    /// # Errors
    /// What ends the stream. Documents that were appended before are delivered first.
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop>;

    /// What is wrong with `at` as a place between records, if anything.
    fn problem(&mut self, at: u64) -> Result<Option<String>>;
}

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
    /// No record is left before the end that was given.
    End,
}
