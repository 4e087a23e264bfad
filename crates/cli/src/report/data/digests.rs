//! The SHA-256 of local files, as `sha256sum` prints it. Held in memory: a buffer for each core.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};

use crate::words::bytes;
use crate::{blocking, progress};
use millstream::files::{File, Location};

/// How much is read at once, in bytes.
const BUFFER: usize = 1 << 20;

/// The digests of the files that are on this machine, in hexadecimal digits, by their paths; or why one has none.
pub(super) async fn of(files: impl Iterator<Item = &File>) -> BTreeMap<PathBuf, Result<String, String>> {
    let local = |file: &File| match &file.location {
        Location::Path(path) => Some((path.clone(), file.len)),
        _ => None,
    };
    // Several sources may have one file.
    let files: BTreeMap<PathBuf, u64> = files.filter_map(local).collect();
    let all = files.values().sum();
    let (slow, done) = (progress::slow("hashing the files"), Cell::new(0));
    let digest = async |(path, len): (PathBuf, u64)| {
        let digest = blocking(move || {
            let digest = digest(&path, len);
            (path, digest)
        });
        let digest = digest.await;
        done.update(|done| done + len);
        slow.detail(|| format!("{} of {}", bytes(done.get()), bytes(all)));
        digest
    };
    stream::iter(files.into_iter().map(digest)).buffered(crate::cores()).collect().await
}

/// The digest of a file of this length.
fn digest(path: &Path, len: u64) -> Result<String, String> {
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => "gone".to_owned(),
        _ => format!("cannot be read: {e}"),
    };
    // To open a named pipe would wait for whoever writes to it.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err("is no file any more".to_owned());
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut sha = Sha256::new();
    match std::io::copy(&mut BufReader::with_capacity(BUFFER, file), &mut sha).map_err(failed)? {
        read if read == len => Ok(format!("{:x}", sha.finalize())),
        read => Err(format!("has {read} bytes, and had {len}")),
    }
}
