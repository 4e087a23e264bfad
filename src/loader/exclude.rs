//! The batches and documents that a run leaves out, and their record in the cursor's history.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::config::{Config, ExcludedDocument, names};
use crate::cursor::{Cursor, Event};
use crate::error::{Error, Result};
use crate::source::{Side, Source};
use crate::tasks;
use crate::world::World;

/// The exclusions in force from the start on.
#[derive(Default)]
pub(super) struct Excluding {
    pub(super) batches: Vec<Range<u64>>,
    /// The events to record in the cursor, each with its first batch.
    pub(super) events: Vec<(u64, Event)>,
    /// Documents, by file number and the byte that they begin at.
    pub(super) documents: HashSet<(u32, u64)>,
}

/// Finds the exclusions of the training stream, in the config and in the cursor's history. Records the new ones in the
/// start cursor.
pub(super) async fn excluding(
    config: &Config,
    source: &Source,
    side: Side,
    world: World,
    mut start: Cursor,
) -> Result<(Cursor, Excluding)> {
    if side == Side::HeldOut {
        return Ok((start, Excluding::default()));
    }
    let (batches, events) = batches(config, world, &start)?;
    let (listed, names, history) = (source.clone(), names(&config.sources), start.history().to_vec());
    let wanted = config.exclude.documents.clone();
    let find = move || documents(&listed, &names, &history, &wanted);
    let (known, new) = tasks::blocking("source", find).await?;
    let documents = known.union(&new).copied().collect();
    if !new.is_empty() {
        start.note(noted(config, source, start.batch(), new));
    }
    Ok((start, Excluding { batches, events, documents }))
}

/// Documents, by file number and the byte that they begin at.
type Places = HashSet<(u32, u64)>;

/// The documents that the history leaves out, and the new ones that the config leaves out.
fn documents(
    source: &Source,
    names: &[String],
    history: &[Event],
    wanted: &[ExcludedDocument],
) -> Result<(Places, Places)> {
    let (mut known, mut known_paths) = (Places::new(), HashSet::new());
    for event in history {
        let Event::ExcludedDocuments { documents, places: numbered, .. } = event else { continue };
        known.extend(renumbered(source, names, numbered));
        known_paths.extend(documents.iter().map(|document| document.path.as_path()));
    }
    let wanted = places(source, wanted, &known_paths)?;
    let new = wanted.difference(&known).copied().collect();
    Ok((known, new))
}

/// The documents by file number, given by their numbers within the sources.
fn renumbered(source: &Source, names: &[String], numbered: &BTreeMap<String, Vec<(u32, u64)>>) -> Places {
    let mut places = Places::new();
    for (index, name) in names.iter().enumerate() {
        let Some(numbered) = numbered.get(name) else { continue };
        let first = source.only(index).first_file();
        let number = |&(nth, byte): &(u32, u64)| Some((first.checked_add(nth)?, byte));
        let is_there = |(number, _): &(u32, u64)| {
            source.files().get(*number as usize).is_some_and(|file| file.source == index)
        };
        places.extend(numbered.iter().filter_map(number).filter(is_there));
    }
    places
}

/// The event that records these documents in the history.
fn noted(config: &Config, source: &Source, batch: u64, new: Places) -> Event {
    let (names, new) = (names(&config.sources), BTreeSet::from_iter(new));
    let mut places: BTreeMap<String, Vec<(u32, u64)>> = BTreeMap::new();
    for &(number, byte) in &new {
        let index = source.files()[number as usize].source;
        let nth = number - source.only(index).first_file();
        places.entry(names[index].clone()).or_default().push((nth, byte));
    }
    let document = |(number, byte)| ExcludedDocument { path: source.files().path(number).to_owned(), byte };
    let documents: BTreeSet<ExcludedDocument> = new.into_iter().map(document).collect();
    Event::ExcludedDocuments { batch, documents: documents.into_iter().collect(), places }
}

type Notes = (Vec<Range<u64>>, Vec<(u64, Event)>);

/// The ranges of batches still to come. Ranges before the cursor must be in its history.
fn batches(config: &Config, world: World, start: &Cursor) -> Result<Notes> {
    let (mut batches, mut events) = (Vec::new(), Vec::new());
    for (index, &(from, to)) in config.exclude.batches.iter().enumerate() {
        let event = Event::ExcludedBatches { from, to };
        if start.history().contains(&event) {
            continue;
        }
        let size = world.size as u64;
        if config.pipeline.batch_tokens.is_some() && (from % size, to % size) != (0, 0) {
            let problem = format!(
                "with pipeline.batch_tokens each rank's batch has a number of its own: [{from}, {to}] must be \
                 multiples of the world's size, {size}, so that no rank has fewer steps than another"
            );
            return Err(Error::config(format!("exclude.batches.{index}"), problem));
        }
        if from < start.batch() {
            let problem = format!(
                "[{from}, {to}] begins before batch {}, where the cursor is, and is not in its history; exclude \
                 from there on, or resume from a cursor of batch {from} or before",
                start.batch()
            );
            return Err(Error::config(format!("exclude.batches.{index}"), problem));
        }
        batches.push(from..to);
        events.push((from, event));
    }
    Ok((batches, events))
}

/// Checks that the documents that a config excludes are there.
pub(super) async fn check(config: &Config, source: &Source) -> Result<()> {
    let (source, wanted) = (source.clone(), config.exclude.documents.clone());
    tasks::blocking("source", move || places(&source, &wanted, &HashSet::new()).map(drop)).await
}

/// The documents by file number. If several sources have the file, it counts in each of them. A path that no source has
/// is refused unless it is `known`: its file may have moved since.
fn places(source: &Source, documents: &[ExcludedDocument], known: &HashSet<&Path>) -> Result<Places> {
    let mut bytes: HashMap<&Path, Vec<u64>> = HashMap::new();
    for document in documents {
        bytes.entry(&document.path).or_default().push(document.byte);
    }
    let mut places = Places::new();
    let mut missing: HashSet<&Path> = bytes.keys().copied().filter(|path| !known.contains(path)).collect();
    for (number, file) in source.files().iter().enumerate().filter(|_| !bytes.is_empty()) {
        if let Some(bytes) = bytes.get(file.path()) {
            missing.remove(file.path());
            for &byte in bytes {
                if !source.may_begin(number as u32, byte)? {
                    let path = file.path().display();
                    let problem = format!(
                        "no document of {path} begins at byte {byte}; each batch says where its documents begin"
                    );
                    return Err(Error::config("exclude.documents", problem));
                }
                places.insert((number as u32, byte));
            }
        }
    }
    match missing.into_iter().min() {
        None => Ok(places),
        Some(path) => {
            let problem = format!(
                "{} is not a file of any source; each batch says the files of its documents",
                path.display()
            );
            Err(Error::config("exclude.documents", problem))
        }
    }
}
