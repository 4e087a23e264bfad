//! The files of a corpus, in their fixed order, and places in them.
//!
//! - `listing`: the files as a run saves them, to tell later which have changed
//! - `lines`: the line that a byte is on
//! - `codec`: which compression a file has
//! - `lossless`: paths of any bytes in JSON

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::Unit;
pub use crate::location::Location;
use crate::meter::Skipped;

mod codec;
mod lines;
mod listing;
pub(crate) mod lossless;

pub(crate) use codec::{Codec, DetectedCodec, HEAD_BYTES, UnreadKind, ZSTD_WINDOW, is_text};
use lines::Lines;
pub use listing::{Changes, Listing, Renamed, Resized};

/// The length of a block of text of which samples consist, in bytes, and how many are read of a source's local files: all
/// of them if there are fewer.
pub(crate) const SAMPLE_BLOCK: u64 = 16 << 10;
pub(crate) const SAMPLE_BLOCKS: u64 = 1024;

/// Where a document begins.
///
/// Positions are equal if file and byte are: a resumed run may count lines from another place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// The file, by its place in the corpus's [`Files`].
    pub file: u32,
    /// The line, from 1, counted from the line of `from`; 0 where lines mean nothing. [`Files::line`] returns the line
    /// in the file.
    pub line: u64,
    /// The offset in the file's text, in bytes, or the number of the row, from 0, where the file's unit is rows.
    pub byte: u64,
    /// The offset in the file that lines are counted from, in bytes: where reading the document's split began.
    pub from: u64,
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        (self.file, self.byte) == (other.file, other.byte)
    }
}

impl Eq for Position {}

impl Hash for Position {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.file, self.byte).hash(state);
    }
}

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub location: Location,
    /// Its length in bytes when the corpus was opened.
    pub len: u64,
    /// The store's version of its content then: its etag, or else the time of its last change. None for a local file.
    pub etag: Option<String>,
    /// Which `[[source]]` it belongs to, from 0.
    pub source: usize,
    /// The unit of positions in it.
    pub unit: Unit,
}

impl File {
    /// A file that is not in a source yet.
    pub(crate) fn new(location: Location, len: u64, etag: Option<String>) -> Self {
        Self { location, len, etag, source: 0, unit: Unit::Byte }
    }

    /// The same file, as one of source `source`.
    pub(crate) fn in_source(&self, source: usize) -> Self {
        Self { source, ..self.clone() }
    }

    /// Its path or URL, as errors name it; `-` for standard input, `texts` for texts in memory, and `synthetic://…` for
    /// synthetic documents.
    pub fn path(&self) -> &Path {
        self.location.as_path()
    }
}

/// Where a file lies: the number of its root, and the bytes of its path. A root is the fixed part that some of a source's
/// paths share. It may move without the others.
pub(crate) type Rooted<'a> = (u32, &'a [u8]);

/// The place of each of these files below the directory that all files of its root have in common.
pub(crate) fn places<'a>(files: &[Rooted<'a>]) -> Vec<&'a [u8]> {
    let is_separator = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    let directory = |path: &'a [u8]| &path[..path.iter().rposition(is_separator).map_or(0, |at| at + 1)];
    let mut around: HashMap<u32, &'a [u8]> = HashMap::new();
    for &(root, path) in files {
        let own = directory(path);
        let common = *around.get(&root).unwrap_or(&own);
        let equal = common.iter().zip(own).take_while(|(one, other)| one == other).count();
        around.insert(root, directory(&common[..equal]));
    }
    files.iter().map(|(root, path)| &path[around[root].len()..]).collect()
}

/// Whether two lists of files, which lie where `rooted` says, have the same paths, or would have if their roots had not
/// moved.
pub(crate) fn are_same_or_moved<F>(these: &[F], those: &[F], rooted: impl Fn(&F) -> Rooted<'_>) -> bool {
    let [these, those] = [these, those].map(|files| files.iter().map(&rooted).collect::<Vec<_>>());
    let is_same = these.iter().map(|(_, path)| path).eq(those.iter().map(|(_, path)| path));
    is_same || places(&these) == places(&those)
}

/// The files of a corpus. A [`Position`] names one by its place in this list.
#[derive(Debug, Default)]
pub struct Files {
    files: Vec<File>,
    /// The root of each file; empty if each source has one.
    roots: Vec<u32>,
    lines: Lines,
}

impl Files {
    /// The files, in the order in which positions number them.
    pub fn new(files: Vec<File>) -> Self {
        Self { files, ..Self::default() }
    }

    /// The same files, with the number of each file's root within its source. Files behind these numbers have root 0.
    pub(crate) fn with_roots(self, roots: Vec<u32>) -> Self {
        let has_several = roots.iter().any(|root| *root > 0);
        Self { roots: if has_several { roots } else { Vec::new() }, ..self }
    }

    pub(crate) fn root(&self, file: usize) -> u32 {
        self.roots.get(file).copied().unwrap_or_default()
    }

    /// Where these files of one source lie below the common directory of their roots.
    pub(crate) fn places(&self, of_source: Range<usize>) -> Vec<&[u8]> {
        let path = |file: usize| self.files[file].path().as_os_str().as_encoded_bytes();
        places(&of_source.map(|file| (self.root(file), path(file))).collect::<Vec<_>>())
    }

    /// An empty list, for documents from no file.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: OnceLock<Arc<Files>> = OnceLock::new();
        NONE.get_or_init(Arc::default).clone()
    }

    /// The path of file `file`; empty for a document that came from no file.
    pub fn path(&self, file: u32) -> &Path {
        self.known_path(file).unwrap_or(Path::new(""))
    }

    /// The path of file `file`; `None` for a document that came from no file.
    pub(crate) fn known_path(&self, file: u32) -> Option<&Path> {
        self.files.get(file as usize).map(File::path)
    }

    pub(crate) fn unit(&self, file: u32) -> Unit {
        self.files.get(file as usize).map_or(Unit::Byte, |file| file.unit)
    }

    /// The line of its file that `position` is on, from 1; 0 where lines mean nothing, and in remote files where it is
    /// not counted from the file's start.
    ///
    /// If the line is not counted from the file's start, this reads the file as far as the position's `from`, and
    /// blocks meanwhile. Counts are kept: many look-ups in one file read it once, and at most 1 MiB more each.
    ///
    /// # Errors
    /// The system's error, or one for a file that has become shorter or compressed.
    pub fn line(&self, position: Position) -> io::Result<u64> {
        let Position { file, line, from, .. } = position;
        let is_counted = from == 0 || self.get(file as usize).is_none_or(|file| !file.location.is_remote());
        if line == 0 || !is_counted {
            return Ok(0);
        }
        Ok(self.lines.before(file, self.path(file), from)? + line)
    }

    /// The record of a document that begins at `position` if it is skipped for a reason. This may read the file, to count
    /// lines.
    pub(crate) fn skipped(&self, position: Position, reason: String) -> Skipped {
        let (path, unit) = (self.path(position.file).display().to_string(), self.unit(position.file));
        Skipped { path, line: self.line_or_none(position), unit, byte: position.byte, reason }
    }

    /// As [`line`](Files::line), and 0 for a line that cannot be counted any more.
    pub(crate) fn line_or_none(&self, position: Position) -> u64 {
        self.line(position).unwrap_or(0)
    }
}

impl std::ops::Deref for Files {
    type Target = [File];

    fn deref(&self) -> &[File] {
        &self.files
    }
}
