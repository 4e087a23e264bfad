//! Where the frames of a zstd file begin, in the file and in its text.
//!
//! Two kinds of files tell where frames begin. A seekable one ends in a table of its frames
//! ([format](https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md)).
//! In others each frame's header may give the length of its text, and the headers of its blocks lead to the next frame
//! ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878)). Reading may begin at any frame, and a file is cut into splits
//! between frames.
//!
//! The crate `zeekstd` reads seek tables too, but does not fit: it skips the frames' checksums, holds 16 bytes for each
//! frame, reserves memory for as many frames as the file claims, and does not say at which byte a table is wrong. And
//! files without a table would need this module anyway.
//!
//! Held in memory: a point for each mebibyte of text, the points around each cut, and the table's checksums.

use std::fmt;
use std::hash::Hasher;
use std::ops::Range;

use twox_hash::XxHash64;

use super::pieces::PIECE_BYTES;
use crate::error::Result;
use crate::source::problem::Problem;
use crate::source::split::LEAST_SPLIT;
use crate::store::Stored;

/// The least text between two points, in bytes.
const SPACING: u64 = 1 << 20;

/// The search ends at a frame that is this many times longer than a split, and longer than this many bytes: cutting
/// such a file is not worth it.
const LONGEST_FRAME: u64 = 4;
const LONGEST_FRAME_BYTES: u64 = 256 << 20;

/// How many entries of a table are read at a time.
const ENTRIES: u64 = 8192;

const FRAME: u32 = 0xfd2f_b528;
const TABLE_FRAME: u32 = 0x184d_2a5e;
const TABLE_END: u32 = 0x8f92_eab1;
/// The table's last bytes: the number of frames, a descriptor of the entries, and the table's mark.
const FOOTER_BYTES: u64 = 9;
const SKIPPABLE_HEADER_BYTES: u64 = 8;

/// A place between frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// Its offset in the stored file, in bytes.
    pub(super) stored: u64,
    /// Its offset in the text, in bytes.
    pub(super) text: u64,
    /// How many frames are before it.
    pub(super) frame: usize,
}

/// The frames of one file.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Some of the places between frames, in order. The first is the file's start, the last the end of the frames.
    points: Box<[Point]>,
    /// The offsets in the text where splits begin, except the first.
    cuts: Box<[u64]>,
    /// The low half of each frame's XXH64, if the table has them.
    checks: Box<[u32]>,
}

impl Frames {
    /// Returns the frames of a file that is cut into splits of about `split_size` stored bytes. `None` if the file does
    /// not give them, or gives wrong ones, which reading will find. Headers are looked at only if small reads are
    /// `cheap`: it takes one for each block, which has at most 128 KiB of text.
    pub(crate) fn find(stored: &dyn Stored, split_size: u64, cheap: bool) -> Result<Option<Self>> {
        match Self::in_table(stored, split_size)? {
            Ok(None) if cheap => Self::in_headers(stored, split_size),
            found => Ok(found.unwrap_or(None)),
        }
    }

    /// The frames of a seekable file, from the table at its end; `None` if it has no table.
    pub(super) fn in_table(stored: &dyn Stored, split_size: u64) -> Result<Result<Option<Self>, Problem>> {
        let len = stored.len();
        let Some(footer_at) = len.checked_sub(FOOTER_BYTES) else { return Ok(Ok(None)) };
        let footer: [u8; 9] = bytes(stored, footer_at)?;
        let [n @ .., descriptor, m0, m1, m2, m3] = footer;
        if u32::from_le_bytes([m0, m1, m2, m3]) != TABLE_END {
            return Ok(Ok(None));
        }
        let broken = |byte, what: &str| {
            Ok(Err(Problem::damage_at(byte, format!("the seek table at the file's end {what}"))))
        };
        if descriptor & 0b0111_1100 != 0 {
            return broken(footer_at + 4, "is of a kind that is not known");
        }
        let has_checks = descriptor & 0x80 != 0;
        let entry_bytes = if has_checks { 12 } else { 8 };
        let n = u64::from(u32::from_le_bytes(n));
        let body = n * entry_bytes + FOOTER_BYTES;
        let Some(table_at) = len.checked_sub(body + SKIPPABLE_HEADER_BYTES) else {
            return broken(footer_at, "has more entries than the file has room for");
        };
        let header: [u8; 8] = bytes(stored, table_at)?;
        let [m0, m1, m2, m3, s0, s1, s2, s3] = header;
        let is_header = u32::from_le_bytes([m0, m1, m2, m3]) == TABLE_FRAME;
        if !is_header || u64::from(u32::from_le_bytes([s0, s1, s2, s3])) != body {
            return broken(table_at, "does not begin where its length says");
        }
        let mut marks = Marks::new(split_size);
        let mut checks = Vec::new();
        let mut entries = Vec::new();
        let mut at = table_at + SKIPPABLE_HEADER_BYTES;
        while at < footer_at {
            entries.resize((footer_at - at).min(ENTRIES * entry_bytes) as usize, 0);
            stored.look_at(at, &mut entries)?;
            at += entries.len() as u64;
            for entry in entries.chunks_exact(entry_bytes as usize) {
                let number =
                    |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
                marks.frame(u64::from(number(0)), u64::from(number(4)));
                if has_checks {
                    checks.push(number(8));
                }
            }
        }
        if marks.end.stored != table_at {
            return broken(table_at, "gives other lengths than the frames have");
        }
        Ok(Ok(Some(marks.finish(checks))))
    }

    /// The frames of a file whose frame headers give the length of their text; `None` if some do not.
    fn in_headers(stored: &dyn Stored, split_size: u64) -> Result<Option<Self>> {
        let mut marks = Marks::new(split_size);
        let longest = split_size.saturating_mul(LONGEST_FRAME).max(LONGEST_FRAME_BYTES);
        while marks.end.stored < stored.len() {
            let Some((len, text)) = frame(stored, marks.end.stored, longest)? else {
                return Ok(None);
            };
            marks.frame(len, text);
        }
        Ok(Some(marks.finish(Vec::new())))
    }

    /// The offsets in the text where splits begin, except the first.
    pub(crate) fn cuts(&self) -> &[u64] {
        &self.cuts
    }

    /// The stored bytes that a part of the text is read from. They may end beyond the file.
    pub(crate) fn stored(&self, text: Range<u64>) -> Range<u64> {
        let behind = self.points.get(self.points.partition_point(|point| point.text < text.end));
        // The last piece to be read may reach beyond the last frame.
        let end = behind.map_or(u64::MAX, |point| point.stored.saturating_add(PIECE_BYTES));
        self.before(text.start).stored..end
    }

    /// The last point at or before byte `text` of the text.
    pub(super) fn before(&self, text: u64) -> Point {
        let after = self.points.partition_point(|point| point.text <= text);
        after.checked_sub(1).map_or(Point::default(), |last| self.points[last])
    }

    /// Whether a frame from `begin` to `end`, with the checksum `check`, agrees with the file's table.
    pub(super) fn agrees(&self, begin: Point, end: Point, check: Option<u32>) -> bool {
        let passed = self.points.partition_point(|point| point.stored <= begin.stored);
        let mut passed = self.points[passed..].iter().take_while(|point| point.stored <= end.stored);
        let is_checked = || match (self.checks.get(begin.frame), check) {
            (Some(&said), Some(found)) => begin.text == end.text || said == found,
            _ => true,
        };
        passed.all(|&point| point == end) && is_checked()
    }

    /// Whether texts must be compared with checksums.
    pub(super) fn has_checks(&self) -> bool {
        !self.checks.is_empty()
    }
}

/// The checksum of one frame's text, as in seek tables.
#[derive(Clone)]
pub(super) struct FrameCheck(XxHash64);

impl FrameCheck {
    pub(super) fn update(&mut self, text: &[u8]) {
        self.0.write(text);
    }

    pub(super) fn value(&self) -> u32 {
        self.0.finish() as u32
    }
}

impl Default for FrameCheck {
    fn default() -> Self {
        Self(XxHash64::with_seed(0))
    }
}

impl fmt::Debug for FrameCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameCheck({:08x})", self.value())
    }
}

/// Collects points and cuts, frame by frame.
#[derive(Debug)]
struct Marks {
    split_size: u64,
    points: Vec<Point>,
    cuts: Vec<u64>,
    /// How many times the split size comes before the last cut.
    cut_at: u64,
    /// Where the last frame begins, and where it ends.
    last: Point,
    end: Point,
}

impl Marks {
    fn new(split_size: u64) -> Self {
        let start = Point::default();
        Self { split_size, points: vec![start], cuts: Vec::new(), cut_at: 0, last: start, end: start }
    }

    /// Adds the next frame: `len` stored bytes that hold `text` bytes of text.
    fn frame(&mut self, len: u64, text: u64) {
        let begin = self.end;
        let is_cut = begin.stored / self.split_size > self.cut_at
            && begin.text >= LEAST_SPLIT
            && self.cuts.last().is_none_or(|&last| last < begin.text)
            && text > 0;
        if is_cut {
            self.note(self.last);
            self.note(begin);
            self.cuts.push(begin.text);
            self.cut_at = begin.stored / self.split_size;
        } else if begin.text - self.points.last().map_or(0, |point| point.text) >= SPACING {
            self.note(begin);
        }
        self.last = begin;
        self.end = Point {
            stored: begin.stored.saturating_add(len),
            text: begin.text.saturating_add(text),
            frame: begin.frame + 1,
        };
    }

    fn note(&mut self, point: Point) {
        if self.points.last().is_none_or(|last| last.frame < point.frame) {
            self.points.push(point);
        }
    }

    fn finish(mut self, checks: Vec<u32>) -> Frames {
        self.note(self.end);
        Frames { points: self.points.into(), cuts: self.cuts.into(), checks: checks.into() }
    }
}

/// Reads `N` bytes from `at` on.
fn bytes<const N: usize>(stored: &dyn Stored, at: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    stored.look_at(at, &mut bytes)?;
    Ok(bytes)
}

/// The length of the frame at `at`, and the length of its text. `None` if the frame does not say, is longer than
/// `longest`, or is broken, which reading will find.
fn frame(stored: &dyn Stored, at: u64, longest: u64) -> Result<Option<(u64, u64)>> {
    // A header has at most 18 bytes, and a frame with its first block's header at least 5.
    let mut header = [0; 18];
    let n = (stored.len() - at).min(18) as usize;
    stored.look_at(at, &mut header[..n])?;
    let [m0, m1, m2, m3, descriptor, ..] = header;
    let magic = u32::from_le_bytes([m0, m1, m2, m3]);
    if magic & !0xf == 0x184d_2a50 && n >= 8 {
        let len = SKIPPABLE_HEADER_BYTES
            + u64::from(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
        return Ok((len <= stored.len() - at).then_some((len, 0)));
    }
    let is_single = descriptor & 0x20 != 0;
    let text_at = 5 + usize::from(!is_single) + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let text_bytes = match descriptor >> 6 {
        0 if is_single => 1,
        0 => return Ok(None),
        flag => 1 << flag,
    };
    if magic != FRAME || n < text_at + text_bytes {
        return Ok(None);
    }
    let mut text = [0; 8];
    text[..text_bytes].copy_from_slice(&header[text_at..text_at + text_bytes]);
    let text = u64::from_le_bytes(text) + if text_bytes == 2 { 256 } else { 0 };
    let check_bytes = if descriptor & 4 != 0 { 4 } else { 0 };
    let mut end = at + (text_at + text_bytes) as u64;
    loop {
        if end + 3 > stored.len() || end - at > longest {
            return Ok(None);
        }
        let [b0, b1, b2] = bytes(stored, end)?;
        let block = u32::from_le_bytes([b0, b1, b2, 0]);
        let len = match (block >> 1) & 3 {
            1 => 1,
            3 => return Ok(None),
            _ => u64::from(block >> 3),
        };
        end += 3 + len;
        if block & 1 == 1 {
            end += check_bytes;
            return Ok((end <= stored.len()).then_some((end - at, text)));
        }
    }
}
