//! What one undisturbed process delivers: what all others are compared with.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{FAILED, Orders};
use crate::corpora::{Corpora, directory_of_documents};
use crate::journal::{Delivered, Line, PieceOf, Reader};
use crate::plan::Plan;
use crate::process::{Blow, Ending, watch};
use crate::storm::start;

/// An undisturbed run.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// Digests of the rows by their turns; if batches have a budget of tokens, of a batch's rows by its number.
    rows: Vec<Vec<String>>,
    /// Digests of the lanes' states by the turns before.
    states: HashMap<u64, String>,
    /// How many turns were made, and whether the stream ended then.
    pub(crate) turns: u64,
    pub(crate) has_ended: bool,
    by_number: bool,
}

impl Quiet {
    /// Runs `plan` in one process, up to so many turns. `None` if nothing of its documents is left to deliver.
    pub(crate) fn run(plan: &Plan, until: u64, corpora: &Corpora, scratch: &Path) -> Option<Self> {
        let mut config = plan.config.clone();
        (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(1));
        let journal = scratch.join("quiet.journal");
        let mut reader = Reader::create(&journal);
        let (is_fussy, step, with_pieces) = (plan.is_fussy, Duration::ZERO, true);
        let orders =
            Orders { config, is_fussy, cursor: None, until, saves: None, step, journal, with_pieces };
        let mut processes = [start(&orders, None, corpora)];
        let mut lines = Vec::new();
        let ending = watch(&mut processes, (None, Blow::Kill), FAILED, || {
            lines.extend(reader.news());
            lines.len() as u64
        });
        lines.extend(reader.news());
        match &ending[0] {
            Ending::Done => Some(Self::of(plan, lines)),
            Ending::Failed(error) if error.contains("there is no batch in") => None,
            ending => panic!("the quiet run ended with {ending:?}"),
        }
    }

    fn of(plan: &Plan, lines: Vec<Line>) -> Self {
        let by_number = plan.config.pipeline.batch_tokens.is_some();
        let mut quiet = Self { by_number, ..Self::default() };
        let mut pieces = Vec::new();
        for line in lines {
            match line {
                Line::Batch(batch) => {
                    quiet.turns = batch.turns.1;
                    quiet.states.insert(batch.turns.1, batch.state);
                    match by_number {
                        true => quiet.rows.push(batch.rows),
                        false => quiet.rows.extend(batch.rows.into_iter().map(|row| vec![row])),
                    }
                    pieces.extend(batch.pieces);
                }
                Line::End { skipped } => {
                    quiet.has_ended = true;
                    once(plan, pieces, skipped);
                    break;
                }
                Line::Enough => {}
            }
        }
        quiet
    }

    /// Compares what rank `rank` of `world` delivered.
    pub(crate) fn compare(&self, batch: &Delivered, rank: usize, world: usize) {
        let (first, step) =
            if self.by_number { (batch.number, 1) } else { (batch.turns.0 + rank as u64, world) };
        let found: Vec<&[String]> = match self.by_number {
            true => vec![&batch.rows],
            false => batch.rows.chunks(1).collect(),
        };
        for (place, found) in (first as usize..).step_by(step).zip(found) {
            match self.rows.get(place) {
                Some(expected) => {
                    assert_eq!(
                        found, expected,
                        "other rows at {place}, in batch {} of rank {rank}",
                        batch.number
                    );
                }
                None => assert!(!self.has_ended, "rows at {place}, after the end, in batch {}", batch.number),
            }
        }
        if world == 1 {
            self.compare_state(batch.turns.1, &batch.state);
        }
    }

    /// Compares the lanes' states after so many turns, if the quiet run had a batch that ended there.
    pub(crate) fn compare_state(&self, turns: u64, state: &str) {
        if let Some(expected) = self.states.get(&turns) {
            assert_eq!(state, expected, "another cursor after {turns} turns");
        }
    }

    /// Compares a run that was not disturbed either.
    pub(crate) fn compare_whole(&self, other: &Self) {
        assert_eq!(self.rows.len(), other.rows.len(), "another length");
        for (place, (expected, found)) in self.rows.iter().zip(&other.rows).enumerate() {
            assert_eq!(found, expected, "other rows at {place}");
        }
        assert!(self.states == other.states && self.has_ended == other.has_ended, "other cursors");
    }
}

/// In each epoch every document comes once or was skipped.
fn once(plan: &Plan, mut pieces: Vec<PieceOf>, skipped: u64) {
    let Some(whole) = plan.whole() else { return };
    // Packing and buckets deliver a long document's rows in any order.
    pieces.sort_by_key(|piece| (piece.offset, piece.len));
    let mut found: BTreeMap<(PathBuf, u64), Vec<u32>> = BTreeMap::new();
    for PieceOf { path, byte, offset, from, len } in pieces {
        let deliveries = found.entry((path, byte)).or_default();
        // A row that goes on with a document begins with the last id of the row before.
        match deliveries.iter_mut().find(|so_far| from == 0 && **so_far == offset + 1) {
            Some(so_far) => *so_far += len - 1,
            None => {
                assert_eq!(offset, 0, "a document is delivered from its start");
                deliveries.push(len);
            }
        }
    }
    let pipeline = &plan.config.pipeline;
    let (mut of_sources, mut skips) = (0, 0);
    for ((format, source), (documents, skipped)) in plan.formats.iter().zip(&plan.config.sources).zip(whole) {
        let epochs = source.epochs.or(pipeline.epochs).expect("it ends");
        let directory = directory_of_documents(format);
        let is_of_source = |path: &Path| path.iter().any(|part| part == directory.as_str());
        let found: Vec<_> = found.iter().filter(|((path, _), _)| is_of_source(path)).collect();
        for (place, deliveries) in &found {
            assert_eq!(deliveries.len() as u64, epochs, "{place:?} is delivered once in each epoch");
        }
        assert_eq!(found.len(), documents, "delivered documents of {format}");
        (of_sources, skips) = (of_sources + documents, skips + skipped as u64 * epochs);
    }
    assert_eq!(found.len(), of_sources, "all documents");
    // What was skipped when its split was cached is not reported again.
    let is_cached = plan.config.sources.iter().any(|source| source.cache.is_some());
    assert!(skipped == skips || is_cached && skipped < skips, "{skipped} were skipped, and not {skips}");
}
