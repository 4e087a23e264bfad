//! Fills the token cache: notes which splits a lane reads as text, and tells the recorder.
//!
//! Without a cache it does nothing.

use std::collections::HashMap;
use std::sync::Arc;

use super::cached::CachedTokens;
use super::open_split::{Next, OpenSplit};
use crate::cursor::LaneCursor;
use crate::shards::{LaneCounts, Notes, Recorder};

/// Notes for the [`Recorder`] which splits a lane reads as text.
#[derive(Debug, Default)]
pub(crate) struct SplitRecorder(Option<Recording>);

#[derive(Debug)]
struct Recording {
    cached: CachedTokens,
    notes: Arc<Notes>,
    /// The splits whose text is being read, by their numbers among all. Each is read to its end, even if its tokens get
    /// cached meanwhile.
    texts: Vec<u32>,
    /// How many documents of each split have been delivered, by its ordinal in the lane.
    counts: HashMap<u64, u64>,
}

/// A split whose text was begun or finished, in splits that are read side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) group: u64,
    number: u32,
    ordinal: u64,
    is_begin: bool,
}

/// How many documents the lane has delivered after those of a group of splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupCount {
    /// Where the group begins.
    pub(crate) group: u64,
    pub(crate) documents: u64,
}

/// A number of documents at one of the lane's splits: delivered from it, or delivered by the lane before one of its
/// documents was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitCount {
    pub(crate) ordinal: u64,
    pub(crate) documents: u64,
}

impl SplitRecorder {
    /// For a lane that reads from `start` on. The recorder takes the documents after it, once they are tokenized.
    pub(crate) fn new(cached: &CachedTokens, start: &LaneCursor) -> (Self, Recorder) {
        let notes: Arc<Notes> = Arc::default();
        let recorder = Recorder::new(cached.cache.clone(), notes.clone(), start);
        let (texts, counts) = (Vec::new(), HashMap::new());
        (Self(Some(Recording { cached: cached.clone(), notes, texts, counts })), recorder)
    }

    /// Whether there is a cache to fill.
    pub(crate) fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the text of split `number` is being read.
    pub(crate) fn is_under_way(&self, number: u32) -> bool {
        self.0.as_ref().is_some_and(|recording| recording.texts.contains(&number))
    }

    /// The text of split `number` is being read: from its beginning if `at` is known.
    pub(crate) fn reads(&mut self, number: u32, at: Option<LaneCounts>) {
        let Some(Recording { cached, notes, texts, .. }) = &mut self.0 else { return };
        *texts = vec![number];
        if let Some(at) = at.filter(|_| cached.cache.claim(cached.nth(number))) {
            notes.begin(cached.nth(number), at);
        }
    }

    /// The text of split `number` has been read to its end.
    pub(crate) fn leaves(&mut self, number: u32, at: LaneCounts) {
        let Some(Recording { cached, notes, texts, .. }) = &mut self.0 else { return };
        if std::mem::take(texts).contains(&number) {
            notes.end(cached.nth(number), at);
        }
    }

    /// The lane's epoch has ended. Other lanes may have added tokens meanwhile.
    pub(crate) fn ends_epoch(&self, at: LaneCounts) {
        let Some(Recording { cached, notes, .. }) = &self.0 else { return };
        notes.end_epoch(at);
        cached.cache.refresh();
    }

    /// The group of splits that begins at `group` is being read side by side, and no earlier one. Notes the splits
    /// whose text is read from its beginning.
    pub(crate) fn begins_group(&mut self, group: u64, splits: &[OpenSplit], notes: &mut Vec<Noted>) {
        let Some(recording) = &mut self.0 else { return };
        recording.texts.clear();
        for split in splits.iter().filter(|split| split.stored.is_none()) {
            notes.extend(recording.begin(group, split));
        }
    }

    /// Notes a split that is read as text instead of damaged tokens.
    pub(crate) fn turns(&mut self, group: u64, split: &OpenSplit, notes: &mut Vec<Noted>) {
        let Some(recording) = &mut self.0 else { return };
        notes.extend(recording.begin(group, split));
    }

    /// Notes the splits whose text has been read to its end.
    pub(crate) fn ends_texts(&mut self, group: u64, splits: &[OpenSplit], notes: &mut Vec<Noted>) {
        let Some(Recording { texts, .. }) = &mut self.0 else { return };
        for split in splits.iter().filter(|split| split.next == Next::End && split.stored.is_none()) {
            let OpenSplit { number, ordinal, .. } = *split;
            let before = texts.len();
            texts.retain(|text| *text != number);
            if texts.len() < before {
                notes.push(Noted { group, number, ordinal, is_begin: false });
            }
        }
    }

    /// Counts the documents that were delivered from each of the lane's splits.
    pub(crate) fn counts(&mut self, delivered: &[SplitCount]) {
        let Some(Recording { counts, .. }) = &mut self.0 else { return };
        for &SplitCount { ordinal, documents } in delivered {
            *counts.entry(ordinal).or_default() += documents;
        }
    }

    /// Tells the recorder which splits were begun, which were read to their end, and which documents were skipped. Each
    /// comes with the number of documents that the lane had delivered: `begun` before all of them, and the numbers in
    /// `ends` after each group.
    pub(crate) fn tell(&mut self, begun: u64, ends: &[GroupCount], skips: &[SplitCount], noted: &[Noted]) {
        let Some(Recording { cached, notes, counts, .. }) = &mut self.0 else { return };
        let (mut documents, mut skips) = (begun, skips.iter().peekable());
        for (nth, &GroupCount { group, documents: behind }) in ends.iter().enumerate() {
            let of_group =
                |is_begin| noted.iter().filter(move |note| note.group == group && note.is_begin == is_begin);
            for &Noted { number, ordinal, .. } in of_group(true) {
                notes.begin_interleaved(cached.nth(number), ordinal, (ordinal - group) as usize, documents);
            }
            let next = ends.get(nth + 1).map_or(u64::MAX, |next| next.group);
            while let Some(skip) = skips.next_if(|skip| skip.ordinal < next) {
                notes.skip_interleaved(skip.ordinal, skip.documents);
            }
            for &Noted { number, ordinal, .. } in of_group(false) {
                let delivered = counts.remove(&ordinal).unwrap_or_default();
                notes.end_interleaved(cached.nth(number), delivered, behind);
            }
            documents = behind;
        }
    }
}

impl Recording {
    /// Notes that a split is read as text, if it is read from its beginning and is to be recorded.
    fn begin(&mut self, group: u64, split: &OpenSplit) -> Option<Noted> {
        let &OpenSplit { number, ordinal, passed, .. } = split;
        self.texts.push(number);
        let is_recorded = passed.is_none() && self.cached.cache.claim(self.cached.nth(number));
        is_recorded.then_some(Noted { group, number, ordinal, is_begin: true })
    }
}
