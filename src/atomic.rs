//! Files that are written whole or not at all.
//!
//! The kind of thing at a path decides how it is written:
//!
//! | at the path | what happens |
//! |---|---|
//! | nothing, or a file | a temporary file is written beside it and takes its name when it is complete |
//! | a symbolic link | it stays, and the file that it leads to is replaced in the same way |
//! | a device, a pipe, or a descriptor such as `/dev/stdout` | it is written to directly |
//! | a directory | it is refused |
//!
//! A directory that is written whole takes its name in the same way: a link to it stays.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// How much is written at once, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// The most symbolic links on the way to a file, as Linux has it.
const LINKS: usize = 40;

/// Returns a builder of temporary files that get their final name later. The system's umask decides who may read them.
pub fn temporary(prefix: &str) -> tempfile::Builder<'_, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Writes `bytes` to `path` so that a reader, or a run after a kill, finds either the old content or the new.
/// Missing directories are made.
///
/// # Errors
/// [`Error::Io`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.append(bytes)?;
    file.finish()
}

/// Writes a file of a directory that gets its name when all of them are on disk.
///
/// # Errors
/// [`Error::Io`].
pub fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, "write", e))
}

/// Waits until a file or a directory's entries are on disk. Windows cannot do this for directories.
///
/// # Errors
/// [`Error::Io`].
pub fn sync(path: &Path) -> Result<()> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    match File::open(path).and_then(|file| file.sync_all()) {
        // Some file systems, such as FUSE ones, cannot sync a directory and call it invalid.
        Err(e)
            if path.is_dir()
                && matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        synced => synced.map_err(|e| Error::io(path, "sync", e)),
    }
}

/// Gives a complete file its name. If something has this name already, it stays, and the result is false.
///
/// Some file systems, such as gcsfuse, can neither rename a file without replacing another nor give it a second name.
/// There it is renamed after a look: the caller has a lock, or nobody else writes.
pub fn persist_new(file: NamedTempFile, target: &Path) -> io::Result<bool> {
    let file = match file.persist_noclobber(target) {
        Ok(_) => return Ok(true),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => e.file,
    };
    match target.symlink_metadata() {
        Ok(_) => Ok(false),
        Err(_) => file.persist(target).map(|_| true).map_err(|e| e.error),
    }
}

/// Writes `bytes` to `path` in the same way. If something is there already, it stays and the result is false.
///
/// # Errors
/// [`Error::Io`].
pub fn create_atomically(path: &Path, bytes: &[u8]) -> Result<bool> {
    let failed = |e| Error::io(path, "write", e);
    let OutputTarget::File(target) = output_target(path).map_err(failed)? else { return Ok(false) };
    let create = || {
        let mut file = beside(&target)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        persist_new(file, &target)
    };
    create().map_err(failed)
}

/// Refuses a path that can never be written, such as a directory. Call it before long work.
///
/// # Errors
/// [`Error::Io`].
pub fn check_target(path: &Path) -> Result<()> {
    output_target(path).map(drop).map_err(|e| Error::io(path, "write", e))
}

/// Whether a path is one of the names of standard output, such as `/dev/stdout`.
pub fn is_standard_output(path: &Path) -> bool {
    matches!(output_target(path), Ok(OutputTarget::StandardOutput))
}

/// A file under way, which gets its name when it is complete. If it is dropped before that, nothing has changed.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    out: Out,
}

enum Out {
    File { file: BufWriter<NamedTempFile>, target: PathBuf },
    Stream(BufWriter<Box<dyn Write + Send>>),
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, target } => {
                f.debug_struct("File").field("file", file).field("target", target).finish()
            }
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl AtomicFile {
    /// Starts the file that is to be at `path`. Missing directories are made. Opening a named pipe waits for its reader.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing can be written there.
    pub fn create(path: &Path) -> Result<Self> {
        let create = || {
            Ok(match output_target(path)? {
                OutputTarget::File(target) => {
                    Out::File { file: BufWriter::with_capacity(BUFFER_BYTES, beside(&target)?), target }
                }
                OutputTarget::StandardOutput => Out::stream(io::stdout()),
                OutputTarget::Stream(path) => {
                    Out::stream(std::fs::OpenOptions::new().write(true).truncate(true).open(path)?)
                }
            })
        };
        let out = create().map_err(|e| Error::io(path, "write", e))?;
        Ok(Self { path: path.to_owned(), out })
    }

    /// Whether it is a device, a pipe or a descriptor, which has no name to take.
    pub fn is_stream(&self) -> bool {
        matches!(self.out, Out::Stream(_))
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.out {
            Out::File { file, .. } => file.write_all(bytes),
            Out::Stream(stream) => stream.write_all(bytes),
        };
        written.map_err(|e| Error::io(&self.path, "write", e))
    }

    /// Syncs the file to the disk and gives it its name.
    ///
    /// # Errors
    /// [`Error::Io`]. Unless the path is a stream, its old content is still there then.
    pub fn finish(self) -> Result<()> {
        let finish = || match self.out {
            Out::File { file, target } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.as_file().sync_all()?;
                file.persist(target).map(drop).map_err(|e| e.error)
            }
            Out::Stream(mut stream) => stream.flush(),
        };
        finish().map_err(|e| Error::io(&self.path, "write", e))
    }
}

impl Out {
    fn stream(stream: impl Write + Send + 'static) -> Self {
        Self::Stream(BufWriter::with_capacity(BUFFER_BYTES, Box::new(stream)))
    }
}

/// The thing that is written to at a path.
#[derive(Debug, PartialEq, Eq)]
enum OutputTarget {
    /// A file, which may not exist yet, behind all symbolic links.
    File(PathBuf),
    StandardOutput,
    /// A device, a pipe or a descriptor.
    Stream(PathBuf),
}

fn output_target(path: &Path) -> io::Result<OutputTarget> {
    let mut at = path.to_owned();
    for _ in 0..=LINKS {
        // A link to a descriptor cannot be replaced, even if the descriptor is a file's.
        if cfg!(unix) && ["/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&at.as_path()) {
            return Ok(OutputTarget::StandardOutput);
        }
        if cfg!(unix) && (at.starts_with("/dev/fd") || at.starts_with("/proc")) {
            return Ok(OutputTarget::Stream(at));
        }
        let found = match at.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputTarget::File(at)),
            metadata => metadata?.file_type(),
        };
        if found.is_symlink() {
            at = target(&at)?;
        } else if found.is_dir() {
            let problem = "it is a directory; name a file";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, problem));
        } else if found.is_file() {
            return Ok(OutputTarget::File(at));
        } else {
            return Ok(OutputTarget::Stream(at));
        }
    }
    Err(circle())
}

/// Returns the directory that `path` names, which may not exist yet, behind all symbolic links.
///
/// # Errors
/// [`Error::Io`].
pub fn directory(path: &Path) -> Result<PathBuf> {
    let follow = || {
        let mut at = path.to_owned();
        for _ in 0..=LINKS {
            if !at.is_symlink() {
                return Ok(at);
            }
            at = target(&at)?;
        }
        Err(circle())
    };
    follow().map_err(|e| Error::io(path, "follow the link", e))
}

/// Where a symbolic link leads.
fn target(link: &Path) -> io::Result<PathBuf> {
    Ok(link.parent().unwrap_or(Path::new("")).join(std::fs::read_link(link)?))
}

fn circle() -> io::Error {
    io::Error::other("its symbolic links lead in a circle")
}

/// Makes a temporary file in the directory of `target`.
fn beside(target: &Path) -> io::Result<NamedTempFile> {
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    temporary(".tmp").tempfile_in(directory)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_to_a_file_or_to_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("sub")).expect("a directory");
        std::fs::write(path("sub/file"), "").expect("a file");
        symlink("sub/file", path("a")).expect("a link");
        symlink(path("a"), path("b")).expect("a link");
        symlink("sub/new", path("c")).expect("a link");
        let file = |name: &str| OutputTarget::File(path(name));
        assert_eq!(output_target(&path("b")).expect("a place"), file("sub/file"));
        assert_eq!(output_target(&path("c")).expect("a place"), file("sub/new"));
        assert_eq!(output_target(&path("none")).expect("a place"), file("none"));
        write_atomically(&path("c"), b"text").expect("written");
        assert_eq!(std::fs::read(path("sub/new")).expect("a file"), b"text");
        assert!(!create_atomically(&path("b"), b"text").expect("it is there"));
        symlink("e", path("d")).expect("a link");
        symlink("d", path("e")).expect("a link");
        assert!(output_target(&path("e")).is_err());
    }

    #[test]
    fn descriptors_are_streams_whatever_they_lead_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().join("out");
        symlink("/proc/self/fd/1", &out).expect("a link");
        assert!(is_standard_output(&out) && is_standard_output(Path::new("/dev/fd/1")));
        assert!(!is_standard_output(Path::new("out")));
        let three = Path::new("/dev/fd/3");
        assert_eq!(output_target(three).expect("a place"), OutputTarget::Stream(three.to_owned()));
        let error = output_target(directory.path()).expect_err("a directory").to_string();
        assert_eq!(error, "it is a directory; name a file");
    }
}
