//! The GPT and its parts, and the trait that any other model implements.
//!
//! | file | what |
//! |---|---|
//! | `language_model`, `hidden` | the trait of models that the trainer needs; their matrices of hidden layers |
//! | `tensors`, `scope` | its inputs: a batch on a device, which ids are targets |
//! | `gpt`, `attention`, `mlp`, `norm`, `rope` | a decoder-only transformer |
//! | `shape` | its parameters before there is one, and their names in other libraries |
//! | `init`, `random` | its first weights |
//! | `lora`, `dropout` | adapters that are trained instead of its matrices, and the dropout of what enters them |
//! | `generate` | text from it |
//! | `unigram` | a model that knows only how frequent each token is, to compare with |

mod attention;
mod dropout;
mod generate;
mod gpt;
mod hidden;
mod init;
mod language_model;
mod lora;
mod mlp;
mod norm;
mod random;
mod rope;
mod scope;
pub(crate) mod shape;
mod tensors;
mod unigram;

pub use attention::{Attention, KeyValues};
pub use generate::{Sampling, generate, generate_after};
pub use gpt::{Block, Gpt};
pub use hidden::HiddenMatrix;
pub(crate) use init::Initial;
pub use language_model::LanguageModel;
pub use lora::Lora;
pub(crate) use lora::{adapter_parts, block_adapters, is_target};
pub use mlp::Mlp;
pub use norm::Norm;
pub use rope::Rope;
pub use scope::Scope;
pub use tensors::Tensors;
pub use unigram::Unigram;
