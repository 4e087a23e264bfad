//! Where in the text the content of each message stands.
//!
//! A character that no text has is put before and behind each content, and the messages are rendered again. If only
//! these characters are new, they tell the places. A template that looks into a content may do otherwise: then nothing
//! is known of that message.

use std::ops::Range;

use serde_json::Value;

use super::conversation::{Conversation, Edit};

/// The first character of the two last planes for private use, which no font and no tokenizer has.
const FIRST: u32 = 0xF_0000;

/// How many messages can be marked in one render.
const MOST: usize = 0x7000;

/// If all messages cannot be marked together, so many are tried one by one.
const ALONE: usize = 64;

/// The place of the content of each message in `text`, which is the render of the messages with the numbers `of`; `None`
/// where it is not known. Of content in parts, from the first to the last text.
pub(super) fn regions(conversation: &Conversation, of: &[usize], text: &str) -> Vec<Option<Range<usize>>> {
    let mut regions = Regions { conversation, of, text, found: vec![None; of.len()] };
    if of.len() > MOST || text.contains(is_mark) {
        return regions.found;
    }
    let is_exact = regions.mark(0..of.len());
    if !is_exact && of.len() <= ALONE {
        for nth in 0..of.len() {
            regions.mark(nth..nth + 1);
        }
    }
    regions.found
}

struct Regions<'a> {
    conversation: &'a Conversation,
    of: &'a [usize],
    text: &'a str,
    found: Vec<Option<Range<usize>>>,
}

impl Regions<'_> {
    /// Marks these messages, and notes their places. Says whether the text was the same but for the marks.
    fn mark(&mut self, which: Range<usize>) -> bool {
        let edits: Vec<Edit> = which.clone().flat_map(|nth| self.edits(nth)).collect();
        let Ok(rendered) = self.conversation.engine.render(self.of, &edits, false) else { return false };
        let mut plain = String::with_capacity(self.text.len());
        let mut places = Vec::new();
        for char in rendered.chars() {
            match is_mark(char) {
                true => places.push((char, plain.len())),
                false => plain.push(char),
            }
        }
        if plain != self.text {
            return false;
        }
        for nth in which {
            let at = |mark: char| {
                let mut of = places.iter().filter(|(found, _)| *found == mark).map(|(_, at)| *at);
                // A content that is rendered twice has no place of its own.
                of.next().filter(|_| of.next().is_none())
            };
            let [open, close] = marks(nth);
            if let (Some(start), Some(end)) = (at(open), at(close))
                && start <= end
            {
                self.found[nth] = Some(start..end);
            }
        }
        true
    }

    /// The content of message `nth` with its marks.
    fn edits(&self, nth: usize) -> Vec<Edit> {
        let message = self.of[nth];
        let [open, close] = marks(nth);
        match &self.conversation.messages[message]["content"] {
            Value::String(text) if !text.trim().is_empty() => {
                vec![Edit { message, part: None, text: between(text, Some(open), Some(close)) }]
            }
            Value::Array(parts) => {
                let text = |part: &Value| {
                    part["text"].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
                };
                let texts: Vec<(usize, String)> =
                    parts.iter().enumerate().filter_map(|(part, value)| Some((part, text(value)?))).collect();
                let last = texts.len().saturating_sub(1);
                let edit = |(number, (part, text)): (usize, &(usize, String))| Edit {
                    message,
                    part: Some(*part),
                    text: between(text, (number == 0).then_some(open), (number == last).then_some(close)),
                };
                texts.iter().enumerate().map(edit).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn is_mark(char: char) -> bool {
    char as u32 >= FIRST
}

/// The characters before and behind the content of message `nth`.
fn marks(nth: usize) -> [char; 2] {
    [0, 1].map(|side| char::from_u32(FIRST + 2 * nth as u32 + side).unwrap_or_default())
}

/// The text with these characters around what is not white space, which templates strip.
fn between(text: &str, open: Option<char>, close: Option<char>) -> String {
    let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
    let mut marked = text[..start].to_owned();
    marked.extend(open);
    marked.push_str(&text[start..end]);
    marked.extend(close);
    marked + &text[end..]
}
