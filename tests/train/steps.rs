//! Gradients, the optimizer and single steps.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use futures::stream;
use millstream::batch::BatchBuilder;
use millstream::document::Part;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Sequence, Tokens};
use millstream_train::config::{RunConfig, Schedule, TrainConfig};
use millstream_train::gradients::{Factor, global_norm, gradients, scale};
use millstream_train::model::Gpt;
use millstream_train::{Checkpoint, Optimizer, Sampling, Scope, Trainer, generate};

use crate::numbers::assert_close;
use crate::small::{self, flat, shape, weights};
use crate::support::runtime::block_on_here as block_on;

const ONE: usize = 1;

fn config() -> RunConfig {
    let train =
        TrainConfig { lr: Some(1e-2), min_lr: Some(1e-3), warmup: 3, steps: 200, ..TrainConfig::default() };
    small::config(shape(), 8, train)
}

fn model(device: &Device) -> Gpt {
    Gpt::new(&shape(), 257, 8, 7, device)
}

fn row(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (seed * 31 + i * 7) % 251).collect()
}

/// Rows of width 9, each filled as far as its ids go.
fn batch(rows: &[Vec<u32>]) -> Batch {
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for row in rows {
        let tokens = Tokens::new(row.clone(), row.len());
        builder.push(&Sequence::new(vec![Part::new(&tokens, 0..row.len())], 9));
    }
    builder.finish(Cursor::default())
}

fn norm(model: &Gpt, params: &GradientsParams) -> f64 {
    f64::from(global_norm(model, params).expect("gradients").into_scalar::<f32>())
}

#[test]
fn padding_changes_neither_the_loss_nor_the_gradients() {
    let device = Device::flex().autodiff();
    let model = model(&device);
    let full = |len: usize| Batch::from_ids(row(3, len), len);
    // Rows of nine ids, one of them filled to the fifth, and the same documents without padding.
    let padded = batch(&[row(1, 9), row(3, 5)]);
    assert!(padded.is_padded());
    let padded = gradients(&model, &padded, Scope::Row, &device, ONE).expect("gradients");
    let first = gradients(&model, &batch(&[row(1, 9)]), Scope::Row, &device, ONE).expect("gradients");
    let second = gradients(&model, &full(5), Scope::Row, &device, ONE).expect("gradients");
    assert_eq!(padded.tokens, 12);
    assert!((padded.nats - first.nats - second.nats).abs() < 1e-4);
    let sum: Vec<f32> = flat(&model, &first.params)
        .iter()
        .zip(flat(&model, &second.params))
        .map(|(first, second)| first + second)
        .collect();
    assert_close(&flat(&model, &padded.params), &sum, 1e-4);
}

#[test]
fn the_clip_bounds_the_norm_of_all_gradients_together() {
    let device = Device::flex().autodiff();
    let model = model(&device);
    let found = gradients(&model, &batch(&[row(1, 9)]), Scope::Row, &device, ONE).expect("gradients");
    let values = flat(&model, &found.params);
    let expected = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let length = norm(&model, &found.params);
    assert!((length - expected).abs() < 1e-4 * expected);
    let mut scaled = found.params;
    scale(&model, &mut scaled, &Factor::Known(0.5 / length));
    assert!((norm(&model, &scaled) - 0.5).abs() < 1e-4);
    let half = Tensor::full([1], 0.5, &Device::flex());
    scale(&model, &mut scaled, &Factor::OnDevice(half));
    assert!((norm(&model, &scaled) - 0.25).abs() < 1e-4);
    let ratio = flat(&model, &scaled)[5] / values[5];
    assert!((f64::from(ratio) - 0.25 / length).abs() < 1e-5, "one factor for all");
}

#[test]
fn matrices_decay_and_gains_do_not() {
    struct Zero<'a>(&'a mut GradientsParams);
    impl ModuleVisitor for Zero<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.register::<D>(param.id, param.val().inner().zeros_like());
        }
    }
    let device = Device::flex().autodiff();
    let model = model(&device);
    let mut gradients = GradientsParams::new();
    model.visit(&mut Zero(&mut gradients));
    let config = TrainConfig { weight_decay: 0.5, ..TrainConfig::default() };
    let mut optimizer = Optimizer::new(&config, &model).expect("an optimizer");
    let (stepped, norm) = optimizer.step(model.clone(), gradients, 1, 0.1).expect("a step");
    assert_eq!(norm, 0.0);
    let ratio = |before: &Param<Tensor<2>>, after: &Param<Tensor<2>>| {
        let value = |param: &Param<Tensor<2>>| param.val().into_data().try_to_vec::<f32>().expect("f32")[3];
        value(after) / value(before)
    };
    for (before, after) in [
        (&model.embedding, &stepped.embedding),
        (&model.blocks[1].mlp.down, &stepped.blocks[1].mlp.down),
        (&model.blocks[0].attention.qkv, &stepped.blocks[0].attention.qkv),
    ] {
        assert!((ratio(before, after) - 0.95).abs() < 1e-5);
    }
    let gains =
        |model: &Gpt| model.blocks[0].mlp_norm.gain.val().into_data().try_to_vec::<f32>().expect("f32");
    assert_eq!(gains(&model), gains(&stepped));
}

#[test]
fn the_loss_of_a_pattern_falls_below_that_of_its_frequencies_and_the_model_continues_it() {
    let mut config = config();
    config.train.validation_batches = 1;
    let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let text: Vec<u32> = "abcabcabcabc".bytes().map(u32::from).collect();
    let rows: Vec<Vec<u32>> = (0..3).map(|at| text[at..at + 9].to_vec()).collect();
    let pattern = batch(&rows);
    let mut step = || trainer.step(std::slice::from_ref(&pattern)).expect("a step").expect("targets");
    let first = step();
    assert!((first.loss - 257f64.ln()).abs() < 0.5, "{}", first.loss);
    let losses: Vec<f64> = (1..200).map(|_| step().loss).collect();
    let unigram = trainer.unigram_loss().expect("alone");
    assert!((unigram - 3f64.ln()).abs() < 1e-6);
    assert!(losses[198] < 0.1 * unigram, "{}", losses[198]);

    let held_out = stream::iter([Ok(pattern.clone()), Ok(pattern)]);
    let validation = block_on(trainer.validate(held_out)).expect("validated");
    let validation = validation.expect("it has targets");
    assert_eq!(validation.validation_tokens, 24, "one batch was asked for");
    assert!((validation.validation_loss - losses[198]).abs() < 0.05);
    let bits = validation.validation_loss / std::f64::consts::LN_2;
    assert!((validation.bits_per_byte.expect("text") - bits).abs() < 1e-9, "a byte is a token here");

    let model = trainer.model().valid();
    let run = |temperature, top_k, seed| {
        let sampling =
            Sampling { tokens: 20, temperature, top_k, top_p: None, seed, begin: vec![], ends: vec![] };
        let mut pieces = String::new();
        let text = generate(&model, &ByteTokenizer, "abc", &sampling, |piece| {
            pieces.push_str(piece);
            Ok(())
        });
        assert_eq!(*text.as_ref().expect("text"), pieces);
        pieces
    };
    assert_eq!(run(0.0, None, 1), "abcabcabcabcabcabcab", "past the context of eight, too");
    assert_eq!(run(1.5, Some(1), 2), run(0.0, None, 3), "the likeliest alone");
    assert_eq!(run(3.0, None, 4), run(3.0, None, 4), "one seed, one text");
    assert_ne!(run(3.0, None, 4), run(3.0, None, 5));
}

#[test]
fn batches_that_do_not_fit_are_errors() {
    let mut trainer = Trainer::new(&config(), &ByteTokenizer).expect("a trainer");
    let message = |result: millstream::Result<_>| {
        result.map(|_: Option<millstream_train::Step>| ()).expect_err("refused").to_string()
    };
    let wide = message(trainer.step(&[Batch::from_ids(row(1, 10), 10)]));
    assert!(wide.contains("9 targets a row"), "{wide}");
    let foreign = message(trainer.step(&[Batch::from_ids(vec![1, 2, 257], 3)]));
    assert!(foreign.contains("id 257"), "{foreign}");
    assert_eq!(trainer.state().step, 0);
    trainer.step(&[batch(&[row(1, 9)])]).expect("the trainer goes on");
}

/// Batches that have nothing to learn: of no rows, of empty rows, of rows of one id.
fn nothing() -> [Batch; 4] {
    [batch(&[]), batch(&[vec![], vec![]]), batch(&[vec![1], vec![]]), Batch::from_ids(Vec::new(), 9)]
}

#[test]
fn batches_without_targets_change_nothing() {
    let mut trainer = Trainer::new(&config(), &ByteTokenizer).expect("a trainer");
    let before = weights(trainer.model());
    for empty in nothing() {
        assert_eq!(trainer.step(std::slice::from_ref(&empty)).expect("no error"), None);
        assert_eq!(block_on(trainer.validate(stream::iter([Ok(empty)]))).expect("no error"), None);
    }
    assert_eq!(trainer.step(&nothing()).expect("no error"), None);
    assert_eq!((trainer.state().step, trainer.state().tokens, trainer.state().loss), (0, 0, None));
    assert_eq!(weights(trainer.model()), before);
    assert!(trainer.cursor().is_some(), "but the data has moved on");

    // Beside others they weigh nothing, nor do empty rows.
    let full = batch(&[row(1, 9), row(2, 5)]);
    let mut alone = Trainer::new(&config(), &ByteTokenizer).expect("a trainer");
    let expected = alone.step(std::slice::from_ref(&full)).expect("a step").expect("targets");
    let mut among = nothing().to_vec();
    among.insert(1, full.clone());
    let step = trainer.step(&among).expect("a step").expect("targets");
    assert_eq!(step, expected);
    assert_eq!(weights(trainer.model()), weights(alone.model()));
    let rows = [vec![], row(1, 9), vec![], row(2, 5), vec![]];
    let next = trainer.step(&[batch(&rows)]).expect("a step").expect("targets");
    let expected = alone.step(&[full]).expect("a step").expect("targets");
    assert_eq!(next.tokens, expected.tokens);
    assert!((next.loss - expected.loss).abs() < 1e-5, "{next:?} {expected:?}");
    assert_close(&weights(trainer.model()), &weights(alone.model()), 1e-4);
}

#[test]
fn batches_of_other_rows_and_widths_weigh_by_their_targets() {
    let rows = [row(1, 9), row(2, 4), row(3, 4), row(4, 2)];
    let narrow = Batch::from_ids([row(2, 4), row(3, 4)].concat(), 4);
    let batches = [batch(&rows[..1]), narrow, Batch::from_ids(row(4, 2), 2)];
    let (mut one, mut many) = (
        Trainer::new(&config(), &ByteTokenizer).expect("a trainer"),
        Trainer::new(&config(), &ByteTokenizer).expect("a trainer"),
    );
    let loss = |trainer: &mut Trainer, batches: &[Batch]| {
        let batches: Vec<_> = batches.iter().cloned().map(Ok).collect();
        block_on(trainer.validate(stream::iter(batches))).expect("validated").expect("targets")
    };
    let (whole, parts) = (loss(&mut one, &[batch(&rows)]), loss(&mut many, &batches));
    assert_eq!(whole.validation_tokens, parts.validation_tokens);
    assert!((whole.validation_loss - parts.validation_loss).abs() < 1e-5);
    let device = Device::flex().autodiff();
    let fresh = gradients(one.model(), &batch(&rows), Scope::Row, &device, ONE).expect("gradients");
    let mean_norm = norm(one.model(), &fresh.params) / fresh.tokens as f64;
    let whole = one.step(&[batch(&rows)]).expect("a step").expect("targets");
    assert!((whole.grad_norm - mean_norm).abs() < 1e-4 * mean_norm, "the norm is that of the mean loss");
    let parts = many.step(&batches).expect("a step").expect("targets");
    assert_eq!((whole.tokens, parts.tokens), (15, 15));
    assert!((whole.loss - parts.loss).abs() < 1e-5);
    assert!((whole.grad_norm - parts.grad_norm).abs() < 1e-4 * whole.grad_norm);
    assert_eq!(one.unigram_loss().ok(), many.unigram_loss().ok());
    assert_close(&weights(many.model()), &weights(one.model()), 1e-4);
}

/// The steps of a schedule's own decay, if it has one.
fn decay(schedule: Schedule, steps: u64) -> Option<u64> {
    (schedule == Schedule::Wsd).then_some(steps)
}

#[test]
fn a_resumed_run_has_the_rates_of_one_that_was_never_stopped() {
    let batches: Vec<Batch> = (0..12).map(|step| batch(&[row(step, 9), row(step + 50, 9)])).collect();
    for schedule in [Schedule::Cosine, Schedule::Linear, Schedule::Constant, Schedule::Wsd] {
        let mut config = config();
        config.train =
            TrainConfig { schedule, steps: 12, decay: decay(schedule, 5), keep: 20, ..config.train };
        let directory = tempfile::tempdir().expect("a directory");
        let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let mut steps = Vec::new();
        for batch in &batches {
            steps.push(trainer.step(std::slice::from_ref(batch)).expect("a step").expect("targets"));
            trainer.save(directory.path()).expect("saved");
        }
        let rates: Vec<f64> = steps.iter().map(|step| step.lr).collect();
        assert_eq!(rates[2], 1e-2, "the warmup ends");
        assert_eq!(rates[11], if schedule == Schedule::Constant { 1e-2 } else { 1e-3 });
        for stop in [1, 3, 7, 9, 11] {
            let checkpoint =
                Checkpoint::after(directory.path(), stop as u64).expect("checkpoints").expect("one");
            let mut resumed = Trainer::resume(&config, &ByteTokenizer, &checkpoint).expect("a trainer");
            for (at, batch) in batches.iter().enumerate().skip(stop) {
                let step = resumed.step(std::slice::from_ref(batch)).expect("a step").expect("targets");
                assert_eq!(step, steps[at], "{schedule:?}: step {at}, resumed after {stop}");
            }
        }
    }
}

#[test]
fn more_steps_at_a_resume_raise_the_rates_to_those_of_the_longer_run() {
    let rate = |schedule, steps: u64, done: u64| {
        let mut config = config();
        config.train =
            TrainConfig { schedule, steps: 10, decay: decay(schedule, 4), warmup: 0, ..config.train };
        let directory = tempfile::tempdir().expect("a directory");
        let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        for step in 0..done {
            trainer.step(&[batch(&[row(step as u32, 9)])]).expect("a step").expect("targets");
        }
        trainer.save(directory.path()).expect("saved");
        config.train.steps = steps;
        let checkpoint = Checkpoint::latest(directory.path()).expect("checkpoints").expect("one");
        let mut resumed = Trainer::resume(&config, &ByteTokenizer, &checkpoint).expect("a trainer");
        resumed.step(&[batch(&[row(99, 9)])]).expect("a step").expect("targets").lr
    };
    // A run that had decayed to its end goes on at the rate that the longer one has there.
    assert_eq!(rate(Schedule::Wsd, 20, 10), 1e-2);
    assert_eq!(rate(Schedule::Constant, 20, 10), 1e-2);
    assert!((rate(Schedule::Linear, 21, 10) - 5.5e-3).abs() < 1e-9);
    assert!((rate(Schedule::Cosine, 21, 10) - 5.5e-3).abs() < 1e-9);
    // Before the decay begins, a longer run of this schedule has the same rates: nothing is lost.
    assert_eq!(rate(Schedule::Wsd, 20, 5), rate(Schedule::Wsd, 10, 5));
}

#[test]
fn steps_that_are_queued_come_one_late_and_are_the_same() {
    let mut config = config();
    // Small, so that gradients are clipped.
    config.train.clip = 0.1;
    let trainer = || Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let (mut now, mut ahead) = (trainer(), trainer());
    let (mut expected, mut found, mut queued) = (Vec::new(), Vec::new(), None);
    for step in 0..6 {
        let batches = vec![batch(&[row(step, 9), row(step + 50, 9)]), batch(&[row(step + 100, 7)])];
        expected.push(now.step(&batches).expect("a step").expect("targets"));
        let before = queued.replace(ahead.submit(batches).expect("a step").expect("targets"));
        found.extend(before.map(|before| ahead.complete(before).expect("a step")));
        assert!(ahead.submit(nothing().to_vec()).expect("nothing").is_none());
        assert_eq!(ahead.state().step, u64::from(step) + 1);
    }
    found.extend(queued.map(|last| ahead.complete(last).expect("a step")));
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!((expected.number, expected.tokens), (found.number, found.tokens));
        // One multiplies by a number, the other by a tensor of f32.
        assert!((expected.loss - found.loss).abs() < 1e-5, "{expected:?} {found:?}");
        assert!((expected.grad_norm / found.grad_norm - 1.0).abs() < 1e-4, "{expected:?} {found:?}");
    }
    assert_eq!(now.state().tokens, ahead.state().tokens);
    assert!(expected.iter().any(|step| step.grad_norm > 0.1), "nothing was clipped");
}
