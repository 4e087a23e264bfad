//! Retries: how long to wait before each, and when to give up.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::hosts::MOST;
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

    /// How long the next attempt may be silent: as long as any, and not beyond the deadline, unless the server has asked to
    /// wait until then.
    pub(super) fn patience(&self) -> Duration {
        let (most, left) = (self.config.silence(), self.left(self.since.elapsed()));
        if left.is_zero() { most } else { most.min(left) }
    }

    /// Notes progress: the deadline starts over.
    pub(super) fn progress(&mut self) {
        (self.made, self.since) = (1, Instant::now());
    }

    /// Waits before the next attempt at `url`, for `at_least` or longer. Returns false if the deadline comes
    /// first. What the server asks for may end after the deadline.
    pub(super) async fn again(&mut self, url: &str, reason: &str, at_least: Duration) -> bool {
        let (attempt, random) = (self.made, RandomState::new().hash_one(self.made));
        let Some(pause) = self.begin(random, at_least, self.since.elapsed()) else {
            tracing::warn!(url, attempt, reason, "a request failed, and its deadline has passed");
            return false;
        };
        let wait = pause.as_secs_f64();
        tracing::warn!(url, attempt, reason, wait, "a request failed and is made again");
        tokio::time::sleep(pause).await;
        true
    }

    /// Counts another attempt, `spent` after the first one or the last progress, and returns the wait before it.
    /// Returns `None` if the deadline comes first.
    fn begin(&mut self, random: u64, at_least: Duration, spent: Duration) -> Option<Duration> {
        let pause = self.pause(random).max(at_least);
        let left = self.left(spent);
        // A server that says how long to wait is not silent.
        let is_granted = !at_least.is_zero() && at_least <= MOST && !left.is_zero();
        if pause > left && !is_granted {
            return None;
        }
        self.made += 1;
        Some(pause)
    }

    fn left(&self, spent: Duration) -> Duration {
        Duration::from_secs_f64(self.config.deadline).saturating_sub(spent)
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

    #[test]
    fn ends_at_the_deadline_and_starts_again_with_progress() {
        let config = StoreConfig { deadline: 10.0, backoff: 1.0, backoff_max: 4.0, ..StoreConfig::default() };
        let mut attempts = Attempts::new(&config);
        for _ in 0..2 {
            let (mut waits, mut spent) = (Vec::new(), Duration::ZERO);
            while let Some(wait) = attempts.begin(0, Duration::ZERO, spent) {
                waits.push(wait.as_secs());
                spent += wait;
            }
            assert_eq!(waits, [1, 2, 4], "the next one would come after the deadline");
            attempts.progress();
        }
        let asked = Duration::from_secs;
        assert_eq!(attempts.begin(0, asked(6), asked(3)), Some(asked(6)), "the server is obeyed");
        assert_eq!(attempts.begin(0, asked(8), asked(3)), Some(asked(8)), "also beyond the deadline");
        assert_eq!(attempts.begin(0, asked(8), asked(10)), None, "the deadline has passed");
        assert_eq!(attempts.begin(0, MOST + asked(1), asked(3)), None, "the server asks for too much");
    }

    #[test]
    fn an_attempt_ends_with_the_deadline_and_goes_on_if_the_server_has_asked_to_wait() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("a time");
        for (timeout, spent, patience) in
            [(30.0, 0, 10), (4.0, 0, 4), (4.0, 7, 3), (4.0, 11, 4), (30.0, 11, 10)]
        {
            let config = StoreConfig { deadline: 10.0, timeout, ..StoreConfig::default() };
            let attempts = Attempts { since: ago(spent), ..Attempts::new(&config) };
            let found = attempts.patience().as_secs_f64().round();
            assert_eq!(found, f64::from(patience), "{timeout} {spent}");
        }
    }

    #[tokio::test]
    async fn time_counts_from_the_last_progress() {
        let wait = Duration::from_micros(1);
        let (backoff, backoff_max) = (wait.as_secs_f64(), wait.as_secs_f64());
        let short = StoreConfig { deadline: 0.005, backoff, backoff_max, ..StoreConfig::default() };
        let mut attempts = Attempts::new(&short);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!attempts.again("u", "r", Duration::ZERO).await, "the deadline has passed");
        let before = Instant::now();
        attempts.progress();
        assert!(attempts.since >= before);

        let long = StoreConfig { deadline: 86_400.0, backoff, backoff_max, ..StoreConfig::default() };
        let mut attempts = Attempts::new(&long);
        assert!(attempts.again("u", "r", Duration::ZERO).await);
        assert_eq!(attempts.made, 2);
        assert!(!attempts.again("u", "r", Duration::from_secs(86_401)).await);
        assert_eq!(attempts.made, 2);
    }
}
