//! What a run leaves out, and how the cursor's history records it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::config::{Config, ExcludedDocument};
use crate::cursor::{Cursor, Event};
use crate::error::{Error, Result};
use crate::source::{Side, Source};
use crate::tasks;
use crate::world::World;

/// What is left out from the start on.
#[derive(Default)]
pub(super) struct Excluding {
    pub(super) batches: Vec<Range<u64>>,
    /// The events to record in the cursor, each with the batch that it begins at.
    pub(super) events: Vec<(u64, Event)>,
    /// Documents, by file number and the byte that they begin at.
    pub(super) documents: HashSet<(u32, u64)>,
}

/// Finds what the config and the cursor's history leave out of the training stream. The start cursor records what is
/// new.
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
    let known: BTreeSet<ExcludedDocument> = start
        .history()
        .iter()
        .filter_map(|event| match event {
            Event::ExcludedDocuments { documents, .. } => Some(documents.iter().cloned()),
            _ => None,
        })
        .flatten()
        .collect();
    let new: BTreeSet<ExcludedDocument> =
        config.exclude.documents.iter().filter(|document| !known.contains(document)).cloned().collect();
    let wanted: Vec<ExcludedDocument> = known.iter().chain(&new).cloned().collect();
    let listed = source.clone();
    let documents = tasks::blocking("source", move || places(&listed, &wanted)).await?;
    if !new.is_empty() {
        start.note(Event::ExcludedDocuments { batch: start.batch(), documents: new.into_iter().collect() });
    }
    Ok((start, Excluding { batches, events, documents }))
}

type Notes = (Vec<Range<u64>>, Vec<(u64, Event)>);

/// The ranges of batches still to come. Those before the cursor must be in its history.
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
    tasks::blocking("source", move || places(&source, &wanted).map(drop)).await
}

/// The documents by file number. If several sources have the file, each of them counts.
fn places(source: &Source, documents: &[ExcludedDocument]) -> Result<HashSet<(u32, u64)>> {
    let mut bytes: HashMap<&Path, Vec<u64>> = HashMap::new();
    for document in documents {
        bytes.entry(&document.path).or_default().push(document.byte);
    }
    let mut places = HashSet::new();
    let mut missing: HashSet<&Path> = bytes.keys().copied().collect();
    for (number, file) in source.files().iter().enumerate().filter(|_| !bytes.is_empty()) {
        if let Some(bytes) = bytes.get(file.path()) {
            missing.remove(file.path());
            for &byte in bytes {
                if !source.may_begin(number as u32, byte)? {
                    let path = file.path().display();
                    let problem =
                        format!("no document of {path} begins at byte {byte}; take it from `inspect`");
                    return Err(Error::config("exclude.documents", problem));
                }
                places.insert((number as u32, byte));
            }
        }
    }
    match missing.into_iter().min() {
        None => Ok(places),
        Some(path) => {
            let problem =
                format!("{} is not a file of any source; write it as `inspect` does", path.display());
            Err(Error::config("exclude.documents", problem))
        }
    }
}
