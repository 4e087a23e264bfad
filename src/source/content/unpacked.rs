//! Reads the text of a compressed file, from any offset on.
//!
//! Stored bytes are read in pieces and decompressed. Most reads go forward. Each read keeps the text from its first byte
//! on, so that the next one may begin anywhere after that byte. A read that begins earlier, or far ahead, starts
//! decompressing again at the nearest known point before it: between two frames, or at the file's start.
//!
//! Held in memory: one piece, the text of the last read and up to [`STEP_BYTES`] more, and the decompressor's window (at
//! most 128 MiB, if `zstd_window` does not allow more).

use std::path::Path;
use std::sync::Arc;

use super::decoder::{Decoder, DecoderStep, Fault};
pub(crate) use super::frames::Frames;
use super::frames::{FrameCheck, Point};
use super::held::HeldText;
use super::pieces::Pieces;
use crate::error::Result;
use crate::files::Codec;
use crate::source::content::ReadEnd;
use crate::source::problem::Problem;
use crate::store::Stored;

/// How much text is decompressed at a time, in bytes.
const STEP_BYTES: u64 = 128 << 10;

/// The text of one compressed file.
#[derive(Debug)]
pub(super) struct Unpacked {
    codec: Codec,
    zstd_window: u64,
    pieces: Pieces,
    /// The decompressor of the current member, and one to reuse for the next.
    decoder: Option<Decoder>,
    idle: Option<Decoder>,
    frames: Option<Arc<Frames>>,
    held: HeldText,
    /// Where the current member begins, or the next one.
    member: Point,
    /// The checksum of the member's text, if the frames have one to compare with.
    check: Option<FrameCheck>,
    /// The state after the held text, if no more can be decompressed.
    end: Option<ReadEnd>,
    /// The fault of the whole file, if any.
    fault: Option<Problem>,
}

impl Unpacked {
    /// Opens a file. `frames` are those found when the corpus was opened. The window of a zstd file may be `zstd_window`
    /// bytes.
    pub(super) fn open(
        stored: &Arc<dyn Stored>,
        codec: Codec,
        frames: Option<Arc<Frames>>,
        zstd_window: u64,
    ) -> Result<Self> {
        let (mut frames, mut fault) = (frames, None);
        if codec == Codec::Zstd && frames.is_none() {
            match Frames::in_table(&**stored, u64::MAX)? {
                Ok(found) => frames = found.map(Arc::new),
                Err(broken) => fault = Some(broken),
            }
        }
        Ok(Self {
            codec,
            zstd_window,
            pieces: Pieces::new(stored.clone()),
            decoder: None,
            idle: None,
            held: HeldText::default(),
            member: Point::default(),
            check: frames.as_ref().filter(|frames| frames.has_checks()).map(|_| FrameCheck::default()),
            frames,
            end: None,
            fault,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.pieces.path()
    }

    /// Appends `n` bytes of text from `from` on, or fewer if the text ends or breaks off earlier.
    pub(super) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> Result<ReadEnd> {
        if let Some(broken) = &self.fault {
            return Ok(ReadEnd::Broken(broken.clone()));
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
            _ => Ok(ReadEnd::More),
        }
    }

    /// Makes `from` the first held byte, or one that is decompressed later.
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

    /// Decompresses some more text, or up to the end.
    fn decode(&mut self) -> Result<()> {
        let full = self.held.end() + STEP_BYTES;
        while self.held.end() < full && self.end.is_none() {
            self.pieces.fill()?;
            self.step(full);
        }
        Ok(())
    }

    /// Takes one step in the current piece: begins a member, or decompresses what is left and fits before `full`.
    fn step(&mut self, full: u64) {
        let input = self.pieces.left();
        let Some(decoder) = &mut self.decoder else { return self.begin_member() };
        let room = self.held.room(full);
        let DecoderStep { taken, given, outcome } = decoder.step(input, room);
        let (is_last, is_stuck) = (input.is_empty(), taken == 0 && given == 0);
        if let Some(check) = &mut self.check {
            check.update(&room[..given]);
        }
        self.pieces.take(taken);
        self.held.fill(given);
        match outcome {
            Ok(true) => self.end_member(),
            Ok(false) if is_stuck && is_last => self.break_off(&Fault::Truncated),
            Ok(false) if is_stuck => self.break_off(&Fault::Corrupt("decoding does not advance".to_owned())),
            Ok(false) => {}
            Err(fault) => self.break_off(&fault),
        }
    }

    fn begin_member(&mut self) {
        let input = self.pieces.left();
        let zeros = input.iter().take_while(|&&byte| byte == 0).count();
        if input.is_empty() {
            self.end = Some(ReadEnd::End);
        } else if self.codec.is_padded() && zeros > 0 {
            self.pieces.take(zeros);
        } else {
            match Decoder::begin(self.codec, self.idle.take(), self.zstd_window) {
                Ok(decoder) => self.decoder = Some(decoder),
                Err(fault) => self.break_off(&fault),
            }
            self.check = self.check.as_ref().map(|_| FrameCheck::default());
        }
    }

    fn break_off(&mut self, fault: &Fault) {
        let damage = Problem::damage_at(self.pieces.position(), fault.what(self.codec));
        self.end = Some(ReadEnd::Broken(Problem { remedy: fault.remedy().into(), ..damage }));
    }

    /// Goes on after the member whose text ends here.
    fn end_member(&mut self) {
        let (stored, text) = (self.pieces.position(), self.held.end());
        let end = Point { stored, text, frame: self.member.frame + 1 };
        let check = self.check.as_ref().map(FrameCheck::value);
        if self.frames.as_ref().is_some_and(|frames| !frames.agrees(self.member, end, check)) {
            let what = "the frame that ends here does not match the seek table at the file's end";
            self.end = Some(ReadEnd::Broken(Problem::damage_at(end.stored, what)));
        }
        self.idle = self.decoder.take();
        self.member = end;
    }
}
