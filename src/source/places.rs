//! Where documents stand: from a line of a file to the records that begin there, and from a record to its place in the
//! order of an epoch.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::{ControlFlow, Range};

use super::Source;
use super::catalog::holdout::Holdout;
use super::content::Content;
use super::formats::Opened;
use super::formats::records::{Records, Stop};
use super::framing::{Frame, Shape};
use super::interleave::{self, DocumentKey};
use super::lane::Lane;
use super::reading::document_order::{DocumentNumber, DocumentOrder};
use super::reading::grouper::Draw;
use super::reading::splits::{SplitItem, SplitReader};
use super::split::Lines;
use super::window::Window;
use crate::cursor::LaneCursor;
use crate::error::Result;
use crate::files::Position;
use crate::segment::Boundary;
use crate::store::{CancelToken, Cancellable};

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The records that a number names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Where they begin: bytes or rows. Several documents may begin on one line.
    pub(crate) begins: Vec<u64>,
    /// Where the last document before them begins, and its line, if it is known.
    pub(crate) before: Option<(u64, u64)>,
}

/// What becomes of a record in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Trained,
    HeldOut,
    Skipped,
    /// It has no text, or `where` or its task leaves it out.
    LeftOut,
}

/// How much of a document comes up to a place of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpTo {
    Nothing,
    /// Some of the documents of its record.
    Part,
    All,
}

/// The place of a document in the order of one epoch.
#[derive(Debug)]
pub(crate) struct EpochPlace {
    pub(crate) epoch: u64,
    /// The lane that reads it.
    pub(crate) lane: usize,
    order: Order,
}

#[derive(Debug)]
enum Order {
    /// The record that begins at `byte` of the lane's split `ordinal`.
    Splits { ordinal: u64, byte: u64, dealt: Box<Dealt> },
    /// All documents are shuffled together, and this is the document's place in the lane's order.
    Documents(u64),
}

/// The splits of a lane in an epoch.
#[derive(Debug)]
struct Dealt {
    source: Source,
    splits: Vec<u32>,
    /// How many are read side by side.
    interleave: usize,
}

impl EpochPlace {
    /// How much of the document comes up to `at`, a place of the same source in its lane. Of a record with several
    /// documents, all of them count.
    pub(crate) fn up_to(&self, at: &LaneCursor) -> UpTo {
        if at.documents == 0 || at.epoch < self.epoch {
            return UpTo::Nothing;
        }
        if at.epoch > self.epoch {
            return UpTo::All;
        }
        match &self.order {
            Order::Documents(place) if at.split < *place => UpTo::Nothing,
            Order::Documents(_) => UpTo::All,
            Order::Splits { ordinal, byte, dealt } => dealt.up_to(at, *ordinal, *byte).unwrap_or(UpTo::Part),
        }
    }
}

impl Dealt {
    /// `None` if there are no such splits.
    fn up_to(&self, at: &LaneCursor, ordinal: u64, byte: u64) -> Option<UpTo> {
        let group = |ordinal| interleave::group(self.splits.len() as u64, self.interleave, ordinal).start;
        let (at_record, record) = (self.key(at.split, at.byte)?, self.key(ordinal, byte)?);
        let at_key = match at.sample {
            0 => at_record,
            sample => DocumentKey { sample, ..at_record },
        };
        let (at, place) = ((group(at.split), at_key), group(ordinal));
        Some(if at >= (place, record) {
            UpTo::All
        } else if at < (place, DocumentKey { sample: 0, ..record }) {
            UpTo::Nothing
        } else {
            UpTo::Part
        })
    }

    /// The key of the record that begins at `byte` of split `ordinal`.
    fn key(&self, ordinal: u64, byte: u64) -> Option<DocumentKey> {
        let number = *self.splits.get(usize::try_from(ordinal).ok()?)?;
        Some(self.source.corpus.scale(number).key(ordinal, byte))
    }
}

impl Source {
    pub(crate) fn is_one_document(&self, file: u32) -> bool {
        self.corpus.is_one_document(file)
    }

    /// The places in `epoch` of the documents of the record that begins at `byte` of file `file`, where documents are dealt
    /// as `lane` says, whichever lane that is. The file must be one of the dealt ones.
    pub(crate) fn places_in_epoch(
        &self,
        lane: Lane,
        file: u32,
        byte: u64,
        epoch: u64,
    ) -> Result<Vec<EpochPlace>> {
        let splits = self.corpus.splits(self.dealt.clone());
        let number = self.split_at(file, byte);
        if lane.shuffle_global {
            let ends = self.corpus.shard_set(splits.start).map(|shards| shards.document_ends().clone());
            let order = DocumentOrder::new(ends.unwrap_or_default(), lane, epoch);
            let opener = self.corpus.unplanned(Cancellable::never());
            let Some(tokens) = self.corpus.open_tokens(number, &opener)? else { return Ok(Vec::new()) };
            let numbers = tokens.find(byte)?..tokens.partition_point(|begin| begin <= byte)?;
            let split = number - splits.start;
            let places = numbers.map(|nth| order.find(DocumentNumber { split, nth }));
            return Ok(places
                .map(|(lane, place)| EpochPlace { epoch, lane, order: Order::Documents(place) })
                .collect());
        }
        let (of, ordinal) = lane.dealt_to(splits.clone(), number, epoch);
        let splits = Lane { lane: of, ..lane }.deal(splits, epoch);
        let interleave = if self.corpus.can_interleave(self.dealt.clone()) { lane.interleave } else { 1 };
        let dealt = Box::new(Dealt { source: self.clone(), splits, interleave });
        Ok(vec![EpochPlace { epoch, lane: of, order: Order::Splits { ordinal, byte, dealt } }])
    }

    /// The split of file `file` whose documents begin around `byte`.
    fn split_at(&self, file: u32, byte: u64) -> u32 {
        let Range { start, end } = self.corpus.splits(file as usize..file as usize + 1);
        let is_behind = |nth: &u32| self.corpus.split(*nth).begin > byte;
        (start + 1..end).find(is_behind).unwrap_or(end) - 1
    }

    /// The records of file `file` that begin on line `number`, counted from 1. In a file whose lines mean nothing or cannot
    /// be counted: the record that begins at byte or row `number`. Reads the file up to there on the calling thread.
    pub(crate) fn named(&self, file: u32, number: u64) -> Result<Named> {
        if self.corpus.has_shards(file as usize..file as usize + 1) {
            return self.named_in_shards(file, number);
        }
        match self.corpus.open(file, &self.corpus.unplanned(Cancellable::never()))? {
            Opened::Text(mut content, shape) => on_line(&mut content, shape, number),
            Opened::Records(mut records) => self.named_record(&mut *records, file, number),
        }
    }

    fn named_record(&self, records: &mut dyn Records, file: u32, number: u64) -> Result<Named> {
        let mut named = Named::default();
        let (from, places) = match self.bytes_of_line(file, number) {
            Some(bytes) => (self.corpus.split(self.split_at(file, bytes.start)).begin, bytes),
            None if records.problem(number)?.is_some() => return Ok(named),
            None => (number, number..number.saturating_add(1)),
        };
        let mut at = from;
        while at < places.end {
            let mut window = Window::default();
            let stop = records.take(at, places.end, READ_BYTES, &mut window)?;
            for framed in &window.framed {
                let start = framed.frame.start;
                named.add(start.byte, self.is_named(file, start, number, &places), &places);
            }
            match stop {
                Stop::At(next) if next > at => at = next,
                Stop::At(_) | Stop::End => break,
            }
        }
        Ok(self.with_line(file, named))
    }

    fn named_in_shards(&self, file: u32, number: u64) -> Result<Named> {
        let opener = self.corpus.unplanned(Cancellable::never());
        let (mut named, places) = (Named::default(), self.bytes_of_line(file, number));
        for nth in self.corpus.splits(file as usize..file as usize + 1) {
            let split = self.corpus.split(nth);
            let Some(tokens) = self.corpus.open_tokens(nth, &opener)? else { continue };
            for document in 0..tokens.documents() {
                let start = tokens.entry(document)?.start;
                let Boundary { byte, line } = start;
                match &places {
                    Some(places) => {
                        named.add(byte, self.is_named(file, start, number, places), places);
                    }
                    // The file is compressed or gone: what the shards say of its lines is left.
                    None if split.lines == Lines::From(0) => named.add(byte, line + 1 == number, &(0..0)),
                    None => named.add(byte, byte == number, &(number..number)),
                }
            }
        }
        Ok(self.with_line(file, named))
    }

    /// Whether the record that begins at `start` is on line `number`, whose bytes are `places`.
    fn is_named(&self, file: u32, start: Boundary, number: u64, places: &Range<u64>) -> bool {
        let Boundary { byte, line } = start;
        match self.corpus.split(self.split_at(file, byte)).lines {
            // Blank lines come before its first.
            Lines::FromFile if line > 0 => {
                let first = Position { file, line: line + 1, byte, from: byte };
                self.files().line_or_none(first) == number
            }
            _ => places.contains(&byte),
        }
    }

    /// The same, with the line of the document before.
    fn with_line(&self, file: u32, named: Named) -> Named {
        let line = |byte| {
            let lines = self.corpus.split(self.split_at(file, byte)).lines;
            let from = if lines == Lines::Unknown { return 0 } else { byte };
            self.files().line_or_none(Position { file, line: 1, byte, from })
        };
        Named { before: named.before.map(|(byte, _)| (byte, line(byte))), ..named }
    }

    /// The bytes of line `line`; `None` where lines mean nothing or cannot be counted.
    fn bytes_of_line(&self, file: u32, line: u64) -> Option<Range<u64>> {
        let first = self.corpus.splits(file as usize..file as usize + 1).start;
        let is_counted = self.corpus.split(first).lines != Lines::Unknown
            && !self.files()[file as usize].location.is_remote()
            && self.files().line(Position { file, line: 1, byte: 1, from: 1 }).is_ok();
        let mut text = BufReader::new(fs::File::open(self.files().path(file)).ok().filter(|_| is_counted)?);
        let (mut range, mut lines) = (0..0, 0);
        while lines < line {
            let end = text.skip_until(b'\n').ok()? as u64;
            if end == 0 {
                return Some(u64::MAX - 1..u64::MAX);
            }
            (range, lines) = (range.end..range.end + end, lines + 1);
        }
        Some(range)
    }

    /// What becomes in training of the record that begins at `byte` of file `file`. Reads its split up to there on the
    /// calling thread.
    pub(crate) fn fate(&self, file: u32, byte: u64, holdout: Holdout) -> Result<Fate> {
        Ok(match self.fate_on(file, byte, holdout)? {
            Fate::LeftOut if holdout.fraction > 0.0 => match self.fate_on(file, byte, Holdout::default())? {
                Fate::Trained => Fate::HeldOut,
                other => other,
            },
            fate => fate,
        })
    }

    fn fate_on(&self, file: u32, byte: u64, holdout: Holdout) -> Result<Fate> {
        let (cancel, cancellable) = CancelToken::new();
        let (grouper, number) = (self.clone().quiet().grouper(holdout, Draw::All), self.split_at(file, byte));
        let opener = self.corpus.unplanned(cancellable);
        let mut documents = SplitReader::new(grouper, number, opener, self.slab_bytes, cancel);
        // A byte order mark may come before the only document of a file.
        let is_it = |begin: u64| begin == byte || self.is_one_document(file);
        while let Some(item) = documents.next()? {
            let (begin, fate) = match item {
                SplitItem::Document(document) => (document.start.byte, Fate::Trained),
                SplitItem::Skipped(start) => (start.byte, Fate::Skipped),
                // Its record may have other documents.
                SplitItem::LeftOut(_) => continue,
            };
            if is_it(begin) {
                return Ok(fate);
            }
            if begin > byte {
                break;
            }
        }
        Ok(Fate::LeftOut)
    }
}

impl Named {
    /// Notes the next record, which begins at `begin` and is one of those that are looked for, or not. These are around
    /// `places`.
    fn add(&mut self, begin: u64, is_named: bool, places: &Range<u64>) {
        if is_named && self.begins.last() != Some(&begin) {
            self.begins.push(begin);
        } else if self.begins.is_empty() && begin < places.start {
            self.before = Some((begin, 0));
        }
    }
}

/// The document of a text that begins on line `line`.
fn on_line(content: &mut Content, shape: Shape, line: u64) -> Result<Named> {
    let mut named = Named::default();
    content.frames(shape, u64::MAX, |Frame { start, .. }| match start.line + 1 {
        found if found < line => {
            named.before = Some((start.byte, found));
            ControlFlow::Continue(())
        }
        found => {
            named.begins.extend((found == line).then_some(start.byte));
            ControlFlow::Break(())
        }
    })?;
    Ok(named)
}
