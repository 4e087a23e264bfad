//! Retries: how long to wait before each, and when to give up.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::config::StoreConfig;

/// The attempts at one thing since it began or last made progress.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    config: &'a StoreConfig,
    made: u32,
    since: Instant,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(config: &'a StoreConfig) -> Self {
        Self { config, made: 1, since: Instant::now() }
    }

    /// Notes progress: the deadline starts over.
    pub(super) fn progress(&mut self) {
        (self.made, self.since) = (1, Instant::now());
    }

    /// Waits before the next attempt at `url`, for `at_least` or longer. Returns false if the deadline comes
    /// first.
    pub(super) async fn again(&mut self, url: &str, reason: &str, at_least: Duration) -> bool {
        let pause = self.pause(RandomState::new().hash_one(self.made)).max(at_least);
        let (attempt, wait) = (self.made, pause.as_secs_f64());
        let left = Duration::from_secs_f64(self.config.deadline).saturating_sub(self.since.elapsed());
        if pause > left {
            tracing::warn!(url, attempt, reason, "a request failed, and its deadline has passed");
            return false;
        }
        tracing::warn!(url, attempt, reason, wait, "a request failed and is made again");
        self.made += 1;
        tokio::time::sleep(pause).await;
        true
    }

    /// The wait before the next attempt. A random part of it, up to half, is left out, so that many clients
    /// do not come back together.
    fn pause(&self, random: u64) -> Duration {
        let doublings = self.made.saturating_sub(1).min(30);
        let full = (self.config.backoff * f64::from(1_u32 << doublings)).min(self.config.backoff_max);
        let share = 1.0 - random as f64 / u64::MAX as f64 / 2.0;
        Duration::from_secs_f64(full * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_bound() {
        let config = StoreConfig { backoff: 0.5, backoff_max: 3.0, ..StoreConfig::default() };
        let mut attempts = Attempts::new(&config);
        let waits: Vec<[f64; 2]> = (1..=40)
            .map(|made| {
                attempts.made = made;
                [u64::MAX, 0].map(|random| attempts.pause(random).as_secs_f64())
            })
            .collect();
        assert_eq!(waits[..4], [[0.25, 0.5], [0.5, 1.0], [1.0, 2.0], [1.5, 3.0]]);
        assert!(waits[4..].iter().all(|wait| *wait == [1.5, 3.0]));
    }

    #[tokio::test]
    async fn ends_at_the_deadline_and_starts_again_with_progress() {
        let config =
            StoreConfig { deadline: 0.2, backoff: 0.05, backoff_max: 0.05, ..StoreConfig::default() };
        let mut attempts = Attempts::new(&config);
        let mut made = 0;
        while attempts.again("u", "r", Duration::ZERO).await {
            made += 1;
        }
        assert!((2..9).contains(&made), "{made}");
        attempts.progress();
        assert!(attempts.again("u", "r", Duration::ZERO).await);
        assert!(
            !attempts.again("u", "r", Duration::from_secs(1)).await,
            "the server asks for more than there is"
        );
    }
}
