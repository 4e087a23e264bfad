//! A run's state in; a directory `checkpoints/step-00000100` that is whole or not there out.
//!
//! It is written into a hidden directory beside it, synced to the disk and renamed, so a kill at any moment leaves
//! the checkpoints before it. What the kill left behind is removed by the next save.

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

/// The format of a checkpoint; one of another is refused.
const VERSION: u32 = 1;

/// How the names of directories that are not whole begin.
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
    /// The last validation's loss, in nats per token.
    pub validation_loss: Option<f64>,
    /// The least validation's loss so far, in nats per token.
    pub best_validation_loss: Option<f64>,
    /// The last validation's loss, in bits per byte.
    pub bits_per_byte: Option<f64>,
    /// What the model's parameters mean something in: its shape and its tokenizer.
    pub model: Fingerprint,
}

impl State {
    /// The state before the first step of a model with the fingerprint `model`.
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

/// All that a checkpoint is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The parameters.
    pub model: &'a Gpt,
    /// The moments.
    pub optimizer: &'a Optimizer,
    /// The counts of the targets.
    pub unigram: &'a Unigram,
    /// Where the data goes on; none before the first batch.
    pub cursor: Option<&'a Cursor>,
    /// The numbers.
    pub state: &'a State,
}

/// A whole checkpoint on the disk.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    state: State,
}

impl Checkpoint {
    /// Writes a checkpoint under `parent`, then removes all but the newest `keep`.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written: the ones before it stand.
    pub fn save(parent: &Path, parts: Parts<'_>, keep: usize) -> Result<PathBuf> {
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

    /// The newest whole checkpoint under `parent`; none if there is none.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the newest one.
    pub fn latest(parent: &Path) -> Result<Option<Self>> {
        match steps(parent)?.last() {
            Some(step) => Self::open(&parent.join(name(*step))).map(Some),
            None => Ok(None),
        }
    }

    /// The checkpoint at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if its state cannot be read, [`Error::Cursor`] if it is of another format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join(STATE);
        let json = std::fs::read(&file).map_err(|e| Error::io(&file, "read the checkpoint's state", e))?;
        let wrong = |problem: String| Error::Cursor {
            path: file.clone(),
            problem: format!("{problem}; remove {} to resume from the checkpoint before it", path.display()),
        };
        let state: State = serde_json::from_slice(&json)
            .map_err(|e| wrong(format!("this is no checkpoint's state: {e}")))?;
        if state.version != VERSION {
            return Err(wrong(format!("format {}, but this version reads format {VERSION}", state.version)));
        }
        Ok(Self { path: path.to_owned(), state })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its numbers.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where the data goes on; none if no batch was read before it.
    ///
    /// # Errors
    /// As [`Cursor::load`].
    pub fn cursor(&self) -> Result<Option<Cursor>> {
        let path = self.path.join(CURSOR);
        path.exists().then(|| Cursor::load(path)).transpose()
    }

    /// Its parameters, in the place of those of `model`.
    ///
    /// # Errors
    /// [`Error::Cursor`] if the file is damaged or `model` has another shape.
    pub fn model(&self, model: Gpt) -> Result<Gpt> {
        let path = self.path.join(MODEL);
        ModuleRecord::load(&path)
            .and_then(|record| model.try_load_record(record))
            .map_err(|e| self.damaged(path, e.to_string()))
    }

    /// Its moments, in `optimizer`, which was made for the [`model`](Self::model) loaded before.
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

    /// Its counts of targets, for `vocab` ids.
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

/// The steps of all whole checkpoints under `parent`, ascending.
fn steps(parent: &Path) -> Result<Vec<u64>> {
    let mut steps: Vec<u64> = entries(parent)?
        .into_iter()
        // The state is written last, so a directory that has it has everything.
        .filter(|path| path.join(STATE).is_file())
        .filter_map(|path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok())
        .collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Takes a checkpoint out of the row at once; removing it takes time, and may be interrupted.
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

/// Waits until a file or a directory's entries are on the disk. Windows has no such thing for directories.
fn sync(path: &Path) -> Result<()> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| Error::io(path, "sync", e))
}
