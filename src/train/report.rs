//! What a run tells: plain values, for a bar, a line of JSON or a file. Nothing here prints.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::loader::Watch;
use crate::meter::Verdict;

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Which step, from 1.
    pub step: u64,
    /// The mean loss of the step's targets, in nats.
    pub loss: f64,
    /// The learning rate.
    pub lr: f64,
    /// The L2 norm of the gradient before it was clipped.
    pub grad_norm: f64,
    /// How many targets have been trained on since the run began, resumed ones included.
    pub tokens: u64,
    /// Targets a second since the last logged step, time spent waiting for batches included.
    pub tokens_per_second: f64,
    /// The share of that time that was spent waiting for batches, from 0 to 1.
    pub wait_share: f64,
    /// What the trainer waited for in that time, in words; only where the step is logged and the batches are a
    /// loader's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How long the run has trained, in seconds, resumed runs included; validation and checkpoints are not.
    pub seconds: f64,
    /// Whether this step is one of every `log_every`, or the last: those go to `metrics.jsonl`.
    #[serde(skip)]
    pub logged: bool,
}

/// One pass over held-out batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// After which step.
    pub step: u64,
    /// The mean loss, in nats per token.
    pub validation_loss: f64,
    /// The loss in bits per byte of text, which tokenizers share; none if the batches came from no text.
    pub bits_per_byte: Option<f64>,
    /// How many targets there were.
    pub validation_tokens: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All steps are done.
    Finished,
    /// The data ended before the steps did.
    DataEnded,
    /// It was asked to stop; resume it from its checkpoint.
    Interrupted,
}

/// A run's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// After which step.
    pub step: u64,
    /// How many targets it trained on, resumed ones included.
    pub tokens: u64,
    /// The last step's mean loss, in nats; none if no step was ever made.
    pub loss: Option<f64>,
    /// The loss of a model that knows only the frequencies of the tokens trained on, in nats per token.
    pub unigram_loss: f64,
    /// The last validation's loss, in nats per token; none if nothing is held out.
    pub validation_loss: Option<f64>,
    /// The last validation's loss, in bits per byte of text.
    pub bits_per_byte: Option<f64>,
    /// Targets a second in this session, time spent waiting for batches included.
    pub tokens_per_second: f64,
    /// The share of this session's training time that was spent waiting for batches, from 0 to 1.
    pub wait_share: f64,
    /// What this session's trainer waited for, in words; none if the batches were no loader's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How long the run has trained, in seconds, resumed ones included.
    pub seconds: f64,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
}

/// Hears of a run as it goes. Every method does nothing unless it is given a body.
pub trait Observer {
    /// The training batches' loader is open, and can be looked at while the run goes on.
    fn on_open(&mut self, _watch: &Watch) {}

    /// A step is done.
    fn on_step(&mut self, _report: &StepReport) {}

    /// A validation is done.
    fn on_validation(&mut self, _validation: &Validation) {}

    /// A checkpoint lies at `path`.
    fn on_checkpoint(&mut self, _path: &Path) {}

    /// Something that a person should read once.
    fn on_message(&mut self, _message: &str) {}
}

/// Hears nothing.
impl Observer for () {}
