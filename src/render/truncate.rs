//! Conversations that are longer than a row.

use std::sync::atomic::AtomicBool;

use super::conversation::Conversation;
use super::{Outcome, RenderError, Rendered};
use crate::config::Truncate;
use crate::document::{EncodedTexts, Mask};
use crate::tokenizer::Encoder;

/// How many ids a row has for a conversation, and what counts them.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) encoder: Encoder,
    pub(super) width: usize,
    /// Whether the log has named a conversation that was shortened.
    pub(super) has_told: AtomicBool,
}

/// The reasons for which a conversation is left out.
fn too_long(width: usize) -> Outcome {
    Outcome::LeftOut(format!(
        "it is longer than a row, which has {width} ids (pipeline.seq_len, chat.truncate)"
    ))
}

impl Room {
    /// A text as it fits a row, if all of it has to.
    pub(super) fn whole(&self, truncate: Truncate, outcome: Outcome) -> Outcome {
        let Outcome::Text(mut rendered) = outcome else { return outcome };
        let fits = self.fits(&mut rendered);
        match truncate {
            Truncate::Start | Truncate::End => {
                rendered.marks.limit = Some((self.width, truncate));
                if !fits {
                    rendered.is_shortened = true;
                    rendered.marks.encoded = EncodedTexts::default();
                }
            }
            Truncate::Turns | Truncate::Drop if !fits => return too_long(self.width),
            Truncate::Turns | Truncate::Drop => {}
        }
        Outcome::Text(rendered)
    }

    /// A conversation's text as it fits a row: as few of the oldest turns as possible leave.
    pub(super) fn turns(
        &self,
        conversation: &Conversation,
        mut outcome: Outcome,
        render: impl Fn(&Conversation) -> Result<Outcome, RenderError>,
    ) -> Result<Outcome, RenderError> {
        if self.takes(&mut outcome) {
            return Ok(outcome);
        }
        let system = conversation.about.iter().take_while(|about| about.is_system()).count();
        let starts = starts(conversation, system);
        // The first turn that stays is searched: fewer turns are shorter.
        let (mut low, mut high) = (1, starts.len());
        let mut best = None;
        while low < high {
            let first = low.midpoint(high);
            let shorter = conversation.with(|message| message < system || message >= starts[first]);
            let mut outcome = render(&shorter)?;
            if self.takes(&mut outcome) {
                if let Outcome::Text(rendered) = &mut outcome {
                    rendered.is_shortened = true;
                }
                (best, high) = (Some(outcome), first);
            } else {
                low = first + 1;
            }
        }
        // What is left without a turn to learn from is no conversation any more.
        Ok(best.filter(|best| matches!(best, Outcome::Text(_))).unwrap_or_else(|| too_long(self.width)))
    }

    /// Whether nothing more has to leave.
    fn takes(&self, outcome: &mut Outcome) -> bool {
        match outcome {
            Outcome::Text(rendered) => self.fits(rendered),
            Outcome::LeftOut(_) => true,
        }
    }

    /// Whether a text has no more ids than a row. One that cannot be encoded fits: whoever encodes it says why not. If it had
    /// to be encoded, it keeps its ids, so that nobody does it again.
    fn fits(&self, rendered: &mut Rendered) -> bool {
        let Rendered { text, marks, .. } = rendered;
        if most_ids(text) + 2 * (marks.special.len() + marks.breaks.len() + 1) <= self.width {
            return true;
        }
        let (mut ids, mut mask) = (Vec::with_capacity(text.len() / BYTES_OF_AN_ID), Mask::default());
        let encoded = self.encoder.encode_rendered(text, marks, 0..text.len(), &mut ids, &mut mask);
        let Ok(borders) = encoded else { return true };
        let fits = ids.len() <= self.width;
        marks.encoded = EncodedTexts::one(ids, mask, borders);
        fits
    }
}

/// In most texts, an id has at least so many bytes.
const BYTES_OF_AN_ID: usize = 3;

/// The most ids that a text may have, but for one at each border: one for each byte. Normalizers make some characters
/// longer, by four times in most cases; the longest is U+FDFA, of 33 bytes instead of three.
fn most_ids(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let factor = if text.contains(['\u{fdfa}', '\u{fdfb}']) { 11 } else { 4 };
    ascii + factor * (text.len() - ascii)
}

/// Where turns begin that may be the first one: at each message of a user, and with whatever comes first. A completion
/// stays as a whole, with the message before it.
fn starts(conversation: &Conversation, system: usize) -> Vec<usize> {
    let len = conversation.about.len();
    let last = if conversation.first > 0 { conversation.first } else { len };
    let users = (system + 1..last).filter(|number| conversation.about[*number].role == "user");
    std::iter::once(system).filter(|first| *first < len).chain(users).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::conversation::message;
    use crate::render::json::Json;

    fn conversation(roles: &str) -> Conversation {
        let role = |letter| match letter {
            's' => "system",
            'u' => "user",
            'a' => "assistant",
            _ => "tool",
        };
        Conversation::of_messages(roles.chars().map(|letter| message(role(letter), Json::Null)).collect())
    }

    #[test]
    fn turns_begin_at_users() {
        let of = |roles: &str, system| starts(&conversation(roles), system);
        assert_eq!(of("suatauaua", 1), [1, 5, 7]);
        assert_eq!(of("aua", 0), [0, 1]);
        assert_eq!(of("s", 1), [0; 0]);
        let completion = Conversation { first: 3, ..conversation("uauaua") };
        assert_eq!(starts(&completion, 0), [0, 2]);
    }

    #[test]
    fn a_text_has_no_more_ids_than_this() {
        assert_eq!(most_ids("ab"), 2);
        assert_eq!(most_ids("a\u{e4}"), 9);
        assert_eq!(most_ids("\u{fdfa}"), 33);
    }
}
