//! The program and the examples as people run them, the configs that they read, and the floors of the code.

#[path = "../support/chats.rs"]
mod chats_in_files;
#[allow(dead_code, unused_imports, reason = "the source's tests use the rest")]
#[path = "../source/corpus.rs"]
mod corpus;
#[cfg(unix)]
#[path = "../support/hub.rs"]
mod hub_server;
#[path = "../support/program.rs"]
mod program;
#[cfg(unix)]
#[path = "../support/terminal.rs"]
mod pty;
#[allow(dead_code, unused_imports, reason = "the stores' tests use the rest")]
#[path = "../store/corpus.rs"]
mod remote;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/mod.rs"]
mod support;

mod check;
mod cli;
mod columns;
mod compare;
mod config;
mod cost;
#[cfg(unix)]
mod docs;
mod examples;
mod failures;
mod first_steps;
mod floors;
#[cfg(unix)]
mod hub;
mod ledger;
#[cfg(target_os = "linux")]
mod limits;
mod masks;
mod memory;
#[cfg(unix)]
mod outputs;
#[cfg(unix)]
mod parts;
mod paths;
#[cfg(unix)]
mod prepare;
#[cfg(unix)]
mod runs;
mod stdin;
mod stores;
mod synthetic;
mod telemetry;
#[cfg(unix)]
mod terminal;
#[cfg(target_os = "linux")]
mod threads;
mod tokenizers;
mod verify;
