//! Systems on which threads cannot be pinned.

use super::KEY;
use crate::error::{Error, Result};

/// No cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores;

impl Cores {
    pub(super) fn new(_: &[usize]) -> Result<Self> {
        Err(Error::config(KEY, "only Linux can keep threads on cores; leave it out"))
    }

    pub(super) fn near() -> Option<Self> {
        None
    }

    pub(super) fn take(&self) {}
}
