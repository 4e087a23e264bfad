//! Processes that are watched, and killed when it is time.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::wait::PATIENCE;

/// How often processes are looked at.
const GLANCE: Duration = Duration::from_millis(1);

/// A process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    complaints: PathBuf,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Done,
    Killed,
    /// By itself, with an error that it has said.
    Failed(String),
}

impl Process {
    /// Starts a process. What it says on standard error goes to the file `complaints`.
    pub(crate) fn start(mut command: Command, complaints: PathBuf) -> Self {
        let stderr = File::create(&complaints).expect("a file");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr);
        Self { child: command.spawn().expect("it starts"), complaints }
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
    }

    /// How it has ended; `None` if it runs.
    ///
    /// # Panics
    /// If it panicked, or ended in another way than the program does.
    pub(crate) fn ending(&mut self, failed: i32) -> Option<Ending> {
        let status = self.child.try_wait().expect("it can be asked")?;
        let said = std::fs::read(&self.complaints).expect("what it said");
        let said = String::from_utf8_lossy(&said).into_owned();
        Some(judge(status, said, failed))
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

fn judge(status: ExitStatus, said: String, failed: i32) -> Ending {
    assert!(!said.contains("panicked"), "a process panicked: {said}");
    match (status.code(), status.signal()) {
        (Some(0), _) => Ending::Done,
        (_, Some(9)) => Ending::Killed,
        (Some(code), _) if code == failed => {
            let error = said.lines().rfind(|line| line.starts_with("error: "));
            Ending::Failed(error.unwrap_or_else(|| panic!("it failed without a word: {said}")).to_owned())
        }
        _ => panic!("a process ended with {status}: {said}"),
    }
}

/// When to kill processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    /// So long after their start.
    After(Duration),
    /// So long after they have made so much of what is counted.
    Made(u64, Duration),
}

/// Waits until all have ended, or kills them at `moment`, the later ones a little later. `made` counts what they
/// make. Returns how they ended, in their order.
///
/// # Panics
/// If nothing is made for minutes.
pub(crate) fn watch(
    processes: &mut [Process],
    moment: Option<Moment>,
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
        if strike.is_some_and(|strike| strike <= Instant::now()) && victims < processes.len() {
            processes[victims].kill();
            victims += 1;
        } else if last.elapsed() > PATIENCE {
            let said: Vec<String> = processes.iter().map(Process::said).collect();
            panic!("nothing came for {PATIENCE:?}: {said:?}");
        }
        std::thread::sleep(GLANCE);
    }
}
