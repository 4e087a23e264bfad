//! A model's chat template for programs that talk with the model: messages in, the ids of a prompt out. Holds the template.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::chat::{lead, tokens};
use super::conversation::{Conversation, message};
use super::json::Json;
use super::spellings::Spellings;
use super::structure::Imitations;
use super::template::{Input, Template};
use super::template_files::TemplateFiles;
use super::{DEFAULT, MOST, RenderError, spellings, with_tokens_of};
use crate::bounded;
use crate::config::{TokenizerConfig, day};
use crate::document::RenderedMarks;
use crate::error::{Error, Result};
use crate::store::local;
use crate::tokenizer::{MarkedText, Tokenizer};

/// What an assistant says to find the end of its turn.
const SAID: &str = "millstream-says-this";

/// A chat template, with the spellings of the special tokens that it may write.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    source: String,
    /// The special tokens, by the names that templates know.
    tokens: Vec<(String, String)>,
    tokenizer: TokenizerConfig,
    /// Today's date, for templates that ask for it.
    date: Option<String>,
    /// What the first rendering makes of these.
    compiled: Arc<OnceLock<Compiled>>,
}

/// A compiled template, and what tells the tokens that it writes from the same letters in somebody's words.
#[derive(Debug)]
struct Compiled {
    template: Template,
    spellings: Spellings,
    imitations: Imitations,
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
    /// The template beside the tokenizer, for conversations without tools; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Config`] if it is damaged.
    pub fn beside(tokenizer: &TokenizerConfig, date: Option<&str>) -> Result<Option<Self>> {
        let Some(path) = tokenizer.path.as_deref() else { return Ok(None) };
        let TemplateFiles { templates, tokens } = TemplateFiles::beside(path)?;
        let default = templates.into_iter().find(|(name, _)| name == DEFAULT);
        Ok(default.map(|(_, source)| Self::new(path, source, tokens, tokenizer, date)))
    }

    /// The template in a file.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Config`] if it is damaged.
    pub fn open(path: &Path, tokenizer: &TokenizerConfig, date: Option<&str>) -> Result<Self> {
        let path = &*local(path)?;
        let bytes = bounded::read(path, MOST).map_err(|e| Error::io(path, "read the chat template", e))?;
        let problem = |_| Error::config(path.display().to_string(), "the chat template is not UTF-8");
        let source = String::from_utf8(bytes).map_err(problem)?;
        let files = tokenizer.path.as_deref().map(TemplateFiles::beside).transpose()?;
        Ok(Self::new(path, source, files.unwrap_or_default().tokens, tokenizer, date))
    }

    fn new(
        path: &Path,
        source: String,
        tokens: Vec<(String, String)>,
        tokenizer: &TokenizerConfig,
        date: Option<&str>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            source,
            tokens: with_tokens_of(tokenizer, tokens),
            tokenizer: tokenizer.clone(),
            date: date.map(str::to_owned),
            compiled: Arc::default(),
        }
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The special tokens that it can write, each with its name, such as `eos_token`.
    pub fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }

    /// The text that the model continues: `messages`, each with its role and content, and the beginning of its answer.
    ///
    /// # Errors
    /// [`Error::Config`] if the template refuses them, or has no words for the beginning of an answer that it begins.
    pub fn prompt(&self, messages: &[(&str, &str)]) -> Result<ChatPrompt> {
        let prompt = self.render(messages, true)?;
        let answered = [messages, &[("assistant", SAID)]].concat();
        // Some templates need no words there: a question ends with those that an answer follows.
        if prompt == self.render(messages, false)?
            && let Ok(answered) = self.render(&answered, false)
            && let Some(rest) = answered.text.strip_prefix(&prompt.text)
            && let Some((begin, _)) = rest.split_once(SAID)
            && !begin.trim().is_empty()
        {
            let what =
                format!("the chat template writes {begin:?} before an answer, and nothing where one begins");
            return Err(
                self.refused(&RenderError::new(what, "write it there too, if add_generation_prompt is set"))
            );
        }
        Ok(prompt)
    }

    /// The white space that the template writes before an answer, and not where one begins: an answer of a model begins with
    /// it. Empty if there is none.
    pub fn lead(&self) -> String {
        let turn = [("user", "hi"), ("assistant", SAID)];
        let [prompt, answered] = [self.render(&turn[..1], true), self.render(&turn, false)];
        let texts = prompt.ok().zip(answered.ok());
        texts.map(|(prompt, answered)| lead(&prompt.text, &answered.text, SAID)).unwrap_or_default()
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

    /// Renders a conversation, with the beginning of the model's answer if `prompts`.
    fn render(&self, messages: &[(&str, &str)], prompts: bool) -> Result<ChatPrompt> {
        let Compiled { template, spellings, imitations } = self.compiled()?;
        let text = |(role, text): &(&str, &str)| message(role, Json::String((*text).to_owned()));
        let conversation = Conversation::of_messages(messages.iter().map(text).collect());
        let text = |conversation: &Conversation| {
            let input = Input {
                messages: &conversation.messages,
                tools: None,
                documents: None,
                kwargs: &[],
                add_generation_prompt: prompts,
            };
            template.render(&input).map(|rendered| rendered.text)
        };
        let rendered = text(&conversation).map_err(|e| self.refused(&e))?;
        let structure = imitations.replaced(&conversation, &rendered, &text).map_err(|e| self.refused(&e))?;
        let special = spellings.find(&structure).map(|(range, _)| range).collect();
        Ok(ChatPrompt { special, text: rendered })
    }

    fn compiled(&self) -> Result<&Compiled> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let date = self.date.as_deref().and_then(day);
        let template = Template::compile(&self.source, &self.tokens, date).map_err(|e| self.refused(&e))?;
        let spellings = tokens(spellings::of_tokenizer(&self.tokenizer)?, &self.tokens);
        let imitations = Imitations::new(spellings.all().iter().cloned(), &[]);
        Ok(self.compiled.get_or_init(|| Compiled { template, spellings, imitations }))
    }

    fn refused(&self, error: &RenderError) -> Error {
        Error::config(self.path.display().to_string(), format!("{}; {}", error.what, error.remedy))
    }
}

impl ChatPrompt {
    /// Its ids, in which only what the template wrote is special.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the tokenizer refuses the text.
    pub fn encode(&self, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
        let is_known = |token: &&Range<usize>| tokenizer.id(&self.text[(*token).clone()]).is_some();
        let special = self.special.iter().filter(is_known).cloned().collect();
        let marks = RenderedMarks { special, ..RenderedMarks::default() };
        let (mut ids, mut runs) = (Vec::new(), Vec::new());
        let encoded = tokenizer.encode_marked(&MarkedText::new(&self.text, &marks, 0), &mut ids, &mut runs);
        encoded.map_err(|problem| Error::tokenizer("of the conversation", problem))?;
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{ByteTokenizer, END_OF_TEXT};

    #[test]
    fn only_what_the_template_wrote_is_special() {
        let text = format!("a{END_OF_TEXT}b{END_OF_TEXT}");
        let end = text.len() - END_OF_TEXT.len()..text.len();
        let prompt = ChatPrompt { special: vec![end], text };
        let ids = prompt.encode(&ByteTokenizer).expect("ids");
        let id = ByteTokenizer.id(END_OF_TEXT).expect("an id");
        assert_eq!(ids.iter().filter(|other| **other == id).count(), 1);
        assert_eq!((ids.last(), ids.len()), (Some(&id), END_OF_TEXT.len() + 3));
    }

    #[test]
    fn the_users_words_are_never_special() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("chat.jinja");
        let source = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}\
                      {% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}";
        std::fs::write(&path, source).expect("written");
        let config = TokenizerConfig::bytes().with_eos(END_OF_TEXT);
        let template = ChatTemplate::open(&path, &config, None).expect("a template");
        let said = [("user", END_OF_TEXT), ("assistant", "yes"), ("user", "and?")];
        let prompt = template.prompt(&said).expect("rendered");
        let expected =
            format!("[user] {END_OF_TEXT}\n[assistant] yes{END_OF_TEXT}\n[user] and?\n[assistant] ");
        assert_eq!(prompt.text, expected);
        let end = expected.rfind(END_OF_TEXT).expect("it is there");
        let end = end..end + END_OF_TEXT.len();
        assert_eq!(prompt.special, [end]);
        assert_eq!(template.ends(&ByteTokenizer), [256]);
    }

    #[test]
    fn a_prompt_begins_the_answer() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("chat.jinja");
        let prompt = |source: &str| {
            std::fs::write(&path, format!("{{% for m in messages %}}{source}")).expect("written");
            let template = ChatTemplate::open(&path, &TokenizerConfig::bytes(), None).expect("a template");
            template.prompt(&[("user", "hi")]).map(|prompt| prompt.text).map_err(|error| error.to_string())
        };
        let roles = "[{{ m.role }}]{{ m.content }}{% endfor %}";
        let error = prompt(roles).expect_err("no beginning");
        assert!(
            error.contains("\"[assistant]\"") && error.ends_with("if add_generation_prompt is set"),
            "{error}"
        );
        let begun = format!("{roles}{{% if add_generation_prompt %}}[assistant]{{% endif %}}");
        assert_eq!(prompt(&begun).as_deref(), Ok("[user]hi[assistant]"));
        let ended = "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}{% endif %}{% endfor %}";
        assert_eq!(prompt(ended).as_deref(), Ok("[INST] hi [/INST]"));
    }
}
