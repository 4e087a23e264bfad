//! Writes reports to `metrics.jsonl`: one JSON object per line, each step once. Holds the open file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Appends to `metrics.jsonl`.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
}

/// The fields that every line has.
#[derive(Deserialize)]
struct Line {
    step: u64,
}

impl Metrics {
    /// Opens the file to continue after `step`, and cuts off what a run that went further left: lines of later steps,
    /// and an incomplete last line. With `step` 0 the file starts empty.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or written.
    pub fn open(path: impl Into<PathBuf>, step: u64) -> Result<Self> {
        let path = path.into();
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) => keep(&text, step),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::io(&path, "read the metrics", e)),
        };
        crate::atomic::write_atomically(&path, kept.as_bytes())?;
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|e| Error::io(&path, "open the metrics", e))?;
        Ok(Self { path, file })
    }

    /// Writes one line in one call, so a kill leaves whole lines and at most one incomplete line.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn write(&mut self, report: &impl Serialize) -> Result<()> {
        let mut line =
            serde_json::to_vec(report).map_err(|e| Error::io(&self.path, "write the metrics", e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| Error::io(&self.path, "write the metrics", e))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn keep(text: &str, step: u64) -> String {
    text.lines()
        .filter(|line| serde_json::from_str::<Line>(line).is_ok_and(|line| line.step <= step))
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_past_the_step_and_torn_ones_are_cut_off() {
        let text = "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1.0}\n{\"step\":3}\n{\"st";
        assert_eq!(keep(text, 2), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1.0}\n");
        assert_eq!(keep(text, 0), "");
    }
}
