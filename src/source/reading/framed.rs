//! Reads framed text (lines, paragraphs and whole files) from a file's bytes.

use std::ops::Range;

use memchr::memchr_iter;

use super::begin::first_place;
use crate::budget::{IDS_PER_BYTE, Lease};
use crate::error::Result;
use crate::segment::Boundary;
use crate::source::content::{Content, ReadEnd};
use crate::source::framing::{Framer, Shape, bom_len};
use crate::source::problem::{Problem, Unread};
use crate::source::split::{DealtSplit, LEAST_SPLIT, Lines, Split};
use crate::source::window::{Window, WindowPiece};

/// How much of a split was added to a window.
#[derive(Debug)]
pub(crate) enum Taken {
    /// All documents before this place.
    UpTo(Boundary),
    /// All documents of the split. The next document begins here.
    Beyond(Boundary),
    /// All documents of the split and of the file.
    All,
    /// Only the beginning of one document.
    Beginning { framer: Framer, read: u64 },
}

/// A document longer than one read, as far as it has been read.
#[derive(Debug)]
pub(crate) struct Begun {
    framer: Framer,
    /// The part of it that is held.
    bytes: Vec<u8>,
    /// Whether it is longer than may be held.
    is_long: bool,
    /// How far the file has been read.
    read: u64,
    lease: Lease,
}

/// A document that was read in parts, complete.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) window: Window,
    pub(crate) lease: Lease,
    /// Where reading goes on in its split; `None` if the text ends with it.
    pub(crate) next: Option<Boundary>,
}

/// Reads at most `n` bytes of a split from `boundary` on into the window, and frames what was read.
pub(crate) fn take(
    content: &mut Content,
    shape: Shape,
    dealt: DealtSplit,
    boundary: Boundary,
    n: usize,
    window: &mut Window,
) -> Result<Taken> {
    let at = window.bytes.len();
    let after = content.read(boundary.byte, n, &mut window.bytes)?;
    let read = boundary.byte + (window.bytes.len() - at) as u64;
    Ok(match window.frame(dealt, shape, at, boundary, after) {
        Left::Nothing => Taken::All,
        Left::Beyond(boundary) => Taken::Beyond(boundary),
        // Deliver the other documents first.
        Left::Scan(framer) if at == 0 && window.framed.is_empty() && framer.start() == boundary => {
            Taken::Beginning { framer, read }
        }
        Left::Scan(framer) => Taken::UpTo(framer.start()),
    })
}

/// Finds the first document of a split that begins at byte `from` or later. `None` if no document begins there, or that
/// cannot be found out. Lines are counted from where the split says afterwards.
pub(crate) fn seek(
    content: &mut Content,
    shape: Shape,
    dealt: &mut DealtSplit,
    from: u64,
    slab_bytes: usize,
    window: &mut Window,
) -> Result<Option<Boundary>> {
    let DealtSplit { ordinal, split } = *dealt;
    let is_start = from <= split.begin && split.is_found;
    if is_start || split.begin == 0 && from < LEAST_SPLIT {
        return Ok(Some(Boundary { byte: split.begin, line: 0 }));
    }
    let from = from.max(split.begin);
    if shape == Shape::File || from >= split.end {
        return Ok(None);
    }
    match first(content, shape, &mut dealt.split, from, slab_bytes) {
        Ok(Some(boundary)) => Ok(Some(boundary)),
        Ok(None) => {
            let frames = window.framed.len()..window.framed.len();
            window.pieces.push(WindowPiece { ordinal, frames, at: window.bytes.len() });
            Ok(None)
        }
        Err(Unread::Failed(error)) => Err(error),
        Err(Unread::Damaged(problem)) => {
            window.refuse_split(*dealt, problem);
            Ok(None)
        }
    }
}

/// Where the first document of a split begins, at byte `from` or later; `None` if none does.
fn first(
    content: &mut Content,
    shape: Shape,
    split: &mut Split,
    from: u64,
    slab_bytes: usize,
) -> Result<Option<Boundary>, Unread> {
    let lines = match split.lines {
        Lines::From(begin) if begin < from => {
            if content.is_plain() {
                // Lines before it are counted when somebody asks for them.
                split.lines = Lines::From(from);
                0
            } else {
                lines(content, begin..from, slab_bytes)?
            }
        }
        Lines::From(_) | Lines::FromFile | Lines::Unknown => 0,
    };
    let found = first_place(shape, from..split.end, slab_bytes, |at, n| {
        let mut bytes = Vec::new();
        match content.read(at, n, &mut bytes)? {
            // Bytes before the place are useful only if all of them can be read.
            ReadEnd::Broken(broken) if bytes.len() < n && (bytes.is_empty() || at + n as u64 <= from) => {
                Err(Unread::Damaged(broken))
            }
            _ => Ok(bytes),
        }
    })?;
    Ok(found.map(|Boundary { byte, line }| Boundary { byte, line: lines + line }))
}

/// How many lines end in `range` of a text that has to be read from its start anyway.
fn lines(content: &mut Content, range: Range<u64>, slab_bytes: usize) -> Result<u64, Unread> {
    let (mut at, mut lines, mut bytes) = (range.start, 0, Vec::new());
    while at < range.end {
        bytes.clear();
        let n = usize::try_from(range.end - at).map_or(slab_bytes, |left| left.min(slab_bytes));
        let after = content.read(at, n, &mut bytes)?;
        lines += memchr_iter(b'\n', &bytes).count() as u64;
        at += bytes.len() as u64;
        match after {
            ReadEnd::Broken(broken) if at < range.end => return Err(broken.into()),
            ReadEnd::End => break,
            ReadEnd::More | ReadEnd::Broken(_) => {}
        }
    }
    Ok(lines)
}

/// The rest of a split after some of it was framed.
#[derive(Debug)]
enum Left {
    /// The scan, at the place where the next read begins.
    Scan(Framer),
    /// The next document begins here, beyond the split.
    Beyond(Boundary),
    Nothing,
}

impl Begun {
    /// A document that begins with `bytes`, read up to `read`.
    pub(crate) fn new(framer: Framer, bytes: Vec<u8>, read: u64, lease: Lease) -> Self {
        Self { framer, bytes, is_long: false, read, lease }
    }

    /// Reads up to `slab_bytes` more, and holds at most `max` bytes of the document. Returns the whole document if it
    /// ends there.
    pub(crate) fn go_on(
        mut self,
        content: &mut Content,
        dealt: DealtSplit,
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
            (None, ReadEnd::End) => {
                let frame = self.framer.finish();
                window.note(0, frame);
            }
            (None, ReadEnd::Broken(broken)) => {
                self.bytes.clear();
                window.refuse(self.framer.start(), Boundary::default(), broken);
            }
            (None, ReadEnd::More) => return Ok(Err(self)),
        }
        let len = window.framed.first().map_or(0, |framed| framed.frame.len);
        window.bytes = self.bytes;
        window.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        let DealtSplit { ordinal, .. } = dealt;
        window.pieces.push(WindowPiece { ordinal, frames: 0..window.framed.len(), at: 0 });
        Ok(Ok(Whole { window, lease: self.lease, next }))
    }

    /// Drops the bytes beyond `max`, and holds no more of them from now on.
    fn hold_at_most(&mut self, max: usize) {
        // Two bytes may still be the line's end, and one more shows that the document is cut.
        if !self.is_long && self.bytes.len() > max.saturating_add(2) {
            self.is_long = true;
            self.bytes.truncate(max + 1);
            self.bytes.shrink_to_fit();
            self.lease.keep((1 + IDS_PER_BYTE) * self.bytes.len());
        }
    }
}

impl Window {
    /// Refuses the whole split: the bytes before it cannot be read, so the start of its first document is unknown.
    fn refuse_split(&mut self, dealt: DealtSplit, problem: Problem) {
        let DealtSplit { ordinal, split } = dealt;
        let first = self.framed.len();
        self.refuse(Boundary { byte: split.begin, line: 0 }, Boundary::default(), problem);
        self.pieces.push(WindowPiece { ordinal, frames: first..first + 1, at: self.bytes.len() });
    }

    /// Frames the bytes from `at` on, which are at `boundary` in their file, and drops those after the split's last
    /// document. `after` is the end of the read.
    ///
    /// Returns the rest of the split.
    fn frame(
        &mut self,
        dealt: DealtSplit,
        shape: Shape,
        at: usize,
        mut boundary: Boundary,
        after: ReadEnd,
    ) -> Left {
        let DealtSplit { ordinal, split } = dealt;
        let mut done = at;
        if boundary.byte == 0 {
            done += bom_len(&self.bytes[at..]);
            boundary.byte += (done - at) as u64;
        }
        let mut framer = Framer::new(shape, boundary);
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
                (None, ReadEnd::End) => {
                    self.note(done, framer.finish());
                    break Left::Nothing;
                }
                (None, ReadEnd::Broken(broken)) => {
                    self.bytes.truncate(done);
                    self.refuse(framer.start(), Boundary::default(), broken.clone());
                    break Left::Nothing;
                }
                (None, ReadEnd::More) => break Left::Scan(framer),
            }
        };
        self.pieces.push(WindowPiece { ordinal, frames: first..self.framed.len(), at });
        left
    }
}
