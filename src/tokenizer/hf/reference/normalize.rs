//! The normalizer of a file, step by step: it stops where a search gives up, and before a text grows out of bounds.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokenizers_reference::normalizer::Range as Within;
use tokenizers_reference::normalizers::NormalizerWrapper;
use tokenizers_reference::pattern::Pattern;
use tokenizers_reference::{NormalizedString, Normalizer, Offsets};

use super::AnyError;
use super::search::{GaveUp, Search};
use crate::threads::lock;

/// How many times as long as the text its normalized form may be. Unicode's own forms give 11 times at most, for a
/// text of one rare character alone.
const GROWTH: usize = 16;

/// What any text may grow to, in bytes.
const LEAST: usize = 64 << 10;

pub(super) struct Normalizers(Vec<Step>);

enum Step {
    Replace { search: Search, content: String },
    Other(NormalizerWrapper),
}

impl Normalizers {
    pub(super) fn new(normalizer: &NormalizerWrapper) -> Result<Self, String> {
        let mut steps = Vec::new();
        add(normalizer, &mut steps)?;
        Ok(Self(steps))
    }

    /// Begins to normalize `text`, as a whole or in parts.
    pub(super) fn pass(&self, text: &str) -> Pass<'_> {
        Pass {
            steps: &self.0,
            of: text.len(),
            most: (text.len() * GROWTH).max(LEAST),
            made: Mutex::new(Ok(Made::default())),
        }
    }

    /// Checks that a text can be normalized.
    pub(super) fn check(&self, text: &str) -> Result<(), AnyError> {
        let pass = self.pass(text);
        pass.normalize(&mut text.into())?;
        pass.outcome().map(|_| ())
    }
}

fn add(normalizer: &NormalizerWrapper, steps: &mut Vec<Step>) -> Result<(), String> {
    match normalizer {
        NormalizerWrapper::Sequence(all) => all.as_ref().iter().try_for_each(|one| add(one, steps))?,
        NormalizerWrapper::Replace(replace) => {
            // Its pattern cannot be read in any other way.
            let file = serde_json::to_value(replace).map_err(|e| e.to_string())?;
            let search = match (&file["pattern"]["String"], &file["pattern"]["Regex"]) {
                (Value::String(text), _) => Search::literal(text)?,
                (_, Value::String(regex)) => Search::new(regex)?,
                _ => return Err("a Replace has no pattern".to_owned()),
            };
            steps.push(Step::Replace { search, content: replace.content.clone() });
        }
        other => steps.push(Step::Other(other.clone())),
    }
    Ok(())
}

/// One text on its way through the steps. The crate forgets the error of a normalizer, so it is kept here.
pub(super) struct Pass<'a> {
    steps: &'a [Step],
    of: usize,
    /// The bound on the bytes of all parts.
    most: usize,
    /// What has become of the parts so far, or why there are no more.
    made: Mutex<Result<Made, AnyError>>,
}

#[derive(Default)]
struct Made {
    bytes: usize,
    /// Characters of the text that were replaced together. The crate's offsets know only the last of them.
    together: Vec<Range<usize>>,
}

impl Pass<'_> {
    /// The ranges of the text that were replaced as one, or why the text cannot be normalized.
    pub(super) fn outcome(self) -> Result<Vec<Range<usize>>, AnyError> {
        self.made.into_inner().unwrap_or_else(PoisonError::into_inner).map(|made| made.together)
    }

    /// Runs all steps on a part, and counts it.
    fn run(&self, part: &mut NormalizedString, made: &mut Made) -> Result<(), AnyError> {
        for step in self.steps {
            match step {
                Step::Replace { search, content } => {
                    let pieces = search.find_matches(part.get())?;
                    let mut bytes = made.bytes + part.len();
                    for ((start, end), _) in pieces.iter().filter(|(_, is_match)| *is_match) {
                        bytes = (bytes + content.len()).saturating_sub(end - start);
                        made.together.extend(several(part, *start..*end));
                    }
                    self.allow(bytes)?;
                    part.replace(Found(Cell::new(pieces)), content)?;
                }
                Step::Other(normalizer) => normalizer.normalize(part)?,
            }
            self.allow(made.bytes + part.len())?;
        }
        made.bytes += part.len();
        Ok(())
    }

    /// Checks that all parts may have this many bytes.
    fn allow(&self, bytes: usize) -> Result<(), AnyError> {
        if bytes <= self.most {
            return Ok(());
        }
        let Self { of, most, .. } = self;
        Err(GaveUp(format!("the tokenizer's normalizer makes more than {most} bytes of its {of}")).into())
    }
}

impl Normalizer for Pass<'_> {
    fn normalize(&self, part: &mut NormalizedString) -> Result<(), AnyError> {
        let mut all = lock(&self.made);
        if let Ok(made) = &mut *all
            && let Err(error) = self.run(part, made)
        {
            *all = Err(error);
        }
        Ok(())
    }
}

/// The range of the whole text that a range of a part stands for, if that is more than one character.
fn several(part: &NormalizedString, range: Range<usize>) -> Option<Range<usize>> {
    part.get().get(range.clone())?.chars().nth(1)?;
    let (within, (start, _)) = (part.convert_offsets(Within::Normalized(range))?, part.offsets_original());
    Some(start + within.start..start + within.end)
}

/// Pieces that were found already.
struct Found(Cell<Vec<(Offsets, bool)>>);

impl Pattern for Found {
    fn find_matches(&self, _: &str) -> Result<Vec<(Offsets, bool)>, AnyError> {
        Ok(self.0.take())
    }
}
