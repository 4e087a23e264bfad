//! Saves a run's state as a directory `checkpoints/step-00000100`, which is either complete or absent.
//!
//! A save writes into a hidden directory next to it, syncs it to disk and renames it, so a kill at any moment keeps the
//! earlier checkpoints. The next save removes what the kill left behind.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::ModuleRecord;
use serde::{Deserialize, Serialize};

use super::model::Gpt;
use super::optimizer::Optimizer;
use super::unigram::Unigram;
use crate::cursor::{Cursor, Fingerprint};
use crate::error::{Error, Result};

/// The version of the checkpoint format; other versions are refused.
const VERSION: u32 = 1;

/// The name prefix of directories that are not complete.
const PARTIAL: &str = ".partial-";

const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const UNIGRAM: &str = "unigram.bin";
const CURSOR: &str = "cursor.json";
const STATE: &str = "state.json";

/// The numbers of a run after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// How many steps are done.
    pub step: u64,
    /// How many targets have been trained on.
    pub tokens: u64,
    /// How long the run has trained, in seconds.
    pub seconds: f64,
    /// The last step's mean loss, in nats.
    pub loss: Option<f64>,
    /// The last validation loss, in nats per token.
    pub validation_loss: Option<f64>,
    /// The lowest validation loss so far, in nats per token.
    pub best_validation_loss: Option<f64>,
    /// The last validation loss, in bits per byte.
    pub bits_per_byte: Option<f64>,
    /// The fingerprint that the model's parameters belong to: its shape and its tokenizer.
    pub model: Fingerprint,
}

impl State {
    /// Creates the state before the first step of a model with the fingerprint `model`.
    pub fn new(model: Fingerprint) -> Self {
        Self {
            version: VERSION,
            step: 0,
            tokens: 0,
            seconds: 0.0,
            loss: None,
            validation_loss: None,
            best_validation_loss: None,
            bits_per_byte: None,
            model,
        }
    }
}

/// Everything that a checkpoint consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    /// The parameters.
    pub(crate) model: &'a Gpt,
    /// The optimizer's moments.
    pub(crate) optimizer: &'a Optimizer,
    /// How often each id was a target.
    pub(crate) unigram: &'a Unigram,
    /// Where the data continues; `None` before the first batch.
    pub(crate) cursor: Option<&'a Cursor>,
    /// The run's numbers.
    pub(crate) state: &'a State,
}

/// A complete checkpoint on disk.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    state: State,
}

impl Checkpoint {
    /// Writes a checkpoint under `parent`, then removes all but the newest `keep`.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written; earlier checkpoints are kept.
    pub(crate) fn save(parent: &Path, parts: Parts<'_>, keep: usize) -> Result<PathBuf> {
        std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, "create the directory", e))?;
        remove_partial(parent)?;
        let partial = parent.join(format!("{PARTIAL}{:08}", parts.state.step));
        std::fs::create_dir(&partial).map_err(|e| Error::io(&partial, "create the directory", e))?;
        parts
            .model
            .clone()
            .into_record()
            .save(partial.join(MODEL))
            .map_err(|e| Error::Train(format!("{}: {e}", partial.join(MODEL).display())))?;
        parts.optimizer.save(&partial.join(OPTIMIZER))?;
        write(&partial.join(UNIGRAM), &parts.unigram.to_bytes())?;
        if let Some(cursor) = parts.cursor {
            cursor.save(partial.join(CURSOR))?;
        }
        let state = serde_json::to_vec_pretty(parts.state)
            .map_err(|e| Error::io(partial.join(STATE), "write the state", e.into()))?;
        write(&partial.join(STATE), &state)?;
        sync(&partial.join(MODEL))?;
        sync(&partial.join(OPTIMIZER))?;
        sync(&partial)?;

        let path = parent.join(name(parts.state.step));
        if path.exists() {
            set_aside(&path)?;
        }
        std::fs::rename(&partial, &path).map_err(|e| Error::io(&path, "put the checkpoint in place", e))?;
        sync(parent)?;
        let all = steps(parent)?;
        for step in &all[..all.len().saturating_sub(keep.max(1))] {
            set_aside(&parent.join(name(*step)))?;
        }
        remove_partial(parent)?;
        Ok(path)
    }

    /// Returns the newest complete checkpoint under `parent`, if there is one.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the newest checkpoint.
    pub fn latest(parent: &Path) -> Result<Option<Self>> {
        match steps(parent)?.last() {
            Some(step) => Self::open(&parent.join(name(*step))).map(Some),
            None => Ok(None),
        }
    }

    /// Opens the checkpoint at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if its state cannot be read, [`Error::Cursor`] if it has another format version.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join(STATE);
        let json = std::fs::read(&file).map_err(|e| Error::io(&file, "read the checkpoint's state", e))?;
        let wrong = |problem: String| Error::Cursor {
            path: file.clone(),
            problem: format!("{problem}; remove {} to resume from the checkpoint before it", path.display()),
        };
        let state: State = serde_json::from_slice(&json)
            .map_err(|e| wrong(format!("this is not a checkpoint's state: {e}")))?;
        if state.version != VERSION {
            return Err(wrong(format!("format {}, but this version reads format {VERSION}", state.version)));
        }
        Ok(Self { path: path.to_owned(), state })
    }

    /// The checkpoint's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's numbers at this checkpoint.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the cursor where the data continues; `None` if no batch was read before the checkpoint.
    ///
    /// # Errors
    /// As [`Cursor::load`].
    pub fn cursor(&self) -> Result<Option<Cursor>> {
        let path = self.path.join(CURSOR);
        path.exists().then(|| Cursor::load(path)).transpose()
    }

    /// Loads its parameters into `model`, replacing those of `model`.
    ///
    /// # Errors
    /// [`Error::Cursor`] if the file is damaged or `model` has another shape.
    pub fn model(&self, model: Gpt) -> Result<Gpt> {
        let path = self.path.join(MODEL);
        ModuleRecord::load(&path)
            .and_then(|record| model.try_load_record(record))
            .map_err(|e| self.damaged(path, e.to_string()))
    }

    /// Loads its moments into `optimizer`, which must have been made for the [`model`](Self::model) loaded before.
    ///
    /// # Errors
    /// [`Error::Cursor`] if the file is damaged.
    pub fn optimizer(&self, optimizer: Optimizer) -> Result<Optimizer> {
        let path = self.path.join(OPTIMIZER);
        optimizer.load(&path).map_err(|e| self.damaged(path, e.to_string()))
    }

    fn damaged(&self, path: PathBuf, problem: String) -> Error {
        let checkpoint = self.path.display();
        Error::Cursor {
            path,
            problem: format!("{problem}; remove {checkpoint} to resume from the checkpoint before it"),
        }
    }

    /// Loads its counts of targets, for `vocab` ids.
    ///
    /// # Errors
    /// As [`Unigram::load`].
    pub fn unigram(&self, vocab: usize) -> Result<Unigram> {
        Unigram::load(&self.path.join(UNIGRAM), vocab)
    }
}

fn name(step: u64) -> String {
    format!("step-{step:08}")
}

/// The steps of all complete checkpoints under `parent`, ascending.
fn steps(parent: &Path) -> Result<Vec<u64>> {
    let mut steps: Vec<u64> = entries(parent)?
        .into_iter()
        // The state is written last, so a directory that has it is complete.
        .filter(|path| path.join(STATE).is_file())
        .filter_map(|path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok())
        .collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Renames a checkpoint away in one step; removing it takes time and may be interrupted.
fn set_aside(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{PARTIAL}old-{name}"));
    std::fs::rename(path, aside).map_err(|e| Error::io(path, "remove the checkpoint", e))
}

fn remove_partial(parent: &Path) -> Result<()> {
    for path in entries(parent)? {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PARTIAL)) {
            std::fs::remove_dir_all(&path).map_err(|e| Error::io(&path, "remove the directory", e))?;
        }
    }
    Ok(())
}

fn entries(parent: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(parent) {
        Ok(read) => read,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(parent, "list the checkpoints", e)),
    };
    read.map(|entry| Ok(entry.map_err(|e| Error::io(parent, "list the checkpoints", e))?.path())).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, "write", e))
}

/// Waits until a file or a directory's entries are on disk. Windows cannot do this for directories.
fn sync(path: &Path) -> Result<()> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| Error::io(path, "sync", e))
}
