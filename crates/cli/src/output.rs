//! Standard output and standard error, whose readers may stop reading.
//!
//! A full pipe or terminal blocks the program until somebody reads. That ends when the program is asked to stop: a
//! second later, unread output is dropped, so that a run saves and ends within the time that a scheduler gives it.

use std::io::{Result, stderr, stdout};

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
pub(super) use unix::{hear, hear_of_it};

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{Error, ErrorKind, Result, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, LazyLock, OnceLock};
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// How long a reader has after the program was asked to stop.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// How often a blocked write checks for a request to stop.
    const APART: Duration = Duration::from_millis(50);

    /// How long a write waits for more room.
    const MOMENT: Duration = Duration::from_millis(1);

    /// How many bytes a pipe takes at once when it is ready: Linux's PIPE_BUF.
    const PIECE: usize = 4096;

    /// Set by the signal handler: the threads of the runtime may all wait for a reader.
    static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

    /// Lets `signal` end the wait for readers. Its other handlers stay.
    pub(crate) fn hear(signal: i32) -> Result<()> {
        signal_hook::flag::register(signal, ASKED.clone()).map(drop)
    }

    /// The program was asked to stop.
    pub(crate) fn hear_of_it() {
        ASKED.store(true, Ordering::Relaxed);
    }

    pub(super) fn write(mut out: impl Write + AsFd, bytes: &[u8]) -> Result<()> {
        if let Some(own) = opened_anew(out.as_fd()) {
            return write_what_fits(own, bytes);
        }
        for piece in bytes.chunks(PIECE) {
            wait(out.as_fd())?;
            out.write_all(piece)?;
            out.flush()?;
        }
        Ok(())
    }

    /// The same pipe or terminal, with writes that fail instead of waiting. Checking that it is ready is not enough: a
    /// terminal is ready if it has room for one byte, and another program may fill a pipe first.
    ///
    /// It is opened a second time, because the standard streams are shared with programs that rely on waiting. `None` for
    /// other outputs, and if the system refuses, as for the terminal of another user.
    #[cfg(target_os = "linux")]
    fn opened_anew(out: BorrowedFd<'_>) -> Option<File> {
        use std::fs::metadata;
        use std::io::IsTerminal;
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
        let path = format!("/proc/self/fd/{}", out.as_raw_fd());
        if !out.is_terminal() && !metadata(&path).is_ok_and(|found| found.file_type().is_fifo()) {
            return None;
        }
        File::options().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()
    }

    /// Other systems open the same description again.
    #[cfg(not(target_os = "linux"))]
    fn opened_anew(_: BorrowedFd<'_>) -> Option<File> {
        None
    }

    /// Writes to an output whose writes do not wait.
    fn write_what_fits(mut out: File, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            wait(out.as_fd())?;
            match out.write(&bytes[..bytes.len().min(PIECE)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => bytes = &bytes[taken..],
                Err(e) if e.kind() == ErrorKind::WouldBlock && left().is_zero() => return Err(unread()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(MOMENT),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn wait(out: BorrowedFd<'_>) -> Result<()> {
        loop {
            let left = left();
            let timeout = PollTimeout::try_from(left.min(APART)).unwrap_or(PollTimeout::ZERO);
            match poll(&mut [PollFd::new(out, PollFlags::POLLOUT)], timeout) {
                Ok(0) if left.is_zero() => return Err(unread()),
                Ok(0) | Err(Errno::EINTR) => {}
                // The write reports an error.
                _ => return Ok(()),
            }
        }
    }

    fn unread() -> Error {
        Error::new(ErrorKind::BrokenPipe, "nobody reads it")
    }

    /// How much longer a write may wait for its reader.
    fn left() -> Duration {
        static SINCE: OnceLock<Instant> = OnceLock::new();
        match ASKED.load(Ordering::Relaxed) {
            true => PATIENCE.saturating_sub(SINCE.get_or_init(Instant::now).elapsed()),
            false => Duration::MAX,
        }
    }
}
