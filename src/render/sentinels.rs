//! Finds where somebody's content stands in a rendered text, by words around it that stand nowhere else.
//!
//! A template may trim content, repeat it, leave it out, or behave in another way for other content. So what is found
//! counts only if the text without the sentinels is the text as it was, and if other sentinels give the same places.

use std::ops::Range;

use super::RenderError;
use super::conversation::{Conversation, REASONING, entry_mut, string_mut};
use super::turns::Turn;

/// A message's content, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) message: usize,
    pub(super) part: Option<usize>,
}

/// A kind of sentinels: each is a pair of strings that are told apart by a number.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Characters that no text should have.
    Private,
    /// Letters and digits, for templates that treat other characters in their own way.
    Letters,
}

impl Kind {
    fn begin(self, number: usize) -> String {
        match self {
            Self::Private => format!("\u{f1d00}{number}\u{f1d01}"),
            Self::Letters => format!("Qzj{number}vXk"),
        }
    }

    fn end(self, number: usize) -> String {
        match self {
            Self::Private => format!("\u{f1d02}{number}\u{f1d03}"),
            Self::Letters => format!("Kxv{number}jZq"),
        }
    }

    /// Whether a text has what may be taken for a sentinel.
    fn is_in(self, text: &str) -> bool {
        match self {
            Self::Private => text.contains(['\u{f1d00}', '\u{f1d01}', '\u{f1d02}', '\u{f1d03}']),
            Self::Letters => ["Qzj", "vXk", "Kxv", "jZq"].iter().any(|word| text.contains(word)),
        }
    }
}

type Render<'a> = &'a dyn Fn(&Conversation) -> Result<String, RenderError>;

/// Where the content of each place stands in `text`, which the conversation was rendered to; `None` for content that the
/// template left out.
///
/// # Errors
/// If the places cannot be found for certain.
pub(super) fn locate(
    conversation: &Conversation,
    text: &str,
    places: &[Place],
    render: Render<'_>,
) -> Result<Vec<Option<Range<usize>>>, RenderError> {
    if [Kind::Private, Kind::Letters].iter().any(|kind| kind.is_in(text)) {
        return Err(refused("the text has words that are used to find it"));
    }
    // Around the whole content, or if the template trims it, around what is left of it.
    for is_trimmed in [false, true] {
        let attempt = |kind| around(conversation, text, places, kind, is_trimmed, render);
        if let Some(found) = attempt(Kind::Private)
            && Some(&found) == attempt(Kind::Letters).as_ref()
        {
            return Ok(found);
        }
    }
    Err(refused("the template changes the content, or behaves in another way for other content"))
}

/// Where contents stand, by one kind of sentinels; `None` if the text is another one then.
fn around(
    conversation: &Conversation,
    text: &str,
    places: &[Place],
    kind: Kind,
    is_trimmed: bool,
    render: Render<'_>,
) -> Option<Vec<Option<Range<usize>>>> {
    let mut other = conversation.clone();
    for (number, place) in places.iter().enumerate() {
        let content = other.content_mut(place.message, place.part)?;
        let within = if is_trimmed { trimmed(content) } else { 0..content.len() };
        content.insert_str(within.end, &kind.end(number));
        content.insert_str(within.start, &kind.begin(number));
    }
    let marked = render(&other).ok()?;
    let mut found = Vec::with_capacity(places.len());
    let mut plain = String::with_capacity(text.len());
    // Sentinels come in the order of the text, which need not be that of the messages.
    let mut marks: Vec<(usize, usize, usize, bool)> = Vec::new();
    for number in 0..places.len() {
        let (begin, end) = (kind.begin(number), kind.end(number));
        let [begins, ends] = [&begin, &end].map(|mark| marked.match_indices(mark.as_str()).count());
        match (begins, ends) {
            (0, 0) => (),
            (1, 1) => {
                marks.push((marked.find(&begin)?, begin.len(), number, true));
                marks.push((marked.find(&end)?, end.len(), number, false));
            }
            _ => return None,
        }
        found.push(None);
    }
    marks.sort_unstable();
    let (mut at, mut open) = (0, None);
    for (mark, len, number, is_begin) in marks {
        plain.push_str(&marked[at..mark]);
        at = mark + len;
        match (is_begin, open) {
            (true, None) => open = Some((number, plain.len())),
            (false, Some((opened, start))) if opened == number => {
                found[number] = Some(start..plain.len());
                open = None;
            }
            _ => return None,
        }
    }
    plain.push_str(&marked[at..]);
    (plain == text).then_some(found)
}

/// Which messages turns come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    /// The assistant's messages of each turn: one, or several that the template joins; none if nothing tells.
    pub(super) of_turns: Vec<Vec<usize>>,
    /// Those whose content stands outside all turns.
    pub(super) outside: Vec<usize>,
}

/// Which messages each of `turns` turns comes from; `None` if it cannot be told. `find` finds the turns of a
/// conversation's text.
///
/// A word at the end of each content tells. A template that looks for the reasoning before it is not disturbed.
pub(super) fn owners(
    conversation: &Conversation,
    turns: usize,
    find: &impl Fn(&Conversation) -> Result<(String, Vec<Turn>), RenderError>,
) -> Option<Owners> {
    let kind = Kind::Letters;
    if conversation.any_string(&|text| kind.is_in(text)) {
        return None;
    }
    let mut other = conversation.clone();
    let assistants = conversation.about.iter().enumerate().filter(|(_, about)| about.is_assistant());
    for (message, about) in assistants.clone() {
        let add = |text: Option<&mut String>| {
            if let Some(text) = text
                && !trimmed(text).is_empty()
            {
                text.insert_str(trimmed(text).end, &kind.end(message));
            }
        };
        add(other.content_mut(message, about.parts.len().checked_sub(1)));
        for field in REASONING {
            add(entry_mut(&mut other.messages[message], field).and_then(string_mut));
        }
    }
    let (text, found) = find(&other).ok()?;
    if found.len() != turns {
        return None;
    }
    let mut owners = Owners { of_turns: vec![Vec::new(); turns], outside: Vec::new() };
    for (message, _) in assistants {
        let word = kind.end(message);
        let places: Vec<Option<usize>> = text
            .match_indices(word.as_str())
            .map(|(at, _)| found.iter().position(|turn| turn.contains(at)))
            .collect();
        for turn in places.iter().copied().flatten() {
            if !owners.of_turns[turn].contains(&message) {
                owners.of_turns[turn].push(message);
            }
        }
        if !places.is_empty() && places.iter().all(Option::is_none) {
            owners.outside.push(message);
        }
    }
    Some(owners)
}

/// A text without white space at its ends, as Python sees it.
pub(super) fn trimmed(text: &str) -> Range<usize> {
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let start = text.len() - text.trim_start_matches(is_space).len();
    start..text.trim_end_matches(is_space).len().max(start)
}

fn refused(why: &str) -> RenderError {
    RenderError::new(
        format!("what is learned from cannot be found in the text: {why}"),
        "say what stands around each turn of the assistant with chat.turn = { begin = \"...\", end = \"...\" }",
    )
}
