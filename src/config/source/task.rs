//! What a record is rendered to: plain text, a conversation, a prompt with its completion, or text with a hole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SourceConfig;
use crate::config::SEED;
use crate::config::bounds::{Bound, Bounded, Limit, Number};
use crate::document::Truncate;
use crate::error::{Error, Result};

/// What each record of a source is, and so what becomes its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Task {
    /// Plain text, all of which is learned from.
    #[default]
    Text,
    /// A conversation. The model's chat template renders it, and the assistant's turns are learned from.
    Chat,
    /// A prompt and its completion, as strings or as messages. The completion is learned from.
    Completion,
    /// Plain text, of which a share has its middle moved to its end (fill in the middle).
    Fim,
}

impl Task {
    pub(crate) fn is_text(&self) -> bool {
        *self == Self::Text
    }

    /// Whether all of a record is read, as JSON, and not the text in one of its fields.
    pub fn reads_records(self) -> bool {
        matches!(self, Self::Chat | Self::Completion)
    }
}

impl SourceConfig {
    /// The seed that holes are drawn from.
    pub(crate) fn drawn_seed(&self) -> u64 {
        self.seed.unwrap_or(SEED)
    }
}

/// How conversations, and prompts with their completions, are rendered, and what is learned from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ChatConfig {
    /// The file of the chat template, in Jinja; that of the tokenizer if absent: `chat_template.jinja` or
    /// `tokenizer_config.json` beside `tokenizer.path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// Which of the tokenizer's named templates to use; `tool_use` for conversations with tools, if there is one, and
    /// `default` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_name: Option<String>,
    /// Today's date for templates that ask for it, such as `2026-11-28`. It is part of the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// More variables for the template, such as `enable_thinking = false`. Those of a record's field
    /// `chat_template_kwargs` come first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kwargs: BTreeMap<String, Value>,
    /// Which turns are learned from: `"all"` of the assistant's, its `"last"` one, or those of a list of roles.
    pub learn: Learn,
    /// The text around each turn that is learned from, for a template that does not tell. What stands between is learned
    /// from, and the end too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnConfig>,
    /// Whether a conversation is one text, or one for each of its turns that are learned from.
    pub samples: Samples,
    /// What happens to a conversation that is longer than a row. Packing with `concat` cuts none.
    pub truncate: Truncate,
    /// How the text is encoded where the model begins to write.
    pub border: Border,
    /// Other names for the fields of records and messages: `role = "from"` reads the role from the field `from`. The
    /// names are `role`, `content`, `tools`, `prompt`, `completion`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Other names for roles: `bot = "assistant"`. `human`, `gpt` and `model` are known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, String>,
}

/// The roles that templates know.
pub(crate) const ROLES: [&str; 7] =
    ["system", "developer", "user", "assistant", "tool", "function", "ipython"];

/// What records and messages have fields for.
const FIELDS: [&str; 5] = ["role", "content", "tools", "prompt", "completion"];

impl ChatConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn validate(&self, key: &str) -> Result<()> {
        let wrong = |name: &str, problem: String| Err(Error::config(format!("{key}.{name}"), problem));
        if let Some(date) = self.date.as_ref().filter(|date| day(date).is_none()) {
            return wrong("date", format!("{date:?} is not a date; write it as \"2026-11-28\""));
        }
        match &self.learn {
            Learn::Roles(roles) if roles.is_empty() => {
                let problem = "no role, so nothing would be learned from; name some, such as \"assistant\"";
                return wrong("learn", problem.to_owned());
            }
            Learn::Roles(roles) => {
                let is_known =
                    |role: &str| ROLES.contains(&role) || self.roles.values().any(|other| other == role);
                if let Some(role) = roles.iter().find(|role| !is_known(role)) {
                    let problem = format!(
                        "no message has the role {role:?}; the roles are {}, and what chat.roles makes of others",
                        ROLES.join(", ")
                    );
                    return wrong("learn", problem);
                }
            }
            Learn::All | Learn::Last => {}
        }
        if let Some(TurnConfig { begin, end }) = &self.turn {
            // A line end may end a turn, and stands in too many places to begin one.
            for (name, text) in [("turn.begin", begin.trim()), ("turn.end", end)] {
                if text.is_empty() {
                    return wrong(name, "it is blank; write the text that the template has there".to_owned());
                }
            }
        }
        if let Some(name) = self.fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return wrong("fields", format!("unknown name {name:?}; the names are {}", FIELDS.join(", ")));
        }
        for (table, names) in [("fields", &self.fields), ("roles", &self.roles)] {
            if let Some((name, _)) = names.iter().find(|(_, other)| other.is_empty()) {
                return wrong(table, format!("{name:?} stands for nothing; give it a name, or remove it"));
            }
        }
        Ok(())
    }
}

/// The day that a text such as `2026-11-28` names, if it names one and has nothing else.
pub(crate) fn day(text: &str) -> Option<NaiveDate> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    // Shorter numbers and signs are read too.
    (day.to_string() == text && day.year() > 0).then_some(day)
}

/// Which turns of a conversation are learned from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", expecting = "must be \"all\", \"last\", or a list of roles")]
pub enum Learn {
    /// All of the assistant's.
    #[default]
    All,
    /// Only the assistant's last one.
    Last,
    /// All of these roles.
    #[serde(untagged)]
    Roles(#[cfg_attr(feature = "schema", schemars(length(min = 1)))] Vec<String>),
}

/// What becomes a text of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Samples {
    /// A whole conversation.
    #[default]
    Chat,
    /// Each turn that is learned from, with the conversation before it. For templates that leave out what the model
    /// thought in earlier turns: each turn is learned as the model writes it.
    Turns,
}

/// The text around a turn that is learned from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { begin = \"<|im_start|>assistant\\n\", end = \"<|im_end|>\" }"
)]
pub struct TurnConfig {
    /// What stands before it. It is not learned from.
    pub begin: String,
    /// What ends it. It is learned from.
    pub end: String,
}

/// How the text is encoded where the model begins to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Border {
    /// With the text before it, as one text. An id of both is learned from.
    #[default]
    Overlap,
    /// Apart from the text before it, as a model that writes sees it.
    Split,
}

/// How text with a hole is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = crate::config::bounds::describe::<FimConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct FimConfig {
    /// The share of documents whose middle is moved to their end; the others stay as they are.
    pub rate: f64,
    /// The share of these in which the suffix comes first (SPM); in the others the prefix does (PSM).
    pub spm: f64,
    /// The special token before the prefix.
    pub prefix: String,
    /// The special token before the suffix.
    pub suffix: String,
    /// The special token before the middle.
    pub middle: String,
}

impl Default for FimConfig {
    fn default() -> Self {
        Self {
            rate: 0.5,
            spm: 0.5,
            prefix: "<|fim_prefix|>".to_owned(),
            suffix: "<|fim_suffix|>".to_owned(),
            middle: "<|fim_middle|>".to_owned(),
        }
    }
}

impl FimConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn validate(&self, key: &str) -> Result<()> {
        self.check_bounds(key)?;
        let tokens = [("prefix", &self.prefix), ("suffix", &self.suffix), ("middle", &self.middle)];
        for (nth, (name, token)) in tokens.iter().enumerate() {
            let problem = match tokens[..nth].iter().find(|(_, other)| other == token) {
                _ if token.is_empty() => "it is empty; name a special token of the tokenizer".to_owned(),
                Some((other, _)) => format!("it is {token:?}, as `{other}` is; each has a token of its own"),
                None => continue,
            };
            return Err(Error::config(format!("{key}.{name}"), problem));
        }
        Ok(())
    }
}

impl Bounded for FimConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("rate", Bound::Within(0.0, 1.0), |fim| fim.rate.number()),
        ("spm", Bound::Within(0.0, 1.0), |fim| fim.spm.number()),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_exist_are_dates() {
        for text in ["2026-11-28", "2024-02-29", "2000-02-29", "0001-01-01"] {
            assert_eq!(day(text).expect(text).to_string(), text);
        }
        let wrong = [
            "2026-11-31", "2023-02-29", "1900-02-29", "2026-13-01", "2026-1-01", "2026-11-28-", "+026-11-28",
            "0000-01-01", "28.11.2026", "2026-11", "2026-11-28T10:00:00", "10:00:00", "today", "",
        ];
        for text in wrong {
            assert_eq!(day(text), None, "{text}");
        }
    }
}
