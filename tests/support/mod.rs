//! What the tests share. Each binary includes all of it and uses a part.

#![allow(dead_code, reason = "no binary uses all of it")]

pub(crate) mod cursors;
pub(crate) mod examples;
#[cfg(feature = "tokenizers")]
pub(crate) mod families;
#[cfg(target_os = "linux")]
pub(crate) mod faults;
pub(crate) mod find;
#[cfg(all(feature = "columnar", feature = "compression"))]
pub(crate) mod formats;
pub(crate) mod moto;
#[cfg(feature = "compression")]
pub(crate) mod packed;
pub(crate) mod pointer;
#[cfg(feature = "cli")]
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod runtime;
pub(crate) mod server;
pub(crate) mod skip;
#[cfg(all(feature = "cli", unix))]
pub(crate) mod terminal;
pub(crate) mod tokenizers;
pub(crate) mod torch;
pub(crate) mod wait;
