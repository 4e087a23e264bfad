//! The batches of a run, made again: what the run left in, any stretch of its batches out.
//!
//! Batches are exact functions of a cursor, so any part of a run can be read again. Each session of the run has its own
//! config; the files are where the last session has them. [`Replay::check`] proves by it that the files still give the
//! batches that the run was trained on: between two cursors of its trail, the digest of what each lane delivers must be
//! the later cursor's. Held in memory: the trail.
//!
//! - `files`: the run's files, listed once, and how they differ from those that the run has read
//! - `epochs`: how often the run was trained on each source

use std::ops::Range;

use futures::StreamExt;
use serde::Serialize;

use crate::config::{Config, SourceConfig, names};
use crate::cursor::{Cursor, Event, LaneState};
use crate::error::Result;
use crate::files::Listing;
use crate::loader::Loader;
use crate::source::Source;

mod epochs;
mod files;

pub use epochs::Epochs;
pub use files::{LONGEST_SILENCE, Listed, RunFiles, excluded_documents, refused};

/// What a run leaves that its batches follow from.
#[derive(Clone, Debug)]
pub struct Run {
    /// The sessions in order: at least one, and the first begins at batch 0.
    pub sessions: Vec<Session>,
    /// Cursors of the run, ascending.
    pub trail: Vec<Cursor>,
    /// How many batches it has read, excluded and unused ones included.
    pub batches: u64,
    /// The batches that no step used, since none of their rows had a target, in order.
    pub unused: Vec<Range<u64>>,
    /// The listing of the files that it has read, if there is one.
    pub files: Option<Listing>,
}

/// A part of a run that has one config.
#[derive(Clone, Debug)]
pub struct Session {
    /// The number of its first batch.
    pub begins: u64,
    /// Its config.
    pub config: Config,
}

impl Run {
    /// The batches that the run has left out, in order.
    pub fn excluded_batches(&self) -> Vec<Range<u64>> {
        let configs = self.sessions.iter().flat_map(|session| &session.config.exclude.batches);
        let history = self.trail.last().map(Cursor::history).unwrap_or_default();
        let noted = history.iter().filter_map(|event| match event {
            Event::ExcludedBatches { from, to } => Some(*from..*to),
            _ => None,
        });
        merged(configs.map(|&(from, to)| from..to).chain(noted).collect())
    }

    /// The session that makes this batch, and where it ends.
    pub(crate) fn session(&self, batch: u64) -> (&Session, u64) {
        let next = self.sessions.partition_point(|session| session.begins <= batch);
        let ends = self.sessions.get(next).map_or(u64::MAX, |next| next.begins);
        (&self.sessions[next.saturating_sub(1)], ends)
    }
}

/// Batches between two cursors of a run, which were made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The first batch.
    pub from: u64,
    /// The batch after the last one.
    pub to: u64,
    /// How many lanes were compared: all or, of several ranks, the first one's.
    pub lanes: usize,
    /// What differs from the run: the digest of what a lane delivered, or its ledger; `None` if nothing does.
    pub difference: Option<String>,
}

/// A run, and its files.
#[derive(Debug)]
pub struct Replay {
    pub(crate) run: Run,
    /// The config of the last session, resolved, for one process and without exclusions.
    pub(crate) config: Config,
    pub(crate) source: Source,
}

impl Replay {
    /// Lists the files of a run, as its last session reads them, and opens them.
    ///
    /// # Errors
    /// Those of opening a [`Source`]; [`Error::Config`](crate::Error::Config) if the run has no session.
    pub async fn open(run: Run) -> Result<Self> {
        RunFiles::list(run).await?.open().await
    }

    /// Makes one of neighbouring sessions whose configs make the same batches.
    fn join_sessions(&mut self) {
        let mut sessions = std::mem::take(&mut self.run.sessions);
        sessions.dedup_by(|next, before| {
            let excluded = |session: &Session| session.config.exclude.batches.clone();
            let config = |session: &Session| (self.session_config(session), excluded(session));
            config(next) == config(before)
        });
        self.run.sessions = sessions;
    }

    /// The files that the run reads, as they are now.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The number of lanes, over all ranks.
    pub fn lanes(&self) -> usize {
        self.config.pipeline.lanes()
    }

    /// Makes the batches of at most `most` stretches again, each from one cursor of the trail, or the start, to the next
    /// one: the first stretch, the last one, and others evenly between them. `on_batch` is told how many of how many batches
    /// are made.
    ///
    /// The lanes that both cursors know are compared: all or, of several ranks, the first one's.
    ///
    /// # Errors
    /// As [`Loader::resume`]: if the files have changed, the cursors are refused.
    pub async fn check(&self, most: usize, mut on_batch: impl FnMut(u64, u64)) -> Result<Vec<Checked>> {
        let stretches = evenly(self.stretches(), most);
        let of = stretches.iter().map(|(before, after)| after.batch() - batch(*before)).sum();
        let (mut made, mut checked) = (0, Vec::new());
        for (before, after) in stretches {
            let from = batch(before);
            let reached = self.remade(before, after, |to| on_batch(made + to - from, of)).await?;
            made += after.batch() - from;
            let (lanes, difference) = (reached.known_lanes().count(), difference(after, &reached));
            checked.push(Checked { from, to: after.batch(), lanes, difference });
        }
        Ok(checked)
    }

    /// Each cursor of the trail with the nearest one before it that knows the same lanes; the first one with the start.
    /// Where none leads through some batches, as where the number of ranks has changed, the cursors around them.
    fn stretches(&self) -> Vec<(Option<&Cursor>, &Cursor)> {
        let trail = &self.run.trail;
        let mut all = self.stretches_of_same_lanes();
        for gap in self.gaps(&all) {
            let before = trail.iter().rfind(|cursor| cursor.batch() <= gap.start);
            let after = trail.iter().find(|cursor| cursor.batch() >= gap.end);
            all.extend(
                after.filter(|after| self.can_be_made(world(before, after))).map(|after| (before, after)),
            );
        }
        all.sort_by_key(|(before, after)| (batch(*before), after.batch()));
        all
    }

    /// Whether the lanes of the first of so many ranks can be made. With a token budget, numbers of batches depend on the
    /// ranks.
    fn can_be_made(&self, world: usize) -> bool {
        let mut sessions = self.run.sessions.iter().map(|session| &session.config.pipeline);
        sessions.all(|pipeline| pipeline.batch_tokens.is_none() && pipeline.batch_size.is_multiple_of(world))
    }

    fn stretches_of_same_lanes(&self) -> Vec<(Option<&Cursor>, &Cursor)> {
        let trail = &self.run.trail;
        let before = |(number, after): (usize, &Cursor)| {
            let is_before = |cursor: &&Cursor| {
                cursor.batch() < after.batch() && cursor.known_lanes().eq(after.known_lanes())
            };
            let before = trail[..number].iter().rfind(is_before);
            (number == 0 || before.is_some()).then_some(before)
        };
        let pairs =
            trail.iter().enumerate().filter_map(|(number, after)| Some((before((number, after))?, after)));
        pairs.filter(|(before, after)| batch(*before) < after.batch()).collect()
    }

    /// The batches that no number of stretches has: the number of ranks has changed, and the cursors before and after them
    /// know no lanes that can be made without the others.
    pub fn unchecked(&self) -> Vec<Range<u64>> {
        self.gaps(&self.stretches())
    }

    /// The batches that no stretch leads through.
    fn gaps(&self, stretches: &[(Option<&Cursor>, &Cursor)]) -> Vec<Range<u64>> {
        let stretches = stretches.iter().map(|(before, after)| batch(*before)..after.batch());
        let (mut unchecked, mut at) = (Vec::new(), 0);
        for stretch in merged(stretches.collect()) {
            unchecked.push(at..stretch.start);
            at = stretch.end;
        }
        unchecked.push(at..batch(self.run.trail.last()).max(at));
        unchecked.retain(|range| !range.is_empty());
        unchecked
    }

    /// Makes the batches between two cursors again, each session's with its config, and returns the cursor behind them.
    async fn remade(
        &self,
        before: Option<&Cursor>,
        after: &Cursor,
        mut on_batch: impl FnMut(u64),
    ) -> Result<Cursor> {
        let (mut cursor, mut at, world) = (before.cloned(), batch(before), world(before, after));
        loop {
            let (session, ends) = self.run.session(at);
            let until = ends.min(after.batch());
            let mut loader = self.opened(&self.config_from(session, at, world), cursor).await?;
            let mut reached = loader.start().clone();
            while reached.batch() < until {
                let Some(batch) = loader.next().await.transpose()? else { return Ok(reached) };
                reached = batch.cursor().clone();
                on_batch(reached.batch());
            }
            at = reached.batch();
            if at >= after.batch() {
                return Ok(reached);
            }
            cursor = Some(reached);
        }
    }

    /// The config of a session that goes on at a batch, for the first of `world` ranks.
    fn config_from(&self, session: &Session, from: u64, world: usize) -> Config {
        let mut config = self.session_config(session);
        // Those that began before are in the cursor's history.
        config.exclude.batches.clone_from(&session.config.exclude.batches);
        config.exclude.batches.retain(|(first, _)| *first >= from);
        config.pipeline.world = Some(world);
        config
    }

    /// The config of a session, as far as batches depend on it and a cursor does not. The files are where the last session
    /// has them.
    pub(crate) fn session_config(&self, session: &Session) -> Config {
        let (mut config, was) = (self.config.clone(), &session.config);
        let (own, of) = (&mut config.pipeline, &was.pipeline);
        (own.batch_size, own.epochs, own.uneven, own.last) = (of.batch_size, of.epochs, of.uneven, of.last);
        let now = names(&self.config.sources);
        let source = |(name, was): (String, &SourceConfig)| {
            let now = now.iter().position(|now| *now == name).map(|nth| &self.config.sources[nth]);
            SourceConfig { weight: was.weight, epochs: was.epochs, ..now.unwrap_or(was).clone() }
        };
        config.sources = names(&was.sources).into_iter().zip(&was.sources).map(source).collect();
        config.mixture.clone_from(&was.mixture);
        // What follows an excluded document in its row moves up.
        config.exclude.documents.clone_from(&was.exclude.documents);
        config
    }

    /// A loader of this config that goes on after a cursor, or from the start.
    ///
    /// # Errors
    /// Those of [`Loader::resume`]: also at the start, if the files are not those that the run has read. The error names
    /// them.
    pub(crate) async fn opened(&self, config: &Config, cursor: Option<Cursor>) -> Result<Loader> {
        let is_start = cursor.is_none();
        let loader = self.open_at(config, cursor).await?;
        if let Some(first) = self.run.trail.first().filter(|_| is_start)
            && first.fingerprint() != loader.start().fingerprint()
        {
            // If the stream has become another one, the cursor is refused.
            self.open_at(config, Some(first.clone())).await?;
        }
        Ok(loader)
    }

    async fn open_at(&self, config: &Config, cursor: Option<Cursor>) -> Result<Loader> {
        let mut builder = Loader::builder(config).with_opened(self.source_of(config));
        if let Some(cursor) = cursor {
            builder = builder.with_cursor(cursor);
        }
        match builder.open().await {
            Ok(loader) => Ok(loader),
            Err(error) => {
                let was = self.run.files.as_ref();
                Err(files::refused_with(error, was, &self.config, Some(&self.source)).await)
            }
        }
    }

    /// The open sources, if this config has the same ones; how much of each is read does not matter.
    fn source_of(&self, config: &Config) -> Option<Source> {
        let sources = |config: &Config| -> Vec<SourceConfig> {
            let plain = |source| SourceConfig { weight: None, epochs: None, ..source };
            config.seeded_sources().into_iter().map(plain).collect()
        };
        (sources(config) == sources(&self.config)).then(|| self.source.clone())
    }
}

/// Of how many ranks the first one has the lanes that two cursors know: the trail of several ranks has the lanes of the
/// first one, and the start has all.
fn world(before: Option<&Cursor>, after: &Cursor) -> usize {
    let lanes = (0..after.lanes()).filter(|&lane| {
        let is_known = |cursor: &Cursor| cursor.lane(lane).is_some();
        is_known(after) && before.is_none_or(is_known)
    });
    after.lanes() / lanes.count().max(1)
}

/// How many batches there are before a cursor, or before the start.
fn batch(cursor: Option<&Cursor>) -> u64 {
    cursor.map_or(0, Cursor::batch)
}

/// At most `most` of these: the first, the last, and others evenly between them.
fn evenly<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let (count, most) = (all.len(), most.min(all.len()));
    let is_taken = |at: usize| (0..most).any(|nth| nth * (count - 1) / (most - 1).max(1) == at);
    all.into_iter().enumerate().filter(|(at, _)| is_taken(*at)).map(|(_, one)| one).collect()
}

/// What differs in a cursor from the one that was expected.
fn difference(expected: &Cursor, found: &Cursor) -> Option<String> {
    if expected.batch() != found.batch() {
        return Some(format!("the batches end after batch {}", found.batch()));
    }
    found.known_lanes().find_map(|number| {
        let (expected, found) = (expected.lane(number)?, found.lane(number)?);
        let ledgers = |lane: &LaneState| {
            lane.sources.iter().map(|source| (source.ledger, source.values.clone())).collect::<Vec<_>>()
        };
        if expected.digest != found.digest {
            return Some(format!("lane {number} has digest {}, and had {}", found.digest, expected.digest));
        }
        let is_same = (ledgers(expected), expected.padding) == (ledgers(found), found.padding);
        (!is_same).then(|| format!("lane {number} has another ledger"))
    })
}

/// Ranges in order, those that touch or overlap as one.
pub fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_is_one() {
        assert_eq!(merged(vec![7..9, 3..3, 0..2, 2..4, 1..3]), [0..4, 7..9]);
    }
}
