//! Requests to stop the program: Ctrl-C, SIGTERM, SIGUSR1, and SIGHUP when the terminal or the connection is gone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::future::select;
use futures::stream::{self, BoxStream, StreamExt};

use super::failure::{self, FAILED};
#[cfg(unix)]
use super::output;
use super::progress;

/// Requests that come so soon after the first are the same one: `timeout` sends two signals, and schedulers signal each
/// process of a group.
const SAME: Duration = Duration::from_secs(1);

/// Requests to stop, which are caught as long as the program runs.
struct Requests {
    /// An item for each Ctrl-C, each SIGTERM and each SIGUSR1. Schedulers send these before they take a machine away.
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
        #[cfg(unix)]
        output::hear_of_it();
    }

    /// Ready on a second request, after the first. SIGHUP does not count: the system, the shell and the session's manager
    /// may each send one for the same closed terminal, and SIGTERM with it.
    async fn second(&mut self) {
        if !self.was_asked {
            self.asked.next().await;
        }
        let first = Instant::now();
        while self.asked.next().await.is_some() && first.elapsed() < SAME {}
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

/// The messages to whoever asks the program to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    /// The answer to the first request.
    pub(super) first: &'static str,
    /// The answer to a second request, which ends the program without saving.
    pub(super) second: &'static str,
    pub(super) json: bool,
}

/// Ready on the first request to stop. A second request ends the program at once, after `last`. Both are answered with
/// `words`, if there are any. Requests are caught and answered from the call on, even while nobody polls the future.
pub(super) fn announced(
    words: Option<Words>,
    last: impl FnOnce() + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let requests = requests();
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        // Without a handler the system's default stays: the program stops at once.
        let Ok(mut requests) = requests else { return std::future::pending().await };
        requests.first().await;
        // The receiver may be gone.
        let _ = stop.send(());
        if let Some(words) = words {
            progress::say(words.first);
        }
        requests.second().await;
        last();
        let code = words.map_or(FAILED, |words| failure::stopped(words.second, words.json));
        std::process::exit(code.into());
    });
    async move {
        // The task keeps the sender as long as the program runs.
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
    // In this order, so that a signal in between is not lost: whoever hears of it tells the output.
    let caught = |kind: SignalKind| {
        let heard = SignalStream::new(signal(kind)?).boxed();
        output::hear(kind.as_raw_value())?;
        Ok::<_, io::Error>(heard)
    };
    // Asked before SIGHUP is caught. A program under `nohup` goes on without its terminal.
    let hung_up = match hang_ups_end_it() {
        true => caught(SignalKind::hangup())?,
        false => stream::pending().boxed(),
    };
    let asked = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::user_defined1()];
    let asked = asked.into_iter().map(caught).collect::<io::Result<Vec<_>>>()?;
    let asked = stream::select_all(asked).boxed();
    Ok(Requests { asked, hung_up, was_asked: false })
}

/// Catches requests to stop from the call on.
#[cfg(windows)]
fn requests() -> io::Result<Requests> {
    let asked = tokio_stream::wrappers::CtrlCStream::new(tokio::signal::windows::ctrl_c()?).boxed();
    Ok(Requests { asked, hung_up: stream::pending().boxed(), was_asked: false })
}

/// Whether SIGHUP would end the program, by the settings that it was started with. Linux tells it in a file. Elsewhere only
/// an unsafe call does, so SIGHUP is not caught there.
#[cfg(unix)]
fn hang_ups_end_it() -> bool {
    use std::sync::OnceLock;
    static AT_START: OnceLock<bool> = OnceLock::new();
    *AT_START.get_or_init(|| {
        let ignored = millstream::process::status("SigIgn");
        ignored.and_then(|ignored| has_hang_ups(&ignored)) == Some(false)
    })
}

/// Whether SIGHUP is in a mask of `/proc/self/status`.
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
