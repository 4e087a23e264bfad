//! The program and the examples as people run them, the configs that they read, and the floors of the code.

#[path = "../support/mod.rs"]
mod support;

#[cfg(all(feature = "cli", feature = "flex"))]
mod check;
#[cfg(all(feature = "cli", feature = "flex"))]
mod cli;
#[cfg(all(feature = "cli", feature = "flex"))]
mod compare;
mod config;
#[cfg(all(feature = "cli", feature = "flex"))]
mod cost;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod docs;
mod examples;
#[cfg(all(feature = "cli", feature = "flex"))]
mod failures;
#[cfg(all(feature = "cli", feature = "flex"))]
mod first_steps;
mod floors;
#[cfg(all(feature = "cli", feature = "flex", target_os = "linux"))]
mod limits;
#[cfg(all(feature = "cli", feature = "flex"))]
mod memory;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod outputs;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod parts;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod prepare;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod rows;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod runs;
#[cfg(all(feature = "cli", feature = "flex"))]
mod sight;
#[cfg(all(feature = "cli", feature = "flex", unix))]
mod terminal;
#[cfg(all(feature = "cli", feature = "flex", target_os = "linux"))]
mod threads;
#[cfg(all(feature = "cli", feature = "flex"))]
mod verify;
