//! The program and the examples as people run them, the configs that they read, and the floors of the code.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cli")]
mod check;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod compare;
mod config;
#[cfg(feature = "cli")]
mod cost;
#[cfg(all(feature = "cli", unix))]
mod docs;
mod examples;
#[cfg(feature = "cli")]
mod failures;
#[cfg(feature = "cli")]
mod first_steps;
mod floors;
#[cfg(feature = "cli")]
mod memory;
#[cfg(all(feature = "cli", unix))]
mod outputs;
#[cfg(all(feature = "cli", unix))]
mod parts;
#[cfg(all(feature = "cli", unix))]
mod prepare;
#[cfg(all(feature = "cli", unix))]
mod rows;
#[cfg(all(feature = "cli", unix))]
mod runs;
#[cfg(feature = "cli")]
mod sight;
#[cfg(all(feature = "cli", unix))]
mod terminal;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod threads;
#[cfg(feature = "cli")]
mod verify;
