//! Texts in memory as a source, for tests and small data.
//!
//! All texts are stored once, and each document points into them. Each epoch deals them to the lanes one by one, in an
//! order of that epoch if `shuffle_splits` is on. The cursor is the epoch and how many of the lane's texts were
//! delivered in it. Texts with a task are records: they are rendered once, before the first is delivered.

use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, stream};

use super::custom::DocumentStream;
use crate::budget::Lease;
use crate::config::{Config, OnError};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Document, Marks, RenderedMarks, SharedSlab, Slab, SlabContent};
use crate::error::{Error, Result, Unit};
use crate::files::{File, Files, Location, Position};
use crate::meter::Reasons;
use crate::order::permutation;
use crate::render::{Outcome, Rendered, Renderer};
use crate::source::{Holdout, Lane, Summary};

/// How many texts a lane should have. With fewer, rows would stay half empty.
const TEXTS_A_LANE: usize = 16;
const ROWS_A_LANE: usize = 16;

/// The domain of an epoch's random order, beside the seed and the epoch.
const DOMAIN: &str = "texts";

/// Texts, stored one after another.
#[derive(Clone, Debug)]
pub(super) struct InMemoryTexts {
    slab: Arc<Slab>,
    /// Each text's byte range, and its number among the texts that were given.
    places: Arc<[(Range<usize>, u64)]>,
    summary: Arc<Summary>,
    /// What renders them, if they are records.
    rendering: Option<Arc<Renderer>>,
}

impl InMemoryTexts {
    /// Stores `texts`, without blank ones.
    pub(super) fn new(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let (mut all, mut places, mut hasher) = (String::new(), Vec::new(), blake3::Hasher::new());
        let mut count = 0;
        for (number, text) in (0..).zip(texts) {
            let text = text.as_ref();
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            count += 1;
            if !text.trim().is_empty() {
                places.push((all.len()..all.len() + text.len(), number));
                all.push_str(text);
            }
        }
        let bytes = all.len() as u64;
        let file = File {
            location: Location::Path("texts".into()),
            len: bytes,
            etag: None,
            source: 0,
            unit: Unit::Row,
        };
        let (files, content) = (Arc::new(Files::new(vec![file])), SlabContent::Text(all));
        let slab = Arc::new(Slab { content, marks: Marks::None, files, lease: Lease::none() });
        let digest = hasher.finalize().to_hex().to_string();
        let summary = Arc::new(Summary { files: count, bytes, digest });
        Self { slab, places: places.into(), summary, rendering: None }
    }

    /// The same texts, to be rendered.
    pub(super) fn with_rendering(self, rendering: Option<Arc<Renderer>>) -> Self {
        Self { rendering, ..self }
    }

    pub(super) fn rendered(&self) -> Option<String> {
        self.rendering.as_ref().map(|rendering| rendering.fingerprint())
    }

    /// A short digest of the texts: equal digests mean the same texts in the same order.
    pub(super) fn summary(&self) -> String {
        let Summary { files, bytes, digest } = &*self.summary;
        format!("{files} texts, {bytes} bytes, BLAKE3 {digest}")
    }

    /// How many lanes the texts are enough for: a power of two.
    pub(super) fn lanes(&self, config: &Config) -> usize {
        let most = config.pipeline.lanes();
        let of_texts = self.places.len() / TEXTS_A_LANE;
        // A byte is at most one id.
        let of_rows = self.text().len() / (ROWS_A_LANE * config.pipeline.seq_len.max(1));
        1 << of_texts.min(of_rows).clamp(1, most).ilog2()
    }

    /// Returns the texts on one side of the hold-out, rendered if they have a task.
    ///
    /// # Errors
    /// [`Error::Corpus`] if there are none, [`Error::Config`] if some lane would get none and never end,
    /// [`Error::Document`] for one that cannot be rendered, if `on_error` allows no more.
    pub(super) fn on_side(self, holdout: Holdout, config: &Config) -> Result<Self> {
        let text = self.text();
        let is_there = |(range, _): &&(Range<usize>, u64)| holdout.delivers(&text[range.clone()]);
        let places = self.places.iter().filter(is_there).cloned().collect();
        let texts = Self { places, ..self };
        let texts = match texts.rendering.clone() {
            Some(rendering) => texts.rendered_by(&rendering, config.sources[0].on_error)?,
            None => texts,
        };
        let (lanes, count) = (config.pipeline.lanes(), texts.places.len());
        if count == 0 {
            let why = texts.rendering.as_ref().and_then(|rendering| rendering.unlearned());
            let why = why.unwrap_or_else(|| {
                "all of them are blank, left out, or on the other side of pipeline.holdout".to_owned()
            });
            let problem = format!("there is nothing to read in {} texts: {why}", texts.summary.files);
            return Err(Error::Corpus { problem });
        }
        if count < lanes && config.epochs(0).is_none() {
            let problem = format!(
                "{lanes} lanes, and there are only {count} texts, which are read without end; set fewer lanes, or \
                 leave pipeline.lanes out, so that there are as many as the texts allow"
            );
            return Err(Error::config("pipeline.lanes", problem));
        }
        Ok(texts)
    }

    /// The texts that these records become.
    fn rendered_by(self, rendering: &Renderer, on_error: OnError) -> Result<Self> {
        let (mut all, mut marks, mut places, mut skipped) =
            (String::new(), Box::<RenderedMarks>::default(), Vec::new(), 0);
        let mut reasons = Reasons::default();
        let mut skip = |row: u64, reason: &str| {
            if let Some(message) = reasons.message(reason) {
                tracing::warn!(row, reason, "{message}");
            }
        };
        for (range, number) in self.places.iter() {
            let outcomes = match rendering.render(&self.text()[range.clone()], 0, *number) {
                Ok(outcomes) => outcomes,
                Err(problem) if skipped < on_error.most() => {
                    skipped += 1;
                    skip(*number, &problem.what);
                    continue;
                }
                Err(problem) => {
                    let position = Position { byte: *number, ..Position::default() };
                    let slab = SharedSlab::new(self.slab.clone());
                    let document = Document::in_slab(slab, range.clone(), range.len(), position, None);
                    return Err(document.error(problem.what, problem.remedy));
                }
            };
            for outcome in outcomes {
                match outcome {
                    Outcome::Text(rendered) => {
                        if let Some(message) = rendering.shortened(&rendered) {
                            tracing::warn!(row = *number, "{message}");
                        }
                        let Rendered { text, marks: own, .. } = rendered;
                        marks.append(&own, text.len(), all.len());
                        places.push((all.len()..all.len() + text.len(), *number));
                        all.push_str(&text);
                    }
                    Outcome::LeftOut(reason) => skip(*number, &reason),
                }
            }
        }
        let (files, content) = (self.slab.files.clone(), SlabContent::Text(all));
        let slab = Slab { content, marks: Marks::Rendered(marks), files, lease: Lease::none() };
        Ok(Self { slab: Arc::new(slab), places: places.into(), ..self })
    }

    pub(super) fn documents(&self, deal: Lane, at: &LaneCursor) -> DocumentStream {
        let (texts, at) = (self.clone(), *at);
        let first = self.dealt(deal, at.epoch).len() as u64;
        if at.split > first {
            let problem =
                format!("{} texts of a lane's {first} were delivered in epoch {}", at.split, at.epoch);
            return stream::iter([Err(Error::resume(problem))]).boxed();
        }
        // A count for this lane only: the slab's own is shared by every lane.
        let slab = SharedSlab::new(self.slab.clone());
        let mut documents = at.documents;
        let epochs = at.epoch..deal.epochs.unwrap_or(u64::MAX);
        let dealt = epochs.flat_map(move |epoch| {
            let done = if epoch == at.epoch { at.split } else { 0 };
            (1..)
                .zip(texts.dealt(deal, epoch))
                .skip(done as usize)
                .map(move |(split, place)| (epoch, split, place))
        });
        let document = move |(epoch, split, (range, number)): (u64, u64, (Range<usize>, u64))| {
            documents += 1;
            let bytes = range.len();
            let position = Position { byte: number, ..Position::default() };
            let document = Document::in_slab(slab.clone(), range, bytes, position, None);
            let mut cursor = LaneCursor::after(documents);
            (cursor.epoch, cursor.split) = (epoch, split);
            Ok(Tracked::new(document, cursor))
        };
        stream::iter(dealt.map(document)).boxed()
    }

    /// The ranges of a lane's texts in one epoch, in reading order.
    fn dealt(&self, deal: Lane, epoch: u64) -> Vec<(Range<usize>, u64)> {
        let count = self.places.len();
        let order: Vec<u32> = match deal.shuffle_splits {
            true => permutation(DOMAIN, &[deal.seed, epoch], count),
            false => (0..count as u32).collect(),
        };
        let own = order.into_iter().skip(deal.lane).step_by(deal.lanes);
        own.map(|place| self.places[place as usize].clone()).collect()
    }

    fn text(&self) -> &str {
        match &self.slab.content {
            SlabContent::Text(text) => text,
            SlabContent::Ids(_) => "",
        }
    }
}
