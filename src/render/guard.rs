//! A last look at what markers gave: whether what messages say stands within their turns, and nothing else does.
//!
//! A template's markers are known from a few examples, and it may write some conversation otherwise: an answer without a
//! marker behind the results of tools, or the marker of an answer before a second question. So each content is looked up
//! in the text, from where the one before was found. Only where that seems wrong, a word at the end of the content tells
//! for certain.

use std::ops::Range;

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
    let one_by_one = |said: &Said| ends(&[*said])?.pop();
    let found = ends(&suspects).map(|found| found.into_iter().map(Some).collect());
    let found: Vec<_> = found.unwrap_or_else(|| suspects.iter().take(ALONE).map(one_by_one).collect());
    for (said, ends) in suspects.iter().zip(found) {
        let Some(ends) = ends else { continue };
        let (number, is_wanted) = (said.message + 1, wanted[said.message]);
        let is_at_learned = ends.iter().any(|end| is_learned(end.saturating_sub(1)..*end));
        let wrong = match is_wanted {
            true if ends.is_empty() => {
                if said.may_be_left_out(conversation, text, render) {
                    continue;
                }
                return Err(RenderError::new(
                    format!(
                        "message {number} is to be learned from, and the template leaves its content out"
                    ),
                    "use a template that renders it (some take only a list of parts), or leave the record out",
                ));
            }
            true if !is_at_learned => "to be learned from, and stands outside what marks a turn in the text",
            false if is_at_learned => "not to be learned from, and stands where the text marks a turn",
            _ => continue,
        };
        return Err(RenderError::new(
            format!("message {number} is {wrong}"),
            "this template writes such conversations otherwise: say what stands around turns with chat.turn, use a \
             template with generation blocks, or leave the record out",
        ));
    }
    Ok(())
}

/// What seems to stand where it should not, or nowhere.
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
        let is_right = |place: &Range<usize>| {
            is_learned(if is_wanted { place.end - 1..place.end } else { place.clone() }) == is_wanted
        };
        for said in said(conversation, message, is_wanted) {
            let Some(words) = said.words(conversation).map(|words| &words[trimmed(words)]) else { continue };
            if let Some(place) = places(text, words, start).find(is_right) {
                // The system prompt may stand anywhere.
                at = if about.is_system() { at } else { at.max(place.end) };
                continue;
            }
            let is_suspect = match is_wanted {
                // A template may drop what the model thought before it answered.
                true => places(text, end_of(words), start).find(is_right).is_none(),
                false => {
                    let mut all = places(text, words, 0).peekable();
                    places(text, words, start).next().is_some()
                        || all.peek().is_some() && !all.any(|place| is_right(&place))
                }
            };
            suspects.extend(is_suspect.then_some(said));
        }
    }
    suspects
}

/// The first places of some words in a text, from a byte on.
fn places(text: &str, words: &str, from: usize) -> impl Iterator<Item = Range<usize>> {
    let (behind, all) = (&text.as_bytes()[from..], words.as_bytes());
    // Mostly they stand just behind `from`, so that to prepare a search would take longer than to look.
    let found = memchr::memchr_iter(all[0], behind);
    let found = found.filter(|place| behind[*place..].starts_with(&all[..all.len().min(FEW)])).take(TRIES);
    let found = found.filter(|place| behind[*place..].starts_with(all));
    found.map(move |place| from + place..from + place + all.len())
}

/// The last words of a content.
fn end_of(words: &str) -> &str {
    &words[words.ceil_char_boundary(words.len().saturating_sub(FEW))..]
}

/// What a message says, in order; of calls only if it is learned from.
fn said(conversation: &Conversation, message: usize, is_wanted: bool) -> impl Iterator<Item = Said> {
    let calls = match conversation.messages[message].get("tool_calls") {
        Some(Json::List(calls)) if is_wanted => calls.len(),
        _ => 0,
    };
    let contents = conversation.parts(message).map(What::Content);
    let all = contents.chain((0..calls).map(What::Call));
    all.map(move |what| Said { message, what })
}

impl Said {
    /// Whether it may be missing: the text has nothing else of its message either, or, in place of a content, its reasoning
    /// or calls. A call may always be missing.
    fn may_be_left_out(
        &self,
        conversation: &Conversation,
        text: &str,
        render: &dyn Fn(&Conversation) -> Result<String, RenderError>,
    ) -> bool {
        let is_same = |other: &Conversation| render(other).is_ok_and(|other| other == text);
        matches!(self.what, What::Call(_))
            || conversation.beside_content(self.message).is_some()
                && !is_same(&conversation.with_content_alone(self.message))
            || is_same(&conversation.with(|number| number != self.message))
    }

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

/// For each of these, where in `text` it ends, once for each time that it stands there; `None` if the template writes
/// something else as soon as there is a word behind them.
fn ends(
    conversation: &Conversation,
    text: &str,
    of: &[Said],
    render: &dyn Fn(&Conversation) -> Result<String, RenderError>,
) -> Option<Vec<Vec<usize>>> {
    let word = (0..).map(|nth| format!("Kw{nth}q")).find(|word| !text.contains(word))?;
    let mut other = conversation.clone();
    for (number, said) in of.iter().enumerate() {
        let words = said.words_mut(&mut other)?;
        words.insert_str(trimmed(words).end, &format!("{word}{number}z"));
    }
    let marked = render(&other).ok()?;
    let mut pieces = marked.split(&*word);
    let (mut ends, mut rest) = (vec![Vec::new(); of.len()], text.strip_prefix(pieces.next()?)?);
    for piece in pieces {
        let (number, behind) = piece.split_once('z')?;
        ends.get_mut(number.parse::<usize>().ok()?)?.push(text.len() - rest.len());
        rest = rest.strip_prefix(behind)?;
    }
    rest.is_empty().then_some(ends)
}
