//! What a skeleton gives for a conversation is what the template renders.

use std::path::Path;

use proptest::prelude::*;

use super::super::{Input, Template};
use super::Shape;
use crate::render::RenderError;
use crate::render::json::{Json, Key};

/// Texts that templates treat in their own ways.
pub(in super::super) const WORDS: [&[&str]; 3] = [
    &["a b", "<think>\nwhy\n</think>\n\nso", " c\n"],
    &["\n d</think>e", "user", "", "{\"f\": 1}", "12"],
    &["<tool_response>g</tool_response>", "\u{1c}h\u{e9} ", "i", "é\u{85}J k"],
];

/// The conversation of a line of `tests/data/chats.jsonl`.
pub(in super::super) fn input(chat: &Json, add_generation_prompt: bool) -> Input<'_> {
    let list = |key: &str| match chat.get(key) {
        Some(Json::List(list)) => Some(list.as_slice()),
        _ => None,
    };
    let kwargs = match chat.get("kwargs") {
        Some(Json::Object(kwargs)) => kwargs.as_slice(),
        _ => &[],
    };
    let messages = list("messages").expect("messages");
    Input { messages, tools: list("tools"), documents: list("documents"), kwargs, add_generation_prompt }
}

/// The same conversation with these texts in turn: all of one shape, if none is empty.
pub(in super::super) fn with_words(chat: &Json, words: &[&str]) -> Json {
    fn put(json: &Json, next: &mut impl Iterator<Item = String>) -> Json {
        match json {
            Json::String(text) if text.is_empty() => json.clone(),
            Json::String(_) => Json::String(next.next().expect("words without end")),
            Json::List(items) => Json::List(items.iter().map(|item| put(item, next)).collect()),
            Json::Object(entries) => {
                let put = |(key, value): &(Key, Json)| match &**key {
                    "role" | "type" | "tools" | "documents" => (key.clone(), value.clone()),
                    _ => (key.clone(), put(value, next)),
                };
                Json::Object(entries.iter().map(put).collect())
            }
            other => other.clone(),
        }
    }
    put(chat, &mut words.iter().cycle().map(|word| (*word).to_owned()))
}

fn lines(path: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).expect("a file");
    text.lines().map(|line| Json::parse(line).expect("JSON")).collect()
}

fn template(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).expect("a template")
}

pub(in super::super) fn compile(source: &str) -> Result<Template, RenderError> {
    let tokens = [("bos_token", "<s>"), ("eos_token", "</s>"), ("pad_token", "<pad>")];
    let tokens = tokens.map(|(name, token)| (name.to_owned(), token.to_owned()));
    Template::compile(source, &tokens, crate::config::day("2026-11-28"))
}

/// The text of a skeleton that is known, if one fits.
fn filled(template: &Template, input: &Input<'_>) -> Option<String> {
    let shape = Shape::of(input)?;
    template.skeletons.as_ref()?.fill(&template.env, &shape)
}

/// Renders conversations one after another, and compares each with what the template writes for it alone. Returns how
/// many came from skeletons.
fn compare(template: &Template, chats: &[Json], prompt: bool) -> usize {
    let mut count = 0;
    for chat in chats {
        let input = input(chat, prompt);
        let expected = template.run(&input).map(|text| template.read_marks(text));
        let from_skeleton = filled(template, &input).map(|text| template.read_marks(text));
        if let Some(text) = from_skeleton {
            assert_eq!(expected.as_ref(), Ok(&text), "{chat:?}");
            count += 1;
        }
        assert_eq!(template.render(&input), expected, "{chat:?}");
    }
    count
}

const FILES: [&str; 4] = [
    "benches/chats/chatml.jinja", "benches/chats/llama.jinja", "benches/chats/plain.jinja",
    "configs/chat.jinja",
];

#[test]
fn conversations_of_one_shape_are_rendered_once() {
    let chats = lines("tests/data/chats.jsonl");
    for file in FILES {
        let template = compile(&template(file)).expect(file);
        let simple: Vec<Json> = ["a", "b c", "d\ne"].map(|word| with_words(&chats[1], &[word])).to_vec();
        assert_eq!(compare(&template, &simple, false), simple.len() - 1, "{file}");
    }
}

/// Snippets use each operator, filter, test, function and method.
#[test]
fn snippets_write_the_same_by_skeletons() {
    let chats = lines("tests/data/chats.jsonl");
    let snippets = lines("tests/data/templates.jsonl");
    let (mut all, mut filled) = (0, 0);
    for snippet in &snippets {
        let Ok(template) = compile(snippet.as_str().expect("a template")) else { continue };
        for chat in &chats[..6] {
            let mut chats: Vec<Json> = WORDS.iter().map(|words| with_words(chat, words)).collect();
            chats.extend([chat.clone(), with_words(chat, WORDS[0])]);
            all += chats.len();
            filled += compare(&template, &chats, false);
        }
    }
    // Two of five could, if no text had a part in what is written.
    assert!(filled * 5 > all, "{filled} of {all} renderings come from skeletons");
}

/// Templates that look into texts in a roundabout way, with two conversations for each: what the first one teaches must
/// not be told of the second one.
const ROUNDABOUT: [(&str, [&str; 2], [&str; 2]); 18] = [
    // An iterator gives its items once.
    ("{% set r = ['A'] | map('upper') %}{{ messages[0].content in r }}", ["x", "y"], ["A", "y"]),
    (
        "{% set i = ['1'] | map('upper') %}{% set d = {'a': i, 'b': ['1'] | map('upper')} %}{% set u = i | list %}\
         {{ d[messages[0].content] | join }}",
        ["b", "y"],
        ["a", "y"],
    ),
    // Numbers that are equal are not always written alike.
    ("{{ messages[0].content | int(5.0) }}", ["5", "y"], ["abc", "y"]),
    ("{{ messages[0].content | float }}", ["0", "y"], ["-0", "y"]),
    ("{{ {'a': 1, 'b': 1.0}[messages[0].content] }}", ["a", "y"], ["b", "y"]),
    // Places are numbers, and so are bools.
    ("{{ messages | map(attribute='content') | map(attribute=false) | join }}", ["x", "y"], ["ab", "cd"]),
    ("{{ messages | map(attribute='content.1') | join }}", ["xy", "yz"], ["ab", "cd"]),
    // A namespace changes.
    (
        "{% set n = namespace(a=1, b=2) %}{{ n[messages[0].content] }}{% set n.b = 1 %}",
        ["a", "y"],
        ["b", "y"],
    ),
    (
        "{% set n = namespace(a=messages[0].content) %}{{ n[messages[1].content] == 'hello' }}",
        ["bye", "a"],
        ["hello", "a"],
    ),
    ("{% for m in messages %}{{ loop[messages[0].content] }}{% endfor %}", ["index", "y"], ["index0", "y"]),
    // A captured text is not marked as safe.
    (
        "{% set x %}{{ messages[0].content | safe }}{% endset %}{{ x * 2 + messages[1].content }}",
        ["a", "b"],
        ["a", "<"],
    ),
    // A placeholder that the template writes.
    (r"{{ messages[1].content if messages[0].content == '\udbc0\udc00' else 'x' }}", ["a", "x"], ["a", "y"]),
    // One object is equal to itself, and no NaN to another.
    (
        "{% set m = {'s': messages[0].content, 'n': 'nan' | float} %}\
         {{ [messages[0].content, m] == [messages[1].content, m] }}",
        ["a", "b"],
        ["a", "a"],
    ),
    (
        "{% set d = {'nan' | float: messages[0].content} %}{{ [messages[0].content, d] == [messages[1].content, d] }}",
        ["a", "b"],
        ["a", "a"],
    ),
    // Nor is a view equal to another.
    (
        "{% set d = {'a': 1} %}{% set v = d.values() %}{{ [messages[0].content, v] == [messages[1].content, v] }}",
        ["a", "b"],
        ["a", "a"],
    ),
    // Answers that are texts have placeholders, as many as there are.
    (
        "{% set c = messages[0].content %}{% for i in range(65600) %}{% set x = c[0:1] %}{% endfor %}\
         {{ c[0:1] == 'a' }}",
        ["b", "y"],
        ["a", "y"],
    ),
    ("{% macro f(a, b) %}{{ a }}{% endmacro %}{{ f(*messages[0].content) }}", ["ab", "y"], ["cd", "y"]),
    ("{% macro f(x='d') %}{{ x }}{% endmacro %}{{ f(messages[0].content) }}", ["ab", "y"], ["cd", "y"]),
];

fn conversation(texts: [&str; 2]) -> Json {
    let message = |text: &str| {
        Json::Object(vec![
            ("role".into(), Json::String("user".to_owned())),
            ("content".into(), Json::String(text.to_owned())),
        ])
    };
    Json::Object(vec![("messages".into(), Json::List(texts.map(message).to_vec()))])
}

#[test]
fn roundabout_looks_are_seen() {
    for (source, first, second) in ROUNDABOUT {
        let template = compile(source).expect(source);
        compare(&template, &[conversation(first), conversation(second)], false);
    }
}

/// What a template has no fuel for is an error, also where it had some for a conversation of the same shape.
#[test]
fn skeletons_have_no_more_fuel_than_the_template() {
    let long = |text: &str, count: usize| text.repeat(count);
    let cases = [
        // A replacement that grows.
        (
            "{{ messages[0].content.replace('a', messages[1].content) }}",
            [long("a", 100_000), long("b", 100_000)],
        ),
        (
            "{% set s = 'a' * 25000 %}{% for i in range(10) %}{% set x = s | replace('a', messages[0].content) %}\
             {% endfor %}",
            [long("b", 1200), "y".to_owned()],
        ),
        // Sorting takes more than its items.
        (
            "{% for i in range(20) %}{{ messages[0].content | max }}{% endfor %}",
            [long("z", 40_000), "y".to_owned()],
        ),
        // The machine charges for what a filter returns.
        (
            "{% for i in range(5000) %}{% set x = nope | default(default_value=messages[0].content) %}{% endfor %}",
            [long("z", 100_000), "y".to_owned()],
        ),
        // And for its arguments.
        (
            "{% macro f(x='d') %}{% endmacro %}{% for i in range(5000) %}{{ f(messages[0].content) }}{% endfor %}",
            [long("z", 100_000), "y".to_owned()],
        ),
        // Also of what another one has returned.
        (
            "{% set c = messages[0].content | upper %}{% for i in range(5000) %}{% set x = nope | default(c) %}{% endfor %}",
            [long("z", 100_000), "y".to_owned()],
        ),
        (
            "{% set n = namespace(x=messages[0].content) %}{% for i in range(5000) %}{% set x = n['x'] %}{% endfor %}",
            [long("z", 100_000), "y".to_owned()],
        ),
    ];
    for (source, texts) in cases {
        let template = compile(source).expect(source);
        let chats = [conversation(["z", "y"]), conversation([&*texts[0], &*texts[1]])];
        assert!(template.run(&input(&chats[1], false)).is_err(), "{source}");
        compare(&template, &chats, false);
        assert!(filled(&template, &input(&chats[0], false)).is_some(), "{source}");
    }
}

/// What belongs to a shape is told apart, also where it is alike but for where one text ends.
#[test]
fn other_tools_are_another_shape() {
    let template = compile("{{ tools }}").expect("it compiles");
    let tools = [
        r#"["as", "b"]"#, r#"["a", "sb"]"#, r#"["asb"]"#, "[1]", "[1.0]", "[true]", r#"["1"]"#, "[[]]",
        "[{}]",
    ];
    let chat = |tools: &str| {
        let chat =
            format!(r#"{{"messages": [{{"role": "user", "content": "a"}}], "tools": [{{"k": {tools}}}]}}"#);
        Json::parse(&chat).expect("JSON")
    };
    assert_eq!(compare(&template, &tools.map(chat), false), 0);
}

/// Lists that share their parts are looked at for a while only.
#[test]
fn a_skeleton_of_shared_parts_is_given_up() {
    let source = "{% set n = namespace(a=['x']) %}{% for i in range(64) %}{% set n.a = [n.a, n.a] %}{% endfor %}\
                  {{ messages[0].content }}";
    let template = compile(source).expect("it compiles");
    compare(&template, &[conversation(["a", "b"]), conversation(["c", "d"])], false);
}

proptest! {
    #[test]
    fn conversations_are_rendered_the_same_by_skeletons(
        file in 0..FILES.len(),
        chat in 0..20_usize,
        texts in prop::collection::vec(
            prop::collection::vec("(<think>)?[ \n]?[a-c</]{0,3}(</think>)?[ \n]?|[é\u{1c}]{1,2}", 1..6),
            2..8,
        ),
        prompt: bool,
    ) {
        let template = compile(&template(FILES[file])).expect("it compiles");
        let chat = &lines("tests/data/chats.jsonl")[chat];
        let with = |texts: &Vec<String>| with_words(chat, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        compare(&template, &texts.iter().map(with).collect::<Vec<_>>(), prompt);
    }
}
