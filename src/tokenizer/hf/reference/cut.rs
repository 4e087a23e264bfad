//! The pre-tokenizer of a file, step by step: it stops where a search gives up.

use tokenizers_reference::pattern::Invert;
use tokenizers_reference::pre_tokenizers::PreTokenizerWrapper;
use tokenizers_reference::pre_tokenizers::byte_level::ByteLevel;
use tokenizers_reference::pre_tokenizers::split::SplitPattern;
use tokenizers_reference::{PreTokenizedString, PreTokenizer, SplitDelimiterBehavior};

use super::AnyError;
use super::search::Search;
use crate::tokenizer::ranks::GPT2;

pub(super) struct Cuts(Vec<Step>);

enum Step {
    Words {
        /// Whether a text gets a space in front first.
        space: bool,
        search: Search,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    Other(PreTokenizerWrapper),
}

impl Cuts {
    pub(super) fn new(pre_tokenizer: Option<&PreTokenizerWrapper>) -> Result<Self, String> {
        let mut steps = Vec::new();
        if let Some(pre_tokenizer) = pre_tokenizer {
            add(pre_tokenizer, &mut steps)?;
        }
        Ok(Self(steps))
    }

    pub(super) fn cut(&self, text: &mut PreTokenizedString) -> Result<(), AnyError> {
        for step in &self.0 {
            match step {
                Step::Words { space, search, behavior, invert } => text.split(|_, mut part| {
                    if *space && !part.get().starts_with(' ') {
                        part.prepend(" ");
                    }
                    match invert {
                        true => part.split(Invert(search), *behavior),
                        false => part.split(search, *behavior),
                    }
                })?,
                Step::Other(step) => step.pre_tokenize(text)?,
            }
        }
        Ok(())
    }
}

fn add(pre_tokenizer: &PreTokenizerWrapper, steps: &mut Vec<Step>) -> Result<(), String> {
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(all) => all.as_ref().iter().try_for_each(|one| add(one, steps))?,
        PreTokenizerWrapper::Split(split) => {
            let search = match &split.pattern {
                SplitPattern::String(text) => Search::literal(text)?,
                SplitPattern::Regex(regex) => Search::new(regex)?,
            };
            let (behavior, invert) = (split.behavior, split.invert);
            steps.push(Step::Words { space: false, search, behavior, invert });
        }
        PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex => {
            let behavior = SplitDelimiterBehavior::Isolated;
            let (space, search) = (bytes.add_prefix_space, Search::new(GPT2)?);
            steps.push(Step::Words { space, search, behavior, invert: false });
            steps.push(Step::Other(ByteLevel::new(false, bytes.trim_offsets, false).into()));
        }
        other => steps.push(Step::Other(other.clone())),
    }
    Ok(())
}
