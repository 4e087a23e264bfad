//! Failures: a line for people on standard error, one object on standard output with `--json`, and the exit code.

use std::ffi::{OsStr, OsString};
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use serde_json::{Map, Value, json};

use super::program::program;
use super::{STANDARD_OUTPUT_NAME, hint, print_json, progress};
use millstream::error::ConfigPlace;
use millstream::{Error, Result};

/// The exit code of a command that failed.
pub(super) const FAILED: u8 = 1;

/// The exit code when an argument is wrong, as of most programs.
const USAGE: u8 = 2;

/// The exit code when the reader of standard output is gone: 128 plus the number of SIGPIPE.
const UNREAD: u8 = 141;

/// Options that name something in files. That it is not there, or is there already, is a failure, as with a path.
const LOOKED_UP: [&str; 7] = ["--batch", "--eos", "--field", "--output", "--part", "--step", "--subset"];

/// What the arguments of a command say, or, if they are wrong or ask for help, the exit code.
pub(super) fn parsed<T>(arguments: Result<T, clap::Error>) -> Result<T, ExitCode> {
    arguments.map_err(|error| {
        let error = in_words(error);
        let printed = error.print();
        if printed.is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) && !error.use_stderr() {
            return ExitCode::from(UNREAD);
        }
        if error.use_stderr() && wants_json() {
            report("usage", &first_sentence(&error.to_string()), USAGE, Map::new());
        }
        ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
    })
}

/// What is wrong with a number, in other words than Rust's.
fn in_words(error: clap::Error) -> clap::Error {
    let source = std::error::Error::source(&error);
    let Some(number) = source.and_then(|source| source.downcast_ref::<ParseIntError>()) else { return error };
    let wanted = match number.kind() {
        IntErrorKind::Zero => "give a number of at least 1",
        IntErrorKind::PosOverflow => "the number is too large",
        _ => "give a whole number, such as 8",
    };
    let part = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (value, argument) = (part(ContextKind::InvalidValue), part(ContextKind::InvalidArg));
    let said = format!(
        "invalid value '{value}' for '{argument}': {wanted}\n\nFor more information, try '--help'.\n"
    );
    clap::Error::raw(ErrorKind::ValueValidation, said)
}

/// Whether the arguments have `--json`, also if they are wrong otherwise.
fn wants_json() -> bool {
    let is_json = |word: &OsString| word == "--json" || word.as_encoded_bytes().starts_with(b"--json=");
    program().arguments().take_while(|word| *word != OsStr::new("--")).any(is_json)
}

/// What clap says, without the usage behind it, on one line.
fn first_sentence(said: &str) -> String {
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let lines = said.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Says what went wrong, and returns the exit code. If only the reader of standard output is gone, nothing is said.
pub(super) fn fail(error: &Error, json: bool) -> ExitCode {
    fail_with(error, exit_code(error), json)
}

/// The exit code of a command that ends with this error.
pub(super) fn exit_code(error: &Error) -> u8 {
    match error {
        _ if is_unread(error) => UNREAD,
        _ if is_usage(error) => USAGE,
        _ => FAILED,
    }
}

/// Says what went wrong, and returns the exit code, which is `code`. What another rank says is not said twice.
pub(super) fn fail_with(error: &Error, code: u8, json: bool) -> ExitCode {
    if code != UNREAD && !matches!(error, Error::Peer { .. }) {
        let message = hint::pasteable(&error.chain());
        progress::say(&format!("error: {message}"));
        if json {
            let kind = if code == USAGE { "usage" } else { error.kind() };
            report(kind, &message, code, error.fields());
        }
    }
    ExitCode::from(code)
}

/// Says that the program ends at once because somebody insisted, and returns the exit code.
pub(super) fn stopped(message: &str, json: bool) -> u8 {
    progress::say(message);
    if json {
        report("stopped", message, FAILED, Map::new());
    }
    FAILED
}

/// Whether an argument is wrong: the error names an option instead of a key of the config, or a `--set`.
fn is_usage(error: &Error) -> bool {
    let Error::Config { key, place, .. } = error else { return false };
    match place.as_deref() {
        Some(ConfigPlace::Setting(_)) => true,
        _ => key.starts_with("--") && !LOOKED_UP.contains(&key.as_str()),
    }
}

/// Whether the error is only that the reader of standard output is gone.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STANDARD_OUTPUT_NAME) && source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints the object of a failure.
fn report(kind: &str, message: &str, code: u8, fields: Map<String, Value>) {
    let mut error =
        Map::from_iter([("kind".to_owned(), kind.into()), ("message".to_owned(), message.into())]);
    error.extend(fields);
    error.insert("exit_code".to_owned(), code.into());
    // It has been said on standard error too.
    drop(print_json(&json!({ "error": error })));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_is_one_line_without_the_usage() {
        let said = "error: invalid value '2' for '--top-p <TOP_P>': it must be\n  at most 1\n\nUsage: x [OPTIONS]\n\nFor more";
        assert_eq!(first_sentence(said), "invalid value '2' for '--top-p <TOP_P>': it must be at most 1");
        assert_eq!(
            first_sentence("error: no such command\n\nFor more information, try '--help'."),
            "no such command"
        );
    }

    #[test]
    fn an_error_that_names_an_option_is_wrong_usage() {
        let is_usage = |key: &str| is_usage(&Error::config(key, "x"));
        let set = Error::config("seed", "x").at(ConfigPlace::Setting("seed=x".to_owned()));
        assert!(super::is_usage(&set) && is_usage("--world"));
        assert!(!is_usage("seed") && !is_usage("--step") && !is_usage("--batch") && !is_usage("--output"));
    }
}
