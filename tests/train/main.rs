//! The trainer: the model, its gradients and steps, runs and their checkpoints.

#[path = "../support/mod.rs"]
mod support;

mod attention;
#[cfg(feature = "learner")]
mod burn_loader;
mod cost;
mod documents;
mod files;
mod lora;
mod loss_by;
mod masks;
mod model;
mod numbers;
mod operations;
mod optimizers;
mod own_model;
mod precision;
mod pretrained;
mod run;
mod small;
mod steps;
