//! The loss of each source.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use futures::{StreamExt, TryStreamExt};
use millstream::batch::Piece;
use millstream::config::{PackRule, SourceConfig, TokenizerConfig};
use millstream::document::Mask;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Config, Document, Loader};
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};
use millstream_train::{LanguageModel, MeanLoss, Observer, Scope, StepReport, Tensors, Trainer, run};
use serde_json::Value;
use tempfile::TempDir;

use crate::small;
use crate::support::runtime::block_on_here as block_on;

const NAMES: [&str; 2] = ["letters", "digits"];

fn corpus() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, alphabet) in NAMES.iter().zip(["abcdefgh", "01234567"]) {
        let line = |i: usize| format!("{}\n", alphabet.repeat(1 + i % 5).split_at(i % 7 + 1).1);
        let text: String = (0..40).map(line).collect();
        std::fs::write(directory.path().join(format!("{name}.txt")), text).expect("written");
    }
    directory
}

fn config(corpus: &Path, names: &[&str], scope: Scope) -> RunConfig {
    let mut data = Config::default().with_tokenizer(TokenizerConfig::bytes());
    for name in names {
        let path = corpus.join(format!("{name}.txt")).display().to_string();
        data = data.with_source(SourceConfig::text(path).with_name(*name));
    }
    data.pipeline.seq_len = 20;
    data.pipeline.batch_size = 5;
    data.pipeline.epochs = Some(1);
    let model = ModelConfig { layers: 1, ..small::shape() };
    let mask_documents = scope == Scope::Document;
    let train = TrainConfig { mask_documents, validation_batches: 100, ..TrainConfig::default() };
    RunConfig { data, model, train }
}

/// The part of a document that is learned from.
pub(crate) type Learned = fn(&Document) -> std::ops::Range<usize>;

/// A loader of documents of which only a part is learned from, if there is a rule for it.
pub(crate) async fn open(config: &Config, learned: Option<Learned>) -> Loader {
    let builder = Loader::builder(config);
    let builder = match learned {
        None => builder,
        Some(learned) => builder.stage("mask", move |documents, _| {
            let masked = move |document: Document| {
                let (learned, len) = (learned(&document), document.text().len());
                document.with_mask(Mask::learning(Some(learned), len))
            };
            documents.map_ok(move |it| it.map(masked)).boxed()
        }),
    };
    builder.open().await.expect("a loader")
}

/// Only the second half.
fn half(document: &Document) -> std::ops::Range<usize> {
    let len = document.text().len();
    len / 2..len
}

/// The losses of the targets that have each label, added up one by one, and how many there are.
pub(crate) type Sums = BTreeMap<String, (f64, u64)>;

pub(crate) fn add_by(
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

pub(crate) fn assert_close(found: &BTreeMap<String, MeanLoss>, expected: &Sums) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, loss) in found {
        let (nats, tokens) = expected[name];
        assert_eq!(loss.tokens, tokens, "{name}");
        assert!((loss.loss - nats / tokens as f64).abs() < 1e-4, "{name}: {loss:?}, {nats} nats");
    }
}

#[test]
fn every_target_counts_for_the_source_that_it_came_from() {
    let corpus = corpus();
    let of_file = |batch: &Batch, piece: &Piece| {
        batch.path(piece).file_stem().expect("a file").to_string_lossy().into_owned()
    };
    for (scope, packing, learned) in [
        (Scope::Row, PackRule::Concat, None),
        (Scope::Document, PackRule::Concat, None),
        (Scope::Document, PackRule::BestFit, None),
        (Scope::Row, PackRule::Concat, Some(half as Learned)),
        (Scope::Document, PackRule::BestFit, Some(half as Learned)),
    ] {
        let mut config = config(corpus.path(), &NAMES, scope);
        config.data.pipeline.pack = packing;
        block_on(async {
            let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
            let mut loader = open(&config.data, learned).await;
            let (mut has_both, mut is_masked) = (false, false);
            while let Some(batch) = loader.next().await {
                let batch = batch.expect("a batch");
                is_masked |= batch.is_masked();
                let mut expected = Sums::new();
                add_by(&mut expected, &trainer, &batch, scope, of_file);
                // The last rows may be of documents that are too short to have a target.
                let Some(step) = trainer.step(std::slice::from_ref(&batch)).expect("a step") else {
                    continue;
                };
                assert_close(&step.loss_by["source"], &expected);
                let tokens: u64 = step.loss_by["source"].values().map(|source| source.tokens).sum();
                assert_eq!(tokens, step.tokens as u64);
                has_both |= step.loss_by["source"].len() == 2;
            }
            assert!(has_both, "no batch has both");
            assert_eq!(is_masked, learned.is_some());
            let loader = open(&config.data, learned).await;
            let validation = trainer.validate(loader).await.expect("batches").expect("targets");
            let sums = validation.loss_by["source"].values().map(|source| source.loss * source.tokens as f64);
            let mean = sums.sum::<f64>() / validation.validation_tokens as f64;
            assert!((mean - validation.validation_loss).abs() < 1e-9);
        });
    }
}

#[test]
fn the_loss_of_a_source_is_that_of_a_validation_where_only_it_is_learned_from() {
    let corpus = corpus();
    let config = config(corpus.path(), &NAMES, Scope::Row);
    let letters: Learned = |document| {
        if document.text().contains(char::is_alphabetic) { 0..document.text().len() } else { 0..0 }
    };
    block_on(async {
        let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let mut validated = async |learned| {
            let loader = open(&config.data, learned).await;
            trainer.validate(loader).await.expect("batches").expect("targets")
        };
        let (both, alone) = (validated(None).await, validated(Some(letters)).await);
        let of_letters = both.loss_by["source"]["letters"];
        assert_eq!(of_letters.tokens, alone.validation_tokens);
        assert!((of_letters.loss - alone.validation_loss).abs() < 1e-6, "{of_letters:?} {alone:?}");
        assert!((of_letters.loss - both.validation_loss).abs() > 1e-3, "the sources have the same loss");
    });
}

#[test]
fn one_source_alone_is_not_told_apart() {
    let corpus = corpus();
    let config = config(corpus.path(), &NAMES[..1], Scope::Row);
    block_on(async {
        let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let batch =
            Loader::open(&config.data).await.expect("a loader").next().await.expect("one").expect("a batch");
        assert!(trainer.step(&[batch]).expect("a step").expect("targets").loss_by.is_empty());
    });
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
    let (corpus, out) = (corpus(), tempfile::tempdir().expect("a directory"));
    let mut config = config(corpus.path(), &NAMES, Scope::Row);
    config.data.pipeline.epochs = None;
    config.data.pipeline.holdout = 0.2;
    config.train.out = out.path().join("run");
    (config.train.steps, config.train.log_every, config.train.validate_every) = (12, 4, 6);
    let mut seen = Steps::default();
    block_on(run(&config, Arc::new(ByteTokenizer), None, &mut seen, pending())).expect("a run");
    let text = std::fs::read_to_string(config.train.out.join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let (steps, validations): (Vec<_>, Vec<_>) = lines.partition(|line| line["loss"].is_number());
    assert_eq!((steps.len(), validations.len()), (3, 2));
    let tokens = |line: &Value| -> u64 {
        NAMES
            .iter()
            .map(|name| line["loss_by"]["source"][name]["tokens"].as_u64().expect("a source's tokens"))
            .sum()
    };
    let nats = |line: &Value| -> f64 {
        let of = |name: &&str| {
            let source = &line["loss_by"]["source"][name];
            source["loss"].as_f64().expect("a loss") * source["tokens"].as_f64().expect("tokens")
        };
        NAMES.iter().map(of).sum()
    };
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
