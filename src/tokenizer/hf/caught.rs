//! Turns an engine's panics into errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::panic_message;

/// Runs an engine. A panic counts as a refusal.
pub(super) fn caught<T, E: From<String>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_message(&*payload)).into()))
}
