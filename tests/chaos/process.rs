//! Processes that are watched, and killed or asked to stop when it is time.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::wait::PATIENCE;

/// How often processes are looked at.
const GLANCE: Duration = Duration::from_millis(1);

/// A process whose output nobody reads stands, and is struck, when it makes nothing for so long.
const STANDS: Duration = Duration::from_millis(500);

/// Requests to stop that come so soon after each other are one.
const SAME: Duration = Duration::from_secs(1);

/// What a pipe that is ready takes at once, in bytes.
const PAGE: usize = 4096;

/// The program's exit codes when it has saved all, and when nobody reads its results.
const SAVED: i32 = 130;
const UNREAD: i32 = 141;

/// The signals that ask the program to stop.
pub(crate) const REQUESTS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1];

/// A process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    complaints: PathBuf,
    /// When it was first asked to stop.
    asked: Option<Instant>,
    /// The reader of the output that nobody reads.
    unread: Option<PipeReader>,
}

/// An output that goes to a pipe with room for so many pages, which nobody reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread {
    pub(crate) is_stderr: bool,
    pub(crate) pages: usize,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Done,
    Killed,
    /// By itself, with an error that it has said.
    Failed(String),
    /// As it was asked to, with all saved.
    Stopped,
    /// By a request to stop that came before it could hear it.
    Deaf,
    /// With results that nobody reads.
    Unread,
}

impl Process {
    /// Starts a process. What it says on standard error goes to the file `complaints`.
    pub(crate) fn start(mut command: Command, complaints: PathBuf, unread: Option<Unread>) -> Self {
        let stderr = File::create(&complaints).expect("a file");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr);
        let unread = unread.map(|Unread { is_stderr, pages }| {
            let (reader, writer) = full_pipe(pages);
            if is_stderr {
                command.stderr(writer)
            } else {
                command.stdout(writer)
            };
            reader
        });
        Self { child: command.spawn().expect("it starts"), complaints, asked: None, unread }
    }

    /// Kills it, or asks it to stop.
    fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::Kill => self.child.kill().expect("it can be killed"),
            Blow::Ask(first, second) => {
                self.asked = Some(Instant::now());
                self.send(first);
                if let Some((rest, second)) = second {
                    std::thread::sleep(rest);
                    self.send(second);
                }
            }
        }
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it is there");
    }

    /// How it has ended; `None` if it runs.
    ///
    /// # Panics
    /// If it panicked, or ended in another way than the program does.
    pub(crate) fn ending(&mut self, failed: i32) -> Option<Ending> {
        let status = self.child.try_wait().expect("it can be asked")?;
        Some(self.judge(status, failed))
    }

    fn judge(&self, status: ExitStatus, failed: i32) -> Ending {
        let said = self.said();
        assert!(!said.contains("panicked"), "a process panicked: {said}");
        match (status.code(), status.signal()) {
            (Some(0), _) => Ending::Done,
            (_, Some(9)) => Ending::Killed,
            (Some(SAVED), _) if self.asked.is_some() => Ending::Stopped,
            (Some(UNREAD), _) if self.unread.is_some() => Ending::Unread,
            (_, Some(signal)) if self.asked.is_some() && REQUESTS.iter().any(|it| *it as i32 == signal) => {
                Ending::Deaf
            }
            (Some(code), _) if code == failed => {
                let is_hurt = said.contains("stopped at once, as was asked");
                assert!(
                    !is_hurt || self.asked.is_some_and(|asked| asked.elapsed() >= SAME),
                    "two requests: {said}"
                );
                let error = said
                    .lines()
                    .rfind(|line| line.starts_with("error: ") || line.starts_with("stopped at once"));
                // What it said may be in the pipe that nobody reads.
                assert!(error.is_some() || self.unread.is_some(), "it failed without a word: {said}");
                Ending::Failed(error.unwrap_or_default().to_owned())
            }
            _ => panic!("a process ended with {status}: {said}"),
        }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.complaints).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe with room for so many pages.
fn full_pipe(pages: usize) -> (PipeReader, PipeWriter) {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let is_ready = |writer: &PipeWriter| {
        poll(&mut [PollFd::new(writer.as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO)
            .expect("it can be asked")
            > 0
    };
    while is_ready(&writer) {
        writer.write_all(&[b'.'; PAGE]).expect("it takes them");
    }
    reader.read_exact(&mut vec![0; pages * PAGE]).expect("they are there");
    (reader, writer)
}

/// How to end processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blow {
    Kill,
    /// With a request to stop, and perhaps another one so long after it.
    Ask(Signal, Option<(Duration, Signal)>),
}

/// When to end processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    /// So long after their start.
    After(Duration),
    /// So long after they have made so much of what is counted.
    Made(u64, Duration),
}

/// Waits until all have ended, or ends them at a moment, the later ones a little later. `made` counts what they make.
/// Returns how they ended, in their order.
///
/// # Panics
/// If nothing is made for minutes.
pub(crate) fn watch(
    processes: &mut [Process],
    (moment, blow): (Option<Moment>, Blow),
    failed: i32,
    mut made: impl FnMut() -> u64,
) -> Vec<Ending> {
    let (began, mut before, mut last) = (Instant::now(), 0, Instant::now());
    let mut endings: Vec<Option<Ending>> = processes.iter().map(|_| None).collect();
    let mut strike: Option<Instant> = match moment {
        Some(Moment::After(time)) => Some(began + time),
        _ => None,
    };
    let mut victims = 0;
    loop {
        for (process, ending) in processes.iter_mut().zip(&mut endings) {
            *ending = ending.take().or_else(|| process.ending(failed));
        }
        if endings.iter().all(Option::is_some) {
            return endings.into_iter().flatten().collect();
        }
        let now = made();
        if now != before {
            (before, last) = (now, Instant::now());
        }
        if let (Some(Moment::Made(enough, rest)), None) = (moment, strike)
            && now >= enough
        {
            strike = Some(Instant::now() + rest);
        }
        // Who starts the ranks of a world ends them all when one has failed.
        if endings.iter().flatten().any(|ending| matches!(ending, Ending::Failed(_))) {
            strike = Some(began);
        }
        let stands = last.elapsed() > STANDS && processes.iter().any(|process| process.unread.is_some());
        if (stands || strike.is_some_and(|strike| strike <= Instant::now())) && victims < processes.len() {
            if endings[victims].is_none() {
                processes[victims].strike(blow);
            }
            victims += 1;
        } else if last.elapsed() > PATIENCE {
            let said: Vec<String> = processes.iter().map(Process::said).collect();
            panic!("nothing came for {PATIENCE:?}: {said:?}");
        }
        std::thread::sleep(GLANCE);
    }
}
