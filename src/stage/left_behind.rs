//! What is left out behind the last row of a lane's source. No cursor of a batch has it.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::cursor::{LaneState, Omitted};
use crate::threads::lock;

/// What a lane leaves out of a source behind its last row. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftBehind(Arc<Mutex<Behind>>);

/// What is left out behind the last row of a stream.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    pub(super) left_out: Omitted,
    /// How many documents the source has skipped in all.
    pub(super) skipped: u64,
    /// How many rows the lane has before its own epochs end, once that is known.
    pub(super) lane_rows: Option<u64>,
}

impl Behind {
    /// What counts for a lane in this state: nothing until it has delivered its last row. A lane that has begun again has
    /// read what was left out once more.
    pub(crate) fn counted(&self, lane: &LaneState, source: usize) -> Omitted {
        let mut counted = Omitted::default();
        let has_delivered_all = self.lane_rows.is_some_and(|rows| lane.rows >= rows && lane.skip == 0);
        if has_delivered_all && !lane.has_wrapped() {
            counted += self.left_out.clone();
            counted.all.skipped += self.skipped.saturating_sub(lane.sources[source].at.all_skipped());
        }
        counted
    }
}

impl LeftBehind {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Behind> {
        lock(&self.0)
    }
}
