//! Whether a cursor is a place where reading can go on.

use super::framing::Shape;
use super::split::Split;

/// What is wrong with `byte` and `line` as a place between the documents of `split`; nothing if reading can go on
/// there.
///
/// Behind a document is a line's end or the file's. `read` gives so many bytes from an offset on, or fewer if the text
/// ends before, and is asked for the byte before the place and the one behind it.
pub(super) fn problem<E>(
    (byte, line): (u64, u64),
    split: Split,
    shape: Shape,
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<String>, E> {
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
