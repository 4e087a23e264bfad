//! Talks with a model that was tuned on conversations.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::{Project, said, succeeded};

/// What the template writes where the model begins to answer.
const PROMPT: &str = "{% if add_generation_prompt %}[a]{% endif %}";

const TEMPLATE: &str = "{% for m in messages %}{{ ('[u]' if m.role == 'user' else '[a]') ~ m.content }}\
                        {% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}";

/// A model that is just large enough to learn two conversations by heart.
const CONFIG: &str = r#"
[[source]]
kind = "jsonl"
paths = ["chats.jsonl"]
task = "chat"
chat = { template = "chat.jinja", turn = { begin = "[a]", end = "<|endoftext|>" } }

[tokenizer]
kind = "bytes"
eos = "<|endoftext|>"

[pipeline]
seq_len = 40
batch_size = 2
lanes = 1
pack = "pad"
workers = 1

[model]
layers = 2
d_model = 32
heads = 2
d_ff = 64

[train]
out = "run"
steps = 150
lr = 1e-2
min_lr = 1e-3
warmup = 10
validate_every = 0
checkpoint_every = 150
sample_tokens = 0
"#;

/// The first question and both answers of each conversation. The second question is always the same.
const CHATS: [[&str; 3]; 2] = [["red", "apple", "cherry"], ["sky", "cloud", "wind"]];
const MORE: &str = "more";

impl Project {
    /// A project with a run that was tuned on the conversations.
    fn tuned() -> Self {
        let project = Self::new();
        let line = |[first, answer, second]: [&str; 3]| {
            let turns = [("user", first), ("assistant", answer), ("user", MORE), ("assistant", second)];
            json!({ "messages": turns.map(|(role, content)| json!({ "role": role, "content": content })) })
                .to_string()
        };
        for (name, text) in [
            ("chats.jsonl", CHATS.map(line).join("\n")),
            ("chat.jinja", format!("{TEMPLATE}{PROMPT}")),
            ("chat.toml", CONFIG.to_owned()),
        ] {
            fs::write(project.path(name), text).expect("written");
        }
        project.succeed(&["train", "chat.toml"]);
        project
    }

    /// A talk with what is asked on standard input.
    fn talk(&self, arguments: &[&str], asked: &str) -> Output {
        let talk = ["generate", "run", "--chat", "--temperature", "0"];
        let mut command = self.program(&[&talk, arguments].concat());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // It may have ended with an error.
        let _ = child.stdin.take().expect("its input").write_all(asked.as_bytes());
        child.wait_with_output().expect("it ends")
    }
}

/// What a talk that ends well prints.
fn printed(output: &Output) -> String {
    assert_eq!(succeeded(output), "");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_tuned_model_answers_and_remembers_what_was_said() {
    let project = Project::tuned();
    for [first, answer, second] in CHATS {
        // The last line has no end, and an empty one is no question.
        let asked = format!("{first}\n \n{MORE}");
        assert_eq!(printed(&project.talk(&[], &asked)), format!("{answer}\n{second}\n"));
        let lines = printed(&project.talk(&["--json"], &asked));
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let expected = [(first, answer), (MORE, second)];
        assert_eq!(lines, expected.map(|(prompt, text)| json!({ "prompt": prompt, "text": text })));
        assert_eq!(printed(&project.talk(&[first], MORE)), format!("{answer}\n"), "one question");
    }
    assert_eq!(printed(&project.talk(&[], "")), "");

    // What a resume refuses is named.
    let learn = ["--set", "source.0.chat.learn=last", "--set", "train.steps=151"];
    let error = project.fail(&[&["train", "--resume", "run"], &learn[..]].concat());
    let setting = "`source.0.chat.learn` was \"all\" and is now \"last\"";
    assert!(error.contains(setting), "{error}");

    let output = project.talk(&["--system", &"long ".repeat(20), "red"], "");
    assert!(said(&output).contains("it sees only the end"), "{}", said(&output));

    fs::write(project.path("run/chat.jinja"), TEMPLATE).expect("written");
    let output = project.talk(&[], "red\nmore\n");
    let error = said(&output);
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    assert!(error.contains("run/chat.jinja") && error.contains("if add_generation_prompt is set"), "{error}");
    let error = project.fail(&["generate", "nowhere", "--chat"]);
    assert!(error.contains("nowhere"), "{error}");
}
