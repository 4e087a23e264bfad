//! Whether reading can go on from a cursor.

use crate::source::framing::{Boundary, Shape};
use crate::source::split::Split;

/// Returns the problem of `boundary` as a place between the documents of `split`; `None` if reading can continue there.
///
/// A document is followed by the end of a line or of the file. `read` returns `n` bytes from an offset on, or fewer
/// if the text ends. It is asked for the bytes before and after the place.
pub(crate) fn problem<E>(
    boundary: Boundary,
    split: Split,
    shape: Shape,
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<String>, E> {
    let Boundary { byte, line } = boundary;
    if byte == 0 {
        return Ok((line > 0).then(|| format!("line {} is not where a split begins", line + 1)));
    }
    if byte <= split.begin {
        return Ok(Some(format!("the split begins at byte {}", split.begin)));
    }
    if line > byte - split.begin {
        let bytes = byte - split.begin;
        return Ok(Some(format!("{line} lines do not fit into the {bytes} bytes before it")));
    }
    Ok(match read(byte - 1, 2)?[..] {
        [] => Some("the text ends before".to_owned()),
        [_] => None,
        [b'\n', ..] if shape != Shape::File => None,
        _ => Some("it is within a document".to_owned()),
    })
}
