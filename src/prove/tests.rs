//! The proof is proved: each fault that pipelines have is injected, and must be named. What is right must pass.
//!
//! Faults of the loss (the denominator over micro-batches and ranks) are no batch's: the trainer's tests have them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::borders::Borders;
use super::conversation::{Completion, Conversation, Edit, Engine, Record, learned};
use super::expected::Expected;
use super::fault::{FaultKind, Finding};
use super::judge::{Delivered, Judged, Rules};
use super::kept::Missing;
use super::samples::judge_record;
use super::spans::{Added, Ids};
use crate::config::{Learn, Truncate};
use crate::tokenizer::{EncodeError, Tokenizer};

mod by_turns;
mod long;
mod mutations;
mod other_roles;
mod parts;
mod pieces;
mod prompts;

/// The special tokens; an id is a place in this list.
const SPECIAL: [&str; 9] = [
    "<s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|observation|>",
    "<think>", "</think>",
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

/// As gpt-oss: the model writes what it thinks and what it says as two parts, and the beginning of the second. Calls keep
/// what was thought until they are answered.
fn in_two_parts(messages: &[Value], prompt: bool) -> Result<String, String> {
    let has_calls = |message: &Value| message["tool_calls"].is_array();
    let is_answer = |message: &Value| message["role"] == "assistant" && !has_calls(message);
    let turn = |(index, message): (usize, &Value)| {
        let (role, thought) = (text(message, "role"), text(message, "reasoning_content"));
        let rest = &messages[index + 1..];
        let is_kept = match has_calls(message) {
            true => !rest.iter().any(is_answer),
            false => rest.is_empty() && !prompt,
        };
        let thought = match thought.is_empty() || !is_kept {
            true => String::new(),
            false => format!("<|im_start|>{role}(thinks){thought}<|im_end|>"),
        };
        let calls = if has_calls(message) { message["tool_calls"].to_string() } else { String::new() };
        format!("{thought}<|im_start|>{role}: {}{calls}<|im_end|>", text(message, "content"))
    };
    let prompt = if prompt { "<|im_start|>assistant" } else { "" };
    Ok(messages.iter().enumerate().map(turn).collect::<String>() + prompt)
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

fn special() -> HashMap<u32, Added> {
    let added = |spelling: &str| Added { spelling: spelling.to_owned(), ..Added::default() };
    (0..).zip(SPECIAL.map(added)).collect()
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
    // Somebody says what the call has.
    let mut spoken = talk();
    let call = spoken
        .as_array()
        .expect("messages")
        .iter()
        .find_map(|message| message.get("tool_calls"))
        .expect("a call");
    spoken[0]["content"] = format!("use {call}").into();
    assert_eq!(kept(spoken, glm), ["1 of 1 tool calls are not rendered"]);
}

#[test]
fn answers_that_say_nothing_are_counted() {
    let answers = |messages: &Value| Case::of(messages, chatml, &Learn::All).expected.kept.answers;
    let mut silent = plain();
    assert_eq!(answers(&silent), Missing { missing: 0, of: 2 });
    silent[1]["content"] = " \n".into();
    silent[3]["content"] = Value::Null;
    assert_eq!(answers(&silent), Missing { missing: 2, of: 2 });
    silent[1]["reasoning_content"] = "one".into();
    silent[3]["tool_calls"] = json!([{"function": {"name": "get", "arguments": {}}}]);
    assert_eq!(answers(&silent), Missing { missing: 0, of: 2 });
    // Nothing is learned from this one.
    silent[3] = json!({"role": "assistant", "content": "", "train": false});
    assert_eq!(answers(&silent), Missing { missing: 0, of: 1 });
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
