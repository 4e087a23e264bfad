//! A file's compression, by its first bytes; or its kind, if it is not read.

use std::fmt;
use std::path::Path;

/// How many of a file's first bytes are looked at.
pub(crate) const HEAD_BYTES: usize = 512;

/// About how many times longer a file's text is than the compressed file.
const TIMES: u64 = 3;

/// The largest window of a zstd file that is read unless the config says more, in bytes: the limit of the zstd program,
/// too.
pub(crate) const ZSTD_WINDOW: u64 = 128 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

/// The kind of a file's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetectedCodec {
    Text,
    /// Text, although the name says that it is compressed: some servers unpack files as they send them.
    TextNamed(Codec),
    Packed(Codec),
    Unread(UnreadKind),
}

/// A kind of file that is recognized by its first bytes, but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnreadKind {
    /// Text in this encoding.
    Encoded(&'static str),
    /// An archive, or text that is compressed, of this kind.
    Packed(&'static str),
    /// A file of this kind of source, where another was expected.
    Kind(&'static str),
}

/// The compressions and archives that are not read: the first bytes, the end of the name, and the kind.
const UNREAD: [(&[u8], &str, &str); 8] = [
    (b"PK\x03\x04", "zip", "a zip archive"),
    (b"\x04\x22\x4d\x18", "lz4", "an lz4 file"),
    (b"\x5d\0\0", "lzma", "an lzma file"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "rar", "a RAR archive"),
    (b"\xff\x06\0\0sNaPpY", "sz", "a Snappy file"),
    (b"\x1f\x9d", "z", "a file of `compress`"),
    // These have no first bytes of their own.
    (b"\0brotli", "br", "a Brotli file"),
];

impl UnreadKind {
    fn find(path: &Path, head: &[u8]) -> Option<Self> {
        let is_named = |end: &&str| extension(path).is_some_and(|named| named == *end);
        let begins = UNREAD.iter().find(|(first, ..)| head.starts_with(first));
        let found = begins.or_else(|| UNREAD.iter().find(|(_, end, _)| !is_text(head) && is_named(end)));
        match (found, head) {
            (Some((.., what)), _) => Some(Self::Packed(what)),
            (None, [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..]) => Some(Self::Encoded("UTF-32")),
            (None, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => Some(Self::Encoded("UTF-16")),
            (None, _) => is_utf16(head).then_some(Self::Encoded("UTF-16")),
        }
    }

    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Encoded(_) => "convert it to UTF-8, with iconv for example",
            Self::Packed(_) => "unpack it, and compress it with zstd or gzip if you like",
            Self::Kind(_) => "read it in a source of that kind, or leave it out of the paths",
        }
    }
}

impl fmt::Display for UnreadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoded(what) => write!(f, "the file is {what}, and only UTF-8 is read"),
            Self::Packed(what) => write!(f, "the file is {what}, which is not read"),
            Self::Kind(kind) => write!(f, "the file looks like {kind}, which kind = {kind:?} reads"),
        }
    }
}

impl Codec {
    const ALL: [Self; 4] = [Self::Gzip, Self::Zstd, Self::Bzip2, Self::Xz];

    /// Returns the kind of a file, given its first bytes, `head`.
    ///
    /// A file whose name says that it is compressed, and whose head is neither compressed nor text, counts as
    /// compressed. So it is refused, and not read as text.
    pub(crate) fn find(path: &Path, head: &[u8]) -> DetectedCodec {
        if let Some(codec) = Self::ALL.into_iter().find(|codec| codec.begins(head)) {
            return DetectedCodec::Packed(codec);
        }
        if let Some(kind) = UnreadKind::find(path, head) {
            return DetectedCodec::Unread(kind);
        }
        match Self::named(path) {
            Some(codec) if codec.begins_short(head) || !is_text(head) => DetectedCodec::Packed(codec),
            Some(codec) if !head.is_empty() => DetectedCodec::TextNamed(codec),
            _ => DetectedCodec::Text,
        }
    }

    /// About how much memory it takes to decompress a file of `len` bytes: the usual window of the codec, but no more
    /// than the text. A zstd file with a larger window than usual says so in its first bytes, `head`.
    pub(crate) fn held(self, len: u64, head: &[u8]) -> u64 {
        if let Some(window) = zstd_window(head).filter(|window| self == Self::Zstd && *window > ZSTD_WINDOW) {
            return window;
        }
        let most = match self {
            Self::Gzip => 64 << 10,
            Self::Zstd | Self::Bzip2 => 4 << 20,
            Self::Xz => 8 << 20,
        };
        len.saturating_mul(TIMES).min(most)
    }

    /// The compression that the end of a file's name stands for.
    pub(crate) fn named(path: &Path) -> Option<Self> {
        Self::of_extension(&extension(path)?)
    }

    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "gz" => Some(Self::Gzip),
            "zst" | "zstd" => Some(Self::Zstd),
            "bz2" => Some(Self::Bzip2),
            "xz" => Some(Self::Xz),
            _ => None,
        }
    }

    fn begins(self, head: &[u8]) -> bool {
        match (self, head) {
            (Self::Gzip, [0x1f, 0x8b, ..])
            | (Self::Zstd, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
            | (Self::Xz, [0xfd, b'7', b'z', b'X', b'Z', 0, ..]) => true,
            // These letters alone may be text. A block's number, or the one at the stream's end, follows them.
            (Self::Bzip2, [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]) => {
                rest.starts_with(b"\x31\x41\x59\x26\x53\x59") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90")
            }
            _ => false,
        }
    }

    /// Whether a file with only these bytes may be a compressed one that is cut off.
    fn begins_short(self, head: &[u8]) -> bool {
        let wholes: &[&[u8]] = match self {
            Self::Gzip => &[b"\x1f\x8b"],
            Self::Zstd => &[b"\x28\xb5\x2f\xfd"],
            Self::Bzip2 => &[b"BZh9\x31\x41\x59\x26\x53\x59", b"BZh9\x17\x72\x45\x38\x50\x90"],
            Self::Xz => &[b"\xfd7zXZ\0"],
        };
        let is_level = |byte: u8| self == Self::Bzip2 && (b'1'..=b'9').contains(&byte);
        let is_same = |(&byte, &of): (&u8, &u8)| byte == of || of == b'9' && is_level(byte);
        let begins = |whole: &&[u8]| head.len() <= whole.len() && head.iter().zip(*whole).all(is_same);
        !head.is_empty() && wholes.iter().any(begins)
    }

    /// Whether zeros may come between its members and after them.
    #[cfg(feature = "compression")]
    pub(crate) fn is_padded(self) -> bool {
        matches!(self, Self::Gzip | Self::Xz)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        })
    }
}

/// What a file's name ends in, in small letters.
fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// The window of a file's first zstd frame, in bytes ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878)).
fn zstd_window(head: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = head.strip_prefix(b"\x28\xb5\x2f\xfd")?.split_first()?;
    if descriptor & 0x20 == 0 {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is all of the text, whose length follows the number of a dictionary.
    let (at, n) = ([0, 1, 2, 4][usize::from(descriptor & 3)], 1 << (descriptor >> 6));
    let mut text = [0; 8];
    text[..n].copy_from_slice(rest.get(at..at + n)?);
    Some(u64::from_le_bytes(text))
}

/// Whether a file begins as UTF-16 without a byte order mark: every second byte of some ASCII characters is zero.
fn is_utf16(head: &[u8]) -> bool {
    let pairs = || head.chunks_exact(2);
    let is_half =
        |zero: usize| pairs().all(|pair| pair[zero] == 0 && pair[1 - zero].is_ascii() && pair[1 - zero] > 0);
    pairs().len() >= 4 && (is_half(0) || is_half(1))
}

/// Whether a text may begin with `head`; its last character may be cut.
pub(crate) fn is_text(head: &[u8]) -> bool {
    let is_utf8 = std::str::from_utf8(head).map_or_else(|e| e.error_len().is_none(), |_| true);
    is_utf8 && !head.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_larger_than_usual_is_counted() {
        let held = |head: &[u8]| Codec::Zstd.held(1 << 40, head);
        assert_eq!(held(b"\x28\xb5\x2f\xfd\x00\x88"), 4 << 20);
        assert_eq!(held(b"\x28\xb5\x2f\xfd\x00\xa8"), 1 << 31);
        assert_eq!(held(b"\x28\xb5\x2f\xfd\x04\x8c"), (1 << 27) + (1 << 26));
        assert_eq!(held(b"\x28\xb5\x2f\xfd\xa1\x07\0\0\0\x10"), 1 << 28);
    }

    #[test]
    fn the_first_bytes_tell_and_a_name_only_where_they_do_not() {
        let cases: [(&str, &[u8], DetectedCodec); 19] = [
            ("a.txt", b"\x1f\x8b\x08", DetectedCodec::Packed(Codec::Gzip)),
            ("a.gz", b"\x28\xb5\x2f\xfd\x04", DetectedCodec::Packed(Codec::Zstd)),
            ("a", b"\x5e\x2a\x4d\x18\x00", DetectedCodec::Packed(Codec::Zstd)),
            ("a", b"\xfd7zXZ\0", DetectedCodec::Packed(Codec::Xz)),
            ("a", b"BZh11AY&SY", DetectedCodec::Packed(Codec::Bzip2)),
            ("a", b"BZh9 is how it begins", DetectedCodec::Text),
            ("a.bz2", b"BZh9 is how it begins", DetectedCodec::TextNamed(Codec::Bzip2)),
            (
                "a.gz",
                "text, cut within an é".as_bytes().split_last().expect("bytes").1,
                DetectedCodec::TextNamed(Codec::Gzip),
            ),
            ("a.gz", b"", DetectedCodec::Text),
            ("a.gz", b"\x1f", DetectedCodec::Packed(Codec::Gzip)),
            ("A.GZ", b"\x1f", DetectedCodec::Packed(Codec::Gzip)),
            ("a.bz2", b"BZh", DetectedCodec::Packed(Codec::Bzip2)),
            ("a.bz2", b"BZh1\x31", DetectedCodec::Packed(Codec::Bzip2)),
            ("a.zst", b"\x29\xb5\x2f\xfd\x04", DetectedCodec::Packed(Codec::Zstd)),
            ("a.gz", b"PK\x03\x04\x14", DetectedCodec::Unread(UnreadKind::Packed("a zip archive"))),
            ("a.br", b"\xa1\x88", DetectedCodec::Unread(UnreadKind::Packed("a Brotli file"))),
            ("a.br", b"text", DetectedCodec::Text),
            ("a", b"\0a\0b\0c\0\n\xe9", DetectedCodec::Unread(UnreadKind::Encoded("UTF-16"))),
            ("a", b"a\0b\0c\0\0\0", DetectedCodec::Text),
        ];
        for (path, head, found) in cases {
            assert_eq!(Codec::find(Path::new(path), head), found, "{path}");
        }
    }
}
