//! Hugging Face model directories: `config.json`, `model.safetensors` and a tokenizer.
//!
//! [`Pretrained`] reads such a directory, and [`Export`] writes one.
//!
//! | file | what |
//! |---|---|
//! | `files` | the names of its files |
//! | `description` | `config.json`, read and written; the models that are refused |
//! | `layout` | the values of our parameters from its tensors, and back |
//! | `weights` | where its tensors are, and their values |
//! | `replace` | puts these values into a model |
//! | `template` | the tokens that an export's tokenizer puts before a text |
//! | `origin` | the files of the model that a run began from, which its export keeps |
//! | `dtype` | the type of an export's weights |
//! | `export`, `shards`, `partial` | an export, its files of tensors, and how it takes its place |
//!
//! Held in memory, besides the model: one parameter at a time, up to three times as f32.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::config::{ModelConfig, RunConfig};
use crate::model::shape::{Part, parts};
use crate::model::{Gpt, Initial};
use crate::{device, file_names};
use millstream::ask_hub_with;
use millstream::config::{SpecialTokens, TokenizerKind};
use millstream::error::{Error, Remedy, Result};
use millstream::location::unexpanded;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::template::Template;

mod description;
mod dtype;
mod export;
mod files;
mod layout;
mod origin;
mod partial;
mod replace;
mod shards;
mod template;
mod weights;

use description::Description;
pub use dtype::WeightDtype;
pub use export::Export;
pub(super) use files::replace_file;
use files::{ADAPTER, CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG};
use layout::gather;
pub use origin::Origin;
pub(super) use origin::{copy_chat_files, copy_origin};
use replace::replace;
use weights::Weights;

const TOKENIZER_BYTES: u64 = 1 << 30;

/// Loads a config for training, with each `key=value` on top. If `train.init` names a model, `[model]` is its shape: a key
/// that is written must have the model's value, and the others are taken from the model.
///
/// # Errors
/// As [`RunConfig::load_with`] and [`resolved`].
pub fn load(path: &Path, settings: &[String]) -> Result<RunConfig> {
    let config = RunConfig::load_with(path, settings)?;
    let Some(directory) = &config.train.init else { return Ok(config) };
    ask_hub_with(&config.data.store);
    let pretrained = Pretrained::open(directory)?;
    let shape = RunConfig::default().with_model(pretrained.model().clone());
    pretrained.resolve(&RunConfig::load_over(path, settings, &shape)?)
}

/// Returns the config with the shape of the model that `train.init` names, or unchanged if it names none. A `[model]` with
/// the defaults counts as left out: only [`load`] knows whether it was written.
///
/// # Errors
/// As [`Pretrained::open`] and [`Pretrained::apply_shape`]; [`Error::Config`] if a tokenizer would be learned, whose ids would
/// mean nothing to the model.
pub fn resolved(config: &RunConfig) -> Result<RunConfig> {
    ask_hub_with(&config.data.store);
    match &config.train.init {
        Some(directory) => Pretrained::open(directory)?.resolve(config),
        None => Ok(config.clone()),
    }
}

/// The error that a tokenizer is not the model's, which is at `path`.
fn other_tokenizer(path: &Path) -> Error {
    let problem = format!(
        "set it to {:?}, which is the model's tokenizer: the ids of another one would mean other text",
        path.display().to_string()
    );
    Error::config("tokenizer.path", problem)
}

/// The keys of `[model]` that are set, with the values that follow from others.
fn keys(model: &ModelConfig) -> Map<String, Value> {
    let (kv_heads, head_dim) = (Some(model.kv_heads()), Some(model.head_dim()));
    match serde_json::to_value(ModelConfig { kv_heads, head_dim, ..model.clone() }) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// A `tokenizer.json` without its template, which does not change the ids of the text itself.
fn without_template(mut tokenizer: Value) -> Value {
    if let Some(keys) = tokenizer.as_object_mut() {
        keys.remove("post_processor");
    }
    tokenizer
}

/// Why a path is not a model directory, and what to do.
fn no_model(path: &Path) -> String {
    let is_gguf =
        |path: &Path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let has_gguf = || {
        path.read_dir().is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_gguf(&file.path()))))
    };
    let is_on_hub = || {
        let parts: Vec<&str> = path.to_str().into_iter().flat_map(|path| path.split('/')).collect();
        parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && !part.starts_with(['.', '~']))
    };
    if path.join(file_names::CONFIG).is_file() {
        "it is a run's directory; export its model first".to_owned()
    } else if path.join(ADAPTER).is_file() {
        "it holds an adapter, and not a whole model; merge it into its base model (PEFT: `merge_and_unload`, then \
         `save_pretrained`), and name the directory of that"
            .to_owned()
    } else if is_gguf(path) || has_gguf() {
        "GGUF files are not read; name the directory of the model's safetensors, with its config.json"
            .to_owned()
    } else if path.is_file() {
        "it is a file; name the directory that has the model's config.json".to_owned()
    } else if path.is_dir() {
        format!(
            "it is neither a Hugging Face model's directory, with a {CONFIG}, nor a run's, with a {}",
            file_names::CONFIG
        )
    } else if path.to_str().is_some_and(|path| path.contains("://")) {
        "this URL is not read; name a directory, or a model on the Hugging Face Hub: \"hf://OWNER/NAME\""
            .to_owned()
    } else if is_on_hub() {
        let hint = unexpanded(path);
        format!(
            "there is no such directory; for a model on the Hugging Face Hub write \"hf://{}\"{hint}",
            path.display()
        )
    } else {
        format!("there is no such directory; download the model first{}", unexpanded(path))
    }
}

/// A Hugging Face model directory. Its shape, and the names and shapes of its tensors, are read and checked; the weights
/// are read by [`load`](Self::load).
#[derive(Debug)]
pub struct Pretrained {
    directory: PathBuf,
    description: Description,
    weights: Weights,
    parts: Vec<Part>,
}

impl Pretrained {
    /// Opens a model directory. A model that cannot be trained here exactly is refused.
    ///
    /// # Errors
    /// [`Error::Config`] with the file and what is not supported in it; [`Error::Io`] if it cannot be read.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = millstream::local(&directory.into())?.into_owned();
        let config = directory.join(CONFIG);
        if !config.is_file() {
            let error = Error::config(directory.display().to_string(), no_model(&directory));
            return Err(match directory.join(file_names::CONFIG).is_file() {
                true => error.with_remedy(Remedy::ExportModel(directory)),
                false => error,
            });
        }
        let description = Description::read(&config)?;
        let weights = Weights::open(&directory)?;
        let (layers, tensors) = (description.model.layers, weights.tensors.len());
        if layers > tensors {
            let problem = format!("num_hidden_layers is {layers}, and the files have only {tensors} tensors");
            return Err(Error::config(config.display().to_string(), problem));
        }
        let parts = parts(&description.model, description.vocab);
        weights.check(&parts)?;
        Ok(Self { directory, description, weights, parts })
    }

    /// The model's shape, for `[model]`.
    pub fn model(&self) -> &ModelConfig {
        &self.description.model
    }

    /// The most ids that it was made to see at once.
    pub fn max_seq_len(&self) -> usize {
        self.description.positions()
    }

    /// The ids that end a text, as transformers finds them: those of `generation_config.json`, or of `config.json` if that
    /// names none.
    ///
    /// # Errors
    /// [`Error::Config`] if `generation_config.json` is damaged, [`Error::Io`] if it cannot be read.
    pub fn ends(&self) -> Result<Vec<u32>> {
        let generation = description::generation_ends(&self.directory.join(GENERATION))?;
        Ok(generation.unwrap_or_else(|| self.description.ends.clone()))
    }

    /// The ids that its tokenizer puts before a text.
    ///
    /// # Errors
    /// [`Error::Io`] if the tokenizer cannot be read.
    pub fn begin(&self) -> Result<Vec<u32>> {
        let template = self.tokenizer_json()?.map(|json| Template::read(&json));
        Ok(template.unwrap_or_default().before.into_iter().map(|(_, id)| id).collect())
    }

    /// How special tokens in a text are read, as transformers reads them: as special tokens, or as text if
    /// `split_special_tokens` is true in `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`Error::Io`] if that file cannot be read, [`Error::Config`] if it is not JSON.
    pub fn special_tokens(&self) -> Result<SpecialTokens> {
        let json: Value = files::json(&self.directory.join(TOKENIZER_CONFIG))?;
        let is_split = json["split_special_tokens"] == true;
        Ok(if is_split { SpecialTokens::Text } else { SpecialTokens::Parse })
    }

    /// The path of its tokenizer.
    ///
    /// # Errors
    /// [`Error::Config`] if it has none.
    pub fn own_tokenizer(&self) -> Result<PathBuf> {
        self.tokenizer().ok_or_else(|| {
            let problem = format!("it has no {TOKENIZER}, without which the model's ids have no meaning");
            Error::config(self.directory.display().to_string(), problem)
        })
    }

    fn tokenizer_json(&self) -> Result<Option<Vec<u8>>> {
        files::read_up_to(TOKENIZER_BYTES, &self.directory.join(TOKENIZER))
    }

    /// The path of its tokenizer, if it has one.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        Some(self.directory.join(TOKENIZER)).filter(|path| path.is_file())
    }

    /// The config of a run that begins from this model.
    pub(super) fn resolve(&self, config: &RunConfig) -> Result<RunConfig> {
        let config = self.apply_shape(config)?;
        match config.data.tokenizer.is_learned() {
            false => Ok(config),
            true => Err(other_tokenizer(&self.own_tokenizer()?)),
        }
    }

    /// Returns `config` with this model's shape in `[model]`.
    ///
    /// # Errors
    /// [`Error::Config`] with a key of `[model]` that has another value, or if rows are longer than the model can see.
    pub fn apply_shape(&self, config: &RunConfig) -> Result<RunConfig> {
        let model = self.model();
        let vocab_size = config.model.vocab_size.or(model.vocab_size);
        let asked = ModelConfig { vocab_size, ..config.model.clone() };
        let (here, there) = (keys(&asked), keys(model));
        let others = here.keys().chain(there.keys()).filter(|key| here.get(*key) != there.get(*key));
        // The key to name is the one that was set, and not one that follows from it.
        let first = others.min_by_key(|key| ["kv_heads", "head_dim"].contains(&key.as_str()));
        if config.model != ModelConfig::default()
            && let Some(key) = first
        {
            let said =
                |keys: &Map<String, Value>| keys.get(key).map_or("not set".to_owned(), Value::to_string);
            let (here, there, directory) = (said(&here), said(&there), self.directory.display());
            let problem = format!("it is {here} here and {there} in {directory}; leave it out");
            return Err(Error::config(format!("model.{key}"), problem));
        }
        let most = self.description.window.unwrap_or(usize::MAX);
        if config.data.pipeline.seq_len > most {
            let problem = format!(
                "must be at most {most} with the model in {}: longer rows need a sliding window, which is not supported",
                self.directory.display()
            );
            return Err(Error::config("pipeline.seq_len", problem));
        }
        Ok(RunConfig { model: model.clone(), ..config.clone() })
    }

    /// Warns if the model has no tokenizer to compare the run's with, and if rows are longer than the model was made for.
    pub fn warn(&self, config: &RunConfig) {
        if self.tokenizer().is_none() && config.data.tokenizer.kind != TokenizerKind::Bytes {
            tracing::warn!(
                directory = %self.directory.display(),
                "the model has no tokenizer.json, so nothing tells whether it was made with this tokenizer"
            );
        }
        if config.data.pipeline.seq_len > self.max_seq_len() {
            tracing::warn!(
                seq_len = config.data.pipeline.seq_len,
                max_position_embeddings = self.max_seq_len(),
                "rows are longer than the texts that the model was made for"
            );
        }
    }

    /// Checks that a tokenizer is the model's own, if the model has one.
    ///
    /// # Errors
    /// [`Error::Config`] if it is another one, or has more ids than the model; [`Error::Io`] if the model's own cannot be
    /// read.
    pub fn check_tokenizer(&self, tokenizer: &dyn Tokenizer) -> Result<()> {
        let own: Option<Value> = self.tokenizer_json()?.and_then(|json| serde_json::from_slice(&json).ok());
        let used = tokenizer.tokenizer_json().and_then(|json| serde_json::from_str(json).ok());
        let is_own = own.is_some() && own.map(without_template) == used.map(without_template);
        let (ours, theirs, directory) =
            (tokenizer.vocab_size(), self.description.vocab, self.directory.display().to_string());
        if ours > theirs {
            return Err(match is_own {
                true => {
                    let problem = format!(
                        "its embedding has weights for {theirs} ids, and its tokenizer has {ours}; resize the \
                         embedding in transformers first"
                    );
                    Error::config(directory, problem)
                }
                false => {
                    let problem = format!(
                        "the tokenizer has {ours} ids, and the model in {directory} has weights for {theirs}; use \
                         the model's own"
                    );
                    Error::config("tokenizer.path", problem)
                }
            });
        }
        match self.tokenizer() {
            Some(path) if !is_own => Err(other_tokenizer(&path)),
            _ => Ok(()),
        }
    }

    /// Reads the weights into `model`, which must have this shape.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Train`] if `model` has another shape, [`Error::Config`] if a tied
    /// head is stored with other values than the embedding.
    pub fn load(&self, model: Gpt) -> Result<Gpt> {
        if self.model().tied {
            self.weights.check_tied()?;
        }
        let (model, loaded) = replace(model, |path, len| self.values(path, len))?;
        match self.parts.iter().find(|part| !loaded.contains(&part.path)) {
            Some(Part { path, .. }) => Err(self.other_shape(&format!("it has no parameter {path}"))),
            None => Ok(model),
        }
    }

    /// The error that the model to load into has another shape.
    fn other_shape(&self, how: &str) -> Error {
        let directory = self.directory.display();
        Error::Train(format!("the model to load into has another shape than the one in {directory}: {how}"))
    }

    /// Loads the model without autodiff on the device of `config`, for [`generate`](crate::generate()).
    ///
    /// # Errors
    /// As [`load`](Self::load), [`apply_shape`](Self::apply_shape) and [`check_tokenizer`](Self::check_tokenizer), and
    /// [`Error::Config`] for a device that cannot be used.
    pub fn model_without_autodiff(&self, config: &RunConfig, tokenizer: &dyn Tokenizer) -> Result<Gpt> {
        self.check_tokenizer(tokenizer)?;
        let config = self.apply_shape(config)?;
        self.warn(&config);
        let device = device::open(&config.train)?;
        self.load(Gpt::with_initial(&config, tokenizer, Initial::Loaded, &device)?)
    }

    /// The `len` values of one of our parameters.
    fn values(&self, path: &str, len: usize) -> Result<Vec<f32>> {
        match self.parts.iter().find(|part| part.path == path && part.len() == len) {
            Some(part) => gather(part, |name| self.weights.read(name)),
            None => Err(self.other_shape(&format!("only it has a parameter {path} of {len} values"))),
        }
    }
}
