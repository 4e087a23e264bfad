//! Proves what is learned from: that the ids and the mask of each batch are those of the model's own turns.
//!
//! A [`Prover`] takes the batches as the trainer gets them. It reads the record of each document again, at the place that
//! the batch names, renders it, and compares: the ids stand for the text that the template renders; what is learned from
//! is what the model would write after the template's prompt, with the token that stops it; and nothing else is. It finds
//! out by itself where turns begin and end, and which bytes an id stands for, so a fault of the pipeline is not repeated
//! here. The first [`Fault`] has a name and the document's place. What a template drops or changes is counted.
//!
//! Held in memory: the records of one batch, and the documents that a row has cut.
//!
//! ```no_run
//! use futures::StreamExt;
//! use millstream::prove::Prover;
//! use millstream::{Config, Loader};
//!
//! # async fn example() -> millstream::Result<()> {
//! let config = Config::load("chat.toml")?;
//! let mut loader = Loader::open(&config).await?;
//! let mut prover = Prover::open(&loader).await?;
//! for _ in 0..100 {
//!     let Some(batch) = loader.next().await else { break };
//!     if let Some(fault) = prover.check(&batch?).await? {
//!         return Err(fault.into());
//!     }
//! }
//! println!("{} turns", prover.proof().turns);
//! # Ok(()) }
//! ```
//!
//! - `conversation`: a record as its task understands it, and its template
//! - `regions`: where the content of each message stands in the text
//! - `expected`: the text, and the turns in it
//! - `kept`: what the template drops or changes
//! - `spans`: which bytes ids stand for
//! - `judge`: ids and mask against what they must be
//! - `samples`: which text of a record ids are of
//! - `ranges`: which ranges are at a place
//! - `mistakes`: names for wrong texts
//! - `fault`: the faults
//! - `documents`: documents from the pieces of batches
//! - `borders`: ids at the places where the model begins to write
//! - `learned`: which ids of a batch are learned from

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::batch::{Batch, Piece};
use crate::config::{Config, PackRule, SpecialTokens, Truncate};
use crate::error::{Error, Result};
use crate::loader::Loader;
use crate::source::{Origin, Source};
use crate::tasks;
use crate::tokenizer::Tokenizer;

mod borders;
mod conversation;
mod documents;
mod expected;
mod fault;
mod judge;
mod kept;
mod learned;
mod mistakes;
mod ranges;
mod regions;
mod samples;
mod spans;
#[cfg(test)]
mod tests;

pub use borders::Borders;
use conversation::Reader;
use documents::{Documents, Key, Part};
use expected::Expected;
use fault::Finding;
pub use fault::{Fault, FaultKind};
use judge::{Delivered, Judged, Rules};
pub use kept::{Kept, Missing};
pub use learned::learned;
use samples::judge_record;
use spans::{Added, Ids, added};

/// What was proved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Proof {
    /// How many batches were looked at.
    pub batches: u64,
    /// How many documents were proved to their end.
    pub documents: u64,
    /// How many pieces are of sources without a task, of which everything is learned from.
    pub plain: u64,
    /// How many pieces could not be proved: their document began before the first batch, or its record cannot be read
    /// again.
    pub unproved: u64,
    /// How many turns are learned from, to their end.
    pub turns: u64,
    /// How many of them end with their text or content, without a token that stops generation.
    pub open_turns: u64,
    /// How many turns are the model's own.
    pub own_turns: u64,
    /// How many of those end without a token of any kind, so that a model would not know how to end them.
    pub unstopped_turns: u64,
    /// How many spell a token of the tokenizer, such as `<think>`, letter by letter, and learn that.
    pub spelled_turns: u64,
    /// Of how many others only parts are learned from, as these parts say themselves.
    pub partial_turns: u64,
    /// How many turns have white space learned behind the token that ends them, which the model never writes.
    pub blanks: u64,
    /// How many turns were not found in their text, so that nothing is known of their mask.
    pub lost: u64,
    /// The ids at the places where the model begins to write.
    pub borders: Borders,
    /// What the templates drop or change.
    pub kept: Kept,
}

impl Proof {
    /// What is wrong with the turns as a whole: that none of the model's own ends with a token.
    pub fn problem(&self) -> Option<String> {
        (self.own_turns > 0 && self.unstopped_turns == self.own_turns).then(|| {
            let turns = if self.own_turns == 1 { "turn" } else { "turns" };
            format!(
                "none of {} {turns} ends with a token that stops generation, so a model that learns from them does not \
                 stop; name the token that the template ends turns with as tokenizer.eos or in chat.turn, or use a \
                 template that writes one",
                self.own_turns
            )
        })
    }
}

/// Proves batch after batch.
#[derive(Debug)]
pub struct Prover {
    tokenizer: Arc<dyn Tokenizer>,
    special: HashMap<u32, Added>,
    parses: bool,
    renders_prompts: bool,
    pad: u32,
    sources: Vec<Option<Records>>,
    documents: Documents,
    proof: Proof,
}

/// The records of one source.
#[derive(Debug)]
struct Records {
    source: Source,
    /// The number of each file there.
    files: HashMap<PathBuf, u32>,
    reader: Reader,
    ends: Vec<String>,
    truncate: Truncate,
}

/// A piece to prove, and the record of its document.
struct Proving<'a> {
    piece: &'a Piece,
    key: Key,
    record: Option<String>,
}

impl Prover {
    /// Opens the records of a loader, for its batches.
    ///
    /// # Errors
    /// Those of opening a [`Source`], and of a task's template.
    pub async fn open(loader: &Loader) -> Result<Self> {
        let (config, source, tokenizer) =
            (loader.config(), loader.source().clone().quiet(), loader.tokenizer());
        let mut special = None;
        let mut sources = Vec::new();
        for (index, settings) in config.sources.iter().enumerate() {
            let settings = source.settings(index).unwrap_or(settings);
            let Some(reader) = Reader::new(index, settings, &config.tokenizer)? else {
                sources.push(None);
                continue;
            };
            let special = special.get_or_insert_with(|| added(&**tokenizer));
            if settings.reads_nothing() && source.origin(index).shards().is_some() {
                let problem = "these token shards were made of records in memory, which cannot be read again";
                return Err(Error::config(format!("source.{index}.paths"), problem));
            }
            let source = match source.origin(index) {
                // The shards name the files that they were made of. Their template stands beside the tokenizer.
                Origin::Shards(_) => {
                    let of_records = Config { sources: vec![settings.clone()], ..config.clone() };
                    Source::from_config(&of_records).await?.quiet()
                }
                _ => source.only(index),
            };
            let ends = reader.ends(&config.tokenizer, special);
            sources.push(Some(Records::new(source, reader, ends, settings.chat.truncate)));
        }
        let named = [&config.tokenizer.pad, &config.tokenizer.eos, &config.tokenizer.bos];
        let pad = named.into_iter().flatten().find_map(|token| tokenizer.id(token)).unwrap_or(0);
        Ok(Self {
            special: special.unwrap_or_default(),
            tokenizer: tokenizer.clone(),
            parses: config.tokenizer.special_tokens == SpecialTokens::Parse,
            renders_prompts: true,
            pad,
            sources,
            documents: Documents::new(config.pipeline.pack == PackRule::Concat),
            proof: Proof::default(),
        })
    }

    /// Says that documents may have begun before the first batch: the stream was opened at a cursor.
    #[must_use]
    pub fn within_stream(mut self) -> Self {
        self.documents = self.documents.within_stream();
        self
    }

    /// Looks for faults and counts [`Borders`], and proves nothing: all turns of a conversation are taken to have the same
    /// prompt. So each conversation is rendered a few times, and not once for each of its turns. Only one that seems to
    /// have a fault is proved.
    #[must_use]
    pub fn at_a_glance(mut self) -> Self {
        self.renders_prompts = false;
        self
    }

    /// Whether there is anything to prove: a source with a task whose records are partly learned from.
    pub fn has_task(&self) -> bool {
        self.sources.iter().any(Option::is_some)
    }

    /// What was proved so far.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Proves a batch, and returns the first fault.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read again.
    pub async fn check(&mut self, batch: &Batch) -> Result<Option<Fault>> {
        self.proof.batches += 1;
        let learned = learned(batch);
        if let Some(fault) = rows(batch, &learned) {
            return Ok(Some(fault));
        }
        for proving in self.records(batch).await? {
            if let Err((finding, piece)) = self.prove(batch, &learned, proving) {
                return Ok(Some(located(batch, piece, finding)));
            }
        }
        Ok(None)
    }

    /// The pieces to prove, each with its record, read again.
    async fn records<'a>(&mut self, batch: &'a Batch) -> Result<Vec<Proving<'a>>> {
        let mut pieces = Vec::new();
        for piece in batch.pieces() {
            let index = batch.source(piece);
            let Some(Some(records)) = index.map(|index| self.sources.get(index).and_then(Option::as_ref))
            else {
                self.proof.plain += 1;
                continue;
            };
            match (index, records.files.get(batch.path(piece))) {
                (Some(index), Some(file)) => pieces.push((piece, (index, *file, piece.position.byte))),
                _ => self.proof.unproved += 1,
            }
        }
        let mut places: Vec<Key> = pieces.iter().map(|(_, key)| *key).collect();
        places.sort_unstable();
        places.dedup();
        let mut found = HashMap::new();
        for of_file in places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (index, file, _) = of_file[0];
            let Some(Some(records)) = self.sources.get(index) else { continue };
            let (source, places) =
                (records.source.clone(), of_file.iter().map(|key| key.2).collect::<Vec<_>>());
            let read = tasks::blocking("source", move || source.records(file, &places)).await?;
            found.extend(of_file.iter().copied().zip(read));
        }
        let proving = |(piece, key)| Proving { piece, key, record: found.get(&key).cloned().flatten() };
        Ok(pieces.into_iter().map(proving).collect())
    }

    /// Proves one piece, together with the pieces of its document before it.
    fn prove<'a>(
        &mut self,
        batch: &Batch,
        learned: &[bool],
        Proving { piece, key, record }: Proving<'a>,
    ) -> Result<(), (Finding, &'a Piece)> {
        let (gathered, is_whole) = match self.documents.add(key, batch, piece, learned) {
            Part::Beginning { gathered, is_whole } => (gathered, is_whole),
            Part::Rest => {
                self.proof.unproved += 1;
                return Ok(());
            }
            Part::Repeated => return Ok(()),
            Part::Inside => {
                let problem = format!("row {} begins at id {} of the document", piece.row, piece.offset);
                return Err((Finding::of_rows(FaultKind::BeginsInside, problem), piece));
            }
        };
        let read = match (&self.sources[key.0], &record) {
            (Some(records), Some(record)) => {
                records.reader.record(record).ok().map(|record| (records, record))
            }
            _ => None,
        };
        let Some((records, record)) = read else {
            self.proof.unproved += 1;
            return Ok(());
        };
        let ids = Ids { tokenizer: &*self.tokenizer, special: &self.special };
        let rules = Rules {
            ids,
            renders_prompts: self.renders_prompts,
            parses: self.parses,
            truncate: records.truncate,
            pad: self.pad,
        };
        let delivered = Delivered { ids: &gathered.ids, learned: &gathered.learned, is_whole };
        let judge = |rules| judge_record(&record, &records.ends, &delivered, rules);
        let judged = match judge(&rules) {
            Err(_) if !self.renders_prompts => judge(&Rules { renders_prompts: true, ..rules }),
            judged => judged,
        };
        let (expected, judged) = judged.map_err(|finding| (finding, piece))?;
        if !is_whole && judged.end < expected.text.len() {
            self.documents.keep(key, gathered);
            return Ok(());
        }
        self.proof.borders.count(&expected, &ids);
        self.proof.count(&expected, &judged);
        Ok(())
    }

    /// How many documents go on behind the last batch. They were proved so far.
    pub fn unfinished(&self) -> usize {
        self.documents.open()
    }
}

impl Proof {
    fn count(&mut self, expected: &Expected, judged: &Judged) {
        self.documents += 1;
        self.turns += judged.turns;
        self.open_turns += judged.open_turns;
        self.own_turns += judged.own_turns;
        self.unstopped_turns += judged.unstopped_turns;
        self.spelled_turns += judged.spelled_turns;
        self.partial_turns += judged.partial_turns;
        self.blanks += judged.blanks;
        self.lost += expected.lost as u64;
        self.kept.add(&expected.kept);
    }
}

impl Records {
    fn new(source: Source, reader: Reader, ends: Vec<String>, truncate: Truncate) -> Self {
        let first = source.first_file();
        let own = source.files().iter().skip(first as usize);
        let files = (first..).zip(own).map(|(number, file)| (file.path().to_owned(), number)).collect();
        Self { source, files, reader, ends, truncate }
    }
}

impl Finding {
    /// A fault of rows, which has no place in a text.
    fn of_rows(kind: FaultKind, problem: String) -> Self {
        Self { kind, bytes: 0..0, message: None, problem }
    }
}

/// Padding is not learned from, and the loss counts what the mask has.
fn rows(batch: &Batch, learned: &[bool]) -> Option<Fault> {
    let (width, seq_len, loss) = (batch.width(), batch.seq_len(), batch.loss_mask());
    for piece in batch.pieces() {
        let row = piece.row as usize * width;
        let end = batch.lengths()[piece.row as usize] as usize;
        if let Some(place) = (end..width).find(|place| learned[row + place]) {
            let problem = format!("padding is learned from, at place {place} of row {}", piece.row);
            return Some(located(batch, piece, Finding::of_rows(FaultKind::PaddingLearned, problem)));
        }
        // An id is a target if the one before it is of the same piece.
        let targets = piece.from as usize + 1..(piece.to as usize).min(seq_len + 1);
        let differs = |place: &usize| loss[piece.row as usize * seq_len + place - 1] != learned[row + place];
        if let Some(place) = targets.into_iter().find(differs) {
            let problem = format!(
                "place {place} of row {} is {} from, and the loss counts the contrary",
                piece.row,
                if learned[row + place] { "learned" } else { "not learned" }
            );
            return Some(located(batch, piece, Finding::of_rows(FaultKind::IgnoredByLoss, problem)));
        }
    }
    None
}

/// A fault, with the place of its document.
fn located(batch: &Batch, piece: &Piece, Finding { kind, bytes, message, problem }: Finding) -> Fault {
    let path: &Path = batch.path(piece);
    Fault {
        kind,
        path: path.to_owned(),
        line: batch.line(piece),
        byte: piece.position.byte,
        unit: batch.unit(piece),
        message: message.map(|message| message + 1),
        bytes,
        problem,
    }
}
