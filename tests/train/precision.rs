//! Products in bf16, with parameters, gradients and moments in f32.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Int, Tensor};
use millstream::Batch;
use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{ModelConfig, Precision, RunConfig, TrainConfig};
use millstream_train::gradients::gradients;
use millstream_train::model::{Gpt, KeyValues};
use millstream_train::{Sampling, Scope, Trainer, generate};

use crate::small;

/// A small lr, as late in a run: less than half of what bf16 can tell from 1.0.
const SMALL: f64 = 1e-4;

fn config(precision: Precision) -> RunConfig {
    let model = ModelConfig { qk_norm: true, qkv_bias: true, ..small::grouped() };
    let train =
        TrainConfig { precision, lr: Some(SMALL), min_lr: Some(SMALL), warmup: 0, ..TrainConfig::default() };
    small::config(model, 16, train)
}

fn trainer(config: &RunConfig) -> Trainer {
    Trainer::new(config, &ByteTokenizer).expect("a trainer")
}

/// Rows of 17 ids below 128, the next of each about three times the one before.
fn batch(step: u64) -> Batch {
    let row = |seed: u64| {
        std::iter::successors(Some(seed % 128), move |id| Some((id * 3 + (id ^ seed) % 2) % 128)).take(17)
    };
    Batch::from_ids((0..8).flat_map(|at| row(step * 8 + at * 5)).map(|id| id as u32).collect(), 17)
}

fn gain(model: &Gpt) -> Vec<f32> {
    model.norm.gain.val().into_data().try_to_vec::<f32>().expect("f32")
}

#[test]
fn small_steps_are_not_rounded_away() {
    let config = config(Precision::Bf16);
    let mut trainer = trainer(&config);
    // No id of a batch is 200: the gradient of its vector is zero, and it only decays.
    let vector = |model: &Gpt| {
        model.embedding.val().slice([200..201, 0..16]).into_data().try_to_vec::<f32>().expect("f32")
    };
    let (gains, before) = (gain(trainer.model()), vector(trainer.model()));
    assert!(gains.iter().all(|&gain| gain == 1.0));
    for step in 0..3 {
        trainer.step(&[batch(step)]).expect("a step");
    }
    for gain in gain(trainer.model()) {
        // AdamW's first steps are about as long as the learning rate, whatever the gradient's size.
        assert!(gain != 1.0 && (gain - 1.0).abs() < 4e-4, "{gain}");
    }
    let decay = (1.0 - SMALL * f64::from(config.train.weight_decay)).powi(3);
    for (before, after) in before.iter().zip(vector(trainer.model())) {
        let expected = (f64::from(*before) * decay) as f32;
        assert!(after != *before && (after - expected).abs() < 1e-7, "{before} {after} {expected}");
    }
}

#[test]
fn products_are_bf16_and_all_that_is_kept_is_f32() {
    struct Types<'a>(&'a GradientsParams);
    impl ModuleVisitor for Types<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
            assert_eq!((param.val().dtype(), gradient.dtype()), (DType::F32, DType::F32));
            assert!(gradient.abs().sum().into_scalar::<f32>() > 0.0);
        }
    }
    let device = Device::flex().autodiff();
    for tied in [false, true] {
        let mut config = config(Precision::Bf16);
        config.model.tied = tied;
        let model = Gpt::from_config(&config, &ByteTokenizer, &device).expect("a model");
        let found = gradients(&model, &batch(0), Scope::Row, &device, 2).expect("gradients");
        model.visit(&mut Types(&found.params));
        let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4]], &device);
        assert_eq!(model.hidden(ids.clone(), None).dtype(), DType::BF16);
        assert_eq!(model.logits(ids).dtype(), DType::F32);

        let wide = model.with_precision(Precision::F32);
        let expected = gradients(&wide, &batch(0), Scope::Row, &device, 2).expect("gradients");
        let apart = (found.nats / expected.nats - 1.0).abs();
        assert!(apart > 0.0 && apart < 1e-3, "{} and {}", found.nats, expected.nats);
    }
}

#[test]
fn a_run_in_bf16_learns_as_one_in_f32() {
    let loss = |precision| {
        let mut config = config(precision);
        (config.train.lr, config.train.min_lr) = (Some(3e-3), Some(3e-4));
        config.train.steps = 120;
        let mut trainer = trainer(&config);
        let losses: Vec<f64> = (0..120)
            .map(|step| trainer.step(&[batch(step)]).expect("a step").expect("targets").loss)
            .collect();
        losses[110..].iter().sum::<f64>() / 10.0
    };
    let (f32, bf16) = (loss(Precision::F32), loss(Precision::Bf16));
    assert!(f32 < 3.5, "it learns: {f32}");
    assert!((bf16 / f32 - 1.0).abs() < 0.01, "{bf16} and {f32}");
}

#[test]
fn text_is_made_in_bf16_too() {
    let model = trainer(&config(Precision::Bf16)).model().valid();
    let sampling = Sampling { tokens: 20, ..Sampling::default() };
    let text = || generate(&model, &ByteTokenizer, "impl", &sampling, |_| Ok(())).expect("text");
    assert_eq!(text(), text());
    let mut cache = KeyValues::default();
    let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4]], &Device::flex());
    let next = model.next_logits(ids.clone(), &mut cache).into_data().try_to_vec::<f32>().expect("f32");
    let whole = model.logits(ids).into_data().try_to_vec::<f32>().expect("f32");
    assert_eq!(next[..], whole[3 * 257..]);
}
