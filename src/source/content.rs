//! A file's text, as bytes at any offset: as it is stored, or as it is decompressed.
//!
//! A file is compressed if it begins so, whatever its name; offsets are those in its text. The files of a build without
//! the feature `compression` are text, and a compressed one is an error.

use std::path::Path;
use std::sync::{Arc, Once};

mod codec;
#[cfg(feature = "compression")]
mod decoder;
#[cfg(feature = "compression")]
mod frames;
#[cfg(feature = "compression")]
mod held;
#[cfg(feature = "compression")]
mod pieces;
mod pipe;
#[cfg_attr(not(feature = "compression"), path = "content/absent.rs")]
mod unpacked;

pub(super) use codec::Codec;
pub(super) use pipe::Pipe;
pub(super) use unpacked::Frames;

use codec::{Found, HEAD_BYTES};
use unpacked::Unpacked;

use super::problem::Broken;
use crate::config::STDIN;
use crate::error::{Error, Result};
use crate::store::Stored;

/// The text of one open file.
#[derive(Debug)]
pub(super) struct Content(Kind);

#[derive(Debug)]
enum Kind {
    Plain(Arc<dyn Stored>),
    Packed(Box<Unpacked>),
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
    #[cfg_attr(not(feature = "compression"), allow(dead_code, reason = "only compressed files break off"))]
    Broken(Broken),
}

impl Content {
    /// A file that is known to be as it is stored, so that its head need not be looked at again.
    pub(super) fn plain(stored: Arc<dyn Stored>) -> Self {
        Self(Kind::Plain(stored))
    }

    /// A file whose frames are those of its layout, so that its head need not be looked at either.
    pub(super) fn in_frames(stored: Arc<dyn Stored>, frames: Arc<Frames>) -> Result<Self> {
        Ok(Self(Kind::Packed(Box::new(Unpacked::open(&stored, Codec::Zstd, Some(frames))?))))
    }

    /// Opens a file.
    pub(super) fn open(stored: Arc<dyn Stored>) -> Result<Self> {
        Ok(Self(match codec(&*stored)? {
            None => Kind::Plain(stored),
            Some(codec) => Kind::Packed(Box::new(Unpacked::open(&stored, codec, None)?)),
        }))
    }

    /// Text that comes once.
    pub(super) fn piped(pipe: Pipe) -> Self {
        Self(Kind::Piped(pipe))
    }

    /// The path or URL that errors name.
    pub(super) fn path(&self) -> &Path {
        match &self.0 {
            Kind::Plain(stored) => stored.path(),
            Kind::Packed(unpacked) => unpacked.path(),
            Kind::Piped(_) => Path::new(STDIN),
        }
    }

    /// The text's length in bytes, if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.0 {
            Kind::Plain(stored) => Some(stored.len()),
            Kind::Packed(_) | Kind::Piped(_) => None,
        }
    }

    /// Appends `n` bytes from `from` on, or fewer if the text ends or breaks off before.
    ///
    /// # Errors
    /// As [`Stored::read_at`].
    pub(super) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> Result<After> {
        match &mut self.0 {
            Kind::Plain(stored) => read_plain(&**stored, from, n, into),
            Kind::Packed(unpacked) => unpacked.read(from, n, into),
            Kind::Piped(pipe) => pipe.read(from, n, into).map_err(|e| Error::io(STDIN, "read", e)),
        }
    }
}

/// About how many bytes it takes in memory to decompress a file; none if it is not compressed.
pub(super) fn packed(stored: &dyn Stored) -> Result<Option<u64>> {
    Ok(codec(stored)?.map(|codec| codec.held(stored.len())))
}

/// The compression of a file; none for text.
pub(super) fn codec(stored: &dyn Stored) -> Result<Option<Codec>> {
    let mut head = [0; HEAD_BYTES];
    let head = &mut head[..stored.len().min(HEAD_BYTES as u64) as usize];
    stored.look_at(0, head)?;
    Ok(match Codec::find(stored.path(), head) {
        Found::Text => None,
        Found::Packed(codec) => Some(codec),
        Found::TextNamed(codec) => {
            static SAID: Once = Once::new();
            let path = stored.path().display();
            SAID.call_once(|| {
                tracing::warn!(%path, "named as {codec}, and text: it is read as it is, and others like it");
            });
            None
        }
    })
}

fn read_plain(stored: &dyn Stored, from: u64, n: usize, into: &mut Vec<u8>) -> Result<After> {
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
