//! One remote file: ranges of its bytes, whole and unchanged, or an error.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{Attribute, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::attempts::Attempts;
use super::cache::{Cache, CacheKey};
use super::hub::{self, Copy};
use super::patient::{METADATA_HOSTS, root};
use super::said::LATER;
use super::url::without_queries;
use crate::config::StoreConfig;
use crate::error::{Error, Result};

/// A remote file as it was when the corpus was opened.
#[derive(Debug)]
pub(super) struct Object {
    /// Without a signature.
    pub(super) url: PathBuf,
    pub(super) is_signed: bool,
    pub(super) len: u64,
    /// The store's name for this content, from [`version`].
    pub(super) etag: Option<String>,
    pub(super) location: object_store::path::Path,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) config: Arc<StoreConfig>,
    /// Permits for the requests that this process may still begin.
    pub(super) permits: Arc<Semaphore>,
    pub(super) cache: Option<Arc<Cache>>,
    /// The whole file in the Hub's cache, if it is on the Hub.
    pub(super) copy: Option<Copy>,
}

/// A store's name for a content: its etag without quotes, or else the time of its last change; `None` if it gives
/// neither.
pub(super) fn version(meta: &ObjectMeta) -> Option<String> {
    let modified = || {
        let time = meta.last_modified;
        (time.timestamp() != 0).then(|| format!("{MODIFIED}{}", time.to_rfc3339()))
    };
    let etag = meta.e_tag.as_deref().filter(|etag| !etag.is_empty());
    etag.map(|etag| etag.replace('"', "")).or_else(modified)
}

/// The prefix of a version that is a time.
const MODIFIED: &str = "modified ";

/// The prefix of a weak etag. No request can be made to depend on one.
const WEAK: &str = "W/";

fn is_whole(bytes: &Bytes, range: &Range<u64>) -> bool {
    bytes.len() as u64 == range.end - range.start
}

/// Why a range did not arrive.
enum Trouble {
    /// Another request may get the rest.
    BrokeOff(String),
    Refused(Box<object_store::Error>),
    Changed(String),
}

impl Object {
    /// Returns the bytes of `range`, which must be within the file.
    pub(super) async fn get(self: Arc<Self>, range: Range<u64>) -> Result<Bytes> {
        if let Some(copy) = &self.copy
            && let Some(path) = copy.get(self.len, |range| self.fetch(range)).await
        {
            let (of, range) = (path.clone(), range.clone());
            let read = spawn_blocking(move || hub::read(&of, &range)).await;
            // It may be gone: it is the user's to remove.
            if let Ok(Ok(bytes)) = read {
                return Ok(bytes);
            }
        }
        let entry = self.entry(&range).map(|(cache, key)| (cache.clone(), key));
        let Some((cache, key)) = entry else { return self.fetch(range).await };
        let cached = cache.clone().get(key).await;
        if let Some(bytes) = cached.filter(|bytes| is_whole(bytes, &range)) {
            return Ok(bytes);
        }
        let bytes = self.fetch(range).await?;
        cache.put(key, bytes.clone()).await;
        Ok(bytes)
    }

    pub(super) fn is_cached(&self, range: &Range<u64>) -> bool {
        self.copied().is_some() || self.entry(range).is_some_and(|(cache, key)| cache.has(key))
    }

    /// The bytes of `range`, if the cache has them. It blocks.
    pub(super) fn cached(&self, range: &Range<u64>) -> Option<Bytes> {
        if let Some(bytes) = self.copied().and_then(|path| hub::read(&path, range).ok()) {
            return Some(bytes);
        }
        let (cache, key) = self.entry(range)?;
        cache.read(key).filter(|bytes| is_whole(bytes, range))
    }

    /// Fetches the whole file into the Hub's cache, unless it is there.
    pub(super) async fn keep(&self) -> Result<()> {
        match &self.copy {
            Some(copy) => copy.make(self.len, |range| self.fetch(range)).await.map(drop),
            None => Ok(()),
        }
    }

    /// The whole file, if it is in the Hub's cache.
    fn copied(&self) -> Option<PathBuf> {
        self.copy.as_ref()?.there(self.len)
    }

    /// The cache, if there is one, and the name of the entry of `range`. A file without a version is not cached: nobody
    /// could tell when it has changed.
    fn entry(&self, range: &Range<u64>) -> Option<(&Arc<Cache>, CacheKey)> {
        let cache = self.cache.as_ref()?;
        match &self.etag {
            Some(etag) => Some((cache, cache.key(&self.url, etag, self.len, range))),
            None => {
                cache.tell_of_no_version(&self.url);
                None
            }
        }
    }

    /// Requests a range from the store. If an answer breaks off, requests the rest.
    pub(super) async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let _permit = self.permits.acquire().await;
        let url = self.url.to_string_lossy();
        let n = (range.end - range.start) as usize;
        let mut bytes = Vec::with_capacity(n);
        let mut attempts = Attempts::new(&self.config);
        while bytes.len() < n {
            let held = bytes.len();
            let rest = range.start + held as u64..range.end;
            let reason = match self.append(rest, &mut bytes).await {
                Ok(()) if bytes.len() == n => break,
                // Whatever it has, it is not the range.
                Ok(()) => {
                    let how = if bytes.len() < n { "shorter" } else { "longer" };
                    bytes.truncate(held);
                    format!("the answer is {how} than it says")
                }
                Err(Trouble::BrokeOff(reason)) => reason,
                Err(Trouble::Changed(how)) => return Err(self.changed(&how)),
                Err(Trouble::Refused(error)) => return Err(self.refused(*error).await),
            };
            if bytes.len() > held {
                attempts.progress();
            }
            if !attempts.again(&url, &reason, Duration::ZERO).await {
                return Err(Error::io(&self.url, "read", std::io::Error::other(reason)));
            }
        }
        Ok(bytes.into())
    }

    /// Makes one request, and appends the bytes of `range` that arrive.
    async fn append(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), Trouble> {
        // One byte more shows that there are more.
        let most = bytes.len() + (range.end - range.start) as usize + 1;
        let if_match =
            self.etag.as_deref().filter(|tag| !tag.starts_with(MODIFIED) && !tag.starts_with(WEAK));
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: if_match.map(|tag| format!("\"{tag}\"")),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&self.location, options).await;
        let answer = answer.map_err(|error| Trouble::Refused(Box::new(error)))?;
        self.check(&answer)?;
        let mut body = answer.into_stream();
        while let Some(part) = body.next().await {
            let part = part.map_err(|error| Trouble::BrokeOff(without_queries(&error.to_string())))?;
            let left = most - bytes.len();
            bytes.extend_from_slice(&part[..part.len().min(left)]);
            if bytes.len() == most {
                break;
            }
        }
        Ok(())
    }

    /// Whether the answer is of the same file.
    fn check(&self, answer: &GetResult) -> Result<(), Trouble> {
        let (len, etag) = (answer.meta.size, version(&answer.meta));
        if len != self.len {
            return Err(Trouble::Changed(format!(
                "it was {} bytes long and is {len} bytes long now",
                self.len
            )));
        }
        if etag != self.etag {
            let say = |etag: Option<&str>| etag.map_or("none".to_owned(), |etag| format!("{etag:?}"));
            let (was, is) = (say(self.etag.as_deref()), say(etag.as_deref()));
            return Err(Trouble::Changed(format!("its etag was {was} and is {is} now")));
        }
        Ok(())
    }

    /// The meaning of a refusal: the file has changed, or the store's own message.
    async fn refused(&self, error: object_store::Error) -> Error {
        match &error {
            object_store::Error::Precondition { .. } => self.changed("its etag has changed"),
            object_store::Error::NotFound { .. } => self.changed("it is gone"),
            // If the file is shorter now, a range beyond its end is refused like any other invalid request.
            object_store::Error::Generic { .. } => match self.look().await {
                Some(how) => self.changed(&how),
                None => self.refusal(&error),
            },
            _ => self.refusal(&error),
        }
    }

    fn refusal(&self, error: &object_store::Error) -> Error {
        refusal(&self.url, self.is_signed, "read", error)
    }

    /// How the file differs from its earlier state, if it does.
    async fn look(&self) -> Option<String> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let answer = self.store.get_opts(&self.location, options).await.ok()?;
        // In a coding, the file has another length.
        if answer.attributes.get(&Attribute::ContentEncoding).is_some() {
            return None;
        }
        match self.check(&answer) {
            Err(Trouble::Changed(how)) => Some(how),
            _ => None,
        }
    }

    fn changed(&self, how: &str) -> Error {
        let problem = format!(
            "{} has changed since the corpus was opened: {how}; leave the files alone while they are read, and open \
             the corpus again",
            self.url.display()
        );
        Error::Corpus { problem }
    }
}

/// A store's message, in one line, with the remedy if the reason is clear.
pub(super) fn refusal(
    url: &Path,
    is_signed: bool,
    action: &'static str,
    error: &object_store::Error,
) -> Error {
    // The server's message may repeat the signature.
    if is_signed && is_forbidden(error) {
        return Error::io(url, action, std::io::Error::other(EXPIRED));
    }
    // The name that the library has for such an error says nothing.
    let (mut said, root) = match error {
        object_store::Error::Generic { source, .. } => (source.to_string(), root(error)),
        _ => (error.to_string(), root(error)),
    };
    if !said.contains(&root) {
        said = format!("{said}: {root}");
    }
    // Without credentials, the library asks the cloud who this machine is, in vain.
    let is_nobody = || METADATA_HOSTS.iter().any(|host| said.contains(&format!("http://{host}/")));
    let status = root.strip_prefix(STATUS).map(|status| status.trim_end_matches([' ', ':']));
    let advice = match (error, status.and_then(|status| status.split(' ').next())) {
        (object_store::Error::NotSupported { .. }, _) => RANGES,
        _ if is_forbidden(error) || is_nobody() => CREDENTIALS,
        (_, Some("401" | "403")) => CREDENTIALS,
        (_, Some("404" | "410")) => "; check the name",
        // As S3 answers in another region.
        _ if url.starts_with("s3://")
            && (status.is_some_and(|it| it.starts_with("400")) || said.contains(NOWHERE)) =>
        {
            REGION
        }
        (_, Some(code)) if code == "429" || code.starts_with('5') => LATER,
        _ => "",
    };
    let said = status.map_or(said.clone(), |status| format!("the server answers {status}"));
    Error::io(url, action, std::io::Error::other(format!("{}{advice}", without_queries(&said))))
}

fn is_forbidden(error: &object_store::Error) -> bool {
    matches!(
        error,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
    )
}

/// How the library says with which status a server refused.
const STATUS: &str = "Server returned non-2xx status code: ";

/// Why a server refuses a signed URL.
const EXPIRED: &str = "the server refuses the URL's signature: it has expired, or is of another file; get a new URL of \
                       this file and set it in the source's paths: a run resumes with it";

/// A requirement on the server.
const RANGES: &str = "; the server does not serve parts of files: use one that answers range requests, or copy the \
                      file to this machine";

/// What the library says of a redirect that names no place.
const NOWHERE: &str = "without LOCATION";

/// What a bucket of another region needs.
const REGION: &str = "; set AWS_REGION to the bucket's region";

/// Where credentials come from.
const CREDENTIALS: &str = "; give credentials by the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                           GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY), or AWS_SKIP_SIGNATURE=true, \
                           GOOGLE_SKIP_SIGNATURE=true, AZURE_SKIP_SIGNATURE=true for public files";
