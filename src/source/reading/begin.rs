//! Where the first document of a split begins.

use std::ops::Range;

use crate::segment::Boundary;
use crate::source::framing::{Framer, Shape, bom_len};

/// How much is read at first, in bytes. Each further read is twice as long.
const FIRST_READ: usize = 4 << 10;

/// Returns the first place where a document may begin, at or after `split.start` and before `split.end`. Its line is
/// counted from `split.start`. `None` if no document begins in the split.
///
/// `read` returns up to `n` bytes from an offset on, none where the text ends. At most `most` bytes (at least four)
/// are held at once, and nothing beyond the split is read, so that a document across many splits is skipped once. Only
/// paragraphs are looked for before the split too: as far back as its first line is blank.
///
/// # Panics
/// If the split begins within the first four bytes of its file.
pub(crate) fn first_place<E>(
    shape: Shape,
    split: Range<u64>,
    most: usize,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<Boundary>, E> {
    assert!(split.start >= 4, "a split that begins inside a file begins after the byte order mark");
    // The byte before the split may end the previous line.
    let mut at = split.start - 1;
    let is_blank = shape == Shape::Paragraph && is_blank_before(at, most, &mut read)?;
    let mut framer = Framer::within_line(shape, Boundary { byte: at, line: 0 }, is_blank);
    let mut is_line_start = false;
    let mut n = FIRST_READ.min(most);
    while at < split.end - 1 {
        let bytes = read(at, usize::try_from(split.end - 1 - at).map_or(n, |left| n.min(left)))?;
        let Some(&first) = bytes.first() else { return Ok(None) };
        is_line_start |= at < split.start && first == b'\n';
        if let Some((_, frame)) = framer.push(&bytes) {
            let Boundary { byte, line } = frame.next;
            return Ok(Some(Boundary { byte, line: line - u64::from(is_line_start) }));
        }
        at += bytes.len() as u64;
        n = (2 * n).min(most);
    }
    Ok(None)
}

/// Whether the line that contains `end` is blank up to there. A file's byte order mark is not part of the line.
fn is_blank_before<E>(
    mut end: u64,
    most: usize,
    read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<bool, E> {
    let mut n = FIRST_READ.min(most);
    loop {
        // The mark's three bytes are read together.
        let start = end.checked_sub(n as u64).filter(|&start| start > 2).unwrap_or(0);
        let bytes = read(start, (end - start) as usize)?;
        let text = if start == 0 { &bytes[bom_len(&bytes)..] } else { &bytes };
        match text.iter().rfind(|&&byte| byte == b'\n' || !byte.is_ascii_whitespace()) {
            Some(&byte) => return Ok(byte == b'\n'),
            None if start == 0 => return Ok(true),
            None => end = start,
        }
        n = (2 * n).min(most);
    }
}
