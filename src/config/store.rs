//! `[store]`: how files in object stores and on HTTP servers are read.

use std::path::PathBuf;
#[cfg(feature = "stores")]
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounds::{Bound, Bounded, Limit, Number, require};
use super::{ByteCount, Seconds};
use crate::error::Result;

const TIME: Bound = Bound::Noted(&Bound::AboveUpTo(0.0, 86_400.0), " seconds, a day");

/// Settings for reading from object stores and HTTP servers: sources whose `paths` are URLs. None of them
/// changes a byte of what is delivered.
///
/// Credentials, regions and endpoints come from the usual environment: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
/// `AWS_ENDPOINT_URL`, `AWS_SKIP_SIGNATURE=true` for public buckets; `GOOGLE_APPLICATION_CREDENTIALS`,
/// `GOOGLE_SERVICE_ACCOUNT`; `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<StoreConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// How much one request asks for, in bytes. A lane asks for less if its share of `pipeline.memory` has no
    /// room for eight such requests.
    pub block: ByteCount,
    /// How many requests a process has under way at most. A file shorter than a block costs one request, so
    /// this many small files arrive from far away in the time that one takes.
    pub concurrency: usize,
    /// After how long without a byte a request is given up and retried, in seconds.
    #[serde(deserialize_with = "Seconds::read")]
    #[cfg_attr(feature = "schema", schemars(with = "Seconds"))]
    pub timeout: f64,
    /// After how long without a byte, over all attempts, reading fails, in seconds.
    #[serde(deserialize_with = "Seconds::read")]
    #[cfg_attr(feature = "schema", schemars(with = "Seconds"))]
    pub deadline: f64,
    /// How long the second attempt waits, in seconds; each further attempt waits twice as long as the one before.
    /// A server that says how long to wait (`Retry-After`) is obeyed.
    #[serde(deserialize_with = "Seconds::read")]
    #[cfg_attr(feature = "schema", schemars(with = "Seconds"))]
    pub backoff: f64,
    /// How long an attempt waits at most, in seconds.
    #[serde(deserialize_with = "Seconds::read")]
    #[cfg_attr(feature = "schema", schemars(with = "Seconds"))]
    pub backoff_max: f64,
    /// A directory that keeps fetched data for later epochs and runs, and for other processes that use it
    /// too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// The bound on that directory, in bytes. The least recently used data goes first.
    pub cache_limit: ByteCount,
    /// How much the cache of the Hugging Face Hub may hold, in bytes. Files that the run reads from the Hub are then kept
    /// there whole, as long as there is room, for later runs and for the Hub's own libraries. If absent, they are
    /// streamed and not kept. Files that are in that cache already are read from it either way, and nothing is ever
    /// removed from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_cache: Option<ByteCount>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            block: ByteCount::mib(4),
            concurrency: 128,
            timeout: 30.0,
            deadline: 180.0,
            backoff: 0.1,
            backoff_max: 15.0,
            cache: None,
            cache_limit: ByteCount::mib(50 << 10),
            hub_cache: None,
        }
    }
}

impl StoreConfig {
    pub(crate) fn validate(&self) -> Result<()> {
        self.check_bounds("store")?;
        let (first, most) = (self.backoff, self.backoff_max);
        require(most >= first, "store.backoff_max", most, "at least store.backoff")
    }

    /// How long one attempt may be silent.
    #[cfg(feature = "stores")]
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs_f64(self.timeout.min(self.deadline))
    }
}

impl Bounded for StoreConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("block", Bound::Bytes(1 << 12, 1 << 30), |store| store.block.number()),
        ("concurrency", Bound::Within(1.0, 4096.0), |store| store.concurrency.number()),
        ("timeout", TIME, |store| store.timeout.number()),
        ("deadline", TIME, |store| store.deadline.number()),
        ("backoff", TIME, |store| store.backoff.number()),
        ("backoff_max", TIME, |store| store.backoff_max.number()),
        ("cache_limit", Bound::Bytes(1 << 20, u64::MAX), |store| store.cache_limit.number()),
        ("hub_cache", Bound::Bytes(1 << 20, u64::MAX), |store| store.hub_cache.number()),
    ];
}
