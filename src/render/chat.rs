//! A conversation's text and its marks.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::conversation::{Conversation, message};
use super::families;
use super::fields::is_empty;
use super::guard;
use super::json::{Json, Key};
use super::learn;
use super::sentinels::{self, Owners, Place};
use super::spellings::{Spelling, Spellings};
use super::structure::Imitations;
use super::template::{Input, Template, TemplateText};
use super::turns::{Markers, Prompt, Turn};
use super::{Outcome, RenderError, Rendered};
use crate::config::{Border, Learn, TurnConfig};
use crate::document::{Mask, RenderedMarks};
use crate::tokenizer::Tokenizer;

/// Why a record gives no document.
pub(super) const NOTHING: &str = "no turn of it is learned from";

/// Renders conversations.
#[derive(Debug)]
pub(super) struct Chat {
    template: Form,
    /// The template for conversations with tools, if it is another one.
    with_tools: Option<Form>,
    settings: Settings,
}

/// What holds for all templates of a source.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) learn: Learn,
    pub(super) turn: Option<TurnConfig>,
    pub(super) border: Border,
    /// The tokens of the tokenizer that a text may spell.
    pub(super) tokens: Spellings,
    /// Whether those in somebody's text are tokens, too.
    pub(super) parses: bool,
    /// The token that ends texts.
    pub(super) eos: Option<String>,
    /// The variables that the config sets.
    pub(super) kwargs: Vec<(Key, Json)>,
}

/// A template, and how turns are found in what it writes.
struct Form {
    template: Template,
    finder: Finder,
    imitations: Imitations,
}

/// How turns are found.
#[derive(Debug)]
enum Finder {
    /// The template says it.
    Generation,
    /// Between markers.
    Markers {
        markers: Markers,
        /// Whether the results of tools stand between them, too.
        has_tools_within: bool,
    },
    /// By words around each content.
    Sentinels {
        /// The white space that the template writes before an answer, and not where one begins: the model writes it.
        lead: String,
    },
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Form").field("finder", &self.finder).finish_non_exhaustive()
    }
}

impl Chat {
    /// With a template, and another one for conversations with tools. Each comes with its source.
    pub(super) fn new(
        template: (Template, &str),
        with_tools: Option<(Template, &str)>,
        settings: Settings,
    ) -> Self {
        let form = |(template, source): (Template, &str)| Form::new(template, source, &settings);
        Self { template: form(template), with_tools: with_tools.map(form), settings }
    }

    /// What ends turns, or all texts.
    pub(super) fn ends(&self) -> Vec<String> {
        let forms = [Some(&self.template), self.with_tools.as_ref()].into_iter().flatten();
        let markers = forms.filter_map(|form| match &form.finder {
            Finder::Markers { markers, .. } => Some(markers),
            _ => None,
        });
        let mut ends: Vec<String> = markers.flat_map(Markers::ends).map(str::to_owned).collect();
        ends.extend(self.settings.eos.clone());
        ends
    }

    /// What ends turns, if none of it is a token.
    pub(super) fn end_without_token(&self, tokenizer: &dyn Tokenizer) -> Option<&str> {
        let Finder::Markers { markers, .. } = &self.template.finder else { return None };
        let has_token = |end: &str| {
            let (mut ids, within) = (Vec::new(), self.settings.tokens.find(end));
            tokenizer.id(end.trim()).is_some()
                || within.map(|(range, _)| &end[range]).any(|token| tokenizer.id(token).is_some())
                || tokenizer.encode(end, &mut ids).is_ok() && ids.len() == 1
        };
        if markers.ends().any(has_token) { None } else { markers.ends().next() }
    }

    /// How turns are found, in words.
    pub(super) fn finder(&self) -> String {
        match &self.template.finder {
            Finder::Generation => "the template's generation blocks".to_owned(),
            Finder::Markers { markers, .. } => {
                let begins: Vec<String> = markers.begins().map(|begin| format!("{begin:?}")).collect();
                format!("the text behind {}", begins.join(" or "))
            }
            Finder::Sentinels { .. } => "each message's content, found by a second render".to_owned(),
        }
    }

    fn form(&self, conversation: &Conversation) -> &Form {
        match &self.with_tools {
            Some(form) if conversation.tools.is_some() => form,
            _ => &self.template,
        }
    }

    /// The messages that end samples: those that are learned from, at least in part, and whether each is as a whole.
    pub(super) fn samples(&self, conversation: &Conversation) -> Vec<(usize, bool)> {
        learn::samples(conversation, &self.settings.learn)
    }

    pub(super) fn text(&self, conversation: &Conversation) -> Result<String, RenderError> {
        self.form(conversation).text(conversation)
    }

    /// The text of a conversation up to where the model begins to write.
    pub(super) fn prompt(&self, conversation: &Conversation) -> Result<String, RenderError> {
        self.form(conversation).render(conversation, true).map(|rendered| rendered.text)
    }

    pub(super) fn render(&self, conversation: &Conversation) -> Result<Outcome, RenderError> {
        if conversation.messages.is_empty() {
            return Ok(Outcome::LeftOut("it has no messages".to_owned()));
        }
        let form = self.form(conversation);
        let rendered = form.render(conversation, false).map_err(|error| in_parts(conversation, error))?;
        if rendered.text.trim().is_empty() {
            return Ok(Outcome::LeftOut("the template writes nothing for it".to_owned()));
        }
        let structure = form.imitations.replaced(conversation, &rendered.text, &|other| form.text(other))?;
        let tokens_in: &str = if self.settings.parses { &rendered.text } else { &structure };
        let special: Vec<Range<usize>> =
            self.settings.tokens.find(tokens_in).map(|(range, _)| range).collect();
        let learned = self.learned(form, conversation, &rendered, &structure, &special)?;
        if learned.is_empty() {
            return Ok(Outcome::LeftOut(NOTHING.to_owned()));
        }
        let breaks = match self.settings.border {
            Border::Overlap => Vec::new(),
            Border::Split => learned.iter().map(|range| range.start).filter(|start| *start > 0).collect(),
        };
        let mask = Mask::learning(learned, rendered.text.len());
        let text = rendered.text;
        let marks = RenderedMarks { mask, special, breaks, ..RenderedMarks::default() };
        Ok(Outcome::Text(Rendered { text, marks, is_shortened: false }))
    }

    /// The ranges of a text that are learned from.
    fn learned(
        &self,
        form: &Form,
        conversation: &Conversation,
        rendered: &TemplateText,
        structure: &str,
        special: &[Range<usize>],
    ) -> Result<Vec<Range<usize>>, RenderError> {
        let wanted = learn::wanted(conversation, &self.settings.learn);
        let (more, fewer) = learn::parts(conversation, &wanted);
        // The messages that no turn is known of.
        let mut messages: Vec<usize> = (0..wanted.len()).filter(|number| wanted[*number]).collect();
        let mut ranges = Vec::new();
        if !matches!(form.finder, Finder::Sentinels { .. }) {
            messages.retain(|number| !conversation.about[*number].is_assistant());
            let (turns, outside) = self.wanted_turns(form, conversation, rendered, structure, &wanted)?;
            ranges.extend(turns.into_iter().flat_map(|turn| turn.ranges));
            messages.extend(outside);
        }
        let render = |other: &Conversation| form.text(other);
        let locate = |places: &[Place]| match places {
            [] => Ok(Vec::new()),
            places => sentinels::locate(conversation, &rendered.text, places, &render),
        };
        let places = contents(conversation, &messages)?;
        for (nth, (place, range)) in places.iter().zip(locate(&places)?).enumerate() {
            let Some(mut range) = range else { continue };
            let is_of_another =
                |other: Option<&Place>| other.is_none_or(|other| other.message != place.message);
            if let Finder::Sentinels { lead } = &form.finder
                && conversation.about[place.message].is_assistant()
                && !fewer.contains(place)
                && is_of_another(nth.checked_sub(1).map(|before| &places[before]))
                && rendered.text[..range.start].ends_with(lead)
            {
                range.start -= lead.len();
            }
            if is_of_another(places.get(nth + 1)) {
                range.end = self.behind_end(structure, special, range.end);
            }
            ranges.push(range);
        }
        ranges.extend(locate(&more)?.into_iter().flatten());
        let masked = locate(&fewer)?
            .into_iter()
            .flatten()
            .map(|range| learn::with_space(&rendered.text, range))
            .collect();
        let learned = learn::without(ranges, masked);
        if matches!(form.finder, Finder::Markers { .. }) {
            guard::check(conversation, &rendered.text, &learned, &wanted, &render)?;
        }
        Ok(learned)
    }

    /// The assistant's turns that are learned from, and its messages that are and stand outside all turns.
    fn wanted_turns(
        &self,
        form: &Form,
        conversation: &Conversation,
        rendered: &TemplateText,
        structure: &str,
        wanted: &[bool],
    ) -> Result<(Vec<Turn>, Vec<usize>), RenderError> {
        let assistants = learn::assistants(conversation);
        if !assistants.iter().any(|message| wanted[*message]) {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut turns = self.turns(form, conversation, rendered, structure)?;
        let is_told = |message: &&usize| {
            let calls = conversation.messages[**message].get("tool_calls");
            calls.is_some_and(|calls| !is_empty(calls))
                || !conversation.texts(**message).all(|text| text.trim().is_empty())
        };
        let is_marked = matches!(form.finder, Finder::Markers { .. });
        let is_short = is_marked && turns.len() < assistants.iter().filter(is_told).count();
        let is_one_each = turns.len() == assistants.len();
        let is_joined = form.is_joined() && !is_one_each;
        if assistants.iter().all(|message| wanted[*message]) && !is_short && !is_joined {
            return Ok((turns, Vec::new()));
        }
        let owners = if is_one_each && form.has_a_turn_for_each_message() {
            let of_turns = assistants.iter().map(|message| vec![*message]).collect();
            Owners { of_turns, outside: Vec::new() }
        } else {
            let mut owners = self.owners(form, conversation, turns.len()).ok_or_else(learn::unknown)?;
            learn::complete(&mut owners, &turns, &assistants);
            owners
        };
        let chosen = learn::chosen(&owners, wanted, &assistants)?;
        for number in (1..turns.len()).filter(|_| is_joined) {
            // The model writes on behind the end of a part.
            let follows = turns[number - 1].end() == Some(turns[number].marker);
            if follows && chosen[number - 1] && owners.of_turns[number - 1] == owners.of_turns[number] {
                let marker = turns[number].marker;
                turns[number].ranges[0].start = marker;
            }
        }
        let mut choices = chosen.into_iter();
        turns.retain(|_| choices.next() == Some(true));
        let outside = owners.outside.into_iter().filter(|message| is_marked && wanted[*message]).collect();
        Ok((turns, outside))
    }

    /// The assistant's turns in a text.
    fn turns(
        &self,
        form: &Form,
        conversation: &Conversation,
        rendered: &TemplateText,
        structure: &str,
    ) -> Result<Vec<Turn>, RenderError> {
        match &form.finder {
            Finder::Generation => Ok(generated(&rendered.generated)),
            Finder::Markers { markers, has_tools_within } => {
                if *has_tools_within && conversation.about.iter().any(|about| about.is_tool()) {
                    return Err(RenderError::new(
                        "the results of tools stand between the markers of a turn".to_owned(),
                        "correct chat.turn, or use a template with generation blocks",
                    ));
                }
                let markers = match conversation.has_own_kwargs {
                    false => Cow::Borrowed(markers),
                    true => {
                        Cow::Owned(form.with_prompt(markers.clone(), conversation, &self.settings.tokens))
                    }
                };
                let turns = markers.turns(&rendered.text, structure)?;
                if turns.is_empty() && conversation.about.iter().any(|about| about.is_assistant()) {
                    let begins: Vec<String> = markers.begins().map(|begin| format!("{begin:?}")).collect();
                    return Err(RenderError::new(
                        format!(
                            "it has a turn of the assistant, but its text has no {}",
                            begins.join(" or ")
                        ),
                        "say what stands around turns with chat.turn = { begin = \"...\", end = \"...\" }",
                    ));
                }
                Ok(turns)
            }
            Finder::Sentinels { .. } => Ok(Vec::new()),
        }
    }

    /// Which messages the assistant's turns come from.
    fn owners(&self, form: &Form, conversation: &Conversation, turns: usize) -> Option<Owners> {
        sentinels::owners(conversation, turns, &|other| {
            let rendered = form.render(other, false)?;
            let structure = form.imitations.replaced(other, &rendered.text, &|another| form.text(another))?;
            let turns = self.turns(form, other, &rendered, &structure)?;
            Ok((rendered.text, turns))
        })
    }

    /// The end of a content with the token that ends it, if there is one.
    fn behind_end(&self, structure: &str, special: &[Range<usize>], end: usize) -> usize {
        let behind = special.iter().skip_while(|range| range.start < end);
        let mut tokens = behind.filter(|range| !structure[(*range).clone()].trim().is_empty());
        match tokens.next() {
            Some(token) if token.start == end => token.end,
            // Some templates write white space before it.
            Some(token)
                if structure[end..token.start].trim().is_empty()
                    && self.ends().iter().any(|end| *end == structure[token.clone()]) =>
            {
                token.end
            }
            _ => end,
        }
    }
}

impl Form {
    fn new(template: Template, source: &str, settings: &Settings) -> Self {
        let form = Self { template, finder: Finder::Generation, imitations: Imitations::default() };
        let finder = form.choose(source, settings);
        let markers = match &finder {
            Finder::Markers { markers, .. } => markers.texts(),
            _ => Vec::new(),
        };
        let tokens = settings.tokens.all().iter().filter(|_| !settings.parses).cloned();
        Self { imitations: Imitations::new(tokens, &markers), finder, ..form }
    }

    /// Whether a message of several parts becomes several turns, whose markers the model writes itself.
    fn is_joined(&self) -> bool {
        matches!(&self.finder, Finder::Markers { markers, .. } if markers.is_joined)
    }

    /// Whether no message becomes more than one turn.
    fn has_a_turn_for_each_message(&self) -> bool {
        matches!(&self.finder, Finder::Markers { markers, .. } if !markers.is_split)
    }

    fn choose(&self, source: &str, settings: &Settings) -> Finder {
        let is_assistants = match &settings.learn {
            Learn::All | Learn::Last => true,
            Learn::Roles(roles) => roles.iter().any(|role| role == "assistant"),
        };
        if self.template.marks_generation() && is_assistants {
            return Finder::Generation;
        }
        let example = |conversation: &Conversation| {
            let conversation = Conversation { kwargs: settings.kwargs.clone(), ..conversation.clone() };
            self.text(&conversation).ok()
        };
        let markers = match &settings.turn {
            Some(turn) => Some(Markers::named(&turn.begin, &turn.end)),
            None => families::recognize(source, settings.eos.as_deref(), &example),
        };
        let Some(markers) = markers else { return Finder::Sentinels { lead: self.lead(&settings.kwargs) } };
        let has_tools_within = families::has_tools_within(&markers, &example);
        let kwargs = Conversation { kwargs: settings.kwargs.clone(), ..Conversation::default() };
        let markers = self.with_prompt(markers, &kwargs, &settings.tokens);
        Finder::Markers { markers, has_tools_within }
    }

    /// The white space that the template writes before an answer, and not where one begins.
    fn lead(&self, kwargs: &[(Key, Json)]) -> String {
        const SAID: &str = "qokzuv";
        let says = |role, said: &str| message(role, Json::String(said.to_owned()));
        let (user, assistant) = (says("user", "?"), says("assistant", SAID));
        let render = |messages, prompts| {
            let example = Conversation { kwargs: kwargs.to_vec(), ..Conversation::of_messages(messages) };
            self.render(&example, prompts).ok().map(|rendered| rendered.text)
        };
        let prompt = render(vec![user.clone()], true);
        let answered = render(vec![user, assistant], false);
        prompt.zip(answered).map(|(prompt, answered)| lead(&prompt, &answered, SAID)).unwrap_or_default()
    }

    /// The markers, with the end of the template's generation prompt for the variables of a conversation.
    fn with_prompt(&self, mut markers: Markers, conversation: &Conversation, tokens: &Spellings) -> Markers {
        let user = message("user", Json::String("?".to_owned()));
        let example =
            Conversation { kwargs: conversation.kwargs.clone(), ..Conversation::of_messages(vec![user]) };
        let Ok(rendered) = self.render(&example, true) else { return markers };
        let text = rendered.text;
        let behind = markers.begins().filter_map(|begin| Some(text.rfind(begin)? + begin.len())).max();
        markers.prompt = behind.map_or_else(Prompt::default, |behind| Prompt::new(&text[behind..], tokens));
        markers
    }

    fn render(&self, conversation: &Conversation, prompts: bool) -> Result<TemplateText, RenderError> {
        self.template.render(&Input {
            messages: &conversation.messages,
            tools: conversation.tools.as_deref(),
            documents: conversation.documents.as_deref(),
            kwargs: &conversation.kwargs,
            add_generation_prompt: prompts,
        })
    }

    fn text(&self, conversation: &Conversation) -> Result<String, RenderError> {
        self.render(conversation, false).map(|rendered| rendered.text)
    }
}

/// The error of rendering a conversation, with what may be the cause if some content is in parts.
fn in_parts(conversation: &Conversation, error: RenderError) -> RenderError {
    let is_in_parts = |message: &Json| matches!(message.get("content"), Some(Json::List(_)));
    if !conversation.messages.iter().any(is_in_parts) {
        return error;
    }
    let remedy =
        format!("{}; some contents are in parts here, and many templates take strings alone", error.remedy);
    RenderError { remedy, ..error }
}

/// The white space before what was `said`, behind a prompt for it.
pub(super) fn lead(prompt: &str, answered: &str, said: &str) -> String {
    let before = answered.strip_prefix(prompt).and_then(|rest| Some(rest.split_once(said)?.0));
    before.filter(|before| before.trim().is_empty()).unwrap_or_default().to_owned()
}

/// Turns from the ranges of generation blocks.
fn generated(ranges: &[Range<usize>]) -> Vec<Turn> {
    let filled = ranges.iter().filter(|range| !range.is_empty());
    filled.map(|range| Turn { marker: range.start, ranges: vec![range.clone()] }).collect()
}

/// The contents of messages that are to be found by words around them.
fn contents(conversation: &Conversation, messages: &[usize]) -> Result<Vec<Place>, RenderError> {
    let mut places = Vec::new();
    for message in messages.iter().copied() {
        if let Some(name) = conversation.beside_content(message) {
            return Err(RenderError::new(
                format!(
                    "message {} is learned from and has {name:?}, which cannot be found in this template's text",
                    message + 1
                ),
                "say what stands around each turn of the assistant with chat.turn = { begin = \"...\", end = \"...\" }",
            ));
        }
        let all = conversation.parts(message);
        let texts: Vec<_> =
            all.filter_map(|part| Some((part, conversation.content(message, part)?))).collect();
        // The assistant's turn without any text still has an end.
        let is_blank =
            conversation.about[message].is_assistant() && texts.iter().all(|(_, text)| text.is_empty());
        let told = texts.iter().filter(|(_, text)| !text.is_empty());
        let parts = told.chain(texts.first().filter(|_| is_blank)).map(|(part, _)| *part);
        places.extend(parts.map(|part| Place { message, part }));
    }
    Ok(places)
}

/// The spellings of tokens that are not yet among others.
pub(super) fn tokens(known: Vec<Spelling>, of_template: &[(String, String)]) -> Spellings {
    // The template may write a token that the tokenizer's file does not call an added one, such as Llama's `<s>`.
    let more = of_template.iter().filter(|(name, _)| name.ends_with("_token"));
    Spellings::new(known.into_iter().chain(more.map(|(_, text)| Spelling::new(text))))
}
