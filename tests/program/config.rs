//! Configs: the three formats, settings over them, and what is said about mistakes.

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use millstream::Config;
use millstream::config::{
    ByteCount, DocumentKind, OnError, PackRule, Packing, PipelineConfig, SourceConfig, SourceKind,
    TokenizerConfig,
};
use millstream_train::RunConfig;
use serde_json::Value;

mod mistakes;
mod settings;

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

/// Says whether a config fits the schema.
pub(crate) struct Checker {
    schemas: Schemas,
    schema: SchemaIndex,
}

impl Checker {
    pub(crate) fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.set_default_draft(Draft::V7);
        compiler.add_resource("schema.json", RunConfig::schema()).expect("a resource");
        let schema = compiler.compile("schema.json", &mut schemas).expect("a schema");
        Self { schemas, schema }
    }

    pub(crate) fn check(&self, config: &Value) -> Result<(), String> {
        self.schemas.validate(config, self.schema).map_err(|e| e.to_string())
    }
}

fn load(name: &str, text: &str, settings: &[&str]) -> Result<RunConfig, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a file");
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let shown = path.display().to_string();
    RunConfig::load_with(&path, &settings).map_err(|error| error.to_string().replace(&shown, name))
}

#[test]
fn toml_json_and_yaml_say_the_same() {
    let config = load("c.toml", TOML, &[]).expect("it loads");
    assert_eq!(config.data.seed, 7);
    assert_eq!(config.data.sources[0].kind, SourceKind::Jsonl);
    assert_eq!(config.data.sources[0].on_error, OnError::Skip(100));
    assert_eq!(config.data.sources[0].max_document_bytes, ByteCount::mib(1));
    assert_eq!(config.data.pipeline.pack, PackRule::Pad);
    assert_eq!(config.data.pipeline.packing(), Packing::new(PackRule::Pad, 1024));
    assert_eq!(config.data.pipeline.memory, ByteCount::mib(1));
    assert_eq!(config.data.pipeline.epochs, Some(1));

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
        "train.steps=100", "pipeline.window = 9", "pipeline.memory=2MiB", "pipeline.pack=best_fit",
        "pipeline.ahead=3", "pipeline.max_segments=7", "pipeline.pack_window=99", "source.0.kind=text",
        "source.0.document=\"file\"", "source.0.on_error.skip=3", "source.0.paths=[\"x\", \"y\"]",
        "train.prompt=pub fn = ", "train.lr=1e-2",
    ];
    let text = TOML.replace("field = \"doc.text\"\n", "");
    let config = load("c.toml", &text, &settings).expect("it loads");
    assert_eq!(config.train.steps, 100);
    assert_eq!(config.data.pipeline.window(), Some(9));
    assert_eq!(config.data.pipeline.memory, ByteCount::mib(2));
    let (ahead, max_segments, window) = (3, Some(7), 99);
    let packing = Packing { ahead, max_segments, window, ..Packing::new(PackRule::BestFit, 1024) };
    assert_eq!((config.data.pipeline.packing(), packing.width()), (packing, 1027));
    assert_eq!(config.data.sources[0].document, DocumentKind::File);
    assert_eq!(config.data.sources[0].on_error, OnError::Skip(3));
    assert_eq!(config.data.sources[0].paths, ["x", "y"]);
    assert_eq!(config.train.prompt, "pub fn =");
    assert_eq!(config.train.lr, Some(1e-2));
    let text = text.replace("on_error = { skip = 100 }\n", "on_error = \"fail\"\n");
    assert_eq!(
        load("c.toml", &text, &settings).expect("it loads").data.sources[0].on_error,
        OnError::Skip(3)
    );
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let said = |from: &str, to: &str| {
        assert!(TOML.contains(from));
        load("c.toml", &TOML.replace(from, to), &[]).expect_err("a mistake")
    };
    assert_eq!(
        said("window", "windw"),
        "c.toml:15:1: pipeline.windw: unknown key `windw`; did you mean `window`?"
    );
    assert_eq!(said("[train]", "[trian]"), "c.toml:19:2: trian: unknown key `trian`; did you mean `train`?");
    assert_eq!(
        said("\"jsonl\"", "\"json\""),
        "c.toml:4:1: source.0.kind: unknown value `json`; did you mean `jsonl`?"
    );
    assert_eq!(
        said("max_document_bytes = \"1MiB\"", "max_document_bytes = \"1 lot\""),
        "c.toml:7:1: `source.0.max_document_bytes` must be a number of bytes, such as 1048576 or \"1MiB\", \
         not \"1 lot\""
    );
    assert_eq!(
        said("window = 1", "window = \"few\""),
        "c.toml:15:1: `pipeline.window` must be a number of at least 1, or \"auto\", not \"few\""
    );
    assert_eq!(
        said("epochs = 1", "batch_size = \"eight\""),
        "c.toml:18:1: `pipeline.batch_size` must be a whole number of at least 0, not \"eight\""
    );
    assert_eq!(
        said("epochs = 1", "seq_len = 0"),
        "c.toml:18:1: `pipeline.seq_len` must be from 1 to 16777216, not 0"
    );
    for (setting, must) in [
        ("seq_len = -5", "`pipeline.seq_len` must be from 1 to 16777216, not -5"),
        ("epochs = -1", "`pipeline.epochs` must be at least 1 (leave it out for an endless stream), not -1"),
        ("rank = -1", "`pipeline.rank` must be a whole number of at least 0, not -1"),
    ] {
        assert_eq!(said("epochs = 1", setting), format!("c.toml:18:1: {must}"));
    }
    assert_eq!(
        said("epochs = 1", "ahead = 1025"),
        "c.toml:18:1: `pipeline.ahead` must be at most pipeline.seq_len, not 1025"
    );
    assert_eq!(
        said("epochs = 1", "pack_window = 16777217"),
        "c.toml:18:1: `pipeline.pack_window` must be from 1 to 16777216, not 16777217"
    );
    // Where a key is missing, the table that should have it is the place.
    assert_eq!(
        said("field = \"doc.text\"\n", ""),
        "c.toml:3:1: source.0.field: a jsonl source needs the field that holds the text, such as \"text\""
    );
    assert_eq!(
        said("kind = \"jsonl\"\n", ""),
        "c.toml:3:1: source.0.kind: it is not set, and \"a/*.jsonl\" names jsonl files; set kind = \"jsonl\", or \"text\" to \
         read them as they stand"
    );
    assert_eq!(
        said("path = \"tokenizer.json\"", "path = \"t.json\"\ntrain = {}"),
        "c.toml:9:2: tokenizer: both `path` (t.json) and `train` are set; keep one"
    );
    assert_eq!(said("steps = 5", "steps = 0"), "c.toml:20:1: `train.steps` must be at least 1, not 0");
    assert_eq!(
        said("steps = 5", "device = \"gpu\""),
        "c.toml:20:1: train.device: unknown device `gpu`; the devices are flex, cuda, wgpu, vulkan, metal"
    );
    let large = said("seed = 7", "seed = 99999999999999999999");
    assert!(large.starts_with("c.toml:2:1: `seed` must be a whole number"), "{large}");
    let date = said("seed = 7", "seed = 2026-01-01");
    assert!(
        date.starts_with("c.toml:2:1: `seed` must be ") && date.ends_with("not \"2026-01-01\""),
        "{date}"
    );
    let broken = said("seed = 7", "seed = = 7");
    assert!(broken.starts_with("c.toml:2:8: not valid TOML: "), "{broken}");
    assert_eq!(
        load("c.txt", "", &[]),
        Err("c.txt: a config is a .toml, .json, .yaml or .yml file".to_owned())
    );
}

#[test]
fn numbers_are_read_as_they_are_written() {
    let settings = ["seed=18446744073709551615", "train.lr=0.30000000000000004", "train.clip=3"];
    let config = load("c.toml", TOML, &settings).expect("it loads");
    assert_eq!((config.data.seed, config.train.lr, config.train.clip), (u64::MAX, Some(0.1 + 0.2), 3.0));
    assert_eq!(config.with_settings(&[]).expect("a config"), config);
    // Read in haste, this one would be off by a bit.
    let json = r#"{ "seed": 18446744073709551615, "train": { "lr": 0.9536900000080095 } }"#;
    let config = load("c.json", json, &[]).expect("it loads");
    assert_eq!((config.data.seed, config.train.lr), (u64::MAX, Some(0.9536900000080095)));
    for setting in ["train.lr=nan", "train.lr=inf", "train.steps=1.5", "seed=-1", "seed=1e3"] {
        let key = setting.split('=').next().expect("a key");
        let said = load("c.toml", TOML, &[setting]).expect_err("not such a number");
        assert!(said.starts_with(&format!("--set {setting}: `{key}` must be a ")), "{said}");
    }
}

#[test]
fn null_is_absent_and_yaml_has_anchors() {
    let json = r#"{ "pipeline": { "lanes": null, "epochs": null, "seq_len": 8 }, "tokenizer": null }"#;
    let config = load("c.json", json, &[]).expect("it loads");
    let pipeline = PipelineConfig { seq_len: 8, ..PipelineConfig::default() };
    assert_eq!(config, RunConfig::new(Config::default().with_pipeline(pipeline)));
    assert_eq!(load("c.yaml", "", &[]), Ok(RunConfig::default()));
    let said = load("c.json", r#"{ "pipeline": { "lane": null } }"#, &[]).expect_err("an unknown key");
    assert!(said.starts_with("c.json: pipeline.lane: unknown key"), "{said}");
    let yaml = "
source:
  - &first { paths: [a.txt], epochs: 2 }
  - { <<: *first, paths: [b.txt] }
";
    let sources = load("c.yaml", yaml, &[]).expect("it loads").data.sources;
    assert_eq!((sources[1].paths.as_slice(), sources[1].epochs), (["b.txt".to_owned()].as_slice(), Some(2)));
}

#[test]
fn a_config_in_code_is_that_of_its_toml() {
    let toml = r#"
        seed = 7
        [[source]]
        name = "web"
        weight = 2
        epochs = 3
        kind = "jsonl"
        paths = ["a/*.jsonl", "b.jsonl"]
        field = "doc.text"
        [[source]]
        weight = 1
        kind = "shards"
        paths = ["shards"]
        [tokenizer]
        train = { vocab_size = 512 }
        bos = "<s>"
        eos = "</s>"
        pad = "<pad>"
        [pipeline]
        lanes = 2
        batch_size = 8
    "#;
    let web = SourceConfig::jsonl("a/*.jsonl", "doc.text").with_path("b.jsonl");
    let mut config = Config::default()
        .with_seed(7)
        .with_source(web.with_name("web").with_weight(2.0).with_epochs(3))
        .with_source(SourceConfig::shards("shards").with_weight(1.0))
        .with_tokenizer(TokenizerConfig::learned(512).with_bos("<s>").with_eos("</s>").with_pad("<pad>"));
    config.pipeline.lanes = 2.into();
    config.pipeline.batch_size = 8;
    assert_eq!(Config::from_toml(toml).expect("it loads"), config);

    let error = Config::from_toml("[pipeline]\nbatch_size = 0").expect_err("zero").to_string();
    assert_eq!(error, "line 2, column 1: `pipeline.batch_size` must be at least 1, not 0");
}

#[test]
fn every_format_has_its_constructor() {
    let with_field = [
        ("jsonl", SourceConfig::jsonl("x", "f")),
        ("csv", SourceConfig::csv("x", "f")),
        ("tsv", SourceConfig::tsv("x", "f")),
        ("parquet", SourceConfig::parquet("x", "f")),
        ("arrow", SourceConfig::arrow("x", "f")),
        ("tar", SourceConfig::tar("x", "f")),
        ("mds", SourceConfig::mds("x", "f")),
        ("huggingface", SourceConfig::huggingface("x", "f")),
    ];
    for (kind, source) in with_field {
        let text = format!("[[source]]\nkind = {kind:?}\npaths = [\"x\"]\nfield = \"f\"");
        assert_eq!(Config::from_toml(&text).expect("it loads").sources, [source]);
    }
    let without = [
        ("text", "x", SourceConfig::text("x")),
        ("shards", "x", SourceConfig::shards("x")),
        ("text", "-", SourceConfig::stdin()),
    ];
    for (kind, path, source) in without {
        let text = format!("[[source]]\nkind = {kind:?}\npaths = [{path:?}]");
        assert_eq!(Config::from_toml(&text).expect("it loads").sources, [source]);
    }
}

#[test]
fn a_loader_reads_the_file_of_a_run() {
    let run = RunConfig::from_toml(TOML).expect("it loads");
    assert_eq!(Config::from_toml(TOML).expect("it loads"), run.data);
    // The tables of a trainer are its own, whatever they say; every other key has to be known.
    let text = TOML.replace("steps = 5", "steps = 0\nown = 1") + "[model]\nwheels = 4\n";
    assert_eq!(Config::from_toml(&text).expect("it loads"), run.data);
    assert!(RunConfig::from_toml(&text).is_err());
    let said = Config::from_toml("[trian]\nsteps = 5").expect_err("an unknown key").to_string();
    assert_eq!(said, "line 1, column 2: trian: unknown key `trian`; did you mean `train`?");
}

#[test]
fn a_run_is_written_as_it_is_read() {
    let config = RunConfig::from_toml(TOML).expect("it loads");
    let toml = toml::to_string(&config).expect("TOML");
    assert!(toml.contains("\n[pipeline]\n") && toml.contains("\n[train]\n"), "{toml}");
    assert_eq!(RunConfig::from_toml(&toml).expect("it loads"), config);
    assert_eq!(toml::from_str::<RunConfig>(&toml).expect("it loads"), config);
    let refused = serde_json::from_str::<RunConfig>(r#"{ "train": { "step": 5 } }"#).expect_err("unknown");
    assert!(refused.to_string().contains("train.step: unknown key `step`"), "{refused}");
    let twice = r#"{ "train": { "steps": 5, "steps": 6 } }"#;
    let refused = serde_json::from_str::<RunConfig>(twice).expect_err("a key twice").to_string();
    assert!(refused.contains("the key `steps` is there twice"), "{refused}");
    let refused = toml::from_str::<RunConfig>("[train]\nlr = nan").expect_err("no number").to_string();
    assert!(refused.contains("train.lr"), "{refused}");
}
