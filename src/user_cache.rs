//! Small results, cached in the user's cache directory, so that other processes need not compute them again.
//!
//! An entry is a file. Its name is a digest of everything that the result depends on, and it has a digest of its
//! content: a damaged entry counts as missing. Nothing here is an error: without a directory that can be written to,
//! results are computed every time.

use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use futures::channel::oneshot;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::atomic::write_atomically;

/// The variable that names another directory. If it is empty, nothing is cached.
const VARIABLE: &str = "MILLSTREAM_CACHE";

/// How many entries of one kind are kept. Beyond that, the older half is removed.
const MOST: usize = 1000;

/// The largest entry that is read, in bytes. Thousands of added tokens take some hundred thousand.
const LARGEST: u64 = 16 << 20;

/// How often to check whether another process has released an entry.
const APART: Duration = Duration::from_millis(100);

/// Everything that a result depends on.
pub(crate) struct Key(blake3::Hasher);

impl Key {
    /// `context` names the kind of result and its form. No two kinds share one.
    pub(crate) fn new(context: &str) -> Self {
        Self(blake3::Hasher::new_derive_key(context))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> blake3::Hash {
        self.0.finalize()
    }
}

/// The place of one result.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    key: blake3::Hash,
}

/// The right to compute a result, while other processes wait for it.
#[derive(Debug)]
#[must_use = "the turn ends when it is dropped"]
pub(crate) struct Turn(File);

impl Drop for Turn {
    fn drop(&mut self) {
        // A process that was forked from this one may have the file still open.
        let _ = self.0.unlock();
    }
}

impl Entry {
    /// The entry for a key, in a directory for its kind. `None` if nothing is cached.
    pub(crate) fn of(kind: &str, key: &Key) -> Option<Self> {
        Some(Self::within(directory()?.join(kind), key))
    }

    fn within(directory: PathBuf, key: &Key) -> Self {
        let key = key.finish();
        Self { path: directory.join(key.to_hex().as_str()), key }
    }

    /// The cached result, if it is there and whole.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let mut bytes = Vec::new();
        File::open(&self.path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let (digest, said) = bytes.split_first_chunk()?;
        let found = (self.digest(said) == *digest).then(|| serde_json::from_slice(said).ok()).flatten();
        if found.is_none() {
            tracing::debug!(path = %self.path.display(), "a damaged entry of the user's cache is not used");
        }
        found
    }

    /// Caches a result, if possible.
    pub(crate) fn write(&self, found: &impl Serialize) {
        let Ok(said) = serde_json::to_vec(found) else { return };
        let bytes = [self.digest(&said).as_bytes(), said.as_slice()].concat();
        match write_atomically(&self.path, &bytes) {
            Ok(()) => self.make_room(),
            Err(error) => tracing::debug!(%error, "nothing is kept in the user's cache"),
        }
    }

    /// Waits until no other process is computing the same result, or one has finished. Other processes wait while this
    /// turn is held. `None` if the result is there, or if the entry cannot be locked. The waiting ends when the future
    /// is dropped.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let (answer, turn) = oneshot::channel();
        let entry = self.clone();
        let wait = move || {
            fs::create_dir_all(entry.path.parent()?).ok()?;
            // It is empty until there is a result.
            let file = File::options().write(true).create(true).truncate(false).open(&entry.path).ok()?;
            let mut is_said = false;
            while !answer.is_canceled() && entry.read::<IgnoredAny>().is_none() {
                match file.try_lock() {
                    Ok(()) => return answer.send(Turn(file)).ok(),
                    Err(TryLockError::WouldBlock) => {
                        if !std::mem::replace(&mut is_said, true) {
                            tracing::info!(path = %entry.path.display(), "another process of this user is finding this out: waiting for it");
                        }
                        std::thread::sleep(APART);
                    }
                    Err(TryLockError::Error(_)) => break,
                }
            }
            None
        };
        // Not one of the runtime's threads: the runtime waits for them when it ends.
        std::thread::Builder::new().name("wait for a turn".to_owned()).spawn(wait).ok()?;
        turn.await.ok()
    }

    /// A digest of an entry's content, for this key.
    fn digest(&self, said: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(self.key.as_bytes(), said)
    }

    /// Removes the oldest entries, if there are too many. Others may do the same at the same time.
    fn make_room(&self) {
        let Some(entries) = self.path.parent().and_then(|directory| fs::read_dir(directory).ok()) else {
            return;
        };
        let mut entries: Vec<_> = entries.flatten().filter(|entry| entry.path() != self.path).collect();
        if entries.len() >= MOST {
            entries.sort_by_cached_key(|entry| entry.metadata().and_then(|about| about.modified()).ok());
            for entry in &entries[..entries.len() - MOST / 2] {
                // A file that cannot be removed stays.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The directory that the variable names, else one among the user's caches.
fn directory() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(named) => Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty()),
        None => Some(caches()?.join("millstream")),
    }
}

/// The system's directory for the user's caches.
fn caches() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(absolute);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    let in_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(in_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(directory: &tempfile::TempDir, depends_on: &[&str]) -> Entry {
        let mut key = Key::new("test");
        depends_on.iter().for_each(|part| key.add(part.as_bytes()));
        Entry::within(directory.path().join("kind"), &key)
    }

    fn found(entry: &Entry) -> Option<String> {
        entry.read()
    }

    #[test]
    fn a_finding_holds_for_exactly_what_it_depends_on() {
        let directory = tempfile::tempdir().unwrap();
        let one = entry(&directory, &["a", "b"]);
        assert_eq!(found(&one), None);
        one.write(&"found");
        assert_eq!(found(&entry(&directory, &["a", "b"])).as_deref(), Some("found"));
        for other in [&["ab"][..], &["a"], &[]] {
            let other = entry(&directory, other);
            assert_eq!(found(&other), None);
            // An entry under another name is damaged.
            fs::copy(&one.path, &other.path).unwrap();
            assert_eq!(found(&other), None);
        }
    }

    #[test]
    fn what_is_damaged_counts_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let entry = entry(&directory, &[]);
        entry.write(&"found");
        let whole = fs::read(&entry.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&entry.path, &damaged).unwrap();
            assert_eq!(found(&entry), None, "byte {at}");
            fs::write(&entry.path, &whole[..at]).unwrap();
            assert_eq!(found(&entry), None, "cut at {at}");
        }
        fs::remove_file(&entry.path).unwrap();
        fs::create_dir(&entry.path).unwrap();
        assert_eq!(found(&entry), None);
        entry.write(&"found");
        assert_eq!(found(&entry), None, "what cannot be written is not there");
        assert!(futures::executor::block_on(entry.turn()).is_none(), "nor can it be locked");
    }

    #[test]
    fn many_may_write_at_once_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let directory = &directory;
                scope.spawn(move || {
                    for number in 0..20 {
                        let entry = entry(directory, &["same"]);
                        entry.write(&"found");
                        assert_eq!(found(&entry).as_deref(), Some("found"), "{thread} {number}");
                    }
                });
            }
        });
        let kind = directory.path().join("kind");
        for number in 0..=MOST {
            fs::write(kind.join(format!("old-{number}")), "").unwrap();
        }
        let last = entry(&directory, &["last"]);
        last.write(&"found");
        assert_eq!(found(&last).as_deref(), Some("found"));
        assert_eq!(fs::read_dir(&kind).unwrap().count(), MOST / 2 + 1);
    }

    #[test]
    fn one_finds_and_the_others_wait() {
        let directory = tempfile::tempdir().unwrap();
        let finders = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (directory, finders) = (&directory, &finders);
                scope.spawn(move || {
                    let entry = entry(directory, &["same"]);
                    let turn = futures::executor::block_on(entry.turn());
                    if found(&entry).is_none() {
                        finders.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        entry.write(&"found");
                    }
                    drop(turn);
                });
            }
        });
        assert_eq!(finders.into_inner(), 1);
    }
}
