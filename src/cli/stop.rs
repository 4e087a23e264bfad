//! Requests to stop the program: Ctrl-C, SIGTERM, and SIGHUP when the terminal or the connection is gone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::channel::oneshot;
use futures::future::select;
use futures::stream::{self, BoxStream, StreamExt};

use super::{INTERRUPTED, progress};

/// Requests to stop, which are caught as long as the program runs.
struct Requests {
    /// An item for each Ctrl-C and each SIGTERM. Schedulers send SIGTERM before they take a machine away.
    asked: BoxStream<'static, ()>,
    /// An item for each SIGHUP.
    hung_up: BoxStream<'static, ()>,
    /// Whether the first request was one of `asked`.
    was_asked: bool,
}

impl Requests {
    /// Ready on the first request of any kind.
    async fn first(&mut self) {
        self.was_asked = {
            let first = select(self.asked.next(), self.hung_up.next()).await;
            matches!(first, futures::future::Either::Left(_))
        };
    }

    /// Ready when somebody insists, after the first request. SIGHUP is not counted: the system, the shell and the
    /// session's manager may each send one for the same closed terminal, and SIGTERM with it.
    async fn second(&mut self) {
        if !self.was_asked {
            self.asked.next().await;
        }
        self.asked.next().await;
    }
}

/// Ready on the first request to stop. Requests are caught from the call on, not only once the future is polled.
pub(super) fn requested() -> impl Future<Output = ()> + Send + 'static {
    let requests = requests();
    async move {
        match requests {
            Ok(mut requests) => requests.first().await,
            // Without a handler the system's default stays: the program stops at once.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Ready on the first request to stop, which is answered with `line`, if there is one. A second request ends the program
/// at once, after `last`. Requests are caught from the call on, and both are answered even while nobody polls what is returned.
pub(super) fn announced(
    line: Option<&'static str>,
    last: impl FnOnce() + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let requests = requests();
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        // Without a handler the system's default stays: the program stops at once.
        let Ok(mut requests) = requests else { return std::future::pending().await };
        requests.first().await;
        line.into_iter().for_each(progress::say);
        // Whoever waited for it may be gone.
        let _ = stop.send(());
        requests.second().await;
        last();
        std::process::exit(INTERRUPTED.into());
    });
    async move {
        // The sender is kept as long as the program runs.
        let _ = stopped.await;
    }
}

/// Set when `requested` is ready.
pub(super) fn flag(requested: impl Future<Output = ()> + Send + 'static) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    tokio::spawn({
        let flag = flag.clone();
        async move {
            requested.await;
            flag.store(true, Ordering::Relaxed);
        }
    });
    flag
}

/// Catches requests to stop from the call on.
#[cfg(unix)]
fn requests() -> io::Result<Requests> {
    use tokio::signal::unix::{SignalKind, signal};
    use tokio_stream::wrappers::SignalStream;
    let caught = |kind| Ok::<_, io::Error>(SignalStream::new(signal(kind)?).boxed());
    // Looked up before it is caught. A program under `nohup` goes on without its terminal.
    let hung_up = match hang_ups_end_it() {
        true => caught(SignalKind::hangup())?,
        false => stream::pending().boxed(),
    };
    let asked = stream::select(caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?).boxed();
    Ok(Requests { asked, hung_up, was_asked: false })
}

/// Catches requests to stop from the call on.
#[cfg(windows)]
fn requests() -> io::Result<Requests> {
    let asked = tokio_stream::wrappers::CtrlCStream::new(tokio::signal::windows::ctrl_c()?).boxed();
    Ok(Requests { asked, hung_up: stream::pending().boxed(), was_asked: false })
}

/// Whether SIGHUP ended the program when it started. The kernel says so on Linux. Elsewhere only an unsafe call does, so
/// SIGHUP stays as it is there.
#[cfg(unix)]
fn hang_ups_end_it() -> bool {
    use std::sync::OnceLock;
    static AT_START: OnceLock<bool> = OnceLock::new();
    *AT_START.get_or_init(|| {
        let ignored = crate::process::status("SigIgn");
        ignored.and_then(|ignored| has_hang_ups(&ignored)) == Some(false)
    })
}

/// Whether SIGHUP is one of the signals of a mask, as `/proc/self/status` writes it.
#[cfg(unix)]
fn has_hang_ups(mask: &str) -> Option<bool> {
    let mask = u64::from_str_radix(mask, 16).ok()?;
    Some(mask & 1 << (nix::sys::signal::Signal::SIGHUP as u32 - 1) != 0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_whether_hang_ups_are_ignored() {
        assert_eq!(has_hang_ups("0000000000001001"), Some(true));
        assert_eq!(has_hang_ups("0000000000001000"), Some(false));
        assert_eq!(has_hang_ups("many"), None);
    }
}
