//! TensorBoard's event files, `<train.out>/tensorboard/events.out.tfevents.…`: the lines of `metrics.jsonl` as scalars, and
//! the config and samples as text. Holds the open file.
//!
//! A file is a row of [records](tfrecord), and each record is an [event](event): the scalars of one line, with its step.
//! A record is written in one call, so a kill leaves at most one that is cut off, which readers leave out. Each session
//! of a run begins a file. Events of steps that a resume drops are removed from the older files, because not every reader
//! obeys the [session's start](event::start), which tells those that have read them already.
//!
//! The format takes two short files here. The crates that write it (`tensorboard-rs`, `tfrecord`) have had no release for
//! years, and bring an old protobuf library, or asynchronous I/O and image formats. CRC-32C is a table of 256 numbers: at
//! a few hundred bytes for each logged step, its speed does not matter.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use millstream::atomic::AtomicFile;
use millstream::error::{Error, Result};

mod event;
mod scalars;
mod tfrecord;

use event::Body;
use tfrecord::{TfRecords, framed};

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
    /// Begins the file of a session that continues after `step`, in a directory that was [cut](cut) there.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub(super) fn begin(directory: &Path, step: u64) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|e| Error::io(directory, "make the directory of TensorBoard's files", e))?;
        // Readers take the files in the order of their names, whatever the clock says.
        let last = files(directory)?.last().and_then(|path| number(path));
        let number = last.map_or_else(|| now() as u64, |last| last.saturating_add(1).max(now() as u64));
        let path = directory.join(format!("{PREFIX}{number:010}{SUFFIX}"));
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let mut board = Self { file: file.map_err(|e| Error::io(&path, "make", e))?, path };
        board.write(0, &Body::Version)?;
        board.write(step + 1, &Body::Start)?;
        Ok(board)
    }

    /// Opens the newest file of a run, to add to it; `None` if the run has none.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub(super) fn newest(directory: &Path) -> Result<Option<Self>> {
        let Some(path) = files(directory)?.pop() else { return Ok(None) };
        let file = OpenOptions::new().append(true).open(&path).map_err(|e| Error::io(&path, "open", e))?;
        Ok(Some(Self { path, file }))
    }

    /// Writes the numbers of a line of `metrics.jsonl`.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub(super) fn line(&mut self, line: &Value) -> Result<()> {
        let Some(step) = line["step"].as_u64() else { return Ok(()) };
        self.write(step, &Body::Scalars(&scalars::from_line(line)))
    }

    /// Writes a text, which is shown verbatim.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub(super) fn text(&mut self, step: u64, tag: &str, text: &str) -> Result<()> {
        self.write(step, &Body::Text { tag, text })
    }

    fn write(&mut self, step: u64, body: &Body<'_>) -> Result<()> {
        let record = framed(&event::encoded(now(), step, body));
        self.file.write_all(&record).map_err(|e| Error::io(&self.path, "write", e))
    }
}

/// Removes the events after `step`, and incomplete ones, from a run's event files; with `step` 0, removes the files.
/// Those of other programs stay as they are.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read or written.
pub(super) fn cut(directory: &Path, step: u64) -> Result<()> {
    for path in files(directory)? {
        // Events without a step belong to step 0.
        if step == 0 || !keeps_all(&path, step)? && !cut_file(&path, step)? {
            std::fs::remove_file(&path).map_err(|e| Error::io(&path, "remove", e))?;
        }
    }
    Ok(())
}

/// Whether every event of a file is of `step` or earlier, and none is cut off.
fn keeps_all(path: &Path, step: u64) -> Result<bool> {
    let mut records = TfRecords::open(path)?;
    while let Some(record) = records.next()? {
        if event::step(&record) > step {
            return Ok(false);
        }
    }
    Ok(!records.is_torn())
}

/// Keeps the events up to `step`. Returns whether there are any besides those that every file begins with; if not, the
/// file stays unchanged.
fn cut_file(path: &Path, step: u64) -> Result<bool> {
    let (mut records, mut kept) = (TfRecords::open(path)?, AtomicFile::create(path)?);
    let mut has_any = false;
    while let Some(record) = records.next()? {
        let of = event::step(&record);
        if of <= step {
            has_any |= of > 0;
            kept.append(&framed(&record))?;
        }
    }
    if has_any {
        kept.finish()?;
    }
    Ok(has_any)
}

/// The event files that this program wrote, in the order of their names. There need not be a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
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

    /// The steps of the events that all files in a directory have, file by file.
    fn steps(directory: &Path) -> Vec<Vec<u64>> {
        let of = |path: PathBuf| {
            let mut records = TfRecords::open(&path).expect("a file");
            std::iter::from_fn(|| records.next().expect("readable"))
                .map(|record| event::step(&record))
                .collect()
        };
        files(directory).expect("files").into_iter().map(of).collect()
    }

    fn session(directory: &Path, from: u64, to: u64) {
        cut(directory, from).expect("cut");
        let mut board = TensorBoard::begin(directory, from).expect("a file");
        for step in from + 1..=to {
            board.line(&serde_json::json!({ "step": step, "loss": 1.0 })).expect("written");
        }
    }

    #[test]
    fn a_session_begins_a_file_and_drops_what_it_does_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        cut(&directory.join("absent"), 3).expect("nothing to do");
        session(directory, 0, 3);
        assert_eq!(steps(directory), [vec![0, 1, 1, 2, 3]]);
        session(directory, 2, 4);
        assert_eq!(steps(directory), [vec![0, 1, 1, 2], vec![0, 3, 3, 4]]);
        // A session without a step leaves no file; a file of another program is left alone.
        let foreign = directory.join("events.out.tfevents.1.host");
        std::fs::write(&foreign, "theirs").expect("written");
        session(directory, 4, 4);
        session(directory, 4, 5);
        assert_eq!(steps(directory), [vec![0, 1, 1, 2], vec![0, 3, 3, 4], vec![0, 5, 5]]);
        session(directory, 0, 1);
        assert_eq!(steps(directory), [vec![0, 1, 1]]);
        assert_eq!(std::fs::read(foreign).expect("there"), b"theirs");
    }

    #[test]
    fn what_a_kill_cut_off_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        session(directory.path(), 0, 3);
        let path = files(directory.path()).expect("files").remove(0);
        let whole = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &whole[..whole.len() - 5]).expect("written");
        cut(directory.path(), 3).expect("cut");
        assert_eq!(steps(directory.path()), [vec![0, 1, 1, 2]]);
        assert!(whole.starts_with(&std::fs::read(&path).expect("a file")));
    }
}
