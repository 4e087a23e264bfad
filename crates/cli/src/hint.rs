//! Commands that the program tells you to run, written the way you started it, so that you can paste them.

use std::borrow::Cow;

use super::program::program;
use super::{NAME as PROGRAM, Written};
use millstream::Error;
use millstream::error::{Remedy, ResumeFrom};

/// A command of this program with its arguments, ready for a shell.
pub(super) fn command<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> String {
    let name = program().args.first().map(|name| name.to_string_lossy()).filter(|name| !name.is_empty());
    let name = quoted(name.as_deref().unwrap_or(PROGRAM)).into_owned();
    let arguments = arguments.into_iter().map(|argument| quoted(argument.as_ref()).into_owned());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The arguments of this process.
fn arguments() -> impl Iterator<Item = String> {
    program().arguments().map(|argument| argument.to_string_lossy().into_owned())
}

/// The command that this process runs, ready for a shell.
pub(super) fn same_command() -> String {
    command(arguments())
}

/// The arguments of a command that uses a checkpoint, changed to the checkpoint of this step. `--step` is another name of
/// `--at`.
fn at(arguments: impl Iterator<Item = String>, step: u64) -> Vec<String> {
    let is_step = |name: &str| name == "--at" || name == "--step";
    let mut words: Vec<String> = arguments.collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let values = words.split_off(end);
    let mut words = words.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            None if is_step(&word) => drop(words.next()),
            Some((name, _)) if is_step(name) => {}
            _ => kept.push(word),
        }
    }
    kept.extend(["--at".to_owned(), step.to_string()]);
    kept.extend(values);
    kept
}

/// An argument quoted for a shell.
fn quoted(argument: &str) -> Cow<'_, str> {
    // Only a zero byte cannot be quoted, and no argument has one.
    shlex::try_quote(argument).unwrap_or(Cow::Borrowed(argument))
}

/// The command that resumes a run.
pub(super) fn resume(from: &ResumeFrom) -> String {
    let mut arguments =
        vec!["train".to_owned(), "--resume".to_owned(), from.run.to_string_lossy().into_owned()];
    if let Some(step) = from.step {
        arguments.extend(["--at".to_owned(), step.to_string()]);
    }
    arguments.extend(from.settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
    command(arguments)
}

/// The commands to run after an error of a command that has read the config `written`, one on a line.
pub(super) fn after(error: &Error, written: Option<&Written>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(from) = error.resume_from() {
        // The same command with another checkpoint.
        let is_damaged = matches!(error, Error::Checkpoint { .. });
        let same = is_damaged && written.is_some_and(|written| written.has_at);
        lines.push(match from.step.filter(|_| same) {
            Some(step) => format!("take that one with: {}", command(at(arguments(), step))),
            None => format!("resume with: {}", resume(from)),
        });
    }
    match error.remedy() {
        Some(Remedy::NamePart) => {
            let third = arguments().chain(["--part".to_owned(), "3/100".to_owned()]);
            lines.push(format!("make part 3 of 100 with: {}", command(third)));
        }
        Some(Remedy::MergeCursors) => {
            let merge = command(["cursor", "merge", "rank-0.json", "rank-1.json", "-o", "cursor.json"]);
            lines.push(format!("merge two with: {merge}"));
        }
        Some(Remedy::ExportModel(run)) => {
            let run = run.to_string_lossy();
            let output = format!("{}-model", run.trim_end_matches('/'));
            let export = command(["model", "export", &*run, "-o", &*output]);
            lines.push(format!("export it with: {export}"));
        }
        _ => {}
    }
    if let Error::Diverged { batches, .. } = error
        && let Some(Written { config: Some(config), settings, .. }) = written
    {
        let (config, batch) = (config.to_string_lossy(), batches.start.to_string());
        let settings = settings.all().iter().flat_map(|setting| ["--set", setting.as_str()]);
        let inspect = command(["inspect", &*config, "--batch", &*batch].into_iter().chain(settings));
        lines.push(format!("see the batch with: {inspect}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_step_takes_the_place_of_the_one_given() {
        let said = |words: &str| at(words.split(' ').map(str::to_owned), 4).join(" ");
        assert_eq!(said("--json generate run foo"), "--json generate run foo --at 4");
        assert_eq!(said("generate run --at 6 foo"), "generate run foo --at 4");
        assert_eq!(said("generate run --at=6 -- --at"), "generate run --at 4 -- --at");
        assert_eq!(said("model export run --step 6 -o m"), "model export run -o m --at 4");
    }
}
