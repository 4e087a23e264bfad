//! Standard output and standard error, whose readers may stop reading.
//!
//! A full pipe holds the program up until somebody reads. That ends when the program is asked to stop: a second later, what
//! nobody takes is left out, so that a run saves and ends within the time that a scheduler gives it.

use std::io::{Result, stderr, stdout};

/// Writes to standard output.
pub(super) fn to_stdout(bytes: &[u8]) -> Result<()> {
    write(stdout(), bytes)
}

/// Writes to standard error.
pub(super) fn to_stderr(bytes: &[u8]) -> Result<()> {
    write(stderr(), bytes)
}

#[cfg(not(unix))]
fn write(mut out: impl std::io::Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes)
}

#[cfg(unix)]
use unix::write;
#[cfg(unix)]
pub(super) use unix::{hear, wait_for_stderr};

#[cfg(unix)]
mod unix {
    use std::io::{Error, ErrorKind, Result, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, LazyLock, OnceLock};
    use std::time::{Duration, Instant};

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// How long a reader has after the program was asked to stop.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// How often a request to stop is looked for.
    const APART: Duration = Duration::from_millis(50);

    /// What a pipe that is ready takes at once, in bytes: Linux's PIPE_BUF.
    const PIECE: usize = 4096;

    /// Set by the signals themselves: threads of the runtime may all wait for a reader, and then nothing else hears them.
    static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

    /// From now on `signal` asks the program to stop. Its other handlers stay.
    pub(in crate::cli) fn hear(signal: i32) -> Result<()> {
        signal_hook::flag::register(signal, ASKED.clone()).map(drop)
    }

    /// Waits until standard error takes something.
    pub(in crate::cli) fn wait_for_stderr() -> Result<()> {
        wait(std::io::stderr().as_fd())
    }

    pub(super) fn write(mut out: impl Write + AsFd, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(PIECE) {
            wait(out.as_fd())?;
            out.write_all(piece)?;
            out.flush()?;
        }
        Ok(())
    }

    fn wait(out: BorrowedFd<'_>) -> Result<()> {
        loop {
            let left = left();
            let timeout = PollTimeout::try_from(left.min(APART)).unwrap_or(PollTimeout::ZERO);
            match poll(&mut [PollFd::new(out, PollFlags::POLLOUT)], timeout) {
                Ok(0) if left.is_zero() => {
                    return Err(Error::new(ErrorKind::BrokenPipe, "nobody reads it"));
                }
                Ok(0) | Err(Errno::EINTR) => {}
                // An error is told by the write.
                _ => return Ok(()),
            }
        }
    }

    /// How long a reader still has.
    fn left() -> Duration {
        static SINCE: OnceLock<Instant> = OnceLock::new();
        match ASKED.load(Ordering::Relaxed) {
            true => PATIENCE.saturating_sub(SINCE.get_or_init(Instant::now).elapsed()),
            false => Duration::MAX,
        }
    }
}
