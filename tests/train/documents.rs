//! Packed rows whose documents do not see each other.

use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::Device;
use futures::stream;
use millstream::batch::BatchBuilder;
use millstream::document::Part;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Error, Sequence, Tokens};
use millstream_train::config::TrainConfig;
use millstream_train::gradients::{gradients, nats};
use millstream_train::model::{Gpt, Unigram};
use millstream_train::{Checkpoint, Scope, Tensors, Trainer};
use proptest::prelude::*;

use crate::numbers::values;
use crate::small::{config, flat, shape};

const ONE: usize = 1;
const VOCAB: usize = 257;
const SEQ_LEN: usize = 12;

fn model(device: &Device) -> Gpt {
    Gpt::new(&shape(), VOCAB, SEQ_LEN, 7, device)
}

fn document(seed: usize, len: usize) -> Vec<u32> {
    (0..len).map(|at| ((seed * 31 + at * at * 7 + at) % 251) as u32).collect()
}

/// Rows of documents, each one byte of text an id.
fn batch(rows: &[Vec<Vec<u32>>], ahead: usize) -> Batch {
    let mut builder = BatchBuilder::new(rows.len(), 0).with_ahead(ahead);
    for row in rows {
        let part = |ids: &Vec<u32>| Part::new(&Tokens::new(ids.clone(), ids.len()), 0..ids.len());
        builder.push(&Sequence::new(row.iter().map(part).collect(), SEQ_LEN + ahead));
    }
    builder.finish(Cursor::default())
}

/// Rows that documents fill, in part or wholly or not at all; some documents have one id.
fn rows() -> impl Strategy<Value = Vec<Vec<Vec<u32>>>> {
    let row = prop::collection::vec(1usize..8, 0..5).prop_map(|mut lengths| {
        let mut left = SEQ_LEN + 1;
        for length in &mut lengths {
            *length = (*length).min(left);
            left -= *length;
        }
        lengths.retain(|&length| length > 0);
        lengths
    });
    prop::collection::vec(row, 1..4).prop_map(|rows| {
        let documents = |(row, lengths): (usize, Vec<usize>)| {
            (1..).zip(lengths).map(|(at, length)| document(10 * row + at, length)).collect()
        };
        rows.into_iter().enumerate().map(documents).collect()
    })
}

fn hidden(model: &Gpt, batch: &Batch, scope: Scope, device: &Device) -> Vec<f32> {
    let tensors = Tensors::new(batch, scope, device);
    values(model.hidden(tensors.inputs, tensors.positions.as_ref()))
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_packed_document_has_the_hidden_states_that_it_has_alone(rows in rows()) {
        let device = Device::flex();
        let trained = device.clone().autodiff();
        let (packed, width) = (batch(&rows, 1), 16);
        for device in [&device, &trained] {
            let model = model(device);
            let found = hidden(&model, &packed, Scope::Document, device);
            prop_assert!(found.iter().all(|value| value.is_finite()));
            for (row, documents) in rows.iter().enumerate() {
                let mut from = row * SEQ_LEN;
                for ids in documents {
                    // The row's last id is no input.
                    let len = ids.len().min((row + 1) * SEQ_LEN - from);
                    if len > 0 {
                        let mut alone = ids[..len].to_vec();
                        alone.push(0);
                        let expected = hidden(&model, &Batch::from_ids(alone, len + 1), Scope::Row, device);
                        prop_assert!(close(&found[from * width..(from + len) * width], &expected));
                    }
                    from += len;
                }
            }
        }
    }

    #[test]
    fn losses_and_gradients_of_packed_documents_are_the_sums_of_theirs(rows in rows(), parts in 1usize..4) {
        let device = Device::flex().autodiff();
        let model = model(&device);
        let packed = batch(&rows, 1);
        let found = gradients(&model, &packed, Scope::Document, &device, parts).expect("gradients");
        let (mut sum, mut loss, mut tokens) = (GradientsAccumulator::new(), 0.0, 0);
        for ids in rows.iter().flatten().filter(|ids| ids.len() > 1) {
            let alone = Batch::from_ids(ids.clone(), ids.len());
            let one = gradients(&model, &alone, Scope::Row, &device, ONE).expect("gradients");
            loss += one.nats;
            tokens += one.tokens;
            sum.accumulate(&model, one.params);
        }
        prop_assert_eq!(found.tokens, tokens);
        prop_assert!((found.nats - loss).abs() < 1e-3, "{} {}", found.nats, loss);
        let inferred = nats(&model.valid(), &packed, Scope::Document, &device.clone().inner(), parts);
        prop_assert!((inferred.expect("a loss") - loss).abs() < 1e-3);
        if tokens > 0 {
            prop_assert!(close(&flat(&model, &found.params), &flat(&model, &sum.grads())));
        }
    }

    #[test]
    fn every_target_in_scope_counts_once(rows in rows()) {
        let packed = batch(&rows, 1);
        for scope in [Scope::Row, Scope::Document] {
            let (mut found, mut expected) = (Unigram::new(VOCAB), Unigram::new(VOCAB));
            found.count(&packed, scope);
            let texts: Vec<Vec<u32>> = match scope {
                Scope::Row => rows.iter().map(|row| row.concat()).collect(),
                Scope::Document => rows.concat(),
                other => unreachable!("{other:?}"),
            };
            for text in texts.iter().filter(|text| !text.is_empty()) {
                expected.count(&Batch::from_ids(text.clone(), text.len()), Scope::Row);
            }
            prop_assert_eq!(found, expected);
            let tokens: usize = texts.iter().map(|text| text.len().saturating_sub(1)).sum();
            prop_assert_eq!(scope.tokens(&packed), tokens);
            prop_assert_eq!(scope.text_bytes(&packed), tokens as u64);
        }
    }
}

#[test]
fn without_the_mask_a_document_sees_the_one_before() {
    let device = Device::flex();
    let model = model(&device);
    let packed = batch(&[vec![document(1, 6), document(2, 7)]], 1);
    let (row, documents) =
        (hidden(&model, &packed, Scope::Row, &device), hidden(&model, &packed, Scope::Document, &device));
    assert!(close(&row[..6 * 16], &documents[..6 * 16]), "the first sees nothing else either way");
    for at in 6..SEQ_LEN {
        assert!(!close(&row[at * 16..][..16], &documents[at * 16..][..16]), "at {at}");
    }
}

#[test]
fn rows_that_overlap_by_more_train_on_the_same_targets() {
    let device = Device::flex().autodiff();
    let model = model(&device);
    let rows = [vec![document(1, 6), document(2, 7)], vec![document(3, 4)]];
    let longer = [vec![document(1, 6), document(2, 7), document(4, 2)], vec![document(3, 4)]];
    for scope in [Scope::Row, Scope::Document] {
        let one = gradients(&model, &batch(&rows, 1), scope, &device, ONE).expect("gradients");
        let three = gradients(&model, &batch(&longer, 3), scope, &device, ONE).expect("gradients");
        assert_eq!((one.nats, one.tokens), (three.nats, three.tokens));
        assert_eq!(flat(&model, &one.params), flat(&model, &three.params));
    }
}

#[test]
fn the_trainer_and_its_validation_keep_to_documents_if_told() {
    let train = TrainConfig { mask_documents: true, ..TrainConfig::default() };
    let mut config = config(shape(), SEQ_LEN, train);
    let packed = batch(&[vec![document(1, 6), document(2, 7)], vec![]], 1);
    let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let device = Device::flex().autodiff();
    let expected = gradients(trainer.model(), &packed, Scope::Document, &device, ONE).expect("a loss");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let validation = runtime.block_on(trainer.validate(stream::iter([Ok(packed.clone())])));
    let validation = validation.expect("validated").expect("targets");
    assert_eq!(validation.validation_tokens, 11);
    assert!((validation.validation_loss - expected.nats / 11.0).abs() < 1e-5);
    let bits = validation.validation_loss / std::f64::consts::LN_2;
    assert!((validation.bits_per_byte.expect("text") - bits).abs() < 1e-9, "a byte is a token here");
    let step = trainer.step(&[packed]).expect("a step").expect("targets");
    assert_eq!(step.tokens, 11);
    assert!((step.loss - expected.nats / 11.0).abs() < 1e-5);

    let root = tempfile::tempdir().expect("a directory");
    let checkpoint = Checkpoint::open(&trainer.save(root.path()).expect("saved")).expect("whole");
    config.train.mask_documents = false;
    let refused = Trainer::resume(&config, &ByteTokenizer, &checkpoint).expect_err("another training");
    let Error::Checkpoint { problem, .. } = refused else { panic!("{refused}") };
    assert!(problem.contains("`train.mask_documents`"), "{problem}");
}
