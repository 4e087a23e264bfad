//! `config.json`: the shape of a model in the keys of the Hugging Face libraries, read and written.
//!
//! Keys that change what a model computes are read or refused. The others are about training and serving it, and are
//! skipped.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files;
use crate::config::{ModelConfig, RopeKind, RopeScaling};
use crate::model::shape::Architecture;
use millstream::error::{Error, Result};

/// The keys whose values are counts.
const COUNTS: [&str; 8] = [
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "vocab_size", "max_position_embeddings",
];

/// Keys of `[model]` with another name in `config.json`.
const SHAPE: [(&str, &str); 5] = [
    ("model.d_model", "hidden_size"),
    ("model.d_ff", "intermediate_size"),
    ("model.layers", "num_hidden_layers"),
    ("model.kv_heads", "num_key_value_heads"),
    ("model.heads", "num_attention_heads"),
];

/// The contents of a `config.json` whose model can be trained here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) model: ModelConfig,
    /// How many ids it has weights for.
    pub(super) vocab: usize,
    /// `max_position_embeddings`.
    max_seq_len: usize,
    /// The sliding window of its attention, in ids, if it has one.
    pub(super) window: Option<usize>,
    /// The ids that end a text.
    pub(super) ends: Vec<u32>,
    /// Whether it comes with Python code.
    has_code: bool,
}

/// `config.json` of a decoder like Llama. An absent key has the default of its kind.
#[derive(Deserialize)]
struct File {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f32>,
    /// Overrides `rope_parameters`, which newer versions write, unless it is empty.
    rope_scaling: Option<Rope>,
    rope_parameters: Option<Rope>,
    partial_rotary_factor: Option<f32>,
    #[serde(default)]
    tie_word_embeddings: bool,
    attention_bias: Option<bool>,
    #[serde(default)]
    mlp_bias: bool,
    /// Absent, it has a default; `null` means none.
    #[serde(default = "window")]
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    layer_types: Option<Vec<String>>,
    quantization_config: Option<Value>,
    is_causal: Option<bool>,
    /// The Python code that comes with the model.
    auto_map: Option<Value>,
    /// One id or several.
    eos_token_id: Option<Value>,
}

#[derive(Default, PartialEq, Deserialize)]
struct Rope {
    rope_type: Option<String>,
    /// The older name. Some files have both.
    #[serde(rename = "type")]
    older_type: Option<String>,
    rope_theta: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<usize>,
    partial_rotary_factor: Option<f32>,
}

fn window() -> Option<usize> {
    Some(4096)
}

/// The ids that end a text: `eos_token_id` is one of them, a list, or null.
fn ends(eos_token_id: Option<&Value>) -> Result<Vec<u32>, String> {
    let ids = match eos_token_id {
        None | Some(Value::Null) => &[],
        Some(Value::Array(ids)) => ids.as_slice(),
        Some(id) => std::slice::from_ref(id),
    };
    let id = |id: &Value| {
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        number.ok_or_else(|| format!("eos_token_id is {id}, and must be a whole number from 0 on"))
    };
    ids.iter().map(id).collect()
}

/// The ids that end a text by `generation_config.json`, which override those of `config.json`; `None` if the file names
/// none, or is not there.
pub(super) fn generation_ends(path: &Path) -> Result<Option<Vec<u32>>> {
    let json: Value = files::json(path)?;
    let ends = ends(json.get("eos_token_id"));
    let ends = ends.map_err(|problem| Error::config(path.display().to_string(), problem))?;
    Ok(Some(ends).filter(|ends| !ends.is_empty()))
}

impl Description {
    /// Reads `config.json`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::from_json(path, files::json(path)?)
    }

    /// As [`read`](Self::read), for the contents of `path`.
    pub(super) fn from_json(path: &Path, json: Value) -> Result<Self> {
        let description =
            Self::parse(json).map_err(|problem| Error::config(path.display().to_string(), problem))?;
        if description.has_code {
            tracing::warn!(
                path = %path.display(),
                "auto_map names Python code of the model, which is not run: the model is computed as its model_type says"
            );
        }
        Ok(description)
    }

    /// The most ids that the model was made to see at once.
    pub(super) fn positions(&self) -> usize {
        self.max_seq_len.min(self.window.unwrap_or(usize::MAX))
    }

    fn parse(json: Value) -> Result<Self, String> {
        let architecture = Architecture::from_type(json["model_type"].as_str().unwrap_or("absent"))?;
        let is_wrong = |key: &&&str| json.get(key).is_some_and(|count| !count.is_null() && !count.is_u64());
        if let Some(key) = COUNTS.iter().find(is_wrong) {
            return Err(format!("{key} is {}, and must be a whole number from 0 on", json[key]));
        }
        let file: File =
            serde_json::from_value(json).map_err(|e| format!("a key is missing or wrong: {e}"))?;
        file.refuse_unsupported()?;
        file.describe(architecture)
    }
}

impl File {
    fn refuse_unsupported(&self) -> Result<(), String> {
        // Qwen2 always has biases, but none on the output, and ignores this key.
        let biased = self.model_type != "qwen2" && self.attention_bias == Some(true);
        let refusals = [
            (
                self.quantization_config.is_some(),
                "quantization_config is set: only f32, f16 and bf16 are read",
            ),
            (self.mlp_bias, "mlp_bias is true: biases in the feed-forward network are not supported"),
            (biased, "attention_bias is true: a bias on the attention's output is not supported"),
            (
                self.is_causal == Some(false),
                "is_causal is false: the model looks at what comes after a token, and only causal ones are supported",
            ),
        ];
        if let Some((_, problem)) = refusals.iter().find(|(is_set, _)| *is_set) {
            return Err((*problem).to_owned());
        }
        match self.hidden_act.as_deref() {
            None | Some("silu") => Ok(()),
            Some(other) => Err(format!("hidden_act is {other}; only silu is supported")),
        }
    }

    /// The base of the rotary embedding's frequencies, and their scaling.
    fn rope(&self) -> Result<(f32, Option<RopeScaling>), String> {
        let scaling = self.rope_scaling.as_ref().filter(|rope| **rope != Rope::default());
        let rope = scaling.or(self.rope_parameters.as_ref());
        let theta = rope.and_then(|rope| rope.rope_theta).or(self.rope_theta).unwrap_or(10_000.0);
        let partial = rope.and_then(|rope| rope.partial_rotary_factor).or(self.partial_rotary_factor);
        if partial.is_some_and(|share| share != 1.0) {
            return Err("partial_rotary_factor is not 1, which is not supported".to_owned());
        }
        let Some(rope) = rope else { return Ok((theta, None)) };
        let wanted =
            |name: &str, value: Option<f32>| value.ok_or_else(|| format!("rope_scaling has no {name}"));
        let scaling = match rope.rope_type.as_deref().or(rope.older_type.as_deref()) {
            None | Some("default") => None,
            Some("linear") => Some(RopeScaling {
                kind: RopeKind::Linear,
                factor: wanted("factor", rope.factor)?,
                ..RopeScaling::default()
            }),
            Some("llama3") => Some(RopeScaling {
                kind: RopeKind::Llama3,
                factor: wanted("factor", rope.factor)?,
                low_freq_factor: wanted("low_freq_factor", rope.low_freq_factor)?,
                high_freq_factor: wanted("high_freq_factor", rope.high_freq_factor)?,
                original_seq_len: rope
                    .original_max_position_embeddings
                    .ok_or("rope_scaling has no original_max_position_embeddings")?,
            }),
            Some(other) => {
                return Err(format!(
                    "rope_scaling has the type {other}; default, linear and llama3 are supported"
                ));
            }
        };
        Ok((theta, scaling))
    }

    /// The sliding window of the attention, if it has one.
    fn window(&self) -> Result<Option<usize>, String> {
        let slides = |kind: &String| kind != "full_attention";
        let layers = self.layer_types.as_ref();
        let window = match self.model_type.as_str() {
            "mistral" => self.sliding_window,
            "qwen2" | "qwen3" if self.use_sliding_window == Some(true) => self.sliding_window,
            _ => None,
        };
        match layers.is_some_and(|layers| layers.iter().any(slides)) {
            true if window.is_none() => {
                Err("layer_types has layers that are not full_attention, which is not supported".to_owned())
            }
            _ => Ok(window),
        }
    }

    fn describe(self, architecture: Architecture) -> Result<Description, String> {
        let (rope_theta, rope_scaling) = self.rope()?;
        let (window, ends) = (self.window()?, ends(self.eos_token_id.as_ref())?);
        let lengths =
            [("max_position_embeddings", Some(self.max_position_embeddings)), ("sliding_window", window)];
        if let Some((key, _)) = lengths.iter().find(|(_, length)| *length == Some(0)) {
            return Err(format!("{key} is 0, and must be at least 1"));
        }
        let heads = self.num_attention_heads;
        let kv_heads = self.num_key_value_heads.unwrap_or(match self.model_type.as_str() {
            "mistral" => 8,
            "qwen2" | "qwen3" => 32,
            _ => heads,
        });
        let head_dim = self.head_dim.or((self.model_type == "qwen3").then_some(128));
        let usual = self.hidden_size.checked_div(heads).unwrap_or_default();
        let model = ModelConfig {
            layers: self.num_hidden_layers,
            d_model: self.hidden_size,
            heads,
            kv_heads: Some(kv_heads).filter(|kv_heads| *kv_heads != heads),
            head_dim: head_dim.filter(|head_dim| *head_dim != usual),
            d_ff: self.intermediate_size,
            tied: self.tie_word_embeddings,
            vocab_size: Some(self.vocab_size),
            rope_theta,
            rope_scaling,
            norm_epsilon: self.rms_norm_eps.unwrap_or(1e-6),
            ..architecture.shape()
        };
        let in_its_words = |said: String, (ours, theirs): &(&str, &str)| said.replace(ours, theirs);
        model.validate().map_err(|error| SHAPE.iter().fold(error.to_string(), in_its_words))?;
        Ok(Description {
            model,
            vocab: self.vocab_size,
            max_seq_len: self.max_position_embeddings,
            window,
            ends,
            has_code: self.auto_map.is_some(),
        })
    }
}

/// The keys of `config.json` for a shape with `vocab` ids.
pub(super) fn keys(model: &ModelConfig, vocab: usize) -> Result<Value> {
    let Architecture { model_type, class, .. } = Architecture::from_shape(model)?;
    let mut rope = json!({ "rope_type": "default" });
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
    let scaling = model.rope_scaling.as_ref().map(|_| rope.clone());
    rope["rope_theta"] = json!(short(model.rope_theta));
    let mut keys = json!({
        "architectures": [class],
        "model_type": model_type,
        "hidden_size": model.d_model,
        "intermediate_size": model.d_ff,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads(),
        "head_dim": model.head_dim(),
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": model.norm_epsilon,
        // Version 4 of the libraries reads the first two, later ones the third.
        "rope_theta": short(model.rope_theta),
        "rope_scaling": scaling,
        "rope_parameters": rope,
        "tie_word_embeddings": model.tied,
    });
    // Qwen2 always has its biases.
    if model_type != "qwen2" {
        keys["attention_bias"] = json!(false);
    }
    if model_type == "llama" {
        keys["mlp_bias"] = json!(false);
    }
    Ok(keys)
}

/// The shortest decimal of a number: 0.1, and not 0.10000000149011612.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}
