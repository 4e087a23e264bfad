//! The reports of a run: plain values for a progress bar, a line of JSON or a file. Nothing here prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use millstream::error::ResumeFrom;
use millstream::loader::Watch;
use millstream::meter::{StageShare, Verdict};

/// The loss of some targets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanLoss {
    /// The mean, in nats per token.
    pub loss: f64,
    /// The number of targets.
    pub tokens: u64,
}

/// The losses of targets by what their documents say: by the names of
/// [`train.loss_by`](crate::config::TrainConfig::loss_by), and by the values of each.
pub type LossByValue = BTreeMap<String, BTreeMap<String, MeanLoss>>;

/// How fast a run trains, and what it waits for, over some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Targets per second, including time spent waiting for batches.
    pub tokens_per_second: f64,
    /// The share of the time that was spent waiting for batches, from 0 to 1.
    pub wait_share: f64,
    /// The share of the time that was spent waiting for the other ranks and summing gradients with them, from 0 to 1;
    /// `None` if there are no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_share: Option<f64>,
    /// Floating-point operations per second, counted from the shape of the model and its batches; `None` if the model's
    /// cost is not known. See [`Flops`](crate::cost::Flops).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_second: Option<f64>,
    /// The same, for each rank, as a share of `train.peak_tflops` (model FLOPs utilization); `None` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
}

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The number of the step, from 1.
    pub step: u64,
    /// The mean loss of the step's targets, in nats.
    pub loss: f64,
    /// The learning rate.
    pub lr: f64,
    /// The L2 norm of the gradient before it was clipped.
    pub grad_norm: f64,
    /// How many targets the run has trained on, including before it was resumed.
    pub tokens: u64,
    /// The rates since the last logged step.
    #[serde(flatten)]
    pub rates: Rates,
    /// The losses of the targets since the last logged step, by what their documents say; empty unless the step is logged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loss_by: LossByValue,
    /// The cause of the trainer's waits in that time, in words; only if the step is logged and the batches come from a
    /// loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The resident memory of the process, in bytes; only if the step is logged, and on systems that report it (Linux).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The time of each stage of the loader; only if the step is logged and the batches come from a loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<BTreeMap<String, StageShare>>,
    /// How long the run has trained, in seconds, including before it was resumed; without validation and checkpoints.
    pub seconds: f64,
    /// Whether this step goes to `metrics.jsonl`: one of every `log_every`, or the last.
    #[serde(skip)]
    pub logged: bool,
}

/// One pass over held-out batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The step that it came after.
    pub step: u64,
    /// The mean loss, in nats per token.
    pub validation_loss: f64,
    /// The loss in bits per byte of text, comparable across tokenizers; `None` if the batches came from no text.
    pub bits_per_byte: Option<f64>,
    /// The number of targets.
    pub validation_tokens: u64,
    /// The losses of the targets by what their documents say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loss_by: LossByValue,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// All steps are done.
    Finished,
    /// The data ended before the steps did.
    DataEnded,
    /// It was asked to stop; resume it from its checkpoint.
    Interrupted,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The last step.
    pub step: u64,
    /// How many targets the run trained on, including before it was resumed.
    pub tokens: u64,
    /// The last step's mean loss, in nats; `None` if no step was made.
    pub loss: Option<f64>,
    /// The loss of a model that knows only the frequencies of the tokens trained on, in nats per token.
    pub unigram_loss: f64,
    /// The validation loss after the last step, in nats per token; `None` if it was not validated.
    pub validation_loss: Option<f64>,
    /// The same in bits per byte of text.
    pub bits_per_byte: Option<f64>,
    /// The rates of this session.
    #[serde(flatten)]
    pub rates: Rates,
    /// The cause of this session's waits, in words; `None` if the batches did not come from a loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How long the run has trained, in seconds, including before it was resumed.
    pub seconds: f64,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
}

/// Receives a run's events as it goes. By default every method does nothing.
pub trait Observer {
    /// Called when the training batches' loader is open; you can watch it while the run goes on.
    fn on_open(&mut self, _watch: &Watch) {}

    /// Called after a step. If the data ends before `train.steps`, the last step comes again, as a logged one.
    fn on_step(&mut self, _report: &StepReport) {}

    /// Called after a validation.
    fn on_validation(&mut self, _validation: &Validation) {}

    /// Called after a checkpoint was saved at `path`.
    fn on_checkpoint(&mut self, _path: &Path) {}

    /// Called with a message that a person should read once.
    fn on_message(&mut self, _message: &str) {}

    /// Called after [`on_message`](Self::on_message) when the run can be resumed: from where.
    fn on_resumable(&mut self, _from: &ResumeFrom) {}
}

/// Ignores all events.
impl Observer for () {}
