//! What the tests share. Each binary includes all of it and uses a part.

#![allow(dead_code, reason = "no binary uses all of it")]

pub(crate) mod cursors;
pub(crate) mod examples;
pub(crate) mod families;
#[cfg(target_os = "linux")]
pub(crate) mod faults;
pub(crate) mod find;
pub(crate) mod loaders;
pub(crate) mod moto;
pub(crate) mod pointer;
pub(crate) mod proxy;
pub(crate) mod runtime;
pub(crate) mod server;
pub(crate) mod skip;
pub(crate) mod tokenizers;
pub(crate) mod torch;
pub(crate) mod wait;

/// The workspace's directory.
pub(crate) fn root() -> &'static std::path::Path {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|directory| directory.join("Cargo.lock").exists()).expect("a workspace")
}
