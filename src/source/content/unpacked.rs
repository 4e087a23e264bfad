//! The text of a compressed file, from any offset on.
//!
//! Stored bytes are read in pieces, and decompressed into chunks of text. Reads go forward for the most part: each
//! holds the chunks from its first byte on, so that the next one may begin anywhere behind it. One that begins before
//! them, or far ahead, starts decompressing anew at the nearest point before it that is known: between two frames, or
//! at the file's start.
//!
//! Held in memory: one piece, the last read's text and a chunk more, and the decompressor's window, 128 MiB at most.

use std::path::Path;
use std::sync::Arc;

use super::super::content::After;
use super::super::problem::Broken;
use super::codec::Codec;
use super::decoder::{Decoder, Fault, Step};
pub(in crate::source) use super::frames::Frames;
use super::frames::{Check, Point};
use super::held::{Chunk, Held};
use super::pieces::Pieces;
use crate::error::Result;
use crate::store::Stored;

/// The text of one compressed file.
#[derive(Debug)]
pub(super) struct Unpacked {
    codec: Codec,
    pieces: Pieces,
    /// The decompressor of the member under way, and one to be used again between members.
    decoder: Option<Decoder>,
    idle: Option<Decoder>,
    frames: Option<Arc<Frames>>,
    held: Held,
    /// Where the member under way begins, or the next one.
    member: Point,
    /// The checksum of the member's text, if the frames have one to compare it with.
    check: Option<Check>,
    /// What comes behind the text that is held, if no more can be had.
    end: Option<After>,
    /// What is wrong with the file as a whole.
    fault: Option<Broken>,
}

impl Unpacked {
    /// Opens a file; `frames` are those that were found when the corpus was opened.
    pub(super) fn open(stored: &Arc<dyn Stored>, codec: Codec, frames: Option<Arc<Frames>>) -> Result<Self> {
        let (mut frames, mut fault) = (frames, None);
        if codec == Codec::Zstd && frames.is_none() {
            match Frames::in_table(&**stored, u64::MAX)? {
                Ok(found) => frames = found.map(Arc::new),
                Err(broken) => fault = Some(broken),
            }
        }
        Ok(Self {
            codec,
            pieces: Pieces::new(stored.clone()),
            decoder: None,
            idle: None,
            held: Held::default(),
            member: Point::default(),
            check: frames.as_ref().filter(|frames| frames.has_checks()).map(|_| Check::default()),
            frames,
            end: None,
            fault,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.pieces.path()
    }

    /// Appends `n` bytes of text from `from` on, or fewer if it ends or breaks off before.
    pub(super) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> Result<After> {
        if let Some(broken) = &self.fault {
            return Ok(After::Broken(broken.clone()));
        }
        self.go_to(from);
        let to = from.saturating_add(n as u64);
        while self.held.end() < to && self.end.is_none() {
            self.decode()?;
            self.held.forget_before(from);
        }
        self.held.copy(from..to, into);
        match &self.end {
            Some(end) if self.held.end() <= to => Ok(end.clone()),
            _ => Ok(After::More),
        }
    }

    /// Makes `from` the first byte that is held, or one that is decompressed later.
    fn go_to(&mut self, from: u64) {
        let point = self.frames.as_ref().map_or(Point::default(), |frames| frames.before(from));
        if self.held.begin() <= from && point.text <= self.held.end() {
            return self.held.forget_before(from);
        }
        self.pieces.go_to(point.stored);
        self.held.restart(point.text);
        self.idle = self.decoder.take().or(self.idle.take());
        (self.member, self.end) = (point, None);
    }

    /// Decompresses one chunk more, or up to the end.
    fn decode(&mut self) -> Result<()> {
        let mut chunk = self.held.chunk();
        let mut done = Ok(());
        while !chunk.is_full() && self.end.is_none() && done.is_ok() {
            done = self.pieces.fill().map(|()| self.step(&mut chunk));
        }
        self.held.push(chunk);
        done
    }

    /// Goes on with the piece that was read: begins a member, or decompresses what is left of the piece or fits.
    fn step(&mut self, chunk: &mut Chunk) {
        let input = self.pieces.left();
        let Some(decoder) = &mut self.decoder else { return self.begin_member() };
        let Step { taken, given, outcome } = decoder.step(input, chunk.room());
        let (is_last, is_stuck) = (input.is_empty(), taken == 0 && given == 0);
        if let Some(check) = &mut self.check {
            check.update(&chunk.room()[..given]);
        }
        self.pieces.take(taken);
        chunk.fill(given);
        match outcome {
            Ok(true) => self.end_member(self.held.end() + chunk.len() as u64),
            Ok(false) if is_stuck && is_last => self.break_off(&Fault::Truncated),
            Ok(false) if is_stuck => self.break_off(&Fault::Corrupt("it leads nowhere".to_owned())),
            Ok(false) => {}
            Err(fault) => self.break_off(&fault),
        }
    }

    fn begin_member(&mut self) {
        let input = self.pieces.left();
        let zeros = input.iter().take_while(|&&byte| byte == 0).count();
        if input.is_empty() {
            self.end = Some(After::End);
        } else if self.codec.is_padded() && zeros > 0 {
            self.pieces.take(zeros);
        } else {
            match Decoder::begin(self.codec, self.idle.take()) {
                Ok(decoder) => self.decoder = Some(decoder),
                Err(fault) => self.break_off(&fault),
            }
            self.check = self.check.as_ref().map(|_| Check::default());
        }
    }

    fn break_off(&mut self, fault: &Fault) {
        let what = fault.what(self.codec);
        self.end = Some(After::Broken(Broken { byte: self.pieces.position(), what, remedy: fault.remedy() }));
    }

    /// Goes on behind the member whose text ends at `text`.
    fn end_member(&mut self, text: u64) {
        let end = Point { stored: self.pieces.position(), text, frame: self.member.frame + 1 };
        let check = self.check.as_ref().map(Check::value);
        if self.frames.as_ref().is_some_and(|frames| !frames.agrees(self.member, end, check)) {
            let what =
                "the frame that ends here is not what the seek table at the file's end says".to_owned();
            self.end = Some(After::Broken(Broken { byte: end.stored, what, remedy: Broken::ANEW }));
        }
        self.idle = self.decoder.take();
        self.member = end;
    }
}
