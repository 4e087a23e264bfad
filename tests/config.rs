//! Configs: the three formats, settings over them, and what is said about mistakes.

use std::num::NonZeroUsize;

use millstream::Config;
use millstream::config::{ByteCount, DocumentKind, OnError, Pack, Packing, SourceKind};

const TOML: &str = r#"
seed = 7
[[source]]
kind = "jsonl"
paths = ["a/*.jsonl"]
field = "doc.text"
max_document_bytes = "1MiB"
on_error = { skip = 100 }
[tokenizer]
path = "tokenizer.json"
eos = "<|endoftext|>"
[pipeline]
lanes = 2
shuffle_splits = false
window = 1
pack = "pad"
memory = 1048576
epochs = 1
[train]
steps = 5
"#;

fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("not zero")
}

fn load(name: &str, text: &str, settings: &[&str]) -> Result<Config, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a file");
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let shown = path.display().to_string();
    Config::load_with(&path, &settings).map_err(|error| error.to_string().replace(&shown, name))
}

#[test]
fn toml_json_and_yaml_say_the_same() {
    let config = load("c.toml", TOML, &[]).expect("it loads");
    assert_eq!(config.seed, 7);
    assert_eq!(config.sources[0].kind, SourceKind::Jsonl);
    assert_eq!(config.sources[0].on_error, OnError::Skip(100));
    assert_eq!(config.sources[0].max_document_bytes, ByteCount::mib(1));
    assert_eq!(config.pipeline.pack, Pack::Pad);
    assert_eq!(config.pipeline.packing(), Packing::new(Pack::Pad, 1024));
    assert_eq!(config.pipeline.memory, ByteCount::mib(1));
    assert_eq!(config.pipeline.epochs, Some(1));

    let json = serde_json::to_string(&config).expect("it serializes");
    assert_eq!(load("c.json", &json, &[]), Ok(config.clone()));
    let yaml = "
seed: 7
source:
  - kind: jsonl
    paths: [a/*.jsonl]
    field: doc.text
    max_document_bytes: 1MiB
    on_error: { skip: 100 }
tokenizer: { path: tokenizer.json, eos: <|endoftext|> }
pipeline: { lanes: 2, shuffle_splits: false, window: 1, pack: pad, memory: 1048576, epochs: 1 }
train: { steps: 5 }
";
    assert_eq!(load("c.yaml", yaml, &[]), Ok(config));
}

#[test]
fn settings_go_over_the_file() {
    let settings = [
        "train.steps=100",
        "pipeline.window = 9",
        "pipeline.memory=2MiB",
        "pipeline.pack=best_fit",
        "pipeline.ahead=3",
        "pipeline.max_segments=7",
        "pipeline.pack_window=99",
        "source.0.kind=text",
        "source.0.document=\"file\"",
        "source.0.on_error.skip=3",
        "source.0.paths=[\"x\", \"y\"]",
        "train.prompt=pub fn = ",
        "train.lr=1e-2",
    ];
    let text = TOML.replace("field = \"doc.text\"\n", "");
    let config = load("c.toml", &text, &settings).expect("it loads");
    assert_eq!(config.train.steps, 100);
    assert_eq!(config.pipeline.window().get(), 9);
    assert_eq!(config.pipeline.memory, ByteCount::mib(2));
    let (ahead, max_segments, window) = (n(3), Some(n(7)), n(99));
    let packing = Packing { ahead, max_segments, window, ..Packing::new(Pack::BestFit, 1024) };
    assert_eq!((config.pipeline.packing(), packing.width()), (packing, 1027));
    assert_eq!(config.sources[0].document, DocumentKind::File);
    assert_eq!(config.sources[0].on_error, OnError::Skip(3));
    assert_eq!(config.sources[0].paths, ["x", "y"]);
    assert_eq!(config.train.prompt, "pub fn =");
    assert_eq!(config.train.lr, 1e-2);
    let text = text.replace("on_error = { skip = 100 }\n", "on_error = \"fail\"\n");
    assert_eq!(load("c.toml", &text, &settings).expect("it loads").sources[0].on_error, OnError::Skip(3));
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let said = |from: &str, to: &str| {
        assert!(TOML.contains(from));
        load("c.toml", &TOML.replace(from, to), &[]).expect_err("a mistake")
    };
    assert_eq!(said("window", "windw"), "pipeline.windw: unknown key `windw`; did you mean `window`?");
    assert_eq!(said("[train]", "[trian]"), "trian: unknown key `trian`; did you mean `train`?");
    assert_eq!(said("\"jsonl\"", "\"json\""), "source.0.kind: unknown value `json`; did you mean `jsonl`?");
    assert_eq!(
        said("max_document_bytes = \"1MiB\"", "max_document_bytes = \"1 lot\""),
        "source.0.max_document_bytes: invalid value: string \"1 lot\", \
         expected a number of bytes, such as 1048576 or \"1MiB\""
    );
    assert_eq!(
        said("window = 1", "window = 0"),
        "pipeline.window: invalid value: integer `0`, expected a number of at least 1, or \"auto\""
    );
    assert_eq!(said("epochs = 1", "seq_len = 0"), "pipeline.seq_len: 0 must be from 1 to 16777216");
    assert_eq!(said("epochs = 1", "ahead = 1025"), "pipeline.ahead: 1025 must be at most pipeline.seq_len");
    assert_eq!(
        said("epochs = 1", "pack_window = 16777217"),
        "pipeline.pack_window: 16777217 must be from 1 to 16777216"
    );
    assert_eq!(
        said("field = \"doc.text\"\n", ""),
        "source.0.field: a jsonl source needs the field that holds the text, such as \"text\""
    );
    assert_eq!(
        said("path = \"tokenizer.json\"", "path = \"t.json\"\ntrain = {}"),
        "tokenizer: both `path` (t.json) and `train` are set; keep one"
    );
    assert_eq!(said("steps = 5", "steps = 0"), "train.steps: 0 must be at least 1");
    let broken = said("seed = 7", "seed = = 7");
    assert!(broken.starts_with("c.toml: TOML parse error at line 2, column 8"), "{broken}");
    assert_eq!(
        load("c.txt", "", &[]),
        Err("c.txt: a config is a .toml, .json, .yaml or .yml file".to_owned())
    );
    assert_eq!(
        load("c.toml", TOML, &["train.steps"]),
        Err("train.steps: a setting is key=value, such as train.steps=100".to_owned())
    );
    assert_eq!(
        load("c.toml", TOML, &["source.3.kind=text"]),
        Err("source.3.kind: `3` is no element of a list of 1".to_owned())
    );
}
