//! A digest of the text of local files, to notice files that were edited in place without changing their length.
//!
//! Reading every byte would take as long as an epoch. So blocks are read that are spread evenly over all files: all of
//! them if there are few, and never more than 16 MiB.

use std::iter;

use crate::error::Result;
use crate::files::{File, Location};
use crate::store::{Local, Stored};

/// The length of a block, in bytes.
const BLOCK: u64 = 16 << 10;

/// How many blocks are read.
const BLOCKS: u64 = 1024;

/// The digest of samples of the local ones of `files`, in hexadecimal; `None` if there are none. It blocks.
pub(crate) fn digest(files: &[File]) -> Result<Option<String>> {
    let local = || files.iter().filter(|file| matches!(file.location, Location::Path(_)));
    let all: u64 = local().map(|file| file.len.div_ceil(BLOCK)).sum();
    let samples = all.min(BLOCKS);
    if samples == 0 {
        return Ok(None);
    }
    let mut wanted = (0..samples).map(|nth| nth * all / samples).peekable();
    let (mut hasher, mut bytes, mut first) = (blake3::Hasher::new(), vec![0; BLOCK as usize], 0);
    for file in local() {
        let behind = first + file.len.div_ceil(BLOCK);
        let mut blocks = iter::from_fn(|| wanted.next_if(|block| *block < behind)).peekable();
        if blocks.peek().is_some() {
            let open = Local::open(file.path(), file.len)?;
            for block in blocks {
                let from = (block - first) * BLOCK;
                let block = &mut bytes[..(file.len - from).min(BLOCK) as usize];
                open.read_at(from, block)?;
                hasher.update(block);
            }
        }
        first = behind;
    }
    Ok(Some(hasher.finalize().to_hex()[..32].to_owned()))
}
