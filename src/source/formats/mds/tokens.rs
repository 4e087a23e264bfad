//! Shards whose samples are tokens: a column of bytes, or of NumPy arrays.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Samples, index};
use crate::error::{Error, Result};
use crate::source::problem::{Problem, Unread};
use crate::store::Local;

#[derive(Debug)]
pub(crate) struct TokenShard {
    path: PathBuf,
    samples: Samples,
    column: usize,
    encoding: Encoding,
}

/// How the ids of a sample are stored in its column: little-endian. Negative ones are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Encoding {
    /// The width of an id in bytes; `None` if each sample says it.
    width: Option<usize>,
    /// Whether each sample has its shape: how many ids along each axis.
    has_shape: bool,
}

impl TokenShard {
    /// The shards that a directory's index lists, each with its length.
    pub(crate) fn all(directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
        let len = |path: PathBuf| {
            let metadata = std::fs::metadata(&path).map_err(|e| Error::io(&path, "look at the file", e))?;
            Ok((path, metadata.len()))
        };
        index::shards(directory)?.into_iter().map(len).collect()
    }

    /// Opens a shard of `len` bytes. `width` is the width of an id in a column of bytes, in bytes.
    pub(crate) fn open(path: &Path, len: u64, field: &str, width: usize) -> Result<Self> {
        let samples = Samples::open(Arc::new(Local::open(path, len)?))
            .map_err(|unread| refused(unread, path.display()))?;
        let column = samples.column(field)?;
        let encoding = &samples.head.encodings[column];
        let encoding = Encoding::from_name(encoding, width).ok_or_else(|| {
            samples
                .refuse(&format!("column {field:?} is {encoding} and not ids; name one of bytes or ndarray"))
        })?;
        Ok(Self { path: path.to_owned(), samples, column, encoding })
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples.count()
    }

    pub(crate) fn ids(&mut self, number: u64) -> Result<Vec<u64>> {
        let place = format_args!("{} (row {number})", self.path.display());
        let bytes = self.samples.bytes(number, self.column, |len| len);
        let (bytes, _) = bytes.map_err(|unread| refused(unread, place))?;
        self.encoding.ids(&bytes).ok_or_else(|| {
            self.refuse(
                number,
                "its bytes are not a whole number of ids; name their width, or get the file again",
            )
        })
    }

    pub(crate) fn refuse(&self, sample: u64, what: &str) -> Error {
        Error::Corpus { problem: format!("{} (row {sample}): {what}", self.path.display()) }
    }
}

/// The error for something at `place` that could not be read.
fn refused(unread: Unread, place: impl Display) -> Error {
    match unread {
        Unread::Damaged(Problem { what, remedy, .. }) => {
            Error::Corpus { problem: format!("{place}: {what}; {remedy}") }
        }
        Unread::Failed(error) => error,
    }
}

impl Encoding {
    /// The encoding that a description of columns calls `name`; `None` if it holds no ids.
    fn from_name(name: &str, width: usize) -> Option<Self> {
        let mut parts = name.split(':');
        match (parts.next()?, parts.next(), parts.next()) {
            ("bytes", None, None) => Some(Self { width: Some(width), has_shape: false }),
            ("ndarray", None, None) => Some(Self { width: None, has_shape: true }),
            ("ndarray", Some(kind), shape) => {
                let width = match kind {
                    "uint8" | "int8" => 1,
                    "uint16" | "int16" => 2,
                    "uint32" | "int32" => 4,
                    "uint64" | "int64" => 8,
                    _ => return None,
                };
                Some(Self { width: Some(width), has_shape: shape.is_none() })
            }
            _ => None,
        }
    }

    fn ids(self, mut bytes: &[u8]) -> Option<Vec<u64>> {
        let width = match self.width {
            Some(width) => width,
            None => match *bytes.split_off_first()? {
                8 | 9 => 1,
                16 | 17 => 2,
                32 | 33 => 4,
                64 | 65 => 8,
                _ => return None,
            },
        };
        if self.has_shape {
            // The number of axes, and in the lowest two bits the width of their lengths.
            let shape = *bytes.split_off_first()?;
            bytes = bytes.get(usize::from(shape >> 2) << (shape & 3)..)?;
        }
        let id = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |id, byte| id << 8 | u64::from(*byte));
        bytes.len().is_multiple_of(width).then(|| bytes.chunks_exact(width).map(id).collect())
    }
}
