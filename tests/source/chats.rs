//! Records that a template renders: their errors, and what is left out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use futures::StreamExt;
use millstream::config::{
    ChatConfig, OnError, Oversize, SampleConfig, Samples, SourceConfig, SourceKind, Task,
};
use millstream::source::{Holdout, Lane, Side};
use millstream::{Budget, LaneCursor, Meter, Source};
use proptest::prelude::*;

use crate::chats_in_files::{Chat, KINDS, TEMPLATES, chats, samples, table, with_schema, written};
use crate::corpus::{Corpus, all, bound, drain, open, run, texts};
use crate::laws;

/// What is delivered, and what the error says, the directory left out.
fn read(corpus: &Corpus, config: &SourceConfig) -> (Vec<String>, Option<String>) {
    run(async {
        let (seen, error) = drain(open(config).await.documents(&LaneCursor::default())).await;
        let said = error.map(|error| error.to_string().replace(&corpus.path(""), ""));
        (texts(&seen).into_iter().map(str::to_owned).collect(), said)
    })
}

/// A source of conversations in the files with this ending.
fn source(corpus: &Corpus, kind: SourceKind) -> SourceConfig {
    let paths = vec![corpus.path(&format!("*.{}", kind.extensions()[0]))];
    let chat = TEMPLATES[0].chat(corpus.path("").as_ref());
    SourceConfig { kind, paths, task: Task::Chat, chat, ..SourceConfig::default() }
}

fn answered(n: usize) -> Chat {
    Chat(vec![("user", format!("question {n}")), ("assistant", format!("answer {n}"))])
}

fn line(n: usize) -> String {
    format!("{}\n", answered(n).record())
}

fn text(n: usize) -> String {
    TEMPLATES[0].text(&answered(n))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn every_format_keeps_the_laws_of_the_source(
        kind in prop::sample::select(KINDS.to_vec()), samples in samples(), chats in chats(), slab in 4_usize..2000,
        split in 1_usize..3000, lanes in 1_usize..4,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let chat = ChatConfig { samples, ..TEMPLATES[0].chat(directory.path()) };
        let config = written(kind, directory.path(), &chats).with_chat(chat);
        let config = SourceConfig { split: Some(bound(split)), ..config };
        let lane = Lane { lanes, ..Lane::default() };
        run(async {
            let source = open(&config).await;
            laws::reads_of_any_size_deliver_the_same(&source, laws::lanes(lane), slab).await?;
            laws::cursors_resume_exactly(&source.clone().with_slab_bytes(slab), laws::lanes(lane), 1).await?;
            let meter = Meter::new("source");
            let seen = all(source.with_meter(meter.clone()).documents(&LaneCursor::default())).await;
            let expected = chats.iter().flat_map(|chat| chat.samples(samples));
            let expected: Vec<String> = expected.map(|chat| TEMPLATES[0].text(&chat)).collect();
            prop_assert_eq!(texts(&seen), expected.iter().map(String::as_str).collect::<Vec<_>>());
            let left_out = chats.iter().filter(|chat| !chat.is_learned()).count();
            prop_assert_eq!(meter.snapshot().skipped, left_out as u64);
            Ok(())
        })?;
    }
}

/// A conversation's samples have many times its length. The documents that wait leave room for one read.
#[test]
fn samples_stay_within_the_budget_but_for_one_conversation() {
    let talk = |n: usize| Chat((0..60).flat_map(|turn| answered(100 * n + turn).0).collect());
    let chats: Vec<Chat> = (0..120).map(talk).collect();
    let lines = chats.iter().map(|chat| format!("{}\n", chat.record()));
    let corpus = Corpus::new([("a.jsonl", lines.collect::<String>())]);
    let mut config = source(&corpus, SourceKind::Jsonl);
    (config.chat.samples, config.split) = (Samples::Turns, Some(bound(1 << 20)));
    let samples = chats[119].samples(Samples::Turns);
    let longest: usize = samples.iter().map(|chat| TEMPLATES[0].text(chat).len()).sum();
    run(async {
        let budget = Budget::new(8 << 20);
        let source = open(&config).await.with_budget(budget.clone());
        let (mut documents, mut waiting, mut count) =
            (source.documents(&LaneCursor::default()), VecDeque::new(), 0);
        while let Some(document) = documents.next().await {
            waiting.push_back(document.expect("no error"));
            count += 1;
            while budget.used() > budget.limit() / 8 * 7 && waiting.pop_front().is_some() {}
        }
        assert_eq!(count, 60 * 120);
        // A text, and four bytes for each of its ids.
        assert!(budget.peak() <= budget.limit() + 5 * longest, "{} of {}", budget.peak(), budget.limit());
    });
}

#[test]
fn a_record_that_cannot_be_rendered_is_named_by_its_line() {
    for broken in ["{\"messages\": [{\"role\": \"user\"", "{\"messages\": 7}", "{\"other\": []}", "[1]"] {
        let corpus = Corpus::new([("a.jsonl", format!("{}{broken}\n\n{}", line(0), line(1)))]);
        let config = source(&corpus, SourceKind::Jsonl);
        let (seen, said) = read(&corpus, &config);
        let (said, at) = (said.expect("an error"), line(0).len());
        assert_eq!(seen, [text(0)]);
        assert!(said.starts_with(&format!("a.jsonl:2 (byte {at}): ")), "{said}");
        assert!(said.contains("on_error = { skip = 100 }"), "{said}");

        let meter = Meter::new("source");
        let skipping = SourceConfig { on_error: OnError::Skip(1), ..config };
        run(async {
            let source = open(&skipping).await.with_meter(meter.clone());
            let seen = all(source.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), [text(0), text(1)]);
            assert_eq!(meter.snapshot().skipped, 1);
        });
    }
}

#[test]
fn an_unknown_role_gets_an_example_that_fits_it() {
    for (role, example) in [
        ("bot", "assistant"),
        ("AI", "assistant"),
        ("Assistant", "assistant"),
        ("my_model", "assistant"),
        ("customer", "user"),
        ("tool_response", "tool"),
        ("maid", "user"),
    ] {
        let chat = Chat(vec![("user", "1".to_owned()), (role, "2".to_owned())]);
        let corpus = Corpus::new([("a.jsonl", format!("{}\n", chat.record()))]);
        let (_, said) = read(&corpus, &source(&corpus, SourceKind::Jsonl));
        let said = said.expect("an error");
        let hint = format!("source.0.chat.roles, such as {{ {role:?} = {example:?} }}");
        assert!(said.contains("its role") && said.contains(&hint), "{said}");
    }
}

#[test]
fn the_bound_is_on_the_record_and_no_record_is_cut() {
    let long = Chat(vec![("user", "x".repeat(500)), ("assistant", "y".to_owned())]);
    for kind in KINDS {
        let directory = tempfile::tempdir().expect("a directory");
        let config = written(kind, directory.path(), &[answered(0), long.clone(), answered(1)]);
        let config = config.with_chat(TEMPLATES[0].chat(directory.path()));
        let short = SourceConfig { max_document_bytes: bound(400), ..config };
        for oversize in [Oversize::Error, Oversize::Truncate] {
            run(async {
                let config = SourceConfig { oversize, ..short.clone() };
                let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
                assert_eq!(texts(&seen), [text(0)], "{kind}");
                let error = error.expect("an error").to_string();
                assert!(error.contains("longer than max_document_bytes"), "{kind}: {error}");
                assert!(!error.contains("truncate"), "{kind}: {error}");
            });
        }
        run(async {
            let config = SourceConfig { oversize: Oversize::Skip, ..short };
            let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), [text(0), text(1)], "{kind}");
        });
    }
}

#[test]
fn a_record_has_a_weight() {
    let weighted = |n: usize, weight: u32| {
        let mut record = answered(n).record();
        record["w"] = weight.into();
        format!("{record}\n")
    };
    let corpus = Corpus::new([("a.jsonl", weighted(0, 1) + &weighted(1, 0) + &weighted(2, 1))]);
    let sample = Some(SampleConfig { field: "w".to_owned(), max: 1.0 });
    let config = SourceConfig { sample, ..source(&corpus, SourceKind::Jsonl) };
    assert_eq!(read(&corpus, &config), (vec![text(0), text(2)], None));
    let sample = Some(SampleConfig { field: "v".to_owned(), max: 1.0 });
    let (_, said) = read(&corpus, &SourceConfig { sample, ..config });
    assert!(said.is_some_and(|said| said.starts_with("a.jsonl:1 (byte 0): there is no field `v`")));
}

#[test]
fn the_hold_out_goes_by_the_record() {
    let lines: Vec<String> = (0..60).map(line).collect();
    let corpus = Corpus::new([("a.jsonl", lines.concat())]);
    let held_out = |template: usize| {
        let chat = TEMPLATES[template].chat(corpus.path("").as_ref());
        let config = SourceConfig { chat, ..source(&corpus, SourceKind::Jsonl) };
        run(async {
            let holdout = Holdout { fraction: 0.3, side: Side::HeldOut };
            let source = open(&config).await;
            let seen = all(
                source.lane(Lane { holdout, epochs: Some(1), ..Lane::default() }, &LaneCursor::default())
            );
            seen.await.iter().map(|seen| seen.position.byte).collect::<Vec<u64>>()
        })
    };
    // The first eight bytes of the digest of each line, without its end.
    let is_held_out = |line: &&String| {
        let digest = blake3::hash(line.trim_end().as_bytes());
        let first = u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("eight bytes"));
        (first as f64) < 0.3 * 2_f64.powi(64)
    };
    let mut at = 0;
    let places = lines.iter().map(|line| {
        at += line.len() as u64;
        (at - line.len() as u64, line)
    });
    let expected: Vec<u64> = places.filter(|(_, line)| is_held_out(line)).map(|(at, _)| at).collect();
    assert!(expected.len() > 5);
    let sorted = |mut places: Vec<u64>| {
        places.sort_unstable();
        places
    };
    assert_eq!(sorted(held_out(0)), expected);
    assert_eq!(sorted(held_out(1)), expected);
}

#[test]
fn a_table_has_columns_of_a_record_or_is_refused() {
    let refused = |config: SourceConfig| {
        run(async { Source::open(&[config]).await.expect_err("a refusal").to_string() })
    };
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    for kind in [SourceKind::Parquet, SourceKind::Arrow] {
        let corpus = Corpus::new([(format!("a.{kind}"), table(kind, &[("text", text.clone())]))]);
        let said = refused(source(&corpus, kind));
        assert!(said.contains("there is no column of a record (") && said.contains("it has text"), "{said}");
    }
    let corpus = Corpus::new([("a.csv", "id,text\n1,x\n")]);
    let said = refused(source(&corpus, SourceKind::Csv));
    assert!(said.contains("there is no column of a record (") && said.contains("it has id, text"), "{said}");
}

/// As `datasets` 5 writes columns of the type `Json`.
#[test]
fn columns_of_json_are_json() {
    let extension = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.json".to_owned())]);
    for kind in [SourceKind::Parquet, SourceKind::Arrow] {
        let json = |n: usize| answered(n).record()["messages"].to_string();
        let messages: ArrayRef = Arc::new(StringArray::from(vec![Some(json(0)), None, Some(json(2))]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let field = Field::new("messages", DataType::Utf8, true);
        let schema = Schema::new(vec![
            field.with_metadata(extension.clone()),
            Field::new("id", DataType::Int64, true),
        ]);
        let batch = RecordBatch::try_new(schema.into(), vec![messages, numbers]).expect("a batch");
        let corpus = Corpus::new([(format!("a.{kind}"), with_schema(kind, &batch))]);
        // A row without any value gives no record.
        assert_eq!(read(&corpus, &source(&corpus, kind)), (vec![text(0), text(2)], None));
    }
}

/// A null in JSON was written by somebody. One in a struct only says that another row has the field.
#[test]
fn nulls_of_json_stay_and_those_of_structs_do_not() {
    let template = "{% for m in messages %}{{ m | tojson }}{% generation %}{{ m.content }}{% endgeneration %}\
        {% endfor %}{{ tools | tojson }}";
    let call = |arguments: &str| format!("{{\"name\": \"f\", \"arguments\": {arguments}}}");
    let calls = [r#"{"a": 1, "b": null}"#, r#"{"z": {"q": null, "r": [null, 1]}}"#].map(call);
    let tool = r#"{"name": "f", "default": null}"#;
    let json = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.json".to_owned())]);
    let item = || Arc::new(Field::new("item", DataType::Utf8, true).with_metadata(json.clone()));
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item());
    calls.iter().for_each(|call| lists.values().append_value(call));
    lists.append(true);
    let tool_calls: ArrayRef = Arc::new(lists.finish());
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item());
    lists.values().append_value(tool);
    lists.append(true);
    let tools: ArrayRef = Arc::new(lists.finish());
    let texts = |text: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let field = |name: &str, values: &ArrayRef| Arc::new(Field::new(name, values.data_type().clone(), true));
    let columns = [
        ("role", texts(Some("assistant"))),
        ("content", texts(Some("x"))),
        ("name", texts(None)),
        ("tool_calls", tool_calls),
    ];
    let message = StructArray::from(columns.map(|(name, values)| (field(name, &values), values)).to_vec());
    let item = Arc::new(Field::new("item", message.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([1]);
    let messages: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(message), None));
    for kind in [SourceKind::Parquet, SourceKind::Arrow, SourceKind::Jsonl] {
        let bytes = match kind {
            SourceKind::Jsonl => {
                let message = format!(
                    "{{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{}]}}",
                    calls.join(", ")
                );
                format!("{{\"messages\": [{message}], \"tools\": [{tool}]}}\n").into_bytes()
            }
            _ => table(kind, &[("messages", messages.clone()), ("tools", tools.clone())]),
        };
        let corpus = Corpus::new([(format!("a.{kind}"), bytes)]);
        let mut config = source(&corpus, kind);
        let path = corpus.path("all.jinja");
        std::fs::write(&path, template).expect("a template");
        config.chat.template = Some(path.into());
        let (seen, said) = read(&corpus, &config);
        assert_eq!(said, None, "{kind}");
        let expected = format!(
            "{{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{}]}}x[{tool}]",
            calls.join(", ")
        );
        assert_eq!(seen, [expected], "{kind}");
    }
}

#[test]
fn prompts_have_completions() {
    let record =
        |n: usize| serde_json::json!({ "prompt": format!("{n} + 1 = "), "completion": (n + 1).to_string() });
    let corpus = Corpus::new([
        ("a.jsonl", (0..3).map(|n| format!("{}\n", record(n))).collect::<String>()),
        ("a.csv", "prompt,completion\n0 + 1 = ,1\n1 + 1 = ,2\n2 + 1 = ,3\n".to_owned()),
    ]);
    for kind in [SourceKind::Jsonl, SourceKind::Csv] {
        let config = SourceConfig { task: Task::Completion, ..source(&corpus, kind) };
        let (seen, said) = read(&corpus, &config);
        assert_eq!((seen, said), ((0..3).map(|n| format!("{n} + 1 = {}", n + 1)).collect(), None), "{kind}");
    }
}

#[test]
fn a_task_fits_its_source() {
    let corpus = Corpus::new([("a.jsonl", line(0))]);
    let chat = source(&corpus, SourceKind::Jsonl);
    let refused = |config: SourceConfig, key: &str| {
        let said = run(async { Source::open(&[config]).await.expect_err("a refusal").to_string() });
        assert!(said.contains(&format!("source.0.{key}")), "{key}: {said}");
    };
    refused(SourceConfig { task: Task::Text, field: Some("text".to_owned()), ..chat.clone() }, "chat");
    refused(SourceConfig { seed: Some(7), ..chat.clone() }, "seed");
    refused(
        SourceConfig { task: Task::Completion, field: Some("prompt".to_owned()), ..chat.clone() },
        "field",
    );
    refused(SourceConfig { kind: SourceKind::Text, chat: Default::default(), ..chat.clone() }, "task");
    refused(SourceConfig { kind: SourceKind::Synthetic, paths: Vec::new(), ..chat.clone() }, "task");
    let with = |set: fn(&mut SourceConfig)| {
        let mut config = chat.clone();
        set(&mut config);
        config
    };
    refused(with(|config| config.chat.template = Some("gone.jinja".into())), "chat.template");
    refused(with(|config| config.chat.date = Some("tomorrow".to_owned())), "chat.date");
    refused(with(|config| config.chat.learn = millstream::config::Learn::Roles(Vec::new())), "chat.learn");
    let learning = |roles: &[&str]| {
        millstream::config::Learn::Roles(roles.iter().map(|role| (*role).to_owned()).collect())
    };
    let mut misspelled = chat.clone();
    misspelled.chat.learn = learning(&["assistant", "asistant"]);
    refused(misspelled.clone(), "chat.learn");
    // Templates may know more roles.
    misspelled.chat.roles = [("model".to_owned(), "asistant".to_owned())].into();
    run(async { open(&misspelled).await });
    refused(
        with(|config| (config.task, config.chat.samples) = (Task::Completion, Samples::Turns)),
        "chat.samples",
    );
    refused(
        with(|config| drop(config.chat.fields.insert("rule".to_owned(), "from".to_owned()))),
        "chat.fields",
    );
    refused(with(|config| config.fim.rate = 0.25), "fim");
    let fim =
        SourceConfig { task: Task::Fim, chat: Default::default(), field: Some("text".to_owned()), ..chat };
    refused(
        SourceConfig { fim: millstream::config::FimConfig { rate: 2.0, ..Default::default() }, ..fim },
        "fim.rate",
    );
}

#[tokio::test]
async fn what_records_are_made_for_is_recognized() {
    for (name, content, found) in [
        ("a.jsonl", line(0), Some((Task::Chat, None))),
        ("b.jsonl", line(0).replace("messages", "conversations"), Some((Task::Chat, Some("conversations")))),
        (
            "c.jsonl",
            "{\"prompt\": \"a\", \"completion\": \"b\"}\n".to_owned(),
            Some((Task::Completion, None)),
        ),
        ("d.jsonl", "{\"text\": \"a\", \"messages\": 3}\n".to_owned(), None),
        ("e.json", format!("[{}]", line(0)), Some((Task::Chat, None))),
        ("f.csv", "prompt,completion\na,b\n".to_owned(), Some((Task::Completion, None))),
        ("g.csv", "id,messages\n1,hello\n2,[]\n3,\n".to_owned(), None),
        ("h.csv", "id,text\n1,a\n".to_owned(), None),
        ("i.txt", line(0), None),
    ] {
        let corpus = Corpus::new([(name, content)]);
        let kind = match name.rsplit('.').next() {
            Some("csv") => SourceKind::Csv,
            Some("txt") => SourceKind::Text,
            _ => SourceKind::Jsonl,
        };
        let config = SourceConfig { kind, paths: vec![corpus.path(name)], ..SourceConfig::default() };
        let records = Source::recognize_records(&config).await.expect("it is read");
        let seen = records.as_ref().map(|records| (records.task, records.field.as_deref()));
        assert_eq!(seen, found, "{name}");
    }
    for kind in KINDS {
        let directory = tempfile::tempdir().expect("a directory");
        let config = written(kind, directory.path(), &[answered(0)]);
        let records = Source::recognize_records(&config).await.expect("it is read").expect("conversations");
        assert_eq!((records.task, records.field), (Task::Chat, None), "{kind}");
    }
}
