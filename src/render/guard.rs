//! A last look at what markers gave: whether what messages say stands within their turns, and nothing else does.
//!
//! A template's markers are known from a few examples, and it may write some conversation otherwise: an answer without a
//! marker behind the results of tools, or the marker of an answer before a second question. So each content is looked up
//! in the text, from where the one before was found. Only where that seems wrong, a word at the end of the content tells
//! for certain.

use std::ops::Range;

use memchr::memmem;

use super::RenderError;
use super::conversation::{Conversation, entry_mut, string_mut};
use super::json::Json;
use super::sentinels::trimmed;

/// How many places of one content are tried.
const TRIES: usize = 64;

/// By how many bytes a content is looked for first.
const FEW: usize = 16;

/// If all that seems wrong cannot be looked up together, so much is looked up one by one.
const ALONE: usize = 8;

/// Something that a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    message: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The content, or a part of it.
    Content(Option<usize>),
    /// The name of what a call calls.
    Call(usize),
}

/// Checks that what `wanted` messages say is learned from, and nothing of the others is. `render` gives a conversation's
/// text.
pub(super) fn check(
    conversation: &Conversation,
    text: &str,
    learned: &[Range<usize>],
    wanted: &[bool],
    render: &dyn Fn(&Conversation) -> Result<String, RenderError>,
) -> Result<(), RenderError> {
    let is_learned = |bytes: Range<usize>| {
        let next = learned.partition_point(|range| range.end <= bytes.start);
        learned.get(next).is_some_and(|range| range.start < bytes.end)
    };
    let suspects = suspects(conversation, text, &is_learned, wanted);
    if suspects.is_empty() {
        return Ok(());
    }
    let ends = |of: &[Said]| ends(conversation, text, of, render);
    let one_by_one = || suspects.iter().take(ALONE).filter_map(|said| ends(&[*said])).flatten().collect();
    let ends: Vec<(Said, usize)> = ends(&suspects).unwrap_or_else(one_by_one);
    for said in suspects {
        let mut places = ends.iter().filter(|(of, _)| *of == said).map(|(_, end)| *end).peekable();
        let (number, is_wanted) = (said.message + 1, wanted[said.message]);
        let is_wrong = match is_wanted {
            true => places.peek().is_some() && !places.any(|end| is_learned(end - 1..end)),
            false => places.any(|end| is_learned(end - 1..end)),
        };
        if is_wrong {
            let what = match is_wanted {
                true => format!(
                    "message {number} is to be learned from, and stands outside what marks a turn in the text"
                ),
                false => format!(
                    "message {number} is not to be learned from, and stands where the text marks a turn"
                ),
            };
            let remedy = "this template writes such conversations otherwise: say what stands around turns with chat.turn, use \
                          a template with generation blocks, or leave the record out";
            return Err(RenderError::new(what, remedy));
        }
    }
    Ok(())
}

/// What seems to stand where it should not.
fn suspects(
    conversation: &Conversation,
    text: &str,
    is_learned: &impl Fn(Range<usize>) -> bool,
    wanted: &[bool],
) -> Vec<Said> {
    let (mut suspects, mut at) = (Vec::new(), 0);
    for (message, about) in conversation.about.iter().enumerate() {
        if about.parts.iter().any(Option::is_some) {
            continue;
        }
        let (start, is_wanted) = (at, wanted[message]);
        for said in said(conversation, message, is_wanted) {
            let Some(words) = said.words(conversation).map(|words| &words[trimmed(words)]) else { continue };
            let behind = &text.as_bytes()[start..];
            // To look for a few bytes is prepared fast.
            let (few, all) = (&words.as_bytes()[..words.len().min(FEW)], words.as_bytes());
            let places = memmem::find_iter(behind, few).take(TRIES);
            let mut tries = places.filter(|place| behind[*place..].starts_with(all)).peekable();
            let is_there = tries.peek().is_some();
            let is_right = |place: &usize| {
                let end = start + place + words.len();
                is_learned(if is_wanted { end - 1..end } else { start + place..end }) == is_wanted
            };
            match tries.find(is_right) {
                // The system prompt may stand anywhere.
                Some(_) if about.is_system() => (),
                Some(place) => at = at.max(start + place + words.len()),
                None if is_there => suspects.push(said),
                None => (),
            }
        }
    }
    suspects
}

/// What a message says, in order; of calls only if it is learned from.
fn said(conversation: &Conversation, message: usize, is_wanted: bool) -> impl Iterator<Item = Said> {
    let contents = match conversation.about[message].parts.len() {
        0 => vec![None],
        parts => (0..parts).map(Some).collect(),
    };
    let calls = match conversation.messages[message].get("tool_calls") {
        Some(Json::List(calls)) if is_wanted => calls.len(),
        _ => 0,
    };
    let all = contents.into_iter().map(What::Content).chain((0..calls).map(What::Call));
    all.map(move |what| Said { message, what })
}

impl Said {
    /// Its words; `None` if there are none.
    fn words<'a>(&self, conversation: &'a Conversation) -> Option<&'a str> {
        let words = match self.what {
            What::Content(part) => conversation.content(self.message, part),
            What::Call(nth) => {
                let Json::List(calls) = conversation.messages[self.message].get("tool_calls")? else {
                    return None;
                };
                let call = calls.get(nth)?;
                call.get("function").unwrap_or(call).get("name")?.as_str()
            }
        };
        words.filter(|words| !trimmed(words).is_empty())
    }

    fn words_mut<'a>(&self, conversation: &'a mut Conversation) -> Option<&'a mut String> {
        match self.what {
            What::Content(part) => conversation.content_mut(self.message, part),
            What::Call(nth) => {
                let calls = entry_mut(&mut conversation.messages[self.message], "tool_calls")?;
                let Json::List(calls) = calls else { return None };
                let call = calls.get_mut(nth)?;
                let call = match call.get("function") {
                    Some(_) => entry_mut(call, "function")?,
                    None => call,
                };
                string_mut(entry_mut(call, "name")?)
            }
        }
    }
}

/// Where in `text` what is said ends, once for each time that it stands there; `None` if the template writes something
/// else as soon as there is a word behind it.
fn ends(
    conversation: &Conversation,
    text: &str,
    of: &[Said],
    render: &dyn Fn(&Conversation) -> Result<String, RenderError>,
) -> Option<Vec<(Said, usize)>> {
    let word = (0..).map(|nth| format!("Kw{nth}q")).find(|word| !text.contains(word))?;
    let mut other = conversation.clone();
    for (number, said) in of.iter().enumerate() {
        let words = said.words_mut(&mut other)?;
        words.insert_str(trimmed(words).end, &format!("{word}{number}z"));
    }
    let marked = render(&other).ok()?;
    let mut pieces = marked.split(&*word);
    let (mut ends, mut rest) = (Vec::new(), text.strip_prefix(pieces.next()?)?);
    for piece in pieces {
        let (number, behind) = piece.split_once('z')?;
        ends.push((*of.get(number.parse::<usize>().ok()?)?, text.len() - rest.len()));
        rest = rest.strip_prefix(behind)?;
    }
    rest.is_empty().then_some(ends)
}
