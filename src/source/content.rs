//! A file's text, as bytes at any offset: as stored, or decompressed.
//!
//! A file's first bytes tell whether it is compressed, whatever its name. Offsets are offsets in the text. A build
//! without the feature `compression` reads only uncompressed files; a compressed one is an error.
//!
//! - `unpacked`: the text of a compressed file, from any offset on; `absent` stands for it without the feature
//! - `decoder`: all decompressors behind one interface
//! - `frames`: where the frames of a zstd file begin
//! - `held`: decompressed text that may be read again
//! - `pieces`: a file's stored bytes, a piece at a time
//! - `pipe`: standard input, which can be read only once

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Once};

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

pub(crate) use pipe::Pipe;
pub(crate) use unpacked::Frames;

use unpacked::Unpacked;

use super::framing::{Frame, Framer, Shape, bom_len};
use super::problem::Problem;
use crate::config::SourceKind;
use crate::error::{Error, Result};
use crate::files::{Codec, DetectedCodec, HEAD_BYTES, UnreadKind, is_text};
use crate::location::STDIN;
use crate::segment::Boundary;
use crate::store::Stored;

/// The text of one open file.
#[derive(Debug)]
pub(crate) struct Content(Kind);

#[derive(Debug)]
enum Kind {
    Plain(Arc<dyn Stored>),
    Packed(Box<Unpacked>),
    Piped(Pipe),
    Unread(Arc<dyn Stored>, UnreadKind),
}

/// The state of the text after the bytes of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// More bytes, or the end: the next read tells.
    More,
    /// Nothing: the text ends here.
    End,
    /// Nothing readable, although the text does not end here.
    Broken(Problem),
}

impl Content {
    /// A file that is known to be uncompressed, so that its head is not looked at again.
    pub(crate) fn plain(stored: Arc<dyn Stored>) -> Self {
        Self(Kind::Plain(stored))
    }

    /// A file whose frames are known from its layout, so that its head is not looked at again.
    pub(crate) fn in_frames(stored: Arc<dyn Stored>, frames: Arc<Frames>, zstd_window: u64) -> Result<Self> {
        Ok(Self(Kind::Packed(Box::new(Unpacked::open(&stored, Codec::Zstd, Some(frames), zstd_window)?))))
    }

    /// Opens a file whose window, if it is compressed with zstd, may be this large, in bytes.
    pub(crate) fn open(stored: Arc<dyn Stored>, zstd_window: u64) -> Result<Self> {
        let (codec, _) = codec(&*stored)?;
        Self::detected(codec, stored, zstd_window)
    }

    /// The same for a file that has to be text.
    pub(crate) fn open_text(stored: Arc<dyn Stored>, zstd_window: u64) -> Result<Self> {
        let (codec, _) = text_codec(&*stored)?;
        Self::detected(codec, stored, zstd_window)
    }

    fn detected(codec: DetectedCodec, stored: Arc<dyn Stored>, zstd_window: u64) -> Result<Self> {
        Ok(Self(match codec {
            DetectedCodec::Text | DetectedCodec::TextNamed(_) => Kind::Plain(stored),
            DetectedCodec::Packed(codec) => {
                Kind::Packed(Box::new(Unpacked::open(&stored, codec, None, zstd_window)?))
            }
            DetectedCodec::Unread(kind) => Kind::Unread(stored, kind),
        }))
    }

    /// Text that can be read only once.
    pub(crate) fn piped(pipe: Pipe) -> Self {
        Self(Kind::Piped(pipe))
    }

    /// The path or URL that errors name.
    pub(crate) fn path(&self) -> &Path {
        match &self.0 {
            Kind::Plain(stored) | Kind::Unread(stored, _) => stored.path(),
            Kind::Packed(unpacked) => unpacked.path(),
            Kind::Piped(_) => Path::new(STDIN),
        }
    }

    /// Whether it is text as it is stored, which can be read from any byte on at once.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.0, Kind::Plain(_))
    }

    /// The text's length in bytes, if it is known.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.0 {
            Kind::Plain(stored) => Some(stored.len()),
            Kind::Packed(_) | Kind::Piped(_) | Kind::Unread(..) => None,
        }
    }

    /// Appends `n` bytes from `from` on, or fewer if the text ends or breaks off earlier.
    pub(crate) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> Result<ReadEnd> {
        match &mut self.0 {
            Kind::Plain(stored) => read_plain(&**stored, from, n, into),
            Kind::Packed(unpacked) => unpacked.read(from, n, into),
            Kind::Piped(pipe) => pipe.read(from, n, into).map_err(|e| Error::io(STDIN, "read", e)),
            Kind::Unread(_, kind) => {
                let problem =
                    Problem { remedy: kind.remedy().into(), ..Problem::damage_at(0, kind.to_string()) };
                Ok(ReadEnd::Broken(problem))
            }
        }
    }

    /// Gives the documents of the text to `see`, from the first one on, until it breaks or `most` bytes have been read.
    pub(crate) fn frames(
        &mut self,
        shape: Shape,
        most: u64,
        mut see: impl FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut at, mut bytes, mut framer) = (0, Vec::new(), None);
        while at < most {
            bytes.clear();
            let after = self.read(at, (most - at).min(FRAMED_BYTES) as usize, &mut bytes)?;
            let mut rest = &bytes[..];
            let framer = framer.get_or_insert_with(|| {
                let bom = bom_len(rest);
                rest = &rest[bom..];
                Framer::new(shape, Boundary { byte: bom as u64, line: 0 })
            });
            while let Some((taken, frame)) = framer.push(rest) {
                rest = &rest[taken..];
                if frame.len > 0 && see(frame).is_break() {
                    return Ok(());
                }
            }
            at += bytes.len() as u64;
            if after == ReadEnd::End || bytes.is_empty() {
                let last = framer.finish();
                if last.len > 0 {
                    let _ = see(last);
                }
                break;
            }
        }
        Ok(())
    }
}

/// How much is read at a time to find where documents begin, in bytes.
const FRAMED_BYTES: u64 = 256 << 10;

/// About how much memory it takes to decompress a file, in bytes; `None` if it is text as it is.
pub(crate) fn packed(stored: &dyn Stored) -> Result<Option<u64>> {
    Ok(match codec(stored)? {
        (DetectedCodec::Text | DetectedCodec::TextNamed(_), _) => None,
        (DetectedCodec::Packed(_) | DetectedCodec::Unread(_), held) => Some(held),
    })
}

/// A file's compression, by its first bytes, and about how much memory it takes to decompress it.
pub(crate) fn codec(stored: &dyn Stored) -> Result<(DetectedCodec, u64)> {
    let mut head = [0; HEAD_BYTES];
    find_codec(stored, read_head(stored, &mut head)?)
}

/// The same of a file that has to be text: one of another kind of source is not read.
pub(crate) fn text_codec(stored: &dyn Stored) -> Result<(DetectedCodec, u64)> {
    let mut head = [0; HEAD_BYTES];
    let head = read_head(stored, &mut head)?;
    let signed = SourceKind::of_signature(head).filter(|_| !is_text(head));
    let found = find_codec(stored, head)?;
    let is_tar = matches!(found.0, DetectedCodec::Packed(_)) && is_named_tar(stored.path());
    match signed.or(is_tar.then_some(SourceKind::Tar)) {
        Some(kind) => Ok((DetectedCodec::Unread(UnreadKind::Kind(kind.name())), 0)),
        None => Ok(found),
    }
}

/// Whether the name of a compressed file says that it is an archive, such as `a.tar.gz` or `a.tgz`.
fn is_named_tar(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let endings = name.split_once('.').map_or("", |(_, endings)| endings);
    endings.rsplit('.').take(2).any(|ending| SourceKind::Tar.extensions().contains(&ending))
}

fn read_head<'h>(stored: &dyn Stored, head: &'h mut [u8; HEAD_BYTES]) -> Result<&'h [u8]> {
    let head = &mut head[..stored.len().min(HEAD_BYTES as u64) as usize];
    stored.look_at(0, head)?;
    Ok(head)
}

fn find_codec(stored: &dyn Stored, head: &[u8]) -> Result<(DetectedCodec, u64)> {
    let found = Codec::find(stored.path(), head);
    if let DetectedCodec::TextNamed(codec) = found {
        static SAID: Once = Once::new();
        let path = stored.path().display();
        SAID.call_once(|| {
            tracing::warn!(%path, "named as {codec}, and text: it is read as it is, and others like it");
        });
    }
    let held = if let DetectedCodec::Packed(codec) = found { codec.held(stored.len(), head) } else { 0 };
    Ok((found, held))
}

fn read_plain(stored: &dyn Stored, from: u64, n: usize, into: &mut Vec<u8>) -> Result<ReadEnd> {
    let left = stored.len().saturating_sub(from);
    let n = usize::try_from(left).map_or(n, |left| left.min(n));
    if n == 0 {
        return Ok(if left == 0 { ReadEnd::End } else { ReadEnd::More });
    }
    let held = into.len();
    if held == 0 {
        // Fresh memory from the system is zero already.
        *into = vec![0; n];
    } else {
        into.resize(held + n, 0);
    }
    if let Err(error) = stored.read_at(from, &mut into[held..]) {
        into.truncate(held);
        return Err(error);
    }
    Ok(if n as u64 == left { ReadEnd::End } else { ReadEnd::More })
}
