//! A run's directory: the resolved config and its changes by resumes, the tokenizer, the metrics, the trail of cursors
//! and the checkpoints. One process at a time trains in it; others may read.

use std::collections::HashSet;
use std::hash::Hash;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, folder};
use crate::config::{ModelConfig, RunConfig};
use crate::file_names::{
    CHAT, CHECKPOINTS, CONFIG, FILES, FIRST_CONFIG, INIT, METRICS, SAMPLES, SETTINGS, SKIPPED, TENSORBOARD,
    TOKENIZER, UNUSED,
};
use crate::model::Gpt;
use crate::peers::Peers;
use crate::pretrained;
use millstream::atomic::write_atomically;
use millstream::config::{SourceConfig, Task, TokenizerConfig};
use millstream::disk;
use millstream::error::{Error, Remedy, Result, ResumeFrom};
use millstream::files::Listing;
use millstream::lock::DirLock;
use millstream::render::ChatTemplate;
use millstream::tokenizer::Tokenizer;
use millstream::trail;

mod lines;
mod log;
mod resume_settings;
mod samples;
mod skipped;
mod tensorboard;
mod unused;

pub(crate) use log::RunLog;
use resume_settings::{ResumeSettings, differences};
pub use samples::Sample;

/// The activity of a process that holds the directory's lock, for errors.
const WHAT: &str = "trains there";

/// `train.out`: everything that a run writes, and everything needed to resume it or use its model.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
    /// Held by the process that trains in the directory.
    lock: Option<Arc<DirLock>>,
}

/// A part of a run that has a config of its own.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The step that it continued from; 0 for the first one.
    pub step: u64,
    /// Its first batch. Batches that no step used may come before it.
    pub batch: u64,
    /// Its config.
    pub config: RunConfig,
}

impl RunDirectory {
    /// Creates the directory of a new run, claims it, and writes its config and, if there is one, its `tokenizer.json`.
    /// It also keeps what conversations are rendered with: the chat templates and the special tokens beside the tokenizer, and
    /// the template that a source names. With `train.init`, it also gets the files of that model that an export needs.
    ///
    /// # Errors
    /// [`Error::Config`] if it already has another run's checkpoints, [`Error::Busy`] if another process trains in it,
    /// [`Error::Io`] if it cannot be written.
    pub fn create(config: &RunConfig, tokenizer_json: Option<&str>) -> Result<Self> {
        let run = Self { root: config.train.out.clone(), lock: None }.claim()?;
        run.refuse_another_run()?;
        if let Some(json) = tokenizer_json {
            write_atomically(&run.tokenizer(), json.as_bytes())?;
        }
        let kept = tokenizer_json.and(config.data.tokenizer.path.as_deref());
        let is_chat = |source: &SourceConfig| matches!(source.task, Task::Chat | Task::Completion);
        pretrained::copy_chat_files(kept, config.data.sources.iter().any(is_chat), &run.root)?;
        run.copy_chat_template(config)?;
        pretrained::copy_origin(config.train.init.as_deref(), &run.init())?;
        let toml = toml_of(&with_rate(config.clone()))?;
        write_atomically(&run.root.join(CONFIG), toml.as_bytes())?;
        write_atomically(&run.root.join(FIRST_CONFIG), toml.as_bytes())?;
        // Those of a run that ended before its first checkpoint.
        pretrained::replace_file(&run.settings(), None)?;
        Ok(run)
    }

    /// Keeps the chat template of the first source that names one, or removes that of an earlier run.
    fn copy_chat_template(&self, config: &RunConfig) -> Result<()> {
        let template = config.data.sources.iter().find_map(|source| source.chat.template.as_deref());
        let read = |path| {
            let path = millstream::local(path)?;
            std::fs::read(&path).map_err(|e| Error::io(&path, "read the chat template", e))
        };
        pretrained::replace_file(&self.root.join(CHAT), template.map(read).transpose()?.as_deref())
    }

    /// The chat template of the run: that of the first source that names one, or the one beside its tokenizer, or that of
    /// the model that it began from; `None` if there is none. `date` is today's, for templates that ask for it.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Config`] if it is damaged.
    pub fn chat_template(&self, config: &RunConfig, date: Option<&str>) -> Result<Option<ChatTemplate>> {
        let (own, tokenizer) = (self.root.join(CHAT), &config.data.tokenizer);
        if own.is_file() {
            return ChatTemplate::open(&own, tokenizer, date).map(Some);
        }
        if let Some(beside) = ChatTemplate::beside(tokenizer, date)? {
            return Ok(Some(beside));
        }
        let path = Some(self.init().join(TOKENIZER));
        ChatTemplate::beside(&TokenizerConfig { path, ..tokenizer.clone() }, date)
    }

    /// The directory of a new run, for a rank that writes nothing there.
    pub(super) fn unclaimed(config: &RunConfig) -> Self {
        Self { root: config.train.out.clone(), lock: None }
    }

    /// Returns the directory that a new run would use; makes nothing.
    ///
    /// # Errors
    /// [`Error::Config`] if it already has another run's checkpoints, [`Error::Busy`] if another process trains in it.
    pub fn vacant(config: &RunConfig) -> Result<Self> {
        let run = Self { root: config.train.out.clone(), lock: None };
        // A run that has begun has its config: only there can another process run, and a lock be written.
        if run.config_path().is_file() {
            drop(run.clone().claim()?);
        }
        run.refuse_another_run()?;
        Ok(run)
    }

    fn refuse_another_run(&self) -> Result<()> {
        if Checkpoint::steps(&self.checkpoints())?.is_empty() {
            return Ok(());
        }
        let resume = ResumeFrom { run: self.root.clone(), step: None, settings: Vec::new() };
        let problem = format!(
            "{} already has a run's checkpoints; name another directory, or resume that run",
            self.root.display()
        );
        Err(Error::config("train.out", problem).with_remedy(Remedy::Resume(resume)))
    }

    /// Claims the directory for this process, until the last clone of the result is dropped. [`drive`](crate::drive())
    /// does so too, so call it only to be refused early.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process trains in it, [`Error::Io`] if the lock cannot be written.
    pub fn claim(self) -> Result<Self> {
        match self.lock {
            Some(_) => Ok(self),
            None => Ok(Self { lock: Some(Arc::new(DirLock::take(&self.root, WHAT)?)), ..self }),
        }
    }

    /// Opens the directory of an existing run.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not a run directory.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        match root.join(CONFIG).is_file() {
            true => Ok(Self { root, lock: None }),
            false if disk::dangling(&root).is_some() => {
                Err(Error::io(&root, "open the run's directory", ErrorKind::NotFound.into()))
            }
            false => Err(Error::config(
                root.display().to_string(),
                format!("this is not a run's directory: it has no {CONFIG}; name the train.out of a run"),
            )),
        }
    }

    /// Opens the directory of a run and its checkpoint of a step, or the newest, to resume from. The first rank claims the
    /// directory.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), [`claim`](Self::claim), [`after`](Self::after) and [`latest`](Self::latest).
    pub fn to_resume(root: &Path, step: Option<u64>, peers: &Peers) -> Result<(Self, Checkpoint)> {
        let directory = Self::open(root)?;
        let directory = if peers.is_first() { directory.claim()? } else { directory };
        let checkpoint = step.map_or_else(|| directory.latest(), |step| directory.after(step))?;
        Ok((directory, checkpoint))
    }

    /// Loads the config that the run last trained with, and applies each `key=value` on top. Edits of `config.toml` since
    /// then do not count. `train.out` and, if the run keeps its tokenizer, `tokenizer.path` point into this directory, even
    /// if it was moved.
    ///
    /// # Errors
    /// As [`RunConfig::load_with`]; [`Error::Config`] for a setting that names another directory, or a tokenizer other
    /// than the one that the run keeps.
    pub fn config(&self, settings: &[String]) -> Result<RunConfig> {
        self.config_at(u64::MAX, settings)
    }

    /// [`config`](Self::config), with the settings that the run had when it continued from the checkpoint of `step`.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn config_at(&self, step: u64, settings: &[String]) -> Result<RunConfig> {
        self.config_with(self.set_by(step)?, settings)
    }

    /// The config to resume the checkpoint of `step` with: [`config_at`](Self::config_at), with the edits of `config.toml`
    /// under the settings.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn config_to_resume(&self, step: u64, settings: &[String]) -> Result<RunConfig> {
        self.config_at(step, &[self.edits()?.as_slice(), settings].concat())
    }

    /// The settings that the run had when it continued from the checkpoint of `step`.
    fn set_by(&self, step: u64) -> Result<Vec<String>> {
        let resumed = ResumeSettings::load(self.settings())?.in_force(step);
        Ok(resumed.into_iter().map(|(_, setting)| setting).collect())
    }

    /// The run's first config with the settings that it was `resumed` with and others on top.
    fn config_with(&self, resumed: Vec<String>, settings: &[String]) -> Result<RunConfig> {
        let mut all = resumed;
        let before = self.first_config(&all)?;
        all.extend_from_slice(settings);
        let config = self.first_config(&all)?;
        self.refuse_another_tokenizer(&before, &config)?;
        self.refuse_another_out(&config, settings)?;
        Ok(self.adapt(config))
    }

    /// Refuses a setting that names another directory than this.
    fn refuse_another_out(&self, config: &RunConfig, settings: &[String]) -> Result<()> {
        let key = "train.out";
        if config.train.out == self.root || !settings.iter().any(|setting| key_of(setting) == key) {
            return Ok(());
        }
        let problem = format!(
            "the run goes on in its own directory, {}; leave the setting out, or copy the directory and resume the copy",
            self.root.display()
        );
        Err(Error::config(key, problem))
    }

    /// Refuses settings that name a tokenizer other than the one that the run keeps and uses.
    fn refuse_another_tokenizer(&self, before: &RunConfig, after: &RunConfig) -> Result<()> {
        let names_another = |key: &String| {
            let name = key.strip_prefix("tokenizer.").and_then(|name| name.split('.').next());
            name.is_some_and(|name| ["kind", "path", "pattern", "special", "train"].contains(&name))
        };
        let changed = differences(before, after)?;
        match changed.iter().map(|setting| key_of(setting)).find(names_another) {
            Some(key) if self.tokenizer().is_file() => {
                let problem = "the run keeps its tokenizer, and the ids of another one would mean other text; leave it out";
                Err(Error::config(key, problem))
            }
            _ => Ok(()),
        }
    }

    /// All settings that the run was resumed with and that hold now, in order, each with its first step. If a key was
    /// set twice at one step, only the last counts.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, [`Error::Config`] if they are damaged.
    pub fn resume_settings(&self) -> Result<Vec<(u64, String)>> {
        let all = ResumeSettings::load(self.settings())?.in_force(u64::MAX);
        Ok(last_ones(all, HashSet::new(), |(step, setting)| (*step, key_of(setting))))
    }

    /// The sessions of the run that have a config of their own, in order.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn sessions(&self) -> Result<Vec<SessionConfig>> {
        let resumed = ResumeSettings::load(self.settings())?;
        let all = std::iter::once((0, 0, Vec::new())).chain(resumed.sessions());
        all.map(|(step, batch, set)| Ok(SessionConfig { step, batch, config: self.config_with(set, &[])? }))
            .collect()
    }

    /// The configs of the run, as TOML, each with the first step that it holds for.
    fn configs(&self) -> Result<Vec<(u64, String)>> {
        let toml = |SessionConfig { step, config, .. }| Ok((step + 1, toml_of(&config)?));
        self.sessions()?.into_iter().map(toml).collect()
    }

    /// The settings of earlier resumes that hold at `step` and in `config`, each with its first step.
    pub(super) fn settings_in_force(&self, step: u64, config: &RunConfig) -> Result<Vec<(u64, String)>> {
        let changed = differences(&self.config_at(step, &[])?, &self.adapt(config.clone()))?;
        let seen = changed.iter().map(|setting| key_of(setting)).collect();
        let earlier = ResumeSettings::load(self.settings())?.in_force(step);
        Ok(last_ones(earlier, seen, |(_, setting)| key_of(setting)))
    }

    /// Saves the changes of `config` from `step` and `batch` on, so that later resumes have them too, and brings
    /// `config.toml` up to date.
    pub(super) fn save_settings(&self, step: u64, batch: u64, config: &RunConfig) -> Result<()> {
        let changed = differences(&self.config_at(step, &[])?, &self.adapt(config.clone()))?;
        let now = self.first_config(&[self.set_by(step)?, changed.clone()].concat())?;
        // First: a kill between the two leaves the changes as edits, which the next resume takes up.
        if !differences(&RunConfig::load(self.config_path())?, &now)?.is_empty() {
            write_atomically(&self.config_path(), toml_of(&now)?.as_bytes())?;
        }
        ResumeSettings::load(self.settings())?.set_from(step, batch, changed)
    }

    /// The edits of `config.toml` since the run last trained.
    fn edits(&self) -> Result<Vec<String>> {
        differences(&self.first_config(&self.set_by(u64::MAX)?)?, &RunConfig::load(self.config_path())?)
    }

    /// The edits of `config.toml` that a resume from `step` with `config` takes up.
    pub(super) fn edits_in_force(&self, step: u64, config: &RunConfig) -> Result<Vec<String>> {
        let changed = differences(&self.config_to_resume(step, &[])?, &self.adapt(config.clone()))?;
        let is_changed = |edit: &String| changed.iter().any(|setting| key_of(setting) == key_of(edit));
        Ok(self.edits()?.into_iter().filter(|edit| !is_changed(edit)).collect())
    }

    /// The config that the run began with, and settings on top.
    fn first_config(&self, settings: &[String]) -> Result<RunConfig> {
        RunConfig::load_with(self.root.join(FIRST_CONFIG), settings)
    }

    /// Loads another config for this run, with each `key=value` on top, as [`adapt`](Self::adapt) does. With
    /// `train.init`, settings that its `[model]` leaves out come from the run's model.
    ///
    /// # Errors
    /// As [`RunConfig::load_with`]; [`Error::Config`] for a setting that names another directory.
    pub fn load(&self, path: &Path, settings: &[String]) -> Result<RunConfig> {
        let config = RunConfig::load_with(path, settings)?;
        self.refuse_another_out(&config, settings)?;
        if config.train.init.is_none() {
            return Ok(self.adapt(config));
        }
        let model = self.first_config(&[])?.model;
        let config = RunConfig::load_over(path, settings, &RunConfig::default().with_model(model))?;
        Ok(self.adapt(config))
    }

    /// Adapts another config to this run: it gets this directory's `train.out` and tokenizer, and with `train.init` the
    /// shape of the run's model.
    pub fn adapt(&self, mut config: RunConfig) -> RunConfig {
        config = with_rate(config);
        config.train.out = self.root.clone();
        if config.train.init.is_some()
            && config.model == ModelConfig::default()
            && let Ok(began) = self.first_config(&[])
        {
            config.model = began.model;
        }
        if self.tokenizer().is_file() {
            config.data.tokenizer = config.data.tokenizer.with_json(self.tokenizer());
        }
        config
    }

    /// Returns the newest complete checkpoint.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, and the errors of [`Checkpoint::open`].
    pub fn latest(&self) -> Result<Checkpoint> {
        Checkpoint::latest(&self.checkpoints())?.ok_or_else(|| self.without_checkpoint())
    }

    /// Returns the checkpoint after `step`.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none, and the errors of [`Checkpoint::open`].
    pub fn after(&self, step: u64) -> Result<Checkpoint> {
        if let Some(checkpoint) = Checkpoint::after(&self.checkpoints(), step)? {
            return Ok(checkpoint);
        }
        let steps = Checkpoint::steps(&self.checkpoints())?;
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        match steps.is_empty() {
            true => Err(self.without_checkpoint()),
            false => {
                let problem =
                    format!("there is no checkpoint of step {step}; there is one of {}", steps.join(", "));
                Err(Error::config(self.root.display().to_string(), problem))
            }
        }
    }

    fn without_checkpoint(&self) -> Error {
        Error::config(
            self.root.display().to_string(),
            "the run has no complete checkpoint; start it again, without resuming",
        )
    }

    /// Loads the model of the newest checkpoint, for [`generate`](crate::generate()), on the config's device.
    ///
    /// # Errors
    /// As [`model_at`](Self::model_at).
    pub fn model(&self, config: &RunConfig, tokenizer: &dyn Tokenizer) -> Result<Gpt> {
        self.model_at(None, config, tokenizer).map(|(model, _)| model)
    }

    /// As [`model`](Self::model), of the checkpoint after a step if one is asked for, and with its checkpoint.
    ///
    /// # Errors
    /// As [`after`](Self::after), [`latest`](Self::latest) and [`Checkpoint::load_model`].
    pub fn model_at(
        &self,
        step: Option<u64>,
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
    ) -> Result<(Gpt, Checkpoint)> {
        let load = |checkpoint: Checkpoint| Ok((checkpoint.load_model(config, tokenizer)?, checkpoint));
        if let Some(step) = step {
            return self.after(step).and_then(load);
        }
        loop {
            let newest = Checkpoint::steps(&self.checkpoints())?.pop();
            let loaded = self.latest().and_then(load);
            // A continuing run may have removed the checkpoint meanwhile; then there is a newer one.
            match newest {
                Some(step) if loaded.is_err() && !folder::path(&self.checkpoints(), step).exists() => {}
                _ => return loaded,
            }
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The path of the config that the run began with.
    pub fn config_path(&self) -> PathBuf {
        self.root.join(CONFIG)
    }

    /// The path of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join(CHECKPOINTS)
    }

    /// The path of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.root.join(METRICS)
    }

    /// The path of the [samples](Sample).
    pub fn samples(&self) -> PathBuf {
        self.root.join(SAMPLES)
    }

    /// The path of the [skipped documents](Self::skipped_documents).
    pub fn skipped(&self) -> PathBuf {
        self.root.join(SKIPPED)
    }

    /// The path of the [unused batches](Self::unused_batches).
    pub fn unused(&self) -> PathBuf {
        self.root.join(UNUSED)
    }

    /// The path of TensorBoard's event files, for a run with `train.tensorboard`.
    pub fn tensorboard(&self) -> PathBuf {
        self.root.join(TENSORBOARD)
    }

    /// The path of the [trail](millstream::trail) of cursors.
    pub fn trail(&self) -> PathBuf {
        self.root.join(trail::FILE)
    }

    /// The path of the settings that resumes changed.
    pub fn settings(&self) -> PathBuf {
        self.root.join(SETTINGS)
    }

    /// The path of the [listing](millstream::files::Listing) of the files that the run reads.
    pub fn files(&self) -> PathBuf {
        self.root.join(FILES)
    }

    /// The listing of the files that the run has read; `None` if it has none.
    ///
    /// # Errors
    /// Those of [`Listing::load`].
    pub fn listing(&self) -> Result<Option<Listing>> {
        self.files().exists().then(|| Listing::load(self.files())).transpose()
    }

    /// The path of the model files that a run with `train.init` keeps: the small ones that [`Origin`](crate::Origin)
    /// reads.
    pub fn init(&self) -> PathBuf {
        self.root.join(INIT)
    }

    /// The path of the tokenizer, if the run keeps one.
    pub fn tokenizer(&self) -> PathBuf {
        self.root.join(TOKENIZER)
    }
}

/// The config with its learning rate, which a run keeps as a number.
fn with_rate(mut config: RunConfig) -> RunConfig {
    config.train.lr = Some(config.train.lr());
    config
}

fn toml_of(config: &RunConfig) -> Result<String> {
    toml::to_string_pretty(config).map_err(|e| Error::config(CONFIG, e.to_string()))
}

/// The key that a setting sets.
fn key_of(setting: &str) -> String {
    setting.split('=').next().unwrap_or_default().trim().to_owned()
}

/// The settings, each with its step, without those of a kind that follows later or has been `seen`.
fn last_ones<K: Eq + Hash>(
    settings: Vec<(u64, String)>,
    mut seen: HashSet<K>,
    kind: impl Fn(&(u64, String)) -> K,
) -> Vec<(u64, String)> {
    let mut last: Vec<_> = settings.into_iter().rev().filter(|setting| seen.insert(kind(setting))).collect();
    last.reverse();
    last
}
