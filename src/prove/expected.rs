//! What the delivered ids of a record must stand for, and which of its bytes the model writes.
//!
//! For each turn the conversation up to it is rendered with the template's prompt for the next one. If the whole text
//! begins with that, the turn begins where it ends. Templates that drop earlier reasoning render the earlier messages
//! otherwise then: the end of the prompt is looked for before the turn's content, and the difference is noted. The turn
//! ends with the first token behind its content that stops generation.
//!
//! No prompt announces the turns of other roles. Such a turn is the message's content and the token right behind it.

use std::ops::Range;

use serde_json::Value;

use super::conversation::{Completion, Conversation, Engine, role};
use super::kept::{Kept, contents};
use super::regions::regions;
use super::spans::Ids;

/// The text of a record, and who has written what in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) text: String,
    /// The turns that are to be learned from.
    pub(super) turns: Vec<Turn>,
    /// Where the content of each message stands, and its role.
    pub(super) contents: Vec<Content>,
    /// The roles of the messages.
    pub(super) roles: Vec<String>,
    /// What the template dropped or changed.
    pub(super) kept: Kept,
    /// The spellings of the tokens that stop generation.
    pub(super) ends: Vec<String>,
    /// How many turns are to be learned from and were not found.
    pub(super) lost: usize,
}

/// A turn that is to be learned from. Its places are bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The number of its message.
    pub(super) message: usize,
    /// Whether the model writes it behind a prompt. Otherwise it is the content of another role.
    pub(super) is_prompted: bool,
    /// It begins here: within this range, which is empty where the place is known.
    pub(super) start: Range<usize>,
    /// It has ended here: where the ending token ends, up to the white space behind it.
    pub(super) end: Range<usize>,
    /// The length of the template's prompt before it.
    pub(super) prompt: usize,
    /// The token that ends it; `None` if there is none.
    pub(super) stop: Option<String>,
}

impl Turn {
    /// Where the template's prompt for the turn begins. A conversation can begin with a part of that prompt.
    pub(super) fn prompted(&self) -> usize {
        self.start.start.saturating_sub(self.prompt)
    }

    /// The bytes that are certainly learned from.
    pub(super) fn written(&self) -> Range<usize> {
        self.start.end..self.end.start
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) message: usize,
    pub(super) place: Range<usize>,
}

impl Expected {
    /// What a conversation without its messages in `without` must become.
    pub(super) fn of_conversation(
        conversation: &Conversation,
        ends: &[String],
        ids: Ids<'_>,
        without: Range<usize>,
    ) -> Result<Self, String> {
        let left: Vec<usize> =
            (0..conversation.messages.len()).filter(|index| !without.contains(index)).collect();
        let text = conversation.engine.render(&left, &[], false)?;
        let regions = regions(conversation, &left, &text);
        let turns =
            Turns { engine: &*conversation.engine, left: &left, text: &text, regions: &regions, ends, ids };
        // What earlier samples have is counted there.
        let new: Vec<usize> = left.iter().copied().filter(|index| *index >= conversation.first).collect();
        let (mut found, mut lost, mut kept) = (Vec::<Turn>::new(), 0, Kept::of(conversation, &new, &text));
        let is_learned = |message: usize| conversation.learned[message] || conversation.in_parts[message];
        for nth in (0..left.len()).filter(|nth| is_learned(left[*nth])) {
            let message = &conversation.messages[left[nth]];
            let behind = found.last().map_or(0, |turn| turn.end.start);
            let turn = match role(message) {
                "assistant" => turns.turn(nth, behind).map(|(turn, is_as_prompted)| {
                    kept.count_prompt(is_as_prompted);
                    turn
                }),
                // `kept` counts what the template leaves out.
                _ if !is_rendered(message, &text) => continue,
                _ => turns.content(nth, message),
            };
            match turn {
                Some(mut turn) => {
                    if conversation.in_parts[turn.message] {
                        turn.start.end = turn.end.start;
                    }
                    found.push(turn);
                }
                None => lost += 1,
            }
        }
        let contents =
            left.iter().zip(regions).filter_map(|(&message, place)| Some(Content { message, place: place? }));
        Ok(Self {
            contents: contents.collect(),
            turns: found,
            roles: conversation.messages.iter().map(|message| role(message).to_owned()).collect(),
            kept,
            ends: ends.to_vec(),
            lost,
            text,
        })
    }

    /// What a prompt with its completion must become.
    pub(super) fn of_completion(completion: &Completion, ends: &[String]) -> Self {
        let Completion { text, prompt } = completion;
        let roles = vec!["prompt".to_owned(), "completion".to_owned()];
        let mut expected = Self { text: text.clone(), roles, ends: ends.to_vec(), ..Self::default() };
        let Some(at) = text.find(&**prompt).filter(|_| !prompt.is_empty()).or(prompt.is_empty().then_some(0))
        else {
            return Self { lost: 1, ..expected };
        };
        let start = at + prompt.len();
        expected.contents.push(Content { message: 0, place: at..start });
        let stop = ends.iter().find(|end| text[start..].ends_with(&***end)).cloned();
        expected.turns.push(Turn {
            message: 1,
            is_prompted: true,
            start: start..start,
            end: text.len()..text.len(),
            prompt: 0,
            stop,
        });
        expected
    }
}

/// Whether any text of a message's content is in the text.
fn is_rendered(message: &Value, text: &str) -> bool {
    contents(message).iter().any(|content| !content.is_empty() && text.contains(content.trim()))
}

/// The turns of a rendered conversation.
struct Turns<'a> {
    engine: &'a dyn Engine,
    /// The numbers of its messages.
    left: &'a [usize],
    text: &'a str,
    regions: &'a [Option<Range<usize>>],
    ends: &'a [String],
    ids: Ids<'a>,
}

impl Turns<'_> {
    /// The assistant's turn `nth`, which begins behind byte `behind`, and whether the text before it is what the model sees when it
    /// writes. `None` if its beginning is not found.
    fn turn(&self, nth: usize, behind: usize) -> Option<(Turn, bool)> {
        let (base, prompt) = self.prompt(nth);
        let opening = match (&base, &prompt) {
            (Some(base), Some(prompt)) => prompt.strip_prefix(&**base).unwrap_or_default(),
            _ => "",
        };
        let (start, is_as_prompted) = match &prompt {
            Some(prompt) if self.text.starts_with(&**prompt) => (prompt.len()..prompt.len(), true),
            _ => (self.search(nth, behind, &self.opening(nth, opening)?)?, false),
        };
        let (end, stop) = self.end(nth, start.end);
        let (message, prompt) = (self.left[nth], opening.len());
        Some((Turn { message, is_prompted: true, start, end, prompt, stop }, is_as_prompted))
    }

    /// Turn `nth` of another role: the content of its message, with the token behind it. White space at the content's
    /// ends may be the template's; so may what stands between the texts of a content in parts, of which only the last is
    /// certain. `None` if its place is not known.
    fn content(&self, nth: usize, message: &Value) -> Option<Turn> {
        let place = self.regions[nth].clone()?;
        let mut texts = contents(message);
        texts.retain(|text| !text.trim().is_empty());
        let (first, last) = (texts.first()?, texts.last()?);
        let (before, behind) = self.text.split_at(place.end);
        let lead = &first[..first.len() - first.trim_start().len()];
        let begin = place.start - if before[..place.start].ends_with(lead) { lead.len() } else { 0 };
        let known = match texts.len() {
            1 => place.start,
            _ => before.strip_suffix(last.trim()).map_or(place.end, str::len),
        };
        let trail = &last[last.trim_end().len()..];
        let close = place.end + if behind.starts_with(trail) { trail.len() } else { 0 };
        let (end, stop) = match self.stop(close) {
            Some((at, token)) => (at + token.len()..at + token.len(), Some(token.clone())),
            None => (place.end..close, None),
        };
        let message = self.left[nth];
        Some(Turn { message, is_prompted: false, start: begin..known, end, prompt: 0, stop })
    }

    /// The token at byte `at`, or one that stops generation and has only white space before it; and where it stands.
    fn stop(&self, at: usize) -> Option<(usize, &String)> {
        let behind = &self.text[at..];
        let blank = behind.len() - behind.trim_start().len();
        let ends = self.ends.iter().filter(|end| self.ids.tokenizer.id(end).is_some());
        let here =
            ends.clone().chain(self.ids.special.values()).filter(|token| behind.starts_with(&***token));
        let apart = ends.filter(|end| behind[blank..].starts_with(&***end));
        let longest = |token: &&String| token.len();
        let here = here.max_by_key(longest).map(|token| (at, token));
        here.or_else(|| Some((at + blank, apart.max_by_key(longest)?)))
    }

    /// The messages before turn `nth`, without and with the prompt for it, as far as the template renders them.
    fn prompt(&self, nth: usize) -> (Option<String>, Option<String>) {
        let render = |prompt| self.engine.render(&self.left[..nth], &[], prompt).ok();
        (render(false), render(true))
    }

    /// The template's prompt for a turn: `known`, or that behind the first messages that have one.
    fn opening(&self, nth: usize, known: &str) -> Option<String> {
        if !known.is_empty() {
            return Some(known.to_owned());
        }
        (1..=self.left.len()).filter(|of| *of != nth).find_map(|of| match self.prompt(of) {
            (Some(base), Some(prompt)) => {
                prompt.strip_prefix(&*base).filter(|opening| !opening.is_empty()).map(str::to_owned)
            }
            _ => None,
        })
    }

    /// Where turn `nth` begins: behind the last place of the prompt before its content. Where the text has only the
    /// beginning of the prompt, between that and the content.
    fn search(&self, nth: usize, behind: usize, opening: &str) -> Option<Range<usize>> {
        let content = self.regions[nth].clone();
        let low =
            self.regions[..nth].iter().rev().flatten().next().map_or(behind, |before| before.end.max(behind));
        let next =
            || self.regions[nth + 1..].iter().flatten().next().map_or(self.text.len(), |next| next.start);
        let high = content.clone().map_or_else(next, |content| content.start);
        let window = self.text.get(low..high)?;
        let find = |part: &str| match content {
            Some(_) => window.rfind(part),
            None => window.find(part),
        };
        if let Some(at) = find(opening) {
            let start = low + at + opening.len();
            return Some(start..start);
        }
        let cuts = opening.char_indices().rev().filter(|(_, char)| matches!(char, '\n' | '>' | ']'));
        let (at, len) = cuts
            .map(|(at, char)| at + char.len_utf8())
            .find_map(|len| Some((find(&opening[..len])?, len)))?;
        let start = low + at + len;
        Some(start..content.map_or(start, |content| content.start))
    }

    /// Where turn `nth` ends, and the token that ends it.
    fn end(&self, nth: usize, start: usize) -> (Range<usize>, Option<String>) {
        let from = self.regions[nth].as_ref().map_or(start, |content| content.end.max(start));
        let next = self.regions[nth + 1..].iter().flatten().map(|next| next.start).find(|next| *next >= from);
        let next = next.unwrap_or(self.text.len());
        let between = &self.text[from..next];
        let found = self.ends.iter().filter_map(|end| Some((between.find(&**end)?, end)));
        match found.min_by_key(|(at, end)| (*at, std::cmp::Reverse(end.len()))) {
            Some((at, end)) => {
                let stop = from + at + end.len();
                let blank = self.text[stop..].len() - self.text[stop..].trim_start().len();
                (stop..stop + blank, Some(end.clone()))
            }
            None if nth + 1 == self.left.len() => {
                (self.text.trim_end().len().max(from)..self.text.len(), None)
            }
            None => (from..next, None),
        }
    }
}
