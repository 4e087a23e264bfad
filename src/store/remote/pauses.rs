//! The times that servers have asked for: one request is told to wait, and all that go to its server do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When each server may be asked again, by its host and port.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<String, Instant>>);

impl Pauses {
    /// Notes that a server asked to wait, unless it asks for too much: then its request fails, and others may try.
    pub(super) fn extend(&self, host: &str, by: Duration) {
        if !by.is_zero() && by <= MOST {
            let mut pauses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let until = pauses.entry(host.to_owned()).or_insert_with(Instant::now);
            *until = (*until).max(Instant::now() + by);
        }
    }

    /// Waits until a server may be asked.
    pub(super) async fn wait(&self, host: &str) {
        loop {
            let until = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied();
            let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now())) else {
                return;
            };
            tokio::time::sleep(left).await;
        }
    }
}

/// The longest wait that a server is granted.
pub(super) const MOST: Duration = Duration::from_secs(600);
