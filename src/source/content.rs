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
#[cfg_attr(not(feature = "compression"), path = "content/absent.rs")]
mod unpacked;

pub(super) use unpacked::Frames;

use codec::{Codec, Found, HEAD_BYTES};
use unpacked::Unpacked;

use super::corpus::{Laid, Layout};
use super::decode::Problem;
use super::framing::{Frame, Framer, Place, Shape, bom_len};
use super::nominal::{LONGEST, Nominal, SHORTEST};
use super::pipe::Pipe;
use crate::config::STDIN;
use crate::error::{Error, Result};
use crate::store::Stored;

/// Documents are long where a second one does not begin within the first bytes of a file, so many of them.
const PROBED: u64 = 64 << 10;

/// How much is read at once to find where documents begin, in bytes.
const SCANNED_BYTES: usize = 256 << 10;

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

/// Where and why a file cannot be decompressed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The offset in the file as it is stored, in bytes.
    pub(super) byte: u64,
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

impl Broken {
    /// What to do about a file that is not whole.
    pub(super) const ANEW: &str = "get the file anew";
}

impl From<Broken> for Problem {
    fn from(Broken { byte, what, remedy }: Broken) -> Self {
        Self { offset: 0, stored: Some(byte), what, remedy }
    }
}

impl Content {
    /// How a file of text, whose documents have this shape, is cut into splits.
    pub(super) fn layout(stored: Arc<dyn Stored>, shape: Shape, nominal: &Nominal) -> Result<Laid> {
        let (codec, len) = (codec(&*stored)?, stored.len());
        let layout = match codec {
            None => {
                let mut content = Self::plain(stored);
                let is_small = nominal.is_small
                    || nominal.is_small_of_long && content.documents(shape, Some(PROBED))?.len() < 2;
                match is_small {
                    true => {
                        let starts = content.documents(shape, None)?;
                        Layout::Documents(nominal.cuts(content.len().unwrap_or(0), &starts).into())
                    }
                    false if nominal.is_auto => Layout::Even(nominal.bytes.max(SHORTEST)),
                    false => Layout::Even(nominal.bytes),
                }
            }
            Some(Codec::Zstd) => {
                let bytes = if nominal.is_auto { nominal.bytes.max(LONGEST) } else { nominal.bytes };
                let frames = Frames::find(&*stored, bytes, stored.is_local())?;
                let frames = frames.filter(|frames| !frames.cuts().is_empty());
                frames.map_or(Layout::Whole, |frames| Layout::Frames(Arc::new(frames)))
            }
            Some(Codec::Gzip | Codec::Bzip2 | Codec::Xz) => Layout::Whole,
        };
        let held = codec.map_or(0, |codec| codec.held(len));
        let held = match &layout {
            // Nothing looks back beyond its frame, and none is longer than a split.
            Layout::Frames(frames) => held.min(longest_gap(frames.cuts())),
            _ => held,
        };
        Ok(Laid { layout, held })
    }

    /// Where documents begin, in the first `most` bytes or in all of them. The first one begins where the file does.
    fn documents(&mut self, shape: Shape, most: Option<u64>) -> Result<Vec<u64>> {
        let mut starts = Vec::new();
        let (mut at, mut bytes) = (0, Vec::new());
        let mut framer = None;
        while most.is_none_or(|most| at < most) {
            bytes.clear();
            let n = most.map_or(SCANNED_BYTES, |most| SCANNED_BYTES.min(most as usize));
            let after = self.read(at, n, &mut bytes)?;
            let mut done = 0;
            let framer = framer.get_or_insert_with(|| {
                done = bom_len(&bytes);
                Framer::new(shape, Place { byte: done as u64, line: 0 })
            });
            let mut note = |frame: Frame| {
                if frame.len > 0 {
                    starts.push(if starts.is_empty() { 0 } else { frame.start.byte });
                }
            };
            while let Some((taken, frame)) = framer.push(&bytes[done..]) {
                done += taken;
                note(frame);
            }
            at += bytes.len() as u64;
            if after == After::End || bytes.is_empty() {
                note(framer.finish());
                break;
            }
        }
        Ok(starts)
    }

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

/// The longest of the parts that end at these places.
fn longest_gap(ends: &[u64]) -> u64 {
    let begins = std::iter::once(&0).chain(ends);
    begins.zip(ends).map(|(begin, end)| end - begin).max().unwrap_or(u64::MAX)
}

/// The compression of a file; none for text.
fn codec(stored: &dyn Stored) -> Result<Option<Codec>> {
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
