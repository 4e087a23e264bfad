//! Failures: a line for people on standard error, one object on standard output with `--json`, and the exit code.

use std::ffi::{OsStr, OsString};
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use serde_json::{Map, Value, json};

use super::program::program;
use super::{STANDARD_OUTPUT_NAME, Written, hint, print_json, progress};
use millstream::error::ConfigPlace;
use millstream::{Error, Result};

/// The exit code of a command that failed.
pub(super) const FAILED: u8 = 1;

/// The exit code when an argument is wrong, as of most programs.
const USAGE: u8 = 2;

/// The exit code when the reader of standard output is gone: 128 plus the number of SIGPIPE.
const UNREAD: u8 = 141;

/// Why a command fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its arguments are wrong, whatever the files hold. The error's key is the option, or the key of a setting.
    Usage(Error),
    /// Anything else. A missing or existing file, field or checkpoint that an option names is a failure, not wrong
    /// usage.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let place = if let Error::Config { place, .. } = &error { place.as_deref() } else { None };
        match place {
            Some(ConfigPlace::Setting(_)) => Self::Usage(error),
            _ => Self::Failed(error),
        }
    }
}

impl Failure {
    /// An option that is wrong.
    pub(super) fn usage(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Usage(Error::config(option, problem))
    }

    /// The same with the place of the key that it names. A setting that does not fit the files is a failure.
    pub(super) fn placed(self, written: &Written) -> Self {
        match self {
            Self::Usage(error) => Self::Usage(written.place(error)),
            Self::Failed(error) => Self::Failed(written.place(error)),
        }
    }

    /// The exit code of the command.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Failed(error) if is_unread(error) => UNREAD,
            Self::Failed(_) => FAILED,
        }
    }

    /// Prints the error of a command that has read the config `written`, and returns the exit code. Prints nothing if only
    /// the reader of standard output is gone, or if another rank prints the error.
    pub(super) fn say(&self, written: Option<&Written>, json: bool) -> ExitCode {
        let (Self::Usage(error) | Self::Failed(error)) = self;
        let code = self.code();
        if code != UNREAD && !matches!(error, Error::Peer { .. }) {
            let message = error.chain();
            progress::say(&format!("error: {message}"));
            hint::after(error, written).iter().for_each(|line| progress::say(line));
            if json {
                let kind = if code == USAGE { "usage" } else { error.kind() };
                report(kind, &message, code, error.fields());
            }
        }
        ExitCode::from(code)
    }
}

/// The parsed arguments of a command; if they are wrong or ask for help, the exit code.
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

/// What is wrong with a number, in plainer words than Rust's.
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

/// clap's message without the usage, on one line.
fn first_sentence(said: &str) -> String {
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let lines = said.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Reports that a second request to stop ends the program at once, and returns the exit code.
pub(super) fn stopped(message: &str, json: bool) -> u8 {
    progress::say(message);
    if json {
        report("stopped", message, FAILED, Map::new());
    }
    FAILED
}

/// Whether the error is only that the reader of standard output is gone.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STANDARD_OUTPUT_NAME) && source.kind() == std::io::ErrorKind::BrokenPipe)
}

fn report(kind: &str, message: &str, code: u8, fields: Map<String, Value>) {
    let mut error =
        Map::from_iter([("kind".to_owned(), kind.into()), ("message".to_owned(), message.into())]);
    error.extend(fields);
    error.insert("exit_code".to_owned(), code.into());
    // If this fails, standard error still has the message.
    drop(print_json(&json!({ "error": error })));
}
