//! How long a finite stream is, for ranks that see only some of its lanes.
//!
//! Only rounds that the count decides wait for it: those after the end of some lane or, where the shortest lane ends
//! the stream, all rounds. Until then a task counts, in one process for all that share a user's caches.

use std::future::ready;
use std::sync::Arc;

use futures::{FutureExt, TryStreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::yield_now;

use super::chains::Chains;
use super::fingerprint::word;
use super::gauge::Gauge;
use crate::budget::Budget;
use crate::config::{Config, Uneven};
use crate::cursor::Cursor;
use crate::error::{Error, Remedy, Result};
use crate::meter::Setting;
use crate::shards;
use crate::source::Origin;
use crate::stage::{Rounds, Schedule};
use crate::tasks::{self, Task};
use crate::user_cache::{Entry, Key};
use crate::world::World;

/// A corpus with less text is counted in a moment, by each rank for itself.
const WORTH_SHARING: u64 = 32 << 20;

/// How many rows are counted before other tasks run.
const YIELD_AFTER: u64 = 64;

/// Returns how many rounds the stream has, counted from its start. Returns `None` if the stream is endless, or if one
/// process has all lanes and sees where they end.
///
/// Unless the cursor says it, all lanes are read and counted from `start` on, each with one lane's share of the memory:
/// in a task that begins at once, or on demand once the number is needed. The cursor keeps the result, or where to count
/// from, as long as nothing that the result depends on changes.
pub(super) fn rounds(
    chains: &Arc<Chains>,
    start: &mut Cursor,
    world: World,
    budgets: Option<Vec<Arc<Budget>>>,
    on_demand: bool,
) -> Result<Option<Rounds>> {
    let Some(of) = key(&chains.config, &chains.schedule, start.turn()) else {
        start.set_length(None);
        return Ok(None);
    };
    let known = start.length().filter(|length| length.of == of).and_then(|length| length.rounds());
    if start.length().is_some_and(|length| length.of != of) || world == World::ALONE && known.is_none() {
        start.set_length(None);
    }
    if world == World::ALONE {
        return Ok(None);
    }
    if let Some(rounds) = known {
        return begun(rounds, start).map(Rounds::Known).map(Some);
    }
    let Some(from) = start.to_count_from() else {
        let lane = (0..start.lanes()).find(|lane| start.lane(*lane).is_none()).unwrap_or_default();
        let problem = format!(
            "lane {lane} of {} is another rank's, and the stream's length has to be counted again; merge the cursors \
             of all ranks first",
            start.lanes()
        );
        return Err(Error::Merge { problem, remedy: Some(Box::new(Remedy::MergeCursors)) });
    };
    start.set_length(Some(from.count_from_here(of)));
    // For a source that the config declares endless but whose weights use nothing of it, no lane was set aside.
    let unbounded = || chains.config.sources.iter().map(|_| Budget::new(usize::MAX)).collect();
    let budgets = budgets.unwrap_or_else(unbounded);
    let count = shared(chains.clone(), from, start.clone(), budgets, on_demand);
    Ok(Some(Rounds::Counted(match on_demand {
        true => count.boxed(),
        false => Task::spawn("count", &Handle::current(), count).boxed(),
    })))
}

/// Refuses a count that the stream has already passed.
fn begun(rounds: u64, start: &Cursor) -> Result<u64> {
    let begun = start.turn().div_ceil(start.lanes() as u64);
    match rounds < begun {
        true => Err(Error::resume(format!("it counts {rounds} rounds, and {begun} have begun"))),
        false => Ok(rounds),
    }
}

/// Counts the rounds, unless another process has done so, and notes them in the cursors of the stream.
async fn shared(
    chains: Arc<Chains>,
    from: Cursor,
    start: Cursor,
    budgets: Vec<Arc<Budget>>,
    on_demand: bool,
) -> Result<u64> {
    let entry = entry(&chains, &start).await?;
    // A count that goes on only while this process waits for it must not keep others waiting.
    let is_alone = on_demand || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    let turn = match &entry {
        Some(entry) if !is_alone => entry.turn().await,
        _ => None,
    };
    let rounds = match entry.as_ref().and_then(Entry::read) {
        Some(rounds) => rounds,
        None => {
            tracing::info!("counting the rows of all lanes, because the stream is finite");
            let rounds = count(&chains, &from, &budgets).await?;
            entry.iter().for_each(|entry| entry.write(&rounds));
            rounds
        }
    };
    drop(turn);
    let rounds = begun(rounds, &start)?;
    start.length().into_iter().for_each(|length| length.set(rounds));
    Ok(rounds)
}

/// Where processes of one user share the count, if it takes long and depends only on a config and its files.
async fn entry(chains: &Arc<Chains>, start: &Cursor) -> Result<Option<Entry>> {
    let Config { sources, .. } = &chains.config;
    let is_file = |source| matches!(chains.source.origin(source), Origin::Files);
    let is_whole = (0..sources.len()).all(is_file) && chains.documents.is_none() && chains.stages.is_empty();
    if !is_whole || chains.source.bytes() < WORTH_SHARING {
        return Ok(None);
    }
    let mut key = Key::new("millstream rounds of a stream 1");
    key.add(env!("CARGO_PKG_VERSION").as_bytes());
    key.add(&serde_json::to_vec(&(start.length(), start.fingerprint())).unwrap_or_default());
    let tokenizer = chains.encoder.tokenizer();
    let (id, vocab_size) = (tokenizer.fingerprint(), tokenizer.vocab_size());
    let holdout = format!("{} {}", chains.holdout.side.name(), chains.holdout.fraction);
    let manifests: Vec<_> = (0..sources.len())
        .map(|source| {
            key.add(word(&sources[source].on_error).as_bytes());
            chains.source.manifest(source, id.clone(), vocab_size)
        })
        .collect();
    if !manifests.iter().all(shards::Manifest::has_versions) {
        return Ok(None);
    }
    // A file that was written again is another file.
    let add = move || {
        for manifest in &manifests {
            key.add(&shards::identity(manifest, &holdout)?);
        }
        Ok(Entry::of("lengths", &key))
    };
    tasks::blocking("count", add).await
}

/// What the length of a finite stream depends on beside the fingerprint; `None` if the stream is endless.
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
async fn count(chains: &Arc<Chains>, from: &Cursor, budgets: &[Arc<Budget>]) -> Result<u64> {
    Ok(decided(&read(chains, from, budgets).await?, chains.config.pipeline.uneven, from))
}

/// How many rounds there are if the lanes end like this. Each entry has a lane's own remaining turns and all of them.
fn decided(ends: &[(u64, u64)], uneven: Uneven, from: &Cursor) -> u64 {
    let rounds = ends.iter().map(|(_, end)| *end);
    let rounds = match uneven {
        Uneven::Stop => rounds.min(),
        // A lane that had already ended gets filler to match the others; filler turns are not its own.
        Uneven::Pad | Uneven::Wrap => ends.iter().filter(|(own, _)| *own > 0).map(|(_, end)| *end).max(),
    };
    rounds.unwrap_or_default().max(from.turn().div_ceil(from.lanes() as u64))
}

/// Reads each lane to its own end, one lane after another.
async fn read(chains: &Arc<Chains>, from: &Cursor, budgets: &[Arc<Budget>]) -> Result<Vec<(u64, u64)>> {
    let budgets = vec![budgets.to_vec(); from.lanes()];
    let meters = chains.stages.meters();
    let gauge = Arc::new(Gauge::new(budgets, 1, Setting::default(), meters, chains.workers.clone(), None));
    let mut ends = Vec::new();
    for lane in 0..from.lanes() {
        let turns = chains.lane(lane, from.lanes(), from.own(lane), &gauge);
        let own = turns.try_take_while(|turn| ready(Ok(turn.is_own())));
        let count = async |turns: u64, _| {
            // On demand nothing else would let other tasks run.
            if turns.is_multiple_of(YIELD_AFTER) {
                yield_now().await;
            }
            Ok(turns + 1)
        };
        let own = own.try_fold(0, count).await?;
        ends.push((own, from.turns_of(lane) + own));
    }
    Ok(ends)
}
