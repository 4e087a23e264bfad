//! A model's chat template for programs that talk with the model: messages in, the ids of a prompt out. Holds the template.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::bounded;
use crate::config::TokenizerConfig;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// The most bytes of a file that has a template.
const BYTES: u64 = 64 << 20;

const TEMPLATE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const SPECIAL_TOKENS: &str = "special_tokens_map.json";

/// The special tokens that templates know by their use.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"];

/// What an assistant says to find the end of its turn.
const SAID: &str = "millstream-says-this";

/// A chat template, with the spellings of the special tokens that it may write.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    source: String,
    tokens: BTreeMap<String, String>,
    /// Today's date, for templates that ask for it.
    date: Option<String>,
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// Its text.
    pub text: String,
    /// The special tokens that the template wrote: each range is the spelling of one. The same spelling elsewhere is
    /// plain text.
    pub special: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// The template beside the tokenizer: `chat_template.jinja`, or that of `tokenizer_config.json`; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Config`] if it is damaged.
    pub fn beside(tokenizer: &TokenizerConfig, date: Option<&str>) -> Result<Option<Self>> {
        let Some(directory) = tokenizer.path.as_deref().and_then(Path::parent) else { return Ok(None) };
        let path = directory.join(TEMPLATE);
        if path.is_file() {
            return Self::open(&path, tokenizer, date).map(Some);
        }
        let path = directory.join(TOKENIZER_CONFIG);
        let config = object(&path)?;
        // Several have names, and `default` is the one for conversations without tools.
        let named = |all: &Vec<Value>| {
            all.iter().find(|one| one["name"] == "default")?["template"].as_str().map(str::to_owned)
        };
        let source = match config.get("chat_template") {
            Some(Value::String(source)) => Some(source.clone()),
            Some(Value::Array(all)) => named(all),
            _ => None,
        };
        source.map(|source| Self::new(path, source, tokenizer, date)).transpose()
    }

    /// The template in a file.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Config`] if it is damaged.
    pub fn open(path: &Path, tokenizer: &TokenizerConfig, date: Option<&str>) -> Result<Self> {
        let bytes = bounded::read(path, BYTES).map_err(|e| Error::io(path, "read the chat template", e))?;
        let problem = |_| Error::config(path.display().to_string(), "the chat template is not UTF-8");
        Self::new(path.to_owned(), String::from_utf8(bytes).map_err(problem)?, tokenizer, date)
    }

    fn new(path: PathBuf, source: String, tokenizer: &TokenizerConfig, date: Option<&str>) -> Result<Self> {
        let mut tokens = BTreeMap::new();
        if let Some(directory) = tokenizer.path.as_deref().and_then(Path::parent) {
            for name in [SPECIAL_TOKENS, TOKENIZER_CONFIG] {
                let file = object(&directory.join(name))?;
                let spelled = |value: &Value| value["content"].as_str().or(value.as_str()).map(str::to_owned);
                let of = |key: &str| Some((key.to_owned(), spelled(file.get(key)?)?));
                tokens.extend(TOKENS.iter().filter_map(|key| of(key)));
            }
        }
        let own =
            [("bos_token", &tokenizer.bos), ("eos_token", &tokenizer.eos), ("pad_token", &tokenizer.pad)];
        tokens.extend(own.into_iter().filter_map(|(key, token)| Some((key.to_owned(), token.clone()?))));
        Ok(Self { path, source, tokens, date: date.map(str::to_owned) })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text that the model continues: `messages`, each with its role and content, and the beginning of its answer.
    ///
    /// # Errors
    /// [`Error::Config`] if the template refuses them.
    pub fn prompt(&self, messages: &[(&str, &str)]) -> Result<ChatPrompt> {
        self.render(messages, true)
    }

    /// The ids that end the assistant's turn: none if the template does not tell.
    pub fn ends(&self, tokenizer: &dyn Tokenizer) -> Vec<u32> {
        let turn = [("user", "hi"), ("assistant", SAID)];
        // In some templates the beginning of the next turn ends the one before.
        let conversations = [&turn[..], &[turn[0], turn[1], turn[0]]];
        let end = |messages: &&[(&str, &str)]| {
            let ChatPrompt { text, special } = self.render(messages, false).ok()?;
            let said = text.rfind(SAID)? + SAID.len();
            let token = special.into_iter().find(|token| token.start >= said)?;
            let is_next = text[said..token.start].trim().is_empty();
            tokenizer.id(&text[token]).filter(|_| is_next)
        };
        conversations.iter().find_map(end).into_iter().collect()
    }

    /// Renders a conversation, with the beginning of the model's answer if `is_prompt`.
    fn render(&self, _messages: &[(&str, &str)], _is_prompt: bool) -> Result<ChatPrompt> {
        let (path, _) = (self.path.display().to_string(), (&self.tokens, &self.date));
        Err(Error::config(path, "this build renders no chat templates"))
    }
}

impl ChatPrompt {
    /// Its ids, in which only what the template wrote is special.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the tokenizer refuses the text.
    pub fn encode(&self, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
        let (mut ids, mut from) = (Vec::new(), 0);
        let refused = |problem| Error::tokenizer("of the conversation", problem);
        let end = self.text.len()..self.text.len();
        for token in self.special.iter().chain([&end]) {
            if from < token.start {
                tokenizer.encode(&self.text[from..token.start], &mut ids).map_err(refused)?;
            }
            if !token.is_empty() {
                match tokenizer.id(&self.text[token.clone()]) {
                    Some(id) => ids.push(id),
                    None => tokenizer.encode(&self.text[token.clone()], &mut ids).map_err(refused)?,
                }
            }
            from = token.end;
        }
        Ok(ids)
    }
}

/// The JSON object in a file; empty if the file is not there.
fn object(path: &Path) -> Result<Map<String, Value>> {
    if !path.is_file() {
        return Ok(Map::new());
    }
    let bytes = bounded::read(path, BYTES).map_err(|e| Error::io(path, "read", e))?;
    let problem = |e| Error::config(path.display().to_string(), format!("this is not a JSON object: {e}"));
    serde_json::from_slice(&bytes).map_err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{ByteTokenizer, END_OF_TEXT};

    #[test]
    fn only_what_the_template_wrote_is_special() {
        let text = format!("a{END_OF_TEXT}b{END_OF_TEXT}");
        let prompt = ChatPrompt { special: vec![text.len() - END_OF_TEXT.len()..text.len()], text };
        let ids = prompt.encode(&ByteTokenizer).expect("ids");
        let end = ByteTokenizer.id(END_OF_TEXT).expect("an id");
        assert_eq!(ids.iter().filter(|id| **id == end).count(), 1);
        assert_eq!((ids.last(), ids.len()), (Some(&end), END_OF_TEXT.len() + 3));
    }

    #[test]
    fn a_template_is_found_beside_the_tokenizer_with_the_tokens_that_it_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = TokenizerConfig::file(directory.path().join("tokenizer.json")).with_eos("</s>");
        let find = || ChatTemplate::beside(&config, None).expect("read");
        assert!(find().is_none());
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("written");
        let tokens = r#"{"bos_token": {"content": "<s>"}, "eos_token": "<end>", "chat_template": "one"}"#;
        write(TOKENIZER_CONFIG, tokens);
        let found = find().expect("a template");
        assert_eq!(found.source(), "one");
        let spelled = |key: &str| found.tokens.get(key).map(String::as_str);
        assert_eq!([spelled("bos_token"), spelled("eos_token")], [Some("<s>"), Some("</s>")]);
        let named = r#"{"chat_template": [{"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]}"#;
        write(TOKENIZER_CONFIG, named);
        assert_eq!(find().expect("a template").source(), "three");
        write(TEMPLATE, "four");
        assert_eq!(find().expect("a template").source(), "four");
    }
}
