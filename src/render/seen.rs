//! What was seen of a source's conversations: for those who learn from roles that do not occur.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::conversation::Conversation;
use super::fields::quoted;
use super::learn;
use crate::config::Learn;

/// After how many conversations a role that `chat.learn` names should have occurred.
const MANY: usize = 1000;

/// The roles of the conversations so far.
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
    /// Whether anything is to be learned from.
    is_wanted: bool,
}

impl Seen {
    pub(super) fn new(key: &str, learn: &Learn) -> Self {
        Self { key: key.to_owned(), learn: learn.clone(), state: Mutex::default() }
    }

    pub(super) fn note(&self, conversation: &Conversation) {
        let is_wanted = !learn::samples(conversation, &self.learn).is_empty();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_wanted |= is_wanted;
        state.conversations += 1;
        for about in &conversation.about {
            if !state.roles.contains(&about.role) {
                state.roles.insert(about.role.clone());
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

    /// Why there is nothing to learn from in all conversations so far, if that is so.
    pub(super) fn unlearned(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_wanted || state.conversations == 0 {
            return None;
        }
        let learn = match &self.learn {
            Learn::All => "all turns of the assistant".to_owned(),
            Learn::Last => "the last turn of the assistant".to_owned(),
            Learn::Roles(roles) => {
                format!("the roles {}", quoted(&roles.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        };
        let roles: Vec<&str> = state.roles.iter().map(String::as_str).collect();
        let key = &self.key;
        Some(format!(
            "{key}.chat.learn names {learn}, and the messages have the roles {}: correct {key}.chat.learn, or say what \
             the roles are with {key}.chat.roles",
            quoted(&roles)
        ))
    }
}
