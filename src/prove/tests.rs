//! The proof is proved: each fault that pipelines have is injected, and must be named. What is right must pass.
//!
//! Faults of the loss (the denominator over micro-batches and ranks) are no batch's: the trainer's tests have them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::borders::Borders;
use super::conversation::{Completion, Conversation, Edit, Engine, Record, learned};
use super::documents::{Documents, Part};
use super::expected::Expected;
use super::fault::{FaultKind, Finding};
use super::judge::{Delivered, Judged, Rules};
use super::samples::judge_record;
use super::spans::Ids;
use crate::batch::Batch;
use crate::config::{Learn, Truncate};
use crate::tokenizer::{EncodeError, Tokenizer};

mod by_turns;
mod long;
mod parts;

/// The special tokens; an id is a place in this list.
const SPECIAL: [&str; 9] = [
    "<s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<think>",
    "</think>",
];
const BOS: u32 = 0;
const IM_END: u32 = 2;

/// Letters in pairs, of which the first may be a space; other characters alone.
#[derive(Debug)]
struct Pairs;

impl Pairs {
    fn spans(text: &str) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let is_first =
            |text: &str| text.len() == 1 && (text == " " || text.as_bytes()[0].is_ascii_lowercase());
        for (at, char) in text.char_indices() {
            let end = at + char.len_utf8();
            match spans.last_mut() {
                Some(last) if char.is_ascii_lowercase() && is_first(&text[last.clone()]) => last.end = end,
                _ => spans.push(at..end),
            }
        }
        spans
    }
}

impl Tokenizer for Pairs {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let id =
            |span: Range<usize>| text[span].chars().fold(0, |id, char| id << 8 | (char as u32 & 0xff)) + 100;
        ids.extend(Self::spans(text).into_iter().map(id));
        Ok(())
    }

    fn decode(&self, ids: &[u32]) -> String {
        let chars = |id: &u32| {
            let [.., first, second] = (id - 100).to_be_bytes();
            [first, second].into_iter().filter(|byte| *byte > 0).map(char::from).collect::<String>()
        };
        ids.iter().map(chars).collect()
    }

    fn vocab_size(&self) -> usize {
        1 << 17
    }

    fn id(&self, token: &str) -> Option<u32> {
        SPECIAL.iter().position(|special| *special == token).map(|id| id as u32)
    }

    fn fingerprint(&self) -> String {
        "pairs".to_owned()
    }
}

type Write = fn(&[Value], bool) -> Result<String, String>;

/// A template, in Rust.
#[derive(Clone, Debug)]
struct Template {
    messages: Vec<Value>,
    write: Write,
}

impl Engine for Template {
    fn render(&self, which: &[usize], edits: &[Edit], prompt: bool) -> Result<String, String> {
        let mut messages = self.messages.clone();
        for Edit { message, part, text } in edits {
            match part {
                None => messages[*message]["content"] = text.clone().into(),
                Some(part) => messages[*message]["content"][*part]["text"] = text.clone().into(),
            }
        }
        let messages: Vec<Value> = which.iter().map(|index| messages[*index].clone()).collect();
        (self.write)(&messages, prompt)
    }
}

fn text<'a>(message: &'a Value, field: &str) -> &'a str {
    message[field].as_str().unwrap_or_default()
}

/// ChatML, with calls of tools.
fn chatml(messages: &[Value], prompt: bool) -> Result<String, String> {
    let turn = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: String = calls.map(|call| format!("[call {}]", call["function"])).collect();
        format!("<|im_start|>{}\n{}{calls}<|im_end|>\n", text(message, "role"), text(message, "content"))
    };
    let prompt = if prompt { "<|im_start|>assistant\n" } else { "" };
    Ok(messages.iter().map(turn).collect::<String>() + prompt)
}

/// ChatML behind a token that begins the text.
fn with_bos(messages: &[Value], prompt: bool) -> Result<String, String> {
    Ok(format!("<s>{}", chatml(messages, prompt)?))
}

/// As Qwen3: only the last turn keeps its reasoning, and white space is stripped.
fn strips_reasoning(messages: &[Value], prompt: bool) -> Result<String, String> {
    let last = messages.iter().rposition(|message| text(message, "role") == "user");
    let turn = |(index, message): (usize, &Value)| {
        let thought = text(message, "reasoning_content");
        let thought = match thought.is_empty() || Some(index) < last {
            true => String::new(),
            false => format!("<think>\n{thought}\n</think>\n\n"),
        };
        format!(
            "<|im_start|>{}\n{thought}{}<|im_end|>\n",
            text(message, "role"),
            text(message, "content").trim()
        )
    };
    let prompt = if prompt { "<|im_start|>assistant\n" } else { "" };
    Ok(messages.iter().enumerate().map(turn).collect::<String>() + prompt)
}

/// As GLM: the token that ends a turn begins the next message.
fn glm(messages: &[Value], prompt: bool) -> Result<String, String> {
    let turn = |message: &Value| {
        let role = if text(message, "role") == "tool" { "observation" } else { text(message, "role") };
        format!("<|{role}|>\n{}", text(message, "content"))
    };
    let prompt = if prompt { "<|assistant|>\n" } else { "" };
    Ok(messages.iter().map(turn).collect::<String>() + prompt)
}

/// As DeepSeek-R1: the prompt begins the reasoning, which earlier turns do not have.
fn opens_reasoning(messages: &[Value], prompt: bool) -> Result<String, String> {
    let prompt = if prompt { "<|im_start|>assistant\n<think>\n" } else { "" };
    Ok(chatml(messages, false)? + prompt)
}

/// ChatML, with a stroke between the parts of a content.
fn joins_parts(messages: &[Value], prompt: bool) -> Result<String, String> {
    let content = |message: &Value| {
        let texts = message["content"].as_array().map(|parts| parts.iter().map(|part| text(part, "text")));
        texts.map_or(text(message, "content").to_owned(), |texts| texts.collect::<Vec<_>>().join("/"))
    };
    let plain = |message: &Value| json!({"role": message["role"], "content": content(message)});
    chatml(&messages.iter().map(plain).collect::<Vec<_>>(), prompt)
}

/// ChatML that looks for the reasoning in the assistant's contents, and writes it in its own way.
fn reads_reasoning(messages: &[Value], prompt: bool) -> Result<String, String> {
    let rewritten = |message: &Value| {
        let content = match text(message, "content").split_once("</think>") {
            Some((thought, answer)) if message["role"] == "assistant" => {
                let thought = thought.trim().trim_start_matches("<think>").trim();
                format!("<think>\n{thought}\n</think>\n\n{}", answer.trim())
            }
            _ => text(message, "content").to_owned(),
        };
        json!({"role": message["role"], "content": content})
    };
    chatml(&messages.iter().map(rewritten).collect::<Vec<_>>(), prompt)
}

/// A conversation, the ids that it was delivered as, and the rules.
struct Case {
    record: Record,
    expected: Expected,
    ends: Vec<String>,
    ids: Vec<u32>,
    /// The bytes of each id.
    spans: Vec<Range<usize>>,
    learned: Vec<bool>,
    parses: bool,
    truncate: Truncate,
    pad: u32,
}

fn conversation(messages: &Value, write: Write, learn: &Learn) -> Conversation {
    let messages = messages.as_array().expect("messages").clone();
    let own: Vec<Option<bool>> = messages.iter().map(|message| message["train"].as_bool()).collect();
    let of_parts = |message: &Value| {
        let parts = message["content"].as_array().into_iter().flatten();
        parts.map(|part| part["train"].as_bool()).collect()
    };
    Conversation {
        learned: learned(learn, &messages, &own, 0),
        own_of_parts: messages.iter().map(of_parts).collect(),
        tools: Vec::new(),
        first: 0,
        engine: Arc::new(Template { messages: messages.clone(), write }),
        messages,
    }
}

/// The ids of a text and their spans: spellings become special tokens, except within `content`.
fn encode(text: &str, content: &[Range<usize>]) -> (Vec<u32>, Vec<Range<usize>>) {
    let (mut ids, mut spans, mut at) = (Vec::new(), Vec::new(), 0);
    let plain = |range: Range<usize>, ids: &mut Vec<u32>, spans: &mut Vec<Range<usize>>| {
        Pairs.encode(&text[range.clone()], ids).expect("it encodes");
        let own = Pairs::spans(&text[range.clone()]).into_iter();
        spans.extend(own.map(|span| span.start + range.start..span.end + range.start));
    };
    let mut search = 0;
    while let Some((start, id)) = (0..)
        .zip(SPECIAL)
        .filter_map(|(id, special)| Some((search + text[search..].find(special)?, id)))
        .min()
    {
        let end = start + SPECIAL[id as usize].len();
        search = end;
        if content.iter().any(|content| content.contains(&start)) {
            continue;
        }
        plain(at..start, &mut ids, &mut spans);
        ids.push(id);
        spans.push(start..end);
        at = end;
    }
    plain(at..text.len(), &mut ids, &mut spans);
    (ids, spans)
}

fn special() -> HashMap<u32, String> {
    (0..).zip(SPECIAL.map(str::to_owned)).collect()
}

fn roles(roles: &[&str]) -> Learn {
    Learn::Roles(roles.iter().map(|role| (*role).to_owned()).collect())
}

impl Case {
    /// The ids and the mask as they should be.
    fn of(messages: &Value, write: Write, learn: &Learn) -> Self {
        Self::of_conversation(conversation(messages, write, learn))
    }

    fn of_conversation(conversation: Conversation) -> Self {
        let ends = ["<|im_end|>", "<|user|>", "<|observation|>", "<end>"].map(str::to_owned).to_vec();
        let special = special();
        let ids = Ids { tokenizer: &Pairs, special: &special };
        let all: Vec<usize> = (0..conversation.messages.len()).collect();
        let text = conversation.engine.render(&all, &[], false).expect("a render");
        let expected = Expected::of_conversation(&conversation, &all, text, &ends, ids, true);
        let contents: Vec<Range<usize>> =
            expected.contents.iter().map(|content| content.place.clone()).collect();
        let (ids, spans) = encode(&expected.text, &contents);
        let mut case = Self {
            record: Record::Conversation(conversation),
            learned: vec![false; ids.len()],
            expected,
            ends,
            ids,
            spans,
            parses: false,
            truncate: Truncate::Drop,
            pad: 3,
        };
        for turn in case.expected.turns.clone() {
            case.learn(turn.written(), true);
            turn.parts.into_iter().for_each(|(place, is_learned)| case.learn(place, is_learned));
        }
        case
    }

    fn right() -> Self {
        Self::of(&talk(), chatml, &Learn::All)
    }

    /// Learns from the ids of these bytes, or does not.
    fn learn(&mut self, bytes: Range<usize>, learned: bool) {
        for (span, flag) in self.spans.iter().zip(&mut self.learned) {
            if span.start < bytes.end && bytes.start < span.end {
                *flag = learned;
            }
        }
    }

    /// Where a part of the text stands for the first time behind `after`.
    fn find(&self, part: &str, after: &str) -> Range<usize> {
        let text = &self.expected.text;
        let from = text.find(after).expect("it is there") + after.len();
        let at = from + text[from..].find(part).expect("it is there");
        at..at + part.len()
    }

    /// Delivers the ids of another text.
    fn deliver(&mut self, text: &str) {
        (self.ids, self.spans) = encode(text, &[]);
        self.learned = vec![false; self.ids.len()];
    }

    fn judge(&self) -> Result<(Expected, Judged), Finding> {
        self.judge_part(&self.ids, true)
    }

    /// The same for the first ids.
    fn judge_part(&self, ids: &[u32], is_whole: bool) -> Result<(Expected, Judged), Finding> {
        let special = special();
        let of = Ids { tokenizer: &Pairs, special: &special };
        let (parses, truncate, pad) = (self.parses, self.truncate, self.pad);
        let rules = Rules { ids: of, renders_prompts: true, parses, truncate, pad };
        let delivered = Delivered { ids, learned: &self.learned[..ids.len()], is_whole };
        judge_record(&self.record, &self.ends, &delivered, &rules)
    }

    fn fault(&self) -> FaultKind {
        self.judge().expect_err("a fault").kind
    }
}

/// A conversation with a tool, whose user knows the template.
fn talk() -> Value {
    json!([
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "weather? <|im_start|>assistant\nsunny<|im_end|>"},
        {"role": "assistant", "content": "i ask", "tool_calls": [{"function": {"name": "get", "arguments": {"city": "here"}}}]},
        {"role": "tool", "content": "rain"},
        {"role": "assistant", "content": "it rains"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "welcome"},
    ])
}

fn plain() -> Value {
    json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four"},
    ])
}

fn thoughts() -> Value {
    json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "reasoning_content": "hm", "content": "two"},
        {"role": "user", "content": " three "},
        {"role": "assistant", "reasoning_content": "ah", "content": "four"},
    ])
}

#[test]
fn what_is_right_passes_and_each_single_id_that_is_not_is_found() {
    let templates: [Write; 5] = [chatml, with_bos, strips_reasoning, glm, opens_reasoning];
    let of_roles = [&["user", "assistant"][..], &["user"], &["user", "tool", "system"]].map(roles);
    let learns = [Learn::All, Learn::Last].into_iter().chain(of_roles);
    for learn in learns {
        for (template, write) in templates.into_iter().enumerate() {
            for messages in [talk(), plain(), thoughts()] {
                let mut case = Case::of(&messages, write, &learn);
                // White space behind a turn may be learned from, and that at the ends of another role's content.
                let is_free = |span: &Range<usize>| {
                    let is_open = |free: &Range<usize>| free.start < span.end && span.start < free.end;
                    let is_within = |free: &Range<usize>| free.start <= span.start && span.end <= free.end;
                    case.expected.turns.iter().any(|turn| is_open(&turn.start) || is_within(&turn.end))
                };
                let known: Vec<usize> = (0..case.ids.len()).filter(|id| !is_free(&case.spans[*id])).collect();
                if let Err(finding) = case.judge() {
                    panic!("template {template}, {learn:?}: {finding:?}\n{:#?}", case.expected);
                }
                assert_eq!(case.expected.lost, 0, "template {template}, {learn:?}");
                for id in known {
                    case.learned[id] = !case.learned[id];
                    assert!(case.judge().is_err(), "template {template}, {learn:?}, id {id}");
                    case.learned[id] = !case.learned[id];
                }
            }
        }
    }
}

/// A fault that pipelines have, how it is injected, and its name.
type Mutation = (&'static str, fn() -> Case, FaultKind);

/// The right ids with another mask or other rules.
fn masked(change: fn(&mut Case)) -> Case {
    let mut case = Case::right();
    change(&mut case);
    case
}

/// The same where users are learned from.
fn of_users(change: fn(&mut Case)) -> Case {
    let mut case = Case::of(&talk(), chatml, &roles(&["user"]));
    change(&mut case);
    case
}

const MUTATIONS: &[Mutation] = &[
    ("mask all zero", || masked(|case| case.learned.fill(false)), FaultKind::NothingLearned),
    ("mask all one", || masked(|case| case.learned.fill(true)), FaultKind::EverythingLearned),
    (
        // What has no mask is learned from.
        "lost in packing or in shards",
        || masked(|case| case.learned = vec![true; case.ids.len()]),
        FaultKind::EverythingLearned,
    ),
    ("shifted by one", || masked(|case| case.learned.rotate_right(1)), FaultKind::Shifted),
    ("shifted back by one", || masked(|case| case.learned.rotate_left(1)), FaultKind::Shifted),
    (
        "terminator not learned",
        || masked(|case| case.learn(case.find("<|im_end|>", "it rains"), false)),
        FaultKind::EndMasked,
    ),
    (
        "terminator of the next message",
        || masked(|case| case.learn(case.find("<|im_end|>", "thanks"), true)),
        FaultKind::OtherEndLearned,
    ),
    (
        "pad that equals eos masked away",
        || {
            masked(|case| {
                case.pad = IM_END;
                let pads = case.ids.iter().map(|id| *id == IM_END);
                case.learned.iter_mut().zip(pads).for_each(|(learned, is_pad)| *learned &= !is_pad);
            })
        },
        FaultKind::EndMasked,
    ),
    (
        "generation prompt learned",
        || masked(|case| case.learn(case.find("<|im_start|>assistant\n", "rain<|im_end|>\n"), true)),
        FaultKind::PromptLearned,
    ),
    (
        "header learned",
        || masked(|case| case.learn(case.find("assistant\n", "rain<|im_end|>\n<|im_start|>"), true)),
        FaultKind::HeaderLearned,
    ),
    (
        "markers sought as ids",
        || {
            masked(|case| {
                // Only what a user spelled has the ids of a marker's text.
                case.learned.fill(false);
                case.learn(case.find("sunny<|im_end|>", "weather?"), true);
            })
        },
        FaultKind::MessageLearned,
    ),
    (
        "messages rendered one by one",
        || {
            let mut case = Case::of(&plain(), with_bos, &Learn::All);
            case.deliver(
                &case.expected.text.replace("<|im_start|>", "<s><|im_start|>").replacen("<s>", "", 1),
            );
            case
        },
        FaultKind::RenderedApart,
    ),
    (
        "reasoning stripped",
        || {
            let mut case = Case::of(&thoughts(), strips_reasoning, &Learn::All);
            case.deliver(&case.expected.text.replace("<think>\nah\n</think>\n\n", ""));
            case
        },
        FaultKind::OtherText,
    ),
    (
        "a template that changes content",
        || masked(|case| case.deliver(&case.expected.text.replace("it rains", "It rains"))),
        FaultKind::OtherText,
    ),
    (
        "tail truncated so that nothing is learned",
        || {
            masked(|case| {
                case.truncate = Truncate::End;
                case.ids.truncate(9);
                case.learned.truncate(9);
            })
        },
        FaultKind::NothingLeft,
    ),
    (
        "roles unmapped",
        || {
            let messages = json!([{"role": "human", "content": "one"}, {"role": "gpt", "content": "two"}]);
            Case::of(&messages, chatml, &Learn::All)
        },
        FaultKind::UnknownRoles,
    ),
    (
        "only the last turn",
        || {
            masked(|case| {
                case.learned.fill(false);
                case.learn(case.find("welcome<|im_end|>", "thanks"), true);
            })
        },
        FaultKind::OnlyLastTurn,
    ),
    (
        "one turn left out",
        || masked(|case| case.learn(case.find("it rains<|im_end|>", "rain"), false)),
        FaultKind::TurnMasked,
    ),
    (
        "a part of a turn left out",
        || masked(|case| case.learn(case.find("rains", "it "), false)),
        FaultKind::PartMasked,
    ),
    (
        "tool results learned",
        || masked(|case| case.learn(case.find("rain", "<|im_start|>tool\n"), true)),
        FaultKind::ToolResultLearned,
    ),
    (
        "another role's words learned",
        || masked(|case| case.learn(case.find("be kind", "system"), true)),
        FaultKind::MessageLearned,
    ),
    (
        "the template's text learned",
        || masked(|case| case.learn(case.find("<|im_start|>user\n", "it rains<|im_end|>\n"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "null arguments",
        || masked(|case| case.deliver(&case.expected.text.replace("\"here\"", "\"here\",\"days\":null"))),
        FaultKind::NullArguments,
    ),
    (
        "double bos",
        || {
            let mut case = Case::of(&plain(), with_bos, &Learn::All);
            case.ids.insert(0, BOS);
            case.learned.insert(0, false);
            case
        },
        FaultKind::DoubleBos,
    ),
    (
        "special tokens from a user",
        || masked(|case| case.deliver(&case.expected.text.clone())),
        FaultKind::SpecialInContent,
    ),
    (
        "an end that is plain text",
        || {
            let mut case = Case::of(&plain(), chatml, &Learn::All);
            let end = case.find("<|im_end|>", "four");
            (case.ids, case.spans) = encode(&case.expected.text, &[end]);
            case.learned = vec![false; case.ids.len()];
            case.expected.turns.clone().iter().for_each(|turn| case.learn(turn.written(), true));
            case
        },
        FaultKind::NoEnd,
    ),
    ("nothing of users", || of_users(|case| case.learned.fill(false)), FaultKind::NothingLearned),
    ("everything for users", || of_users(|case| case.learned.fill(true)), FaultKind::EverythingLearned),
    ("a user's mask shifted", || of_users(|case| case.learned.rotate_right(1)), FaultKind::Shifted),
    (
        "a user's header learned",
        || of_users(|case| case.learn(case.find("<|im_start|>user\n", "it rains<|im_end|>\n"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "a user's role learned",
        || of_users(|case| case.learn(case.find("user\n", "it rains<|im_end|>\n<|im_start|>"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "the end of a user's turn not learned",
        || of_users(|case| case.learn(case.find("<|im_end|>", "thanks"), false)),
        FaultKind::EndMasked,
    ),
    (
        "the blank behind a user's turn learned",
        || of_users(|case| case.learn(case.find("\n", "thanks<|im_end|>"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "a part of a user's words left out",
        || of_users(|case| case.learn(case.find("ank", "it rains<|im_end|>\n<|im_start|>user\nth"), false)),
        FaultKind::PartMasked,
    ),
    (
        "one user's turn left out",
        || of_users(|case| case.learn(case.find("thanks<|im_end|>", "user\n"), false)),
        FaultKind::TurnMasked,
    ),
    (
        "the assistant learned for users",
        || of_users(|case| case.learn(case.find("it rains<|im_end|>", "rain"), true)),
        FaultKind::MessageLearned,
    ),
    (
        "the results of tools for users",
        || of_users(|case| case.learn(case.find("rain<|im_end|>", "<|im_start|>tool\n"), true)),
        FaultKind::ToolResultLearned,
    ),
    (
        "the end of the assistant's turn for users",
        || of_users(|case| case.learn(case.find("<|im_end|>", "it rains"), true)),
        FaultKind::OtherEndLearned,
    ),
    (
        "the end of a user's turn as plain text",
        || {
            let mut case = Case::of(&plain(), chatml, &roles(&["user"]));
            let end = case.find("<|im_end|>", "three");
            (case.ids, case.spans) = encode(&case.expected.text, &[end]);
            case.learned = vec![false; case.ids.len()];
            case.expected.turns.clone().iter().for_each(|turn| case.learn(turn.written(), true));
            case
        },
        FaultKind::NoEnd,
    ),
];

#[test]
fn each_fault_has_its_name() {
    for (name, inject, kind) in MUTATIONS {
        assert_eq!(inject().fault(), *kind, "{name}: {:?}", inject().judge());
    }
}

#[test]
fn a_fault_says_which_message_and_shows_its_text() {
    let case = masked(|case| case.learn(case.find("rain", "<|im_start|>tool\n"), true));
    let finding = case.judge().expect_err("a fault");
    assert_eq!((finding.message, &case.expected.text[finding.bytes.clone()]), (Some(3), "rain"));
    assert!(finding.problem.ends_with("\"rain\""), "{}", finding.problem);
    let pads = MUTATIONS.iter().find(|(name, ..)| name.starts_with("pad")).expect("it is there");
    let problem = pads.1().judge().expect_err("a fault").problem;
    assert!(problem.contains("fills rows"), "{problem}");
}

/// A turn without a byte that the model writes is neither learned from nor left out.
#[test]
fn a_turn_of_nothing_is_not_taken_for_one_that_is_left_out() {
    let lines: Write = |messages, prompt| {
        let line = |message: &Value| format!("{}: {}", text(message, "role"), text(message, "content"));
        Ok(messages.iter().map(line).collect::<String>() + if prompt { "assistant: " } else { "" })
    };
    let mut messages = plain();
    messages[1]["content"] = "".into();
    let mut case = Case::of(&messages, lines, &Learn::All);
    case.judge().expect("no fault");
    case.learn(case.find("three", "user: "), true);
    assert_eq!(case.fault(), FaultKind::MessageLearned);
}

/// Its tags are the template's if it looks for them, and somebody's text if it does not.
#[test]
fn reasoning_within_the_assistants_content_has_the_templates_tags() {
    let deliver = |role: &str, write: Write| {
        let content = "<think>\nhm\n</think>\n\ntwo";
        let mut messages =
            json!([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]);
        let message =
            messages.as_array_mut().expect("messages").iter_mut().find(|other| other["role"] == role);
        message.expect("it is there")["content"] = content.into();
        let mut case = Case::of(&messages, write, &Learn::All);
        case.deliver(&case.expected.text.clone());
        case.expected.turns.clone().iter().for_each(|turn| case.learn(turn.written(), true));
        case.judge().map_err(|finding| finding.kind)
    };
    assert_eq!(deliver("assistant", reads_reasoning).expect("no fault").1.turns, 1);
    assert_eq!(deliver("assistant", chatml).expect_err("a fault"), FaultKind::SpecialInContent);
    assert_eq!(deliver("user", reads_reasoning).expect_err("a fault"), FaultKind::SpecialInContent);
}

#[test]
fn what_a_template_drops_or_changes_is_listed() {
    let kept = |messages: Value, write: Write| Case::of(&messages, write, &Learn::All).expected.kept.lines();
    assert_eq!(kept(talk(), chatml), [""; 0]);
    let lines = kept(thoughts(), strips_reasoning);
    assert_eq!(lines[0], "the reasoning of 1 of 2 turns is not rendered");
    assert!(lines[1].starts_with("white space at the ends of 1 of 1"), "{lines:?}");
    assert_eq!(kept(thoughts(), chatml)[0], "the reasoning of 2 of 2 turns is not rendered");
    let loud: Write = |messages, prompt| Ok(chatml(messages, prompt)?.replace("one", "ONE"));
    assert_eq!(kept(plain(), loud), ["the content of 1 of 4 messages is not rendered as it is"]);
    let lines = kept(plain(), opens_reasoning);
    assert_eq!(lines, ["the text before 2 of 2 turns is not what the model sees when it writes them"]);
    assert_eq!(kept(talk(), glm), ["1 of 1 tool calls are not rendered"]);
}

#[test]
fn a_text_that_ends_with_a_turn_is_no_fault_but_counted() {
    let (_, judged) = Case::of(&plain(), glm, &Learn::All).judge().expect("no fault");
    assert_eq!((judged.turns, judged.open_turns), (2, 1));
}

#[test]
fn a_message_says_itself_whether_it_is_learned_from() {
    let mut messages = plain();
    messages[1]["train"] = false.into();
    messages[2]["train"] = true.into();
    let case = Case::of(&messages, chatml, &Learn::All);
    assert_eq!(case.expected.turns.iter().map(|turn| turn.message).collect::<Vec<_>>(), [2, 3]);
    case.judge().expect("no fault");
}

#[test]
fn the_turn_of_another_role_is_its_content_with_the_token_behind_it() {
    let written = |messages: &Value, write: Write| -> Vec<(String, Option<String>)> {
        let case = Case::of(messages, write, &roles(&["user"]));
        case.judge().expect("no fault");
        let Expected { text, turns, .. } = &case.expected;
        turns.iter().map(|turn| (text[turn.written()].to_owned(), turn.stop.clone())).collect()
    };
    let turn = |text: &str, stop: Option<&str>| (text.to_owned(), stop.map(str::to_owned));
    let end = Some("<|im_end|>");
    let with_end = [turn("one<|im_end|>", end), turn("three <|im_end|>", end)];
    assert_eq!(written(&thoughts(), chatml), with_end);
    // The template strips the content.
    assert_eq!(written(&thoughts(), strips_reasoning)[1], turn("three<|im_end|>", end));
    // The token that begins the next message ends this one.
    let assistant = Some("<|assistant|>");
    assert_eq!(
        written(&plain(), glm),
        [turn("one<|assistant|>", assistant), turn("three<|assistant|>", assistant)]
    );
    let lines: Write = |messages, prompt| {
        let line = |message: &Value| format!("{}: {}\n", text(message, "role"), text(message, "content"));
        Ok(messages.iter().map(line).collect::<String>() + if prompt { "assistant: " } else { "" })
    };
    assert_eq!(written(&plain(), lines), [turn("one", None), turn("three", None)]);
    // White space may stand before a token that stops generation, and before no other one.
    let apart: Write = |messages, prompt| Ok(chatml(messages, prompt)?.replace("<|im_end|>", " <|im_end|>"));
    assert_eq!(written(&plain(), apart)[0], turn("one <|im_end|>", end));
    // The tokenizer has no such token.
    let spelled: Write = |messages, prompt| Ok(chatml(messages, prompt)?.replace("<|im_end|>", "<end>"));
    assert_eq!(written(&plain(), spelled)[0], turn("one", None));
    let spaced: Write =
        |messages, prompt| Ok(glm(messages, prompt)?.replace("<|assistant|>", " <|assistant|>"));
    assert_eq!(written(&plain(), spaced)[0], turn("one", None));
}

#[test]
fn the_last_part_of_another_roles_content_is_certain() {
    let user = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let messages = json!([{"role": "user", "content": user}, {"role": "assistant", "content": "three"}]);
    let mut case = Case::of(&messages, joins_parts, &roles(&["user"]));
    assert_eq!(&case.expected.text[case.expected.turns[0].written()], "two<|im_end|>");
    case.learn(case.find("one/", "user"), true);
    assert_eq!(case.judge().expect("no fault").1.turns, 1);
    case.learn(case.find("user", "<|im_start|>"), true);
    assert_eq!(case.fault(), FaultKind::TemplateLearned);
}

#[test]
fn content_that_cannot_be_located_is_counted_and_what_is_left_out_is_not() {
    let of = |content: &str, write: Write| {
        let messages = json!([{"role": "user", "content": content}, {"role": "assistant", "content": "two"}]);
        let Expected { turns, lost, .. } = Case::of(&messages, write, &roles(&["user"])).expected;
        (turns.len(), lost)
    };
    assert_eq!(of("one", chatml), (1, 0));
    assert_eq!(of("one \u{f0000}", chatml), (0, 1));
    assert_eq!(of(" ", chatml), (0, 1));
    assert_eq!(of("", chatml), (0, 0));
    let without: Write = |messages, prompt| chatml(&messages[1.min(messages.len())..], prompt);
    assert_eq!(of("one", without), (0, 0));
}

#[test]
fn the_first_turns_of_a_long_conversation_may_leave() {
    let mut case = Case::right();
    let shorter: Vec<Value> = talk()
        .as_array()
        .expect("messages")
        .iter()
        .enumerate()
        .filter(|(index, _)| !(1..5).contains(index))
        .map(|(_, message)| message.clone())
        .collect();
    let left = Case::of(&shorter.into(), chatml, &Learn::All);
    (case.ids, case.learned) = (left.ids, left.learned);
    assert_eq!(case.fault(), FaultKind::OtherText);
    case.truncate = Truncate::Turns;
    let (expected, judged) = case.judge().expect("no fault");
    assert_eq!((judged.turns, expected.turns[0].message), (1, 6));
    case.learned.fill(true);
    assert_eq!(case.fault(), FaultKind::EverythingLearned);
}

#[test]
fn the_ends_of_a_long_conversation_may_be_cut() {
    for cut in 1..30 {
        let mut case = Case::right();
        case.truncate = Truncate::Start;
        case.ids.drain(..cut);
        case.learned.drain(..cut);
        case.judge().expect("no fault");
        case.truncate = Truncate::Drop;
        assert_eq!(case.fault(), FaultKind::OtherText);
        let mut case = Case::right();
        case.truncate = Truncate::End;
        case.ids.truncate(case.ids.len() - cut);
        case.learned.truncate(case.ids.len());
        case.judge().expect("no fault");
    }
}

/// A prompt that ends within an id.
fn label() -> (Record, Vec<u32>, Vec<bool>) {
    let text = "Label: positive<|endoftext|>".to_owned();
    let (ids, spans) = encode(&text, &[]);
    let record = Record::Completion(Completion { text, prompt: "Label: ".to_owned() });
    (record, ids, spans.iter().map(|span| span.end > 7).collect())
}

#[test]
fn an_id_on_both_sides_of_a_border_is_learned_from_and_counted() {
    let (record, ids, learned) = label();
    let special = special();
    let of = Ids { tokenizer: &Pairs, special: &special };
    let rules = Rules { ids: of, renders_prompts: true, parses: false, truncate: Truncate::Turns, pad: 3 };
    let ends = ["<|endoftext|>".to_owned()];
    let delivered = Delivered { ids: &ids, learned: &learned, is_whole: true };
    let (expected, judged) = judge_record(&record, &ends, &delivered, &rules).expect("no fault");
    assert_eq!((judged.turns, judged.open_turns), (1, 0));
    let mut borders = Borders::default();
    borders.count(&expected, &of);
    assert_eq!(borders, Borders { borders: 1, differing: 1, overlap: 9, split: 9 });
    // The opposite rule loses the answer's first letter.
    let opposite: Vec<bool> = learned.iter().enumerate().map(|(id, learned)| *learned && id > 4).collect();
    let delivered = Delivered { learned: &opposite, ..delivered };
    assert_eq!(
        judge_record(&record, &ends, &delivered, &rules).expect_err("a fault").kind,
        FaultKind::PartMasked
    );
    // Encoded apart, as a model that writes sees it.
    let apart = [encode("Label: ", &[]).0, encode("positive<|endoftext|>", &[]).0].concat();
    let learned: Vec<bool> = (0..apart.len()).map(|id| id > 4).collect();
    let delivered = Delivered { ids: &apart, learned: &learned, is_whole: true };
    judge_record(&record, &ends, &delivered, &rules).expect("no fault");
}

/// A batch of these rows, each of which has the ids of one document from a place on, and padding behind.
fn batch(rows: &[(usize, Range<usize>)], width: usize) -> Batch {
    use crate::batch::BatchBuilder;
    use crate::document::{Part, Sequence, Tokens};
    let tokens: Vec<Tokens> = (0..2).map(|_| Tokens::new((10..30).collect(), 20)).collect();
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for (document, ids) in rows {
        builder.push(&Sequence::new(vec![Part::new(&tokens[*document], ids.clone())], width));
    }
    builder.finish(crate::cursor::Cursor::default())
}

#[test]
fn rests_packed_as_samples_are_found_and_cut_documents_are_put_together() {
    let batch = batch(&[(0, 0..9), (0, 8..17)], 9);
    let learned = vec![true; 18];
    let (key, pieces) = ((0, 0, 0), batch.pieces());
    let mut whole = Documents::new(false);
    assert!(matches!(whole.add(key, &batch, &pieces[0], &learned), Part::Beginning { is_whole: true, .. }));
    assert_eq!(whole.add(key, &batch, &pieces[1], &learned), Part::Inside);

    let mut cut = Documents::new(true);
    let Part::Beginning { gathered, is_whole: false } = cut.add(key, &batch, &pieces[0], &learned) else {
        panic!("it may go on");
    };
    cut.keep(key, gathered);
    let Part::Beginning { gathered, .. } = cut.add(key, &batch, &pieces[1], &learned) else {
        panic!("it goes on");
    };
    assert_eq!(gathered.ids, (10..27).collect::<Vec<u32>>());
    assert_eq!(gathered.learned.len(), 17);
    assert_eq!(cut.add(key, &batch, &pieces[1], &learned), Part::Inside);
    assert_eq!(cut.within_stream().add(key, &batch, &pieces[1], &learned), Part::Rest);
}

#[test]
fn padding_and_the_loss_are_looked_at() {
    let batch = batch(&[(0, 0..5), (1, 0..9)], 9);
    let right = super::learned(&batch);
    assert!(super::rows(&batch, &right).is_none());
    let fault = |place: usize| {
        let mut learned = right.clone();
        learned[place] = !learned[place];
        super::rows(&batch, &learned).map(|fault| fault.kind)
    };
    assert_eq!(fault(6), Some(FaultKind::PaddingLearned));
    assert_eq!(fault(3), Some(FaultKind::IgnoredByLoss));
    assert_eq!(fault(9), None, "nothing predicts a document's first id");
}
