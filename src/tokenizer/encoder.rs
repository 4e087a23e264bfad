//! A tokenizer as the pipeline uses it: with the tokens around documents, and with its ids checked.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::borders::Borders;
use super::{EncodeError, MarkedText, Tokenizer};
use crate::config::{SourceConfig, Truncate};
use crate::document::{Around, Document, Marks, Mask, RenderedMarks};
use crate::error::{Error, Result, panic_message};
use crate::segment::StoredIds;

/// A tokenizer, the tokens that it puts around every document, and the id that fills rows. Clones share the
/// tokenizer.
#[derive(Clone, Debug)]
pub struct Encoder {
    tokenizer: Arc<dyn Tokenizer>,
    vocab_size: usize,
    /// The tokenizer's fingerprint, once it was asked for.
    fingerprint: Arc<OnceLock<String>>,
    bos: Option<u32>,
    eos: Option<u32>,
    pad: Option<u32>,
    /// For each source, the places where what is learned from begins, if they are counted.
    borders: Arc<[Option<Borders>]>,
}

impl Encoder {
    /// Makes an encoder that puts nothing around documents.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        let vocab_size = tokenizer.vocab_size();
        let (fingerprint, borders) = (Arc::default(), Arc::default());
        Self { tokenizer, vocab_size, fingerprint, bos: None, eos: None, pad: None, borders }
    }

    /// Says once for each source with a task if many ids stand on both sides of the places where the model begins to
    /// write.
    pub(crate) fn counting_borders(self, sources: &[SourceConfig]) -> Self {
        let borders = sources.iter().map(|source| source.task.reads_records().then(Borders::default));
        Self { borders: borders.collect(), ..self }
    }

    /// Puts a token before every document.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_bos(self, token: &str) -> Result<Self> {
        Ok(Self { bos: Some(self.special("tokenizer.bos", token)?), ..self })
    }

    /// Puts a token after every document.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_eos(self, token: &str) -> Result<Self> {
        Ok(Self { eos: Some(self.special("tokenizer.eos", token)?), ..self })
    }

    /// Fills the end of rows with a token.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_pad(self, token: &str) -> Result<Self> {
        Ok(Self { pad: Some(self.special("tokenizer.pad", token)?), ..self })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The id that fills the end of rows: that of the `pad` token, else of `eos`, else of `bos`, else 0. It
    /// is never a target.
    pub fn pad(&self) -> u32 {
        self.pad.or(self.eos).or(self.bos).unwrap_or(0)
    }

    /// Appends the ids of one document.
    ///
    /// # Errors
    /// The tokenizer's error, or an id beyond its vocabulary. Then ignore the ids beyond the old length of `ids`.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        ids.extend(self.bos);
        let start = ids.len();
        self.tokenizer.encode(text, ids)?;
        self.check(ids.get(start..).unwrap_or_default())?;
        ids.extend(self.eos);
        Ok(())
    }

    /// Appends the ids of a rendered text, which lies at `range` in the places of its marks, and what of them is not
    /// learned from, in places of `ids`. The text has all its special tokens, so nothing is put around it. If no id is
    /// learned from, nothing is appended. Returns its [`borders`](MarkedText::borders).
    ///
    /// # Errors
    /// As [`encode`](Self::encode). Then ignore what is beyond the old length of `ids`; `mask` is as before.
    pub(crate) fn encode_rendered(
        &self,
        text: &str,
        marks: &RenderedMarks,
        range: Range<usize>,
        ids: &mut Vec<u32>,
        mask: &mut Mask,
    ) -> Result<(u64, u64), EncodeError> {
        if let Some(borders) = marks.encoded.copy(range.start, ids, mask) {
            return Ok(borders);
        }
        let (start, text) = (ids.len(), MarkedText::new(text, marks, range.start));
        let mut runs = Vec::with_capacity(text.likely_runs());
        self.tokenizer.encode_marked(&text, ids, &mut runs)?;
        self.check(ids.get(start..).unwrap_or_default())?;
        let (own, kept) = (text.mask(&runs), kept(ids.len().saturating_sub(start), marks.limit));
        if own.learned_count(kept.clone()) == 0 {
            ids.truncate(start);
            return Ok((0, 0));
        }
        ids.truncate(start + kept.end);
        ids.drain(start..start + kept.start);
        mask.append(&own, kept, start);
        Ok(text.borders(&runs))
    }

    /// Refuses ids that are beyond the vocabulary.
    fn check(&self, ids: &[u32]) -> Result<(), EncodeError> {
        let vocab_size = self.vocab_size;
        match beyond(ids, vocab_size) {
            None => Ok(()),
            Some(id) => {
                Err(format!("the tokenizer gave the id {id}, but its vocabulary has {vocab_size}").into())
            }
        }
    }

    /// Refuses stored ids that another tokenizer made.
    pub(crate) fn accept(&self, ids: &StoredIds) -> Result<()> {
        let (made, now) = (ids.tokenizer(), self.fingerprint.get_or_init(|| self.tokenizer.fingerprint()));
        if made == now {
            return Ok(());
        }
        let problem = format!(
            "{}: its ids were made by the tokenizer {made}, but this one is {now}; use the one that made them, or \
             prepare again",
            ids.path().display()
        );
        Err(Error::Corpus { problem })
    }

    /// Appends the ids of one document, and what of them is not learned from, in places of `ids`.
    ///
    /// # Errors
    /// [`Error::Document`] if the tokenizer refuses it, by an error or a panic, or if nothing says what of its text is
    /// learned from. Then nothing is appended.
    pub(crate) fn encode_document(
        &self,
        document: &Document,
        ids: &mut Vec<u32>,
        mask: &mut Mask,
    ) -> Result<()> {
        let (start, text) = (ids.len(), document.text());
        let marks = match document.marks() {
            Marks::None => None,
            Marks::Rendered(marks) => Some(marks),
            Marks::Lost => {
                return Err(document.error(
                    "its text is another than was rendered, and nothing says which bytes of it are learned from",
                    "give it a mask where its text is changed, with Document::with_mask",
                ));
            }
        };
        let encoded = catch_unwind(AssertUnwindSafe(|| match marks {
            None => self.encode(text, ids),
            Some(marks) => self
                .encode_rendered(text, marks, document.slab_range(), ids, mask)
                .map(|borders| self.count(document, borders)),
        }));
        let problem = match encoded {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(problem)) => problem.into(),
            Err(payload) => format!("the tokenizer panicked: {}", panic_message(&*payload)),
        };
        ids.truncate(start);
        Err(document.error(problem, "change the tokenizer, or take the document out"))
    }

    fn count(&self, document: &Document, (all, joined): (u64, u64)) {
        let file = document.files().get(document.position().file as usize);
        if let Some(source) = file.map(|file| file.source)
            && let Some(Some(borders)) = self.borders.get(source)
        {
            borders.count(source, all, joined);
        }
    }

    /// The tokens around each document's own ids.
    pub(crate) fn around(&self) -> Around {
        Around { before: self.bos, behind: self.eos }
    }

    /// The id of a token that the config names.
    fn special(&self, key: &str, token: &str) -> Result<u32> {
        let Some(id) = self.tokenizer.id(token) else {
            let advice = match self.tokenizer.nearest(token) {
                Some(nearest) => format!("the nearest that it has is {nearest:?}"),
                None => "name one that it has".to_owned(),
            };
            return Err(Error::config(key, format!("the tokenizer has no token {token:?}; {advice}")));
        };
        if id as usize >= self.vocab_size {
            return Err(Error::config(
                key,
                format!(
                    "the tokenizer gives {token:?} the id {id}, but its vocabulary has {}; name another token",
                    self.vocab_size
                ),
            ));
        }
        Ok(id)
    }
}

/// Which of a rendered text's ids are kept. Whole turns leave while it is rendered, so there is nothing left of one that
/// is too long even so.
fn kept(len: usize, limit: Option<(usize, Truncate)>) -> Range<usize> {
    match limit {
        Some((most, Truncate::Start)) => len.saturating_sub(most)..len,
        Some((most, Truncate::End)) => 0..len.min(most),
        Some((most, Truncate::Turns | Truncate::Drop)) if most < len => 0..0,
        _ => 0..len,
    }
}

/// Returns an id that is too large for a vocabulary of this size, if there is one.
fn beyond(ids: &[u32], vocab_size: usize) -> Option<u32> {
    // One pass over ids that are still in the cache, several at a time: a difference below zero has the highest bit,
    // and so has an id that is too large to be subtracted.
    let largest = i32::try_from(vocab_size).map_or(i32::MAX, |size| size - 1) as u32;
    let suspect = ids.iter().fold(0, |bits, id| bits | id | largest.wrapping_sub(*id)) >> 31 == 1;
    if suspect { ids.iter().copied().find(|id| *id as usize >= vocab_size) } else { None }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::budget::Lease;
    use crate::document::{SharedSlab, Slab, SlabContent};
    use crate::files::{Files, Position};
    use crate::tokenizer::tests::without_spans;
    use crate::tokenizer::{ByteTokenizer, END_OF_TEXT};

    proptest! {
        #[test]
        fn an_id_beyond_the_vocabulary_is_found(
            ids in prop::collection::vec(prop_oneof![0..9_u32, any::<u32>()], 0..40),
            vocab_size in prop_oneof![0..10_usize, any::<usize>()],
        ) {
            let expected = ids.iter().copied().find(|id| *id as usize >= vocab_size);
            prop_assert_eq!(beyond(&ids, vocab_size), expected);
        }
    }

    /// The ids and the mask of a text at byte 2 of its slab, after an id that was there before.
    fn rendered(
        text: &str,
        special: &[Range<usize>],
        learned: &[Range<usize>],
        limit: Option<(usize, Truncate)>,
    ) -> (Vec<u32>, Mask) {
        let shift = |range: &Range<usize>| range.start + 2..range.end + 2;
        let marks = RenderedMarks {
            mask: Mask::learning(learned.iter().map(shift), text.len() + 4),
            special: special.iter().map(shift).collect(),
            limit,
            ..RenderedMarks::default()
        };
        let (mut ids, mut mask) = (vec![1], Mask::learning([], 1));
        let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos(END_OF_TEXT).expect("a token");
        encoder.encode_rendered(text, &marks, 2..2 + text.len(), &mut ids, &mut mask).expect("ids");
        (ids, mask)
    }

    #[test]
    fn a_rendered_text_has_the_special_tokens_that_are_marked_and_no_others() {
        let text = format!("a{END_OF_TEXT}b{END_OF_TEXT}");
        let end = text.len() - END_OF_TEXT.len();
        let (ids, mask) = rendered(&text, &[end..text.len()], &[0..1, end - 1..text.len()], None);
        let mut expected = vec![1];
        expected.extend(text.bytes().take(end).map(u32::from));
        expected.push(256);
        assert_eq!(ids, expected);
        assert_eq!(mask, Mask::learning([1..2, end..end + 2], end + 2));
    }

    #[test]
    fn a_rendered_text_is_cut_and_its_mask_too() {
        let of = |limit| rendered("abcdef", &[], &[1..3, 5..6], Some(limit));
        let (before, all) = ((vec![1], Mask::learning([], 1)), "abcdef".bytes().map(u32::from));
        let part = |range: Range<usize>| {
            std::iter::once(1).chain(all.clone().skip(range.start).take(range.len())).collect::<Vec<u32>>()
        };
        for how in [Truncate::Start, Truncate::End, Truncate::Turns, Truncate::Drop] {
            assert_eq!(of((6, how)), (part(0..6), Mask::learning([2..4, 6..7], 7)), "{how:?}");
            assert_eq!(of((0, how)), before, "{how:?}");
        }
        assert_eq!(of((4, Truncate::Start)), (part(2..6), Mask::learning([1..2, 4..5], 5)));
        assert_eq!(of((4, Truncate::End)), (part(0..4), Mask::learning([2..4], 5)));
        // Nothing is learned from, or it was to be left out.
        assert_eq!(of((1, Truncate::End)), before);
        assert_eq!(of((5, Truncate::Turns)), before);
        assert_eq!(of((5, Truncate::Drop)), before);
        assert_eq!(rendered("abc", &[], &[], None), before);
        assert_eq!(rendered("", &[], &[], None), before);
    }

    #[test]
    fn a_document_whose_text_was_changed_needs_a_mask() {
        let marks = RenderedMarks { mask: Mask::learning([2..3], 5), ..RenderedMarks::default() };
        let slab = Slab {
            content: SlabContent::Text("..abc".to_owned()),
            marks: Marks::Rendered(Box::new(marks)),
            files: Files::none(),
            lease: Lease::none(),
        };
        let rendered = Document::in_slab(SharedSlab::new(Arc::new(slab)), 2..5, 3, Position::default(), None);
        let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos(END_OF_TEXT).expect("a token");
        let (mut ids, mut mask) = (vec![1], Mask::default());
        encoder.encode_document(&rendered, &mut ids, &mut mask).expect("ids");
        assert_eq!((&*ids, &mask), (&[1, 97, 98, 99][..], &Mask::learning([0..2], 4)));
        let error =
            encoder.encode_document(&rendered.with_text("abd"), &mut ids, &mut mask).expect_err("lost");
        assert!(error.to_string().ends_with("with Document::with_mask"), "{error}");
        assert_eq!((ids.len(), mask.masked().len()), (4, 1), "nothing is appended");
        // Plain text is learned from as a whole.
        encoder.encode_document(&Document::new("d"), &mut ids, &mut mask).expect("ids");
        assert_eq!((&ids[4..], mask.learned_count(4..6)), (&[100, 256][..], 2));
    }

    #[test]
    fn a_tokenizer_that_cannot_tell_where_ids_stand_is_asked_only_where_it_matters() {
        let encode = |learned: Range<usize>| {
            let marks = RenderedMarks { mask: Mask::learning([learned], 6), ..RenderedMarks::default() };
            let marks = RenderedMarks { breaks: vec![3], ..marks };
            let (mut ids, mut mask) = (Vec::new(), Mask::default());
            let encoder = Encoder::new(without_spans());
            encoder.encode_rendered("abcdef", &marks, 0..6, &mut ids, &mut mask).map(|_| mask)
        };
        assert_eq!(encode(3..6), Ok(Mask::learning([3..6], 6)));
        let problem = encode(4..6).expect_err("a border").to_string();
        assert!(problem.contains("which bytes an id stands for"), "{problem}");
    }

    #[test]
    fn the_bounds_are_exact() {
        for size in [1, 2, 1 << 31, (1 << 31) + 1, u32::MAX as usize] {
            let last = (size - 1) as u32;
            assert_eq!((beyond(&[last], size), beyond(&[last, last + 1], size)), (None, Some(last + 1)));
        }
    }
}
