//! What a run read: its sources and their shares, its files and their digests, what it skipped, and whether the files
//! still give its batches.
//!
//! - `digests`: the SHA-256 of local files
//! - `tables`: all of it as tables with titles

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::chart::means_by_value;
use super::line;
use crate::failure::Failure;
use crate::ledger::{self, Shown};
use crate::words::count;
use crate::{progress, steps};
use millstream::config::SourceKind;
use millstream::cursor::{Event, SourceLedger};
use millstream::files::{File, Location};
use millstream::meter::Skipped;
use millstream::replay::{Checked, Epochs, Listed, Replay, RunFiles, merged};
use millstream::{Cursor, Error, Result};
use millstream_train::RunDirectory;

mod digests;
mod tables;

pub(super) use tables::Table;

/// What a run read, up to its latest cursor.
#[derive(Debug, Serialize)]
pub(super) struct Receipt {
    run: String,
    path: PathBuf,
    /// The version of the program that wrote this.
    millstream: &'static str,
    batches: u64,
    /// The settings that fix the order, with the tokenizer and the commits of the Hub's branches and tags.
    order: BTreeMap<String, String>,
    sources: Vec<Source>,
    #[serde(flatten)]
    values: Values,
    ledger: Shown,
    files: Vec<Read>,
    /// The files that token shards were made from, as their manifests say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    made_from: Vec<Read>,
    /// How the files differ from those of the run; `None` if they do not.
    changes: Option<String>,
    /// The documents that were skipped, each once, however many epochs have skipped it; the ledger counts every time.
    skipped: Vec<Skipped>,
    /// What changed the stream, such as exclusions.
    history: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
}

/// A source.
#[derive(Debug, Serialize)]
struct Source {
    name: String,
    /// `None` if the config has the source no more.
    kind: Option<SourceKind>,
    /// `None` if they cannot be listed.
    files: Option<usize>,
    bytes: Option<u64>,
    /// Why its files cannot be listed; those named are then the ones that the run has read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Its delivered ids, and their share of those of all sources.
    delivered: Share,
    epochs: Epochs,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Share {
    ids: u64,
    share: f64,
}

/// The targets that `train.loss_by` has counted.
#[derive(Debug, Default, Serialize)]
struct Values {
    /// By name and value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, BTreeMap<String, Share>>,
    /// In how many batches: at most those of the receipt.
    values_batches: u64,
}

/// A file that was read.
#[derive(Debug, Serialize)]
struct Read {
    source: String,
    path: String,
    bytes: u64,
    /// The store's version of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// That of a local file.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Why it has none: it is gone, or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Batches that were made again.
#[derive(Debug, Serialize)]
struct Check {
    /// How many batches of how many were made again. Those that the run has left out are in neither number.
    batches: u64,
    of_batches: u64,
    /// How many lanes of how many were compared.
    lanes: usize,
    of_lanes: usize,
    is_same: bool,
    stretches: Vec<Checked>,
    /// Batches that cannot be made again at any number of places: the run's cursors around them are of different numbers of
    /// ranks, and with a token budget a batch is of one rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchecked: Vec<Range<u64>>,
}

impl Receipt {
    /// Reads a run, and with `places` makes its batches again at so many places. `moved` says where its files are now.
    pub(super) async fn read(
        name: String,
        path: &Path,
        moved: &[String],
        places: Option<usize>,
    ) -> Result<Self, Failure> {
        let directory = RunDirectory::open(path)?;
        let Some(cursor) = ledger::latest_cursor(&directory)? else {
            let problem = "it has no checkpoint and no trail of cursors (train.trail_every) yet".to_owned();
            return Err(Error::Cursor { path: directory.trail(), problem }.into());
        };
        let (run, steps) = steps::read(path, moved)?;
        let slow = progress::slow("listing the files");
        let excluded = run.excluded_batches();
        let files = RunFiles::list(run).await?;
        let (listed, changes) = files.look().await;
        let changes = match changes {
            Some(changes) => Some(changes.to_string()).filter(|changes| !changes.is_empty()),
            None => Some("unknown: the run has no list of its files".to_owned()),
        };
        drop(slow);
        let slow = progress::slow("reading the ends of the epochs");
        // Of files that have changed, only a check says more.
        let replay = match changes.is_none() || places.is_some() {
            true => Some(files.open().await),
            false => None,
        };
        let epochs = match &replay {
            Some(Ok(replay)) if changes.is_none() => replay.epochs(&cursor).await.ok(),
            _ => None,
        };
        drop(slow);
        let epochs = epochs.unwrap_or_else(|| Epochs::at_least(&cursor));
        let check = match (places, replay) {
            (Some(places), Some(replay)) => {
                Some(Check::make(replay, cursor.batch(), &excluded, places, changes.as_deref()).await?)
            }
            _ => None,
        };
        Ok(Self {
            run: name,
            path: path.to_owned(),
            millstream: env!("CARGO_PKG_VERSION"),
            batches: cursor.batch(),
            order: cursor.fingerprint().0.clone(),
            sources: sources(&cursor, &listed, &epochs),
            values: Values::read(&directory, |step| {
                Some(steps.batches(step)).filter(|&to| to <= cursor.batch())
            })?,
            ledger: Shown::of_cursor(&cursor),
            files: read(&listed).await,
            made_from: listed.iter().flat_map(made_from).collect(),
            changes,
            skipped: directory.skipped_documents()?,
            history: cursor.history().to_vec(),
            check,
        })
    }

    /// Whether the batches that were made again are those of the run.
    pub(super) fn is_same(&self) -> bool {
        self.check.as_ref().is_none_or(|check| check.is_same)
    }
}

impl Check {
    /// `changes` is how the files have changed, and `excluded` the batches that the run has left out.
    async fn make(
        replay: Result<Replay>,
        batches: u64,
        excluded: &[Range<u64>],
        places: usize,
        changes: Option<&str>,
    ) -> Result<Self> {
        let slow = progress::slow("making batches again");
        let made = async {
            let replay = replay?;
            let made = replay.check(places, |made, of| slow.detail(|| format!("{made} of {of}"))).await?;
            Ok((replay.lanes(), made, replay.unchecked()))
        };
        let made: Result<_> = made.await;
        let (of_lanes, mut stretches, unchecked) = made.inspect_err(|error: &Error| {
            if let Some(changes) = changes.filter(|changes| !error.chain().contains(changes)) {
                progress::say(&format!("the files have changed since the run: {changes}"));
            }
        })?;
        let (Some(lanes), Some(last)) = (
            stretches.iter().map(|checked| checked.lanes).min(),
            stretches.iter().map(|checked| checked.to).max(),
        ) else {
            let problem =
                "the run has no cursor that leads from one batch to another; train with train.trail_every";
            return Err(Error::config("--check", problem));
        };
        // What differs is seen first.
        stretches.sort_by_key(|checked| (checked.difference.is_none(), checked.from));
        let delivered = |from: u64, to: u64| {
            let within = |range: &Range<u64>| range.end.min(to).saturating_sub(range.start.max(from));
            to - from - excluded.iter().map(within).sum::<u64>()
        };
        Ok(Self {
            // A checkpoint of all ranks may lead through batches that the first one's trail leads through, too.
            batches: merged(stretches.iter().map(|checked| checked.from..checked.to).collect())
                .iter()
                .map(|made| delivered(made.start, made.end))
                .sum(),
            of_batches: delivered(0, batches.max(last)),
            lanes,
            of_lanes,
            is_same: stretches.iter().all(|checked| checked.difference.is_none()),
            stretches,
            unchecked,
        })
    }
}

/// The sources of a cursor.
fn sources(cursor: &Cursor, listed: &[Listed], epochs: &[Epochs]) -> Vec<Source> {
    let ledger = cursor.ledger();
    let all = ledger.sources.iter().map(|(_, source)| source.delivered()).sum();
    let source = |((name, ledger), epochs): ((String, SourceLedger), &Epochs)| {
        let of_config = listed.iter().find(|other| other.name == name);
        let there = of_config.filter(|source| source.problem.is_none()).map(|source| &source.files);
        Source {
            name,
            kind: of_config.map(|source| source.kind),
            files: there.map(Vec::len),
            bytes: there.map(|files| files.iter().map(|file| file.len).sum()),
            problem: of_config.and_then(|source| source.problem.clone()),
            delivered: Share::of(ledger.delivered(), all),
            epochs: *epochs,
        }
    };
    ledger.sources.into_iter().zip(epochs).map(source).collect()
}

impl Values {
    /// Reads the metrics of the steps for which `batches` says how many batches there are up to their end.
    fn read(directory: &RunDirectory, batches: impl Fn(u64) -> Option<u64>) -> Result<Self> {
        let mut all = Self::default();
        line::read(&directory.metrics(), |step, line| {
            let Some(batches) = batches(step).filter(|_| !line["validation_loss"].is_number()) else {
                return;
            };
            all.values_batches = all.values_batches.max(batches);
            for (name, value, mean) in means_by_value(line) {
                let share = all.values.entry(name.clone()).or_default().entry(value.clone()).or_default();
                share.ids += mean["tokens"].as_u64().unwrap_or_default();
            }
        })?;
        for shares in all.values.values_mut() {
            let all = shares.values().map(|share| share.ids).sum();
            shares.values_mut().for_each(|share| *share = Share::of(share.ids, all));
        }
        Ok(all)
    }
}

impl Share {
    fn of(ids: u64, all: u64) -> Self {
        Self { ids, share: if all > 0 { ids as f64 / all as f64 } else { 0.0 } }
    }
}

/// The files, with the digests of those that are on this machine.
async fn read(sources: &[Listed]) -> Vec<Read> {
    let digests = digests::of(sources.iter().flat_map(|source| &source.files)).await;
    let present = |source: &Listed, file: &File| {
        let digest = digests.get(file.path());
        let problem = match (digest, &file.location) {
            (Some(Err(problem)), _) => Some(problem.clone()),
            (None, Location::Url(_)) if source.problem.is_some() => {
                Some("cannot be read, as its source".to_owned())
            }
            _ => None,
        };
        Read { sha256: digest.and_then(|digest| digest.clone().ok()), problem, ..Read::new(source, file) }
    };
    let gone =
        |source: &Listed, file: &File| Read { problem: Some("gone".to_owned()), ..Read::new(source, file) };
    let all_present =
        sources.iter().flat_map(|source| source.files.iter().map(move |file| present(source, file)));
    let all_gone = sources.iter().flat_map(|source| source.gone.iter().map(move |file| gone(source, file)));
    all_present.chain(all_gone).collect()
}

/// The files that a source of token shards was made from.
fn made_from(source: &Listed) -> impl Iterator<Item = Read> {
    source.made_from.iter().map(move |file| Read::new(source, file))
}

impl Read {
    /// A file of a source, without its digest.
    fn new(source: &Listed, file: &File) -> Self {
        Self {
            source: source.name.clone(),
            path: file.path().display().to_string(),
            bytes: file.len,
            etag: file.etag.clone(),
            sha256: None,
            problem: None,
        }
    }
}

/// "3 of 12 batches".
fn part(some: u64, of: u64, noun: &str) -> String {
    format!("{some} of {}", count(of, noun))
}
