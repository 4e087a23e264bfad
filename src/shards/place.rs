//! The place of a shard directory: on this machine, or in a store. Its files are read and written whole.
//!
//! All operations block. Stores need a tokio runtime.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use tempfile::NamedTempFile;
use tokio::runtime::Handle;

use crate::atomic::persist_new;
use crate::bounded;
use crate::error::{Error, Result};
use crate::files::File;
use crate::location::Location;
use crate::segment::begun;
use crate::store::{Found, Stores};

/// How many files are requested from a plain server at a time.
const ASKED: usize = 64;

/// A shard directory, or the place for one.
#[derive(Clone, Debug)]
pub(crate) enum ShardPlace {
    Directory(PathBuf),
    Store(Prefix),
}

#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    /// Its URL, without a slash at the end.
    url: String,
    stores: Arc<Stores>,
}

impl ShardPlace {
    /// The place that a path or a URL names.
    pub(crate) fn named(path: impl Into<PathBuf>, stores: &Arc<Stores>) -> Self {
        match Location::named(path) {
            Location::Url(url) => {
                Self::Store(Prefix { url: url.trim_end_matches('/').to_owned(), stores: stores.clone() })
            }
            location => Self::Directory(location.as_path().to_owned()),
        }
    }

    /// The place of this name within it.
    pub(crate) fn join(&self, name: &str) -> Self {
        match self {
            Self::Directory(directory) => Self::Directory(directory.join(name)),
            Self::Store(prefix) => {
                Self::Store(Prefix { url: prefix.of(name), stores: prefix.stores.clone() })
            }
        }
    }

    /// The directory, if it is on this machine.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => Some(directory),
            Self::Store(_) => None,
        }
    }

    /// Whether it is on a plain HTTP server, which can neither be listed nor written to.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Store(prefix) if prefix.is_plain())
    }

    /// Its path or URL, as errors name it.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory,
            Self::Store(prefix) => Path::new(&prefix.url),
        }
    }

    /// The path or URL of a file in it.
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(name),
            Self::Store(prefix) => prefix.of(name).into(),
        }
    }

    /// Reads a file of at most `most` bytes. Returns `None` if there is none.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(name);
                match bounded::read(&path, most) {
                    Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                    // It is not a regular file, or too long.
                    Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                        Err(Error::Corpus { problem: format!("{}: {e}", path.display()) })
                    }
                    read => read.map(Some).map_err(|e| Error::io(&path, "read", e)),
                }
            }
            Self::Store(prefix) => {
                prefix.wait(|stores, url| async move { stores.read(&url, most).await }, name)
            }
        }
    }

    /// Writes a file, whole or not at all.
    pub(crate) fn write(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        match self {
            Self::Directory(directory) => self.put(name, written(directory, &bytes)?),
            Self::Store(prefix) => {
                prefix.wait(|stores, url| async move { stores.write(&url, bytes).await }, name)
            }
        }
    }

    /// Writes a file if there is none of this name. Returns false if there is one, which stays. A store without
    /// conditional writes replaces it.
    pub(crate) fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(name);
                // This works in read-only places too.
                if path.symlink_metadata().is_ok() {
                    return Ok(false);
                }
                persist_new(written(directory, &bytes)?, &path).map_err(|e| Error::io(&path, "write", e))
            }
            Self::Store(prefix) => {
                prefix.wait(|stores, url| async move { stores.create(&url, bytes).await }, name)
            }
        }
    }

    /// Gives a complete file its name, or sends it to the store.
    pub(crate) fn put(&self, name: &str, mut file: NamedTempFile) -> Result<()> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(name);
                file.persist(&path).map(drop).map_err(|e| Error::io(&path, "write", e.error))
            }
            Self::Store(prefix) => prefix.wait(
                |stores, url| async move {
                    let begin = std::io::Seek::rewind(file.as_file_mut());
                    begin.map_err(|e| Error::io(file.path(), "read", e))?;
                    stores.upload(&url, file.as_file_mut()).await
                },
                name,
            ),
        }
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory(directory) => match std::fs::remove_file(directory.join(name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    Err(Error::io(directory.join(name), "remove", e))
                }
                _ => Ok(()),
            },
            Self::Store(prefix) => prefix.wait(|stores, url| async move { stores.remove(&url).await }, name),
        }
    }

    /// The files in it, by name, and the names of the places within it.
    pub(crate) fn look(&self) -> Result<(BTreeMap<String, File>, Vec<String>)> {
        let Self::Store(prefix) = self else { return self.look_here() };
        let Found { objects, within } =
            prefix.wait(|stores, url| async move { stores.below(&url).await }, "")?;
        let name = |file: &File| file.path().to_string_lossy().rsplit('/').next().map(str::to_owned);
        let named = objects.into_iter().map(|file| (name(&file).unwrap_or_default(), file));
        Ok((named.collect(), within))
    }

    fn look_here(&self) -> Result<(BTreeMap<String, File>, Vec<String>)> {
        let directory = self.path();
        let read = |e| Error::io(directory, "read the directory", e);
        let (mut files, mut within) = (BTreeMap::new(), Vec::new());
        for entry in std::fs::read_dir(directory).map_err(read)? {
            let entry = entry.map_err(read)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            match path.metadata() {
                Ok(metadata) if metadata.is_dir() => within.push(name),
                // A read of anything but a regular file may block forever.
                Ok(metadata) if metadata.is_file() => {
                    files.insert(name, File::new(Location::Path(path), metadata.len(), None));
                }
                _ => {}
            }
        }
        Ok((files, within))
    }

    /// A range of each of some files in a store.
    pub(crate) fn ranges<'a>(
        &self,
        of: impl IntoIterator<Item = (&'a File, Range<u64>)>,
    ) -> Result<Vec<Vec<u8>>> {
        let Self::Store(prefix) = self else { return Ok(Vec::new()) };
        let within = |file: &File, range: Range<u64>| range.start.min(file.len)..range.end.min(file.len);
        let of: Vec<_> = of.into_iter().map(|(file, range)| (file.clone(), within(file, range))).collect();
        prefix.wait(|stores, _| async move { stores.ranges(of).await }, "")
    }

    /// The files of these names, one by one: a plain server cannot be listed.
    pub(crate) fn find(&self, names: &[String]) -> Result<Vec<File>> {
        let (files, _) = match self {
            Self::Store(prefix) if prefix.is_plain() => return prefix.ask(names),
            _ => self.look()?,
        };
        let gone = |name: &String| Error::prepare_again(self.of(name).display(), "it is gone");
        names.iter().map(|name| files.get(name).cloned().ok_or_else(|| gone(name))).collect()
    }
}

/// A complete file in a directory, which has no name yet. If the process is killed, a later one removes it.
fn written(directory: &Path, bytes: &[u8]) -> Result<NamedTempFile> {
    let write = || {
        let mut file = begun(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|e| Error::io(directory, "write in", e))
}

impl Prefix {
    /// The URL of an object.
    fn of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Whether it is on a plain HTTP server.
    fn is_plain(&self) -> bool {
        self.url.starts_with("http:") || self.url.starts_with("https:")
    }

    /// Waits for a store's answer about an object.
    fn wait<T, F: Future<Output = Result<T>>>(
        &self,
        ask: impl FnOnce(Arc<Stores>, String) -> F,
        name: &str,
    ) -> Result<T> {
        let runtime = Handle::try_current().map_err(|e| Error::Corpus { problem: format!("stores: {e}") })?;
        let url = if name.is_empty() { self.url.clone() } else { self.of(name) };
        runtime.block_on(ask(self.stores.clone(), url))
    }

    /// Requests files one by one, many at a time.
    fn ask(&self, names: &[String]) -> Result<Vec<File>> {
        let urls: Vec<String> = names.iter().map(|name| self.of(name)).collect();
        let ask = async |stores: Arc<Stores>, url: String| {
            let found = stores.list("source.paths", &url).await?.pop();
            let gone =
                || Error::Corpus { problem: format!("{url}: it is gone; copy the whole directory again") };
            found.ok_or_else(gone)
        };
        let all = |stores: Arc<Stores>, _| async move {
            stream::iter(urls).map(|url| ask(stores.clone(), url)).buffered(ASKED).try_collect().await
        };
        self.wait(all, "")
    }
}
