//! Where the reports of a run go: `metrics.jsonl`, and TensorBoard's event files if the config asks for them. Both have
//! each step once, also after a resume. Holds the open files.

use serde::Serialize;

use super::directory::RunDirectory;
use super::metrics::Metrics;
use super::samples;
use super::tensorboard::{self, TensorBoard};
use crate::config::Config;
use crate::error::{Error, Result};

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
        // Also those of earlier sessions that wanted them, if this one does not.
        tensorboard::cut(&directory.tensorboard(), step)?;
        let begin = || {
            let mut board = TensorBoard::begin(&directory.tensorboard(), step)?;
            let toml = toml::to_string_pretty(config).map_err(|e| Error::config("config", e.to_string()))?;
            // It holds from the next step on.
            board.text(step + 1, "config", &toml)?;
            Ok::<_, Error>(board)
        };
        let tensorboard = config.train.tensorboard.then(begin).transpose()?;
        Ok(Self { metrics, tensorboard })
    }

    /// Writes a line, and its numbers as scalars.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written.
    pub(super) fn write(&mut self, report: &impl Serialize) -> Result<()> {
        self.metrics.write(report)?;
        let Some(board) = &mut self.tensorboard else { return Ok(()) };
        let line = serde_json::to_value(report);
        board.line(&line.map_err(|e| Error::io(self.metrics.path(), "write the metrics", e.into()))?)
    }
}
