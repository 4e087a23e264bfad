//! The model against its slow and simple definition.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use millstream_train::config::{Activation, ModelConfig};
use millstream_train::loss::{head_loss, head_nats};
use millstream_train::model::{Attention, Gpt, KeyValues, Rope};

use crate::numbers::{assert_close, numbers, values};
use crate::small::shape;

const VOCAB: usize = 11;

fn ids(rows: usize, length: usize, seed: u64) -> Vec<i32> {
    numbers(seed).take(rows * length).map(|number| (number % VOCAB as u64) as i32).collect()
}

/// Values around 0 with a deviation of 1: twelve even ones, added up.
fn normal<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let even: Vec<f64> =
        numbers(seed).take(12 * shape.iter().product::<usize>()).map(|n| n as f64 / 2f64.powi(31)).collect();
    let values: Vec<f32> = even.chunks(12).map(|twelve| (twelve.iter().sum::<f64>() - 6.0) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn tensor(ids: &[i32], rows: usize, device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(ids.to_vec(), [rows, ids.len() / rows]), device)
}

#[test]
fn one_seed_gives_one_model_and_another_seed_another() {
    let device = Device::flex();
    let logits = |seed| {
        let model = Gpt::new(&shape(), VOCAB, 8, seed, &device);
        values(model.logits(tensor(&ids(1, 8, 1), 1, &device)))
    };
    assert_eq!(logits(5), logits(5));
    assert_ne!(logits(5), logits(6));
}

#[test]
fn a_later_token_never_changes_earlier_logits() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let model = Gpt::new(&shape(), VOCAB, 8, 1, &device);
        let mut changed = ids(1, 8, 3);
        let before = values(model.logits(tensor(&changed, 1, &device)));
        changed[5] = (changed[5] + 1) % VOCAB as i32;
        let after = values(model.logits(tensor(&changed, 1, &device)));
        assert_eq!(before[..5 * VOCAB], after[..5 * VOCAB]);
        assert_ne!(before[5 * VOCAB..6 * VOCAB], after[5 * VOCAB..6 * VOCAB]);
        assert_ne!(before[7 * VOCAB..], after[7 * VOCAB..], "and later ones see it");
    }
}

#[test]
fn training_and_inference_compute_the_same_function() {
    let device = Device::flex();
    for activation in [Activation::Swiglu, Activation::Gelu] {
        let config = ModelConfig { activation, ..shape() };
        let input = ids(3, 8, 9);
        let model = Gpt::new(&config, VOCAB, 8, 1, &device.clone().autodiff());
        let trained = model.logits(tensor(&input, 3, &device.clone().autodiff())).inner();
        let inferred = model.valid().logits(tensor(&input, 3, &device));
        assert_close(&values(trained), &values(inferred), 1e-5);
    }
}

#[test]
fn attention_equals_its_definition() {
    let device = Device::flex();
    let (heads, length, head) = (2, 6, 8);
    let model = Gpt::new(&shape(), VOCAB, length, 4, &device);
    let attention: &Attention = &model.blocks[0].attention;
    let x = normal([1, length, 16], 5, &device);
    let rope = Rope::new(length, head, 10_000.0, None, &device);
    let found = values(attention.forward(x.clone(), &rope.at(0, length), None));

    let qkv = values(x.reshape([length, 16]).matmul(attention.qkv.val()));
    let at = |t: usize, part: usize, h: usize, i: usize| f64::from(qkv[t * 48 + part * 16 + h * head + i]);
    let turned = |t: usize, part: usize, h: usize, i: usize| {
        let (half, plane) = (head / 2, i % (head / 2));
        let angle = t as f64 * 10_000f64.powf(-2.0 * plane as f64 / head as f64);
        let (a, b) = (at(t, part, h, plane), at(t, part, h, plane + half));
        if i < half { a * angle.cos() - b * angle.sin() } else { b * angle.cos() + a * angle.sin() }
    };
    let mut mixed = vec![0.0f32; length * 16];
    for h in 0..heads {
        for t in 0..length {
            let score = |s: usize| {
                (0..head).map(|i| turned(t, 0, h, i) * turned(s, 1, h, i)).sum::<f64>() / 8f64.sqrt()
            };
            let weights: Vec<f64> = (0..=t).map(|s| score(s).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for i in 0..head {
                let value: f64 = weights.iter().enumerate().map(|(s, w)| w / sum * at(s, 2, h, i)).sum();
                mixed[t * 16 + h * head + i] = value as f32;
            }
        }
    }
    let mixed = Tensor::<2>::from_data(TensorData::new(mixed, [length, 16]), &device);
    assert_close(&found, &values(mixed.matmul(attention.out.val())), 1e-5);
}

#[test]
fn scores_of_turned_vectors_depend_on_their_distance_alone() {
    let device = Device::flex();
    let rope = Rope::new(64, 8, 10_000.0, None, &device);
    let (query, key) = (normal([1, 1, 1, 8], 1, &device), normal([1, 1, 1, 8], 2, &device));
    let score = |q: usize, k: usize| {
        let turned = rope.at(q, 1).split_heads(query.clone(), 1) * rope.at(k, 1).split_heads(key.clone(), 1);
        values(turned.sum())[0]
    };
    for (q, k) in [(7, 2), (20, 15), (63, 58)] {
        assert!((score(q, k) - score(5, 0)).abs() < 1e-4, "{q} {k}");
    }
    assert!((score(5, 0) - score(6, 0)).abs() > 1e-3);
}

#[test]
fn each_place_of_a_row_is_turned_by_its_own_position() {
    let device = Device::flex();
    let rope = Rope::new(16, 8, 10_000.0, None, &device);
    let positions = [0, 1, 2, 0, 1, 0, 15, 7, 7, 0];
    let x = normal([2, 5, 3, 8], 3, &device);
    let found = rope.at_each(&tensor(&positions, 2, &device)).split_heads(x.clone(), 2);
    assert_eq!(found.dims(), [2, 3, 5, 8]);
    for (place, &position) in positions.iter().enumerate() {
        let (row, at) = (place / 5, place % 5);
        let expected = x.clone().slice([row..row + 1, at..at + 1, 0..3, 0..8]);
        let expected = rope.at(position as usize, 1).split_heads(expected, 2);
        assert_eq!(values(found.clone().slice([row..row + 1, 0..3, at..at + 1, 0..8])), values(expected));
    }
    let last = |x: Tensor<4>, dim| values(x.slice_dim(dim, 2..3));
    assert_eq!(last(found, 1), last(x, 2), "the last head is not turned");
}

#[test]
fn a_tied_head_has_no_weights_of_its_own() {
    let device = Device::flex();
    let tied = Gpt::new(&shape(), VOCAB, 8, 1, &device);
    let own = Gpt::new(&ModelConfig { tied: false, ..shape() }, VOCAB, 8, 1, &device);
    assert_eq!(own.num_params() - tied.num_params(), VOCAB * 16);
    assert_eq!(tied.head_id(), tied.embedding.id);
    assert_ne!(own.head_id(), own.embedding.id);
    assert_eq!(own.logits(tensor(&ids(2, 8, 1), 2, &device)).dims(), [2, 8, VOCAB]);
}

#[test]
fn cached_logits_equal_those_of_the_whole() {
    let device = Device::flex();
    let model = Gpt::new(&shape(), VOCAB, 8, 1, &device);
    let input = ids(1, 8, 2);
    let whole = values(model.logits(tensor(&input, 1, &device)));
    let mut cache = KeyValues::default();
    let first = values(model.next_logits(tensor(&input[..5], 1, &device), &mut cache));
    assert_close(&first, &whole[4 * VOCAB..5 * VOCAB], 1e-5);
    for at in 5..8 {
        let next = values(model.next_logits(tensor(&input[at..=at], 1, &device), &mut cache));
        assert_close(&next, &whole[at * VOCAB..(at + 1) * VOCAB], 1e-5);
    }
    assert_eq!(cache.len(), 8);
}

#[test]
fn the_loss_and_its_gradients_equal_their_definition() {
    // Wide enough for several chunks of logits.
    let (rows, vocab, width) = (500, 20_000, 4);
    let device = Device::flex();
    let (hidden, head) = (normal([rows, width], 1, &device), normal([vocab, width], 2, &device));
    let targets: Vec<usize> = (0..rows).map(|row| row * 1_301 % vocab).collect();
    let ids = TensorData::new(targets.iter().map(|&id| id as i32).collect(), [rows]);
    let ids = Tensor::<1, Int>::from_data(ids, &device);
    let every_fourth: Vec<f32> = (0..rows).map(|row| if row % 4 == 3 { 0.0 } else { 1.0 }).collect();

    for mask in [None, Some(every_fourth)] {
        let counts = mask.clone().unwrap_or_else(|| vec![1.0; rows]);
        let expected = Defined::new(&values(hidden.clone()), &values(head.clone()), &targets, &counts, width);
        let mask = mask.map(|mask| Tensor::<2>::from_data(TensorData::new(mask, [rows, 1]), &device));
        let found = head_loss(hidden.clone(), head.clone(), ids.clone(), mask.clone(), false);
        let frozen = head_loss(hidden.clone(), head.clone(), ids.clone(), mask.clone(), true);
        let nats = head_nats(hidden.clone(), head.clone(), ids.clone(), mask);
        assert_eq!(values(nats), values(found.nats.clone()));
        assert_eq!(values(frozen.hidden), values(found.hidden.clone()));
        assert!(frozen.head.is_none());
        assert_close(&values(found.nats), &expected.nats, 1e-5);
        // The device adds the 20,000 terms of a softmax and of a product one by one, in f32.
        assert_close(&values(found.hidden), &expected.hidden, 1e-4);
        assert_close(&values(found.head.expect("a head")), &expected.head, 1e-4);
    }
}

/// What [`head_loss`] gives, one target at a time and in f64.
struct Defined {
    nats: Vec<f32>,
    hidden: Vec<f32>,
    head: Vec<f32>,
}

impl Defined {
    fn new(hidden: &[f32], head: &[f32], targets: &[usize], counts: &[f32], width: usize) -> Self {
        let mut nats = Vec::new();
        let (mut of_hidden, mut of_head) = (vec![0.0; hidden.len()], vec![0.0; head.len()]);
        for (row, (&target, &count)) in targets.iter().zip(counts).enumerate() {
            let state = &hidden[row * width..][..width];
            let product = |of: &[f32]| of.iter().zip(state).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            let weights: Vec<f64> = head.chunks(width).map(|of| f64::exp(product(of))).collect();
            let sum: f64 = weights.iter().sum();
            nats.push(-f64::from(count) * (weights[target] / sum).ln());
            for (id, weight) in weights.iter().enumerate() {
                let slope = f64::from(count) * (weight / sum - if id == target { 1.0 } else { 0.0 });
                for i in 0..width {
                    of_hidden[row * width + i] += slope * f64::from(head[id * width + i]);
                    of_head[id * width + i] += slope * f64::from(state[i]);
                }
            }
        }
        let narrow = |all: Vec<f64>| all.into_iter().map(|value| value as f32).collect();
        Self { nats: narrow(nats), hidden: narrow(of_hidden), head: narrow(of_head) }
    }
}
