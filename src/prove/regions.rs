//! Where in the text the content of each message stands.
//!
//! A character that no text has is put before and behind each content, and the messages are rendered again. If only
//! these characters are new, they tell the places. A template that looks into a content may do otherwise: then nothing
//! is known of that message.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::conversation::{Conversation, Edit};

/// The first character of the two last planes for private use, which no font and no tokenizer has.
const FIRST: u32 = 0xF_0000;

/// How many contents can be marked in one render.
const MOST: usize = 0x7000;

/// If all contents cannot be marked together, so many are tried one by one.
const ALONE: usize = 64;

/// A message's content, or some of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) message: usize,
    /// From the first to the last part; `None` if the content is a string.
    pub(super) parts: Option<(usize, usize)>,
}

impl Place {
    /// The content of a message from its first text to its last one; `None` if it has none.
    pub(super) fn of_content(conversation: &Conversation, message: usize) -> Option<Self> {
        let Value::Array(parts) = &conversation.messages[message]["content"] else {
            let has_text = has_text(&conversation.messages[message]["content"]);
            return has_text.then_some(Self { message, parts: None });
        };
        let mut with_text = (0..parts.len()).filter(|part| has_text(&parts[*part]["text"]));
        let first = with_text.next()?;
        Some(Self { message, parts: Some((first, with_text.next_back().unwrap_or(first))) })
    }

    /// One part of a message's content; `None` if it has no text.
    pub(super) fn of_part(conversation: &Conversation, message: usize, part: usize) -> Option<Self> {
        let text = &conversation.messages[message]["content"][part]["text"];
        has_text(text).then_some(Self { message, parts: Some((part, part)) })
    }
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Where these contents stand in `text`, which is the render of the messages with the numbers `of`; `None` where it is
/// not known.
pub(super) fn regions(
    conversation: &Conversation,
    of: &[usize],
    text: &str,
    places: &[Option<Place>],
) -> Vec<Option<Range<usize>>> {
    let mut regions = Regions { conversation, of, text, places, found: vec![None; places.len()] };
    let count = places.iter().flatten().count();
    if count == 0 || places.len() > MOST || text.contains(is_mark) {
        return regions.found;
    }
    let is_exact = regions.mark(0..places.len());
    if !is_exact && count <= ALONE {
        for nth in (0..places.len()).filter(|nth| places[*nth].is_some()) {
            regions.mark(nth..nth + 1);
        }
    }
    regions.found
}

struct Regions<'a> {
    conversation: &'a Conversation,
    of: &'a [usize],
    text: &'a str,
    places: &'a [Option<Place>],
    found: Vec<Option<Range<usize>>>,
}

impl Regions<'_> {
    /// Marks these contents, and notes their places. Says whether the text was the same but for the marks.
    fn mark(&mut self, which: Range<usize>) -> bool {
        let edits = self.edits(which.clone());
        let Ok(rendered) = self.conversation.engine.render(self.of, &edits, false) else { return false };
        let mut plain = String::with_capacity(self.text.len());
        let mut marks: BTreeMap<char, Vec<usize>> = BTreeMap::new();
        for char in rendered.chars() {
            match is_mark(char) {
                true => marks.entry(char).or_default().push(plain.len()),
                false => plain.push(char),
            }
        }
        if plain != self.text {
            return false;
        }
        for nth in which {
            // A content that is rendered twice has no place of its own.
            if let [Some([start]), Some([end])] =
                marks_of(nth).map(|mark| marks.get(&mark).map(Vec::as_slice))
                && start <= end
            {
                self.found[nth] = Some(*start..*end);
            }
        }
        true
    }

    /// These contents with their marks.
    fn edits(&self, which: Range<usize>) -> Vec<Edit> {
        let mut marks: BTreeMap<(usize, Option<usize>), [Option<char>; 2]> = BTreeMap::new();
        for nth in which {
            let Some(Place { message, parts }) = &self.places[nth] else { continue };
            let [open, close] = marks_of(nth);
            marks.entry((*message, parts.map(|(first, _)| first))).or_default()[0] = Some(open);
            marks.entry((*message, parts.map(|(_, last)| last))).or_default()[1] = Some(close);
        }
        let edit = |((message, part), [open, close]): ((usize, Option<usize>), [Option<char>; 2])| {
            let content = &self.conversation.messages[message]["content"];
            let text = part.map_or(content, |part| &content[part]["text"]).as_str().unwrap_or_default();
            Edit { message, part, text: between(text, open, close) }
        };
        marks.into_iter().map(edit).collect()
    }
}

fn is_mark(char: char) -> bool {
    char as u32 >= FIRST
}

/// The characters before and behind content `nth`.
fn marks_of(nth: usize) -> [char; 2] {
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
