//! A prompt with its completion, as strings.

use super::fim::Pieces;
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
        let mut pieces = Pieces::default();
        self.bos.iter().for_each(|bos| pieces.token(bos));
        pieces.text(prompt, &self.tokens);
        let place = pieces.rendered.text.len();
        pieces.text(completion, &self.tokens);
        self.eos.iter().for_each(|eos| pieces.token(eos));
        let Rendered { text, mut marks, .. } = pieces.rendered;
        marks.mask = Mask::learning(std::iter::once(place..text.len()), text.len());
        if self.border == Border::Split && place > 0 {
            marks.breaks.push(place);
        }
        Outcome::Text(Rendered { text, marks, is_shortened: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_completion_and_its_end_are_learned_from() {
        let completion = Completion {
            bos: Some("<b>".to_owned()),
            eos: Some("<e>".to_owned()),
            border: Border::Split,
            tokens: Spellings::default(),
        };
        let Outcome::Text(Rendered { text, marks, .. }) = completion.render("What? <e>", "That.") else {
            panic!("nothing is left out")
        };
        assert_eq!(text, "<b>What? <e>That.<e>");
        let masked: Vec<usize> = marks.mask.masked().iter().cloned().flatten().collect();
        assert_eq!((masked, &*marks.breaks), ((0..12).collect(), &[12][..]));
        assert_eq!(marks.special, [0..3, 17..20]);
        assert!(matches!(completion.render("What?", ""), Outcome::LeftOut(_)));
    }
}
