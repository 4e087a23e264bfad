//! Text with a hole, as models learn to fill one: its middle stands behind what comes before and after it.
//!
//! The two orders are those of "Efficient Training of Language Models to Fill in the Middle" (Bavarian et al., 2022):
//! prefix, suffix, middle (PSM), and suffix, prefix, middle (SPM) in the variant that the paper trains together with it.

use super::Rendered;
use super::spellings::Spellings;
use crate::config::FimConfig;
use crate::order::uniform;

/// Makes holes in texts.
#[derive(Debug)]
pub(super) struct Fim {
    pub(super) config: FimConfig,
    pub(super) bos: Option<String>,
    pub(super) eos: Option<String>,
    /// The tokens that a document may spell; none if its text is only text.
    pub(super) tokens: Spellings,
}

impl Fim {
    /// A document, with a hole or as it is. `key` decides.
    pub(super) fn render(&self, text: &str, key: [u64; 3]) -> Rendered {
        let draw = |number: u64| uniform("millstream fim", &[key[0], key[1], key[2], number]);
        let mut rendered = Rendered::default();
        self.bos.iter().for_each(|bos| rendered.push_token(bos));
        if draw(0) < self.config.rate {
            let place = |number| text.floor_char_boundary((draw(number) * (text.len() + 1) as f64) as usize);
            let (one, other) = (place(2), place(3));
            let (prefix, rest) = text.split_at(one.min(other));
            let (middle, suffix) = rest.split_at(one.max(other) - one.min(other));
            self.with_hole(&mut rendered, [prefix, middle, suffix], draw(1) < self.config.spm);
        } else {
            rendered.push_text(text, &self.tokens);
        }
        self.eos.iter().for_each(|eos| rendered.push_token(eos));
        rendered
    }

    fn with_hole(&self, rendered: &mut Rendered, [prefix, middle, suffix]: [&str; 3], is_spm: bool) {
        rendered.push_token(&self.config.prefix);
        if !is_spm {
            rendered.push_text(prefix, &self.tokens);
        }
        rendered.push_token(&self.config.suffix);
        rendered.push_text(suffix, &self.tokens);
        rendered.push_token(&self.config.middle);
        if is_spm {
            rendered.push_text(prefix, &self.tokens);
            // A model that fills the hole sees the prefix alone.
            let place = rendered.text.len();
            if !prefix.is_empty() && !middle.is_empty() {
                rendered.marks.breaks.push(place);
            }
        }
        rendered.push_text(middle, &self.tokens);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fim(rate: f64, spm: f64) -> Fim {
        let [prefix, suffix, middle] = ["<P>", "<S>", "<M>"].map(str::to_owned);
        let config = FimConfig { rate, spm, prefix, suffix, middle };
        Fim { config, bos: Some("<b>".to_owned()), eos: Some("<e>".to_owned()), tokens: Spellings::default() }
    }

    /// The text that a rendered one was made from, and its order.
    fn whole(rendered: &Rendered) -> (String, &'static str) {
        let special: Vec<&str> =
            rendered.marks.special.iter().map(|range| &rendered.text[range.clone()]).collect();
        let places = &rendered.marks.special;
        let between = |one: usize| &rendered.text[places[one].end..places[one + 1].start];
        match *special {
            ["<b>", "<e>"] => (between(0).to_owned(), "plain"),
            ["<b>", "<P>", "<S>", "<M>", "<e>"] => match rendered.marks.breaks.first() {
                None if !between(1).is_empty() || between(3).is_empty() => {
                    ([between(1), between(3), between(2)].concat(), "psm")
                }
                None => ([between(3), between(2)].concat(), "either"),
                Some(place) => {
                    let at = place - places[3].end;
                    let (prefix, middle) = between(3).split_at(at);
                    ([prefix, middle, between(2)].concat(), "spm")
                }
            },
            _ => panic!("{special:?}"),
        }
    }

    proptest! {
        #[test]
        fn the_pieces_make_the_text(text in "[a-c\u{e4}\u{1f600}<>]{1,20}", key: [u64; 3]) {
            let psm = fim(1.0, 0.0).render(&text, key);
            prop_assert_eq!(whole(&psm).0, text.clone());
            prop_assert!(psm.marks.mask.is_empty() && psm.marks.breaks.is_empty());
            let spm = fim(1.0, 1.0).render(&text, key);
            prop_assert_eq!(whole(&spm).0, text.clone());
            let plain = fim(0.0, 1.0).render(&text, key);
            prop_assert_eq!(whole(&plain), (text.clone(), "plain"));
            prop_assert_eq!(fim(1.0, 0.0).render(&text, key), psm);
        }
    }

    #[test]
    fn shares_are_as_set() {
        let text = "x".repeat(1000);
        let count = |rate, spm, kind: &str| {
            let fim = fim(rate, spm);
            (0..2000).filter(|place| whole(&fim.render(&text, [1, 2, *place])).1 == kind).count()
        };
        // The standard deviation of each is below 23.
        assert!(count(0.3, 0.5, "plain").abs_diff(1400) < 110);
        assert!(count(0.8, 0.25, "spm").abs_diff(400) < 100);
    }
}
