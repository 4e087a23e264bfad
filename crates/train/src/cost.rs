//! What training costs: takes the shape of a model and of its batches, returns floating-point operations and bytes.
//!
//! [`Flops`] counts the work of a step, and [`Memory`] predicts the memory of a run before it allocates anything. Both
//! are arithmetic on a config, in `f64`: no shape overflows them. [`peak()`] measures the speed limit of a device, to
//! compare with, and [`physical_memory`] asks the system. Nothing is kept between calls.

mod flops;
mod machine;
mod memory;
mod parameters;
mod peak;

pub use flops::Flops;
pub use machine::physical_memory;
pub use memory::Memory;
pub use parameters::Parameters;
pub use peak::{Peak, peak};
