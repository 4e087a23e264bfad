//! Runs of documents, one after another: a row whose ids are not copied yet.

use std::ops::Range;

use super::{Part, Position, label};
use crate::cursor::{LeftOut, Omitted, RowAccount};

/// A row in the making: at most `seq_len + 1` ids, as parts of documents.
///
/// Inputs are all ids but the last, targets all but the first. Consecutive rows of concatenated documents overlap by
/// one id, so every id except the stream's first is a target exactly once.
///
/// A [row stage](crate::loader::LoaderBuilder::row_stage) can look at the ids, drop the row, or give it other ids:
///
/// ```
/// use millstream::document::Part;
/// use millstream::{Sequence, Tokens};
///
/// let tokens = Tokens::new(vec![5, 6, 7], 3);
/// let row = Sequence::new(vec![Part::new(&tokens, 0..3)], 4);
/// let row = row.map_ids(|place, id| if place.offset == 1 { 0 } else { id });
/// assert_eq!(row.ids().collect::<Vec<_>>(), [5, 0, 7]);
/// assert_eq!(row.width(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    parts: Vec<Part>,
    len: usize,
    width: usize,
    /// How many documents begin in it.
    begun: u32,
    /// Whether its first id is also in the row before, so that it is counted there.
    overlaps: bool,
    /// Which source it is of; `None` if it is only padding.
    source: Option<u32>,
    /// What of that source was left out since the row before.
    left_out: Option<Box<Omitted>>,
}

/// Where an id of a [`Sequence`] comes from. It is the same in every epoch, however the rows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdPlace {
    /// Where its document begins.
    pub position: Position,
    /// The id's index in its document, from 0.
    pub offset: usize,
}

impl Sequence {
    /// Creates a row of `width` ids (`seq_len + 1`) that holds `parts`; the rest is padding.
    ///
    /// # Panics
    /// If the parts are longer than `width`.
    pub fn new(parts: Vec<Part>, width: usize) -> Self {
        let (len, begun) = measured(&parts);
        assert!(len <= width, "the parts of a sequence are {len} ids long, and it holds {width}");
        let overlaps = parts.first().is_some_and(|part| part.offset() > 0);
        Self { parts, len, width, begun, overlaps, source: Some(0), left_out: None }
    }

    /// Says whether the first id is also in the row before; unless this is called, it is if it is not the first of its
    /// document.
    pub(crate) fn overlapping(self, overlaps: bool) -> Self {
        Self { overlaps, ..self }
    }

    /// Says which source the row is of; `None` if it is only padding. Unless this is called, it is of the first.
    pub(crate) fn of_source(self, source: Option<u32>) -> Self {
        Self { source, ..self }
    }

    /// Says what was left out since the row before.
    pub(crate) fn leaving_out(self, left_out: Option<Box<Omitted>>) -> Self {
        Self { left_out, ..self }
    }

    /// What was left out since the row before.
    pub(crate) fn left_out(&self) -> Option<&Omitted> {
        self.left_out.as_deref()
    }

    /// Replaces each id by what `f` returns for its place and id. The number of ids, the documents, their positions and
    /// which ids are learned from stay the same. Parts without a changed id are shared, not copied.
    ///
    /// In a loader the ids must be less than the tokenizer's vocabulary size; otherwise the stage that gives them fails
    /// with an [`Error::Stage`](crate::Error::Stage).
    #[must_use]
    pub fn map_ids(mut self, mut f: impl FnMut(IdPlace, u32) -> u32) -> Self {
        for part in &mut self.parts {
            let (position, ids) = (part.position(), part.ids());
            let places = (part.offset()..).map(|offset| IdPlace { position, offset });
            let mapped: Vec<u32> = places.zip(ids.iter()).map(|(place, id)| f(place, *id)).collect();
            if mapped != *ids {
                *part = part.replaced(mapped);
            }
        }
        self
    }

    /// Returns the row without the parts of documents for which `is_excluded` is true. Later parts move up, and padding
    /// fills the end. A batch has targets for so many ids `ahead`. What is left out counts by the values of a column, too.
    pub(crate) fn without(
        mut self,
        is_excluded: impl Fn(&Position) -> bool,
        ahead: usize,
        ledger_by: Option<&str>,
    ) -> Self {
        let is_out = |part: &Part| is_excluded(&part.position());
        if !self.parts.iter().any(is_out) {
            return self;
        }
        let (before, places) = (self.counted(ahead), self.counted_places(ahead));
        self.overlaps &= !self.parts.first().is_some_and(is_out);
        let parts = std::mem::take(&mut self.parts);
        let (out, kept) = placed(parts).partition::<Vec<_>, _>(|(_, part)| is_out(part));
        self.parts = kept.into_iter().map(|(_, part)| part).collect();
        (self.len, self.begun) = measured(&self.parts);
        let after = self.counted(ahead);
        let excluded = LeftOut {
            documents: before.documents.saturating_sub(after.documents),
            ids: before.ids.saturating_sub(after.ids),
        };
        **self.left_out.get_or_insert_default() += match ledger_by {
            None => Omitted::of(None, excluded.as_excluded()),
            Some(column) => by_value(excluded, &out, &places, column),
        };
        self
    }

    /// How many documents and ids are counted in this row, and not in another that they are also in.
    fn counted(&self, ahead: usize) -> LeftOut {
        let counted = self.counted_places(ahead);
        LeftOut { documents: self.documents(&counted).into(), ids: counted.len() as u64 }
    }

    /// How many documents begin where ids are `counted`.
    #[inline]
    fn documents(&self, counted: &Range<usize>) -> u32 {
        if counted.end < self.len {
            return self.documents_before(counted);
        }
        let first = self.parts.iter().find(|part| !part.is_empty());
        self.begun - u32::from(self.overlaps && first.is_some_and(begins))
    }

    /// The same of a row that has ids behind the `counted` ones, because batches have targets further ahead.
    #[cold]
    fn documents_before(&self, counted: &Range<usize>) -> u32 {
        let mut begin = 0;
        let mut documents = 0;
        for part in &self.parts {
            documents += u32::from(begins(part) && counted.contains(&begin));
            begin += part.len();
        }
        documents
    }

    /// Where the ids are that are counted in this row, and not in another that they are also in: the targets one id ahead,
    /// and the first id if it is in no row before. A batch has targets for so many ids `ahead`.
    fn counted_places(&self, ahead: usize) -> Range<usize> {
        usize::from(self.overlaps)..self.len.min(self.width.saturating_sub(ahead) + 1)
    }

    /// What the row holds, if so many targets are `masked`.
    #[inline]
    pub(crate) fn account(&self, ahead: usize, masked: usize) -> RowAccount {
        let seq_len = self.width.saturating_sub(ahead);
        let targets = self.len.min(seq_len + 1).saturating_sub(1);
        RowAccount {
            source: self.source,
            documents: self.documents(&self.counted_places(ahead)),
            learned: (targets - masked) as u32,
            masked: masked as u32,
            first: u32::from(self.len > 0 && !self.overlaps),
            padding: (seq_len - targets) as u32,
        }
    }

    /// Returns the same row, `width` ids wide.
    ///
    /// # Panics
    /// If the row has more than `width` ids.
    pub(crate) fn with_width(self, width: usize) -> Self {
        assert!(self.len <= width, "a sequence of {} ids, and a width of {width}", self.len);
        Self { width, ..self }
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The number of ids, without padding.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the row has no ids.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The width, `seq_len + 1`: ids and padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The ids, without padding.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().flat_map(|part| {
            let ids = part.ids();
            (0..ids.len()).map(move |at| ids[at])
        })
    }
}

/// The parts, each with where its first id is in their row.
fn placed(parts: Vec<Part>) -> impl Iterator<Item = (usize, Part)> {
    let place = |end: &mut usize, part: Part| {
        let begin = std::mem::replace(end, *end + part.len());
        Some((begin, part))
    };
    parts.into_iter().scan(0, place)
}

/// Divides what is `excluded` of a row among the values of a column: those of the parts that are taken `out`. Ids of the row
/// were `counted` at these places.
///
/// With targets further ahead, ids that move up count in this row, too: then less is excluded than the parts have, and the
/// last parts have less.
#[cold]
fn by_value(excluded: LeftOut, out: &[(usize, Part)], counted: &Range<usize>, column: &str) -> Omitted {
    let (mut all, mut left) = (Omitted::default(), excluded);
    for (begin, part) in out {
        let end = (begin + part.len()).min(counted.end);
        let documents = u64::from(begins(part) && counted.contains(begin)).min(left.documents);
        let ids = (end.saturating_sub(*begin.max(&counted.start)) as u64).min(left.ids);
        left = LeftOut { documents: left.documents - documents, ids: left.ids - ids };
        let own = LeftOut { documents, ids };
        all += Omitted::of(Some(&label(part.column(column))), own.as_excluded());
    }
    all
}

/// Whether a document begins with this part.
#[inline]
fn begins(part: &Part) -> bool {
    part.offset() == 0 && !part.is_empty()
}

/// How many ids some parts have, and how many documents begin in them.
#[inline]
fn measured(parts: &[Part]) -> (usize, u32) {
    parts.iter().fold((0, 0), |(len, begun), part| (len + part.len(), begun + u32::from(begins(part))))
}
