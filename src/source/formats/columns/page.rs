//! The size of a Parquet page, from the beginning of its header.
//!
//! A header is a Thrift struct in the compact protocol. Its first three fields are 32-bit numbers: the kind of the page,
//! its length in memory, and its length in the file. [Source](https://parquet.apache.org/docs/file-format/data-pages/).

use crate::store::Stored;

/// The longest length of the first three fields, in bytes: each has a byte of type and a number of five.
pub(super) const HEAD_BYTES: usize = 18;

/// A field that follows the one before it and is a 32-bit number.
const NEXT_NUMBER: u8 = 0x15;

/// How long a page is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageSize {
    /// In memory.
    pub(super) held: u64,
    /// In the file.
    pub(super) stored: u64,
}

impl PageSize {
    /// The size of the page at `at`; `None` if there is none.
    pub(super) fn look(stored: &dyn Stored, at: i64) -> Option<Self> {
        let at = u64::try_from(at).ok()?;
        let left = usize::try_from(stored.len().checked_sub(at)?).unwrap_or(HEAD_BYTES);
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..left.min(HEAD_BYTES)];
        stored.look_at(at, head).ok()?;
        Self::parse(head)
    }

    fn parse(mut head: &[u8]) -> Option<Self> {
        let mut number = || {
            let (&kind, mut rest) = head.split_first()?;
            let mut bits = 0_u64;
            for shift in (0..35).step_by(7) {
                let (&byte, behind) = rest.split_first()?;
                (bits, rest) = (bits | u64::from(byte & 0x7f) << shift, behind);
                if byte < 0x80 {
                    head = rest;
                    // The lowest bit is the sign.
                    return (kind == NEXT_NUMBER && bits & 1 == 0).then_some(bits >> 1);
                }
            }
            None
        };
        let [_, held, stored] = [number()?, number()?, number()?];
        Some(Self { held, stored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_header_are_its_sizes() {
        // A data page of 118,000,000 bytes, 300 of them in the file.
        let head = [0x15, 0x00, 0x15, 0x80, 0xa6, 0xc4, 0x70, 0x15, 0xd8, 0x04, 0x2c];
        assert_eq!(PageSize::parse(&head), Some(PageSize { held: 118_000_000, stored: 300 }));
        assert!((0..10).all(|n| PageSize::parse(&head[..n]).is_none()));
        assert_eq!(PageSize::parse(b"PAR1PAR1PAR1PAR1PA"), None);
        assert_eq!(PageSize::parse(&[0x15, 0x00, 0x15, 0x01, 0x15, 0x02]), None, "it is negative");
    }
}
