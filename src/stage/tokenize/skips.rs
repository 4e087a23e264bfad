//! Counts the refused documents of an epoch against the limit of skips.

use std::sync::Arc;

use crate::config::OnError;
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

    /// Counts a document of this epoch that goes on without ids, or returns the error that ends the stream.
    pub(super) fn skip(&mut self, epoch: u64, error: Error, meter: &Arc<Meter>) -> Result<(), Error> {
        if self.epoch != epoch {
            (self.epoch, self.skipped) = (epoch, 0);
        }
        let Error::Document { path, line, unit, byte, problem, remedy } = error else {
            return Err(error);
        };
        if self.skipped < self.on_error.most() {
            self.skipped += 1;
            let path = path.display().to_string();
            meter.skip(true, &problem, |reason| Skipped { path, line, unit, byte, reason });
            return Ok(());
        }
        let (problem, remedy) = self.on_error.refusal(&problem, &remedy);
        Err(Error::Document { path, line, unit, byte, problem, remedy })
    }
}
