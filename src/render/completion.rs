//! A prompt with its completion, as strings.

use super::spellings::Spellings;
use super::{Outcome, Rendered};
use crate::config::Border;
use crate::document::Mask;

/// Joins prompts with their completions.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) bos: Option<String>,
    pub(super) eos: Option<String>,
    pub(super) border: Border,
    /// The tokens that a text may spell; none if it is only text.
    pub(super) tokens: Spellings,
}

impl Completion {
    /// The completion and the token that ends it are learned from.
    pub(super) fn render(&self, prompt: &str, completion: &str) -> Outcome {
        if completion.is_empty() {
            return Outcome::LeftOut("its completion is empty".to_owned());
        }
        let mut rendered = Rendered::default();
        self.bos.iter().for_each(|bos| rendered.push_token(bos));
        rendered.push_text(prompt, &self.tokens);
        let place = rendered.text.len();
        rendered.push_text(completion, &self.tokens);
        self.eos.iter().for_each(|eos| rendered.push_token(eos));
        let end = rendered.text.len();
        rendered.marks.mask = Mask::learning([place..end], end);
        if self.border == Border::Split && place > 0 {
            rendered.marks.breaks.push(place);
        }
        Outcome::Text(rendered)
    }
}
