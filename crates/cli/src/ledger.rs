//! `millstream ledger`: what became of every document and id, by source.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use serde::Serialize;

use super::failure::Failure;
use super::settings::Settings;
use super::words::count;
use super::{RunConfig, Written, print_json, print_line, progress, table};
use millstream::config::{Last, Uneven};
use millstream::cursor::{Ledger, LeftOut, SourceLedger};
use millstream::loader::with_stored_tokenizer;
use millstream::{Config, Loader, Result};
#[cfg(feature = "train")]
use millstream::{
    Cursor,
    replay::{self, LONGEST_SILENCE},
};

mod by_value;

use by_value::ShownValue;

pub(super) const HELP: &str = "\
Example: read all batches of a config, and account for each id
  millstream ledger configs/quickstart.toml --set pipeline.epochs=1
Example: the same for the first 1000 batches; what is not yet reached is counted as well
  millstream ledger configs/quickstart.toml --batches 1000 --count
Example: what a run was trained on, and what is left of its data
  millstream ledger runs/first --count

Each document and each id of a source is counted once: learned (a target), masked (an input, and no target), first
(only the first input of a row), cut (does not fit a row), excluded (by [exclude]), skipped (unreadable, or nothing to
learn), dropped (left over at the end of the stream, by pipeline.uneven, pipeline.last or a weight of 0), or not
yet reached. Padding is the number of targets that a source's rows lack.

A run is read from its trail of cursors and its checkpoints, at once. --count reads the data once more.";

#[derive(Debug, Args)]
pub(super) struct LedgerArgs {
    /// The config: a .toml, .json or .yaml file; or the directory of a run.
    #[arg(value_name = "CONFIG|RUN")]
    of: PathBuf,

    #[command(flatten)]
    settings: Settings,

    /// How many batches of a config to read. Default: all, if they end.
    #[arg(long, short = 'n')]
    batches: Option<NonZeroU64>,

    /// Count all documents and ids, to say how many were dropped or are not yet reached: reads all epochs, or one if the
    /// stream has no end.
    #[arg(long)]
    count: bool,
}

impl LedgerArgs {
    pub(super) fn written(&self) -> Written {
        let config = (!self.of.is_dir()).then(|| self.of.clone());
        Written { config, settings: self.settings.clone(), has_at: false }
    }
}

/// A ledger, for people and as JSON.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    reached: Reached,
    sources: Vec<ShownSource>,
    /// Targets that are missing in rows of padding, which no source made.
    padding_of_no_source: u64,
    /// The column by whose values the ledger counts, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_by: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<ShownValue>,
}

/// The batches that a ledger is of.
#[derive(Clone, Copy, Debug, Serialize)]
struct Reached {
    batches: u64,
    /// Whether they are all that the stream has.
    has_ended: bool,
}

#[derive(Clone, Debug, Serialize)]
struct ShownSource {
    name: String,
    #[serde(flatten)]
    numbers: Numbers,
    skipped: u64,
    padding: u64,
    /// With a count, what the stream has left out at its end, or has not yet reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reached: Option<LeftOut>,
    /// With a count of a stream without end: what one epoch has.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<LeftOut>,
}

/// What became of the documents and ids of a source, or of those that have one value.
#[derive(Clone, Copy, Debug, Serialize)]
struct Numbers {
    documents: u64,
    ids: u64,
    learned: u64,
    masked: u64,
    first: u64,
    cut: LeftOut,
    excluded: LeftOut,
}

impl Numbers {
    fn of(ledger: &SourceLedger) -> Self {
        let SourceLedger { documents, learned, masked, first, cut, excluded, .. } = *ledger;
        Self { documents, ids: ledger.ids(), learned, masked, first, cut, excluded }
    }
}

/// All documents and ids of a ledger, whatever became of them.
fn whole(ledger: &SourceLedger) -> LeftOut {
    LeftOut { documents: ledger.all_documents(), ids: ledger.ids() }
}

/// Whether a source has no name: it is called by its number.
fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) async fn run(args: LedgerArgs, json: bool) -> Result<(), Failure> {
    let (config, ledger, reached) = match args.of.is_dir() {
        true => of_run(&args).await?,
        false => {
            let run = RunConfig::load_with(&args.of, args.settings.all())?;
            let config = with_stored_tokenizer(&run.data).await?;
            let (ledger, reached) = read(&config, args.batches.map(NonZeroU64::get)).await?;
            (config, ledger, reached)
        }
    };
    // At the end of a stream that delivers all, nothing is dropped.
    let (uneven, last) = (config.pipeline.uneven, config.pipeline.last);
    let is_whole = reached.has_ended && uneven != Uneven::Stop && last != Last::Drop && weighs_all(&config);
    let is_counted = args.count || reached.has_ended;
    let all = match is_counted && !is_whole {
        true => Some(count_all(&config).await?),
        false => is_counted.then(|| ledger.clone()),
    };
    let column = config.pipeline.ledger_by.as_deref();
    let shown = Shown::new(ledger, reached, all, is_finite(&config), column);
    match json {
        true => print_json(&shown)?,
        false => shown.lines(None).iter().try_for_each(|line| print_line(line))?,
    }
    Ok(())
}

/// Reads all batches of a config, or at most `limit` of them.
async fn read(config: &Config, limit: Option<u64>) -> Result<(Ledger, Reached), Failure> {
    if limit.is_none() && !is_finite(config) {
        let problem = "this stream has no end; say how many batches to read, or set pipeline.epochs";
        return Err(Failure::usage("--batches", problem));
    }
    let mut loader = super::open(config, Loader::builder(config)).await?;
    let slow = progress::slow("reading batches");
    let mut reached = Reached { batches: 0, has_ended: false };
    while !reached.has_ended && limit.is_none_or(|limit| reached.batches < limit) {
        slow.detail(|| count(reached.batches, "batch"));
        match loader.next().await.transpose()? {
            Some(_) => reached.batches += 1,
            None => reached.has_ended = true,
        }
    }
    Ok((loader.ledger(), reached))
}

/// The ledger of all that the stream has if nothing is dropped: all epochs or, of a stream without end, one. Of a rank,
/// that of its lanes.
async fn count_all(config: &Config) -> Result<Ledger> {
    let mut config = config.clone();
    let is_finite = is_finite(&config);
    if !is_finite {
        config.pipeline.epochs = Some(1);
        config.sources.iter_mut().for_each(|source| source.epochs = None);
    }
    config.exclude.batches.clear();
    if !weighs_all(&config) {
        config.mixture.changes.clear();
        let of_sources = config.sources.iter_mut().filter_map(|source| source.weight.as_mut());
        of_sources.chain(config.mixture.weights.values_mut()).for_each(|weight| *weight = 1.0);
    }
    // What wraps counts as often as it comes. In a stream without end, no lane ends before others.
    if !is_finite || config.pipeline.uneven == Uneven::Stop {
        config.pipeline.uneven = Uneven::Pad;
    }
    config.pipeline.last = Last::Short;
    let mut loader = super::open(&config, Loader::builder(&config)).await?;
    let slow = progress::slow("counting all documents");
    while let Some(batch) = loader.next().await.transpose()? {
        slow.detail(|| count(batch.number() + 1, "batch"));
    }
    Ok(loader.ledger())
}

/// Whether each source has a weight at the end: one of weight 0 may have documents left then.
fn weighs_all(config: &Config) -> bool {
    match config.mixture.changes.last() {
        Some(change) => change.weights.values().all(|weight| *weight > 0.0),
        None => {
            let of_sources = config.sources.iter().filter_map(|source| source.weight.as_ref());
            of_sources.chain(config.mixture.weights.values()).all(|weight| *weight > 0.0)
        }
    }
}

fn is_finite(config: &Config) -> bool {
    (0..config.sources.len()).all(|source| config.epochs(source).is_some())
}

/// The config of a run, and the ledger and the batches of its latest cursor. With a count, it is known whether the stream
/// ends there.
#[cfg(feature = "train")]
async fn of_run(args: &LedgerArgs) -> Result<(Config, Ledger, Reached), Failure> {
    if args.batches.is_some() {
        return Err(Failure::usage("--batches", "a run's ledger covers all of its batches; leave it out"));
    }
    for setting in args.settings.all() {
        super::settings::moved_paths(setting).map_err(|problem| Failure::usage("--set", problem))?;
    }
    let directory = millstream_train::RunDirectory::open(&args.of)?;
    let mut config = directory.adapt(directory.config(args.settings.all())?).data;
    let Some(cursor) = latest_cursor(&directory)? else {
        let problem = format!("no cursor is in {}: it has no checkpoint and no trail yet", args.of.display());
        return Err(millstream::Error::Cursor { path: directory.trail(), problem }.into());
    };
    let lanes = cursor.known_lanes().count();
    if lanes < cursor.lanes() {
        progress::say(&format!(
            "only the first rank's trail is there: these are {lanes} of {} lanes",
            cursor.lanes()
        ));
    }
    if args.count {
        of_lanes(&mut config, &cursor)?;
        config.store.deadline = config.store.deadline.min(LONGEST_SILENCE);
        // Other files than those of the run are refused.
        let mut loader =
            match super::open(&config, Loader::builder(&config).with_cursor(cursor.clone())).await {
                Ok(loader) => loader,
                Err(error) => {
                    let was = directory.listing()?;
                    return Err(replay::refused(error, was.as_ref(), &config).await.into());
                }
            };
        config.exclude.documents = replay::excluded_documents(loader.start(), &loader.listing(), &config);
        if is_finite(&config) && loader.next().await.transpose()?.is_none() {
            return Ok((config, loader.ledger(), Reached { batches: cursor.batch(), has_ended: true }));
        }
    }
    Ok((config, cursor.ledger(), Reached { batches: cursor.batch(), has_ended: false }))
}

/// Has a config read the lanes that a cursor knows: all, or those of one rank.
#[cfg(feature = "train")]
fn of_lanes(config: &mut Config, cursor: &Cursor) -> Result<(), Failure> {
    let (known, lanes) = (cursor.known_lanes().count(), cursor.lanes());
    let (rank, world) = (cursor.known_lanes().next().unwrap_or_default(), lanes / known.max(1));
    if !cursor.known_lanes().eq((rank..lanes).step_by(world)) {
        let problem = format!(
            "the run's latest cursor knows {known} of {lanes} lanes, which are not those of one rank; merge the cursors of \
             all ranks, or leave --count out"
        );
        return Err(Failure::usage("--count", problem));
    }
    let of = |number| (world > 1).then_some(number);
    (config.pipeline.rank, config.pipeline.world) = (of(rank), of(world));
    Ok(())
}

#[cfg(not(feature = "train"))]
async fn of_run(args: &LedgerArgs) -> Result<(Config, Ledger, Reached), Failure> {
    Err(Failure::usage("CONFIG", format!("{} is a directory, and not a config", args.of.display())))
}

/// The cursor of a run's trail or checkpoints that knows most lanes and, of these, is furthest.
#[cfg(feature = "train")]
pub(super) fn latest_cursor(directory: &millstream_train::RunDirectory) -> Result<Option<Cursor>> {
    let of_trail = millstream::trail::nearest(directory.trail(), u64::MAX)?;
    let checkpoint = millstream_train::Checkpoint::latest(&directory.checkpoints())?;
    let of_checkpoint = checkpoint.map(|checkpoint| checkpoint.cursor()).transpose()?.flatten();
    Ok([of_trail, of_checkpoint]
        .into_iter()
        .flatten()
        .max_by_key(|cursor| (cursor.known_lanes().count(), cursor.batch())))
}

impl Shown {
    fn new(
        ledger: Ledger,
        reached: Reached,
        all: Option<Ledger>,
        is_finite: bool,
        column: Option<&str>,
    ) -> Self {
        let has_ended = reached.has_ended;
        let all_of = |name: &str| {
            let all = all.as_ref()?.sources.iter().find(|(other, _)| other == name)?;
            Some(all.1)
        };
        let source = |(name, mut ledger): (String, SourceLedger)| {
            let all = all_of(&name);
            if let Some(all) = all.filter(|_| has_ended) {
                // What cannot be read among what is left over at the end is skipped, and not dropped.
                ledger.skipped = ledger.skipped.max(all.skipped);
            }
            let (all, own) = (all.as_ref().map(whole), whole(&ledger));
            let left = all.map(|all| LeftOut {
                documents: all.documents.saturating_sub(own.documents),
                ids: all.ids.saturating_sub(own.ids),
            });
            ShownSource {
                numbers: Numbers::of(&ledger),
                skipped: ledger.skipped,
                padding: ledger.padding,
                dropped: left.filter(|_| has_ended),
                not_reached: left.filter(|_| !has_ended && is_finite),
                epoch: all.filter(|_| !has_ended && !is_finite),
                name,
            }
        };
        Self {
            reached,
            values: by_value::values(&ledger, all.as_ref()),
            ledger_by: column.map(str::to_owned),
            sources: ledger.sources.into_iter().map(source).collect(),
            padding_of_no_source: ledger.padding,
        }
    }

    /// What a run's latest cursor says; `None` if it has none.
    #[cfg(feature = "train")]
    pub(super) fn of_run(directory: &millstream_train::RunDirectory) -> Result<Option<Self>> {
        Ok(latest_cursor(directory)?.map(|cursor| Self::of_cursor(&cursor)))
    }

    /// What a cursor says.
    #[cfg(feature = "train")]
    pub(super) fn of_cursor(cursor: &Cursor) -> Self {
        let reached = Reached { batches: cursor.batch(), has_ended: false };
        Self::new(cursor.ledger(), reached, None, true, cursor.ledger_by())
    }

    /// The tables as lines, of a `run` that is to be named.
    pub(super) fn lines(&self, run: Option<&str>) -> Vec<String> {
        let mut rows = self.rows();
        if let Some((run, head)) = run.zip(rows.first_mut().and_then(|row| row.first_mut())) {
            *head = format!("{run} after {head}");
        }
        table::several(&[rows, self.rows_by_value()])
    }

    /// The numbers by the values of a column as a table; nothing if there are none.
    pub(super) fn rows_by_value(&self) -> Vec<Vec<String>> {
        let column = self.ledger_by.as_ref().filter(|_| !self.values.is_empty());
        column.map_or_else(Vec::new, |column| by_value::rows(column, &self.values))
    }

    /// The numbers as a table: a column for each source. Rows without a number are left out.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let batches = count(self.reached.batches, "batch");
        let reached = if self.reached.has_ended { format!("all {batches}") } else { batches };
        let head = self.sources.iter().map(|source| match is_number(&source.name) {
            true => format!("source {}", source.name),
            false => source.name.clone(),
        });
        let mut rows: Vec<Vec<String>> = vec![std::iter::once(reached).chain(head).collect()];
        let mut row = |name: &str, is_shown: bool, number: &dyn Fn(&ShownSource) -> Option<u64>| {
            let numbers: Vec<Option<u64>> = self.sources.iter().map(number).collect();
            if is_shown || numbers.iter().flatten().any(|number| *number > 0) {
                let numbers =
                    numbers.iter().map(|number| number.map_or_else(String::new, |it| it.to_string()));
                rows.push(std::iter::once(name.to_owned()).chain(numbers).collect());
            }
        };
        let documents = |left: Option<LeftOut>| left.map(|left| left.documents);
        let ids = |left: Option<LeftOut>| left.map(|left| left.ids);
        row("documents delivered", true, &|source| Some(source.numbers.documents));
        row("documents cut", false, &|source| Some(source.numbers.cut.documents));
        row("documents excluded", false, &|source| Some(source.numbers.excluded.documents));
        row("documents skipped", false, &|source| Some(source.skipped));
        row("documents dropped", false, &|source| documents(source.dropped));
        row("documents not yet reached", false, &|source| documents(source.not_reached));
        row("documents of one epoch", false, &|source| documents(source.epoch));
        row("ids learned", true, &|source| Some(source.numbers.learned));
        row("ids masked", false, &|source| Some(source.numbers.masked));
        row("ids first in a row", true, &|source| Some(source.numbers.first));
        row("ids cut", false, &|source| Some(source.numbers.cut.ids));
        row("ids excluded", false, &|source| Some(source.numbers.excluded.ids));
        row("ids dropped", false, &|source| ids(source.dropped));
        row("ids not yet reached", false, &|source| ids(source.not_reached));
        row("ids of one epoch", false, &|source| ids(source.epoch));
        row("padding", true, &|source| Some(source.padding));
        if self.padding_of_no_source > 0 {
            rows.push(vec!["padding in rows of no source".to_owned(), self.padding_of_no_source.to_string()]);
        }
        rows
    }
}
