//! Stands for compressed files in a build that cannot read them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::Codec;
use crate::source::content::ReadEnd;
use crate::store::Stored;

/// A compressed file: there is none.
#[derive(Debug)]
pub(super) enum Unpacked {}

/// The frames of a compressed file: there are none.
#[derive(Debug)]
pub(crate) enum Frames {}

impl Frames {
    pub(crate) fn find(_: &dyn Stored, _: u64, _: bool) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn cuts(&self) -> &[u64] {
        match *self {}
    }

    pub(crate) fn stored(&self, _: Range<u64>) -> Range<u64> {
        match *self {}
    }
}

impl Unpacked {
    pub(super) fn open(
        stored: &Arc<dyn Stored>,
        codec: Codec,
        _: Option<Arc<Frames>>,
        _: u64,
    ) -> Result<Self> {
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

    pub(super) fn read(&mut self, _: u64, _: usize, _: &mut Vec<u8>) -> Result<ReadEnd> {
        match *self {}
    }
}
