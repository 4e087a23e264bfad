//! A file's text, as bytes at any offset: as it is stored, or as it is decompressed.

use std::path::Path;
use std::sync::Arc;

use super::corpus::Layout;
use super::decode::Problem;
use super::pipe::Pipe;
use crate::config::STDIN;
use crate::error::{Error, Result};
use crate::store::Stored;

/// The text of one open file.
#[derive(Debug)]
pub(super) enum Content {
    Plain(Arc<dyn Stored>),
    Piped(Pipe),
}

/// What comes after the bytes that a read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// More bytes, or none: the next read tells.
    More,
    /// Nothing: it is the end of the text.
    End,
    /// Nothing that can be read, although it is not the end.
    Broken(Broken),
}

/// Where and why a file cannot be decompressed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The offset in the file as it is stored, in bytes.
    pub(super) byte: u64,
    pub(super) what: String,
}

impl From<Broken> for Problem {
    fn from(Broken { byte, what }: Broken) -> Self {
        let remedy = "get the file anew, or leave out what follows there";
        Self { offset: 0, stored: Some(byte), what, remedy }
    }
}

impl Content {
    /// How a file of text is cut into splits of about `nominal` bytes.
    #[expect(
        clippy::unnecessary_wraps,
        clippy::needless_pass_by_value,
        reason = "compressed files are looked at"
    )]
    pub(super) fn layout(_stored: Arc<dyn Stored>, nominal: u64) -> Result<Layout> {
        Ok(Layout::Even(nominal))
    }

    pub(super) fn open(stored: Arc<dyn Stored>) -> Result<Self> {
        Ok(Self::Plain(stored))
    }

    /// The path or URL that errors name.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Plain(stored) => stored.path(),
            Self::Piped(_) => Path::new(STDIN),
        }
    }

    /// The text's length in bytes, if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::Plain(stored) => Some(stored.len()),
            Self::Piped(_) => None,
        }
    }

    /// Appends `n` bytes from `from` on, or fewer if the text ends or breaks off before.
    ///
    /// # Errors
    /// As [`Stored::read_at`].
    pub(super) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> Result<After> {
        match self {
            Self::Plain(stored) => plain(&**stored, from, n, into),
            Self::Piped(pipe) => pipe.read(from, n, into).map_err(|e| Error::io(STDIN, "read", e)),
        }
    }
}

/// Reads text that lies as it is.
fn plain(stored: &dyn Stored, from: u64, n: usize, into: &mut Vec<u8>) -> Result<After> {
    let left = stored.len().saturating_sub(from);
    let n = usize::try_from(left).map_or(n, |left| left.min(n));
    if n == 0 {
        return Ok(if left == 0 { After::End } else { After::More });
    }
    let held = into.len();
    if held == 0 {
        // Fresh memory of the system is zero already.
        *into = vec![0; n];
    } else {
        into.resize(held + n, 0);
    }
    if let Err(error) = stored.read_at(from, &mut into[held..]) {
        into.truncate(held);
        return Err(error);
    }
    Ok(if n as u64 == left { After::End } else { After::More })
}
