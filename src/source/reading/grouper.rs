//! From frames to documents, and the policy for those without a usable text.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::group::{Group, Item};
use super::texts::Texts;
use crate::budget::{IDS_PER_BYTE, Lease};
use crate::config::Oversize;
use crate::cursor::LaneCursor;
use crate::document::{CarriedColumns, Slab, SlabContent};
use crate::error::{Error, Unit};
use crate::meter::{Meter, Skipped};
use crate::order::uniform;
use crate::render::Outcome;
use crate::render::Renderer;
use crate::segment::Boundary;
use crate::source::carried::{FIRST_RECORDS, Metadata};
use crate::source::catalog::corpus::Corpus;
use crate::source::catalog::holdout::{Holdout, digest};
use crate::source::formats::{SourceFormat, decode};
use crate::source::problem::Problem;
use crate::source::split::{Lines, Split};
use crate::source::window::{Finding, Framed};

/// Which weighted documents are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    All,
    /// Each epoch's sample, drawn from this seed.
    Sample {
        seed: u64,
    },
}

/// What a frame holds.
enum Found {
    /// A document: the place of its text, the share of epochs that include it, and what comes along.
    Text(Range<usize>, f64, CarriedColumns),
    /// Nothing, or nothing for this stream.
    Nothing,
    /// A document that is too long, and skipped.
    TooLong,
}

/// Turns windows into groups.
#[derive(Debug)]
pub(crate) struct Grouper {
    pub(crate) corpus: Arc<Corpus>,
    pub(crate) holdout: Holdout,
    pub(crate) draw: Draw,
    pub(crate) meter: Arc<Meter>,
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
            Ok(Found::Text(range, share, columns)) => {
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
            Ok(Found::Nothing) => Ok(0),
            Ok(Found::TooLong) => {
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
        lease.cover(text.capacity() + IDS_PER_BYTE * text.len() + marks.id_bytes() + group.column_bytes());
        group.add(Slab { content: SlabContent::Text(text), marks, files: self.corpus.files.clone(), lease });
    }

    /// The document's text, or its record.
    fn text(&self, texts: &mut Texts, place: &FoundFrame<'_>) -> Result<Found, Problem> {
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
                    return Ok(Found::TooLong);
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
                return Ok(Found::TooLong);
            }
        }
        // Most sources carry nothing, and pay nothing for it.
        let columns = match format.carried.is_empty() {
            true => None,
            false => match self.columns(texts, place, bytes.clone(), known)? {
                Some(columns) => columns,
                None => return Ok(Found::Nothing),
            },
        };
        let (text, share) = texts.take(bytes, format)?;
        let share = share * known.map_or(1.0, |known| known.share);
        let is_wanted = !text.is_empty()
            && self.holdout.delivers(&texts.text()[text.clone()])
            && self.draws(place.split, place.epoch, framed.frame.start.byte, share);
        if !is_wanted {
            texts.give_back(text);
            return Ok(Found::Nothing);
        }
        Ok(Found::Text(text, share, columns))
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
        let carried = &place.format.carried;
        let columns = carried.columns(values, path, |nth, what| self.note_null(place, nth, what))?;
        if self.logs {
            for name in carried.missed() {
                let path = path.display();
                tracing::warn!(%path, column = %name, "none of the first {FIRST_RECORDS} records has the column {name:?}: it is \
                    null in batches; correct the name in columns, unless later records have it");
            }
        }
        Ok(columns)
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
                "column {name:?} is {what}: it is null in batches; name a field within it if it has some, or remove it from columns; \
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
        rendering: &Renderer,
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
                self.note(place, place.framed.frame.start.byte, 0, reason);
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
            if self.logs
                && let Some(message) = rendering.shortened(&rendered)
            {
                let (path, line) = self.place(place, 0);
                let (path, line) = (path.display(), Some(line).filter(|line| *line > 0));
                match self.corpus.files.unit(place.split.file) {
                    Unit::Row => tracing::warn!(%path, row = byte, "{message}"),
                    _ => tracing::warn!(%path, line, byte, "{message}"),
                }
            }
            let range = texts.append(&rendered);
            let sample = if number < documents { number as u32 } else { 0 };
            group.add_digest(digest);
            let item = Item { text_bytes: range.len(), range, sample, ..record };
            group.append(cursor, item, columns.clone());
            cursor.documents += 1;
        }
        Ok(documents)
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
        let unit = self.corpus.files.unit(place.split.file);
        // Within a row or a record of another kind there are no places.
        let offset = if unit == Unit::Byte { offset } else { 0 };
        let byte = stored.unwrap_or(place.framed.frame.start.byte + offset as u64);
        let on_error = place.format.on_error;
        if skipped < on_error.most() {
            self.note(place, byte, offset, &what);
            return Ok(());
        }
        let (problem, remedy) = on_error.refusal(&what, &remedy);
        let (path, line) = self.place(place, offset);
        let unit = match stored {
            Some(_) => Unit::Byte,
            None => unit,
        };
        Err(Error::Document { path: path.to_owned(), line, unit, byte, problem, remedy })
    }

    /// Counts a skipped document whose fault is at `byte`, `offset` bytes after its first.
    fn note(&self, place: &FoundFrame<'_>, byte: u64, offset: usize, reason: &str) {
        self.meter.skip(self.logs, reason, |reason| {
            let ((path, line), unit) = (self.place(place, offset), self.corpus.files.unit(place.split.file));
            Skipped { path: path.display().to_string(), line, unit, byte, reason }
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
