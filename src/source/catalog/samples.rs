//! A digest of the text of local files, to notice files that were edited in place without changing their length.
//!
//! Reading every byte would take as long as an epoch. So blocks are read that are spread evenly over all files: all of
//! them if there are few, and never more than 16 MiB.

use std::iter;

use crate::error::Result;
use crate::files::{File, Location, SAMPLE_BLOCK as BLOCK, SAMPLE_BLOCKS as BLOCKS};
use crate::store::{Local, Stored};

/// Digests of samples of the local ones of some files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// That of all, in hexadecimal; `None` if no file is local.
    pub(crate) all: Option<String>,
    /// Those of single files, by their numbers, of all that a sample is taken from.
    pub(crate) of_files: Vec<(usize, String)>,
}

/// Takes samples of the local ones of `files`. It blocks.
pub(crate) fn take(files: &[File]) -> Result<Samples> {
    let is_local = |file: &&File| matches!(file.location, Location::Path(_));
    let all: u64 = files.iter().filter(is_local).map(|file| file.len.div_ceil(BLOCK)).sum();
    let samples = all.min(BLOCKS);
    if samples == 0 {
        return Ok(Samples::default());
    }
    let mut wanted = (0..samples).map(|nth| nth * all / samples).peekable();
    let (mut hasher, mut bytes, mut first) = (blake3::Hasher::new(), vec![0; BLOCK as usize], 0);
    let mut of_files = Vec::new();
    for (number, file) in files.iter().enumerate().filter(|(_, file)| is_local(file)) {
        let behind = first + file.len.div_ceil(BLOCK);
        let mut blocks = iter::from_fn(|| wanted.next_if(|block| *block < behind)).peekable();
        if blocks.peek().is_some() {
            let (open, mut of_file) = (Local::open(file.path(), file.len)?, blake3::Hasher::new());
            for block in blocks {
                let from = (block - first) * BLOCK;
                let block = &mut bytes[..(file.len - from).min(BLOCK) as usize];
                open.read_at(from, block)?;
                hasher.update(block);
                of_file.update(block);
            }
            of_files.push((number, hex(&of_file)));
        }
        first = behind;
    }
    Ok(Samples { all: Some(hex(&hasher)), of_files })
}

/// The beginning of a digest.
fn hex(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}
