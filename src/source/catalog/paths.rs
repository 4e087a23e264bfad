//! From the paths in a config to the corpus's files.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::origin::Origin;
use super::patterns::{self, bytes};
use super::resolved::Resolved;
use super::walk::{self, Found, Links};
use crate::config::{SourceConfig, SourceKind, Synthetic};
use crate::error::{Error, Result, Unit};
use crate::files::{File, Files, Location};
use crate::store::Stores;
use crate::tasks::blocking;
use crate::threads::lock;

/// How many patterns are looked up at once, and how many are prepared.
const ASKED: usize = 32;
const PREPARED: usize = 4096;

/// How many jobs look at local files at once. Each takes a thread, which stays for a while.
const LOOKING: usize = 8;

/// How many local files one job looks at.
const LOOKED: usize = 512;

/// The pipes, sockets and devices that were warned about.
pub(crate) type Skipped = Arc<Mutex<HashSet<PathBuf>>>;

/// A file that a pattern matches.
struct Matched {
    file: File,
    /// The links that lead to a local file.
    links: Links,
    /// The root of the pattern, by its number within the source.
    root: u32,
}

/// The files of one source, and the number of the root of each within the source.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    pub(crate) files: Vec<File>,
    roots: Vec<u32>,
}

/// The files of all sources as those of one corpus.
pub(crate) fn joined(all: Vec<SourceFiles>) -> Result<Files> {
    if all.is_empty() {
        let problem = "there is no source; add a [[source]] with the paths of the corpus".to_owned();
        return Err(Error::Corpus { problem });
    }
    let (mut files, mut roots) = (Vec::new(), Vec::new());
    for of_source in all {
        files.extend(of_source.files);
        roots.extend(of_source.roots);
    }
    if u32::try_from(files.len()).is_err() {
        return Err(Error::Corpus {
            problem: format!("{} files are more than the limit of 2^32 - 1; join small files", files.len()),
        });
    }
    Ok(Files::new(files).with_roots(roots))
}

/// The files of the source with the number `index`, in the byte order of their paths.
///
/// A file that two patterns of one source match, or that links lead to, counts once; one that two sources match counts
/// for each.
pub(crate) async fn of_source(
    index: usize,
    Resolved { settings, reads: source, origin }: &Resolved,
    stores: &Arc<Stores>,
    skipped: &Skipped,
) -> Result<SourceFiles> {
    if let Some(texts) = &source.texts {
        if texts.is_blank() {
            let problem = format!("there is nothing to read in {} texts: they are blank", texts.count());
            return Err(Error::Corpus { problem });
        }
        let etag = Some(texts.digest().to_owned());
        let file =
            File { location: Location::Texts, len: texts.bytes(), etag, source: index, unit: Unit::Row };
        return Ok(SourceFiles { files: vec![file], roots: vec![0] });
    }
    let unit = source.kind.unit();
    let in_source = |file: File| File { source: index, unit, ..file };
    let one = |location, len| {
        let file = in_source(File::new(location, len, None));
        SourceFiles { files: vec![file], roots: vec![0] }
    };
    match origin {
        Origin::Files if source.kind == SourceKind::Synthetic => {
            let Synthetic { seed, documents, document_bytes } = Synthetic::from_source(source);
            let location = Location::synthetic(seed, documents, document_bytes);
            return Ok(one(location, documents * document_bytes));
        }
        Origin::Files => {}
        Origin::Program => return Ok(SourceFiles::default()),
        Origin::Shards(shards) => {
            let files = shards.files().map(|file| file.in_source(index)).collect();
            return Ok(SourceFiles { files, roots: shards.files().map(|file| file.root).collect() });
        }
        // Nobody knows its length.
        Origin::Stdin => return Ok(one(Location::Stdin, 0)),
    }
    let key = format!("source.{index}.paths");
    let mut all = Vec::new();
    let mut patterns = Vec::new();
    for (path, root) in source.paths.iter().zip(numbered_roots(&key, settings, source)?) {
        patterns.extend(patterns::all(&key, path)?.into_iter().map(|pattern| (pattern, root)));
    }
    // Files on HTTP servers are named one by one, and each costs the server's latency. The futures are made before
    // they are awaited: a closure in this future would keep it from moving to other threads.
    for some in patterns.chunks(PREPARED) {
        let asked: Vec<_> = some.iter().map(|pattern| matches(&key, pattern, stores, skipped)).collect();
        let mut found = stream::iter(asked).buffered(ASKED);
        while let Some(files) = found.try_next().await? {
            all.extend(files);
        }
    }
    // Several ways may lead to one file.
    if patterns.len() > 1 || all.iter().any(|found| found.links.are_some()) {
        all = blocking("source", move || Ok(distinct(all))).await?;
    }
    all.sort_unstable_by(|a, b| bytes(a.file.path()).cmp(bytes(b.file.path())));
    all.dedup_by(|a, b| a.file.location == b.file.location);
    if all.iter().all(|found| found.file.len == 0) {
        let n = all.len();
        let problem = format!("the source's files are all empty ({n} of them); set {key} to files with text");
        return Err(Error::Corpus { problem });
    }
    let roots = all.iter().map(|found| found.root).collect();
    Ok(SourceFiles { files: all.into_iter().map(|found| in_source(found.file)).collect(), roots })
}

/// The number of the root of each path that is read. Paths with the same fixed part have one root, and a root within
/// another has a higher number. A config's only path has one root, however many files it matches.
fn numbered_roots(key: &str, settings: &SourceConfig, reads: &SourceConfig) -> Result<Vec<u32>> {
    if settings.paths.len() == 1 {
        return Ok(vec![0; reads.paths.len()]);
    }
    let root = |path: &String| Ok(patterns::root(&patterns::expanded(key, path)?).to_owned());
    let roots = reads.paths.iter().map(root).collect::<Result<Vec<String>>>()?;
    let outer_first: BTreeSet<(usize, &str)> = roots.iter().map(|root| (root.len(), root.as_str())).collect();
    let numbers: HashMap<&str, u32> = outer_first.into_iter().map(|(_, root)| root).zip(0..).collect();
    Ok(roots.iter().map(|root| numbers[root.as_str()]).collect())
}

/// The files that `pattern` matches, at least one. `root` is the root of them all.
async fn matches(
    key: &str,
    (pattern, root): &(String, u32),
    stores: &Arc<Stores>,
    skipped: &Skipped,
) -> Result<Vec<Matched>> {
    let mut found: Vec<Matched> = match Location::named(pattern) {
        Location::Url(pattern) => {
            let listed = stores.list(key, &pattern).await?.into_iter();
            listed.map(|file| Matched { file, links: Links::default(), root: 0 }).collect()
        }
        Location::Path(_) | Location::Stdin | Location::Texts => local(key, pattern, skipped).await?,
        Location::Synthetic(name) => {
            let problem = format!(
                "{name:?} names documents that are made; set kind = \"synthetic\" and leave the paths out"
            );
            return Err(Error::config(key, problem));
        }
    };
    found.iter_mut().for_each(|found| found.root = *root);
    if found.is_empty() { Err(nothing_matched(key, pattern)) } else { Ok(found) }
}

/// The regular local files that `pattern` matches, and links to such files, with their lengths.
///
/// Files are looked at while others are still being found, many at once: on a network file system, each look takes as
/// long as on a server.
async fn local(key: &str, pattern: &str, skipped: &Skipped) -> Result<Vec<Matched>> {
    let (key, pattern, skipped) = (key.to_owned(), pattern.to_owned(), skipped.clone());
    let is_named = !walk::has_wildcards(&pattern);
    // Without a bound, so that no job waits for another job's thread: there may be only one.
    let (sender, matching) = async_channel::unbounded();
    let matched = blocking("source", move || {
        let mut paths = Vec::new();
        let mut matched = Ok(());
        for found in patterns::files(&key, &pattern)? {
            match found {
                Ok(found) => paths.push(found),
                Err(error) => {
                    matched = Err(error);
                    break;
                }
            }
            // The receiver is gone, or has found an error.
            if sender.is_closed() {
                return matched;
            }
            if paths.len() == LOOKED {
                let _ = sender.try_send(std::mem::take(&mut paths));
            }
        }
        let _ = sender.try_send(paths);
        matched
    });
    let looks = matching.map(move |paths| {
        let skipped = skipped.clone();
        blocking("source", move || look(paths, is_named, &skipped))
    });
    let looks = looks.buffered(LOOKING).try_concat();
    // The first error, in the order of the paths.
    let (found, matched) = futures::join!(looks, matched);
    let found = found?;
    matched.map(|()| found)
}

/// The regular files among `paths`. Pipes, sockets and devices are skipped, unless the config names them.
fn look(paths: Vec<Found>, is_named: bool, skipped: &Skipped) -> Result<Vec<Matched>> {
    let mut all = Vec::with_capacity(paths.len());
    for Found { path, links } in paths {
        let metadata = std::fs::metadata(&path).map_err(|e| Error::io(&path, "look at the file", e))?;
        if metadata.is_file() {
            let file = File::new(Location::Path(path), metadata.len(), None);
            all.push(Matched { file, links, root: 0 });
        } else if walk::is_special(&metadata) {
            if is_named {
                return Err(special(&path));
            }
            // Another pattern may match it too.
            if lock(skipped).insert(path.clone()) {
                walk::warn_of_special(&path);
            }
        }
    }
    Ok(all)
}

/// Each file once: under the path with the fewest links or, of several such, the first. Its root is the outermost of
/// the roots that it was found below.
fn distinct(mut all: Vec<Matched>) -> Vec<Matched> {
    let key = |found: &Matched| (found.links.count(), bytes(found.file.path()).to_owned(), found.root);
    all.sort_by_cached_key(key);
    let mut directories = HashMap::new();
    let mut seen = HashSet::new();
    all.retain(|Matched { file, links, .. }| {
        let place = match &file.location {
            Location::Path(path) => real(path, *links, &mut directories),
            other => other.as_path().to_owned(),
        };
        let is_new = seen.insert(place);
        if !is_new {
            tracing::debug!(path = %file.path().display(), "file is read under another path already");
        }
        is_new
    });
    all
}

/// The real path of a file. `directories` caches the real paths of directories.
fn real(path: &Path, links: Links, directories: &mut HashMap<PathBuf, PathBuf>) -> PathBuf {
    // A file that has vanished meanwhile is noticed when it is opened.
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !links.is_link => {
            let named = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            if !directories.contains_key(parent) {
                directories.insert(parent.to_owned(), canonical(named));
            }
            directories[parent].join(name)
        }
        _ => canonical(path),
    }
}

/// The error for a pipe, a socket or a device that the config names.
fn special(path: &Path) -> Error {
    let problem = format!(
        "{}: it is a pipe, socket or device; only files can be read more than once: copy it to a file, or use \"-\" \
         for standard input",
        path.display()
    );
    Error::Corpus { problem }
}

fn nothing_matched(key: &str, pattern: &str) -> Error {
    let problem = if Path::new(pattern).is_dir() {
        let pattern = pattern.trim_end_matches(std::path::MAIN_SEPARATOR);
        format!("{pattern:?} is a directory; set {key} to the files in it, such as \"{pattern}/**/*.txt\"")
    } else {
        let is_relative = !Location::named(pattern).is_remote() && Path::new(pattern).is_relative();
        let around = std::env::current_dir().ok().filter(|_| is_relative);
        let place = around.map_or_else(String::new, |around| format!(" in {}", around.display()));
        format!(
            "no file matches {pattern:?}{place}; set {key} to the corpus's files, such as \"corpus/**/*.txt\""
        )
    };
    Error::Corpus { problem }
}
