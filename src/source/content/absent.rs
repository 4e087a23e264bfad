//! What stands for compressed files in a build that does not read them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::super::content::After;
use super::codec::Codec;
use crate::error::{Error, Result};
use crate::store::Stored;

/// No compressed file.
#[derive(Debug)]
pub(super) enum Unpacked {}

/// No frames of a compressed file.
#[derive(Debug)]
pub(in crate::source) enum Frames {}

impl Frames {
    pub(in crate::source) fn find(_: &dyn Stored, _: u64, _: bool) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(in crate::source) fn cuts(&self) -> &[u64] {
        match *self {}
    }

    pub(in crate::source) fn stored(&self, _: Range<u64>) -> Range<u64> {
        match *self {}
    }
}

impl Unpacked {
    pub(super) fn open(stored: &Arc<dyn Stored>, codec: Codec, _: Option<Arc<Frames>>) -> Result<Self> {
        let path = stored.path().display();
        let problem = format!(
            "{path} is compressed with {codec}, which this build does not read; build it with the feature \
             `compression`, or unpack the file"
        );
        Err(Error::Corpus { problem })
    }

    pub(super) fn path(&self) -> &Path {
        match *self {}
    }

    pub(super) fn read(&mut self, _: u64, _: usize, _: &mut Vec<u8>) -> Result<After> {
        match *self {}
    }
}
