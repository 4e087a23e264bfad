//! Decides where a stream begins, and which source each of its rows comes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fingerprint;
use crate::config::{Config, names};
use crate::cursor::{Cursor, Event, Fingerprint, LaneState};
use crate::error::{Error, Result};
use crate::source::{Origin, Source};
use crate::stage::{Schedule, shares};

/// Which source each row comes from.
pub(super) struct Mixture {
    pub(super) schedule: Schedule,
    /// The changes still to come, with the batches that they begin at.
    pub(super) changes: Vec<(u64, Event)>,
}

/// Returns the cursor to begin at (a fresh one if none is given) and the mixture from there on.
///
/// Sources that the cursor does not know begin at their start, as soon as the weights give them rows.
pub(super) fn start(
    config: &Config,
    source: &Source,
    fingerprint: Fingerprint,
    cursor: Option<Cursor>,
) -> Result<(Cursor, Mixture)> {
    let names = names(&config.sources);
    let timeline = timeline(config, source, &names);
    let start = match cursor {
        None => {
            let mut start = Cursor::start(config.pipeline.lanes(), names.clone(), Arc::new(fingerprint));
            start.count_by(config.pipeline.ledger_by.as_deref());
            start.note(weights(&names, &timeline[0], 0));
            start
        }
        Some(mut cursor) => {
            check(config, &names, &fingerprint, &cursor)?;
            cursor.adopt(&names, Arc::new(fingerprint));
            cursor
        }
    };
    check_history(&names, &timeline, &start)?;

    let mut past = start.history().iter().filter_map(|event| match event {
        Event::Weights { row, shares, .. } => Some((*row, named(&names, shares))),
        _ => None,
    });
    let first = past.next().map(|(_, shares)| shares).unwrap_or_else(|| timeline[0].1.clone());
    let mut schedule = past.fold(Schedule::new(config.seed, &first), |schedule, (row, shares)| {
        schedule.with_change(row, &shares)
    });
    let mut changes = Vec::new();
    for change in timeline.iter().filter(|(batch, _)| *batch > 0 && *batch >= start.batch()) {
        let (batch, shares) = change;
        let rows = (batch - start.batch()).checked_mul(config.pipeline.batch_size as u64);
        let Some(row) = rows.and_then(|rows| rows.checked_add(start.turn())) else {
            return Err(Error::config(
                "mixture.changes",
                format!("batch {batch} is further than rows are counted"),
            ));
        };
        schedule = schedule.with_change(row, shares);
        changes.push((*batch, weights(&names, change, row)));
    }
    Ok((start, Mixture { schedule, changes }))
}

/// The shares, each with the batch from which they apply. The first are those of batch 0.
fn timeline(config: &Config, source: &Source, names: &[String]) -> Vec<(u64, Vec<u32>)> {
    let tempered = |weights: Vec<f64>| {
        let power = 1.0 / config.mixture.temperature;
        let most = weights.iter().copied().fold(0.0, f64::max);
        // At temperature 1, decimal weights stay exact.
        if power == 1.0 {
            weights
        } else {
            // However low the temperature, a source with a weight keeps a share.
            let share = |weight: f64| if weight > 0.0 { (weight / most).powf(power).max(1e-9) } else { 0.0 };
            weights.into_iter().map(share).collect()
        }
    };
    // Standard input without a weight is the only source.
    let bytes = |index: usize| match source.origin(index) {
        Origin::Stdin | Origin::Program => 1.0,
        Origin::Files | Origin::Shards(_) => source.only(index).bytes() as f64,
    };
    let base = config.sources.iter().enumerate();
    let base: Vec<f64> = base.map(|(index, source)| source.weight.unwrap_or_else(|| bytes(index))).collect();
    let changes = config.mixture.changes.iter().map(|change| {
        let weights = names.iter().map(|name| change.weights.get(name).copied().unwrap_or_default());
        (change.batch, shares(&tempered(weights.collect())))
    });
    let changes: Vec<_> = changes.collect();
    // A change at batch 0 replaces the base weights completely.
    let base = (!changes.iter().any(|(batch, _)| *batch == 0)).then(|| (0, shares(&tempered(base))));
    base.into_iter().chain(changes).collect()
}

/// Refuses a cursor of another order.
fn check(config: &Config, names: &[String], fingerprint: &Fingerprint, cursor: &Cursor) -> Result<()> {
    let new: Vec<&String> = names.iter().filter(|name| !cursor.sources().contains(name)).collect();
    fingerprint::without(fingerprint, &new).check(cursor.fingerprint())?;
    let lanes = config.pipeline.lanes();
    if cursor.lanes() != lanes {
        let problem = format!("{lanes} lanes, and the cursor has {}", cursor.lanes());
        return Err(Error::config("pipeline.lanes", problem));
    }
    check_column(config.pipeline.ledger_by.as_deref(), cursor.ledger_by())?;
    (0..lanes).try_for_each(|lane| check_lane(config, cursor, lane))
}

/// Refuses another column to count by: the numbers of before would be missing.
fn check_column(column: Option<&str>, was: Option<&str>) -> Result<()> {
    if column == was {
        return Ok(());
    }
    let shown = |column: Option<&str>| column.map_or("none".to_owned(), |column| format!("{column:?}"));
    let problem = format!(
        "it is {}, and the cursor's ledger counts by {}; set it as it was, or begin a new run",
        shown(column),
        shown(was)
    );
    Err(Error::config("pipeline.ledger_by", problem))
}

/// Refuses a lane whose counts contradict each other: the mixture would give other rows.
fn check_lane(config: &Config, cursor: &Cursor, lane: usize) -> Result<()> {
    let Some(LaneState { rows, skip, sources, .. }) = cursor.lane(lane) else { return Ok(()) };
    let of_sources: u64 = sources.iter().map(|source| source.rows).sum();
    let turns = cursor.turns_of(lane);
    let is_a_turn_a_row = config.pipeline.batch_tokens.is_none();
    if of_sources > *rows || is_a_turn_a_row && (*rows != turns || *skip > 0) {
        let problem = format!(
            "lane {lane} had {turns} turns and gave {rows} rows and {skip} groups, {of_sources} rows of them of its sources"
        );
        return Err(Error::resume(problem));
    }
    Ok(())
}

/// Refuses weights that differ from those the cursor was made with. A change may only begin at the cursor's batch or
/// later.
fn check_history(names: &[String], timeline: &[(u64, Vec<u32>)], start: &Cursor) -> Result<()> {
    let saved: BTreeMap<u64, &BTreeMap<String, u32>> = start
        .history()
        .iter()
        .filter_map(|event| match event {
            Event::Weights { batch, shares, .. } => Some((*batch, shares)),
            _ => None,
        })
        .collect();
    let now: BTreeMap<u64, BTreeMap<String, u32>> =
        timeline.iter().map(|(batch, shares)| (*batch, by_name(names, shares))).collect();
    let is_past = |batch: &&u64| **batch == 0 || **batch < start.batch();
    for batch in saved.keys().chain(now.keys()).filter(is_past) {
        let (was, is) = (saved.get(batch).copied(), now.get(batch));
        if was != is {
            let say = |shares: Option<&BTreeMap<String, u32>>| {
                shares.map_or("as before".to_owned(), |shares| {
                    let shares: Vec<String> =
                        shares.iter().map(|(name, share)| format!("{name} {share}")).collect();
                    shares.join(", ")
                })
            };
            let from = start.batch();
            let problem = format!(
                "from batch {batch} on the shares were {} when the cursor was made, and are {} now; what begins before \
                 the cursor's batch, {from}, must stay as it was: leave the weights, and add a change of batch {from} or later",
                say(was),
                say(is),
            );
            return Err(Error::config("mixture.changes", problem));
        }
    }
    Ok(())
}

fn weights(names: &[String], (batch, shares): &(u64, Vec<u32>), row: u64) -> Event {
    Event::Weights { batch: *batch, row, shares: by_name(names, shares) }
}

/// Shares by name, without those that are zero.
fn by_name(names: &[String], shares: &[u32]) -> BTreeMap<String, u32> {
    names.iter().cloned().zip(shares.iter().copied()).filter(|(_, share)| *share > 0).collect()
}

fn named(names: &[String], shares: &BTreeMap<String, u32>) -> Vec<u32> {
    names.iter().map(|name| shares.get(name).copied().unwrap_or_default()).collect()
}
