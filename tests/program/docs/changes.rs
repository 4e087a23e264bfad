//! Which keys may change at a resume: each is changed once, and a cursor from before the change is resumed from.
//!
//! Keys of `[model]` and `[train]` are the trainer's, and no loader knows them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use millstream::prepare::prepare;
use millstream::source::{RecordFile, RecordFormat, RecordReader, RecordText};
use millstream::{Config, Cursor, Loader};

/// The config that the settings below go over: `{here}` is a directory with small corpora.
const BASE: &str = r#"
[[source]]
name = "a"
kind = "text"
paths = ["{here}/corpus.txt"]
weight = 1

[[source]]
name = "b"
paths = ["{here}/more.txt"]
weight = 1

[tokenizer]
kind = "bytes"

[pipeline]
world = 1
lanes = 2
window = 4
seq_len = 16
batch_size = 4
"#;

/// A source of JSON lines.
const JSONL: &[&str] =
    &["source.0.kind=jsonl", "source.0.paths=['{here}/corpus.jsonl']", "source.0.field=text"];
const SAMPLE: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/corpus.jsonl']",
    "source.0.field=text",
    "source.0.sample={ field = 'q', max = 2 }",
];
const CSV: &[&str] = &["source.0.kind=csv", "source.0.field=text", "source.0.paths=['{here}/corpus.csv']"];
const CUSTOM: &[&str] = &["source.0.kind=custom", "source.0.format=lines"];
const TABLE: &[&str] = &[
    "source.0.kind=parquet",
    "source.0.paths=['{data}/formats/snappy.parquet']",
    "source.0.field=text",
    "source.0.where=id > 3",
];
const HUB: &[&str] = &[
    "source.0.kind=huggingface",
    "source.0.paths=['{data}/huggingface/listed']",
    "source.0.field=text",
    "source.0.subset=en",
    "source.0.part=train",
];
const SHARDS: &[&str] = &[
    "source.0.kind=shards",
    "source.0.paths=['{here}/shards']",
    "source.1.kind=shards",
    "source.1.paths=['{here}/shards']",
    "pipeline.window=auto",
];
const RANKS: &[&str] = &[
    "tokenizer.kind=subwords",
    "tokenizer.path={data}/tokenizers/ranks.tiktoken",
    "tokenizer.pattern=cl100k_base",
    "tokenizer.special={ '<|x|>' = 100000 }",
];
const FILE: &[&str] = &["tokenizer.kind=subwords", "tokenizer.path={data}/tokenizers/gate/gpt2.json"];
const LEARNED: &[&str] =
    &["tokenizer.kind=subwords", "tokenizer.train={ vocab_size = 300, sample = '16MiB' }"];
const BY: &[&str] = &[
    "source=[{ kind = 'jsonl', field = 'text', paths = ['{here}/corpus.jsonl'] }]",
    "mixture.by=r",
    "mixture.weights={ 1 = 1, 2 = 3 }",
];
const COUNTED: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/corpus.jsonl']",
    "source.0.field=text",
    "source.0.columns=['r', 'text']",
    "pipeline.ledger_by=text",
];
const CHANGE: &[&str] = &["mixture.changes=[{ batch = 9, weights = { a = 1, b = 3 } }]"];
const BUDGET: &[&str] = &["pipeline.pack=pad", "pipeline.batch_tokens=64"];
const ONCE: &[&str] = &["pipeline.epochs=1"];
const FITTED: &[&str] = &["pipeline.pack=best_fit"];
const CHAT: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/chats.jsonl']",
    "source.0.task=chat",
    "source.0.chat.template={here}/one.jinja",
];
const TURN: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/chats.jsonl']",
    "source.0.task=chat",
    "source.0.chat.template={here}/one.jinja",
    "source.0.chat.turn={ begin = '<assistant>', end = '<end>' }",
];
const NAMED: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/chats.jsonl']",
    "source.0.task=chat",
    "tokenizer.kind=subwords",
    "tokenizer.path={here}/named/tokenizer.json",
];
const FIM: &[&str] = &[
    "source.0.kind=jsonl",
    "source.0.paths=['{here}/corpus.jsonl']",
    "source.0.field=text",
    "source.0.task=fim",
    "tokenizer.kind=subwords",
    "tokenizer.path={data}/tokenizers/ranks.tiktoken",
    "tokenizer.pattern=cl100k_base",
    "tokenizer.special={ '<|fim_prefix|>' = 100000, '<|fim_suffix|>' = 100001, '<|fim_middle|>' = 100002, '<|other|>' = 100003 }",
];
const MADE: &[&str] = &["source.0.kind=synthetic", "source.0.paths=[]"];
const CACHE: &[&str] = &["source.0.cache={ path = '{here}/tokens', limit = '1GiB' }"];

/// For each key the settings before, and the one that changes it.
const CHANGES: &[(&str, &[&str], &str)] = &[
    ("seed", &[], "seed=1"),
    ("source.name", &[], "source.0.name=c"),
    ("source.weight", &[], "source.0.weight=2"),
    ("source.epochs", ONCE, "source.0.epochs=2"),
    ("source.kind", CSV, "source.0.kind=tsv"),
    ("source.format", CUSTOM, "source.0.format=others"),
    ("source.paths", &[], "source.0.paths=['{here}/corpus.jsonl']"),
    ("source.documents", MADE, "source.0.documents=7"),
    ("source.document_bytes", MADE, "source.0.document_bytes=100"),
    ("source.seed", MADE, "source.0.seed=7"),
    ("source.subset", HUB, "source.0.subset=de"),
    ("source.part", HUB, "source.0.part=validation"),
    ("source.document", &[], "source.0.document=paragraph"),
    ("source.split", &[], "source.0.split=1KiB"),
    ("source.field", JSONL, "source.0.field=other"),
    ("source.task", CHAT, "source.0.task=completion"),
    ("source.chat.template", CHAT, "source.0.chat.template={here}/other.jinja"),
    ("source.chat.template_name", NAMED, "source.0.chat.template_name=other"),
    ("source.chat.date", CHAT, "source.0.chat.date='2026-11-28'"),
    ("source.chat.kwargs", CHAT, "source.0.chat.kwargs={ enable_thinking = false }"),
    ("source.chat.learn", CHAT, "source.0.chat.learn=last"),
    ("source.chat.turn.begin", TURN, "source.0.chat.turn.begin=assistant>"),
    ("source.chat.turn.end", TURN, "source.0.chat.turn.end=end>"),
    ("source.chat.samples", CHAT, "source.0.chat.samples=turns"),
    ("source.chat.truncate", CHAT, "source.0.chat.truncate=drop"),
    ("source.chat.border", CHAT, "source.0.chat.border=split"),
    ("source.chat.fields", CHAT, "source.0.chat.fields={ role = 'from' }"),
    ("source.chat.roles", CHAT, "source.0.chat.roles={ bot = 'assistant' }"),
    ("source.fim.rate", FIM, "source.0.fim.rate=0.25"),
    ("source.fim.spm", FIM, "source.0.fim.spm=0.25"),
    ("source.fim.prefix", FIM, "source.0.fim.prefix=<|other|>"),
    ("source.fim.suffix", FIM, "source.0.fim.suffix=<|other|>"),
    ("source.fim.middle", FIM, "source.0.fim.middle=<|other|>"),
    ("source.where", TABLE, "source.0.where=id > 4"),
    ("source.columns", JSONL, "source.0.columns=['q']"),
    ("source.csv.delimiter", CSV, "source.0.csv.delimiter=';'"),
    ("source.csv.quote", CSV, "source.0.csv.quote=''"),
    ("source.csv.escape", CSV, "source.0.csv.escape='\\'"),
    ("source.sample.field", SAMPLE, "source.0.sample.field=r"),
    ("source.sample.max", SAMPLE, "source.0.sample.max=3"),
    ("source.max_document_bytes", &[], "source.0.max_document_bytes=1MiB"),
    ("source.oversize", &[], "source.0.oversize=skip"),
    ("source.on_error", &[], "source.0.on_error={ skip = 3 }"),
    ("source.zstd_window", &[], "source.0.zstd_window=2GiB"),
    ("source.cache.path", CACHE, "source.0.cache.path={here}/others"),
    ("source.cache.limit", CACHE, "source.0.cache.limit=2GiB"),
    ("mixture.temperature", &["source.0.weight=3"], "mixture.temperature=2.0"),
    ("mixture.by", BY, "mixture.by=q"),
    ("mixture.weights", BY, "mixture.weights={ 1 = 2, 2 = 3 }"),
    ("mixture.changes[].batch", CHANGE, "mixture.changes.0.batch=10"),
    ("mixture.changes[].weights", CHANGE, "mixture.changes.0.weights={ a = 2, b = 1 }"),
    ("exclude.batches", &[], "exclude.batches=[[3, 4]]"),
    (
        "exclude.documents[].path",
        &["exclude.documents=[{ path = '{here}/corpus.txt', byte = 0 }]"],
        "exclude.documents.0.path={here}/more.txt",
    ),
    (
        "exclude.documents[].byte",
        &["exclude.documents=[{ path = '{here}/corpus.txt', byte = 0 }]"],
        "exclude.documents.0.byte=13",
    ),
    ("store.block", &[], "store.block=1MiB"),
    ("store.concurrency", &[], "store.concurrency=7"),
    ("store.timeout", &[], "store.timeout=7"),
    ("store.deadline", &[], "store.deadline=70"),
    ("store.backoff", &[], "store.backoff=0.7"),
    ("store.backoff_max", &[], "store.backoff_max=7"),
    ("store.cache", &[], "store.cache={here}/blocks"),
    ("store.cache_limit", &[], "store.cache_limit=1GiB"),
    ("store.hub_cache", &[], "store.hub_cache=1GiB"),
    ("tokenizer.kind", LEARNED, "tokenizer={ kind = 'bytes' }"),
    ("tokenizer.path", FILE, "tokenizer.path={data}/tokenizers/gate/qwen.json"),
    ("tokenizer.pattern", RANKS, "tokenizer.pattern=gpt2"),
    ("tokenizer.special", RANKS, "tokenizer.special={ '<|y|>' = 100001 }"),
    ("tokenizer.train.vocab_size", LEARNED, "tokenizer.train.vocab_size=310"),
    ("tokenizer.train.sample", LEARNED, "tokenizer.train.sample=1KiB"),
    ("tokenizer.bos", &[], "tokenizer.bos=<|endoftext|>"),
    ("tokenizer.eos", &[], "tokenizer.eos=<|endoftext|>"),
    ("tokenizer.pad", &[], "tokenizer.pad=<|endoftext|>"),
    ("tokenizer.special_tokens", FILE, "tokenizer.special_tokens=parse"),
    ("pipeline.lanes", &[], "pipeline.lanes=4"),
    ("pipeline.shuffle_splits", &[], "pipeline.shuffle_splits=false"),
    ("pipeline.shuffle", SHARDS, "pipeline.shuffle=global"),
    ("pipeline.window", &[], "pipeline.window=8"),
    ("pipeline.seq_len", &[], "pipeline.seq_len=32"),
    ("pipeline.pack", &[], "pipeline.pack=pad"),
    ("pipeline.ahead", &[], "pipeline.ahead=2"),
    ("pipeline.max_segments", &[], "pipeline.max_segments=3"),
    ("pipeline.pack_window", FITTED, "pipeline.pack_window=7"),
    ("pipeline.holdout", &[], "pipeline.holdout=0.5"),
    ("pipeline.batch_tokens", BUDGET, "pipeline.batch_tokens=128"),
    ("pipeline.buckets", BUDGET, "pipeline.buckets=[8, 16]"),
    ("pipeline.bucket_window", BUDGET, "pipeline.bucket_window=7"),
    ("pipeline.batch_size", &[], "pipeline.batch_size=8"),
    ("pipeline.epochs", ONCE, "pipeline.epochs=2"),
    ("pipeline.uneven", ONCE, "pipeline.uneven=wrap"),
    ("pipeline.last", ONCE, "pipeline.last=drop"),
    ("pipeline.rank", &["pipeline.world=2", "pipeline.rank=0"], "pipeline.rank=1"),
    ("pipeline.world", &["pipeline.rank=0"], "pipeline.world=2"),
    ("pipeline.workers", &[], "pipeline.workers=1"),
    ("pipeline.depth", &[], "pipeline.depth=2"),
    ("pipeline.memory", &[], "pipeline.memory=64MiB"),
    ("pipeline.pin", &[], "pipeline.pin=[0]"),
    ("pipeline.ledger_by", COUNTED, "pipeline.ledger_by=r"),
];

/// Where what is said of (order, resume) is not what a resume does. A key is part of the order if a cursor cannot be
/// used after it has changed; later `mixture.changes` may change, though they are part of it.
pub(crate) fn contradictions(said: &BTreeMap<&str, (&str, &str)>) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut text = Config::load(directory.path().join("base.toml")).expect("the config");
    text.sources.truncate(1);
    runtime.block_on(prepare(&text, &directory.path().join("shards"), |_| {})).expect("token shards");
    let unknown = CHANGES.iter().map(|(key, ..)| *key).filter(|key| !said.contains_key(key));
    let mut problems: Vec<String> = unknown.map(|key| format!("nothing is said of {key}")).collect();
    for (key, (order, resume)) in said {
        let is_trainers = key.starts_with("model.") || key.starts_with("train.");
        let right = match CHANGES.iter().find(|(changed, ..)| changed == key) {
            _ if is_trainers => ("no", *resume),
            // `hub::files` resumes at other commits.
            _ if ["source.repo", "source.revision"].contains(key) => ("yes", "no"),
            None => {
                problems.push(format!("{key}: give it a change in tests/program/docs/changes.rs"));
                continue;
            }
            Some((_, before, change)) => match runtime.block_on(outcome(directory.path(), before, change)) {
                Ok(true) if key.starts_with("mixture.changes") => ("yes", "yes"),
                // It changes no order, and its numbers of before would be missing.
                Ok(false) if *key == "pipeline.ledger_by" => ("no", "no"),
                Ok(true) => ("no", "yes"),
                Ok(false) => ("yes", "no"),
                Err(problem) => {
                    problems.push(format!("{key}: {change}: {problem}"));
                    continue;
                }
            },
        };
        if (*order, *resume) != right {
            problems.push(format!("{key}: order {order}, resume {resume}, and it is {right:?}"));
        }
    }
    problems
}

/// Whether a resume accepts the change.
async fn outcome(here: &Path, before: &[&str], change: &str) -> millstream::Result<bool> {
    let load = |more: &[&str]| {
        let settings: Vec<String> = before.iter().chain(more).map(|setting| placed(setting, here)).collect();
        Config::load_with(here.join("base.toml"), &settings)
    };
    let changed = load(&[change])?;
    assert_ne!(load(&[])?, changed, "{change} changes nothing");
    // A cursor of all lanes, as merging those of all ranks gives.
    let whole = load(&["pipeline.world=1", "pipeline.rank=0"])?;
    let builder = |config: &Config| Loader::builder(config).format("lines", Lines).format("others", Lines);
    let cursor: Cursor = builder(&whole).open().await?.start().clone();
    builder(&changed).open().await?;
    Ok(builder(&changed).with_cursor(cursor).open().await.is_ok())
}

/// A custom format whose records are lines.
#[derive(Clone, Copy, Debug)]
struct Lines;

impl RecordFormat for Lines {
    fn open(&self, _: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>> {
        Ok(Box::new(*self))
    }
}

impl RecordReader for Lines {
    fn read(&mut self, file: &mut dyn RecordFile, text: &mut RecordText) -> io::Result<bool> {
        let mut line = Vec::new();
        file.read_until(b'\n', &mut line)?;
        text.write_all(&line)?;
        Ok(!line.is_empty())
    }
}

fn placed(setting: &str, here: &Path) -> String {
    let data = crate::support::root().join("tests/data").display().to_string();
    setting.replace("{here}", &here.display().to_string()).replace("{data}", &data)
}

fn write(directory: &Path) {
    let path = |name: &str| directory.join(name);
    let base = BASE.replace("{here}", &directory.display().to_string());
    fs::write(path("base.toml"), base).expect("the config");
    let lines = |line: fn(usize) -> String| (0..400).map(line).collect::<String>();
    for name in ["corpus.txt", "more.txt"] {
        fs::write(path(name), lines(|n| format!("line {n} of {}\n\n", n * n))).expect("text");
    }
    let json = lines(|n| {
        format!("{{\"text\": \"line {n}\", \"other\": \"o {n}\", \"q\": 2, \"r\": {}}}\n", n % 2 + 1)
    });
    fs::write(path("corpus.jsonl"), json).expect("JSON lines");
    fs::write(path("corpus.csv"), "text\n".to_owned() + &lines(|n| format!("line {n}\n"))).expect("a table");
    let chat = |n: usize| {
        let message = |role: &str| format!("{{\"role\": \"{role}\", \"content\": \"{role} {n}\"}}");
        let messages = [message("user"), message("assistant")].join(", ");
        format!("{{\"messages\": [{messages}], \"prompt\": \"{n}?\", \"completion\": \"{n}!\"}}\n")
    };
    fs::write(path("chats.jsonl"), (0..400).map(chat).collect::<String>()).expect("conversations");
    let template = |open: &str| {
        format!(
            "{{% for message in messages %}}{open}{{{{ message.role }}}}>{{% if message.role == 'assistant' %}}\
             {{% generation %}}{{{{ message.content }}}}<end>{{% endgeneration %}}{{% else %}}{{{{ message.content }}}}<end>\
             {{% endif %}}{{% endfor %}}"
        )
    };
    fs::write(path("one.jinja"), template("<")).expect("a template");
    fs::write(path("other.jinja"), template("[<")).expect("a template");
    fs::create_dir(path("named")).expect("a directory");
    let tokenizer = crate::support::root().join("tests/data/tokenizers/gate/gpt2.json");
    fs::copy(tokenizer, path("named/tokenizer.json")).expect("a tokenizer");
    let named = [("default", "<"), ("other", "[<")];
    let named = named.map(|(name, open)| serde_json::json!({ "name": name, "template": template(open) }));
    let settings = serde_json::json!({ "chat_template": named }).to_string();
    fs::write(path("named/tokenizer_config.json"), settings).expect("its settings");
}
