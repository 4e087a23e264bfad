//! The operations of a step and their gradients: tensors in, tensors out. Nothing is held between calls.
//!
//! Each is computed in two ways: by [`cpu`], in few passes, where the tensors are f32 in the CPU's memory, and by burn's
//! operations elsewhere. Both give the same within rounding.
//!
//! | file | what |
//! |---|---|
//! | `attention`, `embedding`, `norm`, `product`, `rotation`, `swiglu`, `loss` | the operations of the model, in its order |
//! | `derivative` | how a gradient that is written by hand becomes a part of burn's graph |
//! | `chunks` | how much of a large result is computed at once |
//! | `cpu` | the same by hand, on the CPU |

pub mod attention;
pub(crate) mod chunks;
pub(crate) mod cpu;
mod derivative;
pub(crate) mod embedding;
pub mod loss;
pub(crate) mod norm;
pub(crate) mod product;
pub(crate) mod rotation;
pub(crate) mod swiglu;
