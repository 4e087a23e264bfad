//! TensorBoard's event files, `<train.out>/tensorboard/events.out.tfevents.…`: the lines of `metrics.jsonl` as scalars, and
//! configs and samples as text. Holds the open file.
//!
//! Each session of a run writes a file of its own, which begins with all that earlier sessions logged and that still
//! counts; then the older files are removed. A record is written in one call, so a kill leaves at most one that is cut
//! off, which readers leave out.
//!
//! The format takes two short files here. The crates that write it (`tensorboard-rs`, `tfrecord`) have had no release for
//! years, and bring an old protobuf library, or asynchronous I/O and image formats.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use millstream::atomic::write_atomically;
use millstream::error::{Error, Result};

mod event;
mod scalars;

use event::{Body, record};

/// The prefix of event files, which TensorBoard looks for.
const PREFIX: &str = "events.out.tfevents.";

/// The suffix of ours, so that those of other programs are left alone.
const SUFFIX: &str = ".millstream";

/// Appends to an event file.
#[derive(Debug)]
pub(super) struct TensorBoard {
    path: PathBuf,
    file: File,
}

impl TensorBoard {
    /// Begins the file of a session, with these lines of `metrics.jsonl`, and configs and samples by their steps. Removes
    /// the files of earlier sessions.
    pub(super) fn begin(
        directory: &Path,
        metrics: &str,
        configs: &[(u64, String)],
        samples: &[(u64, String)],
    ) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|e| Error::io(directory, "make the directory of TensorBoard's files", e))?;
        let (older, now) = (files(directory)?, now());
        // The step is 1: whatever a reader has read of a run before is dropped.
        let mut records = [record(now, 0, &Body::Version), record(now, 1, &Body::Start)].concat();
        for (step, text) in configs {
            records.extend(record(now, *step, &Body::Text { tag: "config", text }));
        }
        let lines: Vec<Value> = metrics.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let seconds = |line: &Value| line["seconds"].as_f64();
        let last = lines.iter().rev().find_map(seconds).unwrap_or_default();
        let mut at = 0.0;
        for line in &lines {
            // As long ago as the run has trained since.
            at = seconds(line).unwrap_or(at);
            records.extend(scalars(now - (last - at), line));
        }
        for (step, text) in samples {
            records.extend(record(now, *step, &Body::Text { tag: "sample", text }));
        }
        // Readers take the files in the order of their names, whatever the clock says.
        let next = older.last().and_then(|path| number(path)).map_or(0, |last| last.saturating_add(1));
        let path = directory.join(format!("{PREFIX}{:010}{SUFFIX}", next.max(now as u64)));
        write_atomically(&path, &records)?;
        for path in older {
            std::fs::remove_file(&path).map_err(|e| Error::io(&path, "remove", e))?;
        }
        Self::open(path)
    }

    /// Opens the newest file of a run, to add to it; `None` if the run has none.
    pub(super) fn newest(directory: &Path) -> Result<Option<Self>> {
        files(directory)?.pop().map(Self::open).transpose()
    }

    fn open(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(&path).map_err(|e| Error::io(&path, "open", e))?;
        Ok(Self { path, file })
    }

    /// Writes the numbers of a line of `metrics.jsonl`.
    pub(super) fn line(&mut self, line: &Value) -> Result<()> {
        self.write(&scalars(now(), line))
    }

    /// Writes a sample, which is shown verbatim.
    pub(super) fn sample(&mut self, step: u64, text: &str) -> Result<()> {
        self.write(&record(now(), step, &Body::Text { tag: "sample", text }))
    }

    fn write(&mut self, record: &[u8]) -> Result<()> {
        self.file.write_all(record).map_err(|e| Error::io(&self.path, "write", e))
    }
}

/// The record of a line's numbers; empty for a line without a step.
fn scalars(time: f64, line: &Value) -> Vec<u8> {
    let step = line["step"].as_u64();
    step.map_or_else(Vec::new, |step| record(time, step, &Body::Scalars(&scalars::from_line(line))))
}

/// The event files that this program wrote, in the order of their names. There need not be a directory.
pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| Error::io(directory, "list", e);
    let entries = match std::fs::read_dir(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if number(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The number in the name of one of our files.
fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()
}

/// The time now, in seconds since 1970.
fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_file_takes_the_place_of_those_before_it_and_of_no_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().join("tensorboard");
        assert!(TensorBoard::newest(&directory).expect("nothing").is_none());
        let begin = |metrics: &str| TensorBoard::begin(&directory, metrics, &[], &[]).expect("a file");
        let size = |board: &TensorBoard| std::fs::metadata(&board.path).expect("a file").len();
        let mut first = begin("");
        let empty = size(&first);
        let foreign = directory.join("events.out.tfevents.1.host");
        std::fs::write(&foreign, "theirs").expect("written");
        let line = serde_json::json!({ "step": 1, "loss": 1.0, "seconds": 2.0 });
        first.line(&line).expect("written");
        let second = begin(&format!("{line}\n"));
        assert_eq!(size(&second), empty + scalars(0.0, &line).len() as u64);
        assert!(second.path > first.path && !first.path.exists());
        assert_eq!(TensorBoard::newest(&directory).expect("one").expect("one").path, second.path);
        assert_eq!(std::fs::read(foreign).expect("there"), b"theirs");
    }
}
