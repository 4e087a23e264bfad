//! The cursor that a batch carries and a checkpoint keeps.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::{
    Digest, Event, Fingerprint, LaneCursor, LaneState, LaneStep, Length, Omitted, RowAccount, SourceState,
    check, length,
};
use crate::bounded;
use crate::error::{Error, Remedy, Result};

/// The version of the cursor's format. Cursors of other versions are refused.
const VERSION: u32 = 1;

/// The longest file that is read as a cursor, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The advice for a cursor that cannot be read.
const REMEDY: &str = "use the cursor of the checkpoint before, or start without one";

/// All that an exact resume needs: "resume here for what follows".
///
/// It is small (some hundred bytes for each lane and source, and the fingerprint once), serializable, and opaque:
/// [`batch`](Cursor::batch), [`digest`](Cursor::digest) and [`history`](Cursor::history) are for people to read. The
/// cursor of one rank knows that rank's lanes only; [`merge`](Cursor::merge) combines the cursors of all ranks. The
/// JSON form is pinned and has a checksum, so a damaged cursor is refused. A program that edits a cursor leaves the
/// checksum out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Cursor {
    pub(super) batch: u64,
    /// Turns that the lanes have had: rows, or groups of rows if batches have a token budget.
    pub(super) turn: u64,
    pub(super) sources: Arc<[String]>,
    /// `None` for a lane of another rank.
    pub(super) lanes: Vec<Option<LaneState>>,
    pub(super) history: Arc<Vec<Event>>,
    /// The column by whose values the lanes count.
    pub(super) ledger_by: Option<Arc<str>>,
    pub(super) length: Option<Arc<Length>>,
    pub(super) fingerprint: Arc<Fingerprint>,
}

/// A cursor as it is written. Reading one checks all that the rest of the code relies on.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a cursor")]
struct Form {
    version: u32,
    batch: u64,
    turn: u64,
    sources: Arc<[String]>,
    lanes: Vec<Option<LaneState>>,
    #[serde(default, skip_serializing_if = "no_events")]
    history: Arc<Vec<Event>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger_by: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<length::Form>,
    fingerprint: Arc<Fingerprint>,
    /// The checksum of all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

impl Form {
    /// The checksum of a form that has none: XXH3 of its JSON, in hexadecimal digits. It detects accidents, not
    /// tampering.
    fn sum(&self) -> String {
        // A value that JSON cannot express fails where it is written.
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{:016x}", XxHash3_64::oneshot(&json))
    }
}

fn no_events(events: &Arc<Vec<Event>>) -> bool {
    events.is_empty()
}

impl From<Cursor> for Form {
    fn from(cursor: Cursor) -> Self {
        let Cursor { batch, turn, sources, lanes, history, ledger_by, length, fingerprint } = cursor;
        let (version, checksum) = (VERSION, None);
        // As it is at this moment: it may become known while this is written.
        let length = length.map(|length| Arc::unwrap_or_clone(length).into());
        let mut form =
            Self { version, batch, turn, sources, lanes, history, ledger_by, length, fingerprint, checksum };
        form.checksum = Some(form.sum());
        form
    }
}

impl TryFrom<Form> for Cursor {
    type Error = String;

    fn try_from(mut form: Form) -> Result<Self, String> {
        if form.version != VERSION {
            return Err(format!(
                "it is of format {}, and this version reads format {VERSION}; start the run again, or go on with the \
                 version of millstream that saved it",
                form.version
            ));
        }
        let checksum = form.checksum.take();
        if checksum.is_some_and(|checksum| checksum != form.sum()) {
            return Err(format!("its checksum is wrong: it was edited or damaged; {REMEDY}"));
        }
        let Form { batch, turn, sources, lanes, history, ledger_by, length, fingerprint, .. } = form;
        if lanes.iter().flatten().next().is_none() || sources.is_empty() {
            return Err("it has no lane or no source".to_owned());
        }
        if let Some(lane) = lanes.iter().flatten().find(|lane| lane.sources.len() != sources.len()) {
            let (has, needs) = (lane.sources.len(), sources.len());
            return Err(format!("a lane has the places of {has} sources, and there are {needs}"));
        }
        let states = || lanes.iter().flatten().flat_map(|lane| &lane.sources);
        if ledger_by.is_none() && states().any(|source| source.values.is_some()) {
            return Err("it counts by the values of a column, and does not say of which".to_owned());
        }
        let known = lanes.iter().enumerate().filter_map(|(number, lane)| Some((number, lane.as_ref()?)));
        check::counts(batch, turn, known)?;
        check::history(&history, batch, turn)?;
        let length = length.map(|length| Length::read(length, lanes.len(), sources.len())).transpose()?;
        let length = length.map(Arc::new);
        Ok(Self { batch, turn, sources, lanes, history, ledger_by, length, fingerprint })
    }
}

impl Default for Cursor {
    /// The cursor before the first batch of one lane, for streams that you compose by hand.
    fn default() -> Self {
        Self::start(1, ["0".to_owned()], Arc::default())
    }
}

impl Cursor {
    /// Returns the cursor before the first batch of `lanes` lanes over the named `sources`.
    ///
    /// # Panics
    /// If `lanes` is 0.
    pub fn start(
        lanes: usize,
        sources: impl IntoIterator<Item = String>,
        fingerprint: Arc<Fingerprint>,
    ) -> Self {
        assert!(lanes > 0, "a cursor needs at least one lane");
        let sources: Arc<[String]> = sources.into_iter().collect();
        let lanes = vec![Some(LaneState::start(sources.len())); lanes];
        let history = Arc::default();
        Self { batch: 0, turn: 0, sources, lanes, history, ledger_by: None, length: None, fingerprint }
    }

    /// The number of batches before this cursor, including excluded ones.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The number of turns that the lanes have had. Turn i belongs to lane i mod [`lanes`](Cursor::lanes).
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The running digest of all delivered ids, over all lanes that the cursor knows. It does not depend on
    /// `batch_size` or on the world size: the merged cursors of all ranks have the same digest as one
    /// process's cursor.
    pub fn digest(&self) -> Digest {
        Digest::combine(self.lanes.iter().flatten().map(|lane| lane.digest))
    }

    /// The changes of the stream during the run.
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// The fingerprint of the order that this cursor belongs to.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The number of lanes, over all ranks.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The names of the sources.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The lanes that the cursor knows: all or, in the cursor of a rank, the rank's.
    pub fn known_lanes(&self) -> impl Iterator<Item = usize> + Clone {
        self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_some()).map(|(lane, _)| lane)
    }

    /// The state of one lane, or `None` if the lane belongs to another rank.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn lane(&self, lane: usize) -> Option<&LaneState> {
        self.lanes[lane].as_ref()
    }

    /// Where a lane is in the stream of one source, for streams that you compose by hand.
    ///
    /// # Panics
    /// If there is no such lane or source, or if the lane belongs to another rank.
    pub fn at(&self, lane: usize, source: usize) -> &LaneCursor {
        &self.own(lane).sources[source].at
    }

    /// The number of turns so far that were this lane's.
    pub(crate) fn turns_of(&self, lane: usize) -> u64 {
        (self.turn + (self.lanes.len() - 1 - lane) as u64) / self.lanes.len() as u64
    }

    /// The state of a lane of this rank.
    pub(crate) fn own(&self, lane: usize) -> &LaneState {
        self.lane(lane).expect("an own lane is known")
    }

    /// How long the stream is, if it was counted or is being counted.
    pub(crate) fn length(&self) -> Option<&Arc<Length>> {
        self.length.as_ref()
    }

    pub(crate) fn set_length(&mut self, length: Option<Length>) {
        self.length = length.map(Arc::new);
    }

    /// Returns the place from which the stream's length is counted: that of a count that has begun, or this one if it knows
    /// all lanes.
    pub(crate) fn to_count_from(&self) -> Option<Self> {
        match self.length.as_ref().and_then(|length| length.from()) {
            Some((turn, lanes)) => {
                let lanes = lanes.iter().cloned().map(Some).collect();
                Some(Self { turn: *turn, lanes, ..self.clone() })
            }
            None => self.lanes.iter().all(Option::is_some).then(|| self.clone()),
        }
    }

    /// Notes that the stream's length is counted from this place on, for all lanes.
    pub(crate) fn count_from_here(&self, of: String) -> Length {
        Length::unknown(of, self.turn, self.lanes.iter().flatten().cloned().collect())
    }

    /// Forgets the lanes that are not `own`.
    pub(crate) fn keep_lanes(&mut self, own: impl Fn(usize) -> bool) -> Result<()> {
        let count = self.lanes.len();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if !own(number) {
                *lane = None;
            } else if lane.is_none() {
                let problem = format!(
                    "lane {number} of {count} is another rank's; merge the cursors of all ranks first"
                );
                let remedy = Some(Box::new(Remedy::MergeCursors));
                return Err(Error::Merge { problem, remedy });
            }
        }
        Ok(())
    }

    /// Moves the cursor to an order with other `sources`, at the same place. New sources are at their start.
    pub(crate) fn adopt(&mut self, sources: &[String], fingerprint: Arc<Fingerprint>) {
        let before: Vec<Option<usize>> =
            sources.iter().map(|name| self.sources.iter().position(|known| known == name)).collect();
        let length = self.length.as_mut().map(Arc::make_mut);
        let counted = length.into_iter().flat_map(Length::lanes_mut);
        for lane in self.lanes.iter_mut().flatten().chain(counted) {
            let places = before.iter();
            lane.sources = places
                .map(|place| place.map_or_else(SourceState::default, |place| lane.sources[place].clone()))
                .collect();
        }
        self.sources = sources.into();
        self.fingerprint = fingerprint;
    }

    pub(crate) fn note(&mut self, event: Event) {
        Arc::make_mut(&mut self.history).push(event);
    }

    pub(crate) fn advance(&mut self, lane: usize, step: LaneStep) {
        self.known(lane).advance(step);
    }

    /// Adds a row that `lane` delivered: its hash to the lane's digest, and to the ledger what it holds and what was left out
    /// before it.
    pub(crate) fn add_row(
        &mut self,
        lane: usize,
        (hash, account): (Digest, RowAccount),
        left_out: Option<&Omitted>,
    ) {
        let lane = self.known(lane);
        lane.digest = lane.digest.then(hash);
        lane.add_row(account);
        lane.leave_out(account.source, left_out);
    }

    /// Adds a row of `lane` that is made and not delivered to the ledger.
    pub(crate) fn exclude_row(&mut self, lane: usize, account: RowAccount, left_out: Option<&Omitted>) {
        let lane = self.known(lane);
        lane.leave_out(account.source, Some(&Omitted::of(None, account.excluded())));
        lane.leave_out(account.source, left_out);
    }

    pub(super) fn known(&mut self, lane: usize) -> &mut LaneState {
        self.lanes[lane].as_mut().expect("only own lanes have turns")
    }

    /// Counts batches that all ranks made together, and their turns.
    pub(crate) fn count(&mut self, batches: u64, turns: u64) {
        self.batch += batches;
        self.turn += turns;
    }

    /// Writes the cursor as JSON. The file is replaced as a whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let json =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(path, "write the cursor", e.into()))?;
        crate::atomic::write_atomically(path, &json)
    }

    /// Reads a cursor that [`save`](Cursor::save) wrote.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Cursor`] if it is not a cursor as it was saved.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let json = bounded::read_any(path, MOST_BYTES).map_err(|e| Error::io(path, "read the cursor", e))?;
        if json.trim_ascii().is_empty() {
            return Err(Error::Cursor {
                path: path.to_owned(),
                problem: format!("the file is empty; {REMEDY}"),
            });
        }
        Self::from_json(&json).map_err(|problem| Error::Cursor { path: path.to_owned(), problem })
    }

    /// Reads a cursor from its JSON; or says what is wrong with that, and what to do.
    #[doc(hidden)]
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let form = serde_json::from_slice::<Form>(json);
        let form = form.map_err(|e| format!("this is not a cursor, or it is damaged: {e}; {REMEDY}"))?;
        Self::try_from(form).map_err(|problem| format!("this is not a cursor: {problem}"))
    }
}
