//! Writes a model as a directory of the Hugging Face libraries: whole, or not at all.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use burn::module::{ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::names::{Entry, entries};
use super::weights::{FILE, INDEX};
use super::{CONFIG, TOKENIZER};
use crate::config::{Activation, ModelConfig, RopeKind};
use crate::error::{Error, Result};
use crate::train::model::Gpt;

/// What is written beside a model.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// The model's shape.
    pub config: &'a ModelConfig,
    /// The most ids that it was trained to see at once.
    pub seq_len: usize,
    /// The tokenizer, if it is one of Hugging Face's.
    pub tokenizer: Option<&'a str>,
    /// The token that ends a document, and its id.
    pub end: Option<(&'a str, u32)>,
    /// The model card, in Markdown.
    pub card: &'a str,
    /// The most bytes of weights in one file.
    pub shard_bytes: u64,
}

/// One of their architectures.
struct Architecture {
    name: &'static str,
    model_type: &'static str,
}

/// What describes a model of this shape.
fn architecture(model: &ModelConfig) -> Result<Architecture> {
    if model.activation == Activation::Gelu {
        return Err(Error::config(
            "model.activation",
            "gelu: no architecture of the Hugging Face libraries has RMSNorm, rotary positions and a feed-forward \
             network without a gate, so the model cannot be exported; train one with activation = \"swiglu\"",
        ));
    }
    match (model.qkv_bias, model.qk_norm) {
        (false, false) => Ok(Architecture { name: "LlamaForCausalLM", model_type: "llama" }),
        (true, false) => Ok(Architecture { name: "Qwen2ForCausalLM", model_type: "qwen2" }),
        (false, true) => Ok(Architecture { name: "Qwen3ForCausalLM", model_type: "qwen3" }),
        (true, true) => Err(Error::config(
            "model.qkv_bias",
            "no architecture of the Hugging Face libraries has both biases and norms of queries and keys, so the model \
             cannot be exported",
        )),
    }
}

impl Export<'_> {
    /// Checks that the model can be exported to `directory`, before it is loaded.
    ///
    /// # Errors
    /// [`Error::Config`] if no architecture describes the model, or if there is something in `directory`.
    pub fn check(config: &ModelConfig, directory: &Path) -> Result<()> {
        architecture(config)?;
        let is_empty = match fs::read_dir(directory) {
            Ok(mut entries) => entries.next().is_none(),
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        match is_empty {
            true => Ok(()),
            false => Err(Error::config(
                "--output",
                format!("{} is there already; name a new or an empty directory", directory.display()),
            )),
        }
    }

    /// Writes `model`, which must be without autodiff, to `directory`, and returns the names of the files.
    ///
    /// The files are written into a directory beside it, which then takes its name.
    ///
    /// # Errors
    /// As [`check`](Self::check), [`Error::Io`] if a file cannot be written, [`Error::Train`] if the device fails.
    pub fn write(&self, model: &Gpt, directory: &Path) -> Result<Vec<String>> {
        Self::check(self.config, directory)?;
        let [vocab, _] = model.embedding.val().dims();
        let failed = |action| move |e| Error::io(directory, action, e);
        let parent =
            directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(failed("create the directory"))?;
        let partial = crate::atomic::temporary(".exporting-").tempdir_in(parent).map_err(failed("write"))?;
        let mut files = self.weights(model, vocab, partial.path())?;
        let mut text = |name: &str, text: &str| -> Result<()> {
            write(&partial.path().join(name), text.as_bytes())?;
            files.push(name.to_owned());
            Ok(())
        };
        text(CONFIG, &pretty(&self.describe(vocab)?))?;
        text("generation_config.json", &pretty(&self.generation()))?;
        if let Some(tokenizer) = self.tokenizer {
            text(TOKENIZER, tokenizer)?;
            text("tokenizer_config.json", &pretty(&self.tokenizer_config()))?;
        }
        text("README.md", self.card)?;
        #[cfg(unix)]
        readable(partial.path(), &files).map_err(failed("write"))?;
        if directory.exists() {
            fs::remove_dir(directory).map_err(failed("replace the empty directory"))?;
        }
        fs::rename(partial.path(), directory).map_err(failed("put the model in place"))?;
        let _ = partial.keep();
        Ok(files)
    }

    /// Writes the weights to one file or several.
    fn weights(&self, model: &Gpt, vocab: usize, directory: &Path) -> Result<Vec<String>> {
        let entries = entries(self.config, vocab);
        let shards = shards(&entries, self.shard_bytes);
        let name = |shard: usize| match shards.len() {
            1 => FILE.to_owned(),
            of => format!("model-{:05}-of-{of:05}.safetensors", shard + 1),
        };
        let mut names = Vec::new();
        let mut map = BTreeMap::new();
        for (number, shard) in shards.iter().enumerate() {
            names.push(name(number));
            let mut read = Read { entries: shard, path: Vec::new(), tensors: Vec::new(), failed: None };
            burn::module::Module::visit(model, &mut read);
            if let Some(error) = read.failed {
                return Err(error);
            }
            for (tensor, ..) in &read.tensors {
                map.insert(tensor.clone(), name(number));
            }
            save(&directory.join(name(number)), &read.tensors)?;
        }
        if shards.len() > 1 {
            let total: u64 = entries.iter().map(bytes).sum();
            let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
            write(&directory.join(INDEX), pretty(&index).as_bytes())?;
            names.push(INDEX.to_owned());
        }
        Ok(names)
    }

    /// `config.json`.
    fn describe(&self, vocab: usize) -> Result<Value> {
        let (model, Architecture { name, model_type }) = (self.config, architecture(self.config)?);
        let mut rope = json!({ "rope_theta": short(model.rope_theta), "rope_type": "default" });
        if let Some(scaling) = &model.rope_scaling {
            rope["factor"] = json!(short(scaling.factor));
            rope["rope_type"] = match scaling.kind {
                RopeKind::Linear => json!("linear"),
                RopeKind::Llama3 => {
                    rope["low_freq_factor"] = json!(short(scaling.low_freq_factor));
                    rope["high_freq_factor"] = json!(short(scaling.high_freq_factor));
                    rope["original_max_position_embeddings"] = json!(scaling.original_seq_len);
                    json!("llama3")
                }
            };
        }
        let mut description = json!({
            "architectures": [name],
            "model_type": model_type,
            "hidden_size": model.d_model,
            "intermediate_size": model.d_ff,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads(),
            "head_dim": model.head_dim(),
            "vocab_size": vocab,
            "max_position_embeddings": self.seq_len,
            "hidden_act": "silu",
            "rms_norm_eps": model.norm_epsilon,
            // Versions before 5 read the first two, later ones the third.
            "rope_theta": short(model.rope_theta),
            "rope_scaling": model.rope_scaling.as_ref().map(|_| rope.clone()),
            "rope_parameters": rope,
            "tie_word_embeddings": model.tied,
            "attention_bias": false,
            "attention_dropout": 0.0,
            "use_cache": true,
            "bos_token_id": null,
            "eos_token_id": self.end.map(|(_, id)| id),
            "dtype": "float32",
        });
        if model_type == "llama" {
            description["mlp_bias"] = json!(false);
        }
        if model_type == "qwen2" {
            description.as_object_mut().map(|keys| keys.remove("attention_bias"));
        }
        Ok(description)
    }

    /// `generation_config.json`.
    fn generation(&self) -> Value {
        json!({ "_from_model_config": true, "eos_token_id": self.end.map(|(_, id)| id) })
    }

    /// `tokenizer_config.json`.
    fn tokenizer_config(&self) -> Value {
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.seq_len,
            "clean_up_tokenization_spaces": false,
            "eos_token": self.end.map(|(token, _)| token),
        })
    }
}

/// Splits entries into files of at most so many bytes; a longer one has a file of its own.
fn shards(entries: &[Entry], most: u64) -> Vec<&[Entry]> {
    let (mut shards, mut from, mut size) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        if at > from && size + bytes(entry) > most {
            shards.push(&entries[from..at]);
            (from, size) = (at, 0);
        }
        size += bytes(entry);
    }
    shards.push(&entries[from..]);
    shards
}

fn bytes(entry: &Entry) -> u64 {
    entry.parts.iter().map(|part| part.len() as u64 * 4).sum()
}

/// A tensor of theirs: its name, its shape, and its values as bytes.
type Stored = (String, Vec<usize>, Vec<u8>);

/// Reads some parameters from the device.
struct Read<'a> {
    entries: &'a [Entry],
    path: Vec<String>,
    tensors: Vec<Stored>,
    failed: Option<Error>,
}

impl ModuleVisitor for Read<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let Some(entry) = self.entries.iter().find(|entry| entry.path == path) else { return };
        let data = param.val().cast(DType::F32).try_into_data().map_err(|e| e.to_string());
        match data.and_then(|data| data.try_to_vec::<f32>().map_err(|e| format!("{e:?}"))) {
            Ok(values) => self.tensors.extend(entry.scatter(&values).into_iter().map(|(part, values)| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (part.name.clone(), part.shape.clone(), bytes)
            })),
            Err(problem) => self.failed = Some(Error::Train(format!("the device failed: {problem}"))),
        }
    }
}

fn save(path: &Path, tensors: &[Stored]) -> Result<()> {
    let views = tensors.iter().map(|(name, shape, bytes)| {
        TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name.as_str(), view))
    });
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let saved = views
        .collect::<Result<Vec<_>, _>>()
        .and_then(|views| safetensors::serialize_to_file(views, Some(format), path));
    saved.map_err(|e| Error::io(path, "write the weights", std::io::Error::other(e)))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| Error::io(path, "sync", e))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, "write", e))
}

/// A number as it is written in configs: 0.1, and not 0.10000000149011612.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

fn pretty(json: &Value) -> String {
    format!("{json:#}\n")
}

/// Temporary directories, and the files that safetensors writes, are for their owner alone; a model is not.
#[cfg(unix)]
fn readable(directory: &Path, files: &[String]) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        fs::set_permissions(directory.join(file), fs::Permissions::from_mode(0o644))?;
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}
