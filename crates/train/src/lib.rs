//! The trainer: takes batches, and produces a model and its checkpoints.
//!
//! [`run()`] trains from a config and [`resume()`] continues a run. [`Trainer`] does one step at a time, for a custom
//! loop, with the crate's [GPT](model) or any other [`LanguageModel`]. The parts beneath them work alone too:
//! [`tensors`] is the only place where a batch becomes tensors, [`loss`] fuses the GPT's head and cross-entropy,
//! [`gradients`] computes a batch's gradients, [`optimizer`] is AdamW with a global clip, `schedule` is the learning
//! rate, [`checkpoint`] is what is saved, [`cost`] is what a step takes, [`generate()`] makes text from a model,
//! [`Pretrained`] reads a model that the Hugging Face libraries wrote, and [`Export`] writes one for them. A [`Scope`]
//! says which ids of a batch are targets. A run stores its cursors in a [trail](millstream::trail), and its reports in
//! `metrics.jsonl` and TensorBoard's event files. With the feature `learner`, `BurnLoader` feeds burn's own `Learner`
//! instead.

mod adamw;
mod advice;
#[cfg(feature = "learner")]
mod burn_loader;
pub mod checkpoint;
mod chunks;
mod clock;
pub mod cost;
mod cpu;
mod derivative;
pub mod device;
mod devices;
mod directory;
mod drive;
mod fingerprint;
mod generate;
mod gpt;
pub mod gradients;
mod language_model;
mod layout;
mod log;
pub mod loss;
mod metrics;
pub mod model;
pub mod optimizer;
mod peers;
mod pretrained;
mod product;
mod queue;
mod random;
mod rank;
mod reading;
mod ready;
mod records;
mod replicas;
mod report;
mod run;
mod samples;
mod schedule;
mod scope;
mod session;
mod settings;
mod tally;
mod tensorboard;
pub mod tensors;
mod trainer;
pub mod unigram;

#[cfg(feature = "learner")]
pub use burn_loader::{BurnLoader, TensorBatcher};
pub use checkpoint::Checkpoint;
pub use directory::RunDirectory;
pub use drive::drive;
pub use generate::{Sampling, generate};
pub use language_model::LanguageModel;
pub use metrics::Metrics;
pub use peers::Peers;
pub use pretrained::{Export, Origin, Pretrained, WeightDtype, load, resolved};
pub use ready::ready;
pub use report::{End, Observer, Outcome, SourceLoss, StepReport, Validation};
pub use run::{resume, resume_from, run};
pub use samples::Sample;
pub use scope::Scope;
pub use trainer::{Step, Submitted, Trainer};

/// The page whose Rust blocks rustdoc tests.
#[cfg(doctest)]
#[expect(rustdoc::invalid_codeblock_attributes, reason = "shell blocks that are not run say `no-run`")]
#[doc = include_str!("../../../docs/guide/training.md")]
mod training {}
