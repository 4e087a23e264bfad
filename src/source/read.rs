//! One lane's reading, a slab at a time: everything but the waiting.
//!
//! A [`Reader`] stands at a cursor. Each [`step`](Reader::step) reads one slab from there: the rest of a
//! file, or as much of it as fits, or many small files. The documents that end in it leave as one group, and
//! what is left of the last is read again with the next slab, so that nothing is held between steps, and
//! every document lies in one piece. Only a document longer than a slab is held while it grows, and beyond
//! its bound no more of it than that.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::deal::deal;
use super::framing::{Frame, Framer, Place, Shape, bom_len};
use super::group::{After, Framed, Group, Grouping, Piece, Window};
use super::{Corpus, Lane};
use crate::budget::{IDS_PER_BYTE, Lease};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};

/// How many documents a group has at most, so that slabs of the shortest lines do not grow tenfold by what is
/// noted of each.
const GROUP_DOCUMENTS: usize = 8192;

/// How many files a slab has at most: opening empty ones takes time too.
const GROUP_FILES: usize = 512;

/// How many epochs of an endless lane may give nothing, one after the other. Another deal may bring documents
/// that are not all held out or bad; so many in a row are a mistake.
const MOST_EMPTY_EPOCHS: u32 = 64;

/// Reads one lane.
#[derive(Debug)]
pub(super) struct Reader {
    grouping: Grouping,
    lane: Lane,
    slab_bytes: usize,
    at: LaneCursor,
    /// The splits of epoch `dealt`.
    deal: Vec<u32>,
    dealt: Option<u64>,
    /// How many documents there were when this epoch began, unless it began before this reader.
    epoch_began: Option<u64>,
    /// How many epochs in a row gave nothing.
    empty_epochs: u32,
    open: Option<Open>,
    begun: Option<Begun>,
}

/// The file that was read last, and where in it.
#[derive(Debug)]
struct Open {
    number: u32,
    file: fs::File,
    at: u64,
}

/// A document longer than a slab, as far as it is read.
#[derive(Debug)]
struct Begun {
    framer: Framer,
    /// What is held of it.
    bytes: Vec<u8>,
    /// Whether it is longer than what may be held.
    is_long: bool,
    /// How far the file is read.
    read: u64,
    lease: Lease,
}

impl Reader {
    pub(super) fn new(grouping: Grouping, lane: Lane, slab_bytes: usize, start: &LaneCursor) -> Self {
        let at = start.upstream(0);
        let is_start = at.split == 0 && at.byte == 0;
        Self {
            grouping,
            lane,
            slab_bytes,
            at,
            deal: Vec::new(),
            dealt: None,
            epoch_began: is_start.then_some(at.documents),
            empty_epochs: 0,
            open: None,
            begun: None,
        }
    }

    /// Whether a document is read in part, so that reading must go on whatever the budget.
    pub(super) fn is_within_document(&self) -> bool {
        self.begun.is_some()
    }

    /// Reads one slab; `lease` is for its text and ids. The group may have no documents.
    pub(super) fn step(&mut self, lease: Lease) -> Group {
        let group = match self.begun.take() {
            Some(begun) => self.go_on(begun, lease),
            None => self.read(lease),
        };
        group.unwrap_or_else(|error| Group::empty(After::Failed(error)))
    }

    fn corpus(&self) -> &Arc<Corpus> {
        &self.grouping.corpus
    }

    /// Moves to the next split that is not read to its end; false if the lane ends there.
    fn find_split(&mut self) -> Result<bool> {
        loop {
            let Lane { lane, lanes, seed, shuffle_splits, epochs, .. } = self.lane;
            if epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            if self.dealt != Some(self.at.epoch) {
                let files = self.corpus().files.len();
                self.deal = deal(files, shuffle_splits, seed, self.at.epoch, lane, lanes.get());
                self.dealt = Some(self.at.epoch);
                // A run's first epoch is no news, and lanes begin theirs at about the same time.
                if lane == 0 && self.at.epoch > 0 && (self.at.split, self.at.byte) == (0, 0) {
                    tracing::info!(epoch = self.at.epoch, "epoch begins");
                }
                tracing::debug!(lane, epoch = self.at.epoch, splits = self.deal.len(), "splits are dealt");
            }
            if self.deal.is_empty() {
                return Ok(false);
            }
            match self.deal.get(self.at.split as usize) {
                Some(&file) if self.at.byte > 0 && self.at.byte == self.corpus().files[file as usize].len => {
                    self.leave_split();
                }
                Some(_) => return Ok(true),
                None => self.leave_epoch()?,
            }
        }
    }

    fn leave_split(&mut self) {
        self.at.split += 1;
        (self.at.byte, self.at.line) = (0, 0);
    }

    fn leave_epoch(&mut self) -> Result<()> {
        let empty = self.epoch_began == Some(self.at.documents);
        self.empty_epochs = if empty { self.empty_epochs + 1 } else { 0 };
        if self.lane.epochs.is_none() && self.empty_epochs == MOST_EMPTY_EPOCHS {
            let (lane, lanes, files) = (self.lane.lane, self.lane.lanes, self.deal.len());
            let problem = format!(
                "{MOST_EMPTY_EPOCHS} whole epochs of lane {lane} of {lanes} ({files} files) gave no document; look at \
                 the files, pipeline.holdout and what was skipped, or set fewer pipeline.lanes"
            );
            return Err(Error::Corpus { problem });
        }
        self.at.epoch += 1;
        (self.at.split, self.at.byte, self.at.line, self.at.skipped) = (0, 0, 0, 0);
        self.epoch_began = Some(self.at.documents);
        Ok(())
    }

    /// Reads the next slab and groups the documents that end in it.
    fn read(&mut self, lease: Lease) -> Result<Group> {
        if !self.find_split()? {
            return Ok(Group::empty(After::End));
        }
        let mut window = Window::default();
        let mut failure = None;
        let source = self.source_at(self.at.split);
        let mut next = (self.at.split, Place { byte: self.at.byte, line: self.at.line });
        while source.is_some() && self.source_at(next.0) == source && window.pieces.len() < GROUP_FILES {
            let (split, place) = next;
            let file = self.deal[split as usize];
            let left = self.corpus().files[file as usize].len.saturating_sub(place.byte);
            let room = (self.slab_bytes - window.bytes.len()) as u64;
            if left > room && !window.pieces.is_empty() {
                break;
            }
            let at = window.bytes.len();
            if let Err(error) = self.fetch(file, place.byte, left.min(room) as usize, &mut window.bytes) {
                failure = Some(error);
                break;
            }
            let shape = self.corpus().format(file).shape;
            match window.frame(split, file, shape, at, place, left <= room) {
                None => next = (split + 1, Place::default()),
                Some(framer) if framer.start() != place || !window.framed.is_empty() => {
                    next = (split, framer.start());
                    break;
                }
                Some(framer) => {
                    let read = place.byte + left.min(room);
                    self.begun = Some(Begun { framer, bytes: window.bytes, is_long: false, read, lease });
                    return Ok(Group::empty(After::More));
                }
            }
        }
        let end = window.framed.last().map_or(0, |last| last.at + last.frame.len as usize);
        window.bytes.truncate(end);
        let mut group = self.grouping.group(window, lease, &mut self.at);
        self.move_to(next);
        if let (After::More, Some(error)) = (&group.after, failure) {
            group.after = After::Failed(error);
        }
        Ok(group)
    }

    /// The source that the lane's split `split` belongs to.
    fn source_at(&self, split: u64) -> Option<usize> {
        let file = *self.deal.get(split as usize)?;
        Some(self.corpus().files[file as usize].source)
    }

    /// Reads on in a document that is longer than what was read of it.
    fn go_on(&mut self, mut begun: Begun, lease: Lease) -> Result<Group> {
        let split = self.at.split;
        let file = self.deal[split as usize];
        begun.hold_at_most(self.corpus().format(file).max);
        let left = self.corpus().files[file as usize].len - begun.read;
        let n = left.min(self.slab_bytes as u64);
        let mut passing = Vec::new();
        let into = if begun.is_long { &mut passing } else { &mut begun.bytes };
        let held = into.len();
        self.fetch(file, begun.read, n as usize, into)?;
        let frame = begun.framer.push(&into[held..]).map(|(_, frame)| frame);
        begun.read += n;
        if !begun.is_long {
            begun.lease.absorb(lease);
        }
        let next = match frame {
            Some(frame) => (split, frame.next),
            None if n == left => (split + 1, Place::default()),
            None => {
                self.begun = Some(begun);
                return Ok(Group::empty(After::More));
            }
        };
        let frame = frame.unwrap_or_else(|| begun.framer.finish());
        let mut window = Window { bytes: begun.bytes, ..Window::default() };
        window.bytes.truncate(usize::try_from(frame.len).unwrap_or(usize::MAX));
        window.note(0, frame);
        window.pieces.push(Piece { split, file, frames: 0..window.framed.len(), at: 0 });
        let group = self.grouping.group(window, begun.lease, &mut self.at);
        self.move_to(next);
        Ok(group)
    }

    fn move_to(&mut self, (split, place): (u64, Place)) {
        (self.at.split, self.at.byte, self.at.line) = (split, place.byte, place.line);
    }

    /// Appends `n` bytes of file `number` from `from` on. The file must be as long as when it was opened.
    fn fetch(&mut self, number: u32, from: u64, n: usize, into: &mut Vec<u8>) -> Result<()> {
        let corpus = self.corpus().clone();
        let (path, len) = (&corpus.files[number as usize].path, corpus.files[number as usize].len);
        let mut open = match self.open.take() {
            Some(open) if open.number == number => open,
            _ => {
                let file = fs::File::open(path).map_err(|e| Error::io(path, "open", e))?;
                Open { number, file, at: 0 }
            }
        };
        let held = into.len();
        let found = open.read(from, n, into).map_err(|e| Error::io(path, "read", e))?;
        if found != len {
            into.truncate(held);
            let problem = format!(
                "{} was {len} bytes long when the corpus was opened and is {found} bytes long now; leave the \
                 files alone while they are read, and open the corpus anew",
                path.display()
            );
            return Err(Error::Corpus { problem });
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Open {
    /// Appends `n` bytes from `from` on, or fewer if the file is shorter; gives the file's length.
    fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> io::Result<u64> {
        if self.at != from {
            self.file.seek(SeekFrom::Start(from))?;
        }
        let held = into.len();
        if held == 0 {
            // Fresh memory of the system is zero already.
            *into = vec![0; n];
        } else {
            into.resize(held + n, 0);
        }
        match self.file.read_exact(&mut into[held..]) {
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(e),
            _ => self.at = from + n as u64,
        }
        Ok(self.file.metadata()?.len())
    }
}

impl Begun {
    /// Drops what is beyond `max` bytes, and holds no more of it.
    fn hold_at_most(&mut self, max: usize) {
        // Two bytes may yet be the line's end, and one more tells that the document is cut.
        if !self.is_long && self.bytes.len() > max.saturating_add(2) {
            self.is_long = true;
            self.bytes.truncate(max + 1);
            self.bytes.shrink_to_fit();
            self.lease.keep((1 + IDS_PER_BYTE) * self.bytes.len());
        }
    }
}

impl Window {
    /// Frames the bytes from `at` on, which lie at `place` in their file and reach its end if `is_end`.
    ///
    /// Unless that finishes the split, the scan is given back that stands where the next read begins.
    fn frame(
        &mut self,
        split: u64,
        file: u32,
        shape: Shape,
        at: usize,
        mut place: Place,
        is_end: bool,
    ) -> Option<Framer> {
        let mut done = at;
        if place.byte == 0 {
            done += bom_len(&self.bytes[at..]);
            place.byte += (done - at) as u64;
        }
        let mut framer = Framer::new(shape, place);
        let first = self.framed.len();
        let left = loop {
            if self.framed.len() == GROUP_DOCUMENTS {
                break Some(framer);
            }
            match framer.push(&self.bytes[done..]) {
                Some((taken, frame)) => {
                    self.note(done, frame);
                    done += taken;
                }
                None if is_end => {
                    self.note(done, framer.finish());
                    break None;
                }
                None => break Some(framer),
            }
        };
        self.pieces.push(Piece { split, file, frames: first..self.framed.len(), at });
        left
    }

    fn note(&mut self, at: usize, frame: Frame) {
        if frame.len > 0 {
            self.framed.push(Framed { at, frame });
        }
    }
}
