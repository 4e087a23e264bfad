//! In which batches of a run a document was: its trail of cursors in, the places of the document's pieces out.
//!
//! Batches are exact functions of a cursor, so a stretch of the run can be read again. Which stretch is known without
//! reading any data: the deal of an epoch says in which lane and where in its order the document comes, and each cursor of
//! the trail says how far each lane has read. Between the last cursor that surely has nothing of the document before it
//! and the first that has all of it, the batches are read. A document that the run has not reached costs the batches
//! behind the last windows of the trail. Held in memory: the trail.
//!
//! - `asked`: the document, by its path and line
//! - `stretch`: which batches have to be read
//! - `delivery`: which epoch a piece belongs to

use std::collections::BTreeMap;
use std::ops::Range;

use futures::StreamExt;
use serde::Serialize;

use crate::batch::{Batch, Piece};
use crate::config::{Config, PackRule, Uneven, names};
use crate::cursor::{Cursor, Event, LaneCursor};
use crate::error::Result;
use crate::loader::Loader;
use crate::replay::{Replay, Run, Session, merged};
use crate::source::{EpochPlace, Source, UpTo};
use crate::tasks;

mod asked;
mod delivery;
mod stretch;

pub use asked::{Asked, Record};
use delivery::Deliveries;
use stretch::{Mark, stretch};

/// Where a piece of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The batch, from 0.
    pub batch: u64,
    /// The row of the batch, over all ranks.
    pub row: u32,
    /// Where it begins in the row.
    pub from: u32,
    /// Where it ends in the row, exclusive.
    pub to: u32,
    /// The epoch of its source, from 0; `None` where a document comes again within few batches and rows have a drawn
    /// order, so that the cursors do not tell.
    pub epoch: Option<u64>,
    /// The number of its source in the run's last config.
    #[serde(skip)]
    pub source: usize,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The places that were trained on, in order.
    pub found: Vec<Place>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many batches were read for it.
    pub read_batches: u64,
    /// How many batches the run has.
    pub of_batches: u64,
}

/// Looks for documents in the batches of a run.
#[derive(Debug)]
pub struct Search {
    replay: Replay,
}

impl Search {
    /// Lists the files of a run, as its last session reads them.
    ///
    /// # Errors
    /// Those of opening a [`Source`]; [`Error::Config`](crate::Error::Config) if the run has no session.
    pub async fn open(mut run: Run) -> Result<Self> {
        // The places of all lanes are needed.
        run.trail.retain(|cursor| cursor.known_lanes().count() == cursor.lanes());
        Ok(Self { replay: Replay::open(run).await? })
    }

    /// Finds all places of a document. `on_batch` is told how many of how many batches are read.
    ///
    /// # Errors
    /// As [`Loader::resume`]: if the files have changed, nothing can be said.
    pub async fn find(&self, asked: &Asked, mut on_batch: impl FnMut(u64, u64)) -> Result<Found> {
        let stretches = self.stretches(asked).await?;
        let of = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
        let (mut read, mut places) = (0, Vec::new());
        for stretch in stretches {
            let mut watch = Watch {
                search: self,
                asked,
                files: Vec::new(),
                deliveries: Deliveries::default(),
                places: Vec::new(),
            };
            read += self.read(stretch, &mut watch, |done| on_batch(read + done, of)).await?;
            places.extend(watch.places);
        }
        places.sort_unstable();
        let (found, mut reason) = self.trained(places);
        if found.is_empty() && reason.is_none() {
            reason = Some(self.why_not(asked).await?);
        }
        Ok(Found { found, reason, read_batches: read, of_batches: self.replay.run.batches })
    }

    /// Which batches have to be read. Each stretch begins at a cursor of the trail or at the start.
    async fn stretches(&self, asked: &Asked) -> Result<Vec<Range<u64>>> {
        let mut all = Vec::new();
        for record in asked.records.iter().filter(|record| record.is_trained()) {
            let marks: Vec<Vec<Mark>> = (0..self.lanes()).map(|lane| self.marks(lane, record)).collect();
            let (end, advances) = (self.replay.run.batches, self.advances());
            let last = marks.iter().flatten().map(|mark| mark.at.epoch).max().unwrap_or_default();
            for epoch in 0..=last {
                for place in self.places(record, epoch).await? {
                    let marks = &marks[place.lane];
                    all.push(stretch(marks, |at| place.up_to(at), advances, end));
                }
            }
            // An epoch that no cursor has reached may have begun behind the last one, in any lane.
            if last + 1 < self.most_epochs(record) {
                all.extend(marks.iter().map(|marks| stretch(marks, |_| UpTo::Nothing, advances, end)));
            }
        }
        Ok(merged(all))
    }

    fn lanes(&self) -> usize {
        self.replay.config.pipeline.lanes()
    }

    /// Where a lane is in the source of a record, at the start and at each cursor.
    fn marks(&self, lane: usize, record: &Record) -> Vec<Mark> {
        let start = Mark { batch: 0, at: LaneCursor::default() };
        let mark = |cursor: &Cursor| Mark { batch: cursor.batch(), at: place(cursor, lane, record) };
        std::iter::once(start).chain(self.replay.run.trail.iter().map(mark)).collect()
    }

    /// How many times a lane's place has to change until all that was delivered before comes before it. Each change is one
    /// window of the shuffle or more. Behind its place, packing has delivered parts of one document, or of so many short
    /// ones as a row repeats; best fit those of two windows of its own; and a token budget those of one more.
    fn advances(&self) -> usize {
        let pipeline = &self.replay.config.pipeline;
        let packed = match pipeline.pack {
            PackRule::Concat | PackRule::Pad => pipeline.ahead,
            PackRule::BestFit => 3,
        };
        packed + usize::from(pipeline.batch_tokens.is_some())
    }

    /// How many epochs the record's source has at most.
    fn most_epochs(&self, record: &Record) -> u64 {
        let of_session = |session: &Session| match session.config.pipeline.uneven {
            Uneven::Wrap => None,
            Uneven::Pad | Uneven::Stop => {
                let sources = names(&session.config.sources);
                let source = sources.iter().position(|name| *name == record.name);
                source.map_or(Some(0), |source| self.replay.session_config(session).epochs(source))
            }
        };
        self.replay
            .run
            .sessions
            .iter()
            .map(|session| of_session(session).unwrap_or(u64::MAX))
            .max()
            .unwrap_or(0)
    }

    /// The first epoch from `least` on in which a lane may have delivered a record here, and whether it is the only one.
    /// `may_be` says it of a place, or that no later one comes into question.
    async fn epochs(
        &self,
        record: &Record,
        lane: usize,
        least: u64,
        may_be: impl Fn(&EpochPlace) -> Option<bool>,
    ) -> Result<Option<(u64, bool)>> {
        let (mut first, most) = (None, self.most_epochs(record));
        // A lane reads a record in about one of so many epochs as there are lanes.
        for epoch in least..most.min(least.saturating_add(64 * self.lanes() as u64)) {
            for place in self.places(record, epoch).await?.iter().filter(|place| place.lane == lane) {
                match may_be(place) {
                    None => return Ok(first.map(|first| (first, true))),
                    Some(true) if first.is_some_and(|first| first < epoch) => {
                        return Ok(first.map(|first| (first, false)));
                    }
                    Some(true) => first = Some(epoch),
                    Some(false) => {}
                }
            }
        }
        Ok(first.map(|first| (first, true)))
    }

    /// The places in an epoch of the documents of a record.
    async fn places(&self, record: &Record, epoch: u64) -> Result<Vec<EpochPlace>> {
        let source = self.replay.source.only(record.source);
        let lane = self.replay.deal(&source);
        let (file, begin) = (record.file, record.begin);
        tasks::blocking("source", move || source.places_in_epoch(lane, file, begin, epoch)).await
    }

    /// Reads batches again, and returns how many.
    async fn read(
        &self,
        batches: Range<u64>,
        watch: &mut Watch<'_>,
        mut on_batch: impl FnMut(u64),
    ) -> Result<u64> {
        let (run, mut read, mut at) = (&self.replay.run, 0, batches.start);
        let mut cursor = run.trail.iter().find(|cursor| cursor.batch() == at && at > 0).cloned();
        while at < batches.end {
            let (session, ends) = run.session(at);
            let until = ends.min(batches.end);
            let mut loader = self.replay.opened(&self.replay.session_config(session), cursor).await?;
            watch.files = self.files(watch.asked, &loader);
            let mut before = loader.start().clone();
            while before.batch() < until {
                let Some(batch) = loader.next().await else { break };
                let batch = batch?;
                watch.see(&before, &batch).await?;
                before = batch.cursor().clone();
                read += 1;
                on_batch(read);
            }
            (cursor, at) = (Some(before), until);
        }
        Ok(read)
    }

    /// The numbers that a loader gives the records' files: a session may have its sources in another order.
    fn files(&self, asked: &Asked, loader: &Loader) -> Vec<Option<u32>> {
        let first = |source: &Source, number: usize| source.only(number).first_file();
        let file = |record: &Record| {
            let number = loader.start().sources().iter().position(|name| *name == record.name)?;
            Some(first(loader.source(), number) + record.file - first(&self.replay.source, record.source))
        };
        asked.records.iter().map(file).collect()
    }

    /// The places in batches that a step used; if there are others only, why there is none.
    fn trained(&self, places: Vec<Place>) -> (Vec<Place>, Option<String>) {
        let run = &self.replay.run;
        let excluded = run.excluded_batches();
        let why = |Place { batch, .. }: &Place| {
            let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(batch));
            match (is_in(&excluded), is_in(&run.unused)) {
                (true, _) => Some(format!("it was in batch {batch}, which exclude.batches leaves out")),
                (_, true) => Some(format!(
                    "it was in batch {batch}, which no step used: none of its rows has a target"
                )),
                _ => None,
            }
        };
        let first = places.first().and_then(why);
        let found: Vec<Place> = places.into_iter().filter(|place| why(place).is_none()).collect();
        let reason = first.filter(|_| found.is_empty());
        (found, reason)
    }

    /// From which batch on the document is excluded.
    fn excluded_from(&self, asked: &Asked) -> Option<u64> {
        let is_asked = |begin: u64| asked.records.iter().any(|record| record.begin == begin);
        let history = self.replay.run.trail.last().map(Cursor::history).unwrap_or_default();
        let noted = history.iter().filter_map(|event| match event {
            Event::ExcludedDocuments { batch, places, .. } => {
                let is_there = asked.records.iter().any(|record| {
                    let nth = record.file - self.replay.source.only(record.source).first_file();
                    places.get(&record.name).is_some_and(|places| places.contains(&(nth, record.begin)))
                });
                is_there.then_some(*batch)
            }
            _ => None,
        });
        // Behind the last cursor only the configs tell.
        let configs = self.replay.run.sessions.iter().filter(|session| {
            let mut documents = session.config.exclude.documents.iter();
            documents.any(|document| document.path == asked.path && is_asked(document.byte))
        });
        noted.chain(configs.map(|session| session.begins)).min()
    }

    /// Why a document that is trained on is in no batch.
    async fn why_not(&self, asked: &Asked) -> Result<String> {
        let batches = self.replay.run.batches;
        if let Some(from) = self.excluded_from(asked) {
            return Ok(format!("exclude.documents leaves it out from batch {from} on"));
        }
        for record in asked.records.iter().filter(|record| record.is_trained()) {
            for place in self.places(record, 0).await? {
                let at = self.marks(place.lane, record).last().map(|mark| mark.at).unwrap_or_default();
                if place.up_to(&at) != UpTo::All {
                    return Ok(format!("the run has not reached it in its {batches} batches"));
                }
            }
        }
        Ok(asked.left_out().unwrap_or_else(|| {
            format!(
                "the run has passed it in its {batches} batches, and left it out: no id of it is learned from, it is no part \
                 of an epoch's sample, or it was in rows that fill no batch"
            )
        }))
    }
}

/// Where a lane is in the source of a record.
fn place(cursor: &Cursor, lane: usize, record: &Record) -> LaneCursor {
    let source = cursor.sources().iter().position(|name| *name == record.name);
    let state = cursor.lane(lane).zip(source);
    state.map_or_else(LaneCursor::default, |(lane, source)| lane.sources[source].at.upstream(0))
}

/// Looks at batches, one after the other.
struct Watch<'a> {
    search: &'a Search,
    asked: &'a Asked,
    /// The numbers of the records' files in the batches.
    files: Vec<Option<u32>>,
    deliveries: Deliveries,
    places: Vec<Place>,
}

impl Watch<'_> {
    /// Notes the pieces of the document in the batch that follows a cursor.
    async fn see(&mut self, before: &Cursor, batch: &Batch) -> Result<()> {
        for piece in batch.pieces() {
            let mut records = self.asked.records.iter().zip(&self.files);
            let is_of = |(record, file): &(&Record, &Option<u32>)| {
                **file == Some(piece.position.file) && record.has(piece.position.byte)
            };
            if let Some((record, _)) = records.find(is_of) {
                let epoch = self.epoch(before, batch, piece, record).await?;
                let Piece { row, from, to, .. } = *piece;
                let source = record.source;
                self.places.push(Place { batch: batch.number(), row, from, to, epoch, source });
            }
        }
        Ok(())
    }

    /// The epoch of a piece, if the cursors tell.
    async fn epoch(
        &mut self,
        before: &Cursor,
        batch: &Batch,
        piece: &Piece,
        record: &Record,
    ) -> Result<Option<u64>> {
        let Config { pipeline, .. } = &self.search.replay.config;
        let row = if pipeline.batch_tokens.is_some() { 0 } else { u64::from(piece.row) };
        let lane = ((before.turn() + row) % before.lanes() as u64) as usize;
        let at = place(before, lane, record);
        // Best fit and budgets draw an order of rows, and a record that is rendered may be several documents.
        if pipeline.pack == PackRule::BestFit || pipeline.batch_tokens.is_some() || record.is_rendered {
            let marks = self.search.marks(lane, record);
            let epochs = self.search.epochs(record, lane, at.epoch, |place| {
                let range = stretch(
                    &marks,
                    |at| place.up_to(at),
                    self.search.advances(),
                    self.search.replay.run.batches,
                );
                (range.start <= batch.number()).then(|| place.up_to(&at) != UpTo::All)
            });
            return Ok(epochs.await?.filter(|(_, is_only)| *is_only).map(|(epoch, _)| epoch));
        }
        let is_repeated = pipeline.pack == PackRule::Concat && (piece.from as usize) < pipeline.ahead;
        let is_tail =
            piece.to as usize == batch.width() && (piece.to - piece.from) as usize <= pipeline.ahead;
        let key = (record.file, piece.position.byte, lane);
        if let Some(epoch) = self.deliveries.same(key, piece.offset, is_repeated, is_tail) {
            return Ok(epoch);
        }
        // A lane delivers the document once in an epoch, and one epoch after the other.
        let least = self.deliveries.last(key).flatten().map_or(at.epoch, |last| at.epoch.max(last + 1));
        let first = self.search.epochs(record, lane, least, |place| Some(place.up_to(&at) != UpTo::All));
        let epoch = first.await?.map(|(epoch, _)| epoch);
        self.deliveries.begin(key, piece.offset, is_tail, epoch);
        Ok(epoch)
    }
}

impl Asked {
    /// The sources that read it, by their numbers in the run's last config.
    pub fn sources(&self) -> BTreeMap<usize, &str> {
        self.records.iter().map(|record| (record.source, record.name.as_str())).collect()
    }

    /// Why training leaves it out, if it does.
    pub fn left_out(&self) -> Option<String> {
        match self.records.iter().any(Record::is_trained) {
            true => None,
            false => self.records.first().map(|record| record.why_not().to_owned()),
        }
    }
}

impl Search {
    /// The document at `path` that begins on line `line`; without a line, a file that is one document. `path` leads to a file
    /// of the run, or is the end of its path. The line is the one that a batch says; where lines mean nothing, the byte or row.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) of the key `--document` if there is no such file, or no such document.
    pub async fn document(&self, path: &str, line: Option<u64>) -> Result<Asked> {
        let (source, names) = (self.replay.source.clone(), names(&self.replay.config.sources));
        let holdout = self.replay.deal(&source).holdout;
        let path = path.to_owned();
        tasks::blocking("source", move || asked::find(&source, &names, holdout, &path, line)).await
    }
}
