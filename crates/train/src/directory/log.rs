//! Where the reports of a run go: `metrics.jsonl`, and TensorBoard's event files if the config asks for them. Both have
//! each step once, also after a resume. Holds the open files.
//!
//! TensorBoard only shows what the metrics have: if its files cannot be written, the run goes on without them.

use serde::Serialize;

use super::metrics::Metrics;
use super::tensorboard::{self, TensorBoard};
use super::{RunDirectory, samples};
use crate::file_names::METRICS;
use millstream::config::Config;
use millstream::error::{Error, Result};

/// Appends to the files.
#[derive(Debug)]
pub(super) struct Log {
    metrics: Metrics,
    tensorboard: Option<TensorBoard>,
}

impl Log {
    /// Opens the files of a run to continue after `step`, and removes what a session that went further left.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read or written.
    pub(super) fn open(directory: &RunDirectory, config: &Config, step: u64) -> Result<Self> {
        let metrics = Metrics::open(directory.metrics(), step)?;
        samples::cut(&directory.samples(), step)?;
        let begin = || {
            // Also those of earlier sessions that wanted them, if this one does not.
            tensorboard::cut(&directory.tensorboard(), step)?;
            if !config.train.tensorboard {
                return Ok(None);
            }
            let mut board = TensorBoard::begin(&directory.tensorboard(), step)?;
            let toml = toml::to_string_pretty(config).map_err(|e| Error::config("config", e.to_string()))?;
            // It holds from the next step on.
            board.text(step + 1, "config", &toml)?;
            Ok::<_, Error>(Some(board))
        };
        let tensorboard = begin().unwrap_or_else(without_tensorboard);
        Ok(Self { metrics, tensorboard })
    }

    /// Whether an earlier session wrote the validation after `step`.
    pub(super) fn has_validation(&self, step: u64) -> bool {
        self.metrics.has_validation(step)
    }

    /// Writes a line, and its numbers as scalars.
    ///
    /// # Errors
    /// [`Error::Io`] if the metrics cannot be written.
    pub(super) fn write(&mut self, report: &impl Serialize) -> Result<()> {
        self.metrics.write(report)?;
        let Some(board) = &mut self.tensorboard else { return Ok(()) };
        let line = serde_json::to_value(report);
        let line = line.map_err(|e| Error::io(self.metrics.path(), "write the metrics", e.into()))?;
        if let Err(error) = board.line(&line) {
            self.tensorboard = without_tensorboard(error);
        }
        Ok(())
    }
}

/// What is left when TensorBoard's files cannot be written: nothing.
fn without_tensorboard(error: Error) -> Option<TensorBoard> {
    tracing::warn!(
        "{}; the run goes on without TensorBoard, and {METRICS} has all of its numbers",
        error.chain()
    );
    None
}
