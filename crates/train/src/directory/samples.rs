//! The texts that the models of a run made from prompts: `samples.jsonl`, one JSON object per line.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::tensorboard::TensorBoard;
use crate::file_names::SAMPLES;
use millstream::atomic::write_atomically;
use millstream::error::{Error, Result};

/// A text that a run's model made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The step after which the model made it.
    pub step: u64,
    /// The text before it.
    pub prompt: String,
    /// The text, without the prompt.
    pub text: String,
}

impl RunDirectory {
    /// Saves a sample in the run's directory, and shows it in TensorBoard if the run has event files. A sample that is
    /// already saved is not saved again. If TensorBoard's files cannot be written, that is only a warning.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written, and the errors of [`saved_samples`](Self::saved_samples).
    pub fn save_sample(&self, sample: &Sample) -> Result<()> {
        if self.saved_samples()?.contains(sample) {
            return Ok(());
        }
        let path = self.samples();
        let failed = |e| Error::io(&path, "write", e);
        let line = serde_json::to_string(sample).map_err(|e| failed(e.into()))? + "\n";
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(failed)?;
        let text = format!("{}{}", sample.prompt, sample.text);
        let shown = TensorBoard::newest(&self.tensorboard())
            .and_then(|board| board.map_or(Ok(()), |mut board| board.text(sample.step, "sample", &text)));
        if let Err(error) = shown {
            tracing::warn!("{}; TensorBoard does not show the sample, and {SAMPLES} has it", error.chain());
        }
        Ok(())
    }

    /// The samples that the run has saved, in order. A last line that a kill cut off is left out.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, [`Error::Config`] if a line is not a sample.
    pub fn saved_samples(&self) -> Result<Vec<Sample>> {
        let path = self.samples();
        let text = read(&path)?;
        let sample = |(number, line): (usize, &str)| match serde_json::from_str(line) {
            Ok(sample) => Some(Ok(sample)),
            Err(_) if !line.ends_with('\n') => None,
            Err(e) => {
                let problem = format!("this is not a sample: {e}; correct the line, or remove it");
                Some(Err(Error::config(format!("{}:{}", path.display(), number + 1), problem)))
            }
        };
        text.split_inclusive('\n').enumerate().filter_map(sample).collect()
    }
}

/// Removes the samples of later steps, and a line that a kill cut off.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn cut(path: &Path, step: u64) -> Result<()> {
    let text = read(path)?;
    let is_kept = |line: &&str| {
        line.ends_with('\n') && serde_json::from_str::<Sample>(line).is_ok_and(|sample| sample.step <= step)
    };
    let kept: String = text.split_inclusive('\n').filter(is_kept).collect();
    if kept == text { Ok(()) } else { write_atomically(path, kept.as_bytes()) }
}

/// The text of the file; empty if there is none.
fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|e| Error::io(path, "read", e)),
    }
}
