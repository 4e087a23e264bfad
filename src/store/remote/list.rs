//! Finds the files of a store that a URL with a glob matches.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use glob::Pattern;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tokio::runtime::Handle;

use super::object::{refusal, version};
use super::odd_keys::odd_key;
use super::stores::{Stores, location};
use super::url::Url;
use crate::error::{Error, Result};
use crate::excerpt::first;
use crate::files::File;
use crate::location::{GLOB_RULES, Location};
use crate::tasks::Task;

/// The characters that make a path a glob.
const GLOB: [char; 3] = ['*', '?', '['];

/// How many files are named if a pattern matches none of them.
const NAMED: usize = 8;

impl Stores {
    /// Returns the files that `pattern`, a URL, matches, in any order; there may be none. Setting `key` names
    /// the pattern.
    ///
    /// In object stores, listing starts from the deepest directory before the first glob. Plain HTTP servers
    /// cannot be listed, so their files are named one by one.
    pub(crate) async fn list(self: &Arc<Self>, key: &str, pattern: &str) -> Result<Vec<File>> {
        let (stores, key, pattern) = (self.clone(), key.to_owned(), pattern.to_owned());
        // A separate task, so that a runtime that cannot reach the network is an error, not a panic.
        Task::spawn("store", &Handle::current(), async move { stores.matches(&key, &pattern).await }).await
    }

    async fn matches(&self, key: &str, pattern: &str) -> Result<Vec<File>> {
        let pinned;
        let mut url = Url::parse(key, pattern)?;
        let pattern = match url.is_hub() {
            true => {
                pinned = self.hub().pinned(key, pattern).await?;
                url = Url::parse(key, &pinned)?;
                &pinned
            }
            false => pattern,
        };
        let name = self.name(pattern);
        let is_signed = name != pattern;
        let has_glob = url.path.contains(GLOB);
        if has_glob && url.is_http() {
            let problem = format!("{name:?} has a glob, and HTTP servers cannot be listed; name each file");
            return Err(Error::config(key, problem));
        }
        let client = self.client(&url)?;
        let _permit = self.permits.acquire().await;
        if has_glob {
            return glob(key, pattern, &url, &*client).await;
        }
        let path = Path::new(&name);
        let at = location(path, &url)?;
        let found = match url.is_http() {
            true => ask(&*client, &at).await,
            false => look(&*client, &at).await,
        };
        match found {
            Ok(meta) => Ok(vec![listed(name, &meta)]),
            Err(object_store::Error::NotFound { .. }) if !url.is_http() => {
                none_but_below(key, pattern, &*client, &at).await
            }
            Err(error) => Err(refusal(path, is_signed, "look at the file", &error)),
        }
    }
}

/// Lists the pattern's deepest directory before the first glob, and keeps the matches.
async fn glob(key: &str, pattern: &str, url: &Url<'_>, client: &dyn ObjectStore) -> Result<Vec<File>> {
    let offset = pattern.len() - url.path.len();
    let matcher = Pattern::new(url.path).map_err(|e| {
        let at = pattern[..offset].chars().count() + e.pos + 1;
        Error::config(key, format!("{pattern:?} is not a valid pattern: {} at character {at}", e.msg))
    })?;
    let first = url.path.find(GLOB).unwrap_or(url.path.len());
    let (directory, names) = url.path[..first]
        .rsplit_once('/')
        .map_or(("", url.path), |(directory, _)| (directory, &url.path[directory.len() + 1..]));
    let under = location(Path::new(pattern), &Url { path: directory, ..*url })?;
    let refused = |error: object_store::Error| refusal(Path::new(pattern), false, "list the files", &error);
    let (found, directories): (Vec<ObjectMeta>, _) = match names.contains('/') || names.contains("**") {
        true => (client.list(Some(&under)).try_collect().await.map_err(refused)?, Vec::new()),
        // Only this directory, without those below it.
        false => {
            let listed = client.list_with_delimiter(Some(&under)).await.map_err(refused)?;
            (listed.objects, listed.common_prefixes)
        }
    };
    // As on disk, only directories match a pattern that ends with a slash.
    let is_wanted = |key: &str| !url.path.ends_with('/') && matcher.matches_with(key, GLOB_RULES);
    let is_match = |meta: &&ObjectMeta| is_wanted(meta.location.as_ref());
    let mut odd = found.iter().filter_map(|meta| odd_key(meta.location.as_ref()));
    if let Some(key) = odd.find(|key| !key.ends_with('/') && is_wanted(key)) {
        let problem = format!(
            "{pattern:?} matches the key {key:?} of {}, which cannot be read: a part of it is empty, \".\" or \"..\", or \
             has a control character; rename the object, or write a pattern that leaves it out",
            url.root()
        );
        return Err(Error::Corpus { problem });
    }
    drop(odd);
    let url_of = |meta: &ObjectMeta| format!("{}/{}", url.root(), meta.location);
    let wanted: Vec<File> = found
        .iter()
        .filter(is_match)
        .filter(|meta| odd_key(meta.location.as_ref()).is_none())
        .map(|meta| listed(url_of(meta), meta))
        .collect();
    if wanted.is_empty() && !(found.is_empty() && directories.is_empty()) {
        let directories = directories.iter().map(|directory| format!("{directory}/"));
        let there: Vec<String> = directories.chain(found.iter().map(key_of)).collect();
        return Err(matches_none(key, pattern, &there));
    }
    Ok(wanted)
}

fn key_of(meta: &ObjectMeta) -> String {
    let name = meta.location.as_ref();
    odd_key(name).unwrap_or_else(|| name.to_owned())
}

/// The error for a pattern that matches none of the files and directories that are there.
fn matches_none(key: &str, pattern: &str, there: &[String]) -> Error {
    let named = first(there.iter().map(|name| format!("{name:?}")), NAMED);
    let problem =
        format!("no file matches {pattern:?}; there are {named}: set {key} to the corpus's files among them");
    Error::Corpus { problem }
}

pub(super) fn listed(url: String, meta: &ObjectMeta) -> File {
    File::new(Location::Url(url), meta.size, version(meta))
}

/// Asks for a file's metadata.
pub(super) async fn look(
    client: &dyn ObjectStore,
    at: &object_store::path::Path,
) -> object_store::Result<ObjectMeta> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    Ok(client.get_opts(at, options).await?.meta)
}

/// Asks a plain server for a file's first byte. This shows whether it serves ranges, and also works with
/// servers that do not answer HEAD requests.
pub(super) async fn ask(
    client: &dyn ObjectStore,
    at: &object_store::path::Path,
) -> object_store::Result<ObjectMeta> {
    let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
    match client.get_opts(at, options).await {
        Ok(first) => Ok(first.meta),
        Err(error @ object_store::Error::NotFound { .. }) => Err(error),
        // An empty file has no first byte.
        Err(error) => look(client, at).await.ok().filter(|meta| meta.size == 0).ok_or(error),
    }
}

/// Returns an error if a directory was named instead of a file.
async fn none_but_below(
    key: &str,
    pattern: &str,
    client: &dyn ObjectStore,
    at: &object_store::path::Path,
) -> Result<Vec<File>> {
    let below = client.list_with_delimiter(Some(at)).await;
    if below.is_ok_and(|below| !below.objects.is_empty() || !below.common_prefixes.is_empty()) {
        let pattern = pattern.trim_end_matches('/');
        let problem = format!(
            "{pattern:?} is a directory; set {key} to the files in it, such as \"{pattern}/**/*.txt\""
        );
        return Err(Error::Corpus { problem });
    }
    Ok(Vec::new())
}
