//! The loss by source, and by the values of a column.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use burn::module::Module;
use futures::{StreamExt, TryStreamExt, stream};
use millstream::batch::Piece;
use millstream::document::ColumnValue;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Loader};
use millstream_train::config::{RunConfig, TrainConfig};
use millstream_train::{
    LanguageModel, LossByValue, MeanLoss, Observer, Peers, RunDirectory, Scope, Step, StepReport, Tensors,
    Trainer, drive, run,
};
use proptest::prelude::*;
use serde_json::Value;

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
                let letter = char::from(b'a' + (i % 26) as u8);
                let (text, number) = (format!("xy{letter}").repeat(1 + i % 4), i * 7 % languages);
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
    block_on(async {
        let loader = Loader::open(&config.data).await.expect("a loader");
        loader.take(count).try_collect().await.expect("batches")
    })
}

/// The losses of the targets that have each label, added up one by one, and how many there are.
type Sums = BTreeMap<String, (f64, u64)>;

fn add_by(
    sums: &mut Sums,
    trainer: &Trainer,
    batch: &Batch,
    scope: Scope,
    label: impl Fn(&Batch, &Piece) -> String,
) {
    let device = burn::tensor::Device::flex();
    let losses = trainer.model().valid().losses(&Tensors::new(batch, scope, &device));
    let losses = losses.into_data().try_to_vec::<f32>().expect("f32");
    for piece in batch.pieces() {
        let first = if scope == Scope::Document { piece.from + 1 } else { piece.from.max(1) };
        let masked: Vec<_> = batch.masked().filter(|(row, _)| *row == piece.row as usize).collect();
        for at in first..piece.to {
            if masked.iter().any(|(_, places)| places.contains(&(at as usize))) {
                continue;
            }
            let sum = sums.entry(label(batch, piece)).or_default();
            sum.0 += f64::from(losses[piece.row as usize * batch.seq_len() + at as usize - 1]);
            sum.1 += 1;
        }
    }
}

fn assert_close(found: &BTreeMap<String, MeanLoss>, expected: &Sums) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, loss) in found {
        let (nats, tokens) = expected[name];
        assert_eq!(loss.tokens, tokens, "{name}");
        assert!((loss.loss - nats / tokens as f64).abs() < 1e-4, "{name}: {loss:?}, {nats} nats");
    }
}

/// Asserts that the values of each name have all `tokens` targets between them, whose mean loss is `loss`.
fn assert_whole(loss_by: &LossByValue, loss: f64, tokens: u64) {
    for means in loss_by.values() {
        let nats: f64 = means.values().map(|mean| mean.loss * mean.tokens as f64).sum();
        assert_eq!(means.values().map(|mean| mean.tokens).sum::<u64>(), tokens);
        assert!((nats - loss * tokens as f64).abs() < 1e-9 * nats, "{nats} {loss} {loss_by:?}");
    }
}

/// The name of a piece's source.
fn source(batch: &Batch, piece: &Piece) -> String {
    format!("s{}", batch.path(piece).file_stem().expect("a file").display())
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
        let (mut by_language, mut by_source) = (Sums::new(), Sums::new());
        for batch in pair {
            add_by(&mut by_language, &trainer, batch, case.scope, language);
            add_by(&mut by_source, &trainer, batch, case.scope, source);
        }
        let Some(step) = trainer.step(pair).expect("a step") else { continue };
        assert_close(&step.loss_by["lang"], &limited(by_language, &mut known));
        // One source alone is not told apart.
        assert_eq!(step.loss_by.len(), if case.sources.len() > 1 { 2 } else { 1 });
        step.loss_by.get("source").iter().for_each(|found| assert_close(found, &by_source));
        assert_whole(&step.loss_by, step.loss, step.tokens as u64);
        done.push(step);
    }
    let mut by_source = Sums::new();
    batches.iter().for_each(|batch| add_by(&mut by_source, &trainer, batch, case.scope, source));
    let held_out = stream::iter(batches.iter().cloned().map(Ok));
    if let Some(validation) = block_on(trainer.validate(held_out)).expect("batches") {
        validation.loss_by.get("source").iter().for_each(|found| assert_close(found, &by_source));
        assert_whole(&validation.loss_by, validation.validation_loss, validation.validation_tokens);
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

/// The losses of all targets of each step, in nats.
#[derive(Default)]
struct Steps(Vec<f64>, u64);

impl Observer for Steps {
    fn on_step(&mut self, report: &StepReport) {
        self.0.push(report.loss * (report.tokens - self.1) as f64);
        self.1 = report.tokens;
    }
}

#[test]
fn a_run_logs_the_loss_of_each_source_since_the_last_logged_step() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = many_languages().config(root.path());
    config.data.pipeline.holdout = 0.2;
    config.train.out = root.path().join("run");
    (config.train.steps, config.train.log_every, config.train.validate_every) = (12, 4, 6);
    let mut seen = Steps::default();
    block_on(run(&config, Arc::new(ByteTokenizer), None, &mut seen, pending())).expect("a run");
    let text = std::fs::read_to_string(config.train.out.join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let (steps, validations): (Vec<_>, Vec<_>) = lines.partition(|line| line["loss"].is_number());
    assert_eq!((steps.len(), validations.len()), (3, 2));
    let sources = |line: &Value| {
        ["s0", "s1"].map(|name| {
            let source = &line["loss_by"]["source"][name];
            (source["loss"].as_f64().expect("a loss"), source["tokens"].as_u64().expect("tokens"))
        })
    };
    let tokens = |line: &Value| -> u64 { sources(line).iter().map(|(_, tokens)| tokens).sum() };
    let nats =
        |line: &Value| -> f64 { sources(line).iter().map(|&(loss, tokens)| loss * tokens as f64).sum() };
    let mut before = 0;
    for (step, seen) in steps.iter().zip(seen.0.chunks(4)) {
        let all: f64 = seen.iter().sum();
        assert!((nats(step) - all).abs() < 1e-5 * all, "{step}, and {all} nats in all");
        assert_eq!(tokens(step), step["tokens"].as_u64().expect("tokens") - before, "{step}");
        before = step["tokens"].as_u64().expect("tokens");
    }
    for validation in &validations {
        assert_eq!(tokens(validation), validation["validation_tokens"].as_u64().expect("tokens"));
    }
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
