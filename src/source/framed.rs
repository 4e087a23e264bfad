//! Reading framed text: lines, paragraphs and whole files, out of a file's bytes.

use super::begin::first_place;
use super::content::{After, Content};
use super::framing::{Framer, Place, Shape, bom_len};
use super::problem::Broken;
use super::split::Split;
use super::window::{Piece, Window};
use crate::budget::{IDS_PER_BYTE, Lease};
use crate::error::{Error, Result};

/// A document that begins in a split and ends beyond it most often ends within this part of a slab, or of the
/// split.
const TAIL_SHARE: usize = 8;

/// Most often it ends within so many bytes.
pub(super) const LEAST_TAIL: u64 = 4 << 10;

/// How much of a split a window took up.
#[derive(Debug)]
pub(super) enum Taken {
    /// Nothing: it does not fit beside the others.
    Nothing,
    /// All documents but those that begin here or beyond.
    UpTo(Place),
    /// All documents of the split; the next one begins here.
    Beyond(Place),
    /// All documents of the split, and of the file.
    All,
    /// Only the beginning of one document.
    Beginning { framer: Framer, read: u64 },
}

/// Why nothing tells where a split's first document begins.
#[derive(Debug)]
enum Unread {
    Failed(Error),
    Broken(Broken),
}

/// A document longer than a read, as far as it is read.
#[derive(Debug)]
pub(super) struct Begun {
    framer: Framer,
    /// What is held of it.
    bytes: Vec<u8>,
    /// Whether it is longer than what may be held.
    is_long: bool,
    /// How far the file is read.
    read: u64,
    lease: Lease,
}

/// A document that was begun, and is read to its end.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) window: Window,
    pub(super) lease: Lease,
    /// Where reading goes on in its split; none if the text ends with it.
    pub(super) next: Option<Place>,
}

/// Where a read of a split ends at the latest, in a text of `len` bytes.
pub(super) fn reach(split: Split, len: u64, slab_bytes: usize) -> u64 {
    let most = (slab_bytes / TAIL_SHARE) as u64;
    let share = split.end.saturating_sub(split.begin) / TAIL_SHARE as u64;
    let tail = if split.is_exact { 0 } else { share.clamp(LEAST_TAIL.min(most), most) };
    len.min(split.end.saturating_add(tail))
}

/// Reads a split from `place` on into the window, which then has at most `slab_bytes`, and as far as `reach`, and frames
/// what is read. Byte 0 stands for the split's start, wherever that is.
pub(super) fn take(
    content: &mut Content,
    shape: Shape,
    (ordinal, split): (u64, Split),
    place: Place,
    (slab_bytes, reach): (usize, u64),
    window: &mut Window,
) -> Result<Taken> {
    let Some(place) = begin(content, shape, (ordinal, split), place, slab_bytes, window)? else {
        return Ok(Taken::All);
    };
    let room = (slab_bytes.saturating_sub(window.bytes.len())) as u64;
    let n = room.min(reach.saturating_sub(place.byte));
    let at = window.bytes.len();
    let after = content.read(place.byte, n as usize, &mut window.bytes)?;
    let read = place.byte + (window.bytes.len() - at) as u64;
    Ok(match window.frame((ordinal, split), shape, at, place, after) {
        Left::Nothing => Taken::All,
        Left::Beyond(place) => Taken::Beyond(place),
        // What else was found is delivered first.
        Left::Scan(framer) if at == 0 && window.framed.is_empty() && framer.start() == place => {
            Taken::Beginning { framer, read }
        }
        Left::Scan(framer) => Taken::UpTo(framer.start()),
    })
}

/// Where reading begins in a split, from `place` on; none if no document begins there, or it cannot be told where.
pub(super) fn begin(
    content: &mut Content,
    shape: Shape,
    (ordinal, split): (u64, Split),
    place: Place,
    slab_bytes: usize,
    window: &mut Window,
) -> Result<Option<Place>> {
    if place.byte > 0 {
        return Ok(Some(place));
    }
    if split.is_found {
        return Ok(Some(Place { byte: split.begin, line: 0 }));
    }
    match first(content, shape, split, slab_bytes) {
        Ok(Some(place)) => Ok(Some(place)),
        Ok(None) => {
            let frames = window.framed.len()..window.framed.len();
            window.pieces.push(Piece { ordinal, split, frames, at: window.bytes.len() });
            Ok(None)
        }
        Err(Unread::Failed(error)) => Err(error),
        Err(Unread::Broken(broken)) => {
            window.refuse_split((ordinal, split), broken);
            Ok(None)
        }
    }
}

/// Where the first document of a split begins; none if none does.
fn first(
    content: &mut Content,
    shape: Shape,
    split: Split,
    slab_bytes: usize,
) -> Result<Option<Place>, Unread> {
    first_place(shape, split.begin..split.end, slab_bytes, |from, n| {
        let mut bytes = Vec::new();
        match content.read(from, n, &mut bytes).map_err(Unread::Failed)? {
            // What lies before the split is of use only whole.
            After::Broken(broken)
                if bytes.len() < n && (bytes.is_empty() || from + n as u64 <= split.begin) =>
            {
                Err(Unread::Broken(broken))
            }
            _ => Ok(bytes),
        }
    })
}

/// What is left of a split once some of it was framed.
#[derive(Debug)]
enum Left {
    /// The scan that stands where the next read begins.
    Scan(Framer),
    /// What begins here, beyond the split.
    Beyond(Place),
    Nothing,
}

impl Begun {
    /// A document whose first bytes are `bytes`, read up to `read`.
    pub(super) fn new(framer: Framer, bytes: Vec<u8>, read: u64, lease: Lease) -> Self {
        Self { framer, bytes, is_long: false, read, lease }
    }

    /// Reads on, at most `slab_bytes`, and holds at most `max` bytes of the document; the whole of it if it ends there.
    pub(super) fn go_on(
        mut self,
        content: &mut Content,
        (ordinal, split): (u64, Split),
        max: usize,
        slab_bytes: usize,
        lease: Lease,
    ) -> Result<Result<Whole, Self>> {
        self.hold_at_most(max);
        let mut passing = Vec::new();
        let into = if self.is_long { &mut passing } else { &mut self.bytes };
        let held = into.len();
        let after = content.read(self.read, slab_bytes, into)?;
        let n = into.len() - held;
        let frame = self.framer.push(&into[held..]).map(|(_, frame)| frame);
        self.read += n as u64;
        if !self.is_long {
            self.lease.absorb(lease);
        }
        let next = frame.map(|frame| frame.next);
        let mut window = Window::default();
        match (frame, after) {
            (Some(frame), _) => window.note(0, frame),
            (None, After::End) => {
                let frame = self.framer.finish();
                window.note(0, frame);
            }
            (None, After::Broken(broken)) => {
                self.bytes.clear();
                window.refuse(self.framer.start(), Place::default(), broken.into());
            }
            (None, After::More) => return Ok(Err(self)),
        }
        let len = window.framed.first().map_or(0, |framed| framed.frame.len);
        window.bytes = self.bytes;
        window.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        window.pieces.push(Piece { ordinal, split, frames: 0..window.framed.len(), at: 0 });
        Ok(Ok(Whole { window, lease: self.lease, next }))
    }

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
    /// Refuses all of a split: what lies before it cannot be read, so that its first document's beginning is not known.
    fn refuse_split(&mut self, (ordinal, split): (u64, Split), broken: Broken) {
        let first = self.framed.len();
        self.refuse(Place { byte: split.begin, line: 0 }, Place::default(), broken.into());
        self.pieces.push(Piece { ordinal, split, frames: first..first + 1, at: self.bytes.len() });
    }

    /// Frames the bytes from `at` on, which lie at `place` in their file, and drops those beyond the split's last
    /// document. `after` comes after them.
    ///
    /// What is left tells whether that finishes the split.
    fn frame(
        &mut self,
        (ordinal, split): (u64, Split),
        shape: Shape,
        at: usize,
        mut place: Place,
        after: After,
    ) -> Left {
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
                break Left::Beyond(framer.start());
            }
            if self.is_full() {
                break Left::Scan(framer);
            }
            match (framer.push(&self.bytes[done..]), &after) {
                (Some((taken, frame)), _) => {
                    self.note(done, frame);
                    done += taken;
                }
                (None, After::End) => {
                    self.note(done, framer.finish());
                    break Left::Nothing;
                }
                (None, After::Broken(broken)) => {
                    self.bytes.truncate(done);
                    self.refuse(framer.start(), Place::default(), broken.clone().into());
                    break Left::Nothing;
                }
                (None, After::More) => break Left::Scan(framer),
            }
        };
        self.pieces.push(Piece { ordinal, split, frames: first..self.framed.len(), at });
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_off_is_refused_and_what_was_read_before_is_framed() {
        let mut window = Window { bytes: b"one\ntwo\nthr".to_vec(), ..Window::default() };
        let split =
            Split { file: 0, begin: 0, end: u64::MAX, has_lines: true, is_found: true, is_exact: false };
        let after = After::Broken(Broken { byte: 77, what: "cut".to_owned(), remedy: "get it anew" });
        let left = window.frame((0, split), Shape::Line, 0, Place::default(), after);
        assert!(matches!(left, Left::Nothing));
        let lens: Vec<u64> = window.framed.iter().map(|framed| framed.frame.len).collect();
        assert_eq!((lens, window.bytes.len()), (vec![3, 3, 0], 8));
        assert_eq!(window.framed[2].frame.start, Place { byte: 8, line: 2 });
    }
}
