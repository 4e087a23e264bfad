//! A conversation with a model: questions in, answers out as they are made. Holds the conversation, which is rendered anew
//! for each answer.

use std::io::{BufRead, IsTerminal};

use serde_json::json;

use super::write;
use crate::{print_json, print_line, progress};
use millstream::render::ChatTemplate;
use millstream::tokenizer::Tokenizer;
use millstream::{Error, Result};
use millstream_train::model::Gpt;
use millstream_train::{Sampling, generate_after};

pub(super) struct Chat<'a> {
    model: &'a Gpt,
    tokenizer: &'a dyn Tokenizer,
    template: &'a ChatTemplate,
    sampling: Sampling,
    /// What an answer begins with that the template writes, too.
    lead: String,
    /// The role and the content of each message.
    messages: Vec<(&'static str, String)>,
}

impl<'a> Chat<'a> {
    /// A conversation that begins with a message of the system, if there is one. An answer also ends where the template
    /// ends a turn.
    pub(super) fn new(
        model: &'a Gpt,
        tokenizer: &'a dyn Tokenizer,
        template: &'a ChatTemplate,
        mut sampling: Sampling,
        system: Option<&str>,
    ) -> Self {
        sampling.ends.extend(template.ends(tokenizer));
        let messages = system.map(|system| ("system", system.to_owned())).into_iter().collect();
        Self { model, tokenizer, template, sampling, lead: template.lead(), messages }
    }

    /// Answers one question, or each line of standard input.
    pub(super) fn run(mut self, question: Option<&str>, json: bool) -> Result<()> {
        if let Some(question) = question {
            return self.answer(question, json);
        }
        let asks = std::io::stdin().is_terminal() && !json;
        if asks {
            progress::say("Ask something. Ctrl-D ends the conversation.");
        }
        let mut lines = std::io::stdin().lock().lines();
        loop {
            if asks {
                write("> ")?;
            }
            let Some(line) = lines.next() else { return Ok(()) };
            let line = line.map_err(|e| Error::io("standard input", "read", e))?;
            if !line.trim().is_empty() {
                self.answer(&line, json)?;
            }
        }
    }

    /// Prints the model's answer, and keeps question and answer in the conversation.
    fn answer(&mut self, question: &str, json: bool) -> Result<()> {
        self.messages.push(("user", question.to_owned()));
        let messages: Vec<_> =
            self.messages.iter().map(|(role, content)| (*role, content.as_str())).collect();
        let prompt = self.template.prompt(&messages)?.encode(self.tokenizer)?;
        let (ids, seen) = (prompt.len(), self.model.seq_len());
        if ids >= seen {
            progress::say(&format!(
                "the conversation has {ids} ids, and the model sees at most {seen} at once: it sees only the end"
            ));
        }
        let text = generate_after(self.model, self.tokenizer, prompt, &self.sampling, |piece| {
            if json { Ok(()) } else { write(piece) }
        })?;
        match json {
            true => print_json(&json!({ "prompt": question, "text": text }))?,
            false => print_line("")?,
        }
        let said = text.strip_prefix(&*self.lead).unwrap_or(&text);
        self.messages.push(("assistant", said.to_owned()));
        Ok(())
    }
}
