//! Ranges of a commit's files, as of any other store. Nothing is written to it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use tokio::sync::Mutex as AsyncMutex;

use super::Hub;
use super::cache::{Entry, Tree};
use super::client::{Answer, Place, Refused};
use super::name::{Repo, encoded};
use crate::store::remote::odd_keys::stand_in;
use crate::store::remote::said::LATER;
use crate::threads::lock;

/// The name of the store in errors.
const STORE: &str = "Hub";

/// How often the Hub is asked again where a file is, if it is refused there.
const AGAIN: usize = 2;

/// A repository at a commit.
#[derive(Debug)]
pub(in crate::store::remote) struct HubFiles {
    pub(super) hub: Arc<Hub>,
    pub(super) repo: Repo,
    places: Mutex<HashMap<String, Arc<AsyncMutex<Known>>>>,
}

/// What is known of the place of a file's bytes.
#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    Nothing,
    /// The Hub itself sends them.
    Hub,
    Elsewhere(Place),
}

impl HubFiles {
    pub(super) fn new(hub: Arc<Hub>, repo: Repo) -> Self {
        Self { hub, repo, places: Mutex::default() }
    }

    async fn tree(&self) -> Result<Arc<Tree>> {
        self.hub.tree(&self.repo).await.map_err(|error| generic(error.chain()))
    }

    fn url(&self, path: &str) -> String {
        let Self { hub, repo, .. } = self;
        format!("{}/resolve/{}/{}", repo.page(&hub.env.endpoint), repo.encoded_revision(), encoded(path))
    }

    /// Requests a range of a file, from where it is as far as that is known.
    async fn range(&self, path: &str, range: &Range<u64>) -> Result<Answer, Refused> {
        if self.hub.env.is_offline {
            let problem = "HF_HUB_OFFLINE is set, and the file is not in the cache; unset it, or download the file first";
            return Err(Refused(problem.to_owned()));
        }
        let place = {
            let mut places = lock(&self.places);
            places.entry(path.to_owned()).or_default().clone()
        };
        let url = self.url(path);
        let ask = async |place: Option<Place>| self.hub.client.range(&url, place, range, &self.repo).await;
        for _ in 0..AGAIN {
            let mut known = place.lock().await;
            let elsewhere = match known.clone() {
                Known::Nothing => {
                    // The others wait, so that the Hub is asked once.
                    let answer = ask(None).await?;
                    let is_hub = answer.place == Place::new(&url);
                    *known = if is_hub { Known::Hub } else { Known::Elsewhere(answer.place.clone()) };
                    if !is_expired(&answer) || is_hub {
                        return Ok(answer);
                    }
                    *known = Known::Nothing;
                    continue;
                }
                Known::Hub => None,
                Known::Elsewhere(place) => Some(place),
            };
            drop(known);
            let is_elsewhere = elsewhere.is_some();
            let answer = ask(elsewhere).await?;
            if !is_elsewhere || !is_expired(&answer) {
                return Ok(answer);
            }
            let mut known = place.lock().await;
            if matches!(&*known, Known::Elsewhere(place) if *place == answer.place) {
                *known = Known::Nothing;
            }
        }
        ask(None).await
    }

    fn meta(&self, path: &Path, entry: &Entry) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: Default::default(),
            size: entry.len(),
            e_tag: Some(entry.etag().to_owned()),
            version: None,
        }
    }
}

/// Whether this is how a server refuses a URL whose signature has expired.
fn is_expired(answer: &Answer) -> bool {
    matches!(answer.response.status().as_u16(), 400 | 401 | 403 | 404 | 410)
}

/// The range, and the length of the whole file, in a header such as `bytes 0-9/100`.
fn sent_range(header: &str) -> Option<(Range<u64>, u64)> {
    let (range, size) = header.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?, size.parse().ok()?))
}

fn generic(said: impl Into<String>) -> Error {
    Error::Generic { store: STORE, source: Box::new(Refused(said.into())) }
}

fn read_only<T>() -> Result<T> {
    Err(generic("Millstream only reads from the Hub; write to a directory, and upload that with `hf upload`"))
}

impl fmt::Display for HubFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.repo.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for HubFiles {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (tree, path) = (self.tree().await?, location.as_ref());
        let absent = || Error::NotFound {
            path: path.to_owned(),
            source: Box::new(Refused(format!("{self} has no {path}"))),
        };
        let mut meta = self.meta(location, tree.files.get(path).ok_or_else(absent)?);
        let result = |payload, range, meta| GetResult {
            payload,
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Extensions::default(),
        };
        let range = match options.range {
            _ if options.head => 0..0,
            Some(GetRange::Bounded(range)) => range,
            _ => 0..meta.size,
        };
        if range.is_empty() {
            return Ok(result(GetResultPayload::Stream(stream::empty().boxed()), range, meta));
        }
        let Answer { response, etag, .. } =
            self.range(path, &range).await.map_err(|Refused(said)| generic(said))?;
        let status = response.status();
        if !status.is_success() {
            let advice = if matches!(status.as_u16(), 429 | 500..) { LATER } else { "" };
            return Err(generic(format!("the server of the file's bytes answers {status}{advice}")));
        }
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (sent, size) = match status.as_u16() {
            206 => text("content-range").and_then(sent_range).unwrap_or_default(),
            _ => {
                let len = text("content-length").and_then(|len| len.parse().ok()).unwrap_or(meta.size);
                (0..len, len)
            }
        };
        // If the file has another length now, the error names that instead.
        if size == meta.size && sent != range {
            let (start, end) = (range.start, range.end);
            return Err(generic(format!(
                "the server sends other bytes than {start} to {end}, which it was asked for"
            )));
        }
        meta.size = size;
        meta.e_tag = etag.or(meta.e_tag);
        let failed = |error| Error::Generic { store: STORE, source: Box::new(error) };
        let body = response.into_body().bytes_stream().map_err(failed).boxed();
        Ok(result(GetResultPayload::Stream(body), range, meta))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.map(|prefix| prefix.as_ref().to_owned()).unwrap_or_default();
        let all = Self::new(self.hub.clone(), self.repo.clone());
        let listed = async move {
            let tree = all.tree().await?;
            let below = |path: &&String| {
                prefix.is_empty() || path.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/'))
            };
            let files = tree.files.iter().filter(|(path, _)| below(path));
            let named = |path: &String| {
                Path::parse(path).or_else(|_| Path::parse(stand_in(path).unwrap_or_default()))
            };
            let metas = files.filter_map(|(path, entry)| Some(Ok(all.meta(&named(path).ok()?, entry))));
            Ok::<_, Error>(stream::iter(metas.collect::<Vec<_>>()))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = prefix.cloned().unwrap_or_default();
        let mut result = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Extensions::default(),
        };
        let all: Vec<ObjectMeta> = self.list(prefix).try_collect().await?;
        for meta in all {
            let mut parts = meta.location.prefix_match(&root).into_iter().flatten();
            match (parts.next(), parts.next()) {
                (Some(directory), Some(_)) => result.common_prefixes.push(root.clone().join(directory)),
                _ => result.objects.push(meta.clone()),
            }
        }
        result.common_prefixes.dedup();
        Ok(result)
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { read_only() }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
