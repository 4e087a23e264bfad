//! What a shape says of a model before there is one: its parameters, and their names in the Hugging Face libraries. The
//! number of parameters, the work and the memory of a step, and exports follow from it.

use std::slice::from_ref;

use crate::config::{Activation, ModelConfig};
use millstream::error::{Error, Result};

/// The tensor of the embedding.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// The tensor of a head that is not tied to it.
pub(crate) const HEAD: &str = "lm_head.weight";

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its path in the model, such as `blocks.0.attention.qkv`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The names and the shapes, `[out, in]` or `[out]`, of the tensors of the Hugging Face libraries that it is made of.
    pub(crate) tensors: Vec<(String, Vec<usize>)>,
    /// How many numbers each place of a row keeps for the backward pass: a norm's input, or a product's output and what
    /// else is kept before the next product. The inputs of products come on top.
    pub(crate) kept: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A vector for each id, `[vocab, d_model]`.
    Table,
    /// A matrix of a product, `[in, out]`. Those that read the same input lie side by side.
    Matrix,
    /// A gain or biases.
    Vector,
}

impl Part {
    /// How many values it has. A shape may be too large for any machine.
    pub(crate) fn len(&self) -> usize {
        let len = |shape: &[usize]| shape.iter().copied().fold(1, usize::saturating_mul);
        self.tensors.iter().map(|(_, shape)| len(shape)).fold(0, usize::saturating_add)
    }
}

/// The parameters of a model with `vocab` ids, in the order of its fields.
pub(crate) fn parts(model: &ModelConfig, vocab: usize) -> Vec<Part> {
    let mut parts = outer_parts(model, vocab);
    let blocks = (0..model.layers).flat_map(|block| block_parts(model, block));
    drop(parts.splice(1..1, blocks));
    parts
}

/// Those outside of the blocks.
pub(crate) fn outer_parts(model: &ModelConfig, vocab: usize) -> Vec<Part> {
    let part = |path: &str, kind, name: &str, shape| {
        let tensors = vec![(name.to_owned(), shape)];
        Part { path: path.to_owned(), kind, tensors, kept: 0 }
    };
    let table = |path: &str, name: &str| part(path, Kind::Table, name, vec![vocab, model.d_model]);
    let norm = part("norm.gain", Kind::Vector, "model.norm.weight", vec![model.d_model]);
    let head = (!model.tied).then(|| table("head", HEAD));
    [table("embedding", EMBEDDING), norm].into_iter().chain(head).collect()
}

/// Those of a block.
pub(crate) fn block_parts(model: &ModelConfig, block: usize) -> Vec<Part> {
    let part = |path: &str, kind, tensors: &[(&str, usize)], inputs: &[usize], kept| {
        let end = if path.ends_with("bias") { "bias" } else { "weight" };
        let tensors = tensors.iter().map(|(name, outputs)| {
            (format!("model.layers.{block}.{name}.{end}"), [from_ref(outputs), inputs].concat())
        });
        Part { path: format!("blocks.{block}.{path}"), kind, tensors: tensors.collect(), kept }
    };
    let vector = |path: &str, tensors: &[(&str, usize)], kept| part(path, Kind::Vector, tensors, &[], kept);
    let matrix = |path: &str, tensors: &[(&str, usize)], inputs, kept| {
        part(path, Kind::Matrix, tensors, &[inputs], kept)
    };
    let (width, head, d_ff) = (model.d_model, model.head_dim(), model.d_ff);
    let [queries, keys] = [model.heads, model.kv_heads()].map(|heads| heads.saturating_mul(head));
    let qkv = [("self_attn.q_proj", queries), ("self_attn.k_proj", keys), ("self_attn.v_proj", keys)];
    let projected = keys.saturating_mul(2).saturating_add(queries);
    let mut parts = vec![
        vector("attention_norm.gain", &[("input_layernorm", width)], width),
        matrix("attention.qkv", &qkv, width, projected),
    ];
    if model.qkv_bias {
        parts.push(vector("attention.bias", &qkv, 0));
    }
    if model.qk_norm {
        parts.push(vector("attention.query_norm.gain", &[("self_attn.q_norm", head)], queries));
        parts.push(vector("attention.key_norm.gain", &[("self_attn.k_norm", head)], keys));
    }
    // The heads' output is kept before and after it is laid side by side.
    parts.push(matrix("attention.out", &[("self_attn.o_proj", width)], queries, queries));
    parts.push(vector("mlp_norm.gain", &[("post_attention_layernorm", width)], width));
    parts.push(match model.activation {
        Activation::Swiglu => {
            let both = [("mlp.gate_proj", d_ff), ("mlp.up_proj", d_ff)];
            matrix("mlp.up", &both, width, d_ff.saturating_mul(2))
        }
        Activation::Gelu => matrix("mlp.up", &[("mlp.up_proj", d_ff)], width, d_ff),
    });
    parts.push(matrix("mlp.down", &[("mlp.down_proj", width)], d_ff, 0));
    parts
}

/// An architecture of the Hugging Face libraries, and the keys of `[model]` that its `model_type` decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Architecture {
    pub(crate) model_type: &'static str,
    pub(crate) class: &'static str,
    qkv_bias: bool,
    qk_norm: bool,
}

/// Of several with the same keys, the first is written.
const ARCHITECTURES: [Architecture; 4] = [
    Architecture { model_type: "llama", class: "LlamaForCausalLM", qkv_bias: false, qk_norm: false },
    Architecture { model_type: "mistral", class: "MistralForCausalLM", qkv_bias: false, qk_norm: false },
    Architecture { model_type: "qwen2", class: "Qwen2ForCausalLM", qkv_bias: true, qk_norm: false },
    Architecture { model_type: "qwen3", class: "Qwen3ForCausalLM", qkv_bias: false, qk_norm: true },
];

impl Architecture {
    /// The architecture with this `model_type`, or what is wrong with it.
    pub(crate) fn from_type(model_type: &str) -> Result<Self, String> {
        let found = ARCHITECTURES.into_iter().find(|known| known.model_type == model_type);
        let known = ARCHITECTURES.map(|known| known.model_type).join(", ");
        found.ok_or_else(|| format!("model_type is {model_type}, and must be one of {known}"))
    }

    pub(crate) fn from_shape(model: &ModelConfig) -> Result<Self> {
        if model.activation == Activation::Gelu {
            let problem = "gelu: no architecture of the Hugging Face libraries has RMSNorm, rotary positions and a \
                           feed-forward network without a gate, so the model cannot be exported; train one with \
                           activation = \"swiglu\"";
            return Err(Error::config("model.activation", problem));
        }
        let keys = (model.qkv_bias, model.qk_norm);
        let found = ARCHITECTURES.into_iter().find(|known| (known.qkv_bias, known.qk_norm) == keys);
        let problem = "no architecture of the Hugging Face libraries has both biases and norms of queries and keys, so \
                       the model cannot be exported";
        found.ok_or_else(|| Error::config("model.qkv_bias", problem))
    }

    /// A shape with these keys, and the defaults of the others.
    pub(crate) fn shape(self) -> ModelConfig {
        let Self { qkv_bias, qk_norm, .. } = self;
        ModelConfig { activation: Activation::Swiglu, qkv_bias, qk_norm, ..ModelConfig::default() }
    }
}
