//! How often a run was trained on each source. A cursor alone does not say it: behind its place in a source it has delivered
//! parts of a window, which the source is read for. Held in memory: what one lane reads ahead.

use futures::StreamExt;
use serde::Serialize;

use super::Replay;
use crate::config::names;
use crate::cursor::{Cursor, SourceState};
use crate::error::Result;
use crate::loader::interleave;
use crate::source::{Holdout, Lane, Side, Source};

/// The epochs of a source that a run was trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Epochs {
    /// Of how many epochs it was trained on all documents. A document counts from its first id on.
    pub complete: u64,
    /// Of how many epochs it was trained on some.
    pub begun: u64,
    /// Whether these are the least numbers that they can be, since the source could not be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// The epochs of one lane.
struct OfLane {
    /// The epoch of its next document; `None` if there is none.
    next: Option<u64>,
    /// The epoch of its last document, if it has delivered one.
    last: Option<u64>,
}

impl Epochs {
    /// Those that a cursor tells of each source without its files.
    pub fn at_least(cursor: &Cursor) -> Vec<Self> {
        let lane = |state: &SourceState| {
            let last = (used(state) > 0).then_some(state.at.epoch);
            OfLane { next: Some(last.unwrap_or(0)), last }
        };
        let of_source = |number: usize| {
            let lanes = cursor.known_lanes().map(|known| lane(&cursor.own(known).sources[number]));
            Self { at_least: true, ..Self::of_lanes(lanes) }
        };
        (0..cursor.sources().len()).map(of_source).collect()
    }

    fn of_lanes(lanes: impl Iterator<Item = OfLane>) -> Self {
        let (mut complete, mut begun) = (u64::MAX, 0);
        for OfLane { next, last } in lanes {
            complete = complete.min(next.unwrap_or(u64::MAX));
            begun = begun.max(last.map_or(0, |last| last + 1));
        }
        Self { complete: complete.min(begun), begun, at_least: false }
    }
}

/// How many documents a lane has taken from a source for the rows that it has delivered.
fn used(SourceState { ledger, .. }: &SourceState) -> u64 {
    ledger.documents + ledger.cut.documents + ledger.excluded.documents + ledger.skipped
}

impl Replay {
    /// The epochs of each source of a cursor of the run. Reads as much of each lane as a resume from the cursor does.
    ///
    /// # Errors
    /// Those of reading the sources.
    pub async fn epochs(&self, cursor: &Cursor) -> Result<Vec<Epochs>> {
        let (names, mut all) = (names(&self.config.sources), Epochs::at_least(cursor));
        for (number, (name, epochs)) in cursor.sources().iter().zip(&mut all).enumerate() {
            let Some(source) = names.iter().position(|other| other == name) else { continue };
            let mut lanes = Vec::new();
            for lane in cursor.known_lanes() {
                let state = cursor.own(lane);
                let state = &state.sources[number];
                let most = self.config.epochs(source).filter(|_| state.wrapped_after.is_none());
                lanes.push(self.of_lane(lane, source, most, state).await?);
            }
            *epochs = Epochs::of_lanes(lanes.into_iter());
        }
        Ok(all)
    }

    /// The epochs of one lane of a source that has `most`.
    async fn of_lane(
        &self,
        lane: usize,
        source: usize,
        most: Option<u64>,
        state: &SourceState,
    ) -> Result<OfLane> {
        let (used, source) = (used(state), self.source.only(source));
        // A lane without documents is not searched for one for ever.
        let epochs = if used > 0 { most } else { Some(most.unwrap_or(1)) };
        let (deal, at) = (Lane { lane, epochs, ..self.deal(&source) }, state.at.upstream(0));
        let mut documents = source.lane(deal, &at);
        let mut last = (used > 0).then_some(at.epoch);
        for _ in at.documents..used {
            let Some(document) = documents.next().await.transpose()? else { break };
            last = Some(document.cursor.epoch);
        }
        let next = documents.next().await.transpose()?.map(|document| document.cursor.epoch);
        Ok(OfLane { next, last })
    }

    /// How a source is dealt to lanes in training; which lane, and how often, is to be filled in.
    pub(crate) fn deal(&self, source: &Source) -> Lane {
        let pipeline = &self.config.pipeline;
        Lane {
            lanes: self.lanes(),
            seed: self.config.seed,
            shuffle_splits: pipeline.shuffle_splits,
            shuffle_global: pipeline.shuffles_globally(),
            interleave: interleave(pipeline, Side::Train, source),
            holdout: Holdout { fraction: pipeline.holdout, side: Side::Train },
            ..Lane::default()
        }
    }
}
