//! The trainer.

pub mod gradients;
pub mod loss;
pub mod model;
pub mod optimizer;
mod random;
pub mod schedule;
pub mod tensors;
