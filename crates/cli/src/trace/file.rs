//! The trace file. It is whole JSON after every write, so that it opens even after a kill.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::progress;
use millstream::{Error, Result};

const HEAD: &[u8] = b"{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";

/// The end of the file. The next events are written over it.
const TAIL: &[u8] = b"\n]}\n";

/// How many bytes of events are buffered before they are written.
const MOST: usize = 256 << 10;

/// How long events are buffered.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Where the tail begins.
    end: u64,
    is_empty: bool,
    /// Whether writing has failed and was reported.
    has_failed: bool,
    written: Instant,
}

impl TraceFile {
    /// A file without events. An existing file must be a trace, or empty, so that a wrong name destroys nothing.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let failed = |e| Error::io(path, "write the trace", e);
        if !is_free(path).map_err(failed)? {
            let problem = "the file exists and is not a trace; name another file, or remove it";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, problem)));
        }
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            // Without locks, two runs can share a file.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let problem = "another run writes its trace there; name another file";
                return Err(failed(io::Error::new(io::ErrorKind::ResourceBusy, problem)));
            }
            file.set_len(0).map_err(failed)?;
        }
        let mut file = Self {
            path: path.to_owned(),
            file,
            buffer: HEAD.to_vec(),
            end: 0,
            is_empty: true,
            has_failed: false,
            written: Instant::now(),
        };
        file.write().map_err(failed)?;
        Ok(file)
    }

    pub(super) fn push(&mut self, event: &impl Serialize) {
        if self.has_failed {
            return;
        }
        if !std::mem::take(&mut self.is_empty) {
            self.buffer.extend(b",\n");
        }
        // Numbers and strings always serialize.
        let _ = serde_json::to_writer(&mut self.buffer, event);
        if self.buffer.len() >= MOST || self.written.elapsed() >= LONGEST {
            self.flush();
        }
    }

    /// Writes the buffered events. A failure does not end the run.
    pub(super) fn flush(&mut self) {
        if self.has_failed {
            return;
        }
        if let Err(error) = self.write() {
            self.has_failed = true;
            self.buffer = Vec::new();
            progress::say(&format!("{}: the trace ends here: {error}", self.path.display()));
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let events = self.buffer.len();
        self.buffer.extend(TAIL);
        // In one call, so that a kill hardly ever comes between.
        self.file.seek(SeekFrom::Start(self.end))?;
        if let Err(error) = self.file.write_all(&self.buffer) {
            // The file stays whole with the events written before.
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(TAIL)?;
            return Err(error);
        }
        self.end += events as u64;
        self.buffer.clear();
        self.written = Instant::now();
        Ok(())
    }
}

/// Whether a trace can be written there.
fn is_free(path: &Path) -> io::Result<bool> {
    let is_file = match path.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        metadata => metadata?.is_file(),
    };
    let mut head = Vec::new();
    if is_file {
        File::open(path)?.take(HEAD.len() as u64).read_to_end(&mut head)?;
    }
    Ok(head.is_empty() || head == HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_trace_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run.toml");
        std::fs::write(&path, "seed = 1\n").expect("a file");
        let error = TraceFile::create(&path).expect_err("it is a config");
        let reason = std::error::Error::source(&error).expect("why").to_string();
        assert!(
            error.to_string().contains("run.toml") && reason.contains("name another file"),
            "{error}: {reason}"
        );
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "seed = 1\n");
        std::fs::write(&path, "").expect("a file");
        for _ in 0..2 {
            let open = TraceFile::create(&path).expect("an empty file, and then a trace");
            let error = TraceFile::create(&path).expect_err("it is being written");
            let reason = std::error::Error::source(&error).expect("why").to_string();
            assert!(reason.starts_with("another run writes its trace there"), "{reason}");
            drop(open);
        }
    }
}
