//! The first bytes of a file, decompressed.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::{Error, Result, bounded};

/// How much of a file is looked at, in bytes.
const HEAD: u64 = 1 << 20;

/// How much of a file is looked at whose first line is longer than that.
const LONGEST: u64 = 32 << 20;

/// What compressed files begin with.
const MARKS: [(&[u8], Packing); 4] = [
    (&[0x1f, 0x8b], Packing::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packing::Zstd),
    (b"BZh", Packing::Bzip2),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packing::Xz),
];

/// How the mark of a Zstandard frame goes on that decoders skip, after its first byte.
const SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

/// The beginning of a file's text, or all of it.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    /// Whether there is no more.
    pub(super) is_whole: bool,
    /// Whether the file is compressed: its first bytes tell, as they tell the loader.
    pub(super) is_packed: bool,
}

impl Head {
    /// Reads the beginning of a file: at least its first line, unless that is longer than some MiB.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut head = Self::up_to(path, HEAD)?;
        if !head.is_whole && !head.bytes.contains(&b'\n') {
            head = Self::up_to(path, LONGEST)?;
        }
        Ok(head)
    }

    fn up_to(path: &Path, most: u64) -> Result<Self> {
        let (text, is_packed) = open(path)?;
        let mut bytes = Vec::new();
        text.take(most).read_to_end(&mut bytes).map_err(|e| Error::io(path, "read", e))?;
        Ok(Self { is_whole: (bytes.len() as u64) < most, bytes, is_packed })
    }

    /// It as text, without a character that is cut off at the end; none if it is not UTF-8.
    pub(super) fn text(&self) -> Option<&str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Some(text),
            Err(e) if e.error_len().is_none() && !self.is_whole => {
                std::str::from_utf8(&self.bytes[..e.valid_up_to()]).ok()
            }
            Err(_) => None,
        }
    }

    /// Its whole lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        let text = self.text().unwrap_or_default();
        let end = if self.is_whole { text.len() } else { text.rfind('\n').unwrap_or(text.len()) };
        text[..end].lines()
    }
}

/// A file's text, and whether it had to be decompressed.
pub(super) fn open(path: &Path) -> Result<(Box<dyn Read>, bool)> {
    let read = |e| Error::io(path, "read", e);
    let mut file = bounded::open(path).map_err(read)?;
    let mut mark = Vec::new();
    Read::by_ref(&mut file).take(6).read_to_end(&mut mark).map_err(read)?;
    let whole = BufReader::new(io::Cursor::new(mark.clone()).chain(file));
    // Zstandard files may begin with a frame that is to be skipped.
    let is_skipped = mark.get(..4).is_some_and(|mark| mark[0] & 0xf0 == 0x50 && mark[1..] == SKIPPED);
    let marked = MARKS.iter().find(|(begin, _)| mark.starts_with(begin)).map(|(_, packing)| *packing);
    let packing = marked.or(is_skipped.then_some(Packing::Zstd));
    let text: Box<dyn Read> = match packing {
        None => Box::new(whole),
        Some(Packing::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        Some(Packing::Zstd) => Box::new(zstd::Decoder::with_buffer(whole).map_err(read)?),
        Some(Packing::Bzip2) => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
        Some(Packing::Xz) => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(whole)),
    };
    Ok((text, packing.is_some()))
}
