//! From the losses of a batch to a step of the model.
//!
//! | file | what |
//! |---|---|
//! | `gradients` | forward and backward over a batch, in parts that run at once; the norm of all gradients |
//! | `tally` | the losses of targets added up, in all and for each source |
//! | `optimizer`, `adamw` | AdamW for a whole model, after a clip, and on one parameter |
//! | `schedule` | the learning rate of a step |

mod adamw;
pub mod gradients;
mod optimizer;
mod schedule;
mod tally;

pub use optimizer::Optimizer;
pub(crate) use optimizer::written;
pub(crate) use schedule::learning_rate;
pub(crate) use tally::Tally;
