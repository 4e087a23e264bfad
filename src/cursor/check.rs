//! What every cursor is, wherever it comes from: a file may be damaged, or changed by hand.

use super::{Census, Event, LaneState, SourceState};

/// Numbers are less than this, so that sums and products of a few never overflow; no run comes so far.
const BOUND: u64 = 1 << 53;

/// What the shares of a mixture add up to at most: the longest period of a schedule.
const MAX_SHARES: u64 = 1 << 16;

/// Refuses counts that no run has.
pub(super) fn counts(batch: u64, turn: u64, lanes: &[Option<LaneState>]) -> Result<(), String> {
    bounded("batch", batch)?;
    bounded("turn", turn)?;
    for (number, lane) in lanes.iter().enumerate() {
        let Some(lane) = lane else { continue };
        let within = |problem| format!("lane {number}: {problem}");
        bounded("rows", lane.rows).map_err(within)?;
        bounded("skip", lane.skip).map_err(within)?;
        lane.sources.iter().try_for_each(source).map_err(within)?;
    }
    Ok(())
}

/// The stages' skips are not looked at: each stage knows what its own says.
fn source(SourceState { rows, at }: &SourceState) -> Result<(), String> {
    bounded("a source's rows", *rows)?;
    let place = [
        ("epoch", at.epoch),
        ("split", at.split),
        ("byte", at.byte),
        ("line", at.line),
        ("start", at.start),
        ("documents", at.documents),
        ("skipped", at.skipped),
    ];
    place.into_iter().try_for_each(|(name, value)| bounded(name, value))
}

/// Refuses a count of rounds that no stream has.
pub(super) fn census(census: &Census) -> Result<(), String> {
    bounded("rounds", census.rounds)
}

/// Refuses events that cannot have led to `batch` and `turn`.
pub(super) fn history(events: &[Event], batch: u64, turn: u64) -> Result<(), String> {
    let mut last = None;
    for event in events {
        match event {
            Event::Weights { batch: first, row, shares } => {
                // The weights of the start are noted before the first batch.
                if *first >= batch.max(1) || *row > turn {
                    return Err(format!(
                        "the weights of batch {first}, row {row}, are later than the cursor, at batch {batch}, row {turn}"
                    ));
                }
                if last.is_some_and(|(before, from)| *first <= before || *row < from) {
                    return Err(format!("the weights of batch {first} are not in their order"));
                }
                let sum: u64 = shares.values().map(|&share| u64::from(share)).sum();
                if shares.values().any(|&share| share == 0) || !(1..=MAX_SHARES).contains(&sum) {
                    return Err(format!(
                        "the shares of batch {first} must be more than 0 each and at most {MAX_SHARES} together"
                    ));
                }
                last = Some((*first, *row));
            }
            Event::ExcludedBatches { from, to } if from >= to => {
                return Err(format!("the excluded batches {from}..{to} are none"));
            }
            Event::ExcludedBatches { .. } | Event::ExcludedDocuments { .. } => {}
        }
    }
    Ok(())
}

fn bounded(name: &str, value: u64) -> Result<(), String> {
    if value < BOUND { Ok(()) } else { Err(format!("{name} = {value}, and no run comes so far")) }
}
