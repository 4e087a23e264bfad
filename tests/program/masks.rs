//! What is learned from, as `inspect` shows and proves it, and as `check` says it is found.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{TINY, failure, run, text};
use crate::support::root;
use crate::support::torch::python;

/// Conversations of a line each, a template, and a config.
struct Chats {
    directory: tempfile::TempDir,
}

const TEMPLATE: &str = "{%- for message in messages %}{{ '<|' ~ message.role ~ '|>' ~ message.content }}\
    {%- if message.role == 'assistant' %}{{ eos_token }}{% endif %}{%- endfor %}\
    {%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

const CHATS: &str = r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}, {"role": "user", "content": "Three?"}, {"role": "assistant", "content": "Four."}]}
{"messages": [{"role": "user", "content": "Write <|endoftext|>!"}, {"role": "assistant", "content": " Five. "}]}
"#;

impl Chats {
    fn new(template: &str, chats: &str) -> Self {
        let chat = Self { directory: tempfile::tempdir().expect("a directory") };
        let write = |name: &str, text: &str| std::fs::write(chat.path(name), text).expect("a file");
        write("chat.jinja", template);
        write("chats.jsonl", chats);
        let config = format!(
            "[[source]]\nkind = \"jsonl\"\npaths = [{:?}]\ntask = \"chat\"\n[source.chat]\ntemplate = {:?}\n\
             turn = {{ begin = \"<|assistant|>\", end = \"<|endoftext|>\" }}\n[tokenizer]\nkind = \"bytes\"\n\
             eos = \"<|endoftext|>\"\n[pipeline]\nlanes = 1\nseq_len = 128\nbatch_size = 2\nepochs = 1\n\
             uneven = \"pad\"\nlast = \"short\"\npack = \"best_fit\"\n",
            chat.path("chats.jsonl"),
            chat.path("chat.jinja"),
        );
        write("run.toml", &config);
        chat
    }

    /// Has one of the tests' tokenizers, with a change of its file, and a token that ends documents.
    fn with_tokenizer(&self, file: &str, eos: &str, [from, to]: [&str; 2]) {
        let path = self.path("tokenizer.json");
        let json =
            std::fs::read_to_string(root().join("tests/data/tokenizers").join(file)).expect("a tokenizer");
        std::fs::write(&path, json.replace(from, to)).expect("a file");
        let config = std::fs::read_to_string(self.path("run.toml")).expect("a config");
        let config =
            config.replace("kind = \"bytes\"", &format!("path = {path:?}")).replace("<|endoftext|>", eos);
        std::fs::write(self.path("run.toml"), config).expect("a file");
    }

    /// Leaves it to the template where turns are.
    fn without_turn(self) -> Self {
        let config = std::fs::read_to_string(self.path("run.toml")).expect("a config");
        let without_turn: Vec<&str> = config.lines().filter(|line| !line.starts_with("turn")).collect();
        std::fs::write(self.path("run.toml"), without_turn.join("\n")).expect("a file");
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn config(&self) -> String {
        shown(&self.path("run.toml"))
    }
}

/// The lines of a run as JSON, which must succeed.
fn json(arguments: &[&str]) -> Vec<Value> {
    let said = text(&[arguments, &["--json"]].concat());
    said.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn shown(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_mask_is_shown_in_brackets_and_as_rows_of_numbers() {
    let chats = Chats::new(TEMPLATE, CHATS);
    let said = text(&["inspect", &chats.config(), "--mask"]);
    for line in [
        "<|system|>Be brief.<|user|>One?<|assistant|>⟦Two.<|endoftext|>⟧<|user|>Three?<|assistant|>⟦Four.<|endoftext|>⟧",
        "<|user|>Write <|endoftext|>!<|assistant|>⟦ Five. <|endoftext|>⟧",
        "; each row has some",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let batches = json(&["inspect", &chats.config(), "--mask"]);
    let numbers = |row: &Value| -> Vec<u64> {
        row.as_array().expect("a row").iter().map(|number| number.as_u64().expect("a number")).collect()
    };
    let rows = |key: &str| -> Vec<Vec<u64>> {
        batches.iter().flat_map(|batch| batch[key].as_array().expect("rows").iter().map(numbers)).collect()
    };
    let (ids, mask) = (rows("ids"), rows("mask"));
    assert!(ids.iter().map(Vec::len).eq(mask.iter().map(Vec::len)));
    let learned = ids.iter().flatten().zip(mask.iter().flatten()).filter(|(_, mask)| **mask == 1);
    let learned: Vec<u64> = learned.map(|(id, _)| *id).collect();
    let turns: Vec<&[u64]> = learned.split_inclusive(|id| *id == 256).collect();
    let bytes = |text: &str| -> Vec<u64> { text.bytes().map(u64::from).chain([256]).collect() };
    let mut expected = ["Two.", "Four.", " Five. "].map(bytes).to_vec();
    // Documents are shuffled.
    let mut found: Vec<Vec<u64>> = turns.into_iter().map(<[u64]>::to_vec).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert!(batches.iter().all(|batch| batch["pieces"].is_array()));
    assert!(json(&["inspect", &chats.config()])[0].get("mask").is_none());
}

#[test]
fn the_log_names_the_first_conversation_that_loses_turns() {
    let chats =
        Chats::new(TEMPLATE, &[&CHATS.lines().rev().collect::<Vec<_>>().join("\n"), "\n", CHATS].concat());
    let inspect = |seq_len: &str| {
        let out = run(&["inspect", &chats.config(), "-n", "9", "--set", seq_len]);
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).expect("text")
    };
    let said = inspect("pipeline.seq_len=60");
    assert_eq!(said.matches("oldest messages are left out").count(), 1, "{said}");
    for part in
        ["WARN", "61 ids", "pipeline.seq_len", "source.0.chat.truncate", "chats.jsonl", "line=2", "byte="]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!inspect("pipeline.seq_len=128").contains("left out"));
    let cut = |end: &str| {
        let truncate = format!("source.0.chat.truncate={end}");
        let settings = ["-n", "9", "--set", "pipeline.seq_len=60", "--set", &truncate];
        let out = run(&[&["inspect", &chats.config()], &settings[..]].concat());
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).expect("text")
    };
    assert_eq!(cut("end").matches("its end is cut off").count(), 1, "{}", cut("end"));
    assert_eq!(cut("start").matches("its beginning is cut off").count(), 1, "{}", cut("start"));
}

#[test]
fn what_is_learned_from_is_proved_and_the_first_fault_has_its_place() {
    let chats = Chats::new(TEMPLATE, CHATS);
    let check = ["inspect", &chats.config(), "--mask", "--check"];
    let said = text(&check);
    assert!(said.starts_with("proved: 3 turns of 2 documents in 1 batch\n"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("note:")).count(), 0, "{said}");
    let proof = &json(&check)[0];
    assert_eq!(
        (&proof["turns"], &proof["documents"], &proof["mask"]["learned"]),
        (&3.into(), &2.into(), &19.into())
    );

    // A template whose generation blocks leave out the token that ends turns.
    let blocks = "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}\
        {% endgeneration %}{{ eos_token }}{% else %}{{ m.content }}{% endif %}{% endfor %}\
        {% if add_generation_prompt %}<|assistant|>{% endif %}";
    std::fs::write(chats.path("blocks.jinja"), blocks).expect("a file");
    let blocks = &format!("source.0.chat.template={:?}", chats.path("blocks.jinja"));
    let (code, error) = failure(&[&check[..], &["--set", blocks]].concat());
    assert_eq!(code, 1);
    let place = format!("{}:", shown(&chats.path("chats.jsonl")));
    assert!(error.contains(&place) && error.contains("(byte ") && error.contains("bytes "), "{error}");
    assert!(error.contains("the token that ends the turn is not learned from"), "{error}");
    // Messages count from 1: before the assistant's stand a system prompt and a question, or only this.
    let message = if error.contains("chats.jsonl:1 ") { "message 3," } else { "message 2," };
    assert!(error.contains(message), "{error}");
    // Without the proof it is only said that there is one.
    let unproved = run(&["inspect", &chats.config(), "--mask", "--set", blocks]);
    assert!(unproved.status.success());
    assert!(String::from_utf8_lossy(&unproved.stderr).contains("--check says which"));
    // A run says so of its first batch.
    let out = format!("train.out={:?}", chats.path("run"));
    let small = ["train.steps=1", "model.layers=1", "model.d_model=8", "model.heads=1", "model.d_ff=8"];
    let settings = [&small[..], &[out.as_str(), blocks.as_str()]].concat();
    let settings = settings.into_iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let trained = run(&[&["train", chats.config().as_str()], &settings[..]].concat());
    let said = String::from_utf8_lossy(&trained.stderr);
    assert!(trained.status.success(), "{said}");
    let warning =
        said.lines().find(|line| line.contains("what is learned from has a fault, in the first batch"));
    assert!(
        warning.is_some_and(|line| line.contains(&place) && line.contains("is not learned from")),
        "{said}"
    );

    // Markers of another role need no proof.
    let turn = "source.0.chat.turn={begin=\"<|user|>\", end=\"<|endoftext|>\"}";
    let (_, error) = failure(&["inspect", &chats.config(), "--set", turn]);
    assert!(error.contains(&place) && error.contains("is not to be learned from"), "{error}");
}

#[test]
fn contents_in_parts_that_a_template_prints_as_a_list_are_said() {
    let chats =
        Chats::new(TEMPLATE, &CHATS.replace("\"Four.\"", "[{\"type\": \"text\", \"text\": \"Four.\"}]"));
    let shown = run(&["inspect", &chats.config()]);
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success() && said.contains("a list of parts as Python prints it"), "{said}");
}

#[test]
fn what_a_template_leaves_out_of_questions_and_tokens_that_nobody_names_are_said_once() {
    let parts = |what: &str| format!("[{{\"type\": \"text\", \"text\": \"{what}\"}}]");
    let silent =
        TEMPLATE.replace("message.content", "(message.content if message.content is string else '')");
    let records = CHATS.replace("\"One?\"", &parts("One?"));
    assert_ne!((records.as_str(), silent.as_str()), (CHATS, TEMPLATE));
    let said = |chats: Chats, more: &[&str]| {
        let shown = run(&[&["inspect", &chats.config(), "-n", "100"], more].concat());
        assert!(shown.status.success(), "{shown:?}");
        String::from_utf8_lossy(&shown.stderr).into_owned()
    };
    let told = said(Chats::new(&silent, &records.repeat(3)), &[]);
    assert_eq!(told.matches("writes nothing of message").count(), 1, "{told}");
    assert!(told.contains("user") && told.contains("in parts"), "{told}");
    assert!(!said(Chats::new(TEMPLATE, CHATS), &[]).contains("writes nothing of"));
    let chats = Chats::new(TEMPLATE, CHATS).without_turn();
    let unnamed = ["--set", "tokenizer.eos="];
    let (_, told) = failure(&[&["inspect", &chats.config(), "--mask", "--check"], &unnamed[..]].concat());
    assert_eq!(told.matches("set tokenizer.eos").count(), 1, "{told}");
    let checked = run(&[&["check", &chats.config()], &unnamed[..]].concat());
    assert!(String::from_utf8_lossy(&checked.stderr).contains("set tokenizer.eos"), "{checked:?}");
}

#[test]
fn a_model_that_would_never_stop_is_a_fault_and_tokens_that_are_spelled_are_said() {
    let endless = TEMPLATE.replace("{{ eos_token }}", "");
    let chats = Chats::new(&endless, CHATS.lines().last().expect("a line")).without_turn();
    let (code, error) = failure(&["inspect", &chats.config(), "--mask", "--check"]);
    assert_eq!(code, 1);
    assert!(error.contains("none of 1 turn ends with a token that stops generation"), "{error}");
    let (code, error) =
        failure(&["inspect", &chats.config(), "--mask", "--check", "--set", "tokenizer.eos="]);
    assert_eq!(code, 1);
    assert!(error.contains("none of 1 turn ends"), "{error}");

    let spelled = CHATS.replace(" Five. ", "<|endoftext|> Five.");
    let chats = Chats::new(TEMPLATE, spelled.lines().last().expect("a line"));
    let said = text(&["inspect", &chats.config(), "--mask", "--check"]);
    assert!(said.contains("note: 1 turn spell a token of the tokenizer"), "{said}");
}

#[test]
fn turns_of_other_roles_are_proved_and_a_proof_of_nothing_is_a_fault() {
    let chats = Chats::new(TEMPLATE, CHATS);
    let check = ["inspect", &chats.config(), "--mask", "--check"];
    let learn =
        |roles: &str| text(&[&check[..], &["--set", &format!("source.0.chat.learn={roles}")]].concat());
    for (roles, turns, open) in
        [("[\"user\"]", 3, 3), ("[\"system\"]", 1, 1), ("[\"assistant\", \"user\"]", 6, 3)]
    {
        let said = learn(roles);
        assert!(said.starts_with(&format!("proved: {turns} turn")), "{roles}: {said}");
        // The template writes no token behind the words of users.
        assert!(said.contains(&format!("note: {open} turn")), "{roles}: {said}");
    }
    let shown = text(&["inspect", &chats.config(), "--mask", "--set", "source.0.chat.learn=[\"user\"]"]);
    assert!(
        shown.contains("<|user|>⟦One?⟧<|assistant|>Two.<|endoftext|><|user|>⟦Three?⟧<|assistant|>"),
        "{shown}"
    );

    // A message says so itself.
    let own = CHATS
        .replace("\"One?\"", "\"One?\", \"train\": true")
        .replace("\"Four.\"", "\"Four.\", \"train\": false");
    let chats = Chats::new(TEMPLATE, &own);
    let said = text(&["inspect", &chats.config(), "--mask", "--check"]);
    assert!(said.starts_with("proved: 3 turns of 2 documents"), "{said}");

    // The characters that places are found by.
    let chats = Chats::new(
        TEMPLATE,
        &CHATS.replace("One?", "One\u{f0000}").lines().next().expect("a line").replace("Three?", ""),
    );
    let nothing =
        ["inspect", &chats.config(), "--mask", "--check", "--set", "source.0.chat.learn=[\"user\"]"];
    let (code, error) = failure(&nothing);
    assert_eq!(code, 1);
    assert!(error.contains("no turn could be proved in 1 document: the place of 1 turn "), "{error}");
}

#[test]
fn an_empty_turn_is_proved_where_contents_are_found_by_a_second_render() {
    let template = "{% for m in messages %}[{{ m.role }}] {{ m.content }} {{ eos_token }}\n{% endfor %}\
        {% if add_generation_prompt %}[assistant] {% endif %}";
    let chats = Chats::new(template, &CHATS.replace("Four.", "")).without_turn();
    let said = text(&["inspect", &chats.config(), "--mask"]);
    assert!(said.contains("[assistant] ⟦ <|endoftext|>⟧"), "{said}");
    let said = text(&["inspect", &chats.config(), "--mask", "--check"]);
    assert!(said.starts_with("proved: 3 turns of 2 documents"), "{said}");
}

#[test]
fn a_space_that_the_model_writes_before_an_answer_is_learned_from() {
    let template = "{% for m in messages %}{% if m.role == 'assistant' %}{{ ' ASSISTANT: ' + m.content + eos_token }}\
        {% else %}{{ ' USER: ' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}\
        {% endif %}";
    let chats = Chats::new(template, CHATS).without_turn();
    let said = text(&["inspect", &chats.config(), "--mask"]);
    assert!(said.contains(" ASSISTANT:⟦ Two.<|endoftext|>⟧"), "{said}");
    let parts = r#"[{"type": "text", "text": "Hm.", "train": false}, {"type": "text", "text": "Two."}]"#;
    let in_parts = Chats::new(
        &template.replace(
            "m.content",
            "(m.content if m.content is string else m.content | map(attribute='text') | join)",
        ),
        &CHATS.replace("\"Two.\"", parts),
    );
    let said = text(&["inspect", &in_parts.without_turn().config(), "--mask"]);
    assert!(said.contains(" ASSISTANT: Hm.⟦Two.<|endoftext|>⟧"), "{said}");
    for border in ["overlap", "split"] {
        let border = format!("source.0.chat.border={border:?}");
        let said = text(&["inspect", &chats.config(), "--mask", "--check", "--set", &border]);
        assert!(said.starts_with("proved: 3 turns of 2 documents"), "{said}");
    }
}

#[test]
fn a_turn_whose_end_is_no_token_is_said_and_a_fault() {
    let template = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    let chats = Chats::new(template, CHATS).without_turn();
    let output = run(&["inspect", &chats.config(), "--mask", "--check"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // A named end may have more than its token.
    let with_line_end = Chats::new(&TEMPLATE.replace("{{ eos_token }}", "{{ eos_token ~ '\n' }}"), CHATS);
    let end = "source.0.chat.turn.end=\"<|endoftext|>\\n\"";
    let output = run(&["inspect", &with_line_end.config(), "--mask", "--check", "--set", end]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for part in ["the tokenizer has no such token", "no token for the end of the turn", "chats.jsonl:2"] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

#[test]
fn rows_that_end_within_a_character_are_proved() {
    let word = "\u{ef}\u{2615}\u{1f642}".repeat(9);
    let chats = Chats::new(TEMPLATE, &CHATS.replace("Two.", &word).repeat(9));
    for width in 21..31 {
        let seq_len = format!("pipeline.seq_len={width}");
        let settings = ["--set", &seq_len, "--set", "pipeline.pack=concat", "-n", "3"];
        text(&[&["inspect", &chats.config(), "--mask", "--check"], &settings[..]].concat());
    }
}

#[test]
fn a_template_that_writes_nothing_is_said() {
    let chats = Chats::new("{# nothing #}", CHATS);
    let (_, error) = failure(&["inspect", &chats.config()]);
    assert!(error.contains("the template writes nothing"), "{error}");
}

#[test]
fn a_tokenizer_that_is_not_there_is_named_before_its_template() {
    let chats = Chats::new(TEMPLATE, CHATS);
    let config = std::fs::read_to_string(chats.path("run.toml")).expect("a config");
    let config = config.replace("kind = \"bytes\"", "path = \"nowhere/tokenizer.json\"");
    let without_template: Vec<&str> = config.lines().filter(|line| !line.starts_with("template")).collect();
    std::fs::write(chats.path("run.toml"), without_template.join("\n")).expect("a file");
    let (_, error) = failure(&["check", &chats.config()]);
    assert!(error.contains("tokenizer.path") && error.contains("there is no file"), "{error}");
}

#[test]
fn a_role_that_is_learned_from_and_does_not_occur_is_named() {
    let chats = Chats::new(TEMPLATE, &CHATS.repeat(1000));
    let learning = |roles: &str| format!("source.0.chat.learn={roles}");
    let (_, error) = failure(&["inspect", &chats.config(), "--set", &learning("[\"tool\", \"developer\"]")]);
    for part in ["source.0.chat.learn", "\"tool\", \"developer\"", "\"assistant\", \"system\", \"user\""] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let some = learning("[\"assistant\", \"tool\"]");
    let output = run(&["inspect", &chats.config(), "-n", "2000", "--set", &some]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error.matches("source.0.chat.learn").count(), 1, "{error}");
    assert!(error.contains("tool") && !error.contains("\"assistant\""), "{error}");
}

#[test]
fn many_ids_on_both_sides_of_a_border_are_said_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let record = |nth: usize| {
        let (prompt, completion) = (format!("{nth} is it good? Label: "), ["positive", "negative"][nth % 2]);
        serde_json::json!({"prompt": prompt, "completion": completion}).to_string() + "\n"
    };
    let records = directory.path().join("labels.jsonl");
    std::fs::write(&records, (0..60).map(record).collect::<String>()).expect("a file");
    let config = directory.path().join("run.toml");
    let text = format!(
        "[[source]]\nkind = \"jsonl\"\npaths = [{records:?}]\ntask = \"completion\"\n[tokenizer]\neos = \
         \"<|endoftext|>\"\ntrain = {{ vocab_size = 300 }}\n[pipeline]\nlanes = 1\nseq_len = 64\nbatch_size = 4\n\
         epochs = 1\npack = \"best_fit\"\nuneven = \"pad\"\nlast = \"short\"\n"
    );
    std::fs::write(&config, text).expect("a file");
    let said = |more: &[&str]| {
        let output = run(&[&["inspect", &shown(&config), "--mask", "-n", "99"], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        let counts = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        (counts, error.matches("source.0.chat.border").count())
    };
    let (counts, times) = said(&[]);
    assert!(counts.starts_with("borders: 60, of which 60 have other ids"), "{counts}");
    assert_eq!(times, 1);
    assert_eq!(said(&["--set", "source.0.chat.border=\"split\""]).1, 0);
}

#[test]
fn what_a_template_drops_is_listed() {
    let template = TEMPLATE.replace("message.content", "(message.content | trim | replace('One', 'Eins'))");
    let chats = Chats::new(&template, CHATS);
    let said = text(&["inspect", &chats.config(), "--mask", "--check"]);
    let notes: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("note: ")).collect();
    let expected = [
        "the content of 1 of 7 messages is not rendered as it is",
        "white space at the ends of 1 of 1 contents that have some is not rendered",
    ];
    assert_eq!(notes, expected, "{said}");
}

/// As many templates do, this one makes JSON of the arguments, which OpenAI's API gives as JSON.
#[test]
fn arguments_that_are_quoted_twice_are_listed() {
    let template = TEMPLATE.replace(
        "message.content }}",
        "message.content }}{% for call in message.tool_calls or [] %}{{ call.function.name ~ (call.function.arguments | \
         tojson) }}{% endfor %}",
    );
    let call = |arguments: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "One?"}}, {{"role": "assistant", "content": "I ask.", "tool_calls": [{{"type": "function", "function": {{"name": "get", "arguments": {arguments}}}}}]}}]}}"#
        )
    };
    let notes = |lines: &[String]| {
        let chats = Chats::new(&template, &(lines.join("\n") + "\n"));
        let said = text(&["inspect", &chats.config(), "--mask", "--check"]);
        said.lines().filter_map(|line| Some(line.strip_prefix("note: ")?.to_owned())).collect::<Vec<_>>()
    };
    let [object, string] = [call(r#"{"city": "Rome"}"#), call(r#""{\"city\": \"Rome\"}""#)];
    let note = "the arguments of 1 of 1 tool calls that have them as a string are rendered in quotes; make objects of them";
    assert_eq!(notes(&[object.clone(), string]), [note]);
    assert!(notes(&[object]).is_empty());
}

/// As Qwen3's: what was thought before the last question is not rendered.
const THINKING: &str = "{%- set last = namespace(at=-1) %}{%- for message in messages %}\
    {%- if message.role == 'user' %}{%- set last.at = loop.index0 %}{% endif %}{%- endfor %}\
    {%- for message in messages %}{{ '<|' ~ message.role ~ '|>' }}\
    {%- if message.reasoning_content and loop.index0 > last.at %}{{ '<think>' ~ message.reasoning_content ~ '</think>' }}\
    {%- endif %}{{ message.content }}{%- if message.role == 'assistant' %}{{ eos_token }}{% endif %}{%- endfor %}\
    {%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/// The last answer is given in two messages, before and after a tool's result.
const THOUGHTS: &str = r#"{"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "reasoning_content": "hm", "content": "Two."}, {"role": "user", "content": "Three?"}, {"role": "assistant", "reasoning_content": "ah", "content": "I ask."}, {"role": "tool", "content": "Four."}, {"role": "assistant", "reasoning_content": "so", "content": "Four!"}]}
{"messages": [{"role": "user", "content": "Five?"}, {"role": "assistant", "reasoning_content": "oh", "content": "Six."}]}
"#;

#[test]
fn each_turn_is_learned_in_a_sample_of_its_own() {
    let chats = Chats::new(THINKING, THOUGHTS);
    let inspect = ["inspect", &chats.config(), "--mask", "-n", "10", "--set", "pipeline.seq_len=256"];
    let by_turns = [&inspect[..], &["--set", "source.0.chat.samples=turns"]].concat();
    let said = text(&by_turns);
    let before = "<|user|>One?<|assistant|>Two.<|endoftext|><|user|>Three?<|assistant|>";
    for (before, turn) in [
        ("<|user|>One?<|assistant|>", "<think>hm</think>Two."),
        (before, "<think>ah</think>I ask."),
        (
            &format!("{before}<think>ah</think>I ask.<|endoftext|><|tool|>Four.<|assistant|>"),
            "<think>so</think>Four!",
        ),
        ("<|user|>Five?<|assistant|>", "<think>oh</think>Six."),
    ] {
        let line = format!("      {before}\u{27e6}{turn}<|endoftext|>\u{27e7}\n");
        assert_eq!(said.matches(&line).count(), 1, "{line}\n{said}");
    }
    assert_eq!(said.matches('\u{27e6}').count(), 4, "{said}");

    // Nothing is lost any more, also where rows cut samples.
    let proved = |arguments: &[&str], more: &[&str]| text(&[arguments, &["--check"], more].concat());
    let said = proved(&inspect, &[]);
    assert!(
        said.starts_with("proved: 4 turns of 2 documents") && said.contains("reasoning of 1 of 4"),
        "{said}"
    );
    for rows in [&[][..], &["--set", "pipeline.pack=concat", "--set", "pipeline.seq_len=16"]] {
        let said = proved(&by_turns, rows);
        assert!(said.starts_with("proved: 4 turns of 4 documents") && !said.contains("note:"), "{said}");
    }
    let learns_from = "each turn is a sample of its own";
    assert!(text(&["check", &chats.config(), "--set", "source.0.chat.samples=turns"]).contains(learns_from));
    assert!(!text(&["check", &chats.config()]).contains(learns_from));

    let (_, error) = failure(&[&by_turns[..], &["--set", "source.0.task=completion"]].concat());
    assert!(error.contains("source.0.chat.samples") && error.contains("task = \"chat\""), "{error}");
}

#[test]
fn the_template_of_shards_is_looked_for_beside_the_tokenizer() {
    let chats = Chats::new(TEMPLATE, CHATS);
    std::fs::write(chats.path("chat_template.jinja"), TEMPLATE).expect("a file");
    chats.with_tokenizer("gate/gpt2.json", "<|endoftext|>", [""; 2]);
    let template = format!("template = {:?}\n", chats.path("chat.jinja"));
    let config = std::fs::read_to_string(chats.path("run.toml")).expect("a config").replace(&template, "");
    std::fs::write(chats.path("run.toml"), &config).expect("a file");
    text(&["prepare", &chats.config(), "-o", &shown(&chats.path("shards"))]);

    let (_, settings) = config.split_once("[tokenizer]").expect("a tokenizer");
    let source = format!("[[source]]\nkind = \"shards\"\npaths = [{:?}]\n", chats.path("shards"));
    let prove = ["inspect", &shown(&chats.path("shards.toml")), "--mask", "--check"];
    std::fs::write(chats.path("shards.toml"), format!("{source}[tokenizer]{settings}")).expect("a file");
    let said = text(&prove);
    assert!(said.starts_with("proved: 3 turns of 2 documents"), "{said}");
    let path = settings.lines().find(|line| line.starts_with("path")).expect("a path");
    let settings = settings.replace(path, "");
    std::fs::write(chats.path("shards.toml"), format!("{source}[tokenizer]{settings}")).expect("a file");
    let (_, error) = failure(&prove);
    assert!(error.contains("name that with tokenizer.path"), "{error}");
}

#[test]
fn text_that_a_tokenizer_drops_or_does_not_know_is_proved() {
    let proves = |template: &str, chats: &str, [file, eos]: [&str; 2], change: [&str; 2]| {
        let chats = Chats::new(template, chats);
        chats.with_tokenizer(file, eos, change);
        let said = text(&["inspect", &chats.config(), "--mask", "--check", "--set", "pipeline.seq_len=256"]);
        assert!(said.starts_with("proved: 3 turns of 2 documents"), "{file}, {change:?}: {said}");
    };
    // White space around a token that drops it, of which some is content.
    let strips = TEMPLATE.replace("~ message.content", "~ ' <mill>\n' ~ message.content");
    let strips = strips.replace("eos_token", "' <mill>\n' ~ eos_token ~ ' <mill>\n'");
    let strips = strips.replace("'<|assistant|>'", "'<|assistant|> <mill>\n'");
    let lowercase = ["\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}"];
    for change in [[""; 2], lowercase] {
        proves(&strips, CHATS, ["gate/stripping.json", "<|endoftext|>"], change);
    }
    // A space alone before a token, which a decoder takes for its own; and text that has no id. As in most models, a space
    // is put before the first word of all.
    for answer in ["the Work ", "the \u{65e5}\u{672c} Work"] {
        for tokenizer in [["unigram.json", "</s>"], ["wordpiece.json", "[SEP]"]] {
            let chats = CHATS.replace("Two.", answer);
            proves(TEMPLATE, &chats, tokenizer, ["\"always\"", "\"first\""]);
        }
    }
}

#[test]
fn plain_text_has_a_mask_of_ones_and_nothing_to_prove() {
    let batch = &json(&["inspect", TINY, "--mask"])[0];
    let (ids, mask) = (batch["ids"].as_array().expect("rows"), batch["mask"].as_array().expect("rows"));
    assert_eq!(ids.len(), mask.len());
    assert!(mask.iter().flat_map(|row| row.as_array().expect("a row")).all(|learned| *learned == 1));
    assert!(text(&["inspect", TINY, "--mask"]).contains("(100.0%); each row has some"));
    let (code, error) = failure(&["inspect", TINY, "--mask", "--check"]);
    assert_eq!(code, 1);
    assert!(error.contains("source.0.task"), "{error}");
}

#[test]
fn check_says_what_is_learned_from() {
    let chats = Chats::new(TEMPLATE, CHATS);
    let checked = &json(&["check", &chats.config()])[0];
    let task = &checked["sources"][0]["task"];
    assert_eq!(
        (&task["task"], &task["template"]),
        (&"chat".into(), &shown(&chats.path("chat.jinja")).into())
    );
    assert!(task["learned_from"].as_str().is_some_and(|rule| rule.contains("<|assistant|>")), "{task}");
    assert!(text(&["check", &chats.config()]).contains("conversations, rendered by"));
    assert!(json(&["check", TINY])[0]["sources"][0].get("task").is_none());
}

/// Conversations that a loader refuses, although some templates render them: they are mistakes in most data.
const REFUSED: [&str; 5] =
    ["unknown role", "more keys", "content as a number", "content that is a number", "no role"];

/// Ids and masks of transformers for each line of the file of conversations; `None` where it refuses one.
type Expected = Vec<Option<(Vec<u64>, Vec<u64>)>>;

#[test]
fn ids_and_masks_are_those_of_transformers_with_all_of_trls_templates_for_training() {
    let Some(python) =
        python("ids_and_masks_are_those_of_transformers_with_all_of_trls_templates_for_training")
    else {
        return;
    };
    let chats = root().join("tests/data/chats.jsonl");
    let directory = tempfile::tempdir().expect("a directory");
    let peer = root().join("tests/support/labels_peer.py");
    let output =
        Command::new(python).arg(peer).arg(&chats).arg(directory.path()).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let names: Vec<Value> = std::fs::read_to_string(&chats)
        .expect("conversations")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["name"].take())
        .collect();
    let mut compared = 0;
    for line in said.lines() {
        let of_template: Value = serde_json::from_str(line).expect("JSON");
        let name = of_template["template"].as_str().expect("a name");
        let expected: Expected = serde_json::from_value(of_template["chats"].clone()).expect("ids and masks");
        let path = |name: &str| shown(&directory.path().join(name));
        let config = format!(
            "[[source]]\nkind = \"jsonl\"\npaths = [{:?}]\ntask = \"chat\"\non_error = {{ skip = 1000 }}\n\
             [source.chat]\ntemplate = {:?}\ndate = \"2026-11-28\"\n[tokenizer]\npath = {:?}\n\
             bos = \"<|endoftext|>\"\neos = \"<|im_end|>\"\nspecial_tokens = \"parse\"\n\
             [pipeline]\nlanes = 1\nseq_len = 8192\nbatch_size = 4\nepochs = 1\npack = \"pad\"\n",
            shown(&chats),
            path(name),
            path("tokenizer.json"),
        );
        std::fs::write(directory.path().join("run.toml"), config).expect("a file");
        let batches = json(&["inspect", &path("run.toml"), "--mask", "-n", "1000"]);
        let mut found = expected.iter().map(|_| None).collect::<Expected>();
        for batch in &batches {
            for piece in batch["pieces"].as_array().expect("pieces") {
                let number = |key: &str| piece[key].as_u64().expect("a number") as usize;
                let (row, places) = (number("row"), number("from")..number("to"));
                let of = |key: &str| -> Vec<u64> {
                    let all = batch[key][row].as_array().expect("a row");
                    all[places.clone()].iter().map(|number| number.as_u64().expect("a number")).collect()
                };
                found[number("line") - 1] = Some((of("ids"), of("mask")));
            }
        }
        for (chat, (found, expected)) in names.iter().zip(found.into_iter().zip(expected)) {
            // Conversations of which nothing is learned are left out.
            let is_refused = chat.as_str().is_some_and(|chat| REFUSED.contains(&chat));
            let expected = expected.filter(|(_, mask)| mask.contains(&1) && !is_refused);
            assert_eq!(found, expected, "{name}, {chat}");
            compared += usize::from(found.is_some());
        }
    }
    assert!(compared > 800, "{compared} conversations are not all of them");
}
