//! What is left out behind the last row of a lane's source. No cursor of a batch has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cursor::{LaneCursor, Omitted};

/// What a lane leaves out of a source behind its last row. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftBehind(Arc<Mutex<Behind>>);

/// What is left out behind the last row of a stream.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    pub(crate) left_out: Omitted,
    /// The cursor of that row, once the stream is known to have ended.
    pub(crate) last: Option<LaneCursor>,
}

impl LeftBehind {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Behind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
