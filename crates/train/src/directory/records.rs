//! What the first rank of a run writes besides checkpoints: the settings of its sessions, reports, and the trail.

use serde::Serialize;

use super::RunDirectory;
use super::log::Log;
use crate::checkpoint::Checkpoint;
use crate::report::Observer;
use millstream::config::Config;
use millstream::cursor::Cursor;
use millstream::error::Result;
use millstream::trail::Trail;

/// The open files of a session, in a directory that this process has claimed.
#[derive(Debug)]
pub(crate) struct Records {
    _directory: RunDirectory,
    log: Log,
    trail: Trail,
}

impl Records {
    /// Claims `directory`, and opens its files for a session with `config` that goes on after `step`, where the data
    /// continues at `cursor`. What a session that went further left is cut off or set aside.
    ///
    /// # Errors
    /// [`Error::Busy`](millstream::Error::Busy) if another process trains there, and the errors of reading and writing.
    pub(crate) fn open(
        directory: &RunDirectory,
        config: &Config,
        step: u64,
        cursor: Option<&Cursor>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let directory = directory.clone().claim()?;
        for aside in Checkpoint::set_aside_after(&directory.checkpoints(), step)? {
            observer.on_message(&format!(
                "kept a checkpoint of a later step as {}; remove it when you no longer need it",
                aside.display()
            ));
        }
        directory.keep_settings(step, config)?;
        let log = Log::open(&directory, config, step)?;
        let trail = Trail::open(directory.trail(), cursor.map_or(0, Cursor::batch))?;
        Ok(Self { _directory: directory, log, trail })
    }

    /// Whether an earlier session wrote the validation after `step`.
    pub(crate) fn has_validation(&self, step: u64) -> bool {
        self.log.has_validation(step)
    }

    /// Writes a line, and its numbers as scalars.
    pub(crate) fn write(&mut self, report: &impl Serialize) -> Result<()> {
        self.log.write(report)
    }

    /// Adds a cursor to the trail.
    pub(crate) fn leave(&mut self, cursor: &Cursor) -> Result<()> {
        self.trail.record(cursor)
    }
}
