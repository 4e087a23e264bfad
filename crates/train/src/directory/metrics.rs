//! Writes reports to `metrics.jsonl`: one JSON object per line, each step once. Holds the open file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use millstream::error::{Error, Result};

/// Appends to `metrics.jsonl`.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
    /// The step of the validation that was the last line when the file was opened.
    validated: Option<u64>,
}

/// The step, which every line has, and the field that only validations have.
#[derive(Deserialize)]
struct Line {
    step: u64,
    validation_loss: Option<f64>,
}

impl Metrics {
    /// Opens the file to continue after `step`, and cuts off lines of later steps, and an incomplete last line. With
    /// `step` 0 the file starts empty.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or written.
    pub fn open(path: impl Into<PathBuf>, step: u64) -> Result<Self> {
        let path = path.into();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => up_to(&text, step),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::io(&path, "read the metrics", e)),
        };
        millstream::atomic::write_atomically(&path, text.as_bytes())?;
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|e| Error::io(&path, "open the metrics", e))?;
        let last = text.lines().last().and_then(|line| serde_json::from_str::<Line>(line).ok());
        let validated = last.filter(|line| line.validation_loss.is_some()).map(|line| line.step);
        Ok(Self { path, file, validated })
    }

    /// Whether the validation after `step` was there when the file was opened: the session before wrote it, and ended
    /// before it saved a checkpoint.
    pub(super) fn has_validation(&self, step: u64) -> bool {
        self.validated == Some(step)
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

/// The whole lines of `step` and earlier ones.
fn up_to(text: &str, step: u64) -> String {
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
        assert_eq!(up_to(text, 2), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1.0}\n");
        assert_eq!(up_to(text, 0), "");
    }

    #[test]
    fn a_validation_that_an_earlier_session_wrote_is_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":5}\n{\"step\":5,\"validation_loss\":1.0}\n{\"step\":6}\n")
            .expect("written");
        assert!(!Metrics::open(&path, 6).expect("metrics").has_validation(5));
        assert!(Metrics::open(&path, 5).expect("metrics").has_validation(5));
        assert!(!Metrics::open(&path, 4).expect("metrics").has_validation(5));
    }
}
