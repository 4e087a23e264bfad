//! What this process knows of servers, by host and port: the times that they have asked for, and which do not answer.
//!
//! One request is told to wait, and all that go to its server do. One request waits in vain until its deadline, and those
//! after it fail at once: over many files and sources, the waits do not add up.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::threads::lock;

/// The longest wait that a server is granted.
pub(super) const MOST: Duration = Duration::from_secs(600);

/// How long a server that has not answered is left alone: as long as the rest of a program needs to hear of it.
const LEFT_ALONE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Host {
    /// When it may be asked again.
    until: Option<Instant>,
    /// When it last gave an answer that was no trouble.
    answered: Option<Instant>,
    /// When a request last failed for good, and why.
    dead: Option<(Instant, String)>,
}

static HOSTS: Mutex<BTreeMap<String, Host>> = Mutex::new(BTreeMap::new());

/// Notes that a server asked to wait, unless it asks for too much: then its request fails, and others may try.
pub(super) fn pause(host: &str, by: Duration) {
    if !by.is_zero() && by <= MOST {
        let mut hosts = lock(&HOSTS);
        let until = &mut hosts.entry(host.to_owned()).or_default().until;
        *until = (*until).max(Some(Instant::now() + by));
    }
}

/// Waits until a server may be asked.
///
/// # Errors
/// Why it has not answered, if that was just now.
pub(super) async fn wait(host: &str) -> Result<(), String> {
    loop {
        let left = match lock(&HOSTS).get(host) {
            Some(Host { dead: Some((at, reason)), .. }) if at.elapsed() < LEFT_ALONE => {
                return Err(reason.clone());
            }
            host => host.and_then(|host| host.until?.checked_duration_since(Instant::now())),
        };
        let Some(left) = left else { return Ok(()) };
        tokio::time::sleep(left).await;
    }
}

/// Notes that a server has answered.
pub(super) fn answered(host: &str) {
    let mut hosts = lock(&HOSTS);
    let host = hosts.entry(host.to_owned()).or_default();
    (host.answered, host.dead) = (Some(Instant::now()), None);
}

/// Notes that a request has failed for good, unless the server has answered another one since it began.
pub(super) fn failed(host: &str, began: Instant, reason: &str) {
    let mut hosts = lock(&HOSTS);
    let host = hosts.entry(host.to_owned()).or_default();
    if host.answered.is_none_or(|answered| answered < began) {
        host.dead = Some((Instant::now(), reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_gave_no_answer_is_left_alone_until_it_gives_one() {
        let (host, began) = ("dead.invalid:1", Instant::now());
        assert_eq!(wait(host).await, Ok(()));
        failed(host, began, "silence");
        assert_eq!(wait(host).await, Err("silence".to_owned()));
        answered(host);
        assert_eq!(wait(host).await, Ok(()));
        failed(host, began, "silence");
        assert_eq!(wait(host).await, Ok(()), "it has answered another request meanwhile");
    }
}
