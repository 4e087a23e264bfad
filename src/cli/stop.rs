//! Requests to stop the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_stream::Stream;

use super::{INTERRUPTED, progress};

/// Ready on the first request to stop. Requests are caught from the call on, not only once the future is polled.
pub(super) fn requested() -> impl Future<Output = ()> + Send + 'static {
    use tokio_stream::StreamExt;
    let requests = requests();
    async move {
        match requests {
            Ok(mut requests) => drop(requests.next().await),
            // Without a handler the system's default stays: the program stops at once.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Ready on the first request to stop, which it answers with `line`. A second request ends the program at once.
/// Requests are caught from the call on.
pub(super) fn announced(line: &'static str) -> impl Future<Output = ()> + Send + 'static {
    use tokio_stream::StreamExt;
    let requests = requests();
    async move {
        let Ok(mut requests) = requests else {
            // Without a handler the system's default stays: the program stops at once.
            return std::future::pending().await;
        };
        requests.next().await;
        progress::say(line);
        tokio::spawn(async move {
            requests.next().await;
            std::process::exit(INTERRUPTED.into());
        });
    }
}

/// Set by the first request to stop. Requests are caught from the call on.
pub(super) fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    tokio::spawn({
        let (flag, requested) = (flag.clone(), requested());
        async move {
            requested.await;
            flag.store(true, Ordering::Relaxed);
        }
    });
    flag
}

/// An item for each Ctrl-C and each SIGTERM. Schedulers send SIGTERM before they take a machine away.
#[cfg(unix)]
pub(super) fn requests() -> std::io::Result<impl Stream<Item = ()> + Unpin> {
    use tokio::signal::unix::{SignalKind, signal};
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::SignalStream;
    let interrupts = SignalStream::new(signal(SignalKind::interrupt())?);
    Ok(interrupts.merge(SignalStream::new(signal(SignalKind::terminate())?)))
}

/// An item for each Ctrl-C.
#[cfg(windows)]
pub(super) fn requests() -> std::io::Result<impl Stream<Item = ()> + Unpin> {
    Ok(tokio_stream::wrappers::CtrlCStream::new(tokio::signal::windows::ctrl_c()?))
}
