//! The parent's side of one child: starts it, watches its log grow, and kills it.
//!
//! On Unix each child has its own process group, and a kill is for the whole group: a loader's worker processes may
//! outlive the process that started them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::log::{Delivered, Reader};
use super::orders::{ORDERS, Orders, refusal};
use crate::error::{Error, Result};

/// How often a child is checked.
const GLANCE: Duration = Duration::from_millis(1);

/// How many lines of a failed child's output are quoted.
const LAST_LINES: usize = 8;

/// The common settings of a run's children.
#[derive(Debug)]
pub(super) struct Nursery<'a> {
    pub(super) program: &'a Path,
    pub(super) args: &'a [String],
    /// How long a child may take for a batch.
    pub(super) patience: Duration,
    /// Set from outside to interrupt the run.
    pub(super) stop: &'a AtomicBool,
}

/// A process that logs batches. Dropping it kills it and its child processes, and removes its files.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    how: String,
    log: PathBuf,
    /// The first batch of any loader.
    any_from: Option<u64>,
    complaints: PathBuf,
    watched: File,
    batches: u64,
    last_seen: Instant,
}

impl Nursery<'_> {
    /// Starts a child. `how` says in words how it runs. Its orders and its output are stored beside its log.
    pub(super) fn spawn(&self, how: impl Into<String>, orders: &Orders) -> Result<Child> {
        let (log, how) = (orders.log.clone(), how.into());
        let (told, complaints) = (log.with_extension("orders"), log.with_extension("stderr"));
        let json = serde_json::to_vec(orders).map_err(|e| Error::io(&told, "write", e.into()))?;
        std::fs::write(&told, json).map_err(|e| Error::io(&told, "write", e))?;
        // The log exists before the child, so that it can be watched from the start.
        File::create(&log).map_err(|e| Error::io(&log, "create", e))?;
        let watched = File::open(&log).map_err(|e| Error::io(&log, "read", e))?;
        let stderr = File::create(&complaints).map_err(|e| Error::io(&complaints, "create", e))?;
        let process = in_a_group(&mut Command::new(self.program))
            .args(self.args)
            .env(ORDERS, &told)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|e| Error::io(self.program, "run", e))?;
        let any_from = orders.config.is_none().then_some(orders.loader.from);
        Ok(Child { process, how, log, any_from, complaints, watched, batches: 0, last_seen: Instant::now() })
    }

    /// Waits until all children are done.
    pub(super) fn finish(&self, children: &mut [Child]) -> Result<()> {
        for child in children {
            self.watch(child, |_| false)?;
        }
        Ok(())
    }

    /// Waits until the number of batches that the child has logged is `enough`. Returns false if the child ended
    /// before.
    pub(super) fn watch(&self, child: &mut Child, enough: impl Fn(u64) -> bool) -> Result<bool> {
        loop {
            let ended = child.has_ended()?;
            if ended || enough(child.batches()?) {
                return Ok(!ended);
            }
            if child.last_seen.elapsed() > self.patience {
                let why = match child.any_from {
                    None => {
                        "ranks of a finite config wait at their end until the whole corpus is counted: if yours needs longer"
                    }
                    Some(_) => "if your loader needs longer to open or to go on",
                };
                return Err(
                    child.error(&format!("no batch came for {:?}; {why}, raise the patience", self.patience))
                );
            }
            self.rest(GLANCE)?;
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps.
    pub(super) fn rest(&self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        match self.is_stopped() {
            true => Err(Error::Verify { problem: "interrupted".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Child {
    /// The number of whole lines in the log.
    fn batches(&mut self) -> Result<u64> {
        let mut news = Vec::new();
        self.watched.read_to_end(&mut news).map_err(|e| Error::io(&self.log, "read", e))?;
        if !news.is_empty() {
            self.last_seen = Instant::now();
        }
        self.batches += memchr::memchr_iter(b'\n', &news).count() as u64;
        Ok(self.batches)
    }

    /// Whether it has done everything it was ordered to do.
    fn has_ended(&mut self) -> Result<bool> {
        let status = self.process.try_wait().map_err(|e| self.lost(e))?;
        status.map_or(Ok(false), |status| self.judge(status).map(|()| true))
    }

    /// Kills it and its child processes (SIGKILL). Returns whether it was still running.
    pub(super) fn kill(&mut self) -> Result<bool> {
        if self.has_ended()? {
            return Ok(false);
        }
        kill_group(&mut self.process).map_err(|e| self.lost(e))?;
        let status = self.process.wait().map_err(|e| self.lost(e))?;
        // It may have ended at the last moment.
        if was_killed(status) { Ok(true) } else { self.judge(status).map(|()| false) }
    }

    pub(super) fn delivered(&self) -> Result<Reader> {
        Reader::open(&self.log, self.any_from)
    }

    /// Why it did not continue from the saved states, if it did not.
    pub(super) fn refused(&self) -> Option<String> {
        std::fs::read_to_string(refusal(&self.log)).ok()
    }

    pub(super) fn last(&self) -> Result<Option<Delivered>> {
        let mut last = None;
        for delivered in self.delivered()? {
            last = Some(delivered?);
        }
        Ok(last)
    }

    fn judge(&self, status: ExitStatus) -> Result<()> {
        if status.success() { Ok(()) } else { Err(self.error(&format!("the child failed ({status})"))) }
    }

    fn lost(&self, error: std::io::Error) -> Error {
        self.error(&format!("the child is lost: {error}"))
    }

    /// An error with the child's last output.
    fn error(&self, problem: &str) -> Error {
        let said = std::fs::read(&self.complaints).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // A backtrace, if the child prints one, follows the error.
        let lines: Vec<&str> = said.lines().take_while(|line| *line != "stack backtrace:").collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        Error::Verify { problem: format!("{}: {problem}; it said:\n  {last}", self.how) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A child that has ended needs neither. If a file is left, the run removes it with its directory.
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = kill_group(&mut self.process);
            let _ = self.process.wait();
        }
        for path in [&self.log, &refusal(&self.log), &self.log.with_extension("orders"), &self.complaints] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Gives the process a group of its own.
#[cfg(unix)]
fn in_a_group(command: &mut Command) -> &mut Command {
    std::os::unix::process::CommandExt::process_group(command, 0)
}

#[cfg(not(unix))]
fn in_a_group(command: &mut Command) -> &mut Command {
    command
}

/// Kills a process that nobody has waited for yet, and all of its group.
#[cfg(unix)]
fn kill_group(process: &mut std::process::Child) -> std::io::Result<()> {
    use nix::sys::signal::{Signal, killpg};
    Ok(killpg(nix::unistd::Pid::from_raw(process.id() as i32), Signal::SIGKILL)?)
}

#[cfg(not(unix))]
fn kill_group(process: &mut std::process::Child) -> std::io::Result<()> {
    process.kill()
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}
