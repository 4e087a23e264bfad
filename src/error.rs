//! What went wrong, split by what the caller can do about it.
//!
//! Data errors print `path:line (byte N): what went wrong`, then what to do. A cause is in
//! [`source()`](std::error::Error::source) and is not repeated in the message, so a printed chain says
//! everything once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

mod answer;
mod fields;
mod remedy;

#[doc(hidden)]
pub use answer::code_in;
pub use remedy::{Remedy, ResumeFrom};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a config and a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong. Change the config.
    #[error("{}", setting(.key, .problem, .place.as_deref()))]
    Config {
        /// The dotted key, such as `pipeline.seq_len`, or the config file's path.
        key: String,
        /// What is wrong with its value, and the bound that it breaks. If it begins with "must", the key is its
        /// subject.
        problem: String,
        /// Where the key is written, if the config was read from a file.
        place: Option<Box<ConfigPlace>>,
        /// What to do instead, if it is more than another value.
        remedy: Option<Box<Remedy>>,
    },

    /// There is nothing to read. Change the paths, or put files there.
    #[error("{problem}")]
    Corpus {
        /// What is missing, and what to set.
        problem: String,
    },

    /// One document cannot be used. Fix the file, or allow skipping.
    #[error("{} ({unit} {byte}): {problem}; {remedy}", place(.path, *.line))]
    Document {
        /// The file.
        path: PathBuf,
        /// The line that the document begins on, or in a table the line of the fault, from 1; 0 if it is unknown, or
        /// if the file has no lines.
        line: u64,
        /// The unit of `byte`.
        unit: Unit,
        /// Where the fault is in the file, from 0, in the file's unit.
        byte: u64,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },

    /// The operating system refused. Check the file.
    #[error("{}: cannot {action}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, such as "read".
        action: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },

    /// Another process writes to the directory. Wait until it ends, or use another directory.
    #[error("{}: another process{} {what}; wait until it ends, or use another directory", .path.display(), number(*.pid))]
    Busy {
        /// The directory.
        path: PathBuf,
        /// What the process does there, such as "trains there".
        what: &'static str,
        /// The number of the process, if it is known.
        pid: Option<u32>,
    },

    /// The tokenizer cannot be loaded, learned or run. Change the tokenizer.
    #[error("tokenizer {name}: {problem}")]
    Tokenizer {
        /// The tokenizer's file or kind.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A cursor does not match the order of this run. Put back what has changed, or begin anew.
    #[error(
        "the cursor does not match this run: {}; set it back to resume exactly, or begin anew",
        changed(.field, .saved, .now)
    )]
    Fingerprint {
        /// The field that differs.
        field: String,
        /// Its value when the cursor was made.
        saved: String,
        /// Its value now.
        now: String,
    },

    /// A cursor cannot be read. Use another.
    #[error("{}: {problem}", .path.display())]
    Cursor {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A cursor names a place that cannot exist: it is damaged, or was edited by hand. Use another.
    #[error(
        "this cursor is not valid: {problem}; resume from a cursor as it was saved, or start without one"
    )]
    Resume {
        /// The contradiction, and its place.
        problem: String,
    },

    /// Cursors of several ranks do not fit together. Use those that were saved after the same batch.
    #[error("these cursors do not make one: {problem}")]
    Merge {
        /// The contradiction, and which cursors to take.
        problem: String,
        /// What to do first.
        remedy: Option<Box<Remedy>>,
    },

    /// The memory budget is smaller than what must be held at once. Raise `memory`.
    #[error(
        "the memory budget of {limit} bytes is full and the next batch cannot be finished within it; \
         raise pipeline.memory, or lower pipeline.window, pipeline.lanes or pipeline.depth"
    )]
    Budget {
        /// The budget, in bytes.
        limit: u64,
    },

    /// The system refuses threads. Raise its limit, or use fewer.
    #[error(
        "cannot start {wanted} more threads: the system refused after {started}; raise its limit on threads \
         (`ulimit -u`, or the container's pids limit), end other programs, or lower pipeline.lanes and pipeline.workers"
    )]
    Threads {
        /// How many more are needed at once.
        wanted: usize,
        /// How many of them could be started.
        started: usize,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },

    /// A stage panicked: a defect of that stage.
    #[error("stage `{stage}` panicked: {message}")]
    Panic {
        /// The stage.
        stage: &'static str,
        /// The panic's message.
        message: String,
    },

    /// A custom stage gave something that the loader cannot use, or panicked: a defect of that stage.
    #[error("custom stage {name:?}: {problem}")]
    Stage {
        /// The stage's name.
        name: String,
        /// What it did, and what it has to do.
        problem: String,
    },

    /// [`verify`](crate::verify) cannot tell whether the laws hold: a child process failed on its own.
    #[error("{problem}")]
    Verify {
        /// How the child was run, how it ended, and its last words.
        problem: String,
    },

    /// The gradient of a step is not finite. Go back to a checkpoint, and train at a lower rate.
    #[error(
        "step {step} ({}): the gradient is not finite, so the run has diverged; {}",
        numbers(.batches), slower(.resume.as_deref())
    )]
    Diverged {
        /// The step, from 1.
        step: u64,
        /// Its batches, from 0.
        batches: std::ops::Range<u64>,
        /// Where the run can be resumed, and at what rate; `None` if nothing is saved.
        resume: Option<Box<ResumeFrom>>,
    },

    /// A checkpoint cannot be used. Use the one that it names, or what the checkpoint was made with.
    #[error("{}: {problem}", .path.display())]
    Checkpoint {
        /// The file that is damaged, or the checkpoint's directory.
        path: PathBuf,
        /// What is wrong, and what else to do.
        problem: String,
        /// Where the run can be resumed instead.
        resume: Option<Box<ResumeFrom>>,
    },

    /// Another process that trains with this one has failed, and reports the reason itself.
    #[error("rank {rank} has failed, so this rank stops; the reason stands in its output")]
    Peer {
        /// The other's rank.
        rank: usize,
    },

    /// The trainer cannot go on.
    #[error("{0}")]
    Train(String),
}

/// Where a setting is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigPlace {
    /// Somewhere in a config file.
    File(PathBuf),
    /// On a line of a config.
    Line {
        /// The file, if the config is from one.
        file: Option<PathBuf>,
        /// The line, from 1.
        line: u64,
        /// The column, in characters from 1.
        column: u64,
    },
    /// In a setting over the config, `key=value`: the program's `--set`.
    Setting(String),
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Line { file: Some(file), line, column } => write!(f, "{}:{line}:{column}", file.display()),
            Self::Line { file: None, line, column } => write!(f, "line {line}, column {column}"),
            Self::Setting(setting) => write!(f, "--set {setting}"),
        }
    }
}

/// The unit of positions in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Bytes of text.
    #[default]
    Byte,
    /// Rows of a table.
    Row,
    /// Ids of a file of tokens.
    Token,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde::Serialize::serialize(self, f)
    }
}

/// What has changed of a fingerprint, in words.
fn changed(field: &str, saved: &str, now: &str) -> String {
    let rendering = field.strip_suffix(".rendering").and_then(|source| changed_rendering(source, saved, now));
    rendering.unwrap_or_else(|| format!("`{field}` was {saved} and is now {now}"))
}

/// What has changed of what renders the records of a source, in words.
fn changed_rendering(source: &str, saved: &str, now: &str) -> Option<String> {
    let parts = |text| serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text).ok();
    let (saved, now) = (parts(saved)?, parts(now)?);
    let names: BTreeSet<&String> = saved.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| saved.get(*name) != now.get(*name)).map(|name| {
        let key = if name.starts_with("tokenizer.") { name.clone() } else { format!("{source}.{name}") };
        let value = |parts: &BTreeMap<String, _>| {
            parts
                .get(name)
                .map_or_else(|| "not set".to_owned(), |value: &serde_json::Value| value.to_string())
        };
        match &**name {
            "chat.template" => format!("the template of `{key}` is another one"),
            "tokenizer.added_tokens" => "the tokenizer has other special tokens".to_owned(),
            _ => format!("`{key}` was {} and is now {}", value(&saved), value(&now)),
        }
    });
    Some(changed.collect::<Vec<_>>().join(", "))
}

/// Whether this is the answer for a place that is read-only, or another user's.
pub(crate) fn refuses_writing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Whether this is the answer of a full disk, or of a used-up quota.
pub(crate) fn lacks_room(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl Error {
    /// The variant's name in lower case, for programs that read it, such as `document`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Config { .. } => "config",
            Self::Corpus { .. } => "corpus",
            Self::Document { .. } => "document",
            Self::Io { .. } => "io",
            Self::Tokenizer { .. } => "tokenizer",
            Self::Fingerprint { .. } => "fingerprint",
            Self::Cursor { .. } => "cursor",
            Self::Resume { .. } => "resume",
            Self::Merge { .. } => "merge",
            Self::Budget { .. } => "budget",
            Self::Threads { .. } => "threads",
            Self::Panic { .. } => "panic",
            Self::Stage { .. } => "stage",
            Self::Busy { .. } => "busy",
            Self::Diverged { .. } => "diverged",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Verify { .. } => "verify",
            Self::Peer { .. } => "peer",
            Self::Train(_) => "train",
        }
    }

    /// An [`Error::Config`].
    pub fn config(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Config { key: key.into(), problem: problem.into(), place: None, remedy: None }
    }

    /// Where the run that failed can be resumed.
    pub fn resume_from(&self) -> Option<&ResumeFrom> {
        match self {
            Self::Diverged { resume, .. } | Self::Checkpoint { resume, .. } => resume.as_deref(),
            _ => match self.remedy() {
                Some(Remedy::Resume(from)) => Some(from),
                _ => None,
            },
        }
    }

    /// What to do besides changing a value.
    pub fn remedy(&self) -> Option<&Remedy> {
        match self {
            Self::Config { remedy, .. } | Self::Merge { remedy, .. } => remedy.as_deref(),
            _ => None,
        }
    }

    /// The same error with a remedy, if it is an [`Error::Config`] or an [`Error::Merge`].
    #[must_use]
    pub fn with_remedy(mut self, with: Remedy) -> Self {
        if let Self::Config { remedy, .. } | Self::Merge { remedy, .. } = &mut self {
            *remedy = Some(Box::new(with));
        }
        self
    }

    /// The same error with the place of its key, if it is an [`Error::Config`] without one.
    #[must_use]
    pub fn at(mut self, at: ConfigPlace) -> Self {
        if let Self::Config { place: place @ None, .. } = &mut self {
            *place = Some(Box::new(at));
        }
        self
    }

    /// An [`Error::Io`]. If the disk is full or the process is at one of its limits, it says so, with a remedy.
    pub fn io(path: impl AsRef<Path>, action: &'static str, source: std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        let source = answer::explain(&path, source);
        Self::Io { path, action, source }
    }

    /// Whether nothing can be written there: it is read-only, or another user's.
    pub(crate) fn refuses_writing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if refuses_writing(source.kind()))
    }

    /// Whether nothing more can be written there: the disk is full, or the user's quota is used up. Only a cache can do
    /// without.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, Self::Io { source, .. } if lacks_room(source.kind()))
    }

    /// An [`Error::Tokenizer`].
    pub fn tokenizer(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Tokenizer { name: name.into(), problem: problem.into() }
    }

    /// An [`Error::Resume`].
    pub(crate) fn resume(problem: impl Into<String>) -> Self {
        Self::Resume { problem: problem.into() }
    }

    /// The [`Error::Panic`] of a blocking job that panicked or was cancelled.
    pub(crate) fn lost(stage: &'static str, job: tokio::task::JoinError) -> Self {
        let message = match job.try_into_panic() {
            Ok(payload) => panic_message(&*payload),
            Err(cancelled) => cancelled.to_string(),
        };
        Self::Panic { stage, message }
    }
}

/// The place, the key and the problem of a setting.
fn setting(key: &str, problem: &str, place: Option<&ConfigPlace>) -> String {
    let said = match problem.starts_with("must ") {
        true => format!("`{key}` {problem}"),
        false => format!("{key}: {problem}"),
    };
    match place {
        None => said,
        // An error about the whole file or setting, which the place names.
        Some(place @ (ConfigPlace::Line { file: Some(file), .. } | ConfigPlace::File(file)))
            if file.as_os_str() == key =>
        {
            format!("{place}: {problem}")
        }
        Some(place @ ConfigPlace::Setting(setting)) if setting == key => format!("{place}: {problem}"),
        Some(place) => format!("{place}: {said}"),
    }
}

fn place(path: &Path, line: u64) -> String {
    let path = path.display();
    if line == 0 { path.to_string() } else { format!("{path}:{line}") }
}

/// The number of a process, if it is known.
fn number(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// Batches by their numbers.
fn numbers(batches: &std::ops::Range<u64>) -> String {
    match batches.end - batches.start {
        0 | 1 => format!("batch {}", batches.start),
        _ => format!("batches {} to {}", batches.start, batches.end - 1),
    }
}

/// What to do about a run that has diverged.
fn slower(resume: Option<&ResumeFrom>) -> String {
    let otherwise = "start again with a lower train.lr or a longer train.warmup";
    resume.map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

/// The message of a caught panic.
#[doc(hidden)]
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
