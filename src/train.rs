//! The trainer: batches that are awaited in, a model and its checkpoints out.
//!
//! [`run()`] trains by a config and [`resume()`] goes on; [`Trainer`] is one step at a time, for a loop of one's
//! own. Beneath them each part stands alone: [`tensors`] is the only place where a batch becomes tensors,
//! [`model`] is the GPT, [`loss`] its head and cross-entropy in one, [`gradients`] a batch's gradients,
//! [`optimizer`] AdamW behind a global clip, [`schedule`] the learning rate, [`checkpoint`] what is saved,
//! [`generate()`] text from a model. A [`Scope`] says what of a batch is a target. A run leaves its cursors in a
//! [trail](crate::trail).

pub mod checkpoint;
pub mod device;
mod directory;
mod generate;
pub mod gradients;
pub mod loss;
mod metrics;
pub mod model;
pub mod optimizer;
mod random;
mod report;
mod run;
pub mod schedule;
mod scope;
pub mod tensors;
mod trainer;
pub mod unigram;

pub use checkpoint::Checkpoint;
pub use directory::RunDirectory;
pub use generate::{Sampling, generate};
pub use metrics::Metrics;
pub use report::{End, Observer, Outcome, StepReport, Validation};
pub use run::{drive, resume, run};
pub use scope::Scope;
pub use trainer::{Step, Trainer};
