//! Mistakes with every key that there is: wrong types, bounds, names and sections, in all three formats. The message
//! names the file, in TOML the line, and the key, in plain words.

use std::collections::BTreeMap;

use millstream_train::RunConfig;
use serde_json::{Value, json};

use super::Checker;

/// What nobody says of a config but serde and Rust.
const JARGON: [&str; 17] = [
    "expected", "invalid", "variant", "u64", "usize", "u32", "f64", "f32", "struct", "sequence", "map",
    "field `", "missing", "newtype", "tuple", "unit", "visitor",
];

/// A key: the tables around it, and its name.
#[derive(Clone, Debug)]
struct Key {
    section: Vec<&'static str>,
    name: String,
    is_table: bool,
}

impl Key {
    /// As messages write it, with the first of several sources.
    fn dotted(&self) -> String {
        let parts = self.section.iter().map(|part| if *part == "source" { "source.0" } else { part });
        parts.chain([self.name.as_str()]).collect::<Vec<_>>().join(".")
    }

    /// As advice writes it.
    fn plain(&self) -> String {
        self.section.iter().copied().chain([self.name.as_str()]).collect::<Vec<_>>().join(".")
    }
}

/// The sections, each with the struct that the schema has for it.
const SECTIONS: [(&[&str], &str); 16] = [
    (&[], ""),
    (&["source"], "SourceConfig"),
    (&["source", "chat"], "ChatConfig"),
    (&["source", "chat", "turn"], "TurnConfig"),
    (&["source", "fim"], "FimConfig"),
    (&["source", "csv"], "CsvConfig"),
    (&["source", "sample"], "SampleConfig"),
    (&["source", "cache"], "TokenCacheConfig"),
    (&["mixture"], "MixtureConfig"),
    (&["exclude"], "ExcludeConfig"),
    (&["store"], "StoreConfig"),
    (&["tokenizer"], "TokenizerConfig"),
    (&["tokenizer", "train"], "LearnConfig"),
    (&["pipeline"], "PipelineConfig"),
    (&["model"], "ModelConfig"),
    (&["train"], "TrainConfig"),
];

/// Every key of the schema.
fn keys() -> Vec<Key> {
    let schema = RunConfig::schema();
    let is_table = |of: &[&str]| SECTIONS.iter().any(|(section, _)| *section == of);
    let keys_of = |(section, table): &(&'static [&'static str], &str)| {
        let table = if table.is_empty() { &schema } else { &schema["definitions"][table] };
        let names: Vec<String> = table["properties"].as_object().expect("keys").keys().cloned().collect();
        let section = section.to_vec();
        names.into_iter().map(move |name| {
            let is_table = is_table(&[&section[..], &[name.as_str()]].concat());
            Key { section: section.clone(), name, is_table }
        })
    };
    let keys: Vec<Key> = SECTIONS.iter().flat_map(keys_of).collect();
    assert!(keys.len() > 100, "{}", keys.len());
    keys
}

/// A config with one key set, and what else that key needs.
fn config(section: &[&str], name: &str, value: &Value) -> Value {
    let mut config = json!({});
    if let ["source", rest @ ..] = section {
        let kind = if rest == ["csv"] { "csv" } else { "jsonl" };
        config["source"] = json!([{ "kind": kind, "paths": ["a"], "field": "text" }]);
        if let ["chat" | "fim", ..] = rest {
            config["source"][0]["task"] = json!(rest[0]);
        }
    }
    let mut table = &mut config;
    for part in section {
        let next = &mut table[part];
        table = if next.is_array() { &mut next[0] } else { next };
        if table.is_null() {
            *table = json!({});
        }
    }
    match section {
        ["source", "sample"] => (table["field"], table["max"]) = (json!("weight"), json!(1)),
        ["source", "cache"] => table["path"] = json!("tokens"),
        ["source", "chat", "turn"] => (table["begin"], table["end"]) = (json!("<"), json!(">")),
        _ => {}
    }
    table[name] = value.clone();
    config
}

/// The config as YAML in blocks, one key on each line.
fn yaml(value: &Value, indent: &str) -> String {
    let entries = value.as_object().expect("a table").iter();
    let line = |(key, value): (&String, &Value)| match value {
        Value::Object(table) if !table.is_empty() => {
            format!("{indent}{key}:\n{}", yaml(value, &format!("{indent}  ")))
        }
        Value::Array(list) if key == "source" && list.iter().all(Value::is_object) => {
            let items =
                list.iter().map(|item| format!("{indent}  -\n{}", yaml(item, &format!("{indent}    "))));
            format!("{indent}{key}:\n{}", items.collect::<String>())
        }
        flow => format!("{indent}{key}: {flow}\n"),
    };
    entries.map(line).collect()
}

/// The config in a format, and the number of the line that sets the key.
fn written(format: &str, config: &Value, name: &str) -> (String, usize) {
    let (text, begins) = match format {
        "toml" => (
            toml::to_string(config).expect("TOML"),
            ["", "]"]
                .iter()
                .flat_map(|end| [format!(".{name}]{end}"), format!("[{name}]{end}")])
                .chain([format!("{name} =")])
                .collect(),
        ),
        "json" => (serde_json::to_string_pretty(config).expect("JSON"), vec![format!("{name:?}:")]),
        _ => (yaml(config, ""), vec![format!("{name}:")]),
    };
    let text = if format == "json" { text } else { format!("# a config\n\n{text}") };
    let is_it =
        |line: &str| begins.iter().any(|begin| line.trim_start().starts_with(begin) || line.ends_with(begin));
    // Of several keys with the name, it is the innermost.
    let lines: Vec<&str> = text.lines().collect();
    let line =
        lines.iter().rposition(|line| is_it(line)).unwrap_or_else(|| panic!("{name} is nowhere in {text}"));
    (text, line + 1)
}

/// Where configs are written, and what they are checked with.
struct Bench {
    directory: tempfile::TempDir,
    checker: Checker,
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), checker: Checker::new() }
    }

    /// The message about a config file, without its directory; `None` if it is accepted.
    fn refused(&self, format: &str, text: &str) -> Option<String> {
        let path = self.directory.path().join(format!("c.{format}"));
        std::fs::write(&path, text).expect("a file");
        let said = RunConfig::load(&path).err()?.to_string();
        Some(said.replace(&path.display().to_string(), &format!("c.{format}")))
    }
}

/// What a message about a line begins with.
fn place(format: &str, line: usize) -> String {
    if format == "toml" { format!("c.toml:{line}:") } else { format!("c.{format}: ") }
}

/// Whether a message speaks as people do.
fn is_plain(said: &str) -> bool {
    // The config's own words stand in quotes.
    let own = said.split(['`', '"']).step_by(2).collect::<String>();
    JARGON.iter().all(|word| !own.contains(word))
}

#[test]
fn values_of_the_wrong_type_or_out_of_bounds_are_told_with_their_place() {
    let bench = Bench::new();
    let values = [
        json!("eight"),
        json!(""),
        json!(8),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e18),
        json!(true),
        json!([1]),
        json!(["x", 1]),
        json!([[1, 2, 3]]),
        json!({ "x": 1 }),
        json!([{ "x": 1 }]),
    ];
    let mut refused = 0;
    for key in keys() {
        for value in &values {
            let config = config(&key.section, &key.name, value);
            let fits = bench.checker.check(&config).is_ok();
            for format in ["toml", "json", "yaml"] {
                let (text, line) = written(format, &config, &key.name);
                let Some(said) = bench.refused(format, &text) else {
                    assert!(fits, "{format}: {} = {value} is accepted", key.dotted());
                    continue;
                };
                refused += 1;
                let dotted = key.dotted();
                assert!(is_plain(&said), "{dotted} = {value}: {said}");
                if !fits {
                    assert!(said.contains(&dotted), "{dotted} = {value}: {said}");
                }
                // A table or a list may have its fault in a later line.
                let is_at = match value {
                    Value::Array(_) | Value::Object(_) => said.starts_with(&format!("c.{format}:")),
                    _ => said.starts_with(&place(format, line)),
                };
                assert!(is_at || fits, "{dotted} = {value} on line {line}: {said}\n{text}");
                assert!(said.starts_with(&format!("c.{format}:")), "{said}");
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_misspelt_key_names_the_one_that_was_meant() {
    let bench = Bench::new();
    for key in keys() {
        let wrong = format!("{}z", key.name);
        let config = config(&key.section, &wrong, &json!(1));
        for format in ["toml", "json", "yaml"] {
            let (text, line) = written(format, &config, &wrong);
            let said = bench.refused(format, &text).expect("an unknown key");
            assert!(said.starts_with(&place(format, line)), "{wrong}: {said}");
            assert!(said.contains(&format!("unknown key `{wrong}`")), "{said}");
            assert!(said.contains(&key.name) && is_plain(&said), "{wrong}: {said}");
        }
    }
}

#[test]
fn a_key_in_the_wrong_section_is_sent_to_its_own() {
    let bench = Bench::new();
    let keys = keys();
    let mut of_section: BTreeMap<&[&str], Vec<&str>> = BTreeMap::new();
    for key in &keys {
        of_section.entry(&key.section).or_default().push(&key.name);
    }
    for key in keys.iter().filter(|key| !key.is_table) {
        for (section, known) in &of_section {
            if known.contains(&key.name.as_str()) {
                continue;
            }
            let config = config(section, &key.name, &json!(1));
            let (text, line) = written("toml", &config, &key.name);
            let said = bench.refused("toml", &text).expect("an unknown key");
            assert!(said.starts_with(&format!("c.toml:{line}:")), "{said}\n{text}");
            assert!(said.contains("it is `") && said.contains(&format!("`{}`", key.plain())), "{said}");
        }
    }
    let said = bench.refused("toml", "[[source]]\npath = \"x\"").expect("an unknown key");
    assert!(said.contains("did you mean `paths`? Elsewhere it is `"), "{said}");
    let said = bench.refused("toml", "[train]\nbatch_size = 8").expect("an unknown key");
    assert_eq!(said, "c.toml:2:1: train.batch_size: unknown key `batch_size`; it is `pipeline.batch_size`");
    let said = bench.refused("toml", "[model]\nseed = 8").expect("an unknown key");
    assert!(said.contains("it is `seed` at the top of the config or `source.seed`"), "{said}");
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let bench = Bench::new();
    for (format, text, place) in [
        ("toml", "[pipeline]\nlanes = 1\nlanes = 2\n", "c.toml:3:1: not valid TOML: duplicate key"),
        ("json", "{\n\"pipeline\": {\n\"lanes\": 1,\n\"lanes\": 2 } }", "c.json:4:"),
        ("yaml", "pipeline:\n  lanes: 1\n  lanes: 2\n", "c.yaml:3:3: not valid YAML: duplicate"),
    ] {
        let said = bench.refused(format, text).expect("a key is there twice");
        assert!(said.starts_with(place) && (format == "toml" || said.contains("lanes")), "{said}");
    }
}

#[test]
fn tables_and_lists_are_told_apart() {
    let bench = Bench::new();
    let said = |text: &str| bench.refused("toml", text).expect("a mistake");
    assert_eq!(
        said("[source]\npaths = [\"a\"]"),
        "c.toml:1:2: `source` must be a list, not a table; in TOML its header has two brackets, as [[source]] has"
    );
    assert_eq!(said("[[pipeline]]\nlanes = 1"), "c.toml:1:3: `pipeline` must be a table, not a list");
    assert_eq!(
        said("[[source]]\npaths = \"a.txt\"\non_error = { skip = -1 }"),
        "c.toml:3:1: source.0.on_error: cannot skip -1 documents; write 0 or more"
    );
    assert_eq!(said("pipeline = 3"), "c.toml:1:1: `pipeline` must be a table, not 3");
    assert_eq!(said("source = \"a.txt\""), "c.toml:1:1: `source` must be a list, not \"a.txt\"");
    assert_eq!(
        said("[[source]]\npaths = [\"a\"]\ncache = \"tokens\""),
        "c.toml:3:1: `source.0.cache` must be a table such as { path = \"tokens\", limit = \"50GiB\" }, not \"tokens\""
    );
    assert_eq!(
        said("[[source]]\npaths = [\"a\"]\ncache = {}"),
        "c.toml:3:1: `source.0.cache` must have the key `path`"
    );
}

#[test]
fn text_that_is_not_valid_has_its_place() {
    let bench = Bench::new();
    for (format, text, begin) in [
        ("toml", "seed = 1\nlanes = = 2", "c.toml:2:9: not valid TOML: "),
        ("json", "{\n  \"seed\": ,\n}", "c.json:2:11: not valid JSON: "),
        ("yaml", "seed: 1\npipeline: [1, 2\n", "c.yaml:"),
    ] {
        let said = bench.refused(format, text).expect("not valid");
        assert!(said.starts_with(begin) && !said.contains('\n'), "{said}");
    }
}
