//! One group of documents in one blocking job: texts in, an arena of ids out. Stored ids stay where they are.

use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::budget::{Budget, Lease, Moving};
use crate::config::OnError;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{
    Arena, Around, CarriedColumns, Document, DocumentGroup, Marks, Mask, NO_IDS, SplitEvent, Tokens,
};
use crate::error::{Error, Result};
use crate::files::{Files, Position};
use crate::segment::{Boundary, StoredIds, StoredText};
use crate::shards::Recorder;
use crate::tokenizer::Encoder;

/// A group after its job: the documents, and the arenas that hold their ids.
#[derive(Debug)]
pub(super) struct Encoded {
    arenas: Vec<Arc<Arena>>,
    items: std::vec::IntoIter<OrRefused>,
    pub(super) finished: Instant,
    /// What happens between the documents, each with the number of documents before it.
    events: VecDeque<(usize, SplitEvent)>,
    /// The error that ends the stream after them.
    pub(super) error: Option<Error>,
    _moving: Option<Moving>,
}

#[derive(Debug)]
pub(super) struct EncodedDocument {
    place: Place,
    pub(super) text_bytes: usize,
    position: Position,
    columns: CarriedColumns,
    cursor: LaneCursor,
}

/// A document, or one that the tokenizer refuses.
type OrRefused = Result<EncodedDocument, Box<Refused>>;

/// A document that the tokenizer refuses. It has no ids.
#[derive(Debug)]
pub(super) struct Refused {
    document: EncodedDocument,
    error: Error,
}

/// Where the ids of a document are.
#[derive(Debug, Default)]
struct Place {
    arena: usize,
    ids: Range<usize>,
    kind: Kind,
}

/// How a document came to its ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Plain,
    /// From a text that had all special tokens, so that none are put around it.
    Rendered,
    /// It has none, because none would be learned from.
    LeftOut,
    /// It has none, because it was delivered before.
    Delivered,
    /// It has none, because the tokenizer failed on it when it was stored.
    Failed,
}

impl EncodedDocument {
    #[inline]
    fn new(Tracked { value: document, cursor }: &Tracked<Document>, place: Place) -> Self {
        Self {
            place,
            text_bytes: document.text_bytes(),
            position: document.position(),
            columns: document.columns().clone(),
            cursor: *cursor,
        }
    }
}

impl Place {
    /// The tokens around the document's own ids.
    fn around(&self, encoder: &Encoder) -> Around {
        if self.kind == Kind::Plain { encoder.around() } else { Around::NONE }
    }
}

impl Encoded {
    /// How many documents, tokens and bytes of text there are, without documents that were delivered before or are left
    /// out.
    pub(super) fn size(&self) -> (u64, u64, u64) {
        let items = self.items.as_slice().iter().flatten();
        let counted = items.filter(|item| matches!(item.place.kind, Kind::Plain | Kind::Rendered));
        counted.fold((0, 0, 0), |(documents, tokens, bytes), item| {
            (documents + 1, tokens + item.place.ids.len() as u64, bytes + item.text_bytes as u64)
        })
    }

    /// Gives the documents to a recorder, without the ids `around` them, and what happens between them.
    pub(super) fn record(&mut self, encoder: &Encoder, recorder: &mut Recorder) {
        for (nth, item) in self.items.as_slice().iter().enumerate() {
            while let Some((_, event)) = self.events.pop_front_if(|(before, _)| *before <= nth) {
                recorder.event(event);
            }
            match item {
                Ok(item) => {
                    let Place { arena, ids, .. } = &item.place;
                    let own = item.place.around(encoder).within(ids);
                    let (offset, len) = (own.start - ids.start, ids.len());
                    let append = |into: &mut Vec<u32>| self.arenas[*arena].append(&own, offset, len, into);
                    let Position { byte, line, .. } = item.position;
                    let start = Boundary { byte, line: line.saturating_sub(1) };
                    let mask = self.arenas[*arena].mask_of(&own).unwrap_or_default();
                    let text = StoredText::Bytes(item.text_bytes as u32);
                    recorder.document(item.cursor.split, append, mask, &item.columns, start, text);
                }
                Err(refused) => recorder.refused(refused.document.cursor.split),
            }
        }
        self.events.drain(..).for_each(|(_, event)| recorder.event(event));
    }

    /// The next document.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Result<Tracked<Tokens>, Box<Refused>>> {
        Some(self.items.next()?.map(|item| self.tokens(item)))
    }

    /// A document that was refused, and the error.
    #[cold]
    pub(super) fn refused(&self, Refused { document, error }: Refused) -> (Tracked<Tokens>, Error) {
        (self.tokens(document), error)
    }

    #[inline]
    fn tokens(&self, item: EncodedDocument) -> Tracked<Tokens> {
        let EncodedDocument { place: Place { arena, ids, .. }, text_bytes, position, columns, cursor } = item;
        let tokens = Tokens::in_arena(self.arenas[arena].clone(), ids, text_bytes, position, columns);
        Tracked::new(tokens, cursor)
    }
}

/// Where the ids of a group's documents go: into the first arena, or into that of stored ids.
struct EncodedIds<'a> {
    encoder: &'a Encoder,
    made: Vec<u32>,
    mask: Mask,
    stored: Vec<StoredGroup>,
}

/// The documents of a group that have their ids in one place.
struct StoredGroup {
    ids: StoredIds,
    /// Which of their ids are not learned from, in the order of the group.
    masked: Vec<Range<usize>>,
}

impl EncodedIds<'_> {
    /// Returns where the ids of a document are.
    #[inline]
    fn add(&mut self, document: &Document) -> Result<Place> {
        match document.stored_ids() {
            None => self.add_text(document),
            Some((ids, own)) => self.add_stored(document, ids, own),
        }
    }

    #[inline]
    fn add_text(&mut self, document: &Document) -> Result<Place> {
        let is_rendered = matches!(document.marks(), Marks::Rendered(_));
        let start = self.made.len();
        self.encoder.encode_document(document, &mut self.made, &mut self.mask)?;
        let ids = start..self.made.len();
        // Of a rendered text nothing is appended if nothing of it is learned.
        let kind = match is_rendered {
            false => Kind::Plain,
            true if ids.is_empty() => Kind::LeftOut,
            true => Kind::Rendered,
        };
        Ok(Place { arena: 0, ids, kind })
    }

    fn add_stored(&mut self, document: &Document, ids: &StoredIds, own: Range<usize>) -> Result<Place> {
        if own == NO_IDS {
            return Ok(Place { kind: Kind::Failed, ..Place::default() });
        }
        // Documents of a few segments alternate, so the search is short.
        let known = self.stored.iter().rposition(|known| known.ids.is(ids));
        let nth = match known {
            Some(nth) => nth,
            None => {
                self.encoder.accept(ids)?;
                self.stored.push(StoredGroup { ids: ids.clone(), masked: Vec::new() });
                self.stored.len() - 1
            }
        };
        let arena = nth + 1;
        if !ids.is_rendered() {
            return Ok(Place { arena, ids: self.encoder.around().around(&own), kind: Kind::Plain });
        }
        let mask = match document.marks() {
            Marks::Rendered(marks) => &marks.mask,
            Marks::None | Marks::Lost => &Mask::default(),
        };
        if mask.learned_in(own.clone()).next().is_none() {
            return Ok(Place { arena, ids: own.start..own.start, kind: Kind::LeftOut });
        }
        self.stored[nth].masked.extend(mask.masked_in(own.clone()));
        Ok(Place { arena, ids: own, kind: Kind::Rendered })
    }
}

/// Encodes a group of documents, except those that were `delivered` before, which has flags for the first ones.
/// Refused documents leave no ids; if none may be skipped, the group ends with the first refused one. A document of which
/// nothing is learned has no ids, and is given to `leave_out`.
pub(super) fn encode(
    encoder: &Encoder,
    group: DocumentGroup,
    delivered: &[bool],
    on_error: OnError,
    ids_per_kib: &AtomicUsize,
    leave_out: impl Fn(&Document),
) -> Encoded {
    let DocumentGroup { documents: group, mut events, error, moving } = group;
    let per_kib = ids_per_kib.load(Relaxed);
    let flagged = || group.iter().zip(delivered.iter().copied().chain(iter::repeat(false)));
    let to_encode =
        || flagged().filter(|(_, is_delivered)| !is_delivered).map(|(document, _)| &document.value);
    let made = Vec::with_capacity(to_encode().map(|document| document.likely_ids(per_kib)).sum());
    let mut encoded = EncodedIds { encoder, made, mask: Mask::default(), stored: Vec::new() };
    let mut items = Vec::with_capacity(group.len());
    for (document, is_delivered) in flagged() {
        let added = match is_delivered {
            true => Ok(Place { kind: Kind::Delivered, ..Place::default() }),
            false => encoded.add(&document.value),
        };
        match added {
            Ok(place) => {
                if place.kind == Kind::LeftOut {
                    leave_out(&document.value);
                }
                items.push(Ok(EncodedDocument::new(document, place)));
            }
            Err(error) => {
                let is_last = on_error == OnError::Fail || !matches!(error, Error::Document { .. });
                let document = EncodedDocument::new(document, Place::default());
                items.push(Err(Box::new(Refused { document, error })));
                if is_last {
                    break;
                }
            }
        }
    }
    if items.len() < group.len() {
        // What comes behind the last document here is not known to have happened.
        events.retain(|(before, _)| *before < items.len());
    }
    let EncodedIds { mut made, mask, stored, .. } = encoded;
    let text: usize = to_encode().map(|document| document.text().len()).sum();
    if text > 0 {
        // A sixteenth more than was seen, so that most arenas need not grow.
        ids_per_kib.store((made.len() * (1024 + 64)).div_ceil(text), Relaxed);
    }
    let files = group.first().map_or_else(Files::none, |first| first.value.files().clone());
    let lease = ids_lease(&group, &mut made, &mask);
    let stored = stored.into_iter().map(|StoredGroup { ids, masked }| {
        let around = if ids.is_rendered() { Around::NONE } else { encoder.around() };
        Arena::stored(ids, around, Mask::union(masked), files.clone())
    });
    Encoded {
        arenas: std::iter::once(Arena::encoded(made, mask, files.clone(), lease)).chain(stored).collect(),
        items: items.into_iter(),
        finished: Instant::now(),
        events,
        error,
        _moving: moving,
    }
}

/// The budget that a group's texts are charged to. A custom stage may have added texts that are not charged.
pub(super) fn budget_of(group: &[Tracked<Document>]) -> Option<&Arc<Budget>> {
    group.iter().find_map(|document| document.value.lease().budget())
}

/// Moves the room for ids, which was reserved with the documents' text, to their arena, with what their mask and columns take.
fn ids_lease(group: &[Tracked<Document>], ids: &mut Vec<u32>, mask: &Mask) -> Lease {
    let Some(budget) = budget_of(group) else { return Lease::none() };
    let reserved: usize = group
        .chunk_by(|a, b| std::ptr::eq(a.value.lease(), b.value.lease()))
        .map(|run| {
            let most: usize = run.iter().map(|document| document.value.most_ids()).sum();
            run[0].value.lease().take(size_of::<u32>() * most)
        })
        .sum();
    // The capacity is guessed from earlier jobs, which differ by chance; what is charged must not.
    if ids.capacity() > ids.len() + ids.len() / 8 {
        ids.shrink_to_fit();
    }
    let columns: usize = group
        .iter()
        .filter_map(|document| document.value.columns().as_ref())
        .map(|columns| columns.bytes())
        .sum();
    budget.resize(reserved, ids.len() * size_of::<u32>() + mask.bytes() + columns)
}
