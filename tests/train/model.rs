//! What a model computes, alone and step by step, and its loss against burn's operations.

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use millstream_train::config::{Activation, ModelConfig};
use millstream_train::loss::{head_loss, head_nats};
use millstream_train::model::{Gpt, KeyValues};

use crate::numbers::{assert_close, numbers, values};
use crate::small::shape;

const VOCAB: usize = 11;

fn ids(rows: usize, length: usize, seed: u64) -> Vec<i32> {
    numbers(seed).take(rows * length).map(|number| (number % VOCAB as u64) as i32).collect()
}

/// Values around 0 with a deviation of 1: twelve even ones, added up.
fn normal(shape: [usize; 2], seed: u64, device: &Device) -> Tensor<2> {
    let even: Vec<f64> =
        numbers(seed).take(12 * shape[0] * shape[1]).map(|n| n as f64 / 2f64.powi(31)).collect();
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
fn the_loss_and_its_gradients_are_those_of_burns_operations() {
    // Wide enough for several chunks of logits.
    let (rows, vocab, width) = (500, 20_000, 4);
    let device = Device::flex();
    let (hidden, head) = (normal([rows, width], 1, &device), normal([vocab, width], 2, &device));
    let targets: Vec<i32> = (0..rows).map(|row| (row * 1_301 % vocab) as i32).collect();
    let ids: Tensor<1, Int> = tensor(&targets, rows, &device).squeeze_dim(1);
    let every_fourth: Vec<f32> = (0..rows).map(|row| if row % 4 == 3 { 0.0 } else { 1.0 }).collect();

    let trained = device.clone().autodiff();
    let wide = |data: TensorData| Tensor::<2>::from_data(data, (&trained, DType::F64));
    let narrow = |tensor: Tensor<2>| values(tensor.cast(DType::F32));
    let [states, vectors] = [&hidden, &head].map(|tensor| wide(tensor.to_data()).require_grad());
    for mask in [None, Some(every_fourth)] {
        let counts = TensorData::new(mask.clone().unwrap_or_else(|| vec![1.0; rows]), [rows, 1]);
        let logits = states.clone().matmul(vectors.clone().transpose());
        let chosen = log_softmax(logits, 1).gather(1, tensor(&targets, rows, &trained));
        let nats = chosen.neg() * wide(counts);
        let gradients = nats.clone().sum().backward();
        let slopes = |of: &Tensor<2>| narrow(of.grad(&gradients).expect("a gradient"));

        let mask = mask.map(|mask| Tensor::<2>::from_data(TensorData::new(mask, [rows, 1]), &device));
        let found = head_loss(hidden.clone(), head.clone(), ids.clone(), mask.clone(), false);
        let frozen = head_loss(hidden.clone(), head.clone(), ids.clone(), mask.clone(), true);
        let alone = head_nats(hidden.clone(), head.clone(), ids.clone(), mask);
        assert_eq!(values(alone), values(found.nats.clone()));
        assert_eq!(values(frozen.hidden), values(found.hidden.clone()));
        assert!(frozen.head.is_none());
        assert_close(&values(found.nats), &narrow(nats.inner()), 1e-5);
        // The device adds the 20,000 terms of a softmax and of a product one by one, in f32.
        assert_close(&values(found.hidden), &slopes(&states), 1e-4);
        assert_close(&values(found.head.expect("a head")), &slopes(&vectors), 1e-4);
    }
}
