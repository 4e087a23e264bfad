//! The files that the first rank of a run writes besides checkpoints: the settings of its sessions, the trail of
//! cursors, and its reports. The reports go to `metrics.jsonl`, and to TensorBoard's event files if the config asks for
//! them. All have each step once, even after a resume. Holds the open files.
//!
//! TensorBoard only shows the metrics: if its files cannot be written, the run goes on without them.

use serde::Serialize;

use super::metrics::Metrics;
use super::tensorboard::{self, TensorBoard};
use super::{RunDirectory, samples};
use crate::checkpoint::folder;
use crate::config::RunConfig;
use crate::events::Observer;
use crate::file_names::METRICS;
use millstream::cursor::Cursor;
use millstream::error::{Error, Result};
use millstream::trail::Trail;

/// The open files of a session, in a directory that this process has claimed.
#[derive(Debug)]
pub(crate) struct RunLog {
    _directory: RunDirectory,
    metrics: Metrics,
    tensorboard: Option<TensorBoard>,
    trail: Trail,
}

impl RunLog {
    /// Claims `directory`, and opens its files for a session with `config` that continues after `step`, where the data
    /// continues at `cursor`. Later entries of an earlier session are cut off or set aside.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process trains there, and the errors of reading and writing.
    pub(crate) fn open(
        directory: &RunDirectory,
        config: &RunConfig,
        step: u64,
        cursor: Option<&Cursor>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let directory = directory.clone().claim()?;
        for aside in folder::set_aside_after(&directory.checkpoints(), step)? {
            observer.on_message(&format!(
                "kept a checkpoint of a later step as {}; remove it when you no longer need it",
                aside.display()
            ));
        }
        directory.save_settings(step, config)?;
        let metrics = Metrics::open(directory.metrics(), step)?;
        samples::cut(&directory.samples(), step)?;
        let tensorboard = begin_tensorboard(&directory, config, step).unwrap_or_else(without_tensorboard);
        let trail = Trail::open(directory.trail(), cursor.map_or(0, Cursor::batch))?;
        Ok(Self { _directory: directory, metrics, tensorboard, trail })
    }

    /// Whether an earlier session wrote the validation after `step`.
    pub(crate) fn has_validation(&self, step: u64) -> bool {
        self.metrics.has_validation(step)
    }

    /// Writes a line, and its numbers as scalars.
    ///
    /// # Errors
    /// [`Error::Io`] if the metrics cannot be written.
    pub(crate) fn write(&mut self, report: &impl Serialize) -> Result<()> {
        self.metrics.write(report)?;
        let Some(board) = &mut self.tensorboard else { return Ok(()) };
        let line = serde_json::to_value(report);
        let line = line.map_err(|e| Error::io(self.metrics.path(), "write the metrics", e.into()))?;
        if let Err(error) = board.line(&line) {
            self.tensorboard = without_tensorboard(error);
        }
        Ok(())
    }

    pub(crate) fn record_cursor(&mut self, cursor: &Cursor) -> Result<()> {
        self.trail.record(cursor)
    }
}

fn begin_tensorboard(directory: &RunDirectory, config: &RunConfig, step: u64) -> Result<Option<TensorBoard>> {
    // Also the files of earlier sessions, even if this one writes none.
    tensorboard::cut(&directory.tensorboard(), step)?;
    if !config.train.tensorboard {
        return Ok(None);
    }
    let mut board = TensorBoard::begin(&directory.tensorboard(), step)?;
    let toml = toml::to_string_pretty(config).map_err(|e| Error::config("config", e.to_string()))?;
    // It holds from the next step on.
    board.text(step + 1, "config", &toml)?;
    Ok(Some(board))
}

fn without_tensorboard(error: Error) -> Option<TensorBoard> {
    tracing::warn!(
        "{}; the run goes on without TensorBoard, and {METRICS} has all of its numbers",
        error.chain()
    );
    None
}
