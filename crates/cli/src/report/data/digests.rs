//! The SHA-256 of local files, as `sha256sum` prints it. Held in memory: a buffer for each core.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};

use crate::progress;
use crate::words::bytes;
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
    let (slow, done) = (progress::slow("hashing the files"), Arc::new(AtomicU64::new(0)));
    let digest = async |(path, len): (PathBuf, u64)| {
        let hashed = done.clone();
        let work = tokio::task::spawn_blocking(move || {
            let digest = digest(&path, len, &hashed);
            (path, digest)
        });
        let digest = work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        slow.detail(|| format!("{} of {}", bytes(done.load(Relaxed)), bytes(all)));
        digest
    };
    stream::iter(files.into_iter().map(digest)).buffered(crate::cores()).collect().await
}

/// The digest of a file of this length.
fn digest(path: &Path, len: u64, hashed: &AtomicU64) -> Result<String, String> {
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => "gone".to_owned(),
        _ => format!("cannot be read: {e}"),
    };
    // To open a named pipe would wait for whoever writes to it.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err("is no file any more".to_owned());
    }
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut sha, mut buffer, mut read) = (Sha256::new(), vec![0; BUFFER], 0);
    loop {
        let more = file.read(&mut buffer).map_err(failed)?;
        if more == 0 {
            break;
        }
        sha.update(&buffer[..more]);
        hashed.fetch_add(more as u64, Relaxed);
        read += more as u64;
    }
    match read == len {
        true => Ok(format!("{:x}", sha.finalize())),
        false => Err(format!("has {read} bytes, and had {len}")),
    }
}
