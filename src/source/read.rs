//! One lane's reading, a slab at a time: everything but the waiting.
//!
//! A [`Reader`] stands at a cursor. Each [`step`](Reader::step) reads one slab from there: the rest of a
//! split, or as much of it as fits, or many small ones. The documents that end in it leave as one group, and
//! what is left of the last is read again with the next slab, so that nothing is held between steps, and
//! every document lies in one piece. Only a document longer than a slab, or far longer than its split, is held
//! while it grows, and beyond its bound no more of it than that.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use super::Lane;
use super::begin::first_place;
use super::corpus::{Corpus, Split};
use super::deal::deal;
use super::framing::{Frame, Framer, Place, Shape, bom_len};
use super::group::{After, Framed, Group, Grouping, Piece, Window};
use super::resume;
use crate::budget::{IDS_PER_BYTE, Lease};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};

/// How many documents a group has at most, so that slabs of the shortest lines do not grow tenfold by what is
/// noted of each.
const GROUP_DOCUMENTS: usize = 8192;

/// How many splits a slab has at most: opening empty files takes time too.
const GROUP_SPLITS: usize = 512;

/// A document that begins in a split and ends beyond it most often ends within this part of a slab.
const TAIL_SHARE: usize = 4;

/// How many epochs of an endless lane may give nothing, one after the other. Another deal may bring documents
/// that are not all held out or bad; so many in a row are a mistake.
const MOST_EMPTY_EPOCHS: u32 = 64;

/// Reads one lane.
#[derive(Debug)]
pub(super) struct Reader {
    grouping: Grouping,
    lane: Lane,
    /// The numbers of the splits that are dealt to the lanes.
    splits: Range<u32>,
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

/// How much of a split a window took up.
#[derive(Debug)]
enum Taken {
    /// Nothing: it does not fit beside the others.
    Nothing,
    /// All documents but those that begin here or beyond.
    UpTo(Place),
    All,
    /// Only the beginning of one document.
    Beginning {
        framer: Framer,
        read: u64,
    },
}

/// A document longer than a read, as far as it is read.
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
    pub(super) fn new(
        grouping: Grouping,
        lane: Lane,
        splits: Range<u32>,
        slab_bytes: usize,
        start: &LaneCursor,
    ) -> Self {
        let at = start.upstream(0);
        let is_start = at.split == 0 && at.byte == 0;
        Self {
            grouping,
            lane,
            splits,
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
                let is_start = self.dealt.is_none();
                self.deal = deal(self.splits.clone(), shuffle_splits, seed, self.at.epoch, lane, lanes.get());
                self.dealt = Some(self.at.epoch);
                // A run's first epoch is no news, and lanes begin theirs at about the same time.
                if lane == 0 && self.at.epoch > 0 && (self.at.split, self.at.byte) == (0, 0) {
                    tracing::info!(epoch = self.at.epoch, "epoch begins");
                }
                tracing::debug!(lane, epoch = self.at.epoch, splits = self.deal.len(), "splits are dealt");
                if is_start {
                    self.check_start()?;
                }
            }
            if self.deal.is_empty() {
                return Ok(false);
            }
            match self.split_at(self.at.split) {
                Some(split) if self.at.byte > 0 && self.at.byte >= split.end => self.leave_split(),
                Some(_) => return Ok(true),
                None => self.leave_epoch()?,
            }
        }
    }

    /// Refuses a start that no document of this lane has behind it.
    fn check_start(&mut self) -> Result<()> {
        let (at, splits) = (self.at, self.deal.len() as u64);
        let Some(split) = self.split_at(at.split) else {
            if at.split == splits && (at.byte, at.line) == (0, 0) {
                return Ok(());
            }
            let (split, lane) = (at.split, self.lane.lane);
            return Err(Error::resume(format!("split {split} of lane {lane}, which has {splits}")));
        };
        let (len, shape) =
            (self.corpus().files[split.file as usize].len, self.corpus().format(split.file).shape);
        let before = || {
            let mut byte = Vec::new();
            self.fetch(split.file, at.byte - 1, 1, &mut byte)?;
            Ok(byte[0])
        };
        let Some(problem) = resume::problem(&at, split, len, shape, before)? else { return Ok(()) };
        let path = self.corpus().files.path(split.file).display();
        Err(Error::resume(format!("{path} (byte {}): {problem}", at.byte)))
    }

    fn leave_split(&mut self) {
        self.at.split += 1;
        (self.at.byte, self.at.line) = (0, 0);
    }

    fn leave_epoch(&mut self) -> Result<()> {
        let empty = self.epoch_began == Some(self.at.documents);
        self.empty_epochs = if empty { self.empty_epochs + 1 } else { 0 };
        if self.lane.epochs.is_none() && self.empty_epochs == MOST_EMPTY_EPOCHS {
            let (lane, lanes, splits) = (self.lane.lane, self.lane.lanes, self.deal.len());
            let problem = format!(
                "{MOST_EMPTY_EPOCHS} whole epochs of lane {lane} of {lanes} ({splits} splits) gave no document; look at \
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
        let mut source = None;
        let mut next = (self.at.split, Place { byte: self.at.byte, line: self.at.line });
        for _ in 0..GROUP_SPLITS {
            let (ordinal, place) = next;
            let Some(split) = self.split_at(ordinal) else { break };
            let of = self.corpus().files[split.file as usize].source;
            if *source.get_or_insert(of) != of {
                break;
            }
            match self.take(ordinal, split, place, &mut window) {
                Ok(Taken::All) => next = (ordinal + 1, Place::default()),
                Ok(Taken::Nothing) => break,
                Ok(Taken::UpTo(place)) => {
                    next = (ordinal, place);
                    break;
                }
                Ok(Taken::Beginning { framer, read }) => {
                    self.move_to((ordinal, framer.start()));
                    self.begun = Some(Begun { framer, bytes: window.bytes, is_long: false, read, lease });
                    return Ok(Group::empty(After::More));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
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

    /// The lane's split `ordinal` of this epoch.
    fn split_at(&self, ordinal: u64) -> Option<Split> {
        let number = *self.deal.get(ordinal as usize)?;
        Some(self.corpus().split(number))
    }

    /// Reads a split from `place` on into the window, and frames what is read. Byte 0 stands for the split's start,
    /// wherever that is.
    fn take(&mut self, ordinal: u64, split: Split, place: Place, window: &mut Window) -> Result<Taken> {
        let len = self.corpus().files[split.file as usize].len;
        let shape = self.corpus().format(split.file).shape;
        let reach = len.min(split.end + (self.slab_bytes / TAIL_SHARE) as u64);
        let room = (self.slab_bytes - window.bytes.len()) as u64;
        if reach - place.byte.max(split.begin) > room && !window.pieces.is_empty() {
            return Ok(Taken::Nothing);
        }
        let Some(place) = self.begin(split, shape, place)? else { return Ok(Taken::All) };
        let n = room.min(reach - place.byte);
        let at = window.bytes.len();
        self.fetch(split.file, place.byte, n as usize, &mut window.bytes)?;
        let read = place.byte + n;
        Ok(match window.frame(ordinal, split, shape, at, place, read == len) {
            None => Taken::All,
            Some(framer) if at == 0 && framer.start() == place => Taken::Beginning { framer, read },
            Some(framer) => Taken::UpTo(framer.start()),
        })
    }

    /// Where reading begins in a split, from `place` on; none if no document begins there.
    fn begin(&mut self, split: Split, shape: Shape, place: Place) -> Result<Option<Place>> {
        if place.byte > 0 || split.begin == 0 {
            return Ok(Some(place));
        }
        first_place(shape, split.begin..split.end, self.slab_bytes, |from, n| {
            let mut bytes = Vec::new();
            self.fetch(split.file, from, n, &mut bytes)?;
            Ok(bytes)
        })
    }

    /// Reads on in a document that is longer than what was read of it.
    fn go_on(&mut self, mut begun: Begun, lease: Lease) -> Result<Group> {
        let ordinal = self.at.split;
        let split = self.corpus().split(self.deal[ordinal as usize]);
        let file = split.file;
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
            Some(frame) => (ordinal, frame.next),
            None if n == left => (ordinal + 1, Place::default()),
            None => {
                self.begun = Some(begun);
                return Ok(Group::empty(After::More));
            }
        };
        let frame = frame.unwrap_or_else(|| begun.framer.finish());
        let mut window = Window { bytes: begun.bytes, ..Window::default() };
        window.bytes.truncate(usize::try_from(frame.len).unwrap_or(usize::MAX));
        window.note(0, frame);
        window.pieces.push(Piece { ordinal, split, frames: 0..window.framed.len(), at: 0 });
        let group = self.grouping.group(window, begun.lease, &mut self.at);
        self.move_to(next);
        Ok(group)
    }

    fn move_to(&mut self, (ordinal, place): (u64, Place)) {
        (self.at.split, self.at.byte, self.at.line) = (ordinal, place.byte, place.line);
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
    /// Frames the bytes from `at` on, which lie at `place` in their file and reach its end if `is_end`, and drops
    /// those beyond the split's last document.
    ///
    /// Unless that finishes the split, the scan is given back that stands where the next read begins.
    fn frame(
        &mut self,
        ordinal: u64,
        split: Split,
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
            if framer.start().byte >= split.end {
                self.bytes.truncate(done);
                break None;
            }
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
        self.pieces.push(Piece { ordinal, split, frames: first..self.framed.len(), at });
        left
    }

    fn note(&mut self, at: usize, frame: Frame) {
        if frame.len > 0 {
            self.framed.push(Framed { at, frame });
        }
    }
}
