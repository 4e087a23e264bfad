//! How `pipeline.memory` is shared out.

use std::sync::Arc;

use super::chains::interleave;
use crate::budget::Budget;
use crate::config::{ByteCount, Config, PackRule, PipelineConfig, names};
use crate::document::Tokens;
use crate::error::{Error, Result};
use crate::source::{Side, Source};
use crate::world::World;

/// The minimum for one source of a lane.
const LEAST_BYTES: usize = 64 << 10;

/// The bytes that a document in a window takes beside its ids, twice: while one window drains, the next one fills.
const NOTE_BYTES: usize = 2 * size_of::<Tokens>();

/// The ids that fill a block of a lane's rows: enough that handing it on costs little, and few enough for the CPU's
/// cache.
const BLOCK_BYTES: usize = 64 << 10;

/// In a small memory, a block is full with one part in this many of its lane's.
const BLOCK_PART: usize = 64;

/// The blocks of a lane that wait for its turn.
pub(super) const BLOCKS_AHEAD: usize = 1;

/// The blocks of a lane that exist at once: beside those that wait, one is being made, and the rows of one are dealt.
const BLOCKS: usize = BLOCKS_AHEAD + 2;

/// Text and ids get at least one part in this many of a lane's memory, however much its open files take.
const LEAST_PART: usize = 4;

/// Returns one budget for each source of each lane that a rank holds: its own lanes, and one more if it may have to
/// [count](super::length) all lanes. The budgets share `pipeline.memory`, less the queued batches, the rows that lanes
/// make ahead, and the notes about the documents of a window. Open files count for up to three quarters of a budget. If
/// they take more, that is logged: the number of open files is part of the order, which memory must not change.
///
/// # Errors
/// [`Error::Config`] if a lane gets less than it needs; the error names the smallest memory that is enough.
pub(super) fn budgets(
    config: &Config,
    source: &Source,
    side: Side,
    world: World,
) -> Result<Vec<Vec<Arc<Budget>>>> {
    check(config, world.size)?;
    let (lanes, shares) = (held(config, world.size), shares(config, source, side, world));
    for (Share { open, counted, .. }, name) in shares.iter().zip(names(&config.sources)) {
        if open > counted {
            tracing::warn!(
                source = name,
                open_bytes = open,
                counted_bytes = counted,
                "the open files of a source take more than its share of pipeline.memory, and are read all the same; \
                 raise pipeline.memory, or lower pipeline.lanes or pipeline.window"
            );
        }
    }
    let of_lane = |_| shares.iter().map(|share| Budget::new(share.left)).collect();
    Ok((0..lanes).map(of_lane).collect())
}

/// How many lanes a rank holds: its own and, if a finite stream has several ranks, the lane being counted.
fn held(config: &Config, world: usize) -> usize {
    let is_finite = (0..config.sources.len()).all(|source| config.epochs(source).is_some());
    config.pipeline.lanes() / world + usize::from(world > 1 && is_finite)
}

/// How much memory a rank's loader takes at most, in bytes: `pipeline.memory`, and the memory of open files beyond
/// their share. The memory must have been [checked](check).
pub(super) fn most_bytes(config: &Config, source: &Source, side: Side, world: World) -> u64 {
    let beyond = shares(config, source, side, world).into_iter();
    let beyond = beyond.map(|Share { open, counted, .. }| open.saturating_sub(counted) as u64);
    beyond.fold(config.pipeline.memory.0, u64::saturating_add)
}

/// A source's share of a rank's memory, in bytes.
struct Share {
    /// How much its open files take over all lanes, and how much of that counts.
    open: usize,
    counted: usize,
    /// How much remains for each lane's text and ids.
    left: usize,
}

fn shares(config: &Config, source: &Source, side: Side, world: World) -> Vec<Share> {
    let pipeline = &config.pipeline;
    let (lanes, sources) = (held(config, world.size), config.sources.len());
    let (memory, notes) = (pipeline.memory.as_usize(), note_bytes(pipeline));
    let waiting = ready_bytes(pipeline, pipeline.memory, world.size);
    let all = (memory - waiting) / lanes.saturating_mul(sources).max(1) - notes;
    let share = |index| {
        let (source, indexes) = (source.only(index), source.index_bytes(index) / lanes);
        let open = source.open_bytes(interleave(pipeline, side, &source)).saturating_add(indexes);
        let left = all.saturating_sub(open).max(all / LEAST_PART);
        Share { open: open.saturating_mul(lanes), counted: (all - left) * lanes, left }
    };
    (0..sources).map(share).collect()
}

/// Refuses a `pipeline.memory` that is too small for the queued batches and each lane's rows, text, ids and notes.
pub(super) fn check(config: &Config, world: usize) -> Result<()> {
    let pipeline = &config.pipeline;
    let shares = held(config, world).saturating_mul(config.sources.len());
    // The notes may take half of a lane's memory.
    let of_share = LEAST_BYTES.max(note_bytes(pipeline).saturating_mul(2));
    let needed = |memory: usize| {
        let ready = ready_bytes(pipeline, ByteCount(memory as u64), world);
        ready.saturating_add(shares.saturating_mul(of_share))
    };
    let memory = pipeline.memory.as_usize();
    if memory >= needed(memory) {
        return Ok(());
    }
    // With more memory there may be more batches.
    let mut least = memory;
    while least < needed(least) {
        least = needed(least);
    }
    let why = match of_share > LEAST_BYTES {
        true => format!(", whose windows hold {} documents", held_at_once(pipeline)),
        false => String::new(),
    };
    Err(Error::config(
        "pipeline.memory",
        format!(
            "must be at least {}, not {}: pipeline.depth + 2 batches of {}, {} for each lane's rows, and {} for each \
             lane and source{why}",
            ByteCount(least as u64),
            pipeline.memory,
            ByteCount(pipeline.batch_bytes(world) as u64),
            ByteCount(rows_bytes(pipeline, ByteCount(least as u64), world) as u64),
            ByteCount(of_share as u64),
        ),
    ))
}

/// How much memory the batches and the lanes' rows take, queued or in the making, if the loader has this much.
fn ready_bytes(pipeline: &PipelineConfig, memory: ByteCount, world: usize) -> usize {
    let depth = PipelineConfig { memory, ..pipeline.clone() }.most_depth(world);
    // Beside the queued batches, one is being made and one waits to be queued.
    let batches = pipeline.batch_bytes(world).saturating_mul(depth.saturating_add(2));
    batches.saturating_add(rows_bytes(pipeline, memory, world).saturating_mul(pipeline.lanes() / world))
}

/// How much memory the rows that one lane makes ahead take.
fn rows_bytes(pipeline: &PipelineConfig, memory: ByteCount, world: usize) -> usize {
    // A block ends with the turn that fills it.
    block_bytes(pipeline, memory, world).saturating_add(pipeline.turn_bytes()).saturating_mul(BLOCKS)
}

/// How many bytes of ids fill a block of a lane's rows.
pub(super) fn block_bytes(pipeline: &PipelineConfig, memory: ByteCount, world: usize) -> usize {
    let of_lane = memory.as_usize() / (pipeline.lanes() / world).max(1);
    BLOCK_BYTES.min(of_lane / BLOCK_PART)
}

/// How much memory the notes about the documents in the windows of one lane and source take.
fn note_bytes(pipeline: &PipelineConfig) -> usize {
    held_at_once(pipeline).saturating_mul(NOTE_BYTES)
}

/// How many documents or rows wait at once in the windows of one lane and source.
fn held_at_once(pipeline: &PipelineConfig) -> usize {
    let packed = if pipeline.pack == PackRule::BestFit { pipeline.pack_window } else { 0 };
    let grouped = if pipeline.batch_tokens.is_some() { pipeline.bucket_window } else { 0 };
    pipeline.waiting().saturating_add(packed).saturating_add(grouped)
}
