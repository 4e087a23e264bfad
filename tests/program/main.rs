//! The program and the examples as people run them, the configs that they read, and the floors of the code.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod compare;
mod config;
#[cfg(all(feature = "cli", unix))]
mod docs;
mod examples;
#[cfg(feature = "cli")]
mod first_steps;
mod floors;
#[cfg(feature = "cli")]
mod memory;
#[cfg(all(feature = "cli", unix))]
mod prepare;
#[cfg(feature = "cli")]
mod sight;
#[cfg(feature = "cli")]
mod verify;
