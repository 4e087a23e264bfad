//! Whole objects, by their URL: listed, read, written and removed.

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::io::AsyncWriteExt;

use super::list::{ask, listed, look};
use super::object::refusal;
use super::odd_keys::odd_key;
use super::stores::{Stores, location};
use super::url::Url;
use crate::error::{Error, Result};
use crate::files::File;
use crate::store::Found;

/// The setting that errors of a URL name.
const KEY: &str = "output";

/// How much is sent at once, in bytes. Longer objects are sent in parts of this length, a few at a time.
const PART: usize = 8 << 20;
const PARTS: usize = 2;

/// An object, and the client of its store.
struct Target {
    at: object_store::path::Path,
    client: Arc<dyn ObjectStore>,
}

impl Stores {
    /// The objects and prefixes directly below a URL with a trailing slash, or below the URL with one added.
    pub(crate) async fn below(&self, url: &str) -> Result<Found> {
        let Target { at, client } = self.target(url)?;
        let refused = |error: object_store::Error| refusal(Path::new(url), false, "list the files", &error);
        let _permit = self.permits.acquire().await;
        let found = client.list_with_delimiter(Some(&at)).await.map_err(refused)?;
        let name = |meta: &ObjectMeta| meta.location.filename().unwrap_or_default().to_owned();
        let url_of = |meta: &ObjectMeta| format!("{}/{}", url.trim_end_matches('/'), name(meta));
        Ok(Found {
            objects: found
                .objects
                .iter()
                .filter(|meta| odd_key(meta.location.as_ref()).is_none())
                .map(|meta| listed(url_of(meta), meta))
                .collect(),
            within: found
                .common_prefixes
                .iter()
                .filter(|path| odd_key(path.as_ref()).is_none())
                .flat_map(|path| path.filename().map(str::to_owned))
                .collect(),
        })
    }

    /// Reads an object of at most `most` bytes. Returns `None` if there is none.
    pub(crate) async fn read(&self, url: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let Target { at, client } = self.target(url)?;
        let is_plain = Url::parse(KEY, url)?.is_http();
        let name = self.name(url);
        let found = {
            let _permit = self.permits.acquire().await;
            if is_plain { ask(&*client, &at).await } else { look(&*client, &at).await }
        };
        let meta = match found {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| refusal(Path::new(&name), name != url, "read", &error))?,
        };
        if meta.size > most {
            let problem = format!("{name}: it has {} bytes, more than the limit of {most}", meta.size);
            return Err(Error::Corpus { problem });
        }
        if meta.size == 0 {
            return Ok(Some(Vec::new()));
        }
        // As a range of a known length, so that an answer that breaks off is noticed.
        let object = Arc::new(self.object(&listed(name, &meta))?);
        object.get(0..meta.size).await.map(|bytes| Some(bytes.into()))
    }

    /// Reads a range of each of some objects, many at a time.
    pub(crate) async fn ranges(&self, of: Vec<(File, Range<u64>)>) -> Result<Vec<Vec<u8>>> {
        let read = async |(file, range): (File, Range<u64>)| {
            Arc::new(self.object(&file)?).get(range).await.map(Vec::from)
        };
        stream::iter(of).map(read).buffered(self.config().concurrency).try_collect().await
    }

    /// Writes an object, whole or not at all.
    pub(crate) async fn write(&self, url: &str, bytes: Vec<u8>) -> Result<()> {
        self.put(url, bytes.into(), PutMode::Overwrite).await.map(drop)
    }

    /// Writes an object if there is none of this name. Returns false if there is one, which stays. Where a store cannot
    /// tell, the object is written.
    pub(crate) async fn create(&self, url: &str, bytes: Vec<u8>) -> Result<bool> {
        self.put(url, bytes.into(), PutMode::Create).await
    }

    async fn put(&self, url: &str, bytes: Bytes, mode: PutMode) -> Result<bool> {
        let Target { at, client } = self.target(url)?;
        let _permit = self.permits.acquire().await;
        let put = |mode: PutMode| client.put_opts(&at, bytes.clone().into(), PutOptions::from(mode));
        let done = match put(mode).await {
            Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {
                put(PutMode::Overwrite).await
            }
            done => done,
        };
        match done {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            Err(error) => Err(refusal(Path::new(url), false, "write", &error)),
        }
    }

    /// Sends a file to an object, which appears when all of it has arrived. Reading the file blocks.
    pub(crate) async fn upload(&self, url: &str, file: &mut fs::File) -> Result<()> {
        let Target { at, client } = self.target(url)?;
        let _permit = self.permits.acquire().await;
        let mut writer = BufWriter::with_capacity(client, at, PART).with_max_concurrency(PARTS);
        let sent = match send(&mut writer, file).await {
            // If this fails, it has given up the parts itself.
            Ok(()) => writer.shutdown().await,
            Err(error) => {
                // The parts that have arrived are of no use. A store that does not hear this removes them by its own rules.
                let _ = writer.abort().await;
                Err(error)
            }
        };
        sent.map_err(|error| {
            let cause = error.downcast::<object_store::Error>();
            cause.map_or_else(
                |error| Error::io(url, "write", error),
                |error| refusal(Path::new(url), false, "write", &error),
            )
        })
    }

    pub(crate) async fn remove(&self, url: &str) -> Result<()> {
        let Target { at, client } = self.target(url)?;
        let _permit = self.permits.acquire().await;
        match client.delete(&at).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(refusal(Path::new(url), false, "remove", &error)),
        }
    }

    fn target(&self, text: &str) -> Result<Target> {
        let url = Url::parse(KEY, text)?;
        Ok(Target { at: location(Path::new(&self.name(text)), &url)?, client: self.client(&url)? })
    }
}

async fn send(writer: &mut BufWriter, file: &mut fs::File) -> std::io::Result<()> {
    loop {
        let mut bytes = Vec::with_capacity(PART);
        let read = file.take(PART as u64).read_to_end(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        writer.put(bytes.into()).await.map_err(std::io::Error::other)?;
    }
}
