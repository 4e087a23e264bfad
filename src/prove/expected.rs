//! What the delivered ids of a record must stand for, and which of its bytes the model writes.
//!
//! For each turn the conversation up to it is rendered with the template's prompt for the next one. If the whole text
//! begins with that, the turn begins where it ends. Templates that drop earlier reasoning render the earlier messages
//! otherwise then: the end of the prompt is looked for before the turn's content, and the difference is noted. The turn
//! ends with the first token behind its content that stops generation, unless the prompt stands right behind that: then
//! the model goes on with another part of its message, and writes the prompt for that itself. A conversation of `n` turns
//! is rendered `n` times, so a proof's time grows with the square of its length.
//!
//! No prompt announces the turns of other roles. Such a turn is the message's content and the token right behind it. Of a
//! message whose parts say themselves whether they are learned from, these parts are known, and the token that ends it.

use std::cell::OnceCell;
use std::ops::Range;

use serde_json::Value;

use super::conversation::{Completion, Conversation, Edit, REASONING_TAGS, role};
use super::kept::{Kept, contents};
use super::regions::{Place, regions};
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
    /// Whether the template looks for the tags of reasoning in the assistant's contents: then it writes them itself.
    pub(super) reads_tags: bool,
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
    /// The parts that say themselves whether they are learned from, and whether they are.
    pub(super) parts: Vec<(Range<usize>, bool)>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) message: usize,
    pub(super) place: Range<usize>,
}

impl Expected {
    /// What the messages of a conversation with the numbers `left` must become, which are rendered to `text`. Unless the
    /// prompt of each turn is rendered, all turns are taken to have the same one.
    pub(super) fn of_conversation(
        conversation: &Conversation,
        left: &[usize],
        text: String,
        ends: &[String],
        ids: Ids<'_>,
        renders_prompts: bool,
    ) -> Self {
        let places: Vec<_> = left.iter().map(|message| Place::of_content(conversation, *message)).collect();
        let regions = regions(conversation, left, &text, &places);
        let (same, opening) = (OnceCell::new(), OnceCell::new());
        let turns = Turns {
            conversation,
            left,
            text: &text,
            regions: &regions,
            ends,
            ids,
            renders_prompts,
            same,
            opening,
        };
        // What earlier samples have is counted there.
        let new: Vec<usize> = left.iter().copied().filter(|index| *index >= conversation.first).collect();
        let (mut found, mut lost, mut kept) = (Vec::<Turn>::new(), 0, Kept::of(conversation, &new, &text));
        for nth in (0..left.len()).filter(|nth| conversation.is_learned(left[*nth])) {
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
                Some(turn) => found.push(turn),
                None => lost += 1,
            }
        }
        add_parts(conversation, left, &text, &mut found);
        let contents =
            left.iter().zip(regions).filter_map(|(&message, place)| Some(Content { message, place: place? }));
        Self {
            contents: contents.collect(),
            turns: found,
            roles: conversation.messages.iter().map(|message| role(message).to_owned()).collect(),
            reads_tags: reads_tags(conversation, left, &text),
            kept,
            ends: ends.to_vec(),
            lost,
            text,
        }
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
            parts: Vec::new(),
        });
        expected
    }
}

/// Whether any text of a message's content is in the text.
fn is_rendered(message: &Value, text: &str) -> bool {
    contents(message).iter().any(|content| !content.is_empty() && text.contains(content.trim()))
}

/// Finds the parts of turns that say themselves whether they are learned from. Nothing else of such a turn is certain but
/// the token that ends it.
fn add_parts(conversation: &Conversation, left: &[usize], text: &str, turns: &mut [Turn]) {
    let (mut flags, mut places) = (Vec::new(), Vec::new());
    for (nth, turn) in turns.iter_mut().enumerate() {
        let message = turn.message;
        if !conversation.is_in_parts(message) {
            continue;
        }
        let is_learned = conversation.learned[message];
        let stop = turn.stop.as_ref().filter(|_| is_learned).map_or(0, String::len);
        turn.start.end = turn.end.start.saturating_sub(stop).max(turn.start.end);
        for (part, own) in conversation.own_of_parts[message].iter().enumerate() {
            flags.push((nth, own.unwrap_or(is_learned)));
            places.push(Place::of_part(conversation, message, part));
        }
    }
    for ((nth, is_learned), place) in flags.into_iter().zip(regions(conversation, left, text, &places)) {
        let (turn, Some(mut place)) = (&mut turns[nth], place) else { continue };
        // The space before a word that is not learned from belongs to it, where the message is learned from otherwise.
        if let (false, true, Some((before, true))) =
            (is_learned, conversation.learned[turn.message], turn.parts.last_mut())
        {
            place.start = text[..place.start].trim_ascii_end().len().max(before.start);
            before.end = before.end.min(place.start);
        }
        turn.parts.push((place, is_learned));
    }
}

/// Whether the template renders the assistant's contents otherwise if their tags of reasoning are other letters.
fn reads_tags(conversation: &Conversation, left: &[usize], text: &str) -> bool {
    let without = |text: &str| {
        let other = |text: String, tag: &&str| text.replace(*tag, &"z".repeat(tag.len()));
        REASONING_TAGS.iter().fold(text.to_owned(), other)
    };
    let mut edits = Vec::new();
    for &message in left.iter().filter(|index| role(&conversation.messages[**index]) == "assistant") {
        let content = &conversation.messages[message]["content"];
        let parts = content.as_array().into_iter().flatten().enumerate();
        let parts = parts.map(|(part, content)| (Some(part), &content["text"]));
        for (part, content) in parts.chain([(None, content)]) {
            let Some(content) = content.as_str() else { continue };
            let other = without(content);
            if other != content {
                edits.push(Edit { message, part, text: other });
            }
        }
    }
    let render = || conversation.engine.render(left, &edits, false);
    !edits.is_empty() && render().map_or(true, |other| without(&other) != without(text))
}

/// The turns of a rendered conversation.
struct Turns<'a> {
    conversation: &'a Conversation,
    /// The numbers of its messages.
    left: &'a [usize],
    text: &'a str,
    regions: &'a [Option<Range<usize>>],
    ends: &'a [String],
    ids: Ids<'a>,
    /// Whether the prompt of each turn is rendered.
    renders_prompts: bool,
    /// The prompt that turns were found to have, if it is the same for all so far.
    same: OnceCell<String>,
    /// The prompt behind the first messages that have one.
    opening: OnceCell<Option<String>>,
}

impl Turns<'_> {
    /// The assistant's turn `nth`, which begins behind byte `behind`, and whether the text before it is what the model sees when it
    /// writes. `None` if its beginning is not found.
    fn turn(&self, nth: usize, behind: usize) -> Option<(Turn, bool)> {
        let prompt = self.renders_prompts.then(|| self.render(nth, true)).flatten();
        let own = prompt.as_deref().and_then(|prompt| self.opening_of(nth, prompt)).unwrap_or_default();
        let seen = prompt.as_deref().filter(|prompt| self.text.starts_with(prompt));
        let is_as_prompted = seen.is_some();
        let opening = if own.is_empty() && !is_as_prompted { self.any_opening()? } else { &own };
        let start = match seen {
            Some(seen) => seen.len()..seen.len(),
            None => self.search(nth, behind, opening)?,
        };
        let (end, stop) = self.end(nth, start.end, opening);
        let (message, prompt) = (self.left[nth], own.len());
        let turn = Turn { message, is_prompted: true, start, end, prompt, stop, parts: Vec::new() };
        Some((turn, is_as_prompted))
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
        let start = begin..known;
        Some(Turn { message, is_prompted: false, start, end, prompt: 0, stop, parts: Vec::new() })
    }

    /// The token at byte `at`, or one that stops generation and has only white space before it; and where it stands.
    fn stop(&self, at: usize) -> Option<(usize, &String)> {
        let behind = &self.text[at..];
        let blank = behind.len() - behind.trim_start().len();
        let ends = self.ends.iter().filter(|end| self.ids.tokenizer.id(end).is_some());
        let added = self.ids.special.values().map(|added| &added.spelling);
        let here = ends.clone().chain(added).filter(|token| behind.starts_with(&***token));
        let apart = ends.filter(|end| behind[blank..].starts_with(&***end));
        let longest = |token: &&String| token.len();
        let here = here.max_by_key(longest).map(|token| (at, token));
        here.or_else(|| Some((at + blank, apart.max_by_key(longest)?)))
    }

    /// The messages before turn `nth`, maybe with the prompt for it, as far as the template renders them.
    fn render(&self, nth: usize, prompt: bool) -> Option<String> {
        self.conversation.engine.render(&self.left[..nth], &[], prompt).ok()
    }

    /// What `prompt` has behind the messages before turn `nth`.
    fn opening_of(&self, nth: usize, prompt: &str) -> Option<String> {
        // Most templates have one prompt, and most texts begin with it.
        if let Some(same) =
            self.same.get().filter(|same| self.text.starts_with(prompt) && prompt.ends_with(&***same))
        {
            return Some(same.clone());
        }
        let opening = prompt.strip_prefix(&*self.render(nth, false)?)?.to_owned();
        Some(opening)
            .filter(|opening| !opening.is_empty())
            .inspect(|opening| _ = self.same.set(opening.clone()))
    }

    /// The template's prompt behind the first messages that have one.
    fn any_opening(&self) -> Option<&str> {
        let find = || {
            (1..=self.left.len()).find_map(|nth| {
                let prompt = self.render(nth, true)?;
                let opening = prompt.strip_prefix(&*self.render(nth, false)?)?;
                Some(opening.to_owned()).filter(|opening| !opening.is_empty())
            })
        };
        self.opening.get_or_init(find).as_deref()
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
        if let Some(mut at) = find(opening) {
            // Before it may be other parts of the message.
            while let Some(before) = window[..at].rfind(opening)
                && self.is_part(&window[before..at])
                && self.is_behind(nth, low + before)
            {
                at = before;
            }
            let start = low + at + opening.len();
            return Some(start..start);
        }
        let cuts = opening.char_indices().rev().filter(|(_, char)| matches!(char, '\n' | '>' | ']'));
        let (at, len) = cuts
            .map(|(at, char)| at + char.len_utf8())
            .find_map(|len| Some((find(&opening[..len])?, len)))?;
        let (start, seen) = (low + at + len, &opening[..len]);
        // Where they part within white space, one id may have all of it.
        let is_within = opening[len..].starts_with(char::is_whitespace);
        let begin = if is_within { low + at + seen.trim_end().len() } else { start };
        Some(begin..content.map_or(start, |content| content.start))
    }

    /// Whether a text ends with a token that stops generation, and has no other one.
    fn is_part(&self, text: &str) -> bool {
        let rests = self.ends.iter().filter_map(|end| text.strip_suffix(&**end));
        let has_end = |rest: &str| self.ends.iter().any(|end| rest.contains(&**end));
        rests.min_by_key(|rest| rest.len()).is_some_and(|rest| !has_end(rest))
    }

    /// Whether a prompt at byte `at` stands behind the messages before message `nth`. The prompt for a part of another
    /// role's message is none.
    fn is_behind(&self, nth: usize, at: usize) -> bool {
        !nth.checked_sub(1).is_some_and(|before| self.is_assistants(before))
            || self.length(nth).is_some_and(|length| length <= at)
    }

    /// Whether a prompt at byte `at` is not that of message `nth` or of one behind it.
    fn is_before(&self, nth: usize, at: usize) -> bool {
        !self.is_assistants(nth) || self.length(nth).is_some_and(|length| at < length)
    }

    fn is_assistants(&self, nth: usize) -> bool {
        self.left.get(nth).is_some_and(|message| role(&self.conversation.messages[*message]) == "assistant")
    }

    /// How many bytes the text has before message `nth`, if that is known.
    fn length(&self, nth: usize) -> Option<usize> {
        self.render(nth, false).filter(|text| self.text.starts_with(&**text)).map(|text| text.len())
    }

    /// Where turn `nth` ends, which begins behind the prompt `opening`, and the token that ends it.
    fn end(&self, nth: usize, start: usize, opening: &str) -> (Range<usize>, Option<String>) {
        let from = self.regions[nth].as_ref().map_or(start, |content| content.end.max(start));
        let next = self.regions[nth + 1..].iter().flatten().map(|next| next.start).find(|next| *next >= from);
        let next = next.unwrap_or(self.text.len());
        let first = |from: usize| {
            let between = &self.text[from..next];
            let found = self.ends.iter().filter_map(|end| Some((between.find(&**end)?, end)));
            let (at, end) = found.min_by_key(|(at, end)| (*at, std::cmp::Reverse(end.len())))?;
            Some((from + at + end.len(), end))
        };
        let mut found = first(from);
        while let Some((stop, _)) = found
            && !opening.is_empty()
            && self.text[stop..next].starts_with(opening)
            && self.is_before(nth + 1, stop)
            && let Some(more) = first(stop + opening.len())
        {
            found = Some(more);
        }
        match found {
            Some((stop, end)) => {
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
