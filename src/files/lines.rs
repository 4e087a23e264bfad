//! Finds the line that a byte of a file is on. Lines are counted only on demand, and each part of a file
//! once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Mutex;

use memchr::memchr_iter;

use super::codec::{Codec, DetectedCodec, HEAD_BYTES};
use crate::threads::lock;

/// How much is read at once, in bytes.
const PIECE: u64 = 1 << 20;

/// The line ends counted so far: the number of line ends before an offset in a file, by the file's number and
/// the offset.
///
/// It takes some forty bytes for each counted MiB, and as much for the last requested place in it.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<BTreeMap<(u32, u64), u64>>);

impl Lines {
    /// Returns the number of line ends before `byte` of file `file`, which is at `path`. Other callers wait
    /// meanwhile.
    pub(super) fn before(&self, file: u32, path: &Path, byte: u64) -> io::Result<u64> {
        let mut known = lock(&self.0);
        let nearest = known.range((file, 0)..=(file, byte)).next_back();
        let (mut at, mut lines) = nearest.map_or((0, 0), |(&(_, at), &lines)| (at, lines));
        if at == byte {
            return Ok(lines);
        }
        let mut open = fs::File::open(path)?;
        if at == 0 && is_packed(path, &open)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "lines of a compressed file are not counted",
            ));
        }
        open.seek(SeekFrom::Start(at))?;
        let mut piece = Vec::new();
        while at < byte {
            // Pieces end at multiples of `PIECE`, whatever was asked for, so that no part is counted twice.
            let n = (PIECE - at % PIECE).min(byte - at);
            piece.resize(n as usize, 0);
            open.read_exact(&mut piece)?;
            lines += memchr_iter(b'\n', &piece).count() as u64;
            at += n;
            known.insert((file, at), lines);
        }
        // Within a piece only the latest place is kept, however many are asked for.
        let piece = byte / PIECE * PIECE;
        let mut within = known.range((file, piece + 1)..(file, piece + PIECE)).map(|(&place, _)| place);
        if let Some(place) = within.find(|&place| place != (file, byte)) {
            known.remove(&place);
        }
        Ok(lines)
    }
}

/// Whether a file is compressed, or not text that is read.
fn is_packed(path: &Path, open: &fs::File) -> io::Result<bool> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    open.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(matches!(Codec::find(path, &head), DetectedCodec::Packed(_) | DetectedCodec::Unread(_)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn counts_as_a_whole_reading_does_and_reads_no_part_again(
            step in 1_usize..300_000,
            asked in prop::collection::vec(0_u64..3 * PIECE + 500, 1..20),
        ) {
            let mut bytes = vec![b'x'; 3 * PIECE as usize + 500];
            bytes.iter_mut().step_by(step).for_each(|byte| *byte = b'\n');
            let file = tempfile::NamedTempFile::new().expect("a file");
            fs::write(file.path(), &bytes).expect("written");
            let before = |byte: u64| bytes[..byte as usize].iter().filter(|&&b| b == b'\n').count() as u64;
            let lines = Lines::default();
            for &byte in &asked {
                prop_assert_eq!(lines.before(7, file.path(), byte).expect("counted"), before(byte));
                prop_assert_eq!(lines.before(7, Path::new(""), byte).expect("known"), before(byte));
            }
            // Lines that were counted are known without the file.
            let gone = Path::new("");
            let last = asked.iter().max().expect("one or more");
            for byte in (0..=*last).step_by(PIECE as usize) {
                prop_assert_eq!(lines.before(7, gone, byte).expect("known"), before(byte));
            }
            prop_assert!(lines.before(6, gone, 1).is_err(), "of another file nothing is known");
            prop_assert!(lines.before(7, file.path(), bytes.len() as u64 + 1).is_err());
        }
    }
}
