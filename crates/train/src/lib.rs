//! The trainer: takes batches, and produces a model and its checkpoints.
//!
//! [`run()`] trains from a config and [`resume()`] continues a run. [`Trainer`] does one step at a time, for a custom
//! loop, with the crate's [GPT](model) or any other [`LanguageModel`]. The parts beneath them work alone too:
//! [`Tensors`] is the only place where a batch becomes tensors, [`attention`] needs memory that grows with the length,
//! [`loss`] fuses the GPT's head and cross-entropy, [`gradients`] computes a batch's gradients, [`Optimizer`] is AdamW
//! or Muon after a global clip, [`checkpoint`] saves and loads a run, [`cost`] predicts the work and memory of a step,
//! [`generate()`] makes text from a model, [`Pretrained`] reads a model that the Hugging Face libraries wrote, and
//! [`Export`] writes one for them. A [`Scope`] says which ids of a batch are targets. A run stores its cursors in a
//! [trail](millstream::trail), and its reports in `metrics.jsonl` and TensorBoard's event files.
//!
//! ```text
//! batch ──► tensors ──► losses and gradients ──► sum over ranks ──► optimizer ──► checkpoint
//! ```
//!
//! # Floors
//!
//! Imports point down only, and never in a circle; a test reads this table and the imports.
//!
//! | floor | what |
//! |---|---|
//! | `run`, `burn_loader` | a run from its first step to its last, on each rank; batches for burn's own `Learner` |
//! | `trainer`, `directory` | a model in training, one step at a time; the files of a run |
//! | [`checkpoint`] | everything that a run needs to continue |
//! | `optim`, `peers`, `pretrained`, [`cost`] | gradients, optimizers, the learning rate; the ranks that train one model; models of the Hugging Face libraries; operations and bytes of a step |
//! | [`model`] | the trait of models; the GPT, its inputs and outputs |
//! | `kernels` | its operations and their gradients, on the CPU and on GPUs |
//! | [`device`] | burn's devices by their names, and numbers read from them |
//! | [`config`] | a run's config: the loader's, the model's and the training's |
//! | `events`, `file_names` | a run's reports; the names of the files in a run's directory |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `cuda`, `metal`, `vulkan`, `wgpu` | GPUs, besides the CPU |
//! | `mpi` | training in several processes, which sum their gradients over MPI |
//! | `learner` | `BurnLoader`, which feeds burn's own `Learner` |
//! | `schema` | the JSON Schema of configs: `RunConfig::schema` |

#[cfg(feature = "learner")]
mod burn_loader;
pub mod checkpoint;
pub mod config;
pub mod cost;
pub mod device;
mod directory;
mod events;
mod file_names;
mod kernels;
pub mod model;
mod optim;
mod peers;
mod pretrained;
mod run;
mod trainer;

#[cfg(feature = "learner")]
pub use burn_loader::{BurnLoader, TensorBatcher};
pub use checkpoint::Checkpoint;
pub use config::RunConfig;
pub use directory::{RunDirectory, Sample, SessionConfig};
pub use events::{End, LossByValue, MeanLoss, Observer, Outcome, Rates, StepReport, Validation};
pub use kernels::{attention, loss};
pub use model::{LanguageModel, Sampling, Scope, Tensors, generate, generate_after};
pub use optim::{Optimizer, gradients};
pub use peers::Peers;
pub use pretrained::{Export, Origin, Pretrained, WeightDtype, load, resolved};
pub use run::{drive, ready, resume, resume_from, run};
pub use trainer::{Step, Submitted, Trainer};

/// The page of the guide whose Rust blocks rustdoc tests.
#[cfg(doctest)]
#[expect(rustdoc::invalid_codeblock_attributes, reason = "shell blocks that are not run say `no-run`")]
#[doc = include_str!("../../../docs/guide/training.md")]
mod training {}
