//! The directory of a dataset: on this machine, or a repository of the Hub at a commit.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::walk::{self, Walk};
use crate::bounded;
use crate::config::SourceKind;
use crate::error::{Error, Result};
use crate::location::GLOB_RULES;
use crate::store::{HubTree, hub_tree, local};

#[derive(Debug)]
pub(super) enum Directory {
    Local(PathBuf),
    Hub {
        /// The name of the directory, with the commit.
        path: PathBuf,
        /// The names of all files below it.
        files: BTreeSet<PathBuf>,
    },
}

impl Directory {
    /// The repository with this name, or a directory in it.
    pub(super) fn on_hub(key: &str, name: &str) -> Result<Self> {
        let HubTree { root, path, files } = hub_tree(key, name)?;
        let root = PathBuf::from(root);
        let path = match path.trim_end_matches('/') {
            "" => root.clone(),
            below => root.join(below),
        };
        let files =
            files.into_iter().map(|file| root.join(file)).filter(|file| file.starts_with(&path)).collect();
        Ok(Self::Hub { path, files })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Local(path) | Self::Hub { path, .. } => path,
        }
    }

    pub(super) fn is_there(&self) -> bool {
        match self {
            Self::Local(path) => path.is_dir(),
            Self::Hub { files, .. } => !files.is_empty(),
        }
    }

    /// Whether it has this file.
    pub(super) fn has(&self, file: &Path) -> bool {
        match self {
            Self::Local(_) => file.exists(),
            Self::Hub { files, .. } => files.contains(file),
        }
    }

    /// The text of a file of at most `most` bytes, if there is one.
    pub(super) fn text(&self, file: &Path, most: u64) -> Result<Option<String>> {
        match self {
            Self::Hub { files, .. } if !files.contains(file) => Ok(None),
            _ => text(&local(file)?, most),
        }
    }

    /// The data files in `below` and the directories in it. Hidden files, and directories such as `__pycache__`, are
    /// ignored.
    pub(super) fn data_files(&self, below: &Path) -> Result<Vec<PathBuf>> {
        let Self::Hub { files, .. } = self else {
            let mut files = Vec::new();
            local_data_files(below, &mut Vec::new(), &mut files)?;
            return Ok(files);
        };
        let is_wanted = |path: &Path| {
            let Ok(rest) = path.strip_prefix(below) else { return false };
            let is_ignored = |part: &str, is_directory: bool| {
                part.starts_with('.') || is_directory && part.starts_with("__")
            };
            let mut parts = rest.iter().rev().map(|part| part.to_string_lossy());
            let name = parts.next().unwrap_or_default();
            !is_ignored(&name, false) && !parts.any(|part| is_ignored(&part, true)) && is_data(path)
        };
        Ok(files.iter().filter(|path| is_wanted(path)).cloned().collect())
    }

    /// The files that a pattern of the card matches, in `below`; or what is wrong with the pattern.
    pub(super) fn matching(&self, below: &Path, pattern: &str) -> Result<Result<Vec<PathBuf>, String>> {
        let invalid = |e: glob::PatternError| format!("{pattern:?} is not a valid pattern: {}", e.msg);
        let Self::Hub { files, .. } = self else {
            let whole = format!("{}/{pattern}", glob::Pattern::escape(&below.to_string_lossy()));
            return match Walk::new(&whole) {
                Ok(found) => local_matching(found, below, pattern),
                Err(e) => Ok(Err(invalid(e))),
            };
        };
        let pattern = match glob::Pattern::new(pattern.trim_start_matches("./")) {
            Ok(pattern) => pattern,
            Err(e) => return Ok(Err(invalid(e))),
        };
        let is_match = |path: &&PathBuf| {
            let is_match = |rest: &Path| {
                pattern.matches_path_with(rest, GLOB_RULES) && is_meant(rest, Path::new(pattern.as_str()))
            };
            path.strip_prefix(below).is_ok_and(is_match)
        };
        Ok(Ok(files.iter().filter(is_match).cloned().collect()))
    }
}

/// Whether a pattern means this path: it names as many directories such as `__pycache__` as the path has.
fn is_meant(path: &Path, pattern: &Path) -> bool {
    let special = |path: &Path| {
        let parents = path.parent().into_iter().flat_map(Path::iter);
        parents.filter(|part| part.to_string_lossy().starts_with("__")).count()
    };
    special(path) == special(pattern)
}

/// The regular files among those found in `below` that the pattern means, and links to such files.
fn local_matching(found: Walk, below: &Path, pattern: &str) -> Result<Result<Vec<PathBuf>, String>> {
    let mut files = Vec::new();
    for found in found {
        let path = found?.path;
        if !is_meant(&path, &below.join(pattern)) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => files.push(path),
            Ok(metadata) if walk::is_special(&metadata) => {
                if !walk::has_wildcards(pattern) {
                    return Ok(Err(format!(
                        "{pattern:?} is a pipe, socket or device; only files can be read more than once: copy it to a file"
                    )));
                }
                walk::warn_of_special(&path);
            }
            _ => {}
        }
    }
    Ok(Ok(files))
}

/// The text of a file of at most `most` bytes, if there is one on this machine.
pub(super) fn text(path: &Path, most: u64) -> Result<Option<String>> {
    let failed = |e| Error::io(path, "read", e);
    let bytes = match bounded::read(path, most) {
        Ok(bytes) => bytes,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|e| failed(io::Error::new(ErrorKind::InvalidData, e.utf8_error())))
}

/// Appends the data files below a directory. Hidden files, directories such as `__pycache__`, unknown formats and links
/// to the directories `around` it are ignored.
fn local_data_files(directory: &Path, around: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) -> Result<()> {
    let read = |e| Error::io(directory, "read the directory", e);
    let real = match fs::canonicalize(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        real => real.map_err(read)?,
    };
    if around.contains(&real) {
        return Ok(());
    }
    around.push(real);
    for entry in fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        // Links in a cache lead to files without an extension.
        let metadata = fs::metadata(&path).map_err(|e| Error::io(&path, "look at the file", e))?;
        if metadata.is_dir() {
            if !name.starts_with("__") {
                local_data_files(&path, around, files)?;
            }
        } else if is_data(&path) {
            match walk::is_special(&metadata) {
                true => walk::warn_of_special(&path),
                false => files.push(path),
            }
        }
    }
    around.pop();
    Ok(())
}

/// Whether a file is data: it has a known format, and does not describe the dataset instead.
fn is_data(path: &Path) -> bool {
    let is_about = ["config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"];
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    kinds(path).next().is_some() && !is_about.contains(&&*name)
}

/// The formats that the endings of a file's name stand for.
pub(crate) fn kinds(path: &Path) -> impl Iterator<Item = SourceKind> {
    endings(path).filter_map(|ending| SourceKind::of_extension(&ending))
}

/// `["b", "jsonl", "gz"]` of `a.b.jsonl.gz`.
pub(super) fn endings(path: &Path) -> impl Iterator<Item = String> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let endings: Vec<String> = name.split('.').skip(1).map(str::to_owned).collect();
    endings.into_iter()
}
