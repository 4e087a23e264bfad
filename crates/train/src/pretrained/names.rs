//! Which tensors of the Hugging Face libraries make which of our parameters, and the values of one from the other.
//!
//! Their matrices are `[out, in]` and one per projection; ours are `[in, out]`, and those that read the same input lie
//! side by side.

use crate::config::{Activation, ModelConfig};
use millstream::error::Result;

/// The tensor of the embedding.
pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";
/// The tensor of a head of its own.
pub(super) const HEAD: &str = "lm_head.weight";

/// One of our parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path in the model, such as `blocks.0.attention.qkv`.
    pub(super) path: String,
    /// Their tensors that it is made of.
    pub(super) parts: Vec<Part>,
    layout: Layout,
}

/// One of their tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// As it is, one after the other.
    Same,
    /// Transposed, and side by side.
    Transposed,
}

impl Part {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Entry {
    /// How many values it has.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Our values, of theirs.
    pub(super) fn gather(&self, mut read: impl FnMut(&str) -> Result<Vec<f32>>) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.len()];
        let width: usize = self.parts.iter().map(|part| part.shape[0]).sum();
        let mut from = 0;
        for part in &self.parts {
            let theirs = read(&part.name)?;
            match self.layout {
                Layout::Same => values[from..from + theirs.len()].copy_from_slice(&theirs),
                Layout::Transposed => {
                    for (row, inputs) in theirs.chunks(part.shape[1]).enumerate() {
                        for (column, &value) in inputs.iter().enumerate() {
                            values[column * width + from + row] = value;
                        }
                    }
                }
            }
            from += if self.layout == Layout::Same { part.len() } else { part.shape[0] };
        }
        Ok(values)
    }

    /// Theirs, of our values.
    pub(super) fn scatter(&self, values: &[f32]) -> Vec<(&Part, Vec<f32>)> {
        let width: usize = self.parts.iter().map(|part| part.shape[0]).sum();
        let mut from = 0;
        let theirs = |part: &Part, from: usize| match self.layout {
            Layout::Same => values[from..from + part.len()].to_vec(),
            Layout::Transposed => (0..part.shape[0])
                .flat_map(|row| (0..part.shape[1]).map(move |column| values[column * width + from + row]))
                .collect(),
        };
        let mut all = Vec::new();
        for part in &self.parts {
            all.push((part, theirs(part, from)));
            from += if self.layout == Layout::Same { part.len() } else { part.shape[0] };
        }
        all
    }
}

/// All parameters of a model of this shape with `vocab` ids, in the order of its fields.
pub(super) fn entries(model: &ModelConfig, vocab: usize) -> Vec<Entry> {
    let (width, head) = (model.d_model, model.head_dim());
    // A shape that is read from a file may have any numbers; one that is too large fits no tensor.
    let (queries, keys) = (model.heads.saturating_mul(head), model.kv_heads().saturating_mul(head));
    let entry = |path: String, layout, parts: Vec<(String, Vec<usize>)>| {
        let parts = parts.into_iter().map(|(name, shape)| Part { name, shape }).collect();
        Entry { path, parts, layout }
    };
    let same = |path: String, name: String, shape: Vec<usize>| entry(path, Layout::Same, vec![(name, shape)]);
    let table = |path: &str, name: &str| same(path.to_owned(), name.to_owned(), vec![vocab, width]);
    let mut all = vec![table("embedding", EMBEDDING)];
    for block in 0..model.layers {
        let ours = |name: &str| format!("blocks.{block}.{name}");
        let theirs = |name: &str| format!("model.layers.{block}.{name}");
        let gain = |our: &str, their: &str, width| same(ours(our), theirs(their), vec![width]);
        let projections = [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)];
        let attention = |name: &str, end: &str| theirs(&format!("self_attn.{name}.{end}"));
        all.push(gain("attention_norm.gain", "input_layernorm.weight", width));
        let weights =
            projections.iter().map(|(name, out)| (attention(name, "weight"), vec![*out, width])).collect();
        all.push(entry(ours("attention.qkv"), Layout::Transposed, weights));
        if model.qkv_bias {
            let biases =
                projections.iter().map(|(name, out)| (attention(name, "bias"), vec![*out])).collect();
            all.push(entry(ours("attention.bias"), Layout::Same, biases));
        }
        if model.qk_norm {
            all.push(gain("attention.query_norm.gain", "self_attn.q_norm.weight", head));
            all.push(gain("attention.key_norm.gain", "self_attn.k_norm.weight", head));
        }
        let matrix =
            |our: &str, parts: Vec<(String, Vec<usize>)>| entry(ours(our), Layout::Transposed, parts);
        all.push(matrix("attention.out", vec![(attention("o_proj", "weight"), vec![width, queries])]));
        all.push(gain("mlp_norm.gain", "post_attention_layernorm.weight", width));
        let up = match model.activation {
            Activation::Swiglu => &["gate_proj", "up_proj"][..],
            Activation::Gelu => &["up_proj"],
        };
        let up = up.iter().map(|name| (theirs(&format!("mlp.{name}.weight")), vec![model.d_ff, width]));
        all.push(matrix("mlp.up", up.collect()));
        all.push(matrix("mlp.down", vec![(theirs("mlp.down_proj.weight"), vec![width, model.d_ff])]));
    }
    all.push(same("norm.gain".to_owned(), "model.norm.weight".to_owned(), vec![width]));
    if !model.tied {
        all.push(table("head", HEAD));
    }
    all
}
