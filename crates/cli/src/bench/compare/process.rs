//! The parent's side of a child: starts it, reads its progress, ends it.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::program::program;
use millstream::{Error, Result};

use super::COMMAND;
use super::child::{Measured, Orders, Word};

/// How often the parent checks for a request to stop while it waits for a child.
const GLANCE: Duration = Duration::from_millis(20);

/// A process that is killed when it is dropped.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // Both fail if the child has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one child to its end. `taken` is told how many batches it has taken. None if `stop` was set meanwhile.
pub(super) fn run(
    orders: &Orders,
    stop: &AtomicBool,
    mut taken: impl FnMut(u64),
) -> Result<Option<Measured>> {
    let lost = |e| Error::io("a child of this program", "run", e);
    let mut complaints = tempfile::tempfile().map_err(lost)?;
    let mut command = program().child();
    command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
    // A terminal's signals go to the parent alone, which ends its children.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stderr(complaints.try_clone().map_err(lost)?);
    let mut child = Kept(command.spawn().map_err(lost)?);

    let mut input = child.0.stdin.take().ok_or_else(|| lost(std::io::ErrorKind::BrokenPipe.into()))?;
    let json = serde_json::to_string(orders).map_err(|e| lost(e.into()))?;
    // If the child has failed and closed its input, its last line says why.
    let _ = writeln!(input, "{json}");
    let output = child.0.stdout.take().ok_or_else(|| lost(std::io::ErrorKind::BrokenPipe.into()))?;
    let words = hear(BufReader::new(output));

    let mut measured = None;
    loop {
        match words.recv_timeout(GLANCE) {
            Ok(Word::Taken(batches)) => taken(batches),
            Ok(Word::Done(what)) => measured = Some(what),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    let status = child.0.wait().map_err(lost)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if let (true, Some(measured)) = (status.success(), measured) {
        return Ok(Some(measured));
    }
    let mut said = String::new();
    complaints.rewind().and_then(|()| complaints.read_to_string(&mut said)).map_err(lost)?;
    Err(Error::Train(format!("`{}` failed ({status}): {}", orders.way.name(), cause(&said))))
}

/// The reports of a child, read on a thread that ends with it. Other lines are skipped.
fn hear(output: impl BufRead + Send + 'static) -> Receiver<Word> {
    let (sender, words) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(|line| line.ok()) {
            if let Ok(word) = serde_json::from_str(&line)
                && sender.send(word).is_err()
            {
                return;
            }
        }
    });
    words
}

/// The error of a child: the last line that it printed.
fn cause(said: &str) -> String {
    let error = said.rfind("error: ").map(|at| &said[at + "error: ".len()..]);
    let last = || said.lines().last().unwrap_or("it said nothing");
    error.unwrap_or_else(last).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_what_was_said_as_an_error() {
        assert_eq!(cause("WARN one\nerror: two: three\n"), "two: three");
        assert_eq!(cause("thread panicked\nat x\n"), "at x");
        assert_eq!(cause(""), "it said nothing");
    }
}
