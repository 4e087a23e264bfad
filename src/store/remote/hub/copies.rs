//! Whole files of the Hub in its cache: those that are there already and, if the config asks for it, those that a run
//! reads.

use std::collections::HashMap;
use std::fs::{self, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;

use super::Hub;
use super::cache::{self, Folder};
use super::files::HubFiles;
use crate::error::{Error, Result};
use crate::threads::lock;

/// How many files are fetched at a time, how many requests are under way for each, and how much each asks for: all of them
/// together hold at most so much memory.
const FILES: usize = 4;
const PIECES: usize = 4;
const PIECE: u64 = 4 << 20;

/// How often to look whether another process has finished with a file.
const APART: Duration = Duration::from_millis(100);

/// The copies that a loader knows of, and the room for more.
#[derive(Debug)]
pub(super) struct Copies {
    cache: PathBuf,
    /// How many bytes all blobs together may have; `None` if no file is kept for its own sake.
    limit: Option<u64>,
    /// How many there are, as far as this process knows.
    held: OnceCell<AtomicU64>,
    known: Mutex<HashMap<String, Arc<OnceCell<Option<PathBuf>>>>>,
    /// Permits for the files that may still be begun.
    permits: Semaphore,
    /// Each is logged once.
    full: Once,
    failed: Once,
}

impl Copies {
    pub(super) fn new(cache: PathBuf, limit: Option<u64>) -> Self {
        Self {
            cache,
            limit,
            held: OnceCell::new(),
            known: Mutex::default(),
            permits: Semaphore::new(FILES),
            full: Once::new(),
            failed: Once::new(),
        }
    }

    /// Takes room for a file of this length. The first call looks through the cache.
    async fn take(&self, len: u64) -> bool {
        let Some(limit) = self.limit else { return false };
        let size = async {
            let cache = self.cache.clone();
            spawn_blocking(move || cache::size(&cache)).await.unwrap_or(u64::MAX).into()
        };
        let held = self.held.get_or_init(|| size).await;
        let add = |held: u64| held.checked_add(len).filter(|held| *held <= limit);
        let has_room = held.fetch_update(Relaxed, Relaxed, add).is_ok();
        if !has_room {
            let cache = self.cache.display();
            self.full.call_once(|| {
                tracing::info!(%cache, limit, "the Hub's cache is full: further files are streamed and not kept");
            });
        }
        has_room
    }

    /// Logs, once, that something cannot be kept.
    pub(super) fn complain(&self, error: &io::Error) {
        let cache = self.cache.display();
        self.failed.call_once(|| {
            tracing::warn!(%cache, %error, "cannot keep this in the Hub's cache; reading goes on without it");
        });
    }
}

/// A file's copy in the cache, or the place for one.
#[derive(Debug)]
pub(in crate::store::remote) struct Copy {
    files: Arc<HubFiles>,
    path: String,
    known: Arc<OnceCell<Option<PathBuf>>>,
}

impl Copy {
    pub(in crate::store::remote) fn new(files: &Arc<HubFiles>, path: &str) -> Self {
        let key = format!("{}/{path}", files.repo);
        let mut known = lock(&files.hub.copies.known);
        let known = known.entry(key).or_default().clone();
        Self { files: files.clone(), path: path.to_owned(), known }
    }

    fn folder(&self) -> Folder {
        self.files.hub.folder(&self.files.repo)
    }

    fn snapshot(&self) -> PathBuf {
        self.folder().snapshot(&self.files.repo.revision, &self.path)
    }

    /// The copy, if it is there. The first call decides.
    pub(in crate::store::remote) fn there(&self, len: u64) -> Option<PathBuf> {
        if !self.known.initialized() && self.is_there(len) {
            let _ = self.known.set(Some(self.snapshot()));
        }
        self.known.get()?.clone()
    }

    /// The copy of a file of `len` bytes: it is made first if there is none and room for it. `fetch` requests a range.
    pub(in crate::store::remote) async fn get<F: Future<Output = Result<Bytes>>>(
        &self,
        len: u64,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Option<PathBuf> {
        let Hub { env, copies, .. } = &*self.files.hub;
        let make = async {
            if self.is_there(len) {
                return Some(self.snapshot());
            }
            if env.is_offline || !copies.take(len).await {
                return None;
            }
            let made = self.make(len, fetch).await;
            made.inspect_err(|error| copies.complain(&io::Error::other(error.chain()))).ok()
        };
        self.known.get_or_init(|| make).await.clone()
    }

    /// Fetches the whole file into the cache, unless another process does at this moment or it is there. Returns its path.
    pub(in crate::store::remote) async fn make<F: Future<Output = Result<Bytes>>>(
        &self,
        len: u64,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Result<PathBuf> {
        let (folder, snapshot) = (self.folder(), self.snapshot());
        let (HubFiles { repo, .. }, failed) = (&*self.files, |e| Error::io(&snapshot, "write", e));
        if self.is_there(len) {
            return Ok(snapshot);
        }
        let etag =
            self.files.hub.tree(repo).await?.files.get(&self.path).map(|entry| entry.etag().to_owned());
        let etag = etag.unwrap_or_default();
        let _permit = self.files.hub.copies.permits.acquire().await;
        let link = || folder.link(&repo.revision, &self.path, &etag, len).map_err(failed);
        let lock = folder.lock(&etag).map_err(failed)?;
        // A file system without locks lets both fetch the file; the second one replaces it by the same bytes.
        while let Err(TryLockError::WouldBlock) = lock.try_lock() {
            tokio::time::sleep(APART).await;
        }
        if link()? {
            return Ok(snapshot);
        }
        let mut file = folder.begin(&etag).map_err(failed)?;
        let pieces = (0..len.div_ceil(PIECE)).map(|nth| nth * PIECE..len.min((nth + 1) * PIECE));
        let mut pieces = futures::stream::iter(pieces).map(fetch).buffered(PIECES);
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            let written = spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
            file = written.map_err(io::Error::other).flatten().map_err(failed)?;
        }
        let finish = {
            let (folder, etag) = (folder.clone(), etag.clone());
            move || folder.finish(file, &etag)
        };
        spawn_blocking(finish).await.map_err(io::Error::other).flatten().map_err(failed)?;
        link()?;
        Ok(snapshot)
    }

    fn is_there(&self, len: u64) -> bool {
        // A file of another length is another file.
        cache::has_length(&self.snapshot(), len)
    }
}

/// A range of a copy. It blocks.
pub(in crate::store::remote) fn read(path: &Path, range: &Range<u64>) -> io::Result<Bytes> {
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact(&mut bytes)?;
    Ok(bytes.into())
}
