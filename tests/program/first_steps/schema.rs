//! `millstream config schema`.

use millstream_train::RunConfig;
use serde_json::{Value, json};

use super::{root, text};
use crate::config::Checker;

fn toml(text: &str) -> Value {
    toml::from_str(text).expect("TOML")
}

/// The configs that ship.
fn shipped() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join("configs")).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let configs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let read = |path: std::path::PathBuf| {
        (path.display().to_string(), std::fs::read_to_string(&path).expect("a config"))
    };
    configs.map(read).collect()
}

/// Every kind of value that configs have.
const ALL: &str = r#"
seed = 7
[[source]]
name = "web"
weight = 0.5
epochs = 2
kind = "jsonl"
paths = ["a/*.jsonl", "s3://bucket/*.jsonl"]
field = "doc.text"
sample = { field = "quality", max = 5.0 }
split = "1.5 MB"
max_document_bytes = 1048576
oversize = "truncate"
on_error = { skip = 100 }
[[source]]
weight = 1
kind = "text"
paths = "b.txt"
cache = { path = "tokens" }
document = "paragraph"
on_error = "fail"
[mixture]
temperature = 2
[[mixture.changes]]
batch = 20000
weights = { web = 1.0, 1 = 1 }
[exclude]
batches = [[735, 745]]
documents = [{ path = "web/7.txt", byte = 81920 }]
[store]
block = "8MiB"
timeout = 10
deadline = "1m30s"
[tokenizer]
path = "ranks.tiktoken"
pattern = "gpt2"
special = { "<|endoftext|>" = 50256 }
special_tokens = "parse"
eos = "<|endoftext|>"
[pipeline]
lanes = "auto"
window = 1
pack = "best_fit"
max_segments = 4
holdout = 0
buckets = [64, 1024]
memory = "512mib"
workers = 4
depth = "auto"
[model]
activation = "gelu"
[train]
precision = "bf16"
lr = 1
"#;

#[test]
fn the_schema_that_ships_is_the_one_that_is_printed() {
    let path = root().join("configs/schema.json");
    let shipped = std::fs::read_to_string(&path).expect("configs/schema.json");
    let printed = text(root(), &["config", "schema"]);
    assert_eq!(
        shipped, printed,
        "print it again: cargo run --release -- config schema > configs/schema.json"
    );
    assert_eq!(serde_json::from_str::<Value>(&printed).expect("JSON"), RunConfig::schema());
}

#[test]
fn configs_that_load_fit_the_schema() {
    let checker = Checker::new();
    let shipped = shipped();
    assert!(shipped.len() >= 4);
    for (path, config) in &shipped {
        assert!(config.starts_with("#:schema schema.json\n"), "{path}: its first line names the schema");
        checker.check(&toml(config)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    checker.check(&toml(ALL)).unwrap_or_else(|e| panic!("{e}"));
    let default = serde_json::to_value(RunConfig::default()).expect("JSON");
    checker.check(&default).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn wrong_keys_and_values_do_not_fit() {
    let checker = Checker::new();
    let whole = toml(ALL);
    let config = serde_json::from_value::<RunConfig>(whole.clone()).expect("a config");
    config.validate().expect("what fits is accepted");
    let wrong = [
        ("/windw", json!(1)),
        ("/pipeline/windw", json!(1)),
        ("/source/0/feild", json!("text")),
        ("/source/1/cache/size", json!(1)),
        ("/source/0/kind", json!("json")),
        ("/source/0/paths", json!(1)),
        ("/source/0/paths", json!(["a.jsonl", 1])),
        ("/store/timeout", json!("a while")),
        ("/store/timeout", json!(0)),
        ("/source/0/split", json!("1 lot")),
        ("/source/0/split", json!("1.5")),
        ("/source/0/split", json!("512iB")),
        ("/source/0/split", json!(-1)),
        ("/source/0/epochs", json!(0)),
        ("/source/0/on_error", json!("skip")),
        ("/source/0/on_error", json!({ "skip": -1 })),
        ("/source/0/on_error", json!({ "skip": 1, "fail": 1 })),
        ("/source/0/sample/max", json!(0)),
        ("/exclude/batches/0", json!([1])),
        ("/exclude/documents/0/line", json!(1)),
        ("/tokenizer/special_tokens", json!("ignore")),
        ("/pipeline/lanes", json!(0)),
        ("/pipeline/lanes", json!("many")),
        ("/pipeline/lanes", json!(1.5)),
        ("/pipeline/seq_len", json!(0)),
        ("/pipeline/holdout", json!(1)),
        ("/pipeline/memory", json!("lots")),
        ("/pipeline/pack", json!("bestfit")),
        ("/train/lr", json!(0)),
        ("/train/precision", json!("f16")),
        ("/seed", json!("random")),
    ];
    for (place, value) in wrong {
        let mut config = whole.clone();
        let (table, key) = place.rsplit_once('/').expect("a place");
        let table = config.pointer_mut(table).expect("a table");
        match table {
            Value::Array(list) => list[key.parse::<usize>().expect("a number")] = value.clone(),
            table => table[key] = value.clone(),
        }
        assert!(checker.check(&config).is_err(), "{place} = {value} fits");
        let refused = serde_json::from_value::<RunConfig>(config).map(|config| config.validate());
        assert!(!matches!(refused, Ok(Ok(()))), "{place} = {value} is accepted by the loader");
    }
}

#[test]
fn every_key_is_described_and_has_its_default() {
    let schema = RunConfig::schema();
    let definitions = schema["definitions"].as_object().expect("definitions");
    let tables = definitions.iter().map(|(name, table)| (name.as_str(), table));
    let all = tables.chain([("Config", &schema)]);
    let mut keys = 0;
    for (name, table) in all {
        for (key, property) in table["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}");
            keys += 1;
        }
    }
    assert!(keys > 80, "{keys}");
    let pipeline = &schema["definitions"]["PipelineConfig"]["properties"];
    assert_eq!(pipeline["seq_len"]["default"], 1024);
    assert_eq!(pipeline["memory"]["default"], "512MiB");
    assert_eq!(pipeline["lanes"]["default"], "auto");
}
