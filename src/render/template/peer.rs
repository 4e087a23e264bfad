//! What transformers renders is rendered here: the same bytes, the same generation ranges, the same refusals.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Template;
use super::skeleton::tests::{WORDS, compile, input, with_words};
use crate::render::json::Json;

/// What is rendered otherwise: a part of the template, and why.
const OTHERWISE: [(&str, &str); 3] = [
    ("{{ 1 < 'a' }}", "minijinja compares constants"),
    ("{{ none < 1 }}", "minijinja compares constants"),
    ("{% macro f(x) %}--{% generation %}", "the reference counts from where the macro begins"),
];

/// What is refused, and rendered by the reference.
const REFUSED: [&str; 20] = [
    "autoescape",
    "{% block ",
    "{% raw ",
    " recursive %}",
    "loop.cycle(",
    "{% macro m(a, b=a) %}",
    "{% filter upper %}b{% if x == 1 %}{% continue",
    "| groupby",
    "| sum",
    "is sameas",
    "cycler(",
    "{:>5}",
    "isdigit(",
    "'%5d' %",
    "0 < messages | length < 9",
    "messages * 2",
    "{{ range(5) }}",
    "10 ** 39",
    "\\N{",
    "\\U0001F980",
];

/// The fewest templates that are known to be there: those of TRL, and those of other packages.
const TEMPLATES: [usize; 2] = [60, 100];

/// The Python that has transformers and TRL, if the environment names one.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("TORCH_PYTHON").map(PathBuf::from);
    if python.is_none() {
        let how = "set TORCH_PYTHON to a Python with transformers, jinja2 and trl";
        assert!(std::env::var_os("MILLSTREAM_REQUIRE_TORCH").is_none(), "{how}");
        eprintln!("skipped: chat templates of transformers: {how}");
    }
    python
}

/// A rendering: its text with its generation ranges, or `None` if it is refused.
type Rendering = Option<(String, Vec<Range<usize>>)>;

fn expected(json: &Json) -> Rendering {
    let Some(Json::List(ranges)) = json.get("generated") else { return None };
    let place = |range: &Json, end: usize| match range {
        Json::List(ends) => match ends[end] {
            Json::Int(place) => usize::try_from(place).expect("a place"),
            _ => panic!("a place is an integer"),
        },
        _ => panic!("a range has two ends"),
    };
    let ranges = ranges.iter().map(|range| place(range, 0)..place(range, 1)).collect();
    Some((json.get("text").and_then(Json::as_str).expect("a text").to_owned(), ranges))
}

fn rendered(
    template: &Result<Template, String>,
    chat: &Json,
    add_generation_prompt: bool,
) -> Result<Rendering, String> {
    let template = template.as_ref().map_err(String::clone)?;
    let text = template.render(&input(chat, add_generation_prompt)).map_err(|e| e.what)?;
    Ok(Some((text.text, text.generated)))
}

#[test]
fn transformers_renders_the_same() {
    let Some(python) = python() else { return };
    // Other packages' templates.
    let others = std::env::var_os("CHAT_TEMPLATES");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chats = root.join("tests/data/chats.jsonl");
    let output = Command::new(python)
        .arg(root.join("tests/support/template_peer.py"))
        .args([&chats, &root.join("tests/data/templates.jsonl")])
        .args(&others)
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).expect("text");
    let mut output = output.lines().map(|line| Json::parse(line).expect("JSON"));
    let chats = std::fs::read_to_string(chats).expect("chats");
    let chats: Vec<Json> = chats.lines().map(|line| Json::parse(line).expect("JSON")).collect();

    let (mut files, mut differences) = (0, Vec::new());
    let mut differ = [0; OTHERWISE.len() + REFUSED.len()];
    while let Some(template) = output.next() {
        let string = |key: &str| template.get(key).and_then(Json::as_str).expect("a string").to_owned();
        let (name, source) = (string("template"), string("source"));
        files += usize::from(name.ends_with(".jinja"));
        let compiled = compile(&source).map_err(|e| e.what);
        let otherwise = OTHERWISE.iter().position(|(part, _)| name.contains(part));
        let refused = REFUSED.iter().position(|part| otherwise.is_none() && name.contains(part));
        let Some(&Json::Int(count)) = template.get("chats") else { panic!("a template has chats") };
        for chat in &chats[..usize::try_from(count).expect("a count")] {
            for prompt in [false, true] {
                let reference = output.next().expect("a rendering");
                // Others of the same shape come before, so that it is rendered by a skeleton if one fits.
                for words in WORDS {
                    let _ = rendered(&compiled, &with_words(chat, words), prompt);
                }
                let (ours, theirs) = (rendered(&compiled, chat, prompt), expected(&reference));
                match (otherwise, refused) {
                    _ if ours.as_ref().ok().cloned().flatten() == theirs => {}
                    (Some(place), _) => differ[place] += 1,
                    (_, Some(place)) if ours.is_err() => differ[OTHERWISE.len() + place] += 1,
                    _ => differences.push(format!(
                        "{name}: {:?}, prompt {prompt}\n  ours   {ours:?}\n  theirs {theirs:?}",
                        chat.get("name")
                    )),
                }
            }
        }
    }
    let least = TEMPLATES[..=usize::from(others.is_some())].iter().sum();
    assert!(files >= least, "there are {files} templates");
    let some = &differences[..differences.len().min(10)];
    assert!(some.is_empty(), "{} renderings differ\n{}", differences.len(), some.join("\n"));
    // What has come to be the same is no exception any more.
    let exceptions = OTHERWISE.iter().map(|(part, _)| part).chain(&REFUSED);
    for (part, count) in exceptions.zip(differ) {
        assert!(count > 0, "{part} is rendered as by the reference");
    }
}
