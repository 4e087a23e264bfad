//! TFRecord: each record is framed by its length and checksums.
//!
//! ```text
//! length: u64 | masked CRC-32C of the length: u32 | the bytes | masked CRC-32C of the bytes: u32
//! ```
//!
//! All numbers are little-endian. See <https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details>.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use millstream::error::{Error, Result};

/// The longest record that is read. Those of a run have some kilobytes: a longer one is damaged.
const MOST: u64 = 1 << 30;

/// The remainders of all bytes for Castagnoli's polynomial, reflected.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut rest, mut bit) = (byte as u32, 0);
        while bit < 8 {
            rest = (rest >> 1) ^ if rest & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// CRC-32C (RFC 3720, appendix B.4).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// The checksum as a record stores it. A checksum of bytes that hold their own checksum would say little.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A record with these bytes.
pub(super) fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), bytes, &masked(bytes).to_le_bytes()].concat()
}

/// Reads the records of a file, up to the first that is damaged or cut off: no reader gets past it.
#[derive(Debug)]
pub(super) struct TfRecords {
    path: PathBuf,
    file: BufReader<File>,
    is_torn: bool,
}

impl TfRecords {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), is_torn: false })
    }

    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let head = self.exactly(12)?;
        if head.is_empty() || self.is_torn {
            return Ok(None);
        }
        let (length, sum) = head.split_at(8);
        let is_whole = masked(length).to_le_bytes() == sum;
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        if !is_whole || length > MOST {
            self.is_torn = true;
            return Ok(None);
        }
        let mut bytes = self.exactly(length + 4)?;
        let sum = bytes.split_off(bytes.len().saturating_sub(4));
        self.is_torn |= masked(&bytes).to_le_bytes() != sum[..];
        Ok((!self.is_torn).then_some(bytes))
    }

    /// Whether the file ends with an incomplete record.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The next bytes; fewer, and torn, if the file ends before.
    fn exactly(&mut self, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.file.by_ref().take(len).read_to_end(&mut bytes) {
            Err(e) if e.kind() != ErrorKind::UnexpectedEof => Err(Error::io(&self.path, "read", e)),
            _ => {
                self.is_torn |= !bytes.is_empty() && (bytes.len() as u64) < len;
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        // TensorFlow's own files: the record of `brain.Event:2` at the time 0 begins with its length, 24.
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
    }

    #[test]
    fn records_come_back_up_to_the_first_that_is_damaged() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("records");
        let contents: [&[u8]; 3] = [b"one", b"", b"three"];
        let whole: Vec<u8> = contents.iter().flat_map(|bytes| framed(bytes)).collect();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            let mut records = TfRecords::open(&path).expect("a file");
            let read: Vec<_> = std::iter::from_fn(|| records.next().expect("readable")).collect();
            (read, records.is_torn())
        };
        assert_eq!(read(&whole), (contents.map(<[u8]>::to_vec).to_vec(), false));
        assert_eq!(read(b""), (Vec::new(), false));
        for len in 1..whole.len() {
            let ends = [0, 19, 35];
            let expected = ends.iter().filter(|end| **end > 0 && len >= **end).count();
            let (read, is_torn) = read(&whole[..len]);
            assert_eq!((read.len(), is_torn), (expected, !ends.contains(&len)), "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let (read, is_torn) = read(&damaged);
            assert!(is_torn && read.len() < 3, "byte {at}");
        }
    }
}
