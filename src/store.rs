//! The stored bytes of one file, local or remote: the floor that every format reads from.
//!
//! A local file is read in place ([`Local`]); [`remote`] ones are requested ahead of need. In a build without
//! the feature `stores`, all files are local.

use std::convert::Infallible;
use std::fmt::Debug;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::bounded;
use crate::error::{Error, Result};
use crate::files::File;
use crate::threads::lock;

#[cfg(feature = "stores")]
mod remote;
#[cfg(feature = "stores")]
pub(crate) use remote::{
    FileOpener, HUB, HubTree, Stores, hub_commit, hub_revision, hub_tree, pin_hub, pinned,
};
#[cfg(feature = "stores")]
pub use remote::{ask_hub_with, local};

#[cfg(not(feature = "stores"))]
mod without;
#[cfg(not(feature = "stores"))]
pub(crate) use without::{
    FileOpener, HUB, HubTree, Stores, hub_commit, hub_revision, hub_tree, pin_hub, pinned,
};
#[cfg(not(feature = "stores"))]
pub use without::{ask_hub_with, local};

/// The contents of a prefix of a store: its objects, and the names of the prefixes within it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) objects: Vec<File>,
    pub(crate) within: Vec<String>,
}

/// When a lane reads a split. Earlier turns are less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadTurn {
    pub(crate) epoch: u64,
    /// The split's place in the epoch.
    pub(crate) split: u64,
}

/// A read that a lane will make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) turn: ReadTurn,
    pub(crate) file: u32,
    /// The stored bytes, which are read from first to last. A split that is read from several places has one
    /// `Planned` for each.
    pub(crate) range: Range<u64>,
}

/// The future reads of a lane, in order. They may be endless.
pub(crate) trait Plan: Iterator<Item = Planned> + Debug + Send + 'static {}

impl<P: Iterator<Item = Planned> + Debug + Send + 'static> Plan for P {}

/// A file's bytes as they are stored, at any offset.
///
/// Reading blocks, so it belongs on a blocking thread. The file must stay as it was when the corpus was opened: a file
/// that has changed is an error, and never another text.
pub(crate) trait Stored: Debug + Send + Sync {
    /// The path or URL that errors name.
    fn path(&self) -> &Path;

    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Whether many small reads at scattered places are cheap.
    fn is_local(&self) -> bool {
        false
    }

    /// Fills `into` with the bytes from `from` on.
    ///
    /// # Errors
    /// [`Error::Io`] from the system, and if the file ends before `into` is full; [`Error::Corpus`] if the file has
    /// changed since the corpus was opened.
    fn read_at(&self, from: u64, into: &mut [u8]) -> Result<()>;

    /// The same for a look at a file: reading will not continue after these bytes.
    ///
    /// # Errors
    /// As [`Stored::read_at`].
    fn look_at(&self, from: u64, into: &mut [u8]) -> Result<()> {
        self.read_at(from, into)
    }
}

/// Held by the consumer of the reads: dropping it cancels the reads from stores under way, and all later ones.
#[derive(Debug)]
pub(crate) struct CancelToken {
    _held: async_channel::Sender<Infallible>,
}

/// The end of a [`CancelToken`] that the reads hold.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "stores"), expect(dead_code, reason = "reads of local files are not cancelled"))]
pub(crate) struct Cancellable(Option<async_channel::Receiver<Infallible>>);

impl CancelToken {
    pub(crate) fn new() -> (Self, Cancellable) {
        let (held, cancellable) = async_channel::bounded(1);
        (Self { _held: held }, Cancellable(Some(cancellable)))
    }
}

impl Cancellable {
    /// For reads that nothing cancels.
    pub(crate) fn never() -> Self {
        Self(None)
    }

    /// Completes when the token is dropped.
    #[cfg(feature = "stores")]
    pub(super) async fn cancelled(&self) {
        match &self.0 {
            None => std::future::pending().await,
            Some(token) => _ = token.recv().await,
        }
    }
}

/// Returns an open file, unless it is a pointer of git LFS.
fn checked(stored: impl Stored + 'static) -> Result<Arc<dyn Stored>> {
    if bounded::POINTER.contains(&stored.len()) {
        let mut bytes = vec![0; stored.len() as usize];
        stored.look_at(0, &mut bytes)?;
        bounded::refuse_pointer(&bytes).map_err(|e| Error::io(stored.path(), "read", e))?;
    }
    Ok(Arc::new(stored))
}

/// The error of reading up to byte `end` of a file that has `len` bytes.
fn past_the_end(path: &Path, len: u64, end: u64) -> Error {
    let problem = format!("it has {len} bytes, and those up to {end} were asked for");
    Error::io(path, "read", io::Error::new(io::ErrorKind::UnexpectedEof, problem))
}

/// A file of at most this many bytes is read whole when its head is looked at: for a small file, each system
/// call takes as long as reading it.
const SMALL: u64 = 64 << 10;

/// A file of the local file system.
#[derive(Debug)]
pub(crate) struct Local {
    path: PathBuf,
    len: u64,
    file: Mutex<Open>,
}

/// An open file, and the offset in it that the system is at.
#[derive(Debug)]
struct Open {
    file: fs::File,
    at: u64,
    /// All of its bytes, if it is small and its head was looked at.
    whole: Option<Box<[u8]>>,
}

impl Local {
    /// Opens the file at `path`, which had `len` bytes when the corpus was opened.
    pub(crate) fn open(path: &Path, len: u64) -> Result<Self> {
        let file = fs::File::open(path).map_err(|e| Error::io(path, "open", e))?;
        Ok(Self { path: path.to_owned(), len, file: Mutex::new(Open { file, at: 0, whole: None }) })
    }
}

impl Stored for Local {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn is_local(&self) -> bool {
        true
    }

    fn look_at(&self, from: u64, into: &mut [u8]) -> Result<()> {
        if self.len <= SMALL && lock(&self.file).whole.is_none() {
            let mut whole = vec![0; self.len as usize].into_boxed_slice();
            self.read_at(0, &mut whole)?;
            lock(&self.file).whole = Some(whole);
        }
        self.read_at(from, into)
    }

    fn read_at(&self, from: u64, into: &mut [u8]) -> Result<()> {
        let mut open = lock(&self.file);
        if let Some(held) = open.held(from, into.len()) {
            into.copy_from_slice(held);
            return Ok(());
        }
        let found = open.read_at(from, into).map_err(|e| Error::io(&self.path, "read", e))?;
        let end = from.saturating_add(into.len() as u64);
        if found == self.len && end > found {
            return Err(past_the_end(&self.path, found, end));
        }
        if found == self.len {
            return Ok(());
        }
        let problem = format!(
            "{} was {} bytes long when the corpus was opened and is {found} bytes long now; leave the files alone \
             while they are read, and open the corpus again",
            self.path.display(),
            self.len
        );
        Err(Error::Corpus { problem })
    }
}

impl Open {
    /// Returns `len` bytes from `from` on that are in memory already.
    fn held(&self, from: u64, len: usize) -> Option<&[u8]> {
        self.whole.as_deref()?.get(usize::try_from(from).ok()?..)?.get(..len)
    }

    /// Fills `into` as far as the file goes, and returns the file's length.
    fn read_at(&mut self, from: u64, into: &mut [u8]) -> io::Result<u64> {
        if self.at != from {
            self.file.seek(SeekFrom::Start(from))?;
        }
        match self.file.read_exact(into) {
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(e),
            _ => self.at = from + into.len() as u64,
        }
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_read_once_and_a_longer_one_in_parts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for len in [0, 1, 600, SMALL, SMALL + 1] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            let file = Local::open(&path, len).unwrap();
            let mut head = vec![0; bytes.len().min(512)];
            file.look_at(0, &mut head).unwrap();
            assert_eq!(head, bytes[..head.len()]);
            assert_eq!(lock(&file.file).whole.is_some(), len <= SMALL);
            for range in [0..bytes.len(), bytes.len() / 2..bytes.len(), 0..bytes.len() / 3] {
                let mut part = vec![0; range.len()];
                file.read_at(range.start as u64, &mut part).unwrap();
                assert_eq!(part, bytes[range]);
            }
        }
    }

    #[test]
    fn a_small_file_that_has_changed_is_an_error_or_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "before").unwrap();
        let (looked, unseen) = (Local::open(&path, 6).unwrap(), Local::open(&path, 6).unwrap());
        let mut head = [0; 3];
        looked.look_at(0, &mut head).unwrap();
        fs::write(&path, "beforehand").unwrap();
        let mut all = [0; 6];
        looked.read_at(0, &mut all).unwrap();
        assert_eq!(&all, b"before");
        let error = unseen.look_at(0, &mut head).unwrap_err().to_string();
        assert!(error.contains("was 6 bytes long") && error.contains("is 10 bytes long now"), "{error}");
    }
}
