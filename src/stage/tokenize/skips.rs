//! Counts the refused documents of an epoch against the limit of skips.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::config::OnError;
use crate::document::Document;
use crate::error::Error;
use crate::meter::{Meter, Skipped};

/// The policy, and how many skips the current epoch has used. Documents come in order, so an epoch that has
/// ended never comes again.
#[derive(Debug)]
pub(super) struct Skips {
    pub(super) on_error: OnError,
    epoch: u64,
    skipped: u64,
}

impl Skips {
    pub(super) fn new(on_error: OnError) -> Self {
        Self { on_error, epoch: 0, skipped: 0 }
    }

    /// Logs and counts a document of this epoch that goes on without ids, or returns the error that ends the stream.
    pub(super) fn skip(&mut self, epoch: u64, error: Error, meter: &Arc<Meter>) -> Result<(), Error> {
        if self.epoch != epoch {
            (self.epoch, self.skipped) = (epoch, 0);
        }
        let Error::Document { path, line, unit, byte, problem, remedy } = error else {
            return Err(error);
        };
        let (problem, remedy) = match self.on_error {
            OnError::Skip(n) if self.skipped < n => {
                self.skipped += 1;
                tracing::warn!(path = %path.display(), line, %unit, byte, reason = problem, "document skipped");
                let path = path.display().to_string();
                meter.skip(|| Skipped { path, line, unit, byte, reason: problem });
                return Ok(());
            }
            OnError::Skip(n) => (
                format!("{problem}, and the {n} documents that on_error lets this epoch skip are used up"),
                format!("{remedy}, or raise on_error"),
            ),
            OnError::Fail => {
                (problem, format!("{remedy}, or let some be skipped with on_error = {{ skip = 100 }}"))
            }
        };
        Err(Error::Document { path, line, unit, byte, problem, remedy })
    }
}

/// Logs and counts a document of which nothing is learned. There may be many, so only the first is a warning.
pub(super) fn leave_out(document: &Document, meter: &Meter, has_warned: &AtomicBool) {
    let (path, position) = (document.path(), document.position());
    let reason = "none of its ids is learned from";
    meter.skip(|| document.skipped(reason.to_owned()));
    let path = path.display();
    if has_warned.swap(true, Relaxed) {
        tracing::debug!(%path, byte = position.byte, reason, "document skipped");
    } else {
        let (files, byte) = (document.files(), position.byte);
        let (line, unit) = (files.line_or_none(position), files.unit(position.file));
        tracing::warn!(%path, line, %unit, byte, reason, "document skipped; later ones like it are counted, not named");
    }
}
