//! Writes a Hugging Face model directory, or an adapter of PEFT: whole, or not at all.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::description::keys;
use super::dtype::WeightDtype;
use super::files::{
    ADAPTER, ADAPTER_WEIGHTS, CARD, CHAT_TEMPLATE, CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG,
};
use super::origin::Origin;
use super::partial::{Partial, is_empty};
use super::shards::ModelTensors;
use super::{shards, template};
use crate::config::{LoraConfig, ModelConfig, Projection, RopeKind, RopeScaling};
use crate::model::shape::{Architecture, parts};
use crate::model::{Gpt, adapter_parts};
use millstream::atomic::{sync, write_synced};
use millstream::config::SpecialTokens;
use millstream::error::{Error, Result};

/// The version of the libraries that the files name. Without one, version 4.57 takes them for older files, and warns of
/// their tokenizers.
const VERSION: &str = "5.0.0";

/// What an export needs besides the weights.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// The model's shape.
    pub config: &'a ModelConfig,
    /// The most ids that it was trained to see at once.
    pub seq_len: usize,
    /// The tokenizer, if it is one of Hugging Face's.
    pub tokenizer: Option<&'a str>,
    /// How the tokenizer read special tokens in texts.
    pub special_tokens: SpecialTokens,
    /// The token that begins a document, and its id.
    pub begin: Option<(&'a str, u32)>,
    /// The token that ends a document, and its id.
    pub end: Option<(&'a str, u32)>,
    /// The model card, in Markdown.
    pub card: &'a str,
    /// Other ids that end a text, such as that of a turn's end.
    pub ends: &'a [u32],
    /// The chat template that the run rendered conversations with, if there was one.
    pub chat_template: Option<&'a str>,
    /// The special tokens that it writes, each with its name, such as `eos_token`.
    pub chat_tokens: &'a [(String, String)],
    /// The model that the run began from: the export keeps its longest text, its other end ids, its sampling settings and
    /// its chat templates.
    pub origin: Option<&'a Origin>,
    /// The type of the weights.
    pub dtype: WeightDtype,
    /// The most bytes of weights in one file.
    pub shard_bytes: u64,
}

impl Export<'_> {
    /// Checks that a model of this shape can be exported to `directory`, before the model is loaded.
    ///
    /// # Errors
    /// [`Error::Config`] if no architecture has this shape, or if `directory` is not empty; [`Error::Io`] if it cannot be
    /// read.
    pub fn check(config: &ModelConfig, directory: &Path) -> Result<()> {
        Architecture::from_shape(config)?;
        let refused = |problem: &str| Err(Error::config(directory.display().to_string(), problem));
        match is_empty(directory) {
            Ok(true) => Ok(()),
            Ok(false) => refused("there is something in it already; name a new or an empty directory"),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                refused("it is not a directory; name a new or an empty one")
            }
            Err(e) => Err(Error::io(directory, "look into the directory", e)),
        }
    }

    /// Writes `model` to `directory`, and returns the names of the files. What adapters add to its matrices is added.
    ///
    /// The files are written to a hidden directory beside `directory`, which then takes its name. If `directory` exists,
    /// they are written to a hidden directory in it, and moved, `config.json` last. So an error or a kill leaves no
    /// incomplete model; the next export removes what a kill has left. A symbolic link is followed.
    ///
    /// # Errors
    /// As [`check`](Self::check), [`Error::Io`] if a file cannot be written, [`Error::Train`] if the device fails,
    /// `model` has another shape, or a value is too large for the type of the weights.
    pub fn write(&self, model: &Gpt, directory: &Path) -> Result<Vec<String>> {
        self.write_with(directory, |within| match model.has_adapters() {
            true => self.write_files(&model.merged(), within),
            false => self.write_files(model, within),
        })
    }

    /// As [`write`](Self::write), for the adapters of `model` alone, as PEFT keeps them. `base` is the directory of the model
    /// that they were trained beside, and `lora` how.
    ///
    /// # Errors
    /// As [`write`](Self::write); [`Error::Train`] too if `model` has no such adapters.
    pub fn write_adapter(
        &self,
        model: &Gpt,
        lora: &LoraConfig,
        base: &Path,
        directory: &Path,
    ) -> Result<Vec<String>> {
        self.write_with(directory, |within| {
            let parts = adapter_parts(self.config, lora);
            let parameters = ModelTensors::new(model);
            shards::save(&within.join(ADAPTER_WEIGHTS), &parts, self.dtype, &parameters)?;
            let mut files = vec![ADAPTER_WEIGHTS.to_owned()];
            let texts = vec![(ADAPTER, pretty(&adapter(lora, base))), (CARD, self.card.to_owned())];
            self.write_texts(texts, within, &mut files)?;
            Ok(files)
        })
    }

    /// Lets `write` write to a hidden directory, which then takes the place of `directory`.
    fn write_with(
        &self,
        directory: &Path,
        write: impl FnOnce(&Path) -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        Self::check(self.config, directory)?;
        let partial = Partial::new(directory)?;
        let files = write(partial.path())?;
        partial.finish()?;
        Ok(files)
    }

    fn write_files(&self, model: &Gpt, directory: &Path) -> Result<Vec<String>> {
        let [vocab, _] = model.embedding.val().dims();
        let mut files =
            shards::write(model, &parts(self.config, vocab), self.dtype, self.shard_bytes, directory)?;
        let texts = vec![
            (CONFIG, pretty(&self.describe(vocab)?)),
            (GENERATION, pretty(&self.generation())),
            (CARD, self.card.to_owned()),
        ];
        self.write_texts(texts, directory, &mut files)?;
        Ok(files)
    }

    /// Writes `texts`, the tokenizer's files, and the chat templates. Adds their names to `files`.
    fn write_texts(
        &self,
        mut texts: Vec<(&str, String)>,
        directory: &Path,
        files: &mut Vec<String>,
    ) -> Result<()> {
        if let Some(tokenizer) = self.tokenizer {
            texts.push((TOKENIZER, template::beginning(tokenizer, self.begin).into_owned()));
            texts.push((TOKENIZER_CONFIG, pretty(&self.tokenizer_config())));
        }
        for (name, text) in texts {
            write_synced(&directory.join(name), text.as_bytes())?;
            files.push(name.to_owned());
        }
        for (path, template) in self.templates() {
            let (name, path) = (path.display().to_string(), directory.join(path));
            let within = path.parent().unwrap_or(directory);
            std::fs::create_dir_all(within).map_err(|e| Error::io(within, "create the directory", e))?;
            write_synced(&path, template)?;
            sync(within)?;
            files.push(name);
        }
        Ok(())
    }

    /// Whether the chat template is another one than those of the origin, which then are not handed on.
    fn has_own_template(&self) -> bool {
        let Some(own) = self.chat_template else { return false };
        self.origin.is_none_or(|origin| !origin.has_template(own))
    }

    /// The files of chat templates, by their paths. They say how the tokenizer is used.
    fn templates(&self) -> Vec<(&Path, &[u8])> {
        if self.tokenizer.is_none() {
            return Vec::new();
        }
        match (self.chat_template, self.origin) {
            (Some(own), _) if self.has_own_template() => vec![(Path::new(CHAT_TEMPLATE), own.as_bytes())],
            (_, origin) => origin
                .into_iter()
                .flat_map(|origin| &origin.templates)
                .map(|(path, text)| (path.as_path(), text.as_slice()))
                .collect(),
        }
    }

    /// The `max_position_embeddings` of the export.
    ///
    /// transformers warns of a Llama 3 scaling unless it is longer than the length that is stretched.
    fn positions(&self) -> usize {
        match (self.origin, self.config.rope_scaling.as_ref()) {
            (Some(origin), _) => self.seq_len.max(origin.positions),
            (None, Some(&RopeScaling { kind: RopeKind::Llama3, factor, original_seq_len, .. })) => {
                let stretched = (original_seq_len as f64 * f64::from(factor)).round() as usize;
                self.seq_len.max(stretched).max(original_seq_len.saturating_add(1))
            }
            (None, _) => self.seq_len,
        }
    }

    /// The id that begins a text: the run's, or the origin's if the run has none.
    fn begin_id(&self) -> Value {
        let origins = || self.origin.and_then(|origin| origin.config.get("bos_token_id").cloned());
        self.begin.map(|(_, id)| json!(id)).or_else(origins).unwrap_or_default()
    }

    /// The ids that end a text: the run's, that of a turn's end, and the others of the origin.
    fn end_ids(&self) -> Value {
        let mut ids: Vec<u32> = self.end.map(|(_, id)| id).into_iter().collect();
        let origins = self.origin.into_iter().flat_map(|origin| &origin.ends);
        for id in self.ends.iter().chain(origins) {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        match ids[..] {
            [] => Value::Null,
            [id] => json!(id),
            _ => json!(ids),
        }
    }

    /// `config.json`.
    fn describe(&self, vocab: usize) -> Result<Value> {
        let mut description = keys(self.config, vocab)?;
        for (key, value) in [
            ("max_position_embeddings", json!(self.positions())),
            ("attention_dropout", json!(0.0)),
            ("use_cache", json!(true)),
            ("bos_token_id", self.begin_id()),
            ("eos_token_id", self.end_ids()),
            ("transformers_version", json!(VERSION)),
            ("dtype", json!(self.dtype.in_torch())),
            // Version 4 reads this one.
            ("torch_dtype", json!(self.dtype.in_torch())),
        ] {
            description[key] = value;
        }
        if let Some(pad) = self.origin.and_then(|origin| origin.config.get("pad_token_id")) {
            description["pad_token_id"] = pad.clone();
        }
        Ok(description)
    }

    /// `generation_config.json`.
    fn generation(&self) -> Value {
        let mut generation = self.origin.map(|origin| origin.generation.clone()).unwrap_or_default();
        if generation.is_empty() {
            generation.insert("_from_model_config".to_owned(), json!(true));
        }
        generation.insert("bos_token_id".to_owned(), self.begin_id());
        generation.insert("eos_token_id".to_owned(), self.end_ids());
        generation.insert("transformers_version".to_owned(), json!(VERSION));
        generation.into()
    }

    /// `tokenizer_config.json`: settings with which the library makes the ids that the model was trained on.
    fn tokenizer_config(&self) -> Value {
        let mut config = self.origin.map(|origin| origin.tokenizer.clone()).unwrap_or_default();
        let positions = self.positions();
        // Chat templates spell special tokens out.
        let has_template = config.contains_key("chat_template") || !self.templates().is_empty();
        let is_split = self.special_tokens == SpecialTokens::Text && !has_template;
        let longest =
            config.get("model_max_length").filter(|longest| longest.as_f64() >= Some(self.seq_len as f64));
        let own: Map<String, Value> = [
            ("tokenizer_class", json!("PreTrainedTokenizerFast")),
            ("model_max_length", longest.cloned().unwrap_or_else(|| json!(positions))),
            // Version 4 adds `token_type_ids`, which no such model takes.
            ("model_input_names", json!(["input_ids", "attention_mask"])),
            ("clean_up_tokenization_spaces", json!(false)),
            ("split_special_tokens", json!(is_split)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
        config.extend(own);
        if self.has_own_template() {
            config.remove("chat_template");
        }
        for (key, token) in [("bos_token", self.begin), ("eos_token", self.end)] {
            if let Some((token, _)) = token {
                config.insert(key.to_owned(), json!(token));
            }
        }
        // Chat templates need the tokens that they write, also if documents have none around them.
        for (key, token) in self.chat_tokens {
            config.entry(key).or_insert_with(|| json!(token));
        }
        for key in ["bos_token", "eos_token"] {
            config.entry(key).or_insert(Value::Null);
        }
        config.into()
    }
}

/// `adapter_config.json`: the keys of PEFT's `LoraConfig` that are not as they are by default.
fn adapter(lora: &LoraConfig, base: &Path) -> Value {
    let targets: Vec<&str> = lora.targets.projections().into_iter().map(Projection::name).collect();
    // PEFT takes the scale for a whole number, and writes it as one.
    let alpha = match lora.alpha.fract() == 0.0 && lora.alpha < 1e15 {
        true => json!(lora.alpha as u64),
        false => json!(lora.alpha),
    };
    // PEFT has the name of a repository on the Hub apart from its revision.
    let base = base.display().to_string();
    let (base, revision) = match base.strip_prefix("hf://") {
        Some(name) => name.split_once('@').map_or((name, None), |(name, revision)| (name, Some(revision))),
        None => (&*base, None),
    };
    json!({
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "lora_alpha": alpha,
        "lora_dropout": lora.dropout,
        "peft_type": "LORA",
        "r": lora.rank,
        "revision": revision,
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
    })
}

fn pretty(json: &Value) -> String {
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_names_a_base_on_the_hub_as_peft_loads_it() {
        let names = [
            ("hf://me/tiny", "me/tiny", json!(null)),
            ("hf://me/tiny@v1", "me/tiny", json!("v1")),
            ("models/tiny@v1", "models/tiny@v1", json!(null)),
        ];
        for (init, name, revision) in names {
            let written = adapter(&LoraConfig::default(), Path::new(init));
            assert_eq!(
                (&written["base_model_name_or_path"], &written["revision"]),
                (&json!(name), &revision)
            );
        }
    }
}
