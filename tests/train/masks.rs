//! What is masked has no loss and no gradient, and does not count: in a row, over micro-batches and over ranks.

use std::thread;

use burn::module::Module;
use burn::tensor::Device;
use futures::stream;
use millstream::batch::BatchBuilder;
use millstream::document::{Mask, Part};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Sequence, Tokens};
use millstream_train::config::{RunConfig, TrainConfig};
use millstream_train::gradients::{gradients, nats};
use millstream_train::model::{Gpt, Unigram};
use millstream_train::{LanguageModel, Peers, Scope, Step, Tensors, Trainer, Validation};
use proptest::prelude::*;

use crate::numbers::{assert_close, values};
use crate::small::{flat, shape, weights};
use crate::support::runtime::block_on_here as block_on;

const VOCAB: usize = 257;
const SEQ_LEN: usize = 12;

/// A document's ids, and whether each is learned from.
type Document = Vec<(u32, bool)>;

/// Rows of documents, each two bytes of text an id.
fn batch(rows: &[Vec<Document>]) -> Batch {
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for row in rows {
        let part = |document: &Document| {
            let (ids, flags): (Vec<u32>, Vec<bool>) = document.iter().copied().unzip();
            let learned = (0..ids.len()).filter(|at| flags[*at]).map(|at| at..at + 1);
            let (mask, len) = (Mask::learning(learned, ids.len()), ids.len());
            Part::new(&Tokens::new(ids, 2 * len).with_mask(mask), 0..len)
        };
        builder.push(&Sequence::new(row.iter().map(part).collect(), SEQ_LEN + 1));
    }
    builder.finish(Cursor::default())
}

/// The same rows with other masks.
fn remasked(rows: &[Vec<Document>], flag: impl Fn(bool) -> bool) -> Batch {
    let document =
        |document: &Document| document.iter().map(|(id, is_learned)| (*id, flag(*is_learned))).collect();
    batch(&rows.iter().map(|row| row.iter().map(document).collect()).collect::<Vec<_>>())
}

/// Rows that documents fill, in part or wholly or not at all.
fn rows() -> impl Strategy<Value = Vec<Vec<Document>>> {
    let document = prop::collection::vec((0_u32..251, any::<bool>()), 1..8);
    let row = prop::collection::vec(document, 0..4).prop_map(|mut row| {
        let mut left = SEQ_LEN + 1;
        for document in &mut row {
            document.truncate(left);
            left -= document.len();
        }
        row.retain(|document| !document.is_empty());
        row
    });
    prop::collection::vec(row, 1..4)
}

/// The targets of these rows, one by one: the row, the place, the id.
fn targets(rows: &[Vec<Document>], scope: Scope) -> Vec<(usize, usize, u32)> {
    let mut targets = Vec::new();
    for (row, documents) in rows.iter().enumerate() {
        let mut place = 0;
        for document in documents {
            for (offset, (id, is_learned)) in document.iter().enumerate() {
                let is_first = if scope == Scope::Row { place == 0 } else { offset == 0 };
                if *is_learned && !is_first {
                    targets.push((row, place, *id));
                }
                place += 1;
            }
        }
    }
    targets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_learned_targets_alone_have_losses_and_gradients(rows in rows(), parts in 1_usize..4) {
        let device = Device::flex().autodiff();
        let model = Gpt::new(&shape(), VOCAB, SEQ_LEN, 7, &device);
        let (some, rest, all) = (batch(&rows), remasked(&rows, |flag| !flag), remasked(&rows, |_| true));
        for scope in [Scope::Row, Scope::Document] {
            let targets = targets(&rows, scope);
            let inner = device.clone().inner();
            let losses = values(model.valid().losses(&Tensors::new(&all, scope, &inner)));
            let expected: f64 =
                targets.iter().map(|(row, place, _)| f64::from(losses[row * SEQ_LEN + place - 1])).sum();
            let found = gradients(&model, &some, scope, &device, parts).expect("gradients");
            prop_assert_eq!((found.tokens, scope.tokens(&some)), (targets.len(), targets.len()));
            prop_assert_eq!(scope.text_bytes(&some), 2 * targets.len() as u64);
            prop_assert!((found.nats - expected).abs() < 1e-3, "{} {}", found.nats, expected);
            let inferred = nats(&model.valid(), &some, scope, &inner, parts).expect("a loss");
            prop_assert!((inferred - expected).abs() < 1e-3, "{inferred} {expected}");
            let mut unigram = [Unigram::new(VOCAB), Unigram::new(VOCAB)];
            unigram[0].count(&some, scope);
            targets.iter().for_each(|(_, _, id)| unigram[1].count(&Batch::from_ids(vec![0, *id], 2), Scope::Row));
            prop_assert_eq!(&unigram[0], &unigram[1]);
            // The gradients of what is learned from and of the rest are those of all.
            let rest = gradients(&model, &rest, scope, &device, parts).expect("gradients");
            let all = gradients(&model, &all, scope, &device, parts).expect("gradients");
            prop_assert_eq!(found.tokens + rest.tokens, all.tokens);
            let of = |tokens: usize, params| (tokens > 0).then(|| flat(&model, params));
            if let Some(all) = of(all.tokens, &all.params) {
                let none = || vec![0.0; all.len()];
                let found = of(found.tokens, &found.params).unwrap_or_else(none);
                let rest = of(rest.tokens, &rest.params).unwrap_or_else(none);
                let sum: Vec<f32> = found.iter().zip(rest).map(|(found, rest)| found + rest).collect();
                assert_close(&sum, &all, 1e-4);
            }
        }
    }
}

/// A row of one document whose last ids are learned from.
fn answer(seed: u32, len: usize, learned: usize) -> Vec<Document> {
    vec![(0..len).map(|at| ((seed * 31 + 7 * at as u32) % 251, at >= len - learned)).collect()]
}

/// Three micro-batches: of few learned ids, of many, and of none.
fn micro_batches() -> [Vec<Vec<Document>>; 3] {
    [vec![answer(1, 13, 2)], vec![answer(2, 13, 12), answer(3, 11, 9)], vec![answer(4, 12, 0)]]
}

const LEARNED: usize = 2 + 12 + 9;

/// With so large an epsilon a step depends on how large its gradient is, and not only on where it points.
fn config() -> RunConfig {
    let train = TrainConfig { lr: Some(1e-1), warmup: 0, epsilon: 1.0, ..TrainConfig::default() };
    crate::small::config(shape(), SEQ_LEN, train)
}

/// What a trainer makes of its batches: a validation before the step, the step, and the weights after it.
fn trained(peers: Option<Peers>, batches: &[Batch], validation: &[Batch]) -> (Validation, Step, Vec<f32>) {
    let mut trainer = Trainer::new(&config(), &ByteTokenizer).expect("a trainer").with_parts(1);
    if let Some(peers) = peers {
        trainer = trainer.with_peers(peers);
    }
    let validation = stream::iter(validation.iter().cloned().map(Ok));
    let validation = block_on(trainer.validate(validation)).expect("batches").expect("targets");
    let step = trainer.step(batches).expect("a step").expect("targets");
    (validation, step, weights(trainer.model()))
}

fn assert_equal(found: &(Validation, Step, Vec<f32>), expected: &(Validation, Step, Vec<f32>)) {
    let ((validation, step, found), (other_validation, other, expected)) = (found, expected);
    assert_eq!((step.tokens, validation.validation_tokens), (LEARNED, LEARNED as u64));
    assert!((step.loss - other.loss).abs() < 1e-5, "{} {}", step.loss, other.loss);
    assert!((step.grad_norm - other.grad_norm).abs() < 1e-4 * other.grad_norm);
    assert_close(found, expected, 1e-5);
    assert!((validation.validation_loss - other_validation.validation_loss).abs() < 1e-5);
    let bits = [validation, other_validation].map(|validation| validation.bits_per_byte.expect("text"));
    assert!((bits[0] - bits[1]).abs() < 1e-5);
}

#[test]
fn the_mean_is_over_the_learned_ids_of_all_micro_batches_and_ranks() {
    let parts = micro_batches();
    let whole = [batch(&parts.concat())];
    let micro = parts.map(|rows| batch(&rows));
    let one = trained(None, &whole, &whole);
    // Two bytes of text an id.
    let bits = one.0.validation_loss / std::f64::consts::LN_2 / 2.0;
    assert!((one.0.bits_per_byte.expect("text") - bits).abs() < 1e-9);
    assert_equal(&trained(None, &micro, &micro), &one);
    // The mean of the micro-batches' means is another, so that it would be seen.
    let alone = [&micro[..1], &micro[1..2]].map(|batches| trained(None, batches, batches).1.loss);
    assert!(((alone[0] + alone[1]) / 2.0 - one.1.loss).abs() > 1e-2, "{alone:?} {}", one.1.loss);

    let shares = [&micro[..1], &micro[1..]];
    let ranks: Vec<_> = thread::scope(|scope| {
        let ranks = Peers::in_process(2).into_iter().zip(shares);
        let micro = &micro;
        let ranks: Vec<_> =
            ranks.map(|(peers, own)| scope.spawn(move || trained(Some(peers), own, micro))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    });
    ranks.iter().for_each(|rank| assert_equal(rank, &one));
}

#[test]
fn a_step_of_nothing_to_learn_is_none() {
    let mut trainer = Trainer::new(&config(), &ByteTokenizer).expect("a trainer").with_parts(1);
    let before = weights(trainer.model());
    let nothing = [batch(&micro_batches()[2])];
    assert!(trainer.step(&nothing).expect("no error").is_none());
    assert!(block_on(trainer.validate(stream::iter(nothing.map(Ok)))).expect("no error").is_none());
    assert_eq!(weights(trainer.model()), before);
}
