//! Tells what a template wrote from what somebody wrote into a message that looks the same.
//!
//! A user may write `<|im_end|>`, and a template does too. Their bytes are equal, so the conversation is rendered once
//! more with other letters where somebody imitates a token or a marker. If that changes nothing but these letters, the
//! second text has only the template's own.

use std::borrow::Cow;

use super::RenderError;
use super::conversation::Conversation;
use super::spellings::{Spelling, Spellings};

/// The tags by which templates find the reasoning in an assistant's content.
pub(crate) const REASONING: [&str; 6] =
    ["<think>", "</think>", "[THINK]", "[/THINK]", "<thinking>", "</thinking>"];

/// How many imitations are tried one by one in a conversation.
const MOST: usize = 64;

/// What somebody's text may imitate.
#[derive(Clone, Debug, Default)]
pub(super) struct Imitations {
    spellings: Spellings,
    /// The markers of turns: an imitation of one is never taken for the template's.
    markers: Vec<String>,
}

impl Imitations {
    pub(super) fn new(tokens: impl Iterator<Item = Spelling>, markers: &[String]) -> Self {
        // White space is escaped in some places, such as in JSON, so its length is not known.
        let markers: Vec<String> = markers.iter().map(|marker| marker.trim().to_owned()).collect();
        let tokens = tokens.filter(|token| !token.is_space());
        Self { spellings: Spellings::new(tokens.chain(markers.iter().map(Spelling::new))), markers }
    }

    /// The text that a conversation was rendered to, with other letters for what somebody imitates in it. It is as
    /// long, so places are the same in both.
    ///
    /// # Errors
    /// If the template reads what is imitated, so that nobody can tell.
    pub(super) fn replaced<'a>(
        &self,
        conversation: &Conversation,
        text: &'a str,
        render: &impl Fn(&Conversation) -> Result<String, RenderError>,
    ) -> Result<Cow<'a, str>, RenderError> {
        if !conversation.any_string(&|text| self.spellings.is_in(text)) {
            return Ok(Cow::Borrowed(text));
        }
        let attempt = |is_kept: &dyn Fn(Option<usize>, usize) -> bool| {
            // A template may refuse the changed conversation. Then it reads what was changed.
            let other = render(&self.replace_in(conversation, is_kept)).ok()?;
            self.is_same(text, &other).then_some(other)
        };
        if let Some(other) = attempt(&|_, _| false) {
            return Ok(Cow::Owned(other));
        }
        // Templates that look for the reasoning write its tags themselves.
        let is_reasoning = |message: Option<usize>, spelling: usize| {
            message.is_some_and(|message| conversation.about[message].is_assistant())
                && REASONING.contains(&self.spellings.all()[spelling].text.as_str())
                && !self.is_marker(spelling)
        };
        if let Some(other) = attempt(&is_reasoning) {
            return Ok(Cow::Owned(other));
        }
        self.replaced_one_by_one(conversation, text, &attempt)
    }

    /// As [`replaced`](Self::replaced), where the template reads some imitations. What it reads, it writes itself.
    fn replaced_one_by_one<'a>(
        &self,
        conversation: &Conversation,
        text: &'a str,
        attempt: &impl Fn(&dyn Fn(Option<usize>, usize) -> bool) -> Option<String>,
    ) -> Result<Cow<'a, str>, RenderError> {
        let mut places = self.places(conversation);
        if places.len() > MOST {
            return Err(refused(&format!("it has {} such places, more than {MOST}", places.len())));
        }
        // Markers first: they have to be replaced.
        places.sort_by_key(|(_, spelling)| !self.is_marker(*spelling));
        let mut found = Cow::Borrowed(text);
        let mut kept = places.clone();
        for place in places {
            let without: Vec<_> = kept.iter().copied().filter(|other| *other != place).collect();
            if let Some(other) = attempt(&|message, spelling| without.contains(&(message, spelling))) {
                (found, kept) = (Cow::Owned(other), without);
            } else if self.is_marker(place.1) {
                let marker = &self.spellings.all()[place.1].text;
                return Err(refused(&format!("{marker:?} stands in somebody's text, and around turns")));
            }
        }
        Ok(found)
    }

    fn is_marker(&self, spelling: usize) -> bool {
        self.markers.contains(&self.spellings.all()[spelling].text)
    }

    /// Which spellings are imitated in which messages, once each.
    fn places(&self, conversation: &Conversation) -> Vec<(Option<usize>, usize)> {
        let mut places = Vec::new();
        conversation.clone().strings_mut(&mut |message, text| {
            places.extend(self.spellings.find(text).map(|(_, spelling)| (message, spelling)));
        });
        places.sort_unstable();
        places.dedup();
        places
    }

    fn replace_in(
        &self,
        conversation: &Conversation,
        is_kept: &dyn Fn(Option<usize>, usize) -> bool,
    ) -> Conversation {
        let mut other = conversation.clone();
        other.strings_mut(&mut |message, text| {
            let mut changed: Option<String> = None;
            for (range, spelling) in self.spellings.find(text) {
                if !is_kept(message, spelling) {
                    let letters = letters(&self.spellings.all()[spelling].text);
                    changed.get_or_insert_with(|| text.clone()).replace_range(range, &letters);
                }
            }
            if let Some(changed) = changed {
                *text = changed;
            }
        });
        other
    }

    /// Whether `other` differs from `text` only by letters in the place of spellings.
    fn is_same(&self, text: &str, other: &str) -> bool {
        if text.len() != other.len() {
            return false;
        }
        let (a, b) = (text.as_bytes(), other.as_bytes());
        let mut at = 0;
        while at < a.len() {
            let Some(first) = a[at..].iter().zip(&b[at..]).position(|(a, b)| a != b) else { return true };
            at += first;
            let replaced = self.spellings.all().iter().find(|spelling| {
                a[at..].starts_with(spelling.text.as_bytes())
                    && b[at..].starts_with(letters(&spelling.text).as_bytes())
            });
            let Some(spelling) = replaced else { return false };
            at += spelling.text.len();
        }
        true
    }
}

/// As many letters as `spelling` has bytes, of one that it does not have.
fn letters(spelling: &str) -> String {
    let letter = ('a'..='z').rev().chain('A'..='Z').find(|letter| !spelling.contains(*letter));
    letter.unwrap_or('x').to_string().repeat(spelling.len())
}

fn refused(why: &str) -> RenderError {
    RenderError::new(
        format!(
            "the template reads tokens in somebody's text, so that its own cannot be told from them: {why}"
        ),
        "remove them from the record, or set tokenizer.special_tokens = \"parse\" if they are meant as tokens",
    )
}
