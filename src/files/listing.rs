//! A listing of a corpus's files, which a run saves to tell later which have changed.
//!
//! A cursor is small, so it has only a digest of the files. A listing is a line of JSON for each file, some hundred
//! bytes, in the order of the corpus.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{File, Location, SAMPLE_BLOCK, SAMPLE_BLOCKS, places};
use crate::atomic::write_atomically;
use crate::error::{Error, Result, Unit};
use crate::excerpt::first;

/// How many files of a kind are named.
const NAMED: usize = 5;

/// The files of a corpus as they were: source by source, with their paths and lengths.
///
/// ```
/// use millstream::files::{File, Listing, Location};
///
/// let file = |path: &str, len| File {
///     location: Location::Path(path.into()),
///     len,
///     etag: None,
///     source: 0,
///     unit: millstream::error::Unit::Byte,
/// };
/// let names = ["web".to_owned()];
/// let was = Listing::new(&names, &[file("a.txt", 10), file("b.txt", 20)]);
/// let now = Listing::new(&names, &[file("a.txt", 12), file("b.txt", 20), file("c.txt", 30)]);
/// assert_eq!(was.changes(&now).to_string(), "added: c.txt; other lengths: a.txt (10 bytes, now 12)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing(Vec<ListedFile>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedFile {
    source: String,
    #[serde(with = "crate::files::lossless")]
    path: OsString,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// A digest of samples of a local file's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<String>,
}

/// The differences between two listings. It prints the first few files of each kind. Its paths are meant for people:
/// bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The paths that are new.
    pub added: Vec<String>,
    /// The paths that have gone.
    pub removed: Vec<String>,
    /// Paths that have gone, each with a new one.
    pub renamed: Vec<Renamed>,
    /// Files that have another length.
    pub resized: Vec<Resized>,
    /// Paths whose files a store calls by another etag, at the same length.
    pub rewritten: Vec<String>,
    /// Paths of a store whose files are on this machine now, or the other way round, at the same length. Files of a store are
    /// known by their etags and cut otherwise, so these are others.
    pub relocated: Vec<String>,
    /// Paths of local files that have another text, at the same length, as far as samples tell: blocks of 16 KiB, at most
    /// 1,024 of a source, spread evenly.
    pub edited: Vec<String>,
}

/// A path that has gone, and a new one whose file has the same length: probably the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The path that has gone.
    pub from: String,
    /// The new path.
    pub to: String,
}

/// A file whose length has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Its path.
    pub path: String,
    /// The length that it had, in bytes.
    pub was: u64,
    /// The length that it has now, in bytes.
    pub now: u64,
}

impl Listing {
    /// The listing of `files`, whose sources have these names.
    pub fn new(names: &[String], files: &[File]) -> Self {
        let listed = |file: &File| ListedFile {
            source: names.get(file.source).cloned().unwrap_or_else(|| file.source.to_string()),
            path: file.path().as_os_str().to_owned(),
            bytes: file.len,
            etag: file.etag.clone(),
            samples: None,
        };
        Self(files.iter().map(listed).collect())
    }

    /// The same with digests of samples of the files' text, by the files' numbers.
    #[must_use]
    pub(crate) fn with_samples(mut self, samples: impl IntoIterator<Item = (usize, String)>) -> Self {
        for (number, digest) in samples {
            if let Some(file) = self.0.get_mut(number) {
                file.samples = Some(digest);
            }
        }
        self
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files of the source `name`, which gets the number `source`. Positions in them are bytes.
    pub fn of_source(&self, name: &str, source: usize) -> impl Iterator<Item = File> {
        self.0.iter().filter(move |file| file.source == name).map(move |file| File {
            location: Location::named(&file.path),
            len: file.bytes,
            etag: file.etag.clone(),
            source,
            unit: Unit::Byte,
        })
    }

    /// Writes the listing as lines of JSON. The file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut lines = Vec::new();
        for file in &self.0 {
            serde_json::to_writer(&mut lines, file)
                .map_err(|e| Error::io(path, "write the listing", e.into()))?;
            lines.push(b'\n');
        }
        write_atomically(path, &lines)
    }

    /// Reads a listing that [`save`](Listing::save) wrote.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Corpus`] if it is something else.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let lines = std::fs::read_to_string(path).map_err(|e| Error::io(path, "read the listing", e))?;
        let listed = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|e| {
                let problem =
                    format!("{}:{}: this is not a listing of files: {e}", path.display(), number + 1);
                Error::Corpus { problem }
            })
        };
        lines.lines().enumerate().map(listed).collect::<Result<_>>().map(Self)
    }

    /// How the files differ now.
    pub fn changes(&self, now: &Self) -> Changes {
        let (was, is) = (self.by_path(), now.by_path());
        // A source as a whole may have moved.
        let stays: HashSet<&str> =
            was.keys().filter(|key| is.contains_key(*key)).map(|(source, _)| *source).collect();
        let [was, is] = [self, now].map(|listing| listing.by_place(|source| !stays.contains(source)));
        let (mut changes, mut gone) = (Changes::default(), Vec::new());
        let (had, has) = (self.sampled(), now.sampled());
        // Which blocks are read depends on the lengths of all files of the source, if these are many or long.
        let is_comparable = |source: &str| had.get(source) == has.get(source);
        for (key, file) in &was {
            match is.get(key) {
                None => gone.push(*file),
                Some(now) if now.bytes != file.bytes => {
                    changes.resized.push(Resized { path: file.shown(), was: file.bytes, now: now.bytes });
                }
                Some(now) if now.is_remote() != file.is_remote() => changes.relocated.push(file.shown()),
                Some(now) if now.etag != file.etag => changes.rewritten.push(file.shown()),
                Some(ListedFile { samples: Some(samples), .. })
                    if is_comparable(&file.source)
                        && file.samples.as_ref().is_some_and(|was| was != samples) =>
                {
                    changes.edited.push(file.shown());
                }
                Some(_) => {}
            }
        }
        let new: Vec<&ListedFile> =
            is.iter().filter(|(key, _)| !was.contains_key(*key)).map(|(_, file)| *file).collect();
        changes.pair(&gone, &new);
        changes
    }

    /// By source, what says which blocks of its files are read as samples: nothing if it is all blocks, else the lengths
    /// of the local files.
    fn sampled(&self) -> BTreeMap<&str, Vec<u64>> {
        let sources = self.0.chunk_by(|file, next| file.source == next.source);
        let of_source = |files: &[ListedFile]| {
            let is_local = |file: &&ListedFile| matches!(Location::named(&file.path), Location::Path(_));
            let lengths: Vec<u64> = files.iter().filter(is_local).map(|file| file.bytes).collect();
            let blocks: u64 = lengths.iter().map(|bytes| bytes.div_ceil(SAMPLE_BLOCK)).sum();
            if blocks > SAMPLE_BLOCKS { lengths } else { Vec::new() }
        };
        sources.map(|files| (files[0].source.as_str(), of_source(files))).collect()
    }

    fn by_path(&self) -> BTreeMap<(&str, &[u8]), &ListedFile> {
        self.0.iter().map(|file| ((file.source.as_str(), file.path.as_encoded_bytes()), file)).collect()
    }

    /// By the paths and, of sources that have moved, by the files' places below the directory that all files of their
    /// source have in common.
    fn by_place(&self, has_moved: impl Fn(&str) -> bool) -> BTreeMap<(&str, &[u8]), &ListedFile> {
        let sources = self.0.chunk_by(|file, next| file.source == next.source);
        sources
            .flat_map(|files| {
                let paths: Vec<_> = files.iter().map(|file| (0_u32, file.path.as_encoded_bytes())).collect();
                let places = match has_moved(&files[0].source) {
                    true => places(&paths),
                    false => paths.iter().map(|(_, path)| *path).collect(),
                };
                files.iter().zip(places).map(|(file, place)| ((file.source.as_str(), place), file))
            })
            .collect()
    }

    /// The same error. If a cursor was refused because the files have changed, the error names the changed files, given
    /// the listing of `now`.
    #[must_use]
    pub fn explain(&self, error: Error, now: &Self) -> Error {
        let changes = self.changes(now);
        match error {
            Error::Fingerprint { field, saved, now } if field.ends_with(".files") && !changes.is_empty() => {
                Error::Fingerprint { field, saved, now: format!("{now} ({changes})") }
            }
            error => error,
        }
    }
}

impl ListedFile {
    /// The properties that a file keeps under another name.
    fn content(&self) -> (&str, u64, Option<&str>) {
        (&self.source, self.bytes, self.etag.as_deref())
    }

    fn is_remote(&self) -> bool {
        Location::named(&self.path).is_remote()
    }

    fn name(&self) -> &[u8] {
        let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
        self.path.as_encoded_bytes().rsplit(is_separator).next().unwrap_or_default()
    }

    /// The path, as people read it.
    fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Tells renamed files from removed and new ones. A new file is an old one if it has the same length and name, or
    /// if no others have its length.
    fn pair(&mut self, gone: &[&ListedFile], new: &[&ListedFile]) {
        let mut left: HashMap<_, Vec<&ListedFile>> = HashMap::new();
        new.iter().rev().for_each(|file| left.entry(file.content()).or_default().push(file));
        let mut equals: HashMap<_, usize> = HashMap::new();
        gone.iter().for_each(|file| *equals.entry(file.content()).or_default() += 1);
        for file in gone {
            let is_only = equals[&file.content()] == 1;
            let found = left.get_mut(&file.content()).and_then(|files| {
                let named = files.iter().rposition(|new| new.name() == file.name());
                let nth = named.or_else(|| (is_only && files.len() == 1).then_some(0))?;
                Some(files.remove(nth))
            });
            match found {
                Some(new) => self.renamed.push(Renamed { from: file.shown(), to: new.shown() }),
                None => self.removed.push(file.shown()),
            }
        }
        let is_left = |file: &&&ListedFile| left[&file.content()].iter().any(|left| left.path == file.path);
        self.added = new.iter().filter(is_left).map(|file| file.shown()).collect();
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renamed = |Renamed { from, to }: &Renamed| format!("{from} to {to}");
        let resized = |Resized { path, was, now }: &Resized| format!("{path} ({was} bytes, now {now})");
        let kinds = [
            ("added", few(&self.added, String::clone)),
            ("removed", few(&self.removed, String::clone)),
            ("renamed", few(&self.renamed, renamed)),
            ("other lengths", few(&self.resized, resized)),
            ("written anew", few(&self.rewritten, String::clone)),
            ("in a store or on this machine, unlike now", few(&self.relocated, String::clone)),
            ("other text", few(&self.edited, String::clone)),
        ];
        let kinds = kinds.into_iter().filter_map(|(kind, files)| Some(format!("{kind}: {}", files?)));
        f.write_str(&kinds.collect::<Vec<_>>().join("; "))
    }
}

/// The first of these files, and how many more there are.
fn few<T>(files: &[T], say: impl Fn(&T) -> String) -> Option<String> {
    (!files.is_empty()).then(|| first(files.iter().map(say), NAMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_that_has_moved_is_compared_place_by_place() {
        let was =
            listing(&[("/old/corpus/a/1.txt", 10), ("/old/corpus/b/2.txt", 20), ("/old/corpus/3.txt", 30)]);
        let now = listing(&[("new/a/1.txt", 10), ("new/b/2.txt", 21), ("new/3.txt", 30)]);
        assert_eq!(was.changes(&now).to_string(), "other lengths: /old/corpus/b/2.txt (20 bytes, now 21)");
        assert!(was.changes(&listing(&[("x/a/1.txt", 10), ("x/b/2.txt", 20), ("x/3.txt", 30)])).is_empty());
    }

    #[test]
    fn another_text_of_the_same_length_is_told_by_samples() {
        let with = |files: &[(&str, u64)], digests: &[&str]| {
            let digests = digests.iter().map(|digest| (*digest).to_owned());
            listing(files).with_samples(digests.enumerate())
        };
        let said = |was: &Listing, now: &Listing| was.changes(now).to_string();
        let was = with(&[("a", 10), ("b", 20)], &["one", "two"]);
        assert_eq!(said(&was, &with(&[("a", 10), ("b", 20)], &["one", "2"])), "other text: b");
        assert_eq!(said(&was, &listing(&[("a", 10), ("b", 20)])), "", "without samples nothing is known");
        let now = with(&[("a", 11), ("b", 20)], &["1", "2"]);
        assert_eq!(said(&was, &now), "other lengths: a (10 bytes, now 11); other text: b");
        // Of much text only some blocks are read, and others if a length has changed.
        let long = SAMPLE_BLOCK * SAMPLE_BLOCKS;
        let was = with(&[("a", 10), ("b", long)], &["one", "two"]);
        assert_eq!(said(&was, &with(&[("a", 10), ("b", long)], &["one", "2"])), "other text: b");
        let now = with(&[("a", 11), ("b", long)], &["1", "2"]);
        assert_eq!(said(&was, &now), "other lengths: a (10 bytes, now 11)");
    }

    fn listing(files: &[(&str, u64)]) -> Listing {
        let listed = |(path, bytes): &(&str, u64)| ListedFile {
            source: "web".to_owned(),
            path: (*path).into(),
            bytes: *bytes,
            etag: None,
            samples: None,
        };
        Listing(files.iter().map(listed).collect())
    }

    fn said(was: &[(&str, u64)], now: &[(&str, u64)]) -> String {
        listing(was).changes(&listing(now)).to_string()
    }

    #[test]
    fn each_kind_of_change_names_its_files() {
        let was = [("d/a", 1), ("d/b", 2), ("d/c", 3)];
        assert_eq!(said(&was, &was), "");
        assert_eq!(said(&was, &[("d/a", 1), ("d/b", 2), ("d/c", 3), ("d/d", 4)]), "added: d/d");
        assert_eq!(said(&was, &[("d/a", 1), ("d/c", 3)]), "removed: d/b");
        assert_eq!(said(&was, &[("d/a", 1), ("d/b", 5), ("d/c", 3)]), "other lengths: d/b (2 bytes, now 5)");
        assert_eq!(said(&was, &[("d/a", 1), ("d/x", 2), ("d/c", 3)]), "renamed: d/b to d/x");
        // Something stays, so the others have not moved with all.
        let (was, now) = ([("d/a", 1), ("d/b", 2), ("f", 3)], [("e/a", 1), ("e/b", 2), ("f", 3)]);
        assert_eq!(said(&was, &now), "renamed: d/a to e/a, d/b to e/b");
    }

    #[test]
    fn files_of_the_same_length_are_told_by_their_names() {
        let was = [("d/a", 7), ("d/b", 7), ("d/c", 7)];
        let all = [("d/a", 7), ("d/b", 7), ("d/c", 7), ("f", 1)];
        let now = [("e/b", 7), ("e/a", 7), ("f", 1)];
        assert_eq!(said(&all, &now), "removed: d/c; renamed: d/a to e/a, d/b to e/b");
        assert_eq!(said(&was, &[("d/c", 7), ("d/x", 7), ("d/y", 7)]), "added: d/x, d/y; removed: d/a, d/b");
    }

    #[test]
    fn only_the_first_are_named() {
        let paths: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
        let now: Vec<(&str, u64)> = paths.iter().map(|path| (path.as_str(), 1)).collect();
        assert_eq!(said(&[], &now), "added: f0, f1, f2, f3, f4 and 4 more");
    }

    #[cfg(unix)]
    #[test]
    fn names_of_any_bytes_are_told_apart() {
        use std::os::unix::ffi::OsStringExt;

        let odd = |files: &[(&[u8], u64)]| {
            let mut listing = listing(&files.iter().map(|&(_, bytes)| ("", bytes)).collect::<Vec<_>>());
            for (file, &(path, _)) in listing.0.iter_mut().zip(files) {
                file.path = OsString::from_vec(path.to_vec());
            }
            listing
        };
        let said = |was: &[(&[u8], u64)], now: &[(&[u8], u64)]| odd(was).changes(&odd(now)).to_string();
        let was: [(&[u8], u64); 2] = [(b"d/\xfe", 1), (b"d/\xff", 2)];
        assert_eq!(said(&was, &was), "");
        assert_eq!(said(&was, &[was[0], (b"d/\xfd", 2)]), "renamed: d/\u{fffd} to d/\u{fffd}");
        assert_eq!(said(&was, &[was[0], (b"d/\xfd", 3)]), "added: d/\u{fffd}; removed: d/\u{fffd}");
        assert_eq!(said(&was, &[was[0], (b"d/\xff", 3)]), "other lengths: d/\u{fffd} (2 bytes, now 3)");
        assert_eq!(said(&was, &[was[0]]), "removed: d/\u{fffd}");

        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("files.jsonl");
        odd(&was).save(&path).expect("saved");
        assert_eq!(Listing::load(&path).expect("a listing"), odd(&was));
    }

    #[test]
    fn it_is_read_as_it_was_written_and_nothing_else_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("files.jsonl");
        let mut written = listing(&[("a \"b\"\n", 1), ("c", 1 << 40)]);
        written.0[0].etag = Some("x".to_owned());
        written.save(&path).expect("saved");
        assert_eq!(Listing::load(&path).expect("a listing"), written);
        std::fs::write(&path, "{\"source\":\"0\",\"path\":\"a\",\"bytes\":1}\nx\n").expect("written");
        let error = Listing::load(&path).expect_err("not one").to_string();
        assert!(error.contains("files.jsonl:2: this is not a listing of files"), "{error}");
    }
}
