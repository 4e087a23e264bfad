//! The Hub's cache on this machine, in the layout of its own libraries (`huggingface_hub` 2.4):
//!
//! ```text
//! datasets--OWNER--NAME/
//!   refs/main                  the commit that the branch was at
//!   trees/COMMIT.json          all files of a commit
//!   snapshots/COMMIT/PATH      a link to the file's blob
//!   blobs/ETAG                 the bytes of a file, whole
//!   blobs/ETAG.….incomplete    a file on its way
//!   .no_exist/COMMIT/PATH      a file that was asked for and is not there
//! ```
//!
//! Blobs and trees take their places when they are whole, so a reader beside a writer finds all of a file or none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::name::Repo;
use crate::atomic::write_atomically;
use crate::bounded;

/// The longest tree that is read, in bytes.
const MOST: u64 = 1 << 30;

/// The version of the form of trees.
const VERSION: u32 = 1;

/// The files of a commit, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    #[serde(rename = "format_version")]
    version: u32,
    pub(super) files: BTreeMap<String, Entry>,
}

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) size: u64,
    /// Its name in git.
    pub(super) blob_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lfs_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lfs_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xet_hash: Option<String>,
}

impl Tree {
    pub(super) fn new(files: BTreeMap<String, Entry>) -> Self {
        Self { version: VERSION, files }
    }
}

impl Entry {
    pub(super) fn len(&self) -> u64 {
        self.lfs_size.unwrap_or(self.size)
    }

    /// The name of its content.
    pub(super) fn etag(&self) -> &str {
        self.lfs_sha256.as_deref().unwrap_or(&self.blob_id)
    }

    /// Whether the name of its content can name a file.
    pub(super) fn is_valid(&self) -> bool {
        !self.etag().is_empty() && self.etag().bytes().all(|byte| byte.is_ascii_alphanumeric())
    }
}

/// The folder of one repository.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    locks: PathBuf,
}

impl Folder {
    pub(super) fn new(cache: &Path, repo: &Repo) -> Self {
        let name = format!("{}--{}", repo.kind.plural(), repo.id.replace('/', "--"));
        Self { path: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// Where a commit's file is, or would be.
    pub(super) fn snapshot(&self, commit: &str, path: &str) -> PathBuf {
        self.path.join("snapshots").join(commit).join(path)
    }

    /// The commit that a branch or tag was at when it was last asked for.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let text = bounded::read(&self.path.join("refs").join(revision), 1 << 10).ok()?;
        Some(String::from_utf8(text).ok()?.trim().to_owned())
    }

    pub(super) fn note_commit(&self, revision: &str, commit: &str) -> io::Result<()> {
        if self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        written(&self.path.join("refs").join(revision), commit.as_bytes())
    }

    pub(super) fn tree(&self, commit: &str) -> Option<Tree> {
        let tree: Tree = serde_json::from_slice(&bounded::read(&self.tree_path(commit), MOST).ok()?).ok()?;
        let is_valid = |(path, entry): (&String, &Entry)| bounded::is_within(path) && entry.is_valid();
        Some(tree).filter(|tree| tree.version == VERSION && tree.files.iter().all(is_valid))
    }

    /// The files of a commit that are here, as far as that can be told without the server.
    pub(super) fn tree_of_snapshot(&self, commit: &str) -> Option<Tree> {
        let root = self.path.join("snapshots").join(commit);
        let (mut files, mut directories) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(directory) = directories.pop() {
            for path in fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()) {
                let Ok(metadata) = fs::metadata(&path) else { continue };
                if metadata.is_dir() {
                    directories.push(path);
                    continue;
                }
                let blob =
                    fs::read_link(&path).ok().and_then(|blob| Some(blob.file_name()?.to_str()?.to_owned()));
                let name = path.strip_prefix(&root).ok()?.to_str()?.to_owned();
                let (size, blob_id) = (metadata.len(), blob.unwrap_or_else(|| "copy".to_owned()));
                files.insert(name, Entry { size, blob_id, lfs_sha256: None, lfs_size: None, xet_hash: None });
            }
        }
        Some(Tree::new(files))
    }

    pub(super) fn keep_tree(&self, commit: &str, tree: &Tree) -> io::Result<()> {
        written(&self.tree_path(commit), &serde_json::to_vec_pretty(tree)?)
    }

    fn tree_path(&self, commit: &str) -> PathBuf {
        self.path.join("trees").join(format!("{commit}.json"))
    }

    pub(super) fn note_absent(&self, commit: &str, path: &str) -> io::Result<()> {
        let note = self.path.join(".no_exist").join(commit).join(path);
        // Any path may be asked for, and some lead out of the cache.
        if !bounded::is_within(path) || note.exists() { Ok(()) } else { written(&note, b"") }
    }

    /// Links a commit's file to its blob, if that is here and has this length.
    pub(super) fn link(&self, commit: &str, path: &str, etag: &str, len: u64) -> io::Result<bool> {
        let (blob, link) = (self.blob(etag), self.snapshot(commit, path));
        if !has_length(&blob, len) {
            return Ok(false);
        }
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent)?;
        }
        // From the link up to the folder: its directories, the commit and `snapshots`.
        let up: PathBuf = Path::new(path).components().map(|_| "..").chain([".."]).collect();
        match linked(&up.join("blobs").join(etag), &blob, &link) {
            // Another process was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && has_length(&link, len) => Ok(true),
            // It leads nowhere, or to something else.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&link)?;
                linked(&up.join("blobs").join(etag), &blob, &link).map(|()| true)
            }
            done => done.map(|()| true),
        }
    }

    fn blob(&self, etag: &str) -> PathBuf {
        self.path.join("blobs").join(etag)
    }

    /// A file for the bytes of a blob. Unless it becomes the blob it is removed.
    pub(super) fn begin(&self, etag: &str) -> io::Result<NamedTempFile> {
        let blobs = self.path.join("blobs");
        fs::create_dir_all(&blobs)?;
        let mut file = tempfile::Builder::new();
        let (prefix, suffix) = (format!("{etag}."), ".incomplete");
        #[cfg(unix)]
        file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        file.prefix(&prefix).suffix(suffix).tempfile_in(blobs)
    }

    /// Makes a whole file the blob. It blocks until the bytes are on the disk.
    pub(super) fn finish(&self, file: NamedTempFile, etag: &str) -> io::Result<()> {
        file.as_file().sync_data()?;
        file.persist(self.blob(etag))?;
        Ok(())
    }

    /// The lock of those who fetch a blob, which saves fetching it twice. Nothing else depends on it.
    pub(super) fn lock(&self, etag: &str) -> io::Result<fs::File> {
        fs::create_dir_all(&self.locks)?;
        fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.locks.join(format!("{etag}.lock")))
    }
}

/// Whether a file, or what a link leads to, has this length.
pub(super) fn has_length(path: &Path, len: u64) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == len)
}

/// The bytes of all blobs of all repositories.
pub(super) fn size(cache: &Path) -> u64 {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let blobs = entries(cache).flat_map(|repo| entries(&repo.path().join("blobs")).collect::<Vec<_>>());
    blobs.flat_map(|blob| blob.metadata()).map(|metadata| metadata.len()).sum()
}

fn written(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    write_atomically(path, bytes).map_err(io::Error::other)
}

/// Makes `link` stand for the blob: a relative link, as the cache may move, or a copy where there are no links.
#[cfg(unix)]
fn linked(relative: &Path, _: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(relative, link)
}

#[cfg(not(unix))]
fn linked(_: &Path, blob: &Path, link: &Path) -> io::Result<()> {
    fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(drop))
}
