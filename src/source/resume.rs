//! Whether a cursor is a place where reading can go on.

use super::corpus::Split;
use super::framing::Shape;
use crate::cursor::LaneCursor;

/// What is wrong with the byte and line of `at`, a place in `split`, whose file has `len` bytes; nothing if
/// reading can go on there.
///
/// Behind a document is a line's end or the file's. `before` gives the byte before the cursor's, and is asked if
/// that lies within the file.
pub(super) fn problem<E>(
    at: &LaneCursor,
    split: Split,
    len: u64,
    shape: Shape,
    before: impl FnOnce() -> Result<u8, E>,
) -> Result<Option<String>, E> {
    if at.byte == 0 {
        return Ok((at.line > 0).then(|| format!("line {} is not where a split begins", at.line + 1)));
    }
    if at.byte > len {
        return Ok(Some(format!("the file has {len} bytes")));
    }
    if at.byte <= split.begin {
        return Ok(Some(format!("the split begins at byte {}", split.begin)));
    }
    if at.line > at.byte - split.begin {
        let (line, bytes) = (at.line, at.byte - split.begin);
        return Ok(Some(format!("{line} lines do not fit into the {bytes} bytes before it")));
    }
    let is_between = at.byte == len || shape != Shape::File && before()? == b'\n';
    Ok((!is_between).then(|| "it is within a document".to_owned()))
}
