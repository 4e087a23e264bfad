//! Waiting for what is to be seen: no test depends on how fast the machine is.

use std::time::{Duration, Instant};

/// How long a test waits for what must come, before it fails: far longer than it takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Looks again and again until there is something; fails with `what` if it never comes.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// [`wait_for`], for a task: the runtime's other tasks go on.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a future gives; fails if it hangs.
pub(crate) async fn ends<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it does not hang")
}
