//! Saves a run's state as a directory `checkpoints/step-00000100`, which is either complete or absent.
//!
//! A save writes into a hidden directory next to it, syncs it to disk and renames it, so a kill at any moment keeps the
//! earlier checkpoints. Leftovers of a killed save are removed when the run continues and by the next save. The last
//! file has the digests of the others: a copy without it is unfinished, and a file that has changed since is refused.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::device;
use crate::model::{Gpt, Initial, Unigram};
use crate::optim::{LossBy, Optimizer, written};
use millstream::atomic::{sync, write_synced};
use millstream::cursor::{Cursor, Fingerprint};
use millstream::error::{Error, Result};
use millstream::tokenizer::Tokenizer;

mod files;
pub(crate) mod fingerprint;
pub(crate) mod folder;

use files::{Files, seal};
use folder::DIGESTS;

/// The version of the checkpoint format; unknown versions are refused.
const VERSION: u32 = 1;

const STATE: &str = "state.json";
const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const UNIGRAM: &str = "unigram.bin";
const CURSOR: &str = "cursor.json";

/// The numbers of a run after a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The losses since the last logged step, by source and column.
    #[serde(default, skip_serializing_if = "LossBy::is_empty")]
    pub(crate) loss_by: LossBy,
    /// The last validation loss, in nats per token.
    pub validation_loss: Option<f64>,
    /// The step that it came after.
    pub validation_step: Option<u64>,
    /// The lowest validation loss so far, in nats per token.
    pub best_validation_loss: Option<f64>,
    /// The last validation loss, in bits per byte.
    pub bits_per_byte: Option<f64>,
    /// The fingerprint that the model's parameters belong to: its shape and its tokenizer.
    pub model: Fingerprint,
    /// The fingerprint that the optimizer's moments belong to: its name.
    pub optimizer: Fingerprint,
}

impl State {
    /// Creates the state before the first step of a model and an optimizer with these fingerprints.
    pub fn new(model: Fingerprint, optimizer: Fingerprint) -> Self {
        Self { version: VERSION, model, optimizer, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents<'a, M> {
    pub(crate) model: &'a M,
    pub(crate) optimizer: &'a Optimizer,
    /// How often each id was a target.
    pub(crate) unigram: &'a Unigram,
    /// Where the data continues; `None` before the first batch.
    pub(crate) cursor: Option<&'a Cursor>,
    pub(crate) state: &'a State,
}

/// A complete checkpoint on disk.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    files: Files,
    state: State,
}

impl Checkpoint {
    /// Writes a checkpoint under `parent`, then removes all but the newest `keep`. Surplus ones are removed before it
    /// too: the disk may have no room for another one. A checkpoint that cannot be removed stays, with a warning in the
    /// log.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Train`] if it cannot be written; the newest `keep` are left, and nothing of this one.
    pub(crate) fn save<M: Module>(parent: &Path, contents: Contents<'_, M>, keep: usize) -> Result<PathBuf> {
        std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, "create the directory", e))?;
        folder::remove_all_but(parent, keep)?;
        let saved = Self::write(parent, contents);
        if saved.is_err() {
            // The error to report is the save's.
            drop(folder::remove_partial(parent));
        }
        let path = saved?;
        folder::remove_all_but(parent, keep)?;
        Ok(path)
    }

    fn write<M: Module>(parent: &Path, contents: Contents<'_, M>) -> Result<PathBuf> {
        let partial = folder::partial(parent, contents.state.step);
        std::fs::create_dir(&partial).map_err(|e| Error::io(&partial, "create the directory", e))?;
        let mut names = vec![MODEL, OPTIMIZER, UNIGRAM, STATE];
        written(contents.model.clone().into_record().save(partial.join(MODEL)), &partial.join(MODEL))?;
        contents.optimizer.save(&partial.join(OPTIMIZER))?;
        write_synced(&partial.join(UNIGRAM), &contents.unigram.to_bytes())?;
        if let Some(cursor) = contents.cursor {
            cursor.save(partial.join(CURSOR))?;
            names.push(CURSOR);
        }
        let state = serde_json::to_vec_pretty(contents.state)
            .map_err(|e| Error::io(partial.join(STATE), "write the state", e.into()))?;
        write_synced(&partial.join(STATE), &state)?;
        sync(&partial.join(MODEL))?;
        sync(&partial.join(OPTIMIZER))?;
        seal(&partial, &names)?;
        sync(&partial)?;

        let path = folder::path(parent, contents.state.step);
        folder::put(&partial, &path)?;
        sync(parent)?;
        Ok(path)
    }

    /// Returns the newest complete checkpoint under `parent`, if there is one. Unfinished ones are skipped with a
    /// warning in the log.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the newest checkpoint.
    pub fn latest(parent: &Path) -> Result<Option<Self>> {
        for step in folder::steps(parent)?.into_iter().rev() {
            let path = folder::path(parent, step);
            if folder::is_complete(&path) {
                return Self::open_step(&path, step).map(Some);
            }
            tracing::warn!(path = %path.display(), "unfinished checkpoint skipped: it has no {DIGESTS}");
        }
        Ok(None)
    }

    /// Returns the checkpoint after `step` under `parent`; `None` if it is not there or unfinished.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn after(parent: &Path, step: u64) -> Result<Option<Self>> {
        let path = folder::path(parent, step);
        folder::is_complete(&path).then(|| Self::open_step(&path, step)).transpose()
    }

    /// The steps of all complete checkpoints under `parent`, ascending.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be listed.
    pub fn steps(parent: &Path) -> Result<Vec<u64>> {
        folder::complete(parent)
    }

    /// Opens the checkpoint at `path`, which is named for `step`.
    fn open_step(path: &Path, step: u64) -> Result<Self> {
        let checkpoint = Self::open(path)?;
        match checkpoint.state.step {
            of if of == step => Ok(checkpoint),
            of => Err(checkpoint
                .files
                .damaged(STATE, &format!("this is the checkpoint of step {of}, not of step {step}"))),
        }
    }

    /// Opens the checkpoint at `path`. Its other files are checked when they are loaded.
    ///
    /// # Errors
    /// [`Error::Io`] if its state cannot be read, [`Error::Checkpoint`] if it is damaged or has another format version.
    pub fn open(path: &Path) -> Result<Self> {
        let files = Files::open(path)?;
        let file = files.checked(STATE)?;
        let json = std::fs::read(&file).map_err(|e| Error::io(&file, "read the checkpoint's state", e))?;
        let state: State = serde_json::from_slice(&json)
            .map_err(|e| files.damaged(STATE, &format!("this is not a checkpoint's state: {e}")))?;
        match state.version {
            VERSION => Ok(Self { files, state }),
            other => {
                let problem = format!("its format is {other}, but this version reads {VERSION}");
                Err(files.damaged(STATE, &problem))
            }
        }
    }

    /// The checkpoint's directory.
    pub fn path(&self) -> &Path {
        &self.files.directory
    }

    /// The run's numbers at this checkpoint.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the cursor where the data continues; `None` if no batch was read before the checkpoint.
    ///
    /// # Errors
    /// As [`Cursor::load`]; [`Error::Checkpoint`] if the file is damaged.
    pub fn cursor(&self) -> Result<Option<Cursor>> {
        self.files.checked_if_any(CURSOR)?.map(Cursor::load).transpose()
    }

    /// Loads its parameters into `model`, replacing those of `model`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the file is damaged, or `model` has another shape.
    pub fn model<M: Module>(&self, model: M) -> Result<M> {
        let path = self.files.checked(MODEL)?;
        load_into(model, ModuleRecord::load(&path), path)
    }

    /// Loads its model without autodiff, on the config's device, for [`generate`](crate::generate()).
    ///
    /// # Errors
    /// As [`model`](Self::model); also [`Error::Checkpoint`] if the config says another model, and [`Error::Config`] for a
    /// device that cannot be used.
    pub fn load_model(&self, config: &RunConfig, tokenizer: &dyn Tokenizer) -> Result<Gpt> {
        self.require_gpt()?;
        self.check_model(&fingerprint::for_gpt(config, tokenizer))?;
        let device = device::open(&config.train)?;
        let model = Gpt::with_initial(config, tokenizer, Initial::Loaded, &device)?.with_adapters(config);
        let path = self.files.checked(MODEL)?;
        // burn reads a record's tensors one by one, and panics if the file is gone by then: a run that goes on removes
        // its older checkpoints.
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read the checkpoint", e))?;
        let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes));
        Ok(load_into(model, record, path)?.valid())
    }

    /// Refuses another model than the checkpoint's.
    pub(super) fn check_model(&self, model: &Fingerprint) -> Result<()> {
        model.check(&self.state.model).map_err(|error| self.differs(error))
    }

    /// The error that a setting is not what the checkpoint was made with.
    fn differs(&self, error: Error) -> Error {
        let Error::Fingerprint { field, saved, now } = error else { return error };
        let problem = format!(
            "`{field}` was {saved} and is now {now}; set it back to use this checkpoint, or begin a new run"
        );
        Error::Checkpoint { path: self.path().to_owned(), problem, resume: None }
    }

    /// Refuses the checkpoint of a model that is not the crate's.
    pub(super) fn require_gpt(&self) -> Result<()> {
        match self.state.model.0.contains_key("model.layers") {
            true => Ok(()),
            false => Err(Error::Checkpoint {
                path: self.path().to_owned(),
                problem: "its model is not the GPT that comes with Millstream; use it in the program that trained it"
                    .to_owned(),
                resume: None,
            }),
        }
    }

    /// Loads its moments into `optimizer`, which must have been made for the [`model`](Self::model) loaded before.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if they are those of an optimizer with another name, if the file is damaged, or if it has
    /// other moments than `optimizer` takes.
    pub fn optimizer(&self, optimizer: Optimizer) -> Result<Optimizer> {
        optimizer.fingerprint().check(&self.state.optimizer).map_err(|error| self.differs(error))?;
        optimizer.load(&self.files.checked(OPTIMIZER)?)
    }

    /// Loads its counts of targets, for `vocab` ids.
    ///
    /// # Errors
    /// As [`Unigram::load`]; [`Error::Checkpoint`] if the file is damaged.
    pub fn unigram(&self, vocab: usize) -> Result<Unigram> {
        Unigram::load(&self.files.checked(UNIGRAM)?, vocab)
    }
}

/// Puts the parameters of a record, read from `path`, into `model`.
fn load_into<M: Module>(model: M, record: Result<ModuleRecord, RecordError>, path: PathBuf) -> Result<M> {
    let loaded = record.and_then(|record| model.try_load_record(record));
    loaded.map_err(|e| Error::Checkpoint { path, problem: e.to_string(), resume: None })
}
