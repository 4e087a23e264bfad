//! Predicts the memory of a run: takes a config, returns bytes. Nothing is allocated.
//!
//! Parameters, moments, gradients and the activations that the backward pass needs follow from the parts of the
//! [`model`](crate::model). The prediction leaves out the program, its threads, the loader within `pipeline.memory`, and
//! tensors that live for one operation.

use std::fmt;

use serde::Serialize;

use super::machine::physical_memory;
use super::parameters::Parameters;
use crate::config::{LoraConfig, ModelConfig, OptimizerKind, Precision, RunConfig};
use crate::device;
use crate::kernels::chunks;
use crate::model::is_target;
use crate::model::shape::{Kind, Part, block_parts};
use millstream::disk;
use millstream::error::{Error, Result};
use millstream::world::World;

/// The bytes of a number in f32.
const F32: f64 = 4.0;

/// How much more than the memory in use the program's allocator holds, as a share of it, as measured on several shapes.
const ALLOCATOR_SHARE: f64 = 0.1;

/// The memory of a run at its peak, in bytes, as predicted from its config.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The model's parameters.
    pub parameters: f64,
    /// The optimizer's moments of each parameter that is trained: AdamW's two, or Muon's one.
    pub moments: f64,
    /// The gradients, or the copy of the moments that a checkpoint writes, whichever is more.
    pub gradients: f64,
    /// The activations that the backward pass needs, with the logits that exist at once.
    pub activations: f64,
    /// The overlap of both that never exists at once: a layer's activations go as its gradients come.
    pub overlap: f64,
    /// The memory that the allocator holds between pieces on the CPU.
    pub allocator: f64,
}

impl Memory {
    /// Predicts the memory of a run of `config` with `vocab` ids.
    pub fn new(config: &RunConfig, vocab: usize) -> Self {
        Self::with_parts(config, vocab, device::parts(&config.train))
    }

    /// As [`new`](Self::new), if the rows of each batch are split into `parts` parts that run at once.
    pub fn with_parts(config: &RunConfig, vocab: usize, parts: usize) -> Self {
        let (model, pipeline) = (&config.model, &config.data.pipeline);
        let vocab = model.vocab_size.unwrap_or(vocab);
        let length = pipeline.seq_len as f64;
        // Of one rank. Rows that cannot be divided are refused elsewhere.
        let devices = config.train.device_count();
        let ranks = World::planned(pipeline).unwrap_or(1) * devices;
        let rows = match pipeline.batch_tokens {
            Some(tokens) => (tokens as f64 / length).ceil(),
            None => (pipeline.batch_size / ranks) as f64,
        };
        let parts = (parts as f64).min(rows).max(1.0);
        let is_cpu = config.train.device == "flex";
        let entering = match config.train.precision {
            Precision::Bf16 => F32 / 2.0,
            Precision::F32 => F32,
        };
        // The CPU computes everything but products in f32, whatever the precision.
        let number = if is_cpu { F32 } else { entering };
        let counted = Parameters::new(model, vocab);
        let lora = config.train.lora.as_ref();
        let adapters = lora.map(|lora| Parameters::of_adapters(model, lora) * F32);
        let parameters = counted.total() * F32 + adapters.unwrap_or_default();
        // What has gradients and moments, and the part of it in the blocks' matrices.
        let trained = adapters.unwrap_or(parameters);
        let trained_in_blocks = adapters.unwrap_or(counted.blocks * F32);
        // Each part has its own gradients. A tied head's gradient exists beside the embedding's until they are added. A
        // step of several batches also holds the sum of theirs.
        let tied = if counted.embedding == 0.0 && lora.is_none() { 2.0 * counted.head * F32 } else { 0.0 };
        let sum = if config.train.accumulate > 1 { trained } else { 0.0 };
        let fewer = match config.train.optimizer {
            OptimizerKind::AdamW => 0.0,
            OptimizerKind::Muon => trained_in_blocks,
        };
        let moments = 2.0 * trained - fewer;
        let of_step = parts * (trained + tied) + sum;
        let gradients = of_step.max(moments);
        let places = rows * length;
        let of_layers = model.layers as f64 * places * kept_per_place(model, lora, number, entering);
        // A product in bf16 keeps its copy of the weights, in each part of the batch.
        let weights = match config.train.precision {
            Precision::F32 => 0.0,
            Precision::Bf16 => counted.multiplied() * parts * entering,
        };
        // With the softmax's results, where they do not replace the logits.
        let copies = if is_cpu { 1.0 } else { 3.0 };
        let chunk = chunks::logits(is_cpu);
        let logits = copies * parts * logits(chunk, model.d_model, vocab, (places / parts).ceil());
        let activations = of_layers + weights + logits;
        let freed = of_layers.min(parts * trained_in_blocks);
        let overlap = gradients + activations - moments.max(of_step + activations - freed);
        let share = if is_cpu { ALLOCATOR_SHARE } else { 0.0 };
        let allocator = share * (parameters + moments + gradients + activations - overlap);
        // Devices of the CPU share its memory.
        let replicas = if is_cpu { devices as f64 } else { 1.0 };
        let [parameters, moments, gradients, activations, overlap, allocator] =
            [parameters, moments, gradients, activations, overlap, allocator].map(|bytes| replicas * bytes);
        Self { parameters, moments, gradients, activations, overlap, allocator }
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.parameters + self.moments + self.gradients + self.activations - self.overlap + self.allocator
    }

    /// Refuses a model whose parameters, moments and gradients alone exceed the machine's memory, if it trains on the
    /// CPU.
    ///
    /// # Errors
    /// [`Error::Config`] with both numbers.
    pub fn check(&self, config: &RunConfig) -> Result<()> {
        // One set of gradients exists whatever the number of parts.
        let least = self.parameters + self.gradients.min(self.parameters) + self.moments;
        let Some(machine) = of_machine(config).filter(|machine| least > *machine) else { return Ok(()) };
        let problem = format!(
            "its parameters, moments and gradients take {}, and this machine has {}; lower model.layers, \
             model.d_model, model.d_ff or the size of the vocabulary",
            bytes(least),
            bytes(machine)
        );
        Err(Error::config("model", problem))
    }

    /// The length of a checkpoint, in bytes: the parameters and their moments, in f32 whatever the precision.
    pub fn checkpoint(&self) -> f64 {
        self.parameters + self.moments
    }

    /// A sentence that the checkpoints of the run may not fit on the disk of `train.out`; `None` if they will, or if
    /// the system does not say how much is free. While one is saved, all kept ones still exist; `there` of them do
    /// already.
    pub fn disk_warning(&self, config: &RunConfig, there: usize) -> Option<String> {
        let out = &config.train.out;
        let more = (config.train.keep.saturating_add(1).saturating_sub(there)) as f64;
        let (wanted, free) = (more * self.checkpoint(), disk::free(out)? as f64);
        (wanted > free).then(|| {
            format!(
                "the disk of {} has {} free, and the checkpoints take {} more, {} each; make room, or lower train.keep",
                out.display(),
                bytes(free),
                bytes(wanted),
                bytes(self.checkpoint())
            )
        })
    }

    /// A sentence that the run may not fit into the machine, if it trains on the CPU; `None` if it will.
    pub fn warning(&self, config: &RunConfig) -> Option<String> {
        let machine = of_machine(config).filter(|machine| self.total() > *machine)?;
        Some(format!(
            "this machine has {}, so the run may be stopped for want of memory; lower pipeline.batch_size or \
             pipeline.seq_len",
            bytes(machine)
        ))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parameters, moments, gradients, activations, overlap, allocator } = *self;
        let total = bytes(self.total());
        let [parameters, moments, gradients, activations] =
            [parameters, moments, gradients, activations].map(bytes);
        write!(
            f,
            "about {total}: parameters {parameters}, moments {moments}, gradients {gradients}, activations \
             {activations}"
        )?;
        if overlap > 0.0 {
            write!(f, ", less {} that are never held at once", bytes(overlap))?;
        }
        if allocator > 0.0 { write!(f, ", allocator {}", bytes(allocator)) } else { Ok(()) }
    }
}

/// The memory of the machine, if `config` trains in it.
fn of_machine(config: &RunConfig) -> Option<f64> {
    physical_memory().filter(|_| config.train.device == "flex").map(|bytes| bytes as f64)
}

/// The bytes that one place keeps in one layer for the backward pass. A number that enters a product has `entering`
/// bytes, any other `number` bytes.
fn kept_per_place(model: &ModelConfig, lora: Option<&LoraConfig>, number: f64, entering: f64) -> f64 {
    // A frozen matrix does not keep its input, and an adapter does; twice what its first factors give; and with dropout,
    // what the input is multiplied by.
    let of_input = |part: &Part| {
        let input = part.tensors[0].1[1] as f64 * entering;
        let Some(lora) = lora else { return input };
        match part.tensors.iter().filter(|(name, _)| is_target(lora, name)).count() {
            0 => 0.0,
            adapters => {
                let dropped = if lora.dropout > 0.0 { input } else { 0.0 };
                input + dropped + (2 * adapters * lora.rank) as f64 * number
            }
        }
    };
    let bytes = |part: Part| match part.kind {
        Kind::Matrix => part.kept as f64 * number + of_input(&part),
        // The input of a norm is f32 in each precision.
        Kind::Table | Kind::Vector => part.kept as f64 * F32,
    };
    block_parts(model, 0).into_iter().map(bytes).sum()
}

/// The bytes of the logits that a part with `places` places holds at once: those of a chunk.
fn logits(chunk: usize, width: usize, vocab: usize, places: f64) -> f64 {
    let chunk = f64::max(chunk as f64, 2.0 * width as f64 * vocab as f64);
    chunk.min(places * vocab as f64) * F32
}

/// Bytes as people say them: 1.2 GiB.
fn bytes(mut bytes: f64) -> String {
    const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    while bytes >= 1023.95 && unit < UNITS.len() - 1 {
        bytes /= 1024.0;
        unit += 1;
    }
    format!("{bytes:.1} {}", UNITS[unit])
}
