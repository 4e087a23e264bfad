//! `[store]`: how files are read that do not lie on this machine.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ByteCount, require};
use crate::error::Result;

/// The longest time that a setting may name, in seconds: a day.
const LONGEST: f64 = 86_400.0;

/// Reading from object stores and HTTP servers: sources whose `paths` are URLs. Nothing here changes a byte of what is
/// delivered.
///
/// Credentials, regions and endpoints come from the usual environment: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
/// `AWS_ENDPOINT_URL`, `AWS_SKIP_SIGNATURE=true` for public buckets; `GOOGLE_APPLICATION_CREDENTIALS`,
/// `GOOGLE_SERVICE_ACCOUNT`; `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// How much one request asks for, in bytes. A lane whose share of `pipeline.memory` has no room for eight of them
    /// asks for less.
    pub block: ByteCount,
    /// How many requests a process has under way at most. Files shorter than a block cost a request each: where many of
    /// them are far away, so many files come in the time that one takes.
    pub concurrency: NonZeroUsize,
    /// After how many seconds without a byte a request is given up and made again.
    pub timeout: f64,
    /// After how many seconds without a byte, all attempts together, reading is an error.
    pub deadline: f64,
    /// How many seconds the second attempt waits; each further one waits twice as long as the one before. A server that
    /// says how long to wait (`Retry-After`) is obeyed.
    pub backoff: f64,
    /// How many seconds an attempt waits at most.
    pub backoff_max: f64,
    /// A directory that keeps what was fetched, for later epochs and runs and for other processes that have it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// The bound on what is kept there, in bytes; what was not used for longest goes first.
    pub cache_limit: ByteCount,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            block: ByteCount::mib(4),
            concurrency: NonZeroUsize::new(128).expect("a constant above zero"),
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
        require(self.concurrency.get() <= 4096, "store.concurrency", self.concurrency, "at most 4096")?;
        for (key, seconds) in [
            ("store.timeout", self.timeout),
            ("store.deadline", self.deadline),
            ("store.backoff", self.backoff),
            ("store.backoff_max", self.backoff_max),
        ] {
            let holds = seconds > 0.0 && seconds <= LONGEST;
            require(holds, key, seconds, "seconds, more than 0 and at most a day's 86400")?;
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
