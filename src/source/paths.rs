//! From the paths in a config to the corpus's files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::patterns::{blocking, bytes, expanded, glob};
use super::resolved::Resolved;
use crate::config::STDIN;
use crate::error::{Error, Result};
use crate::files::{File, Files};
use crate::location::is_url;
use crate::store::{Listed, Stores};

/// How many patterns are looked up at once.
const ASKED: usize = 32;

/// How many jobs look at files of this machine at once. Each has a thread, which stays for a while.
const LOOKING: usize = 8;

/// How many files of this machine are looked at in one job.
const LOOKED: usize = 512;

/// A file that a pattern matches.
struct Found {
    path: PathBuf,
    len: u64,
    etag: Option<String>,
}

/// The files of all `sources`, one source after the other, each source's in the byte order of their paths.
///
/// A file that two patterns of one source match is one file; in two sources it is two.
pub(super) async fn files(sources: &[Resolved], stores: &Arc<Stores>) -> Result<Files> {
    let mut files = Vec::new();
    for (index, Resolved { reads: source, shards, .. }) in sources.iter().enumerate() {
        if let Some(shards) = shards {
            files.extend(shards.manifest().files.iter().map(|file| file.of(index)));
            continue;
        }
        let key = format!("source.{index}.paths");
        let mut all = Vec::new();
        if source.is_stdin() {
            let (path, unit) = (STDIN.into(), source.kind.unit());
            files.push(File { path, len: 0, etag: None, source: index, unit });
            continue;
        }
        let patterns = source.paths.iter().map(|pattern| expanded(&key, pattern));
        let patterns: Vec<String> = patterns.collect::<Result<_>>()?;
        // Files of HTTP servers are named one by one, and each costs the server's latency.
        let found = stream::iter(&patterns).map(|pattern| matches(&key, pattern, stores));
        let mut found = found.buffered(ASKED);
        while let Some(files) = found.try_next().await? {
            all.extend(files);
        }
        all.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
        all.dedup_by(|a, b| bytes(&a.path) == bytes(&b.path));
        if all.iter().all(|found| found.len == 0) {
            let n = all.len();
            let problem =
                format!("the source's files are all empty ({n} of them); set {key} to files with text");
            return Err(Error::Corpus { problem });
        }
        let unit = source.kind.unit();
        let file = |Found { path, len, etag }| File { path, len, etag, source: index, unit };
        files.extend(all.into_iter().map(file));
    }
    if sources.is_empty() {
        let problem = "there is no source; add a [[source]] with the paths of the corpus".to_owned();
        return Err(Error::Corpus { problem });
    }
    if u32::try_from(files.len()).is_err() {
        return Err(Error::Corpus { problem: format!("{} files are more than 2^32 - 1", files.len()) });
    }
    Ok(Files::new(files))
}

/// The files that `pattern` matches, at least one.
async fn matches(key: &str, pattern: &str, stores: &Arc<Stores>) -> Result<Vec<Found>> {
    let found = match is_url(pattern) {
        true => {
            let listed = stores.list(key, pattern).await?.into_iter();
            listed.map(|Listed { url, len, etag }| Found { path: url.into(), len, etag }).collect()
        }
        false => local(key, pattern).await?,
    };
    if found.is_empty() { Err(nothing_matched(key, pattern)) } else { Ok(found) }
}

/// The regular files of this machine that `pattern` matches, links to such among them, with their lengths.
///
/// They are looked at while others are still being found, many at once: a file of a network's file system takes as long
/// as one of a server.
async fn local(key: &str, pattern: &str) -> Result<Vec<Found>> {
    let (key, pattern) = (key.to_owned(), pattern.to_owned());
    // Without a bound, so that no job waits for another one's thread: there may be only one.
    let (sender, matching) = async_channel::unbounded();
    let matched = blocking(move || {
        let mut paths = Vec::new();
        let mut matched = Ok(());
        for path in glob(&key, &pattern)? {
            match path {
                Ok(path) => paths.push(path),
                Err(error) => {
                    matched = Err(error);
                    break;
                }
            }
            // Who has gone away, or found an error, wants no more.
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
    let looks = matching.map(|paths| blocking(move || look(paths)));
    let looks = looks.buffered(LOOKING).try_concat();
    // The first error, in the order of the paths.
    let (found, matched) = futures::join!(looks, matched);
    let found = found?;
    matched.map(|()| found)
}

/// The regular files among these.
fn look(paths: Vec<PathBuf>) -> Result<Vec<Found>> {
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let metadata = std::fs::metadata(&path).map_err(|e| Error::io(&path, "look at the file", e))?;
        if metadata.is_file() {
            all.push(Found { path, len: metadata.len(), etag: None });
        }
    }
    Ok(all)
}

fn nothing_matched(key: &str, pattern: &str) -> Error {
    let problem = if Path::new(pattern).is_dir() {
        let pattern = pattern.trim_end_matches(std::path::MAIN_SEPARATOR);
        format!("{pattern:?} is a directory; set {key} to the files in it, such as \"{pattern}/**/*.txt\"")
    } else {
        format!("no file matches {pattern:?}; set {key} to the corpus's files, such as \"corpus/**/*.txt\"")
    };
    Error::Corpus { problem }
}
