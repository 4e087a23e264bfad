//! Cuts a range into requests.

use std::ops::Range;

/// A piece at a range's edge that is shorter than this part of a block is requested together with its
/// neighbour.
const CRUMB_SHARE: u64 = 8;

/// Takes the first piece off `rest`: up to the next multiple of `block`, or a little further.
///
/// Where ranges are cut depends only on offsets in the file. So bytes that are read again, from another start or by
/// another lane, are mostly requested in the same pieces.
pub(super) fn first(rest: &mut Range<u64>, block: u64) -> Range<u64> {
    let crumb = block / CRUMB_SHARE;
    let mut end = (rest.start / block + 1) * block;
    if end - rest.start < crumb {
        end += block;
    }
    if rest.end <= end + crumb {
        end = rest.end;
    }
    let piece = rest.start..end;
    rest.start = end;
    piece
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(mut rest: Range<u64>, block: u64) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            pieces.push(first(&mut rest, block));
        }
        pieces
    }

    #[test]
    fn crumbs_join_their_neighbours() {
        assert_eq!(cut(15..48, 16), [15..32, 32..48]);
        assert_eq!(cut(0..34, 16), [0..16, 16..34]);
        assert_eq!(cut(0..35, 16), [0..16, 16..32, 32..35]);
        assert!(cut(31..33, 16).into_iter().eq(std::iter::once(31..33)));
    }

    proptest! {
        #[test]
        fn pieces_are_the_range(start in 0_u64..300, len in 0_u64..300, block in 1_u64..40) {
            let pieces = cut(start..start + len, block);
            let ends: Vec<u64> = pieces.iter().map(|piece| piece.end).collect();
            let starts: Vec<u64> = pieces.iter().map(|piece| piece.start).collect();
            prop_assert_eq!(starts.first().copied().unwrap_or(start), start);
            prop_assert_eq!(ends.last().copied().unwrap_or(start + len), start + len);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % block == 0));
            let most = block + 2 * (block / CRUMB_SHARE);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.end - piece.start <= most));
        }
    }
}
