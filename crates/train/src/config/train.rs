//! `[train]`: how the model is trained.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lora::LoraConfig;
use millstream::config::reading::{
    Bound, Bounded, COUNT, Limit, NOT_NEGATIVE, Number, POSITIVE, SHARE, require,
};
use millstream::error::{Error, Result};

/// Steps, optimizer, schedule, and what is written when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = millstream::config::reading::describe::<TrainConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The run directory.
    pub out: PathBuf,
    /// The directory of a model that training starts from, with `config.json` and `model.safetensors` as the Hugging
    /// Face libraries write them, or `hf://OWNER/NAME` on the Hugging Face Hub. `[model]` is then that model's shape, and
    /// may be left out. Default: a new model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// Trains adapters of the model of `init` (LoRA), and leaves its weights as they are. Default: all weights are trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// The device: `flex`, the CPU, or `cuda`, `wgpu`, `vulkan` or `metal`, which are features of the build.
    pub device: String,
    /// The numbers of the devices that train together, such as `[0, 1]`: each takes its share of the rows, and the
    /// gradients are summed. With one number, the device that is used. Default: the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<usize>,
    /// The type that products are computed in. Parameters, their gradients and the optimizer's moments are always f32.
    pub precision: Precision,
    /// How many optimizer steps the run has.
    pub steps: u64,
    /// How many batches one step sums up.
    pub accumulate: usize,
    /// The learning rate after the warmup. Default: 1e-3 for a new model, 2e-5 for one that `init` names, 2e-4 for
    /// adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr: Option<f64>,
    /// The learning rate at the last step. Default: a tenth of `lr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lr: Option<f64>,
    /// How the learning rate goes from `lr` to `min_lr`.
    pub schedule: Schedule,
    /// For how many steps the learning rate rises first, linearly.
    pub warmup: u64,
    /// With `schedule = "wsd"`: over how many steps, the last ones, the learning rate falls. Default: a fifth of
    /// `steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay: Option<u64>,
    /// Whether attention stays within documents: positions begin at 0 in each, and its first id is not a
    /// target.
    pub mask_documents: bool,
    /// The optimizer: `adamw`, or `muon`. A run keeps the one that it began with.
    pub optimizer: OptimizerKind,
    /// The decay of matrices and embeddings; gains and biases do not decay.
    pub weight_decay: f32,
    /// AdamW's first moment decay.
    pub beta1: f32,
    /// AdamW's second moment decay.
    pub beta2: f32,
    /// AdamW's epsilon.
    pub epsilon: f32,
    /// The bound on the gradient's global L2 norm; 0 leaves it unclipped.
    pub clip: f32,
    /// What the device reaches at most, in TFLOP/s (10^12 floating-point operations per second) in `precision`: its
    /// maker says it, or `millstream bench device`. Rates are then shown as a share of it too (MFU). Default: no share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_tflops: Option<f64>,
    /// How often to log, in steps; the last step is logged too. 0 logs none.
    pub log_every: u64,
    /// By what the loss is told apart too, in metrics and validations: `source`, the `[[source]]` that a document comes
    /// from if there are several, and names that `columns` of a source has. A column's first 32 values are told apart, and
    /// the rest counts as `other`.
    pub loss_by: Vec<String>,
    /// How often to validate, in steps; the last step is validated too. 0 never validates.
    pub validate_every: u64,
    /// How many held-out batches a validation reads at most.
    pub validation_batches: usize,
    /// How often to save a checkpoint, in steps; the last step is always saved. 0 saves only that.
    pub checkpoint_every: u64,
    /// How often to add a cursor to the run's trail, in steps; 0 keeps no trail.
    pub trail_every: u64,
    /// Whether to write event files for TensorBoard too, in `tensorboard/` in the run directory.
    pub tensorboard: bool,
    /// How many checkpoints are kept.
    pub keep: usize,
    /// The text that the sample at the run's end begins with.
    pub prompt: String,
    /// How many tokens that sample has; 0 prints none.
    pub sample_tokens: usize,
}

/// How the learning rate goes from `lr`, after the warmup, to `min_lr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// As half a cosine, down to `min_lr` at the last step.
    #[default]
    Cosine,
    /// Evenly, down to `min_lr` at the last step.
    Linear,
    /// It stays at `lr`.
    Constant,
    /// It stays at `lr`, and falls evenly over the last `decay` steps (warmup-stable-decay).
    Wsd,
}

/// The optimizer of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// AdamW for all parameters.
    #[default]
    AdamW,
    /// Muon for the matrices of the hidden layers, and AdamW for all other parameters. Both take the same learning rate
    /// and weight decay.
    Muon,
}

/// The floating-point type of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    F32,
    /// bfloat16: half the bytes, and several times as fast on GPUs made for it. On the CPU it is slower.
    Bf16,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            out: PathBuf::from("runs/run"),
            init: None,
            lora: None,
            device: "flex".to_owned(),
            devices: Vec::new(),
            precision: Precision::default(),
            steps: 1000,
            accumulate: 1,
            lr: None,
            min_lr: None,
            schedule: Schedule::default(),
            warmup: 50,
            decay: None,
            mask_documents: false,
            optimizer: OptimizerKind::default(),
            weight_decay: 0.1,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            clip: 1.0,
            peak_tflops: None,
            log_every: 10,
            loss_by: vec![SOURCE.to_owned()],
            validate_every: 200,
            validation_batches: 16,
            checkpoint_every: 200,
            trail_every: 50,
            tensorboard: false,
            keep: 2,
            prompt: String::new(),
            sample_tokens: 128,
        }
    }
}

/// The name in `loss_by` of the source that a document comes from.
pub(crate) const SOURCE: &str = "source";

/// The names of all devices; each is a feature of the build.
pub const DEVICES: [&str; 5] = ["flex", "cuda", "wgpu", "vulkan", "metal"];

impl TrainConfig {
    /// The learning rate after the warmup.
    pub fn lr(&self) -> f64 {
        self.lr.unwrap_or(match (&self.init, &self.lora) {
            (_, Some(_)) => 2e-4,
            (Some(_), None) => 2e-5,
            (None, None) => 1e-3,
        })
    }

    /// The learning rate at the last step.
    pub fn min_lr(&self) -> f64 {
        self.min_lr.unwrap_or(self.lr() / 10.0)
    }

    /// The share of `peak_tflops` that a rate of floating-point operations is; `None` without `peak_tflops`.
    pub fn mfu(&self, flops_per_second: f64) -> Option<f64> {
        self.peak_tflops.map(|peak| flops_per_second / (peak * 1e12))
    }

    /// How many devices train together.
    pub fn device_count(&self) -> usize {
        self.devices.len().max(1)
    }

    /// How often `devices` names a number.
    fn times(&self, number: usize) -> usize {
        self.devices.iter().filter(|&&other| other == number).count()
    }

    pub(super) fn validate(&self) -> Result<()> {
        if !DEVICES.contains(&self.device.as_str()) {
            let problem = format!("unknown device `{}`; the devices are {}", self.device, DEVICES.join(", "));
            return Err(Error::config("train.device", problem));
        }
        if let Some(twice) = self.devices.iter().find(|&&number| self.times(number) > 1) {
            let problem = format!("device {twice} is named twice; name each device once");
            return Err(Error::config("train.devices", problem));
        }
        require(!self.out.as_os_str().is_empty(), "train.out", "\"\"", "a directory's name")?;
        self.check_bounds("train")?;
        if let Some(lora) = &self.lora {
            lora.validate()?;
            if self.init.is_none() {
                let problem = "adapters need a model that has learned something; name its directory in train.init, or \
                               leave train.lora out to train all weights";
                return Err(Error::config("train.lora", problem));
            }
        }
        let decay = self.decay.unwrap_or(1);
        let wanted = format!("from 1 to train.steps ({})", self.steps);
        require((1..=self.steps).contains(&decay), "train.decay", decay, &wanted)?;
        if self.decay.is_some() && self.schedule != Schedule::Wsd {
            let problem = "only the schedule \"wsd\" has a decay of its own; leave it out, or set train.schedule = \"wsd\"";
            return Err(Error::config("train.decay", problem));
        }
        require(self.min_lr() <= self.lr(), "train.min_lr", self.min_lr(), "from 0 to train.lr")
    }
}

impl Bounded for TrainConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("steps", COUNT, |train| train.steps.number()),
        ("accumulate", COUNT, |train| train.accumulate.number()),
        ("lr", POSITIVE, |train| train.lr.number()),
        ("min_lr", NOT_NEGATIVE, |train| train.min_lr.number()),
        ("decay", COUNT, |train| train.decay.number()),
        ("weight_decay", NOT_NEGATIVE, |train| train.weight_decay.number()),
        ("beta1", SHARE, |train| train.beta1.number()),
        ("beta2", SHARE, |train| train.beta2.number()),
        ("epsilon", POSITIVE, |train| train.epsilon.number()),
        ("clip", NOT_NEGATIVE, |train| train.clip.number()),
        ("peak_tflops", PEAK, |train| train.peak_tflops.number()),
        ("keep", COUNT, |train| train.keep.number()),
    ];
}

/// From what a small board reaches to more than any device does.
const PEAK: Bound = Bound::Noted(&Bound::Within(0.001, 1e6), ", in TFLOP/s (10^12 operations per second)");
