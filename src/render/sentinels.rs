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
    /// What stands before and behind a number, at the beginning of a content and at its end.
    fn around_number(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Private => [("\u{f1d00}", "\u{f1d01}"), ("\u{f1d02}", "\u{f1d03}")],
            Self::Letters => [("Qzj", "vXk"), ("Kxv", "jZq")],
        }
    }

    /// The sentinels in a text, in order: the place, the length, the number, and whether it is one at a beginning. What is
    /// a part of one is left out.
    fn find(self, text: &str) -> Vec<(usize, usize, usize, bool)> {
        let mut found = Vec::new();
        for ((before, behind), is_begin) in self.around_number().into_iter().zip([true, false]) {
            found.extend(memchr::memmem::find_iter(text.as_bytes(), before).filter_map(|at| {
                let rest = &text[at + before.len()..];
                let (number, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
                let len = before.len() + number.len() + behind.len();
                Some((at, len, number.parse().ok()?, is_begin)).filter(|_| rest.starts_with(behind))
            }));
        }
        found.sort_unstable();
        found
    }

    /// Whether a text has what may be taken for a sentinel.
    fn is_in(self, text: &str) -> bool {
        let is_in = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
        self.around_number().iter().any(|(before, behind)| is_in(before) || is_in(behind))
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
    let mut other = conversation.clone();
    // Around the whole content, or if the template trims it, around what is left of it.
    for is_trimmed in [false, true] {
        let mut attempt = |kind| {
            mark(&mut other, conversation, places, kind, is_trimmed)?;
            found(&render(&other).ok()?, text, places.len(), kind)
        };
        if let Some(found) = attempt(Kind::Private)
            && Some(&found) == attempt(Kind::Letters).as_ref()
        {
            return Ok(found);
        }
    }
    Err(refused("the template changes the content, or behaves in another way for other content"))
}

/// Gives `other` the contents of a conversation, with sentinels of one kind around them.
fn mark(
    other: &mut Conversation,
    conversation: &Conversation,
    places: &[Place],
    kind: Kind,
    is_trimmed: bool,
) -> Option<()> {
    for (number, place) in places.iter().enumerate() {
        let content = conversation.content(place.message, place.part)?;
        let within = if is_trimmed { trimmed(content) } else { 0..content.len() };
        let (number, [begin, end]) = (number.to_string(), kind.around_number());
        let marked = other.content_mut(place.message, place.part)?;
        marked.clear();
        marked.push_str(&content[..within.start]);
        marked.extend([begin.0, &number, begin.1, &content[within.clone()], end.0, &number, end.1]);
        marked.push_str(&content[within.end..]);
    }
    Some(())
}

/// Where so many contents stand in `text`, by the sentinels in a marked text; `None` if the text without them is another
/// one.
fn found(marked: &str, text: &str, count: usize, kind: Kind) -> Option<Vec<Option<Range<usize>>>> {
    let mut found = vec![None; count];
    let (mut at, mut rest, mut open) = (0, text, None);
    // They come in the order of the text, which need not be that of the messages.
    for (mark, len, number, is_begin) in kind.find(marked) {
        rest = rest.strip_prefix(&marked[at..mark])?;
        let place = text.len() - rest.len();
        at = mark + len;
        match (is_begin, open) {
            // Each content stands once.
            (true, None) if found.get(number)?.is_none() => open = Some((number, place)),
            (false, Some((opened, start))) if opened == number => {
                found[number] = Some(start..place);
                open = None;
            }
            _ => return None,
        }
    }
    (open.is_none() && rest == &marked[at..]).then_some(found)
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
    let [_, (before, behind)] = kind.around_number();
    let word = |message: usize| format!("{before}{message}{behind}");
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
                text.insert_str(trimmed(text).end, &word(message));
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
        let word = word(message);
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
