//! Finished rows: the rows of a config's sources, packed once to be read in any order.
//!
//! Each lane is one stream, which makes its segments one after the other. Beside each segment it leaves a mark with the
//! cursor behind it, so that a stopped run continues there. A part of many is every n-th lane. The stages that make the
//! rows are those of a loader. Held in memory: the items of a few lanes' stages, `pipeline.memory` at most, and the
//! ends of the rows of their segments.

use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::future::{Either, FutureExt, select};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;

use super::directory::{self, TargetDirectory, WRITES_ROWS};
use super::refuse_unpreparable;
use crate::config::{Config, PackRule, SourceKind};
use crate::cursor::Tracked;
use crate::document::Sequence;
use crate::error::{Error, Result, panic_message};
use crate::loader::UnmixedLanes;
use crate::lock::DirLock;
use crate::rows::{
    LaneThere, Mark, RowManifest, RowOrder, RowRules, RowWriter, Rows, lanes_there, seal, segment_name,
};
use crate::shards::{MANIFEST, ShardPlace};
use crate::source::Origin;
use crate::store::Stores;
use crate::tasks;
use crate::world::World;

#[cfg(test)]
mod tests;

/// How many bytes of ids a segment has: the most that a kill costs each lane under way.
const SEGMENT_BYTES: u64 = 256 << 20;

/// How many lanes are under way for each worker.
const LANES_A_WORKER: usize = 2;

/// After so many rows a lane lets others go on.
const ROWS_A_TURN: u64 = 256;

/// The progress of [`prepare_rows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreparedRows {
    /// Lanes whose rows are finished, including those of earlier runs. If several processes prepare, only this one's
    /// part counts.
    pub lanes: u64,
    /// All lanes of this part.
    pub of: u64,
    /// Whether it was stopped before its part was done.
    pub is_stopped: bool,
    /// Lanes of other parts that were not finished when this one ended.
    pub left_to_others: u64,
    /// Rows that were made now.
    pub rows: u64,
    /// Targets in these rows, as [`Batch::tokens`](crate::Batch::tokens) counts them.
    pub tokens: u64,
}

impl PreparedRows {
    /// Whether all rows of all parts are finished.
    pub fn is_whole(&self) -> bool {
        !self.is_stopped && self.left_to_others == 0
    }
}

/// Packs a config's sources into directories of finished rows. One source goes to `directory` itself; each of several goes
/// to a directory of its name inside it.
///
/// They are the rows that a [`Loader`](crate::Loader) makes of one epoch, before lanes and sources are mixed. If the
/// config holds documents out, their rows are made too, separately.
///
/// Segments that are there already are skipped. `progress` is called from time to time.
///
/// # Errors
/// The errors of opening and polling a [`Loader`](crate::Loader); [`Error::Io`] if a directory cannot be written;
/// [`Error::Corpus`] if it holds other rows; [`Error::Busy`] if another process prepares into it.
///
/// # Cancel safety
/// Dropping the future leaves complete segments. Calling this again goes on after them.
pub async fn prepare_rows(
    config: &Config,
    directory: &Path,
    progress: impl Fn(PreparedRows) + Send + Sync + 'static,
) -> Result<PreparedRows> {
    prepare_rows_until(pending(), config, directory, World::ALONE, progress).await
}

/// As [`prepare_rows`], in one of several processes that share nothing but the directory, until `stop` is ready.
///
/// Each process of the `world` makes every `world.size`-th lane, the first of them number `world.rank`. Together they make
/// what one process would have made, byte for byte. Each can be stopped, and go on on another machine.
///
/// When `stop` is ready, the segments under way are dropped. If not all of this part is done, the result says so:
/// [`PreparedRows::is_stopped`].
///
/// # Errors
/// As [`prepare_rows`]; [`Error::Busy`] if another process makes the same part.
///
/// # Cancel safety
/// As [`prepare_rows`].
pub async fn prepare_rows_until(
    stop: impl Future<Output = ()>,
    config: &Config,
    directory: &Path,
    world: World,
    progress: impl Fn(PreparedRows) + Send + Sync + 'static,
) -> Result<PreparedRows> {
    prepared(stop, config, directory, world, SEGMENT_BYTES, Box::new(progress)).await
}

type Progress = Box<dyn Fn(PreparedRows) + Send + Sync>;

/// Prepares rows in segments of about so many bytes.
pub(super) async fn prepared(
    stop: impl Future<Output = ()>,
    config: &Config,
    directory: &Path,
    world: World,
    segment_bytes: u64,
    progress: Progress,
) -> Result<PreparedRows> {
    let mut stop = pin!(stop);
    let opened = match select(pin!(opened(config, directory, world, segment_bytes)), &mut stop).await {
        Either::Left((opened, _)) => opened?,
        Either::Right(_) => return Ok(PreparedRows { is_stopped: true, ..PreparedRows::default() }),
    };
    let Opened { lanes, targets, jobs, of } = opened;
    let counts = Arc::new(Counts::new(of, of - jobs.len() as u64, progress));
    counts.tell();
    let most = LANES_A_WORKER * config.pipeline.most_workers();
    let made = stream::iter(jobs).map(|Job { target, lane, there }| {
        let (side, number) = lanes.of(lane);
        let rows = side.rows(number, target, &there.cursor);
        let made = lane_made(targets[target].clone(), rows, lane, there, counts.clone());
        AssertUnwindSafe(made).catch_unwind().map(|made| {
            made.unwrap_or_else(|payload| {
                Err(Error::Panic { stage: "prepare", message: panic_message(&*payload) })
            })
        })
    });
    let made = made.buffer_unordered(most).try_collect::<()>();
    if let Either::Left((made, _)) = select(made, stop).await {
        made?;
    }
    let places = targets.iter().map(|target| (target.place.clone(), target.manifest.clone()));
    let places: Vec<(ShardPlace, RowManifest)> = places.collect();
    let end =
        move || places.iter().map(|(place, manifest)| ended(place, manifest)).collect::<Result<Vec<_>>>();
    let missing = tasks::blocking("prepare", end).await?.concat();
    drop(targets);
    let own = missing.iter().filter(|lane| *lane % world.size == world.rank).count() as u64;
    let prepared = PreparedRows { lanes: of - own, ..counts.prepared() };
    Ok(PreparedRows { is_stopped: own > 0, left_to_others: missing.len() as u64 - own, ..prepared })
}

/// The lanes of the training documents and, if documents are held out, their lane.
struct Sides {
    train: UnmixedLanes,
    held_out: Option<UnmixedLanes>,
}

impl Sides {
    /// The lanes that lane `lane` of a directory is one of, and its number there.
    fn of(&self, lane: usize) -> (&UnmixedLanes, usize) {
        match lane.checked_sub(self.train.len()).zip(self.held_out.as_ref()) {
            Some((number, held_out)) => (held_out, number),
            None => (&self.train, lane),
        }
    }
}

/// The lanes that are read, and their targets.
struct Opened {
    lanes: Sides,
    targets: Vec<Arc<RowTarget>>,
    jobs: Vec<Job>,
    /// How many lanes this process makes, including finished ones.
    of: u64,
}

/// The directory of the rows of one source.
#[derive(Debug)]
struct RowTarget {
    place: ShardPlace,
    manifest: RowManifest,
    /// Where its segments are written until they are complete.
    scratch: PathBuf,
    first_file: u32,
    segment_bytes: u64,
    /// Held until the last segment under way is dropped. A store has none.
    _lock: Option<DirLock>,
}

/// A lane with missing rows.
struct Job {
    target: usize,
    lane: usize,
    there: LaneThere,
}

async fn opened(config: &Config, directory: &Path, world: World, segment_bytes: u64) -> Result<Opened> {
    config.validate()?;
    // Learning a tokenizer takes a while, so sources that cannot be prepared and directories in use are reported first.
    for (index, source) in config.sources.iter().enumerate() {
        let origin = if source.is_stdin() { Origin::Stdin } else { Origin::Files };
        // Rows can be made of token shards.
        if source.kind != SourceKind::Shards {
            refuse_unpreparable(index, source, &origin)?;
        }
    }
    let (settings, path, stores) =
        (config.clone(), directory.to_owned(), Arc::new(Stores::new(&config.store)));
    let take = move || directory::take(&settings, &path, world, &stores, WRITES_ROWS);
    let directories = tasks::blocking("prepare", take).await?;
    let train = UnmixedLanes::open(config, false, None).await?;
    let held_out = match train.config().pipeline.holdout > 0.0 {
        true => Some(UnmixedLanes::open(config, true, Some(train.tokenizer().clone())).await?),
        false => None,
    };
    let (mut targets, mut jobs, mut of) = (Vec::new(), Vec::new(), 0);
    for (target, TargetDirectory { place, lock }) in directories.into_iter().enumerate() {
        let manifest = manifest(&train, config, target);
        let scratch = place.directory().map_or_else(std::env::temp_dir, Path::to_owned);
        let first_file = train.source().only(target).first_file();
        let (at, json) = (place.clone(), train.tokenizer().tokenizer_json().map(str::to_owned));
        let begin = move || begun(&at, manifest, json.as_deref(), world);
        let (manifest, there) = tasks::blocking("prepare", begin).await?;
        let own = there.into_iter().enumerate().skip(world.rank).step_by(world.size);
        for (lane, there) in own {
            of += 1;
            if !there.is_whole {
                jobs.push(Job { target, lane, there });
            }
        }
        targets.push(Arc::new(RowTarget {
            place,
            manifest,
            scratch,
            first_file,
            segment_bytes,
            _lock: lock,
        }));
    }
    Ok(Opened { lanes: Sides { train, held_out }, targets, jobs, of })
}

/// The manifest of the rows of source `source`.
fn manifest(lanes: &UnmixedLanes, given: &Config, source: usize) -> RowManifest {
    let Config { seed, pipeline, tokenizer: ids, .. } = lanes.config();
    let tokenizer = lanes.tokenizer();
    let rules = RowRules {
        tokenizer: tokenizer.fingerprint(),
        vocab_size: tokenizer.vocab_size(),
        bos: ids.bos.clone(),
        eos: ids.eos.clone(),
        seq_len: pipeline.seq_len,
        ahead: pipeline.ahead,
        pack: pipeline.pack,
        max_segments: pipeline.max_segments,
        pack_window: (pipeline.pack == PackRule::BestFit).then_some(pipeline.pack_window),
        holdout: pipeline.holdout,
    };
    let order = RowOrder {
        seed: *seed,
        lanes: lanes.len(),
        shuffle: pipeline.shuffle,
        window: pipeline.window(),
        shuffle_splits: pipeline.shuffle_splits,
    };
    let files = lanes.source().only(source);
    let settings = lanes.source().settings(source).unwrap_or(&given.sources[source]);
    RowManifest::new(rules, order, settings, files.row_files())
}

/// Starts the directory, or checks that it has the same rows. Returns its own manifest, whose files may have moved
/// since, and how far each lane is. The caller holds the lock of its part. It blocks.
fn begun(
    place: &ShardPlace,
    wanted: RowManifest,
    tokenizer: Option<&str>,
    world: World,
) -> Result<(RowManifest, Vec<LaneThere>)> {
    let manifest = directory::enter(place, MANIFEST, ["token shards", "rows"], tokenizer, || {
        directory::start(place, wanted, RowManifest::create, RowManifest::load, RowManifest::check)
    })?;
    let there = lanes_there(place, &manifest)?;
    if there.iter().any(|lane| !lane.is_whole) {
        directory::mark_part(place, world)?;
    }
    Ok((manifest, there))
}

/// Completes the directory if all lanes are finished. Returns the lanes that are not. It blocks.
fn ended(place: &ShardPlace, manifest: &RowManifest) -> Result<Vec<usize>> {
    let there = lanes_there(place, manifest)?;
    let missing: Vec<usize> = (0..there.len()).filter(|lane| !there[*lane].is_whole).collect();
    if missing.is_empty() {
        let is_listed = Rows::open(place, 0).is_ok();
        seal(place, manifest, (!is_listed).then_some(&there))?;
    }
    Ok(missing)
}

/// Makes the remaining segments of a lane.
async fn lane_made(
    target: Arc<RowTarget>,
    mut rows: BoxStream<'static, Result<Tracked<Sequence>>>,
    lane: usize,
    there: LaneThere,
    counts: Arc<Counts>,
) -> Result<()> {
    let LaneThere { segments: mut nth, mut cursor, .. } = there;
    let seq_len = target.manifest.rules.seq_len;
    let mut writer: Option<RowWriter> = None;
    loop {
        let next = rows.next().await.transpose()?;
        let is_end = next.is_none();
        if let Some(Tracked { value: row, cursor: after }) = next {
            let into = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(RowWriter::new(&target.scratch, &target.manifest, target.first_file)?),
            };
            into.push(&row)?;
            cursor = after;
            counts.rows.fetch_add(1, Relaxed);
            counts.tokens.fetch_add(row.len().saturating_sub(1).min(seq_len) as u64, Relaxed);
            let (rows, bytes) = (into.rows(), into.id_bytes());
            if rows.is_multiple_of(ROWS_A_TURN) {
                counts.tell();
                tokio::task::yield_now().await;
            }
            if bytes < target.segment_bytes {
                continue;
            }
        }
        let mark = Mark { rows: writer.as_ref().map_or(0, RowWriter::rows), is_end, cursor };
        let (target, writer) = (target.clone(), writer.take());
        tasks::blocking("prepare", move || closed(&target, writer, &mark, lane, nth)).await?;
        nth += 1;
        counts.done.fetch_add(u64::from(is_end), Relaxed);
        counts.tell();
        if is_end {
            return Ok(());
        }
    }
}

/// Finishes segment `nth` of a lane. It blocks.
fn closed(target: &RowTarget, writer: Option<RowWriter>, mark: &Mark, lane: usize, nth: usize) -> Result<()> {
    // The mark comes first: a segment without one would be made again.
    mark.write(&target.place, lane, nth)?;
    match writer {
        Some(writer) => target.place.put(&segment_name(lane, nth), writer.finish(nth as u32)?),
        None => Ok(()),
    }
}

/// The counts so far.
struct Counts {
    of: u64,
    done: AtomicU64,
    rows: AtomicU64,
    tokens: AtomicU64,
    progress: Progress,
}

impl Counts {
    fn new(of: u64, done: u64, progress: Progress) -> Self {
        Self { of, done: done.into(), rows: 0.into(), tokens: 0.into(), progress }
    }

    fn prepared(&self) -> PreparedRows {
        let [lanes, rows, tokens] = [&self.done, &self.rows, &self.tokens].map(|count| count.load(Relaxed));
        PreparedRows { lanes, of: self.of, rows, tokens, ..PreparedRows::default() }
    }

    fn tell(&self) {
        (self.progress)(self.prepared());
    }
}
