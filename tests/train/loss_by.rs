//! The loss by source, and by the values of a column.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;
use std::thread;

use futures::{StreamExt, TryStreamExt, stream};
use millstream::Batch;
use millstream::batch::Piece;
use millstream::document::ColumnValue;
use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{RunConfig, TrainConfig};
use millstream_train::{MeanLoss, Peers, RunDirectory, Scope, Step, Trainer, drive};
use proptest::prelude::*;
use serde_json::Value;

use crate::sources::{Sums, add_by, assert_close, open};
use crate::support::runtime::block_on_here as block_on;

/// A source of the property below.
#[derive(Clone, Debug)]
struct Records {
    /// How many languages its records have.
    languages: usize,
    are_chats: bool,
    /// Whether its config names the column.
    has_column: bool,
}

/// A run over sources of records.
#[derive(Clone, Debug)]
struct Case {
    sources: Vec<Records>,
    scope: Scope,
    pack: &'static str,
}

/// Languages, and one that is null, that may be taken for each other or for what counts for no language.
const LOOK_ALIKE: [Option<&str>; 6] =
    [None, Some("null"), Some("other"), Some("none"), Some("\"other\""), Some("\"")];

const TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}\
                        {% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}";

fn cases() -> impl Strategy<Value = Case> {
    let records = (1_usize..120, any::<bool>(), any::<bool>())
        .prop_map(|(languages, are_chats, has_column)| Records { languages, are_chats, has_column });
    let scope = prop_oneof![Just(Scope::Row), Just(Scope::Document)];
    let pack = prop_oneof![Just("concat"), Just("best_fit"), Just("pad")];
    (prop::collection::vec(records, 1..4), scope, pack).prop_map(|(mut sources, scope, pack)| {
        sources[0].has_column = true;
        Case { sources, scope, pack }
    })
}

impl Case {
    fn config(&self, here: &Path) -> RunConfig {
        std::fs::write(here.join("chat.jinja"), TEMPLATE).expect("written");
        let mut text = String::new();
        for (number, Records { languages, are_chats, has_column }) in self.sources.iter().enumerate() {
            let record = |i: usize| {
                let (text, number) = ("xyz".repeat(1 + i % 4), i * 7 % languages);
                let lang = LOOK_ALIKE
                    .get(number)
                    .map_or_else(|| format!("l{number}").into(), |text| Value::from(*text));
                let of = |role: &str| serde_json::json!({ "role": role, "content": text });
                let messages = [of("user"), of("assistant")];
                serde_json::json!({ "text": text, "messages": messages, "lang": lang }).to_string() + "\n"
            };
            let path = here.join(format!("{number}.jsonl"));
            std::fs::write(&path, (0..200).map(record).collect::<String>()).expect("written");
            text += &format!("[[source]]\nname = \"s{number}\"\nkind = \"jsonl\"\npaths = [{path:?}]\n");
            text += &match are_chats {
                true => format!("task = \"chat\"\nchat.template = {:?}\n", here.join("chat.jinja")),
                false => "field = \"text\"\n".to_owned(),
            };
            text += if *has_column { "columns = [\"lang\"]\n" } else { "" };
        }
        text += &format!(
            "[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 24\nbatch_size = 8\npack = {:?}\nworkers = 1\n\
             [model]\nlayers = 1\nd_model = 8\nheads = 2\nd_ff = 8\n\
             [train]\nloss_by = [\"source\", \"lang\"]\nmask_documents = {}\n",
            self.pack,
            self.scope == Scope::Document
        );
        RunConfig::from_toml(&text).expect("a config")
    }
}

/// The first batches of a config.
fn batches(config: &RunConfig, count: usize) -> Vec<Batch> {
    let batches = async { open(&config.data, None).await.take(count).try_collect().await.expect("batches") };
    block_on(batches)
}

/// The name of a piece's language among the losses, if its source has the column.
fn language(batch: &Batch, piece: &Piece) -> String {
    match batch.column(piece, "lang") {
        Some(ColumnValue::Text(text)) if !text.starts_with('l') => format!("{text:?}"),
        value => value.map_or("none".to_owned(), ToString::to_string),
    }
}

/// Leaves the first 32 languages, and of those that come together the more frequent ones.
fn limited(mut sums: Sums, known: &mut BTreeSet<String>) -> Sums {
    let new = sums.iter().filter(|(name, _)| *name != "none" && !known.contains(*name));
    let mut new: Vec<_> = new.map(|(name, (_, tokens))| (Reverse(*tokens), name.clone())).collect();
    new.sort();
    for (_, name) in new {
        if known.len() < 32 {
            known.insert(name);
        } else if let Some((nats, tokens)) = sums.remove(&name) {
            let other = sums.entry("other".to_owned()).or_default();
            *other = (other.0 + nats, other.1 + tokens);
        }
    }
    sums
}

/// Does a step on each pair of batches, and returns what each has. With peers only their share.
fn steps(config: &RunConfig, batches: &[Batch], peers: Peers) -> Vec<Step> {
    let rank = peers.world().rank;
    let own = if peers.is_alone() { 0..2 } else { rank..rank + 1 };
    let mut trainer = Trainer::new(config, &ByteTokenizer).expect("a trainer").with_peers(peers);
    let step = |pair: &[Batch]| trainer.step(&pair[own.clone()]).expect("a step");
    batches.chunks(2).filter_map(step).collect()
}

/// Checks the sums of some steps, and returns the names of the last step's languages.
fn check(case: &Case) -> Vec<String> {
    let here = tempfile::tempdir().expect("a directory");
    let config = case.config(here.path());
    let batches = batches(&config, 6);
    let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let (mut known, mut done) = (BTreeSet::new(), Vec::new());
    for pair in batches.chunks(2) {
        let mut expected = Sums::new();
        for batch in pair {
            add_by(&mut expected, &trainer, batch, case.scope, language);
        }
        let Some(step) = trainer.step(pair).expect("a step") else { continue };
        assert_close(&step.loss_by["lang"], &limited(expected, &mut known));
        assert_eq!(step.loss_by.len(), if case.sources.len() > 1 { 2 } else { 1 });
        for means in step.loss_by.values() {
            let nats: f64 = means.values().map(|mean| mean.loss * mean.tokens as f64).sum();
            let tokens: u64 = means.values().map(|mean| mean.tokens).sum();
            assert_eq!(tokens, step.tokens as u64);
            assert!((nats - step.loss * tokens as f64).abs() < 1e-9 * nats, "{nats} {step:?}");
        }
        done.push(step);
    }
    // Two ranks have the same sums.
    let ranks: Vec<Vec<Step>> = thread::scope(|scope| {
        let of = |peers| scope.spawn(|| steps(&config, &batches, peers));
        let ranks: Vec<_> = Peers::in_process(2).into_iter().map(of).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    });
    for steps in &ranks {
        assert_eq!(steps.len(), done.len());
        for (step, expected) in steps.iter().zip(&done) {
            for (name, means) in &expected.loss_by {
                let sum = |(value, mean): (&String, &MeanLoss)| {
                    (value.clone(), (mean.loss * mean.tokens as f64, mean.tokens))
                };
                assert_close(&step.loss_by[name], &means.iter().map(sum).collect());
            }
        }
    }
    done.last().map(|step| step.loss_by["lang"].keys().cloned().collect()).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_sums_of_a_name_are_those_of_all_targets_on_any_number_of_ranks(case in cases()) {
        check(&case);
    }
}

/// Sources with more languages than have sums, of which one does not say its own.
fn many_languages() -> Case {
    let records = |has_column| Records { languages: 97, are_chats: false, has_column };
    Case { sources: vec![records(true), records(false)], scope: Scope::Row, pack: "concat" }
}

#[test]
fn the_values_that_have_no_sum_are_summed_as_other() {
    let values = check(&many_languages());
    assert!(values.contains(&"other".to_owned()) && values.contains(&"none".to_owned()), "{values:?}");
}

#[test]
fn a_resumed_run_has_the_same_losses_by_value() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = many_languages().config(root.path());
    config.train =
        TrainConfig { steps: 12, log_every: 4, validate_every: 6, checkpoint_every: 6, ..config.train };
    let (batches, held_out) = (batches(&config, 12), batches(&config, 3));
    let mut lines = |out: &str, ends: &[usize]| -> Vec<Value> {
        config.train.out = root.path().join(out);
        for &end in ends {
            let (trainer, directory) = match RunDirectory::open(&config.train.out) {
                Ok(directory) => {
                    let saved = directory.latest().expect("a checkpoint");
                    (Trainer::resume(&config, &ByteTokenizer, &saved), directory)
                }
                Err(_) => (
                    Trainer::new(&config, &ByteTokenizer),
                    RunDirectory::create(&config, None).expect("made"),
                ),
            };
            let trainer = trainer.expect("a trainer");
            let from = trainer.state().step as usize;
            let these = stream::iter(batches[from..end].iter().cloned().map(Ok));
            let held_out = async || Ok(Some(stream::iter(held_out.clone().into_iter().map(Ok))));
            block_on(drive(trainer, &directory, these, held_out, &mut (), pending())).expect("a run");
        }
        let text = std::fs::read_to_string(config.train.out.join("metrics.jsonl")).expect("metrics");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        // The last step is logged where the data ends, and again within the next logged one.
        let is_due = |line: &Value| line["step"] != 6 || line["validation_loss"].is_number();
        lines.filter(is_due).map(|mut line| line["loss_by"].take()).collect()
    };
    // The second begins again between two logged steps.
    let (whole, parts) = (lines("whole", &[12]), lines("parts", &[6, 12]));
    assert_eq!(whole.len(), 5);
    assert!(whole.iter().all(|loss_by| loss_by["lang"]["none"]["tokens"].is_number()), "{whole:?}");
    assert_eq!(parts, whole);
}

#[test]
fn names_that_no_document_has_a_value_for_are_refused() {
    let refusal = |loss_by: &str| {
        let text = format!("[[source]]\npaths = [\"a.txt\"]\n[train]\nloss_by = {loss_by}\n");
        RunConfig::from_toml(&text).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("[\"source\"]"), None);
    assert_eq!(refusal("[]"), None);
    let unknown = refusal("[\"source\", \"lang\"]").expect("an error");
    for part in ["train.loss_by", "\"lang\"", "`columns`", "\"source\""] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
    let twice = refusal("[\"source\", \"source\"]").expect("an error");
    assert!(twice.contains("train.loss_by") && twice.contains("name it once"), "{twice}");
}
