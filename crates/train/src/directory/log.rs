//! The files that the first rank of a run writes besides checkpoints: the settings of its sessions, the trail of
//! cursors, the documents that it skips, the batches that no step used, and its reports. The reports go to `metrics.jsonl`,
//! and to TensorBoard's event files if the config asks for them. All have each step once, even after a resume.
//!
//! TensorBoard only shows the metrics: if its files cannot be written, the run goes on without them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::lines;
use super::samples::Sample;
use super::skipped::SkipLog;
use super::tensorboard::{self, TensorBoard};
use super::unused::Unused;
use crate::checkpoint::folder;
use crate::config::RunConfig;
use crate::events::Observer;
use crate::file_names::METRICS;
use millstream::cursor::Cursor;
use millstream::error::{Error, Result};
use millstream::meter::Skipped;
use millstream::trail::Trail;

/// The files of a session.
#[derive(Debug)]
pub(crate) struct RunLog {
    /// Claimed by this process.
    directory: RunDirectory,
    /// The step of the validation that was the last line of the metrics when the session began.
    validated: Option<u64>,
    tensorboard: Option<TensorBoard>,
    trail: Trail,
    skipped: SkipLog,
}

/// The step, which every line has, and the field that only validations have.
#[derive(Deserialize)]
struct Line {
    step: u64,
    validation_loss: Option<f64>,
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
        let batch = cursor.map_or(0, Cursor::batch);
        directory.save_settings(step, batch, config)?;
        let metrics = lines::cut(&directory.metrics(), |line: &Line| line.step <= step)?;
        // A run that reports nothing has an empty file.
        lines::open(&directory.metrics())?;
        lines::cut(&directory.samples(), |sample: &Sample| sample.step <= step)?;
        lines::cut(&directory.unused(), |unused: &Unused| unused.to <= batch)?;
        let tensorboard = begin_tensorboard(&directory, config, &metrics).unwrap_or_else(without_tensorboard);
        let trail = Trail::open(directory.trail(), batch)?;
        let last = metrics.lines().last().and_then(|line| serde_json::from_str::<Line>(line).ok());
        let validated = last.filter(|line| line.validation_loss.is_some()).map(|line| line.step);
        let skipped = SkipLog::open(&directory, step)?;
        Ok(Self { directory, validated, tensorboard, trail, skipped })
    }

    /// Whether the session before wrote the validation after `step`, and ended before it saved a checkpoint.
    pub(crate) fn has_validation(&self, step: u64) -> bool {
        self.validated == Some(step)
    }

    /// Writes a line, and its numbers as scalars.
    pub(crate) fn write(&mut self, report: &impl Serialize) -> Result<()> {
        lines::append(&self.directory.metrics(), report)?;
        let Some(board) = &mut self.tensorboard else { return Ok(()) };
        let line = serde_json::to_value(report);
        let line = line.map_err(|e| Error::io(METRICS, "write", e.into()))?;
        if let Err(error) = board.line(&line) {
            self.tensorboard = without_tensorboard(error);
        }
        Ok(())
    }

    pub(crate) fn record_cursor(&mut self, cursor: &Cursor) -> Result<()> {
        self.trail.record(cursor)
    }

    pub(crate) fn record_skipped(&mut self, skipped: Vec<Skipped>) -> Result<()> {
        self.skipped.write(skipped)
    }

    pub(crate) fn record_unused(&mut self, batches: Range<u64>) -> Result<()> {
        lines::append(&self.directory.unused(), &Unused { from: batches.start, to: batches.end })
    }
}

fn begin_tensorboard(
    directory: &RunDirectory,
    config: &RunConfig,
    metrics: &str,
) -> Result<Option<TensorBoard>> {
    let path = directory.tensorboard();
    // Files of earlier sessions must not show what this one does again, even if it writes none.
    if !config.train.tensorboard && tensorboard::files(&path)?.is_empty() {
        return Ok(None);
    }
    let samples = directory.saved_samples()?;
    let samples: Vec<_> = samples.iter().map(|sample| (sample.step, sample.whole())).collect();
    let board = TensorBoard::begin(&path, metrics, &directory.configs()?, &samples)?;
    Ok(config.train.tensorboard.then_some(board))
}

fn without_tensorboard(error: Error) -> Option<TensorBoard> {
    tracing::warn!(
        "{}; the run goes on without TensorBoard, and {METRICS} has all of its numbers",
        error.chain()
    );
    None
}
