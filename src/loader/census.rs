//! How long a finite stream is, for ranks that see only some of its lanes.

use std::future::ready;
use std::sync::Arc;

use futures::TryStreamExt;

use super::chains::Chains;
use super::fingerprint::word;
use super::gauge::Gauge;
use crate::budget::Budget;
use crate::config::{Config, Uneven};
use crate::cursor::{Census, Cursor};
use crate::error::{Error, Result};
use crate::meter::Setting;
use crate::source::of_lane;
use crate::stage::Schedule;
use crate::world::World;

/// Returns how many rounds the stream has, counted from its start. Returns `None` if the stream is endless, or if one
/// process has all lanes and sees where they end.
///
/// With several ranks, reads all lanes from `start` on and counts, unless the cursor already knows the count or the rows are
/// stored and counted. The
/// cursor keeps it as long as nothing that it depends on changes.
pub(super) async fn rounds(chains: &Arc<Chains>, start: &mut Cursor, world: World) -> Result<Option<u64>> {
    let Some(key) = key(&chains.config, &chains.schedule, start.turn()) else {
        start.set_census(None);
        return Ok(None);
    };
    if start.census().is_some_and(|census| census.of != key) {
        start.set_census(None);
    }
    if world == World::ALONE {
        return Ok(None);
    }
    let lanes = start.lanes();
    if let Some(&Census { rounds, .. }) = start.census() {
        let begun = start.turn().div_ceil(lanes as u64);
        return match rounds < begun {
            true => Err(Error::resume(format!("it counts {rounds} rounds, and {begun} have begun"))),
            false => Ok(Some(rounds)),
        };
    }
    if let Some(lane) = (0..lanes).find(|lane| start.lane(*lane).is_none()) {
        let problem = format!(
            "lane {lane} of {lanes} is another rank's, and the stream's length has to be counted again; merge the \
             cursors of all ranks first, with `millstream cursor merge`"
        );
        return Err(Error::Merge { problem });
    }
    tracing::info!(world = world.size, "counting the rows of all lanes, because the stream is finite");
    let rounds = count(chains, start).await?;
    start.set_census(Some(Census { of: key, rounds }));
    Ok(Some(rounds))
}

/// All that the length of a finite stream depends on besides the fingerprint; `None` if the stream is endless.
fn key(config: &Config, schedule: &Schedule, turn: u64) -> Option<String> {
    let stretches: Vec<&[u32]> = schedule.shares_from(turn).collect();
    let last = stretches.last()?;
    let is_endless = |source: usize| last[source] > 0 && config.epochs(source).is_none();
    if (0..last.len()).any(is_endless) {
        return None;
    }
    let epochs: Vec<Option<u64>> = (0..last.len()).map(|source| config.epochs(source)).collect();
    Some(format!("{} {} {}", word(&config.pipeline.uneven), word(&epochs), word(&schedule.changes())))
}

/// Counts the rounds of all lanes, each to its own end.
async fn count(chains: &Arc<Chains>, start: &Cursor) -> Result<u64> {
    let lanes = start.lanes() as u64;
    let ends = match of_stored(chains, start) {
        Some(ends) => ends,
        None => read(chains, start).await?,
    };
    let rounds = ends.iter().map(|(_, end)| *end);
    let rounds = match chains.config.pipeline.uneven {
        Uneven::Stop => rounds.min(),
        // A lane that had already ended gets filler to match the others: those are not turns of its own.
        Uneven::Pad | Uneven::Wrap => ends.iter().filter(|(own, _)| *own > 0).map(|(_, end)| *end).max(),
    };
    Ok(rounds.unwrap_or_default().max(start.turn().div_ceil(lanes)))
}

/// How many turns each lane still has, and all of them, if each turn is a row of the only source and the rows are counted
/// already.
fn of_stored(chains: &Arc<Chains>, start: &Cursor) -> Option<Vec<(u64, u64)>> {
    let Config { sources, pipeline, .. } = &chains.config;
    if sources.len() > 1 || pipeline.batch_tokens.is_some() || !chains.stages.is_empty() {
        return None;
    }
    let (rows, epochs) = (chains.source.only(0).dealt_rows()?, chains.config.epochs(0)?);
    let end = |lane: usize| {
        let at = start.at(lane, 0);
        let of_lane = of_lane(rows, lane as u64, start.lanes() as u64);
        let own = of_lane.saturating_mul(epochs.saturating_sub(at.epoch)).saturating_sub(at.split);
        (own, start.turns_of(lane) + own)
    };
    Some((0..start.lanes()).map(end).collect())
}

/// Reads each lane to its own end, one lane after another.
async fn read(chains: &Arc<Chains>, start: &Cursor) -> Result<Vec<(u64, u64)>> {
    let mut ends = Vec::new();
    for lane in 0..start.lanes() {
        let budget = chains.config.pipeline.memory.as_usize() / chains.config.sources.len();
        let budgets = (0..chains.config.sources.len()).map(|_| Budget::new(budget)).collect();
        let (setting, custom) = (Setting::default(), chains.stages.meters());
        let gauge =
            Gauge::new(vec![budgets; start.lanes()], 1, setting, custom, chains.workers.clone(), None);
        let turns = chains.lane(lane, start.lanes(), start.own(lane), &gauge);
        let own = turns.try_take_while(|turn| ready(Ok(turn.is_own())));
        let own = own.try_fold(0_u64, |turns, _| ready(Ok(turns + 1))).await?;
        ends.push((own, start.turns_of(lane) + own));
    }
    Ok(ends)
}
