//! The texts that the models of a run made from prompts: `samples.jsonl`, one JSON object per line.

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::lines;
use super::tensorboard::TensorBoard;
use crate::file_names::SAMPLES;
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

impl Sample {
    /// What TensorBoard shows: the prompt and the text after it.
    pub(super) fn whole(&self) -> String {
        format!("{}{}", self.prompt, self.text)
    }
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
        lines::append(&self.samples(), sample)?;
        let shown = TensorBoard::newest(&self.tensorboard())
            .and_then(|board| board.map_or(Ok(()), |mut board| board.sample(sample.step, &sample.whole())));
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
        let text = lines::read(&path)?;
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
