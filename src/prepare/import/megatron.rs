//! Megatron's index of documents.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::segment::map_bytes;

/// The bytes that the index begins with.
pub(in crate::prepare) const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";

/// Reads Megatron's index. Returns the size of an id in bytes, and the range of ids of each document.
///
/// After its mark, the index holds the version (u64), a code of the type (u8), and the numbers of sequences
/// and of document bounds (u64 each). Then come the length of each sequence (i32), where each begins in bytes
/// (i64), and the document bounds (i64): the first sequence of each document, and at the end the number of
/// all sequences.
pub(super) fn documents(file: &Path, len: u64) -> Result<(usize, Vec<Range<u64>>)> {
    let path = file.with_extension("idx");
    let index = map_bytes(&path)?;
    let refuse = |what: &str| Error::Corpus {
        problem: format!("{}: this is not a Megatron index that can be read: {what}", path.display()),
    };
    let number = |at: usize, width: usize| -> Result<u64> {
        let bytes = at
            .checked_add(width)
            .and_then(|end| index.get(at..end))
            .ok_or_else(|| refuse("it is too short"))?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if index.get(..MAGIC.len()) != Some(&MAGIC[..]) || number(9, 8)? != 1 {
        return Err(refuse("it does not begin like version 1 of the format"));
    }
    let width = match number(17, 1)? {
        1 => 1,
        3 | 8 => 2,
        4 => 4,
        5 => 8,
        other => return Err(refuse(&format!("its ids are of type {other}, which cannot hold ids"))),
    };
    let (sequences, bounds) = (number(18, 8)? as usize, number(26, 8)? as usize);
    let whole = sequences
        .checked_mul(12)
        .and_then(|bytes| bytes.checked_add(bounds.checked_mul(8)?)?.checked_add(34));
    if whole != Some(index.len()) {
        return Err(refuse("its length does not match its numbers of sequences and documents"));
    }
    let sequence = |nth: usize| -> Result<Range<u64>> {
        let (ids, at) = (number(34 + 4 * nth, 4)?, number(34 + 4 * sequences + 8 * nth, 8)?);
        let end = at.checked_add(ids * width).filter(|end| *end <= len && at.is_multiple_of(width));
        Ok(at / width..end.ok_or_else(|| refuse("a sequence is beyond the ids"))? / width)
    };
    let bound = |nth: usize| number(34 + 12 * sequences + 8 * nth, 8).map(|bound| bound as usize);
    let mut documents = Vec::with_capacity(bounds.saturating_sub(1));
    for nth in 1..bounds {
        let (first, beyond) = (bound(nth - 1)?, bound(nth)?);
        if first > beyond || beyond > sequences {
            return Err(refuse("a document names sequences that are not there"));
        }
        if first == beyond {
            continue;
        }
        let (start, last) = (sequence(first)?, sequence(beyond - 1)?);
        let follows = (first + 1..beyond).try_fold(start.end, |end, nth| {
            let next = sequence(nth)?;
            if next.start == end {
                Ok(next.end)
            } else {
                Err(refuse("a document's sequences do not follow each other"))
            }
        })?;
        let is_in_order = documents.last().is_none_or(|before: &Range<u64>| before.end <= start.start);
        if !is_in_order || follows != last.end {
            return Err(refuse("its documents are not in the order of their ids"));
        }
        documents.push(start.start..last.end);
    }
    Ok((width as usize, documents))
}
