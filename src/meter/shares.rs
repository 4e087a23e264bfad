//! The share of time that each stage worked and waited: for curves over a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::snapshot::{Meters, StageMeter, share};

/// The time of a stage, as parts of a whole from 0 to 1, with four decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageShare {
    /// The share of its threads' time that the stage worked. A stage that runs within `prefetch`'s tasks has their
    /// threads. The time that the pipeline waited for a custom stage counts as its work.
    pub busy: f64,
    /// The share of the time that it had nothing to work on. The stages that run within `prefetch`'s tasks wait when the
    /// next batch does, and have 0.
    pub waiting: f64,
    /// How full its queue is now, from 0 to 1; `None` if the queue has no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<f64>,
}

impl StageShare {
    /// The share of a stage. Stages without threads of their own run on `shared` ones.
    fn of(stage: &StageMeter, wall: f64, shared: u64) -> Self {
        let threads = if stage.workers > 0 { stage.workers_at_most(wall) } else { shared };
        let queue = share(stage.queued as f64, stage.capacity as f64);
        // The pipeline waits for a custom stage once, however many threads there are.
        let busy = stage.busy_seconds / threads.max(1) as f64 + stage.awaited_seconds;
        Self {
            busy: rounded(share(busy, wall)),
            waiting: rounded(share(stage.wait_in_seconds, wall)),
            queue: (stage.capacity > 0).then_some(rounded(queue)),
        }
    }
}

impl Meters {
    /// The shares of each stage, by its name: since the loader was opened, or between the two moments of
    /// [`since`](Self::since). A custom stage that has the name of one of the loader's stages is left out.
    pub fn shares(&self) -> BTreeMap<String, StageShare> {
        let mut shares = BTreeMap::new();
        let wall = self.wall_seconds;
        let shared = self.stage("prefetch").map_or(0, |stage| stage.workers_at_most(wall));
        let (custom, own): (Vec<_>, Vec<_>) = self.stages.iter().partition(|stage| stage.is_custom);
        for stage in own.into_iter().chain(custom) {
            let name = stage.stage.clone().into_owned();
            shares.entry(name).or_insert_with(|| StageShare::of(stage, wall, shared));
        }
        shares
    }
}

/// More decimals would only make the lines of a run's metrics longer.
fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_busy_on_its_threads_and_full_up_to_its_bound() {
        let tokenize = StageMeter {
            stage: "tokenize".into(),
            busy_seconds: 3.0,
            wait_in_seconds: 0.5,
            queued: 1,
            capacity: 3,
            workers: 2,
            ..StageMeter::default()
        };
        let pack = StageMeter { stage: "pack".into(), busy_seconds: 0.25, ..StageMeter::default() };
        let custom = StageMeter {
            stage: "filter".into(),
            is_custom: true,
            busy_seconds: 0.5,
            awaited_seconds: 0.5,
            ..StageMeter::default()
        };
        let same = StageMeter { stage: "pack".into(), ..custom.clone() };
        let meters =
            Meters { wall_seconds: 2.0, stages: vec![same, tokenize, custom, pack], ..Meters::default() };
        let shares = meters.shares();
        assert_eq!(shares["tokenize"], StageShare { busy: 0.75, waiting: 0.25, queue: Some(0.3333) });
        assert_eq!(shares["filter"], StageShare { busy: 0.5, waiting: 0.0, queue: None });
        assert_eq!(shares["pack"].busy, 0.125, "the loader's own stage");
        assert_eq!(Meters::default().shares().len(), 0);
    }

    #[test]
    fn the_stages_within_prefetch_share_its_threads() {
        let stage = |name: &'static str, busy_seconds: f64| StageMeter {
            stage: name.into(),
            busy_seconds,
            ..StageMeter::default()
        };
        let prefetch = StageMeter { workers: 2, ..stage("prefetch", 3.0) };
        let custom = StageMeter { is_custom: true, awaited_seconds: 1.0, ..stage("filter", 1.0) };
        let stages = vec![stage("pack", 2.5), custom, prefetch];
        let shares = Meters { wall_seconds: 2.0, stages, ..Meters::default() }.shares();
        let busy = ["pack", "filter", "prefetch"].map(|name| shares[name].busy);
        assert_eq!(busy, [0.625, 0.75, 0.75]);
    }
}
