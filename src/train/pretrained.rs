//! Models as the Hugging Face libraries keep them: a directory with `config.json`, `model.safetensors` and a tokenizer.
//!
//! [`Pretrained`] reads such a directory, and [`Export`] writes one. `description` is what `config.json` says, `names`
//! says which of their tensors make which of our parameters, and `weights` reads the tensors. One tensor at a time is
//! held beside the model.

use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use serde_json::Value;

use super::device;
use super::model::Gpt;
use crate::bounded;
use crate::config::{Config, ModelConfig};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

mod description;
mod export;
mod names;
mod weights;

use description::Description;
pub use export::Export;
use names::{Entry, entries};
use weights::Weights;

/// The file with a model's shape.
const CONFIG: &str = "config.json";
/// The file with its tokenizer.
const TOKENIZER: &str = "tokenizer.json";
/// The most bytes of that file.
const TOKENIZER_BYTES: u64 = 1 << 30;

/// The config with the shape of the model that `train.init` names; as it is if it names none.
///
/// # Errors
/// As [`Pretrained::open`] and [`Pretrained::adopt`].
pub fn resolved(config: &Config) -> Result<Config> {
    match &config.train.init {
        Some(directory) => Pretrained::open(directory)?.adopt(config),
        None => Ok(config.clone()),
    }
}

/// A model in a directory of the Hugging Face libraries. Its shape and the names of its weights are known and checked;
/// the weights are not read yet.
#[derive(Debug)]
pub struct Pretrained {
    directory: PathBuf,
    description: Description,
    weights: Weights,
    entries: Vec<Entry>,
}

impl Pretrained {
    /// Whether a directory has a model of the Hugging Face libraries.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(CONFIG).is_file()
    }

    /// Reads what a model is. All that cannot be trained here exactly as it was meant is refused.
    ///
    /// # Errors
    /// [`Error::Config`] with the file and what is not supported in it; [`Error::Io`] if it cannot be read.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        let description = Description::read(&directory.join(CONFIG))?;
        let weights = Weights::open(&directory)?;
        let entries = entries(&description.model, description.vocab);
        weights.check(&entries)?;
        Ok(Self { directory, description, weights, entries })
    }

    /// The model's shape, for `[model]`.
    pub fn model(&self) -> &ModelConfig {
        &self.description.model
    }

    /// The most ids that it was made to see at once.
    pub fn max_seq_len(&self) -> usize {
        self.description.max_seq_len
    }

    /// The id that ends a text, if the model says so.
    pub fn end(&self) -> Option<u32> {
        self.description.end
    }

    /// The path of its tokenizer, if it is beside it.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        Some(self.directory.join(TOKENIZER)).filter(|path| path.is_file())
    }

    /// Returns `config` with this model's shape in `[model]`.
    ///
    /// # Errors
    /// [`Error::Config`] if `[model]` says another shape, or rows are longer than the model can see.
    pub fn adopt(&self, config: &Config) -> Result<Config> {
        let model = self.model();
        if config.model != *model && config.model != ModelConfig::default() {
            let problem = format!(
                "it is not the shape of {}; leave [model] out, and the model's own is taken",
                self.directory.display()
            );
            return Err(Error::config("model", problem));
        }
        let most = self.description.window.unwrap_or(usize::MAX);
        if config.pipeline.seq_len > most {
            let problem = format!(
                "must be at most {most} with {}: its attention looks back no further, which is not supported here",
                self.directory.display()
            );
            return Err(Error::config("pipeline.seq_len", problem));
        }
        if config.pipeline.seq_len > self.max_seq_len() {
            tracing::warn!(
                seq_len = config.pipeline.seq_len,
                max_position_embeddings = self.max_seq_len(),
                "rows are longer than the texts that the model was made for"
            );
        }
        Ok(Config { model: model.clone(), ..config.clone() })
    }

    /// Checks that a tokenizer's ids mean what they mean to the model: that it is the one beside the model, if there is
    /// one.
    ///
    /// # Errors
    /// [`Error::Config`] if it is another one, or has more ids; [`Error::Io`] if the model's own cannot be read.
    pub fn check_tokenizer(&self, tokenizer: &dyn Tokenizer) -> Result<()> {
        let (ours, theirs) = (tokenizer.vocab_size(), self.description.vocab);
        if ours > theirs {
            let problem = format!(
                "the tokenizer has {ours} ids, and the model in {} has weights for {theirs}; use the model's own",
                self.directory.display()
            );
            return Err(Error::config("tokenizer.path", problem));
        }
        let Some(path) = self.tokenizer() else { return Ok(()) };
        let text =
            bounded::read(&path, TOKENIZER_BYTES).map_err(|e| Error::io(&path, "read the tokenizer", e))?;
        let own = serde_json::from_slice::<Value>(&text).ok();
        let used = tokenizer.tokenizer_json().and_then(|json| serde_json::from_str::<Value>(json).ok());
        match own.is_some() && own == used {
            true => Ok(()),
            false => {
                let problem = format!(
                    "this is another tokenizer than that of the model, so the same ids mean other text; set it to {:?}",
                    path.display().to_string()
                );
                Err(Error::config("tokenizer.path", problem))
            }
        }
    }

    /// Reads the weights into `model`, which must have been made with this shape.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read.
    pub fn load(&self, model: Gpt) -> Result<Gpt> {
        let mut fill = Fill { pretrained: self, path: Vec::new(), failed: None };
        let model = model.map(&mut fill);
        fill.failed.map_or(Ok(model), Err)
    }

    /// Loads the model without autodiff on the device of `config`, for [`generate`](super::generate()).
    ///
    /// # Errors
    /// As [`load`](Self::load), [`adopt`](Self::adopt) and [`check_tokenizer`](Self::check_tokenizer), and
    /// [`Error::Config`] for a device that cannot be used.
    pub fn model_without_autodiff(&self, config: &Config, tokenizer: &dyn Tokenizer) -> Result<Gpt> {
        self.check_tokenizer(tokenizer)?;
        let config = self.adopt(config)?;
        let device = device::open(&config.train)?;
        self.load(Gpt::from_config(&config, tokenizer, &device)?)
    }

    /// The values of one of our parameters.
    fn values(&self, path: &str) -> Result<Vec<f32>> {
        match self.entries.iter().find(|entry| entry.path == path) {
            Some(entry) => entry.gather(|name| self.weights.read(name)),
            None => Err(Error::Train(format!("the model has no parameter {path}"))),
        }
    }
}

/// Replaces parameters by those of a directory.
struct Fill<'a> {
    pretrained: &'a Pretrained,
    path: Vec<String>,
    failed: Option<Error>,
}

impl ModuleMapper for Fill<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        match self.pretrained.values(&self.path.join(".")) {
            Ok(values) => param.map(|old| {
                let tensor = Tensor::from_data(TensorData::new(values, old.dims()), &old.device());
                tensor.set_require_grad(old.is_require_grad())
            }),
            Err(error) => {
                self.failed = Some(error);
                param
            }
        }
    }
}
