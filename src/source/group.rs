//! The documents of one read: from frames to texts, and the policy for those that have none.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Holdout;
use super::corpus::{Corpus, Format, Split};
use super::decode::{self, Problem};
use super::framing::{Frame, Place};
use super::texts::Texts;
use super::window::{Finding, Framed, Piece, Window};
use crate::budget::{IDS_PER_BYTE, Lease, Moving};
use crate::config::{OnError, Oversize};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Content, Document, Position, Shared, Slab};
use crate::error::{Error, Unit};
use crate::meter::Meter;
use crate::order::uniform;
use crate::shards::Counts;

/// How many bytes of a slab documents share a count for: some are dropped while others are handed out.
const SHARED_BYTES: usize = 32 << 10;

/// Documents that lie in one slab, in order, and what comes after them.
#[derive(Debug)]
pub(super) struct Group {
    slabs: Vec<Arc<Slab>>,
    /// The slab of the documents that are handed out, its number, and how much more of it they may share.
    shared: Option<(usize, Arc<Shared>)>,
    left: usize,
    items: Vec<Item>,
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
}

/// Documents, from `first` on, in one slab, whose cursors differ only in byte, line and count.
#[derive(Debug)]
struct Run {
    first: usize,
    slab: usize,
    split: Split,
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
            runs: Vec::new(),
            next: 0,
            run: 0,
            after,
            passed: Vec::new(),
            moving: None,
        }
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
        let run = &self.runs[self.run];
        self.next += 1;
        let mut cursor = run.cursor;
        (cursor.byte, cursor.line) = (item.next.byte, item.next.line);
        cursor.documents += (self.next - run.first) as u64;
        let position = run.split.position(item.start);
        let slab = match &self.shared {
            Some((number, slab)) if *number == run.slab && self.left >= item.range.len() => slab.clone(),
            _ => {
                self.left = SHARED_BYTES;
                let slab = Shared::new(self.slabs[run.slab].clone());
                self.shared = Some((run.slab, slab.clone()));
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

    /// Appends a document of `split`, which lies in the slab that is added next, with the cursor before it.
    pub(super) fn append(&mut self, split: Split, cursor: LaneCursor, item: Item) {
        let first = self.items.len();
        let is_run = self.runs.last().is_some_and(|run| {
            let of_run = (run.slab, run.cursor.skipped, run.cursor.documents + (first - run.first) as u64);
            of_run == (self.slabs.len(), cursor.skipped, cursor.documents)
        });
        if !is_run {
            self.runs.push(Run { first, slab: self.slabs.len(), split, cursor });
        }
        self.items.push(item);
    }

    /// Drops the documents that were appended since the last slab.
    pub(super) fn give_back(&mut self) {
        let slabs = self.slabs.len();
        while let Some(run) = self.runs.pop_if(|run| run.slab == slabs) {
            self.items.truncate(run.first);
        }
    }

    /// Adds what the documents lie in that were appended since the last slab, if there are any.
    pub(super) fn add(&mut self, slab: Slab) {
        if self.runs.last().is_some_and(|run| run.slab == self.slabs.len()) {
            self.slabs.push(Arc::new(slab));
        }
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
    pub(super) fn group(&self, window: Window, mut lease: Lease, cursor: &mut LaneCursor) -> Group {
        let mut group = Group::empty(After::More);
        let Some(first) = window.pieces.first() else { return group };
        let format = self.corpus.format(first.split.file);
        let mut texts = Texts::new(window.bytes, &window.pieces, format);
        group.items.reserve_exact(window.framed.len());
        'window: for piece in &window.pieces {
            let mut is_run = false;
            for framed in &window.framed[piece.frames.clone()] {
                let place = Found { piece, framed, format, epoch: cursor.epoch };
                match self.text(&mut texts, &place) {
                    Ok(Some((range, share))) => {
                        let Frame { start, mut next, .. } = framed.frame;
                        let mut ordinal = piece.ordinal;
                        if format.is_one_document() {
                            (ordinal, next) = (ordinal + 1, Place::default());
                        }
                        if !is_run {
                            let mut cursor = *cursor;
                            cursor.split = ordinal;
                            let first = group.items.len();
                            group.runs.push(Run { first, slab: 0, split: piece.split, cursor });
                            is_run = true;
                        }
                        group.items.push(Item { text_bytes: range.len(), range, start, next, share });
                        cursor.documents += 1;
                    }
                    Ok(None) => {}
                    Err(problem) => {
                        if let Err(error) = self.refuse(&place, problem, cursor.skipped) {
                            group.after = After::Failed(error);
                            break 'window;
                        }
                        cursor.skipped += 1;
                        is_run = false;
                    }
                }
            }
            group.passed.push((piece.ordinal, Counts::from(&*cursor)));
        }
        if !group.items.is_empty() {
            let text = texts.finish();
            lease.cover(text.capacity() + IDS_PER_BYTE * text.len());
            let lease = std::mem::replace(&mut lease, Lease::none());
            let files = self.corpus.files.clone();
            group.slabs.push(Arc::new(Slab { content: Content::Text(text), files, lease }));
        }
        group
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
            && self.draws(place.piece.split, place.epoch, framed.frame.start.byte, share * known);
        if !is_wanted {
            texts.give_back(text);
            return Ok(None);
        }
        Ok(Some((text, share * known)))
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
            None => self.corpus.files[place.piece.split.file as usize].unit,
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
        let (files, position) = (&self.corpus.files, place.piece.split.position(place.framed.frame.start));
        (files.path(position.file), files.line_or_none(position))
    }
}

/// One frame, and where it comes from.
#[derive(Clone, Copy)]
struct Found<'a> {
    piece: &'a Piece,
    framed: &'a Framed,
    format: &'a Format,
    epoch: u64,
}

impl Framed {
    /// Where the document lies in what was read, of which `len` bytes are held.
    fn held(&self, len: usize) -> Range<usize> {
        let end = usize::try_from(self.frame.len).map_or(len, |n| self.at.saturating_add(n).min(len));
        self.at..end
    }
}
