//! Runs a process for some time, and looks at what it takes.

use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What a process has at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Its own memory, and the pages of files that are mapped into it, which the system may take back; in bytes.
    pub(crate) own: u64,
    pub(crate) mapped: u64,
    pub(crate) threads: u64,
    pub(crate) files: u64,
}

impl Sample {
    /// The most of each that some samples have.
    fn most(samples: &[Self]) -> Self {
        let most = |of: fn(&Self) -> u64| samples.iter().map(of).max().unwrap_or_default();
        Self {
            own: most(|sample| sample.own),
            mapped: most(|sample| sample.mapped),
            threads: most(|sample| sample.threads),
            files: most(|sample| sample.files),
        }
    }

    /// Looks at a process; nothing if it has ended.
    fn of(process: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64;
        let mapped = number("RssFile:")? + number("RssShmem:")?;
        Some(Self {
            own: number("RssAnon:")? << 10,
            mapped: mapped << 10,
            threads: number("Threads:")?,
            files,
        })
    }
}

/// Runs a command for `time`, then interrupts it. Returns what it had `every` so often, and what it printed.
pub(crate) fn watch(command: &mut Command, time: Duration, every: Duration) -> (Vec<Sample>, String) {
    // A pipe that nobody reads would stop it after a while.
    let mut printed = tempfile::tempfile().expect("a file");
    let began = Instant::now();
    let mut child = command.stdout(printed.try_clone().expect("a handle")).spawn().expect("it starts");
    let mut samples = Vec::new();
    let has_ended = |child: &mut Child| child.try_wait().expect("it can be asked").is_some();
    while began.elapsed() < time && !has_ended(&mut child) {
        sleep(every);
        samples.extend(Sample::of(child.id()));
    }
    if !has_ended(&mut child) {
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it can be interrupted");
    }
    child.wait().expect("it ends");
    let mut report = String::new();
    printed.rewind().expect("it is a file");
    // Some programs print more than text.
    let _ = printed.read_to_string(&mut report);
    (samples, report)
}

/// Ten samples are one line of a file.
const LINE: usize = 10;

/// Appends what was seen to a file of comma-separated values, of which each line has the most of ten samples.
pub(crate) fn keep(path: &Path, what: &str, samples: &[Sample], every: Duration) -> std::io::Result<()> {
    let is_new = !path.exists();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    if is_new {
        writeln!(file, "what,second,own_kib,mapped_kib,threads,files")?;
    }
    for (nth, ten) in samples.chunks(LINE).enumerate() {
        let Sample { own, mapped, threads, files } = Sample::most(ten);
        let second = (every * (nth * LINE) as u32).as_secs();
        writeln!(file, "{what},{second},{},{},{threads},{files}", own >> 10, mapped >> 10)?;
    }
    Ok(())
}
