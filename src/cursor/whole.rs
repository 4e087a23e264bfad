//! What a batch carries and a checkpoint keeps.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Census, Digest, Event, Fingerprint, LaneCursor, LaneState, SourceState, Step, check};
use crate::error::{Error, Result};

/// The cursor's format; a cursor of another is refused.
const VERSION: u32 = 3;

/// All that an exact resume needs: "resume here for what follows".
///
/// It is small (some hundred bytes for each lane and source, and the fingerprint once), serializable, and
/// opaque: [`batch`](Cursor::batch), [`digest`](Cursor::digest) and [`history`](Cursor::history) are for
/// people. One of a rank knows that rank's lanes only; [`merge`](Cursor::merge) makes one of all. The JSON form
/// is pinned; see the changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Cursor {
    pub(super) batch: u64,
    /// Turns that lanes had before: rows, or groups of rows where batches are made by a budget of tokens.
    pub(super) turn: u64,
    pub(super) sources: Arc<[String]>,
    /// Nothing for a lane of another rank.
    pub(super) lanes: Vec<Option<LaneState>>,
    pub(super) history: Arc<Vec<Event>>,
    census: Option<Arc<Census>>,
    pub(super) fingerprint: Arc<Fingerprint>,
}

/// A cursor as it is written. Reading it checks all that the rest relies on.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u32,
    batch: u64,
    turn: u64,
    sources: Arc<[String]>,
    lanes: Vec<Option<LaneState>>,
    #[serde(default, skip_serializing_if = "no_events")]
    history: Arc<Vec<Event>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    census: Option<Arc<Census>>,
    fingerprint: Arc<Fingerprint>,
}

fn no_events(events: &Arc<Vec<Event>>) -> bool {
    events.is_empty()
}

impl From<Cursor> for Form {
    fn from(Cursor { batch, turn, sources, lanes, history, census, fingerprint }: Cursor) -> Self {
        Self { version: VERSION, batch, turn, sources, lanes, history, census, fingerprint }
    }
}

impl TryFrom<Form> for Cursor {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { version, batch, turn, sources, lanes, history, census, fingerprint } = form;
        if version != VERSION {
            let mut problem = format!("it is of format {version}, and this version reads format {VERSION}");
            if version < VERSION {
                problem += ": batches come in another order since, in which no place is the same; begin the run anew, \
                            or go on with the version of millstream that saved it";
            }
            return Err(problem);
        }
        if lanes.iter().flatten().next().is_none() || sources.is_empty() {
            return Err("it has no lane or no source".to_owned());
        }
        if let Some(lane) = lanes.iter().flatten().find(|lane| lane.sources.len() != sources.len()) {
            let (has, needs) = (lane.sources.len(), sources.len());
            return Err(format!("a lane has the places of {has} sources, and there are {needs}"));
        }
        check::counts(batch, turn, &lanes)?;
        check::history(&history, batch, turn)?;
        census.as_deref().map_or(Ok(()), check::census)?;
        Ok(Self { batch, turn, sources, lanes, history, census, fingerprint })
    }
}

impl Default for Cursor {
    /// The cursor before the first batch of one lane, for streams that are composed by hand.
    fn default() -> Self {
        Self::start(1, ["0".to_owned()], Arc::default())
    }
}

impl Cursor {
    /// The cursor before the first batch of `lanes` lanes over the named `sources`.
    ///
    /// # Panics
    /// If there are no lanes.
    pub fn start(
        lanes: usize,
        sources: impl IntoIterator<Item = String>,
        fingerprint: Arc<Fingerprint>,
    ) -> Self {
        assert!(lanes > 0, "a cursor of no lanes");
        let sources: Arc<[String]> = sources.into_iter().collect();
        let lanes = vec![Some(LaneState::start(sources.len())); lanes];
        Self { batch: 0, turn: 0, sources, lanes, history: Arc::default(), census: None, fingerprint }
    }

    /// How many batches came before, excluded ones among them.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// How many turns the lanes had before: turn i is lane i mod [`lanes`](Cursor::lanes)'s.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The running digest of all ids that were delivered, over all lanes that the cursor knows. It does not
    /// depend on `batch_size` or on the world: cursors that were merged have the one process's.
    pub fn digest(&self) -> Digest {
        Digest::of(self.lanes.iter().flatten().map(|lane| lane.digest))
    }

    /// What the run was told on the way.
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// The order that this cursor means something in.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// How many lanes there are, over all ranks.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The names of the sources.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// One lane's state; nothing if that lane is another rank's.
    ///
    /// # Panics
    /// If there are not so many lanes.
    pub fn lane(&self, lane: usize) -> Option<&LaneState> {
        self.lanes[lane].as_ref()
    }

    /// The place in a lane's stream of a source, for streams that are composed by hand.
    ///
    /// # Panics
    /// If there are not so many lanes and sources, or the lane is another rank's.
    pub fn at(&self, lane: usize, source: usize) -> &LaneCursor {
        &self.own(lane).sources[source].at
    }

    /// How many of the turns before were a lane's.
    pub(crate) fn turns_of(&self, lane: usize) -> u64 {
        (self.turn + (self.lanes.len() - 1 - lane) as u64) / self.lanes.len() as u64
    }

    /// The state of a lane that is this rank's own.
    pub(crate) fn own(&self, lane: usize) -> &LaneState {
        self.lane(lane).expect("an own lane is known")
    }

    pub(crate) fn census(&self) -> Option<&Census> {
        self.census.as_deref()
    }

    pub(crate) fn set_census(&mut self, census: Option<Census>) {
        self.census = census.map(Arc::new);
    }

    /// Forgets the lanes that are not `own`.
    ///
    /// # Errors
    /// [`Error::Merge`] if one that is, is not known.
    pub(crate) fn keep_lanes(&mut self, own: impl Fn(usize) -> bool) -> Result<()> {
        let count = self.lanes.len();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if !own(number) {
                *lane = None;
            } else if lane.is_none() {
                let problem = format!(
                    "lane {number} of {count} is another rank's; merge the cursors of all ranks first, with \
                     `millstream cursor merge`"
                );
                return Err(Error::Merge { problem });
            }
        }
        Ok(())
    }

    /// The same place in an order with other `sources`: those that are new are at their start.
    pub(crate) fn adopt(&mut self, sources: &[String], fingerprint: Arc<Fingerprint>) {
        let before: Vec<Option<usize>> =
            sources.iter().map(|name| self.sources.iter().position(|known| known == name)).collect();
        for lane in self.lanes.iter_mut().flatten() {
            let places = before.iter();
            lane.sources = places
                .map(|place| place.map_or_else(SourceState::default, |place| lane.sources[place]))
                .collect();
        }
        self.sources = sources.into();
        self.fingerprint = fingerprint;
    }

    /// Notes what happened.
    pub(crate) fn note(&mut self, event: Event) {
        Arc::make_mut(&mut self.history).push(event);
    }

    /// Notes that `lane` had its turn.
    pub(crate) fn advance(&mut self, lane: usize, step: Step) {
        self.known(lane).advance(step);
    }

    /// Adds a row that `lane` gave to its digest.
    pub(crate) fn digest_row(&mut self, lane: usize, row: &[u32]) {
        let lane = self.known(lane);
        lane.digest = lane.digest.after(row);
    }

    fn known(&mut self, lane: usize) -> &mut LaneState {
        self.lanes[lane].as_mut().expect("only own lanes have turns")
    }

    /// Notes that all ranks together made so many batches of so many turns.
    pub(crate) fn count(&mut self, batches: u64, turns: u64) {
        self.batch += batches;
        self.turn += turns;
    }

    /// Writes the cursor as JSON; the file is replaced whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let json =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(path, "write the cursor", e.into()))?;
        crate::atomic::write_atomically(path, &json)
    }

    /// Reads a cursor that [`save`](Cursor::save) wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|e| Error::io(path, "read the cursor", e))?;
        serde_json::from_slice(&json)
            .map_err(|e| Error::Cursor { path: path.to_owned(), problem: format!("this is no cursor: {e}") })
    }
}
