//! Panics of an engine, made errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::panic_message;

/// What an engine does; a panic is a refusal too.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_message(&*payload))))
}
