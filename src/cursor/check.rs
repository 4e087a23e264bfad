//! Checks that every cursor must pass: its file may be damaged, or edited by hand.

use super::{Event, LaneState, SourceState};

/// Every number is less than this. No run gets so far, and sums and products of a few such numbers never
/// overflow.
const BOUND: u64 = 1 << 53;

/// The most that the shares of a mixture add up to: the longest period of a schedule.
const MAX_SHARES: u64 = 1 << 16;

/// Refuses counts that no run can have.
pub(super) fn counts<'a>(
    batch: u64,
    turn: u64,
    lanes: impl IntoIterator<Item = (usize, &'a LaneState)>,
) -> Result<(), String> {
    bounded("batch", batch)?;
    bounded("turn", turn)?;
    for (number, lane) in lanes {
        let within = |problem| format!("lane {number}: {problem}");
        bounded("rows", lane.rows).map_err(within)?;
        bounded("skip", lane.skip).map_err(within)?;
        bounded("padding", lane.padding).map_err(within)?;
        lane.sources.iter().try_for_each(source).map_err(within)?;
    }
    Ok(())
}

/// Refuses places that no source can have. The stages' skips are not checked here: each stage checks its own.
fn source(SourceState { rows, at, wrapped_after, ledger, values }: &SourceState) -> Result<(), String> {
    bounded("a source's rows", *rows)?;
    if let Some(values) = values {
        values.check(bounded)?;
    }
    let place = [
        ("epoch", at.epoch),
        ("split", at.split),
        ("byte", at.byte),
        ("documents", at.documents),
        ("skipped", at.skipped),
        ("skipped_otherwise", at.skipped_otherwise),
        ("sample", at.sample),
        ("wrapped_after", wrapped_after.unwrap_or_default()),
    ];
    place.into_iter().chain(ledger.numbers()).try_for_each(|(name, value)| bounded(name, value))
}

/// Refuses a count of rounds that no stream can have.
pub(super) fn rounds(rounds: u64) -> Result<(), String> {
    bounded("rounds", rounds)
}

/// Refuses events that cannot have led to `batch` and `turn`.
pub(super) fn history(events: &[Event], batch: u64, turn: u64) -> Result<(), String> {
    let mut last = None;
    for event in events {
        match event {
            Event::Weights { batch: first, row, shares } => {
                // The initial weights are noted before the first batch.
                if *first >= batch.max(1) || *row > turn {
                    return Err(format!(
                        "the weights of batch {first}, row {row}, are later than the cursor, at batch {batch}, row {turn}"
                    ));
                }
                if last.is_some_and(|(before, from)| *first <= before || *row < from) {
                    return Err(format!("the weights of batch {first} are out of order"));
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
                return Err(format!("the range of excluded batches {from}..{to} is empty"));
            }
            Event::ExcludedBatches { .. } | Event::ExcludedDocuments { .. } => {}
        }
    }
    Ok(())
}

fn bounded(name: &str, value: u64) -> Result<(), String> {
    if value < BOUND { Ok(()) } else { Err(format!("{name} = {value}, and no run gets so far")) }
}
