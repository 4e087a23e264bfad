//! The stores of a process: a client for each bucket or server, and their shared state.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::client::HttpClient;
use tokio::sync::Semaphore;

use super::cache::Cache;
use super::client::{connect, http_client};
use super::hub::{Copy, Hub};
use super::object::{Object, refusal};
use super::url::{Url, unsigned};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::files::File;
use crate::meter::StoreMeter;
use crate::threads::lock;

/// Gives access to remote files.
#[derive(Debug)]
pub(crate) struct Stores {
    config: Arc<StoreConfig>,
    /// Permits for the requests that may still begin.
    pub(super) permits: Arc<Semaphore>,
    /// Made with the first remote file.
    shared: Mutex<Option<SharedClients>>,
    hub: OnceLock<Arc<Hub>>,
    clients: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// The signed URLs, by the names of their files.
    signed: Mutex<HashMap<String, String>>,
    waits: Waits,
}

/// How often and how long readers waited for requested bytes.
#[derive(Debug, Default)]
struct Waits {
    count: AtomicU64,
    nanos: AtomicU64,
    requests: AtomicU64,
}

/// State that only remote files need.
#[derive(Clone, Debug)]
struct SharedClients {
    http: HttpClient,
    cache: Option<Arc<Cache>>,
}

impl Stores {
    pub(crate) fn new(config: &StoreConfig) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(config.concurrency)),
            config: Arc::new(config.clone()),
            shared: Mutex::default(),
            hub: OnceLock::new(),
            clients: Mutex::default(),
            signed: Mutex::default(),
            waits: Waits::default(),
        }
    }

    pub(super) fn under_way(&self) -> u64 {
        self.config.concurrency.saturating_sub(self.permits.available_permits()) as u64
    }

    /// Counts a wait that began while this many requests were under way.
    pub(super) fn waited(&self, time: Duration, requests: u64) {
        self.waits.count.fetch_add(1, Relaxed);
        self.waits.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
        self.waits.requests.fetch_add(requests, Relaxed);
    }

    pub(crate) fn meter(&self) -> StoreMeter {
        StoreMeter {
            requests: self.under_way(),
            concurrency: self.config.concurrency as u64,
            waits: self.waits.count.load(Relaxed),
            wait_seconds: self.waits.nanos.load(Relaxed) as f64 / 1e9,
            requests_at_waits: self.waits.requests.load(Relaxed),
        }
    }

    pub(super) fn config(&self) -> &StoreConfig {
        &self.config
    }

    fn shared(&self) -> Result<SharedClients> {
        let mut shared = lock(&self.shared);
        if let Some(shared) = &*shared {
            return Ok(shared.clone());
        }
        let http =
            http_client(&self.config).map_err(|e| refusal(Path::new("http"), false, "make a client", &e))?;
        let limit = self.config.cache_limit.0;
        let cache = self.config.cache.as_deref().map(|cache| Cache::open(cache, limit)).transpose()?;
        let cache = cache.map(Arc::new);
        Ok(shared.insert(SharedClients { http, cache }).clone())
    }

    /// The Hub, as the environment names it.
    pub(super) fn hub(&self) -> &Arc<Hub> {
        self.hub.get_or_init(|| Arc::new(Hub::new(&self.config)))
    }

    pub(super) fn client(&self, url: &Url<'_>) -> Result<Arc<dyn ObjectStore>> {
        if url.is_hub() {
            return Ok(self.hub().files(&url.root())?);
        }
        let place = format!("{}{}", url.root(), url.query);
        let http = self.shared()?.http;
        let mut clients = lock(&self.clients);
        if let Some(client) = clients.get(&place) {
            return Ok(client.clone());
        }
        let client = connect(url, &self.config, &http);
        let client = client.map_err(|error| refusal(Path::new(&url.root()), false, "connect", &error))?;
        clients.insert(place, client.clone());
        Ok(client)
    }

    /// The name of the file at `url`: without the signature, which is noted for requests.
    pub(super) fn name(&self, url: &str) -> String {
        let name = unsigned(url).into_owned();
        if name != url {
            let mut signed = lock(&self.signed);
            signed.insert(name.clone(), url.to_owned());
        }
        name
    }

    /// The signed URL of a file, if there is one.
    fn signed(&self, name: &str) -> Option<String> {
        lock(&self.signed).get(name).cloned()
    }

    /// A remote file as it was when the corpus was opened.
    pub(super) fn object(&self, file: &File) -> Result<Object> {
        let path = file.path();
        let text = path.to_str().ok_or_else(|| not_a_key(path, "it is not UTF-8"))?;
        let signed = self.signed(text);
        let url = Url::parse("source.paths", signed.as_deref().unwrap_or(text))?;
        let copy = match url.is_hub() {
            true => Some(Copy::new(&self.hub().files(&url.root())?, url.path)),
            false => None,
        };
        Ok(Object {
            url: path.to_owned(),
            is_signed: signed.is_some(),
            len: file.len,
            etag: file.etag.clone(),
            location: location(path, &url)?,
            store: self.client(&url)?,
            config: self.config.clone(),
            permits: self.permits.clone(),
            cache: self.shared()?.cache,
            copy,
        })
    }
}

/// Where a file is in its store.
pub(super) fn location(path: &Path, url: &Url<'_>) -> Result<object_store::path::Path> {
    if url.is_http() && url.path.to_ascii_lowercase().contains("%2f") {
        let problem = "a slash in its name is escaped (%2F), and would be asked for as a plain one; serve it under another \
                       name, or copy it";
        return Err(not_a_key(path, problem));
    }
    let location = match url.is_http() {
        true => object_store::path::Path::from_url_path(url.path),
        false => object_store::path::Path::parse(url.path),
    };
    location.map_err(|error| not_a_key(path, &error.to_string()))
}

fn not_a_key(path: &Path, problem: &str) -> Error {
    Error::Corpus { problem: format!("{} is not a file in a store: {problem}", path.display()) }
}
