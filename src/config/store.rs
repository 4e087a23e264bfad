//! `[store]`: how files in object stores and on HTTP servers are read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ByteCount, Seconds, require};
use crate::error::Result;

/// The longest time that a setting accepts, in seconds: a day.
const LONGEST: f64 = 86_400.0;

/// Settings for reading from object stores and HTTP servers: sources whose `paths` are URLs. None of them
/// changes a byte of what is delivered.
///
/// Credentials, regions and endpoints come from the usual environment: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
/// `AWS_ENDPOINT_URL`, `AWS_SKIP_SIGNATURE=true` for public buckets; `GOOGLE_APPLICATION_CREDENTIALS`,
/// `GOOGLE_SERVICE_ACCOUNT`; `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        }
    }
}

impl StoreConfig {
    pub(crate) fn validate(&self) -> Result<()> {
        let is_block = (1 << 12..=1 << 30).contains(&self.block.0);
        require(is_block, "store.block", self.block, "from 4KiB to 1GiB")?;
        require(
            (1..=4096).contains(&self.concurrency),
            "store.concurrency",
            self.concurrency,
            "from 1 to 4096",
        )?;
        for (key, seconds) in [
            ("store.timeout", self.timeout),
            ("store.deadline", self.deadline),
            ("store.backoff", self.backoff),
            ("store.backoff_max", self.backoff_max),
        ] {
            let holds = seconds > 0.0 && seconds <= LONGEST;
            require(holds, key, seconds, "above 0 and at most 86400 seconds, a day")?;
        }
        require(
            self.backoff_max >= self.backoff,
            "store.backoff_max",
            self.backoff_max,
            "at least store.backoff",
        )?;
        let is_limit = self.cache_limit.0 >= 1 << 20;
        require(is_limit, "store.cache_limit", self.cache_limit, "at least 1MiB")
    }
}
