//! The documents of one read: from frames to texts, and the policy for documents without a usable one.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::texts::Texts;
use crate::budget::{IDS_PER_BYTE, Lease, Moving};
use crate::config::{OnError, Oversize};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{CarriedColumns, Document, DocumentGroup, SharedSlab, Slab, SlabContent, SplitEvent};
use crate::error::{Error, Unit};
use crate::files::Position;
use crate::meter::{Meter, Skipped};
use crate::order::uniform;
use crate::render::Outcome;
use crate::source::carried::Metadata;
use crate::source::catalog::corpus::Corpus;
use crate::source::catalog::holdout::{Holdout, digest};
use crate::source::formats::{SourceFormat, decode};
use crate::source::framing::Boundary;
use crate::source::problem::Problem;
use crate::source::rendering::Rendering;
use crate::source::split::{Lines, Split};
use crate::source::window::{Finding, Framed};

/// How many bytes of a slab share one reference count: some documents are dropped while others are handed out.
const SHARED_BYTES: usize = 32 << 10;

/// Documents from a few slabs, in order, and the state after them.
#[derive(Debug)]
pub(crate) struct Group {
    slabs: Vec<Arc<Slab>>,
    /// The slab of the documents that are being handed out, its number, and how much more of it they may share.
    shared: Option<(usize, Arc<SharedSlab>)>,
    left: usize,
    items: Vec<Item>,
    /// The columns that come along with each document, up to the last one that has some.
    columns: Vec<CarriedColumns>,
    /// The digest of each document's record, if these were rendered for token shards.
    digests: Vec<u64>,
    origins: Vec<Sited>,
    runs: Vec<CursorRun>,
    next: usize,
    run: usize,
    pub(crate) after: GroupEnd,
    /// What happened between the documents, each with the number of documents before it.
    pub(crate) events: VecDeque<(usize, SplitEvent)>,
    /// Kept until the last document has been handed out or tokenized.
    pub(crate) moving: Option<Moving>,
}

/// The state after a group.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    More,
    End,
    Failed(Error),
}

/// One document: where it is in the slab, and where it begins in its file.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) range: Range<usize>,
    pub(crate) text_bytes: usize,
    pub(crate) start: Boundary,
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// The number of its `SplitOrigin`.
    pub(crate) of: u32,
    /// How many documents its record has up to it, if there are more; 0 for the last one.
    pub(crate) sample: u32,
}

/// An origin, and the number of the slab that holds its documents.
#[derive(Clone, Copy, Debug)]
struct Sited {
    slab: usize,
    origin: SplitOrigin,
}

/// The common properties of the documents of one split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SplitOrigin {
    pub(crate) split: Split,
    /// The ordinal that their cursors name, among the lane's splits of the epoch.
    pub(crate) ordinal: u64,
}

/// Documents from `first` on whose cursors differ only in their places, and in the count, which goes up by one.
#[derive(Debug)]
struct CursorRun {
    first: usize,
    cursor: LaneCursor,
}

impl Group {
    /// No documents.
    pub(crate) fn empty(after: GroupEnd) -> Self {
        Self {
            slabs: Vec::new(),
            shared: None,
            left: 0,
            items: Vec::new(),
            columns: Vec::new(),
            digests: Vec::new(),
            origins: Vec::new(),
            runs: Vec::new(),
            next: 0,
            run: 0,
            after,
            events: VecDeque::new(),
            moving: None,
        }
    }

    /// An empty group with room for `documents`.
    pub(crate) fn with_room(documents: usize) -> Self {
        Self { items: Vec::with_capacity(documents), ..Self::empty(GroupEnd::More) }
    }

    /// The number of documents, and the bytes of their texts.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.items.len(), self.items.iter().map(|item| item.text_bytes).sum())
    }

    /// The length of the texts that were added last, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        match self.slabs.last().map(|slab| &slab.content) {
            Some(SlabContent::Text(text)) => text.len(),
            Some(SlabContent::Ids(_)) | None => 0,
        }
    }

    /// Whether documents are left.
    pub(crate) fn has_next(&self) -> bool {
        self.next < self.items.len()
    }

    /// Returns the next document. It is made where it is wanted: being moved would cost as much again.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Tracked<Document>> {
        let item = self.items.get(self.next)?;
        while self.runs.get(self.run + 1).is_some_and(|run| run.first <= self.next) {
            self.run += 1;
        }
        let (run, Sited { slab: number, origin }) = (&self.runs[self.run], self.origins[item.of as usize]);
        self.next += 1;
        let mut cursor = run.cursor;
        (cursor.split, cursor.byte, cursor.sample) =
            (origin.ordinal, item.start.byte, u64::from(item.sample));
        cursor.documents += (self.next - run.first) as u64;
        let position = origin.split.position(item.start);
        let slab = match &self.shared {
            Some((shared, slab)) if *shared == number && self.left >= item.range.len() => slab.clone(),
            _ => {
                self.left = SHARED_BYTES;
                let slab = SharedSlab::new(self.slabs[number].clone());
                self.shared = Some((number, slab.clone()));
                slab
            }
        };
        self.left = self.left.saturating_sub(item.range.len());
        let columns = self.columns.get(self.next - 1).cloned().flatten();
        let (range, text_bytes) = (item.range.clone(), item.text_bytes);
        Some(Tracked::new(Document::in_slab(slab, range, text_bytes, position, columns), cursor))
    }

    /// All of its documents, and the state after them.
    pub(crate) fn into_documents(mut self) -> DocumentGroup {
        let mut documents = Vec::with_capacity(self.items.len());
        while let Some(document) = self.pop() {
            documents.push(document);
        }
        let error = match self.after {
            GroupEnd::Failed(error) => Some(error),
            GroupEnd::More | GroupEnd::End => None,
        };
        DocumentGroup { documents, events: self.events, error, moving: self.moving }
    }

    /// The notes on the document that was handed out last, and the digest of its record if it was rendered.
    pub(crate) fn last(&self) -> Option<(&Item, Option<u64>)> {
        let last = self.next.checked_sub(1)?;
        Some((self.items.get(last)?, self.digests.get(last).copied()))
    }

    /// Adds an origin whose documents are in slab `slab`, and returns its number.
    pub(crate) fn origin(&mut self, slab: usize, origin: SplitOrigin) -> u32 {
        self.origins.push(Sited { slab, origin });
        self.origins.len() as u32 - 1
    }

    /// The number of the slab that is added next.
    pub(crate) fn next_slab(&self) -> usize {
        self.slabs.len()
    }

    /// Appends a document, and the columns that come along with it. `cursor` is the one before it.
    #[inline]
    pub(crate) fn append(&mut self, cursor: &LaneCursor, item: Item, columns: CarriedColumns) {
        let first = self.items.len();
        let goes_on = self.runs.last().is_some_and(|run| {
            let counts = (run.cursor.skipped, run.cursor.documents + (first - run.first) as u64);
            counts == (cursor.skipped, cursor.documents)
        });
        if !goes_on {
            self.runs.push(CursorRun { first, cursor: *cursor });
        }
        self.items.push(item);
        if columns.is_some() {
            self.carry(first, columns);
        }
    }

    /// Has columns come along with document `nth`.
    #[inline(never)]
    pub(crate) fn carry(&mut self, nth: usize, columns: CarriedColumns) {
        if self.columns.len() <= nth {
            self.columns.resize(nth + 1, None);
        }
        self.columns[nth] = columns;
    }

    /// Counts a document of origin `of` that begins at `start` and is skipped.
    pub(crate) fn skip(&mut self, cursor: &mut LaneCursor, of: u32, start: Boundary) {
        cursor.skipped += 1;
        let split = self.origins[of as usize].origin.ordinal;
        self.note(SplitEvent::Skip { split, start: (start.byte, start.line) });
    }

    /// Counts a document that is left out, and that `on_error` does not count.
    #[cold]
    pub(crate) fn leave_out(&mut self, cursor: &mut LaneCursor, of: u32, start: Boundary) {
        cursor.skipped_otherwise += 1;
        // Documents do not compare this number, so that it costs them nothing: a new run begins with it here.
        let (first, cursor) = (self.items.len(), *cursor);
        self.runs.pop_if(|run| run.first == first);
        self.runs.push(CursorRun { first, cursor });
        let split = self.origins[of as usize].origin.ordinal;
        self.note(SplitEvent::LeftOut { split, start: (start.byte, start.line) });
    }

    /// Counts a document that its task leaves out. With the digest of its record, for token shards, it has a place without a
    /// text: whether it counts depends on who reads them.
    #[cold]
    fn leave_out_record(
        &mut self,
        cursor: &mut LaneCursor,
        item: Item,
        columns: &CarriedColumns,
        digest: Option<u64>,
    ) {
        if digest.is_none() {
            return self.leave_out(cursor, item.of, item.start);
        }
        self.digests.extend(digest);
        self.append(cursor, item, columns.clone());
        cursor.documents += 1;
    }

    /// Notes an event after the documents so far.
    pub(crate) fn note(&mut self, event: SplitEvent) {
        self.events.push_back((self.items.len(), event));
    }

    /// Returns the next event, if it comes before the next document.
    pub(crate) fn pop_event(&mut self) -> Option<SplitEvent> {
        self.events.pop_front_if(|(before, _)| *before <= self.next).map(|(_, event)| event)
    }

    /// Adds a slab, for documents that were appended.
    pub(crate) fn add(&mut self, slab: Slab) {
        self.slabs.push(Arc::new(slab));
    }
}

impl Split {
    pub(crate) fn position(&self, boundary: Boundary) -> Position {
        let (line, from) = match self.lines {
            Lines::Unknown => (0, 0),
            Lines::From(byte) => (boundary.line + 1, byte),
            Lines::FromFile => (boundary.line + 1, boundary.byte),
        };
        Position { file: self.file, line, byte: boundary.byte, from }
    }
}

/// Which weighted documents are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    All,
    /// Each epoch's sample, drawn from this seed.
    Sample {
        seed: u64,
    },
}

/// The place of a document's text, the share of epochs that include it, and what comes along.
type FoundText = (Range<usize>, f64, CarriedColumns);

/// Why a document has no text to deliver.
enum NoText {
    /// It is blank, or not for this stream.
    NotWanted,
    /// It is too long, and skipped.
    TooLong,
}

/// Turns windows into groups.
#[derive(Debug)]
pub(crate) struct Grouper {
    pub(crate) corpus: Arc<Corpus>,
    pub(crate) holdout: Holdout,
    pub(crate) draw: Draw,
    pub(crate) meter: Option<Arc<Meter>>,
    /// Whether skipped documents are logged as warnings.
    pub(crate) logs: bool,
}

impl Grouper {
    /// Appends one document of origin `of`, or those that its record becomes, or leaves it out. `cursor` counts them.
    #[inline]
    pub(crate) fn deliver(
        &self,
        texts: &mut Texts,
        found: &FoundFrame<'_>,
        of: u32,
        cursor: &mut LaneCursor,
        group: &mut Group,
    ) -> Result<(), Error> {
        let start = found.framed.frame.start;
        let documents = match self.text(texts, found) {
            Ok(Ok((range, share, columns))) => {
                let item = Item { text_bytes: range.len(), range, start, share, of, sample: 0 };
                match &found.format.rendering {
                    Some(rendering) => self.rendered(texts, found, (item, columns), rendering, cursor, group),
                    None => {
                        group.append(cursor, item, columns);
                        cursor.documents += 1;
                        Ok(1)
                    }
                }
            }
            Ok(Err(NoText::NotWanted)) => Ok(0),
            Ok(Err(NoText::TooLong)) => {
                group.leave_out(cursor, of, start);
                Ok(0)
            }
            Err(problem) => Err(problem),
        };
        match documents {
            Ok(documents) if found.before > 0 && documents <= found.before => {
                Err(no_sample(self.corpus.files.path(found.split.file), start.byte, found.before))
            }
            Ok(_) => Ok(()),
            Err(problem) => {
                self.refuse(found, problem, cursor.skipped)?;
                group.skip(cursor, of, start);
                Ok(())
            }
        }
    }

    /// Adds the slab that holds the texts. `lease` covers the texts and their ids.
    pub(crate) fn add_text(&self, texts: Texts, mut lease: Lease, group: &mut Group) {
        let (text, marks) = texts.finish();
        let columns: usize = group.columns.iter().flatten().map(|columns| columns.bytes()).sum();
        lease.cover(text.capacity() + IDS_PER_BYTE * text.len() + marks.id_bytes() + columns);
        group.add(Slab { content: SlabContent::Text(text), marks, files: self.corpus.files.clone(), lease });
    }

    /// The document's text, or its record.
    fn text(&self, texts: &mut Texts, place: &FoundFrame<'_>) -> Result<Result<FoundText, NoText>, Problem> {
        let FoundFrame { framed, format, .. } = *place;
        let known = match framed.finding.as_deref() {
            Some(Finding::Problem(problem)) => return Err(problem.clone()),
            Some(Finding::Metadata(metadata)) => Some(metadata),
            None => None,
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
                    self.note(place, framed.frame.start.byte, 0, &what);
                    return Ok(Err(NoText::TooLong));
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
                self.note(
                    place,
                    framed.frame.start.byte,
                    0,
                    &format!("{what}, and even its first character does not fit"),
                );
                return Ok(Err(NoText::TooLong));
            }
        }
        // Most sources carry nothing, and pay nothing for it.
        let columns = match format.carried.is_empty() {
            true => None,
            false => match self.columns(texts, place, bytes.clone(), known)? {
                Some(columns) => columns,
                None => return Ok(Err(NoText::NotWanted)),
            },
        };
        let (text, share) = texts.take(bytes, format)?;
        let share = share * known.map_or(1.0, |known| known.share);
        let is_wanted = !text.is_empty()
            && self.holdout.delivers(&texts.text()[text.clone()])
            && self.draws(place.split, place.epoch, framed.frame.start.byte, share);
        if !is_wanted {
            texts.give_back(text);
            return Ok(Err(NoText::NotWanted));
        }
        Ok(Ok((text, share, columns)))
    }

    /// The columns that come along with a document, which is in `bytes`; `None` if `where` leaves it out.
    #[inline(never)]
    fn columns(
        &self,
        texts: &Texts,
        place: &FoundFrame<'_>,
        bytes: Range<usize>,
        known: Option<&Metadata>,
    ) -> Result<Option<CarriedColumns>, Problem> {
        let values = match known.filter(|known| !known.values.is_empty()) {
            Some(known) => known.values.clone(),
            None => texts.values(bytes, place.format)?,
        };
        let path = self.corpus.files.path(place.split.file);
        place.format.carried.columns(values, path, |nth, what| self.note_null(place, nth, what))
    }

    /// Says that a value of column `nth` came along as null. Many may, so only the first of each column is a warning.
    fn note_null(&self, place: &FoundFrame<'_>, nth: usize, what: &str) {
        if !self.logs {
            return;
        }
        let carried = &place.format.carried;
        let (name, count, byte) =
            (&carried.names()[nth], carried.count_null(nth), place.framed.frame.start.byte);
        let (path, line) = self.place(place, 0);
        let (path, line) = (path.display(), Some(line).filter(|line| *line > 0));
        match count {
            1 => tracing::warn!(
                %path, line, byte, column = %name,
                "column {name:?} is {what}: it is null in batches; name a field within it, or remove it from columns; \
                 others like it are counted, and logged as debug messages"
            ),
            _ => {
                tracing::debug!(%path, line, byte, column = %name, count, "a value is null in batches: it is {what}")
            }
        }
    }

    /// Appends the documents of a record, which was appended to the texts last and has these columns. Returns how many it
    /// has.
    fn rendered(
        &self,
        texts: &mut Texts,
        place: &FoundFrame<'_>,
        (record, columns): (Item, CarriedColumns),
        rendering: &Rendering,
        cursor: &mut LaneCursor,
        group: &mut Group,
    ) -> Result<u64, Problem> {
        let (file, byte) = (self.corpus.number_in_source(place.split.file), record.start.byte);
        let text = &texts.text()[record.range.clone()];
        // Whoever prepares token shards holds nothing out, and stores for others what decides it.
        let digest = (self.draw == Draw::All).then(|| digest(text.as_bytes()));
        let outcomes = rendering.render(text, file, byte);
        texts.give_back(record.range);
        let outcomes = outcomes?;
        let documents = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Text(_))).count() as u64;
        // What is left out comes before the documents of its record, so that a resume among these counts it once.
        if documents < outcomes.len() as u64 && place.before == 0 {
            let end = texts.text().len();
            for outcome in &outcomes {
                let Outcome::LeftOut(reason) = outcome else { continue };
                self.leave_out(place, reason, rendering);
                let item = Item { range: end..end, text_bytes: 0, sample: 0, ..record };
                group.leave_out_record(cursor, item, &columns, digest);
            }
        }
        let mut number = 0;
        for outcome in outcomes {
            let Outcome::Text(rendered) = outcome else { continue };
            number += 1;
            if number <= place.before {
                continue;
            }
            let range = texts.append(&rendered);
            let sample = if number < documents { number as u32 } else { 0 };
            group.digests.extend(digest);
            let item = Item { text_bytes: range.len(), range, sample, ..record };
            group.append(cursor, item, columns.clone());
            cursor.documents += 1;
        }
        Ok(documents)
    }

    /// Counts a document that its task leaves out. Many may be, so only the first for each reason is a warning.
    fn leave_out(&self, place: &FoundFrame<'_>, reason: &str, rendering: &Rendering) {
        let byte = place.framed.frame.start.byte;
        if self.logs && rendering.is_news(reason) {
            self.warn(
                place,
                byte,
                0,
                &format!("{reason}; others like it are counted, and logged as debug messages"),
            );
        } else if self.logs {
            let path = self.corpus.files.path(place.split.file).display();
            tracing::debug!(%path, byte, reason, "document skipped");
        }
        self.count(place, byte, 0, reason);
    }

    /// Whether the epoch's sample includes the document at `byte` of a split, which is in `share` of all epochs.
    pub(crate) fn draws(&self, split: Split, epoch: u64, byte: u64, share: f64) -> bool {
        let Draw::Sample { seed } = self.draw else { return true };
        let file = || u64::from(self.corpus.number_in_source(split.file));
        let key = || [seed, epoch, file(), byte];
        share >= 1.0 || uniform("millstream sample", &key()) < share
    }

    /// Skips a bad document, or fails if no more may be skipped.
    fn refuse(&self, place: &FoundFrame<'_>, problem: Problem, skipped: u64) -> Result<(), Error> {
        let Problem { offset, stored, what, remedy } = problem;
        let byte = stored.unwrap_or(place.framed.frame.start.byte + offset as u64);
        let (problem, remedy) = match place.format.on_error {
            OnError::Skip(n) if skipped < n => {
                self.note(place, byte, offset, &what);
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
        let (path, line) = self.place(place, offset);
        let unit = match stored {
            Some(_) => Unit::Byte,
            None => self.corpus.files[place.split.file as usize].unit,
        };
        Err(Error::Document { path: path.to_owned(), line, unit, byte, problem, remedy })
    }

    /// Logs and counts a skipped document whose fault is at `byte`, `offset` bytes after its first.
    fn note(&self, place: &FoundFrame<'_>, byte: u64, offset: usize, reason: &str) {
        if self.logs {
            self.warn(place, byte, offset, reason);
        }
        self.count(place, byte, offset, reason);
    }

    fn warn(&self, place: &FoundFrame<'_>, byte: u64, offset: usize, reason: &str) {
        let (path, line) = self.place(place, offset);
        let line = Some(line).filter(|line| *line > 0);
        tracing::warn!(path = %path.display(), line, byte, reason, "document skipped");
    }

    fn count(&self, place: &FoundFrame<'_>, byte: u64, offset: usize, reason: &str) {
        let Some(meter) = &self.meter else { return };
        meter.skip(|| {
            let ((path, line), unit) = (self.place(place, offset), self.corpus.files.unit(place.split.file));
            Skipped { path: path.display().to_string(), line, unit, byte, reason: reason.to_owned() }
        });
    }

    /// The file of a document, and its line: its first line or, in a table, the line with the fault, which is `offset`
    /// bytes after the document's first.
    fn place(&self, place: &FoundFrame<'_>, offset: usize) -> (&Path, u64) {
        let mut start = place.framed.frame.start;
        if place.split.lines == Lines::FromFile && offset > 0 {
            start = Boundary { byte: start.byte + offset as u64, line: 0 };
        }
        let (files, position) = (&self.corpus.files, place.split.position(start));
        (files.path(position.file), files.line_or_none(position))
    }
}

/// One frame, and where it comes from.
#[derive(Clone, Copy)]
pub(crate) struct FoundFrame<'a> {
    pub(crate) split: Split,
    pub(crate) framed: &'a Framed,
    pub(crate) format: &'a SourceFormat,
    pub(crate) epoch: u64,
    /// How many documents of its record were delivered before.
    pub(crate) before: u64,
}

impl Framed {
    /// Where the document is in the `len` bytes that are held.
    fn held(&self, len: usize) -> Range<usize> {
        let end = usize::try_from(self.frame.len).map_or(len, |n| self.at.saturating_add(n).min(len));
        self.at..end
    }
}

/// The error for a cursor that says that `sample` documents of a record were delivered, and not all.
pub(crate) fn no_sample(path: &Path, byte: u64, sample: u64) -> Error {
    let problem = format!("{} (byte {byte}): no more than {sample} documents begin there", path.display());
    Error::resume(problem)
}
