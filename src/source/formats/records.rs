//! The trait that all formats of records share: records, one after the other.
//!
//! A place in such a file is a number that the format chooses. It is 0 at the file's start and grows from record to
//! record: an offset in bytes, or the number of a row. Cursors and positions keep it where they keep the byte of text.

use std::fmt::Debug;

use crate::error::Result;
use crate::source::layout::{Laid, Layout};
use crate::source::problem::Problem;
use crate::source::split_size::SplitSize;
use crate::source::window::{WINDOW_DOCUMENTS, Window};

/// The records of one open file, read on blocking threads.
pub(crate) trait Records: Debug + Send {
    /// Appends the documents of the records that begin at or after `from` and before `end`, in order, with
    /// [`Window::record`] and [`Window::refuse_record`]. Takes at least one record if one is left, then more until the
    /// window is full or has `room` more bytes. Stops before a record that begins at or after `end`.
    ///
    /// A call may continue where the last one stopped, or elsewhere.
    ///
    /// # Errors
    /// An error that ends the stream. Documents appended before it are still delivered.
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop>;

    /// The problem of `at` as a place between records, if any.
    fn problem(&mut self, at: u64) -> Result<Option<String>>;

    /// Where the records of a small file begin, as far as they can be read. The first begins at the file's start.
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
        // A cut-off record at the end is not a split.
        starts.retain(|start| *start < len);
        Ok(starts)
    }
}

/// Takes records one by one, as [`Records::take`] says: `one` appends the record at a place and returns the next place.
pub(super) fn take_each(
    from: u64,
    end: u64,
    room: usize,
    window: &mut Window,
    mut one: impl FnMut(u64, &mut Window) -> Result<Stop>,
) -> Result<Stop> {
    let (mut at, full) = (from, window.bytes.len() + room);
    // Records without a document fill no window.
    for _ in 0..WINDOW_DOCUMENTS {
        if at >= end {
            break;
        }
        match one(at, window)? {
            Stop::At(next) => at = next,
            Stop::End => return Ok(Stop::End),
        }
        if window.is_full() || window.bytes.len() >= full {
            break;
        }
    }
    Ok(Stop::At(at))
}

/// The cuts of a small file of `len` bytes whose records are found by reading them.
pub(crate) fn small_layout(mut records: Box<dyn Records>, len: u64, split_size: &SplitSize) -> Result<Laid> {
    if !split_size.is_small {
        return Ok(Layout::Whole.into());
    }
    let cuts = split_size.cuts(len, &records.starts(len)?);
    Ok(Layout::between(cuts).into())
}

/// How much is read at a time to find where records begin, in bytes.
const SCANNED_BYTES: usize = 256 << 10;

/// Stands for a file whose description of itself is damaged: nothing in it can be read.
#[derive(Debug)]
pub(crate) struct Damaged(pub(crate) Problem);

impl Records for Damaged {
    fn take(&mut self, from: u64, _: u64, _: usize, window: &mut Window) -> Result<Stop> {
        window.refuse_record(from, from, self.0.clone());
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        Ok((at > 0).then(|| self.0.what.clone()))
    }
}

/// Where a read of records stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before the record at this place.
    At(u64),
    /// No readable record is left in the file.
    End,
}
