//! The documents of one read: from frames to texts, and the policy for those that have none.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Holdout;
use super::corpus::{Corpus, Format};
use super::decode;
use super::framing::{Frame, Place};
use super::problem::Problem;
use super::split::Split;
use super::texts::Texts;
use super::window::{Finding, Framed, Piece, Window};
use crate::budget::{IDS_PER_BYTE, Lease, Moving};
use crate::config::{OnError, Oversize};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Content, Document, Shared, Slab};
use crate::error::{Error, Unit};
use crate::files::Position;
use crate::meter::Meter;
use crate::order::uniform;
use crate::shards::Counts;

/// How many bytes of a slab documents share a count for: some are dropped while others are handed out.
const SHARED_BYTES: usize = 32 << 10;

/// Documents that lie in a few slabs, in order, and what comes after them.
#[derive(Debug)]
pub(super) struct Group {
    slabs: Vec<Arc<Slab>>,
    /// The slab of the documents that are handed out, its number, and how much more of it they may share.
    shared: Option<(usize, Arc<Shared>)>,
    left: usize,
    items: Vec<Item>,
    origins: Vec<Sited>,
    runs: Vec<Run>,
    next: usize,
    run: usize,
    pub(super) after: After,
    /// The lane's splits that its text is of, in order, and what was counted up to where each was left.
    pub(super) passed: Vec<(u64, Counts)>,
    /// Kept until the last document is handed out.
    pub(super) moving: Option<Moving>,
}

/// What comes after a group.
#[derive(Debug)]
pub(super) enum After {
    More,
    End,
    Failed(Error),
}

/// One document: where it lies in the slab, and its places in the file.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) text_bytes: usize,
    pub(super) start: Place,
    pub(super) next: Place,
    /// The share of epochs that it is in.
    pub(super) share: f64,
    /// The number of its origin.
    pub(super) of: u32,
}

/// An origin, and the number of the slab that its documents lie in.
#[derive(Clone, Copy, Debug)]
struct Sited {
    slab: usize,
    origin: Origin,
}

/// What documents of one split have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Origin {
    pub(super) split: Split,
    /// Which of the lane's splits of the epoch their cursors name.
    pub(super) ordinal: u64,
    /// Whether it is read side by side with others.
    pub(super) is_abreast: bool,
}

/// Documents, from `first` on, whose cursors differ only in places and in the count, which goes up by one.
#[derive(Debug)]
struct Run {
    first: usize,
    cursor: LaneCursor,
}

impl Group {
    /// No documents.
    pub(super) fn empty(after: After) -> Self {
        Self {
            slabs: Vec::new(),
            shared: None,
            left: 0,
            items: Vec::new(),
            origins: Vec::new(),
            runs: Vec::new(),
            next: 0,
            run: 0,
            after,
            passed: Vec::new(),
            moving: None,
        }
    }

    /// No documents yet, of so many.
    pub(super) fn with_room(documents: usize) -> Self {
        Self { items: Vec::with_capacity(documents), ..Self::empty(After::More) }
    }

    /// How many documents there are, and the bytes of their texts.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.items.len(), self.items.iter().map(|item| item.text_bytes).sum())
    }

    /// The next document.
    pub(super) fn pop(&mut self) -> Option<Tracked<Document>> {
        let item = self.items.get(self.next)?;
        while self.runs.get(self.run + 1).is_some_and(|run| run.first <= self.next) {
            self.run += 1;
        }
        let (run, Sited { slab: number, origin }) = (&self.runs[self.run], self.origins[item.of as usize]);
        self.next += 1;
        let mut cursor = run.cursor;
        (cursor.split, cursor.byte, cursor.line) = (origin.ordinal, item.next.byte, item.next.line);
        cursor.start = if origin.is_abreast { item.start.byte } else { 0 };
        cursor.documents += (self.next - run.first) as u64;
        let position = origin.split.position(item.start);
        let slab = match &self.shared {
            Some((shared, slab)) if *shared == number && self.left >= item.range.len() => slab.clone(),
            _ => {
                self.left = SHARED_BYTES;
                let slab = Shared::new(self.slabs[number].clone());
                self.shared = Some((number, slab.clone()));
                slab
            }
        };
        self.left = self.left.saturating_sub(item.range.len());
        Some(Tracked::new(Document::in_slab(slab, item.range.clone(), item.text_bytes, position), cursor))
    }

    /// What is noted of the document that was handed out last.
    pub(super) fn last(&self) -> Option<&Item> {
        self.items.get(self.next.checked_sub(1)?)
    }

    /// Adds an origin, whose documents lie in slab `slab`; its number.
    pub(super) fn origin(&mut self, slab: usize, origin: Origin) -> u32 {
        self.origins.push(Sited { slab, origin });
        self.origins.len() as u32 - 1
    }

    /// The number of the slab that is added next.
    pub(super) fn next_slab(&self) -> usize {
        self.slabs.len()
    }

    /// Appends a document, with the cursor before it.
    #[inline]
    pub(super) fn append(&mut self, cursor: &LaneCursor, item: Item) {
        let first = self.items.len();
        let goes_on = self.runs.last().is_some_and(|run| {
            let counts = (run.cursor.skipped, run.cursor.documents + (first - run.first) as u64);
            counts == (cursor.skipped, cursor.documents)
        });
        if !goes_on {
            self.runs.push(Run { first, cursor: *cursor });
        }
        self.items.push(item);
    }

    /// Drops the documents of slabs that were not added.
    pub(super) fn give_back(&mut self) {
        let slabs = self.slabs.len();
        let is_there = |item: &Item| self.origins[item.of as usize].slab < slabs;
        let kept = self.items.iter().rposition(is_there).map_or(0, |last| last + 1);
        self.items.truncate(kept);
        self.runs.retain(|run| run.first < kept);
        self.origins.retain(|sited| sited.slab < slabs);
    }

    /// Adds what documents that were appended lie in.
    pub(super) fn add(&mut self, slab: Slab) {
        self.slabs.push(Arc::new(slab));
    }
}

impl Split {
    fn position(&self, place: Place) -> Position {
        let (line, from) = if self.has_lines { (place.line + 1, self.begin) } else { (0, 0) };
        Position { file: self.file, line, byte: place.byte, from }
    }
}

/// What turns windows into groups.
#[derive(Debug)]
pub(super) struct Grouping {
    pub(super) corpus: Arc<Corpus>,
    pub(super) holdout: Holdout,
    /// What weighted documents are drawn from.
    pub(super) seed: u64,
    /// Whether they are not drawn, but all delivered.
    pub(super) draws_all: bool,
    pub(super) meter: Option<Arc<Meter>>,
    /// Whether skipped documents are logged as warnings.
    pub(super) logs: bool,
}

impl Grouping {
    /// The documents of a window whose files are of one source. `cursor` counts them.
    pub(super) fn group(&self, window: Window, lease: Lease, cursor: &mut LaneCursor) -> Group {
        let mut group = Group::empty(After::More);
        let Window { bytes, framed, pieces } = window;
        let Some(first) = pieces.first() else { return group };
        let format = self.corpus.format(first.split.file);
        let mut texts = Texts::new(bytes, &pieces, format);
        group.items.reserve_exact(framed.len());
        let mut skipped = cursor.skipped;
        'window: for &Piece { ordinal, split, ref frames, .. } in &pieces {
            let behind = ordinal + u64::from(format.is_one_document());
            let of = group.origin(0, Origin { split, ordinal: behind, is_abreast: false });
            for framed in &framed[frames.clone()] {
                let found = Found { split, framed, format, epoch: cursor.epoch };
                let delivered = self.deliver(&mut texts, &found, of, cursor, &mut skipped, &mut group);
                cursor.skipped = skipped;
                if let Err(error) = delivered {
                    group.after = After::Failed(error);
                    break 'window;
                }
            }
            group.passed.push((ordinal, Counts::from(&*cursor)));
        }
        if !group.items.is_empty() {
            self.add_text(texts, lease, &mut group);
        }
        group
    }

    /// Appends one document of origin `of`, or passes over it. `cursor` counts those that are delivered, and `skipped`
    /// those that are bad.
    #[inline]
    pub(super) fn deliver(
        &self,
        texts: &mut Texts,
        found: &Found<'_>,
        of: u32,
        cursor: &mut LaneCursor,
        skipped: &mut u64,
        group: &mut Group,
    ) -> Result<(), Error> {
        match self.text(texts, found) {
            Ok(Some((range, share))) => {
                let Frame { start, next, .. } = found.framed.frame;
                let next = if found.format.is_one_document() { Place::default() } else { next };
                group.append(cursor, Item { text_bytes: range.len(), range, start, next, share, of });
                cursor.documents += 1;
            }
            Ok(None) => {}
            Err(problem) => {
                self.refuse(found, problem, *skipped)?;
                *skipped += 1;
            }
        }
        Ok(())
    }

    /// Adds the slab that texts lie in. `lease` is for them and what becomes of them.
    pub(super) fn add_text(&self, texts: Texts, mut lease: Lease, group: &mut Group) {
        let text = texts.finish();
        lease.cover(text.capacity() + IDS_PER_BYTE * text.len());
        group.add(Slab { content: Content::Text(text), files: self.corpus.files.clone(), lease });
    }

    /// Where the document's text lies; nothing if there is none, or it is not for this stream.
    fn text(&self, texts: &mut Texts, place: &Found<'_>) -> Result<Option<(Range<usize>, f64)>, Problem> {
        let Found { framed, format, .. } = *place;
        let known = match framed.finding.as_deref() {
            Some(Finding::Problem(problem)) => return Err(problem.clone()),
            Some(Finding::Share(share)) => *share,
            None => 1.0,
        };
        let mut bytes = framed.held(texts.bytes().len());
        if framed.frame.len > format.max as u64 {
            let what =
                format!("the document is longer than max_document_bytes = {}", format.max_document_bytes);
            match (format.oversize, &format.json) {
                (Oversize::Truncate, None) => {
                    bytes.end =
                        bytes.start + decode::truncated(&texts.bytes()[bytes.clone()], format.max).len();
                }
                (Oversize::Skip, _) => {
                    self.note(place, framed.frame.start.byte, &what);
                    return Ok(None);
                }
                (Oversize::Error | Oversize::Truncate, _) => {
                    let remedy = match format.json {
                        None => "raise it, or set oversize = \"skip\" or \"truncate\"",
                        Some(_) => "raise it, or set oversize = \"skip\"",
                    };
                    return Err(Problem::new(0, what, remedy));
                }
            }
            if bytes.is_empty() {
                self.note(place, framed.frame.start.byte, &format!("{what}, and so is its first character"));
                return Ok(None);
            }
        }
        let (text, share) = texts.take(bytes, format)?;
        let is_wanted = !text.is_empty()
            && self.holdout.delivers(&texts.text()[text.clone()])
            && self.draws(place.split, place.epoch, framed.frame.start.byte, share * known);
        if !is_wanted {
            texts.give_back(text);
            return Ok(None);
        }
        Ok(Some((text, share * known)))
    }

    /// Whether a document would be skipped as bad. Nothing is said or counted.
    pub(super) fn is_bad(&self, texts: &mut Texts, place: &Found<'_>) -> bool {
        let Found { framed, format, .. } = *place;
        if matches!(framed.finding.as_deref(), Some(Finding::Problem(_))) {
            return true;
        }
        let mut bytes = framed.held(texts.bytes().len());
        if framed.frame.len > format.max as u64 {
            match (format.oversize, &format.json) {
                (Oversize::Skip, _) => return false,
                (Oversize::Truncate, None) => {
                    bytes.end =
                        bytes.start + decode::truncated(&texts.bytes()[bytes.clone()], format.max).len();
                }
                (Oversize::Error | Oversize::Truncate, _) => return true,
            }
        }
        texts.take(bytes, format).map(|(text, _)| texts.give_back(text)).is_err()
    }

    /// Whether the epoch's sample has the document at `byte` of a split, which is in `share` of all epochs.
    pub(super) fn draws(&self, split: Split, epoch: u64, byte: u64, share: f64) -> bool {
        let file = || u64::from(self.corpus.number_in_source(split.file));
        let key = || [self.seed, epoch, file(), byte];
        self.draws_all || share >= 1.0 || uniform("millstream sample", &key()) < share
    }

    /// Skips a bad document, or says that no more may be skipped.
    fn refuse(&self, place: &Found<'_>, problem: Problem, skipped: u64) -> Result<(), Error> {
        let Problem { offset, stored, what, remedy } = problem;
        let byte = stored.unwrap_or(place.framed.frame.start.byte + offset as u64);
        let (problem, remedy) = match place.format.on_error {
            OnError::Skip(n) if skipped < n => {
                self.note(place, byte, &what);
                return Ok(());
            }
            OnError::Skip(n) => (
                format!("{what}, and the {n} documents that on_error lets this epoch skip are used up"),
                format!("{remedy}, or raise on_error"),
            ),
            OnError::Fail => {
                (what, format!("{remedy}, or let some be skipped with on_error = {{ skip = 100 }}"))
            }
        };
        let (path, line) = self.place(place);
        let unit = match stored {
            Some(_) => Unit::Byte,
            None => self.corpus.files[place.split.file as usize].unit,
        };
        Err(Error::Document { path: path.to_owned(), line, unit, byte, problem, remedy })
    }

    /// Logs and counts a skipped document.
    fn note(&self, place: &Found<'_>, byte: u64, reason: &str) {
        if self.logs {
            let (path, line) = self.place(place);
            tracing::warn!(path = %path.display(), line, byte, reason, "document skipped");
        }
        if let Some(meter) = &self.meter {
            meter.count_skipped();
        }
    }

    /// The file that a document lies in, and the line that it begins on.
    fn place(&self, place: &Found<'_>) -> (&Path, u64) {
        let (files, position) = (&self.corpus.files, place.split.position(place.framed.frame.start));
        (files.path(position.file), files.line_or_none(position))
    }
}

/// One frame, and where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) split: Split,
    pub(super) framed: &'a Framed,
    pub(super) format: &'a Format,
    pub(super) epoch: u64,
}

impl Framed {
    /// Where the document lies in what was read, of which `len` bytes are held.
    fn held(&self, len: usize) -> Range<usize> {
        let end = usize::try_from(self.frame.len).map_or(len, |n| self.at.saturating_add(n).min(len));
        self.at..end
    }
}
