//! The SHA-256 of local files, as `sha256sum` prints it. Held in memory: a buffer for each core.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};

use crate::progress;
use crate::words::bytes;
use millstream::files::{File, Location};
use millstream::{Error, Result};

/// How much is read at once, in bytes.
const BUFFER: usize = 1 << 20;

/// The digests of the files that are on this machine as they were listed, in hexadecimal digits, by their paths.
pub(super) async fn of(files: &[File]) -> Result<BTreeMap<PathBuf, String>> {
    let local = |file: &File| match &file.location {
        Location::Path(path) => Some((path.clone(), file.len)),
        _ => None,
    };
    // Several sources may have one file.
    let files: BTreeMap<PathBuf, u64> = files.iter().filter_map(local).collect();
    let all = files.values().sum();
    let (slow, done) = (progress::slow("hashing the files"), Arc::new(AtomicU64::new(0)));
    let digest = async |(path, len): (PathBuf, u64)| {
        let hashed = done.clone();
        let work = tokio::task::spawn_blocking(move || Ok((digest(&path, len, &hashed)?, path)));
        let digest: Result<_> =
            work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        slow.detail(|| format!("{} of {}", bytes(done.load(Relaxed)), bytes(all)));
        digest.map(|(digest, path)| digest.map(|digest| (path, digest)))
    };
    let digests = stream::iter(files.into_iter().map(digest)).buffered(crate::cores());
    digests.try_filter_map(async |digest| Ok(digest)).try_collect().await
}

/// The digest of a file of this length; `None` if it has gone, or has another length.
fn digest(path: &Path, len: u64, hashed: &AtomicU64) -> Result<Option<String>> {
    let failed = |e| Error::io(path, "read", e);
    let mut file = match std::fs::File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
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
    Ok((read == len).then(|| format!("{:x}", sha.finalize())))
}
