//! Reads text, one split after the other.

use super::super::framed::{self, Begun, ReadLimits, Taken, Whole};
use super::super::group::{Group, GroupEnd};
use super::{GROUP_SPLITS, Reader};
use crate::budget::Lease;
use crate::error::Result;
use crate::shards::LaneCounts;
use crate::source::formats::Opened;
use crate::source::formats::records::Stop;
use crate::source::framing::Boundary;
use crate::source::split::DealtSplit;
use crate::source::window::{Window, WindowPiece};
use crate::store::ReadTurn;

impl Reader {
    /// Reads the next slab of text and groups the documents that end in it.
    pub(super) fn read_text(&mut self, lease: Lease) -> Result<Group> {
        let mut window = Window::default();
        let mut failure = None;
        let mut source = None;
        let mut next = (self.at.split, Boundary { byte: self.at.byte, line: self.at.line });
        let (first, begun) = (next.0, LaneCounts::from(&self.at));
        self.record(first, (next.1 == Boundary::default()).then_some(begun));
        for _ in 0..GROUP_SPLITS {
            let (ordinal, boundary) = next;
            let Some(dealt) = self.dealt(ordinal) else { break };
            let of = self.corpus().files[dealt.split.file as usize].source;
            let is_stored = || !window.pieces.is_empty() && self.has_tokens(ordinal);
            if *source.get_or_insert(of) != of || is_stored() {
                break;
            }
            match self.take(dealt, boundary, &mut window) {
                Ok(Taken::All | Taken::Beyond(_)) => next = (ordinal + 1, Boundary::default()),
                Ok(Taken::Nothing) => break,
                Ok(Taken::UpTo(boundary)) => {
                    next = (ordinal, boundary);
                    break;
                }
                Ok(Taken::Beginning { framer, read }) => {
                    // The splits before it had no text.
                    let passed: Vec<_> = window.pieces.iter().map(|piece| (piece.ordinal, begun)).collect();
                    self.pass(&passed, ordinal);
                    if ordinal > first {
                        self.record(ordinal, Some(begun));
                    }
                    self.move_to(ordinal, framer.start());
                    self.begun = Some(Begun::new(framer, window.bytes, read, lease));
                    return Ok(Group::empty(GroupEnd::More));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        window.drop_rest();
        let mut group = self.grouper.group(window, lease, &mut self.at);
        self.pass(&group.passed, next.0);
        self.move_to(next.0, next.1);
        if let (GroupEnd::More, Some(error)) = (&group.after, failure) {
            group.after = GroupEnd::Failed(error);
        }
        Ok(group)
    }

    /// Reads a split from `boundary` on into the window. Byte 0 stands for the start of the split, wherever that is.
    fn take(&mut self, dealt: DealtSplit, boundary: Boundary, window: &mut Window) -> Result<Taken> {
        let DealtSplit { ordinal, split } = dealt;
        let len = self.corpus().files[split.file as usize].len;
        let slab_bytes = self.slab_bytes;
        let room = slab_bytes.saturating_sub(window.bytes.len());
        let reach = split.reach(len, slab_bytes).saturating_sub(boundary.byte.max(split.begin));
        if !window.pieces.is_empty() && reach > room as u64 {
            return Ok(Taken::Nothing);
        }
        self.opener.reach(ReadTurn { epoch: self.at.epoch, split: ordinal });
        match self.opened(split.file)? {
            Opened::Text(content, shape) => {
                let reach = split.reach(content.len().unwrap_or(u64::MAX), slab_bytes);
                framed::take(content, *shape, dealt, boundary, ReadLimits { slab_bytes, reach }, window)
            }
            Opened::Records(records) => {
                let (first, at) = (window.framed.len(), window.bytes.len());
                let from = boundary.byte.max(split.begin);
                let stop = records.take(from, split.end, room, window);
                window.pieces.push(WindowPiece { ordinal, split, frames: first..window.framed.len(), at });
                Ok(match stop? {
                    Stop::At(next) if next < split.end => Taken::UpTo(Boundary::record(next)),
                    Stop::At(_) | Stop::End => Taken::All,
                })
            }
        }
    }

    /// Reads on in a document that has been read in part.
    pub(super) fn go_on(&mut self, begun: Begun, lease: Lease) -> Result<Group> {
        let ordinal = self.at.split;
        let split = self.corpus().split(self.deal[ordinal as usize]);
        let dealt = DealtSplit { ordinal, split };
        let (max, slab_bytes) = (self.corpus().format(split.file).max, self.slab_bytes);
        let Opened::Text(content, _) = self.opened(split.file)? else {
            unreachable!("only text has documents that are read in parts")
        };
        match begun.go_on(content, dealt, max, slab_bytes, lease)? {
            Ok(Whole { window, lease, next }) => {
                let group = self.grouper.group(window, lease, &mut self.at);
                self.pass(&group.passed, ordinal + u64::from(next.is_none()));
                self.go_to(ordinal, next);
                Ok(group)
            }
            Err(begun) => {
                self.begun = Some(begun);
                Ok(Group::empty(GroupEnd::More))
            }
        }
    }

    /// Opens file `number`, unless it is open already.
    pub(super) fn opened(&mut self, number: u32) -> Result<&mut Opened> {
        let open = match self.open.take() {
            Some(open) if open.0 == number => open,
            _ => (number, self.corpus().open(number, &self.opener)?),
        };
        Ok(&mut self.open.insert(open).1)
    }

    /// Tells the split recorder that the text of the lane's split `ordinal` is being read: from its beginning if
    /// `at` is known.
    fn record(&mut self, ordinal: u64, at: Option<LaneCounts>) {
        if let Some(&number) = self.deal.get(ordinal as usize) {
            self.split_recorder.reads(number, at);
        }
    }

    /// Tells the split recorder that this text has been read to its end.
    pub(super) fn leave_text(&mut self, ordinal: u64, at: LaneCounts) {
        if let Some(&number) = self.deal.get(ordinal as usize) {
            self.split_recorder.leaves(number, at);
        }
    }

    /// Tells the split recorder which splits were read (the first of them was begun before), and the counts at the
    /// place where each was left. The last of them goes on if it is `next`.
    fn pass(&mut self, passed: &[(u64, LaneCounts)], next: u64) {
        for (nth, &(ordinal, at)) in passed.iter().enumerate() {
            if nth > 0 {
                self.record(ordinal, Some(passed[nth - 1].1));
            }
            if ordinal < next {
                self.leave_text(ordinal, at);
            }
        }
    }
}
