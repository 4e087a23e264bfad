//! Counters between two moments.

use super::snapshot::{Meters, share};

impl Meters {
    /// Returns the counters between `earlier`, another snapshot of the same loader, and this one. Values that are not
    /// counters, such as queues and peaks, are those of this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        between.wall_seconds -= earlier.wall_seconds;
        between.consumed_seconds -= earlier.consumed_seconds;
        between.first_wait_seconds -= earlier.first_wait_seconds;
        between.consumer_wait_seconds -= earlier.consumer_wait_seconds;
        between.wait_share = share(between.consumer_wait_seconds, between.consumed_seconds);
        between.batches -= earlier.batches;
        between.batches_of_full -= earlier.batches_of_full;
        between.first_waits = self.first_waits.minus(&earlier.first_waits);
        between.waits = self.waits.minus(&earlier.waits);
        if let (Some(store), Some(earlier)) = (&mut between.store, &earlier.store) {
            store.waits -= earlier.waits;
            store.wait_seconds -= earlier.wait_seconds;
            store.requests_at_waits -= earlier.requests_at_waits;
        }
        for (stage, earlier) in between.stages.iter_mut().zip(&earlier.stages) {
            stage.documents -= earlier.documents;
            stage.skipped -= earlier.skipped;
            stage.tokens -= earlier.tokens;
            stage.bytes -= earlier.bytes;
            stage.busy_seconds -= earlier.busy_seconds;
            stage.awaited_seconds -= earlier.awaited_seconds;
            stage.wait_in_seconds -= earlier.wait_in_seconds;
            stage.wait_out_seconds -= earlier.wait_out_seconds;
        }
        between.blame();
        between
    }
}

#[cfg(test)]
mod tests {
    use crate::meter::{StageMeter, StoreMeter, Waits};

    use super::*;

    fn meters(factor: u64) -> Meters {
        let f = factor as f64;
        let waits = Waits { source: f, memory: f, own: f, tokenize: 3.0 * f, cache: f, work: f };
        let stage = StageMeter {
            stage: "tokenize".into(),
            is_custom: false,
            documents: 10 * factor,
            skipped: factor,
            tokens: 100 * factor,
            bytes: 1000 * factor,
            busy_seconds: f,
            awaited_seconds: f,
            wait_in_seconds: f,
            wait_out_seconds: f,
            queued: factor,
            capacity: 4,
            workers: 2,
            workers_busy: factor,
        };
        Meters {
            wall_seconds: 20.0 * f,
            consumed_seconds: 16.0 * f,
            consumer_wait_seconds: 8.0 * f,
            wait_share: 0.9,
            waits,
            batches: 10 * factor,
            batches_of_full: factor,
            store: Some(StoreMeter {
                waits: factor,
                wait_seconds: f,
                requests_at_waits: 8 * factor,
                ..StoreMeter::default()
            }),
            stages: vec![stage],
            ..Meters::default()
        }
    }

    #[test]
    fn the_difference_of_two_has_what_was_counted_between_them() {
        let expected = Meters { wait_share: 0.5, at_fault: Some("tokenize"), ..meters(2) };
        let mut between = meters(3).since(&meters(1));
        // A gauge keeps its current value.
        assert_eq!((between.stages[0].queued, between.stages[0].workers_busy), (3, 3));
        (between.stages[0].queued, between.stages[0].workers_busy) = (2, 2);
        assert_eq!(between, expected);
    }
}
