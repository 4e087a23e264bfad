//! From the losses of a batch to a step of the model.
//!
//! | file | what |
//! |---|---|
//! | `gradients` | forward and backward over a batch, in parts that run at once; the norm of all gradients |
//! | `loss_sums` | the losses of targets added up, in all and by what their documents say |
//! | `loss_by` | the latter: the values of `train.loss_by`, of which there are few |
//! | `optimizer` | a step of a whole model, after a clip, by the optimizer that is configured or by a custom one |
//! | `adamw`, `muon` | a step of one parameter |
//! | `schedule` | the learning rate of a step |

mod adamw;
pub mod gradients;
mod loss_by;
mod loss_sums;
mod muon;
mod optimizer;
mod schedule;

pub(crate) use loss_by::{LossBy, LossNames};
pub(crate) use loss_sums::LossSums;
pub use optimizer::Optimizer;
pub(crate) use optimizer::{Custom, written};
pub(crate) use schedule::learning_rate;
