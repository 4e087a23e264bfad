//! Finds the local files that a pattern matches.
//!
//! Names need not be UTF-8: `*` and `?` match any. A hidden name, which begins with a dot, matches only a part of the
//! pattern that begins with one too. Links are followed. A directory is walked once for each part of the pattern,
//! however it is reached, and paths without a link come first. So links that lead in a circle end, and a link to files
//! that are matched anyway changes nothing. A directory that cannot be read is an error. Held in memory: the
//! directories that were seen, and the names in one.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf, is_separator};

use glob::{Pattern, PatternError};

use crate::error::{Error, Result};
use crate::location::GLOB_RULES;

/// A path that is not a directory, unless it is a link to one.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) links: Links,
}

/// Which links are known to lead to a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    pub(crate) is_link: bool,
    /// A directory on the way is one.
    pub(crate) is_behind_link: bool,
}

impl Links {
    pub(crate) fn are_some(self) -> bool {
        self.count() > 0
    }

    /// How many there are, as far as it is known.
    pub(crate) fn count(self) -> u8 {
        u8::from(self.is_link) + u8::from(self.is_behind_link)
    }
}

/// The search for the paths that a pattern matches, in no particular order.
#[derive(Debug)]
pub(crate) struct Walk {
    parts: Vec<PatternPart>,
    found: VecDeque<Found>,
    /// The visits still to come, the next one last; and after all of these, the visits behind links.
    direct: Vec<Visit>,
    linked: VecDeque<Visit>,
    /// The directories that were listed, by their real paths, and the part of the pattern that each was listed for.
    seen: HashSet<(PathBuf, usize)>,
}

/// A part of a pattern, between two separators.
#[derive(Debug)]
enum PatternPart {
    Name(String),
    Pattern(Pattern),
    /// Any number of directories: `**`.
    Directories,
}

/// A directory in which a part of the pattern is looked for.
#[derive(Debug)]
struct Visit {
    /// Empty for the working directory.
    directory: PathBuf,
    part: usize,
    /// Its real path if it is not a link, and whether that is known.
    real: PathBuf,
    is_real: bool,
    is_behind_link: bool,
}

impl PatternPart {
    fn matches(&self, name: &OsStr) -> bool {
        match self {
            Self::Name(wanted) => name == OsStr::new(wanted),
            Self::Pattern(pattern) => pattern.matches_with(&name.to_string_lossy(), GLOB_RULES),
            Self::Directories => false,
        }
    }
}

impl Walk {
    /// The paths that `pattern` matches.
    pub(crate) fn new(pattern: &str) -> Result<Self, PatternError> {
        // To report an error's place in the whole pattern.
        Pattern::new(pattern)?;
        let is_root = |part: &Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir);
        let root: PathBuf = Path::new(pattern).components().take_while(is_root).collect();
        let rest = pattern.get(root.as_os_str().len()..).unwrap_or_default();
        let mut parts = Vec::new();
        for part in rest.split(is_separator).filter(|part| !part.is_empty()) {
            match part {
                "**" if matches!(parts.last(), Some(PatternPart::Directories)) => {}
                "**" => parts.push(PatternPart::Directories),
                // A name that is not UTF-8 was written with replacement characters: it matches as it is shown.
                _ if has_wildcards(part) || part.contains(char::REPLACEMENT_CHARACTER) => {
                    parts.push(PatternPart::Pattern(Pattern::new(part)?))
                }
                _ => parts.push(PatternPart::Name(part.to_owned())),
            }
        }
        // As in a store, every file below.
        if matches!(parts.last(), Some(PatternPart::Directories)) {
            parts.push(PatternPart::Pattern(Pattern::new("*")?));
        }
        // Only directories match a pattern that ends with a separator.
        if rest.ends_with(is_separator) {
            parts.clear();
        }
        let real = std::path::absolute(if root.as_os_str().is_empty() { Path::new(".") } else { &root });
        let real = real.unwrap_or_else(|_| root.clone());
        let start = Visit { directory: root, part: 0, real, is_real: false, is_behind_link: false };
        let direct = if parts.is_empty() { Vec::new() } else { vec![start] };
        Ok(Self { parts, found: VecDeque::new(), direct, linked: VecDeque::new(), seen: HashSet::new() })
    }

    fn visit(&mut self, visit: Visit) -> Result<()> {
        let Some(PatternPart::Name(name)) = self.parts.get(visit.part) else { return self.list(visit) };
        let next = below(&visit.directory, OsStr::new(name));
        if visit.part + 1 < self.parts.len() {
            let real = visit.real.join(name);
            self.direct.push(Visit { directory: next, part: visit.part + 1, real, is_real: false, ..visit });
            return Ok(());
        }
        match fs::symlink_metadata(&next) {
            Ok(metadata) => self.find(next, metadata.file_type(), visit.is_behind_link),
            Err(e) if is_missing(&e) => {}
            Err(e) => return Err(Error::io(next, "look at the file", e)),
        }
        Ok(())
    }

    /// Looks for a part of the pattern among the names in a directory.
    fn list(&mut self, mut visit: Visit) -> Result<()> {
        let directory =
            if visit.directory.as_os_str().is_empty() { Path::new(".") } else { &visit.directory };
        let listed = real(directory, &mut visit.real, &mut visit.is_real, &mut visit.is_behind_link)
            .and_then(|()| names(directory));
        let names = match listed {
            Ok(names) => names,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(Error::io(directory, "read the directory", e)),
        };
        if !self.seen.insert((visit.real.clone(), visit.part)) {
            tracing::debug!(path = %directory.display(), "directory is read under another path already");
            return Ok(());
        }
        let is_deep = matches!(self.parts[visit.part], PatternPart::Directories);
        let wanted = visit.part + usize::from(is_deep);
        let is_last = wanted + 1 == self.parts.len();
        for (name, kind) in names {
            let is_deep = is_deep && !name.as_encoded_bytes().starts_with(b".");
            let is_match = self.parts[wanted].matches(&name);
            if !is_match && !is_deep {
                continue;
            }
            let path = below(&visit.directory, &name);
            let is_within = is_deep || !is_last;
            if is_within && is_directory(&path, kind)? {
                let next = is_match && !is_last;
                for part in [is_deep.then_some(visit.part), next.then_some(wanted + 1)].into_iter().flatten()
                {
                    self.enter(&visit, &name, kind, part);
                }
            } else if is_match && is_last {
                self.find(path, kind, visit.is_behind_link);
            }
        }
        Ok(())
    }

    /// Notes a directory to look into.
    fn enter(&mut self, around: &Visit, name: &OsStr, kind: FileType, part: usize) {
        let is_link = kind.is_symlink();
        let visit = Visit {
            directory: below(&around.directory, name),
            part,
            real: around.real.join(name),
            is_real: !is_link,
            is_behind_link: around.is_behind_link || is_link,
        };
        if visit.is_behind_link { self.linked.push_back(visit) } else { self.direct.push(visit) }
    }

    fn find(&mut self, path: PathBuf, kind: FileType, is_behind_link: bool) {
        if !kind.is_dir() {
            let links = Links { is_link: kind.is_symlink(), is_behind_link };
            self.found.push_back(Found { path, links });
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(Ok(found));
            }
            let visit = self.direct.pop().or_else(|| self.linked.pop_front())?;
            if let Err(error) = self.visit(visit) {
                return Some(Err(error));
            }
        }
    }
}

/// Whether a pattern may match more than the one path that it names.
pub(crate) fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Whether a path, its links followed, is neither a file nor a directory: a pipe, a socket or a device.
pub(crate) fn is_special(metadata: &Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}

/// Warns that such a path is left out.
pub(crate) fn warn_of_special(path: &Path) {
    tracing::warn!(path = %path.display(), "is a pipe, socket or device, not a file: skipped");
}

/// A name in a directory, which is empty for the working directory.
fn below(directory: &Path, name: &OsStr) -> PathBuf {
    match directory.as_os_str().is_empty() {
        true if name == "." => PathBuf::new(),
        _ => directory.join(name),
    }
}

/// Finds out a directory's real path, and whether it is behind a link.
fn real(
    directory: &Path,
    real: &mut PathBuf,
    is_real: &mut bool,
    is_behind_link: &mut bool,
) -> io::Result<()> {
    if !*is_real {
        let found = fs::canonicalize(directory)?;
        *is_behind_link |= found != *real;
        (*real, *is_real) = (found, true);
    }
    Ok(())
}

/// The names in a directory, in order.
fn names(directory: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let named = |entry: fs::DirEntry| Ok((entry.file_name(), entry.file_type()?));
    let mut names: Vec<_> =
        fs::read_dir(directory)?.map(|entry| entry.and_then(named)).collect::<io::Result<_>>()?;
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Whether a path is a directory, or a link to one.
fn is_directory(path: &Path, kind: FileType) -> Result<bool> {
    if !kind.is_symlink() {
        return Ok(kind.is_dir());
    }
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(e) if is_missing(&e) => Ok(false),
        Err(e) => Err(Error::io(path, "follow the link", e)),
    }
}

/// Whether an error says that there is nothing at a path.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files(pattern: &str) -> Vec<PathBuf> {
        let found = Walk::new(pattern).expect("a pattern").map(|found| found.expect("readable").path);
        let mut found: Vec<PathBuf> = found.filter(|path| path.is_file()).collect();
        found.sort();
        found
    }

    /// The library's result, without hidden files that are not named.
    fn reference(pattern: &str) -> Vec<PathBuf> {
        let found = glob::glob(pattern).expect("a pattern").map(|path| path.expect("readable"));
        let plain = Pattern::new(&pattern.replace("/./", "/").replace("/./", "/")).expect("a pattern");
        let is_wanted = |path: &PathBuf| {
            !has_hidden(path) || plain.matches_path_with(&path.components().collect::<PathBuf>(), GLOB_RULES)
        };
        let mut found: Vec<PathBuf> = found.filter(|path| path.is_file() && is_wanted(path)).collect();
        found.sort();
        found
    }

    fn has_hidden(path: &Path) -> bool {
        let is_hidden = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_encoded_bytes()[0] == b'.');
        path.components().any(is_hidden)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn without_links_it_finds_what_the_library_finds(
            files in prop::collection::vec(prop::collection::vec("[ab]|[ab.][ab]", 1..4), 1..12),
            pattern in prop::collection::vec(
                prop::sample::select(vec!["**", "**", "*", "*", "a", "b", "?", "[ab]", "a*", "ab", ".", ".[ab]", ".a"]), 1..5,
            ),
            end in prop::sample::select(vec!["", "", "", "/"]),
        ) {
            let directory = tempfile::tempdir().expect("a directory");
            let root = directory.path().canonicalize().expect("a path");
            for parts in files {
                let path = parts.iter().fold(root.clone(), |path, part| path.join(part));
                if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) && !path.is_dir() {
                    fs::write(&path, "text").expect("a file");
                }
            }
            let pattern = format!("{}/{}{end}", root.display(), pattern.join("/"));
            // The library repeats files that are reached in several ways.
            let every = if pattern.ends_with("**") { "/*" } else { "" };
            let mut wanted = reference(&format!("{pattern}{every}"));
            wanted.dedup();
            prop_assert_eq!(super::tests::files(&pattern), wanted, "{}", pattern);
        }
    }

    #[test]
    fn paths_in_the_working_directory_are_named_as_the_library_names_them() {
        for pattern in [
            "src/*.rs", "./src/*.rs", "src/./*.rs", "src/../*.toml", "*.toml", "./*.toml", "**/catalog/*.rs",
            "src//lib.rs",
        ] {
            let (found, wanted) = (files(pattern), reference(pattern));
            let bytes =
                |paths: &[PathBuf]| paths.iter().map(|path| path.as_os_str().to_owned()).collect::<Vec<_>>();
            assert!(!found.is_empty());
            assert_eq!(bytes(&found), bytes(&wanted), "{pattern}");
        }
    }
}
