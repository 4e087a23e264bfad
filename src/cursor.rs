//! Where a stream is: small values that say "resume here for what follows".
//!
//! One rule covers every stage that holds things back: **cursor = anchor + skip**. The anchor is the
//! cursor of what the stage read last when it last held nothing; the skip is how much it has
//! delivered since. So a [`LaneCursor`] is the source's place and one skip for each such stage that
//! the item came through, in order. No stage saves what it holds: resuming reads it again.
//!
//! A [`Cursor`] is what a batch carries and a checkpoint keeps: one [`LaneCursor`] a lane, and the
//! [`Fingerprint`] of the order that they mean something in.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How many stages in one chain can hold things back.
pub const MAX_DEPTH: usize = 6;

/// The place after an item in one lane's stream: the source's place and the stages' skips.
///
/// It is plain data (104 bytes, `Copy`), so that every document can carry one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaneCursor {
    /// The epoch of the document before it, from 0. A window of the shuffle ends where this changes.
    pub epoch: u64,
    /// Which of the lane's splits of this epoch is being read, from 0.
    pub split: u64,
    /// The offset in that split's file, in bytes, where reading goes on; 0 stands for the split's start.
    pub byte: u64,
    /// The line at `byte`, from 0.
    pub line: u64,
    /// Documents that the source has delivered since the stream began. A source of your own must count them:
    /// the shuffle's windows grow with this number and are keyed by it.
    pub documents: u64,
    /// Documents that the source has skipped in this epoch.
    pub skipped: u64,
    #[serde(skip_serializing_if = "Skips::is_empty")]
    skips: Skips,
}

/// One skip for each stage that holds things back: a short list that is `Copy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
struct Skips {
    values: [u64; MAX_DEPTH],
    depth: usize,
}

impl Skips {
    fn is_empty(&self) -> bool {
        self.depth == 0
    }

    fn as_slice(&self) -> &[u64] {
        &self.values[..self.depth]
    }
}

impl From<Skips> for Vec<u64> {
    fn from(skips: Skips) -> Self {
        skips.as_slice().to_vec()
    }
}

impl TryFrom<Vec<u64>> for Skips {
    type Error = String;

    fn try_from(list: Vec<u64>) -> Result<Self, String> {
        let mut skips = Self { depth: list.len(), ..Self::default() };
        skips
            .values
            .get_mut(..list.len())
            .ok_or_else(|| format!("{} skips, and a chain has at most {MAX_DEPTH}", list.len()))?
            .copy_from_slice(&list);
        Ok(skips)
    }
}

impl LaneCursor {
    /// The cursor after so many documents of a source that has no files and no epochs.
    pub fn after(documents: u64) -> Self {
        Self { documents, ..Self::default() }
    }

    /// How many stages that hold things back the item came through.
    pub fn depth(&self) -> usize {
        self.skips.depth
    }

    /// What the stage at `depth` had delivered since its anchor; 0 if this cursor does not reach so deep.
    pub fn skip(&self, depth: usize) -> u64 {
        self.skips.as_slice().get(depth).copied().unwrap_or(0)
    }

    /// This cursor as the stages above `depth` see it.
    ///
    /// # Panics
    /// If `depth` is more than [`MAX_DEPTH`].
    #[must_use]
    pub fn upstream(&self, depth: usize) -> Self {
        assert!(depth <= MAX_DEPTH, "a chain has at most {MAX_DEPTH} stages that hold things back");
        let mut cursor = Self { skips: Skips { depth, ..Skips::default() }, ..*self };
        for level in 0..depth {
            cursor.skips.values[level] = self.skip(level);
        }
        cursor
    }

    /// The cursor of a stage that has this one as its anchor and has delivered `skip` since.
    ///
    /// # Panics
    /// If more than [`MAX_DEPTH`] stages of a chain hold things back.
    #[must_use]
    pub fn anchored(&self, skip: u64) -> Self {
        let depth = self.depth();
        let mut cursor = self.upstream(depth + 1);
        cursor.skips.values[depth] = skip;
        cursor
    }
}

/// A value and the cursor after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked<T> {
    /// The value.
    pub value: T,
    /// Where to resume for what follows it.
    pub cursor: LaneCursor,
}

impl<T> Tracked<T> {
    /// A value and the cursor after it.
    pub fn new(value: T, cursor: LaneCursor) -> Self {
        Self { value, cursor }
    }

    /// Another value at the same place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Tracked<U> {
        Tracked { value: f(self.value), cursor: self.cursor }
    }
}

/// The bookkeeping of a stage that holds things back: its anchor, and how much it delivered since.
///
/// It is for stages that deliver items as they read them. One that delivers a whole group when it is read, as
/// the shuffle does, knows the next anchor before the last item is out, and keeps its own books.
///
/// A stage makes one from the cursor that it is to resume at. Whenever it holds nothing it calls
/// [`rebase`](Anchor::rebase) with the cursor of what it read last; for each item that it is about to
/// deliver it calls [`deliver`](Anchor::deliver) and drops the item if that says `None`, because the
/// item was delivered before the interruption.
#[derive(Clone, Debug)]
pub struct Anchor {
    start: LaneCursor,
    at: Option<LaneCursor>,
    delivered: u64,
    replay: u64,
}

impl Anchor {
    /// The bookkeeping of a stage that resumes at `start`; the default cursor begins a stream.
    pub fn resume(start: &LaneCursor) -> Self {
        Self { start: *start, at: None, delivered: 0, replay: 0 }
    }

    /// Learns from the first item's cursor how deep in the chain the stage stands, and gives the anchor.
    pub fn at(&mut self, item: &LaneCursor) -> LaneCursor {
        let (start, replay) = (&self.start, &mut self.replay);
        *self.at.get_or_insert_with(|| {
            *replay = start.skip(item.depth());
            start.upstream(item.depth())
        })
    }

    /// The stage holds nothing now: `upstream` is the cursor of what it read last.
    pub fn rebase(&mut self, upstream: &LaneCursor) {
        self.at(upstream);
        self.at = Some(*upstream);
        self.delivered = 0;
    }

    /// Counts one item, read as late as `item`; its cursor, or `None` if it was delivered before.
    pub fn deliver(&mut self, item: &LaneCursor) -> Option<LaneCursor> {
        let anchor = self.at(item);
        self.delivered += 1;
        if self.replay > 0 {
            self.replay -= 1;
            return None;
        }
        Some(anchor.anchored(self.delivered))
    }
}

/// What must be equal for a cursor to mean the same thing: named values, compared one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

impl Fingerprint {
    /// Refuses a cursor whose `saved` fingerprint differs from this one, naming the first difference.
    pub fn check(&self, saved: &Self) -> Result<()> {
        let absent = "absent".to_owned();
        for field in self.0.keys().chain(saved.0.keys()) {
            let (was, now) = (saved.0.get(field), self.0.get(field));
            if was != now {
                return Err(Error::Fingerprint {
                    field: field.clone(),
                    saved: was.unwrap_or(&absent).clone(),
                    now: now.unwrap_or(&absent).clone(),
                });
            }
        }
        Ok(())
    }
}

/// The cursor's format; a cursor of another is refused.
const VERSION: u32 = 1;

/// All that an exact resume needs: "resume here for what follows".
///
/// It is small (some hundred bytes a lane, and the fingerprint once), serializable, and opaque: only
/// [`batch`](Cursor::batch) is for people. The JSON form is pinned; see the changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Cursor {
    batch: u64,
    next_lane: usize,
    lanes: Vec<LaneCursor>,
    fingerprint: Arc<Fingerprint>,
}

/// A cursor as it is written. Reading it checks all that the rest relies on.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u32,
    batch: u64,
    next_lane: usize,
    lanes: Vec<LaneCursor>,
    fingerprint: Arc<Fingerprint>,
}

impl From<Cursor> for Form {
    fn from(Cursor { batch, next_lane, lanes, fingerprint }: Cursor) -> Self {
        Self { version: VERSION, batch, next_lane, lanes, fingerprint }
    }
}

impl TryFrom<Form> for Cursor {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { version, batch, next_lane, lanes, fingerprint } = form;
        if version != VERSION {
            return Err(format!("it is of format {version}, and this version reads format {VERSION}"));
        }
        if next_lane >= lanes.len() {
            return Err(format!("lane {next_lane} cannot be next of {}", lanes.len()));
        }
        Ok(Self { batch, next_lane, lanes, fingerprint })
    }
}

impl Default for Cursor {
    /// The cursor before the first batch of one lane, for streams that are composed by hand.
    fn default() -> Self {
        Self::start(1, Arc::default())
    }
}

impl Cursor {
    /// The cursor before the first batch of `lanes` lanes.
    pub fn start(lanes: usize, fingerprint: Arc<Fingerprint>) -> Self {
        Self { batch: 0, next_lane: 0, lanes: vec![LaneCursor::default(); lanes], fingerprint }
    }

    /// How many batches came before.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The order that this cursor means something in.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The cursor of one lane.
    ///
    /// # Panics
    /// If there are not so many lanes.
    pub fn lane(&self, lane: usize) -> &LaneCursor {
        &self.lanes[lane]
    }

    /// The lane that the next row comes from.
    pub fn next_lane(&self) -> usize {
        self.next_lane
    }

    /// Notes that a row came from `lane` and left it at `cursor`.
    pub(crate) fn advance(&mut self, lane: usize, cursor: LaneCursor) {
        self.lanes[lane] = cursor;
        self.next_lane = (lane + 1) % self.lanes.len();
    }

    /// Notes that a batch is whole.
    pub(crate) fn count_batch(&mut self) {
        self.batch += 1;
    }

    /// Writes the cursor as JSON; the file is replaced whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let json =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(path, "write the cursor", e.into()))?;
        crate::files::write_atomically(path, &json)
    }

    /// Reads a cursor that [`save`](Cursor::save) wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|e| Error::io(path, "read the cursor", e))?;
        serde_json::from_slice(&json)
            .map_err(|e| Error::Cursor { path: path.to_owned(), problem: format!("this is no cursor: {e}") })
    }
}
