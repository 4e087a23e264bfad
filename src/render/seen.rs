//! What was seen of a source's records: for those who learn from none of them, or whose template leaves out what
//! somebody says.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::Outcome;
use super::chat::NOTHING;
use super::conversation::Conversation;
use super::fields::quoted;
use crate::config::Learn;
use crate::threads::lock;

/// After how many conversations a role that `chat.learn` names should have occurred.
const MANY: usize = 1000;

/// In how many conversations it is looked whether the template writes what messages say.
const FIRST: usize = 64;

/// By how many bytes at its ends a text is looked for: a template may change what stands between.
const FEW: usize = 16;

/// How Python prints a list of parts.
const LIST: &str = "[{'type': '";

/// The records so far.
#[derive(Debug)]
pub(super) struct Seen {
    /// The key of the source's settings, such as `source.0`.
    key: String,
    learn: Learn,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    conversations: usize,
    roles: BTreeSet<String>,
    /// Whether anything was learned from.
    is_learned: bool,
    /// Why the last record was left out.
    reason: Option<String>,
    /// Whether some content of the last conversation was a list of parts, and whether it was said that the template does
    /// not take such.
    has_parts: bool,
    has_told: bool,
    /// Whether it was said that the template leaves out what a message says.
    has_told_of_silence: bool,
}

impl Seen {
    pub(super) fn new(key: &str, learn: &Learn) -> Self {
        Self { key: key.to_owned(), learn: learn.clone(), state: Mutex::default() }
    }

    pub(super) fn note(&self, conversation: &Conversation) {
        let mut state = lock(&self.state);
        state.conversations += 1;
        state.has_parts = conversation.about.iter().any(|about| !about.parts.is_empty());
        for about in &conversation.about {
            if !state.roles.contains(&*about.role) {
                state.roles.insert(about.role.to_string());
            }
        }
        if let Learn::Roles(named) = &self.learn
            && state.conversations == MANY
        {
            for role in named.iter().filter(|role| !state.roles.contains(*role)) {
                let key = format!("{}.chat.learn", self.key);
                tracing::warn!(key, role, "no message of the first {MANY} conversations has this role");
            }
        }
    }

    /// Tells once if the text of a conversation, of the first ones, has nothing of what somebody says to the model.
    pub(super) fn note_text(&self, conversation: &Conversation, text: &str) {
        let mut state = lock(&self.state);
        if state.conversations > FIRST || state.has_told_of_silence {
            return;
        }
        let is_there = |said: &str| {
            let (start, end) = (said.floor_char_boundary(FEW), said.len().saturating_sub(FEW));
            text.contains(&said[..start]) || text.contains(&said[said.ceil_char_boundary(end)..])
        };
        let is_silent = |message: &usize| {
            let mut said =
                conversation.texts(*message).map(str::trim).filter(|said| !said.is_empty()).peekable();
            said.peek().is_some() && !said.any(is_there)
        };
        let others = conversation
            .about
            .iter()
            .enumerate()
            .filter(|(_, about)| !about.is_assistant() && !about.is_tool());
        if let Some((message, about)) = { others }.find(|(message, _)| is_silent(message)) {
            state.has_told_of_silence = true;
            let (key, role) = (format!("{}.chat.template", self.key), &*about.role);
            let parts =
                if about.parts.is_empty() { "" } else { ", or that takes contents in parts, as this one is" };
            tracing::warn!(
                key,
                role,
                "the template writes nothing of message {} of a conversation, so the model never sees it; if it should, use \
                 a template that knows its role{parts}",
                message + 1
            );
        }
    }

    /// Notes what a record became.
    pub(super) fn note_outcomes(&self, outcomes: &[Outcome]) {
        let mut state = lock(&self.state);
        for outcome in outcomes {
            match outcome {
                Outcome::Text(rendered) => {
                    state.is_learned = true;
                    if state.has_parts && !state.has_told && rendered.text.contains(LIST) {
                        state.has_told = true;
                        let key = format!("{}.chat.template", self.key);
                        tracing::warn!(
                            key,
                            "the template writes a content that is a list of parts as Python prints it ({LIST}…), and the \
                             model learns that; make such contents strings, or use a template that takes parts"
                        );
                    }
                }
                Outcome::LeftOut(_) if state.is_learned => {}
                Outcome::LeftOut(reason) => state.reason = Some(reason.clone()),
            }
        }
    }

    /// Why nothing is learned from in all records so far, if that is so.
    pub(super) fn unlearned(&self) -> Option<String> {
        let state = lock(&self.state);
        let reason = state.reason.as_ref().filter(|_| !state.is_learned)?;
        let mut why = format!("all records are left out, the last one because {reason}");
        if reason == NOTHING && state.conversations > 0 {
            let learn = match &self.learn {
                Learn::All => "all turns of the assistant".to_owned(),
                Learn::Last => "the last turn of the assistant".to_owned(),
                Learn::Roles(roles) => {
                    format!("the roles {}", quoted(&roles.iter().map(String::as_str).collect::<Vec<_>>()))
                }
            };
            let (key, roles): (_, Vec<&str>) = (&self.key, state.roles.iter().map(String::as_str).collect());
            why += &format!(
                "; {key}.chat.learn names {learn}, and the messages have the roles {}: correct {key}.chat.learn, or say \
                 what the roles are with {key}.chat.roles",
                quoted(&roles)
            );
        }
        Some(why)
    }
}
