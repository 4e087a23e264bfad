//! The optimizers besides AdamW: Muon, and those of burn that a program gives.

use burn::module::{Module, ParamGroup};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{LionConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Tensor};
use millstream::Batch;
use millstream::error::Error;
use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{OptimizerKind, Precision, RunConfig, TrainConfig};
use millstream_train::model::{Gpt, HiddenMatrix};
use millstream_train::{Checkpoint, LanguageModel, Step, Tensors, Trainer};

use crate::small;

fn config(optimizer: OptimizerKind) -> RunConfig {
    let train = TrainConfig {
        optimizer,
        lr: Some(1e-2),
        min_lr: Some(1e-3),
        warmup: 3,
        steps: 12,
        ..TrainConfig::default()
    };
    small::config(small::grouped(), 8, train)
}

/// Four rows of nine ids.
fn batch(seed: u32) -> Batch {
    Batch::from_ids((0..36).map(|at| (seed * 31 + at * at * 7) % 251).collect(), 9)
}

fn trainer(optimizer: OptimizerKind) -> Trainer {
    Trainer::new(&config(optimizer), &ByteTokenizer).expect("a trainer")
}

/// SGD with momentum, and Lion for the attention of the first block.
fn mixed(model: &Gpt) -> ModuleOptimizer {
    let attention = ParamGroup::ids_from_module(model.blocks[0].attention.clone());
    sgd().init().with_group(attention, LionConfig::new().with_weight_decay(0.5).build(), None)
}

/// SGD with momentum for all parameters.
fn averaged(_: &Gpt) -> ModuleOptimizer {
    sgd().init()
}

fn sgd() -> SgdConfig {
    let momentum = MomentumConfig { momentum: 0.9, dampening: 0.0, nesterov: true };
    SgdConfig::new().with_momentum(Some(momentum))
}

/// A step of two batches, and the parameters after it.
fn step<M: LanguageModel>(trainer: &mut Trainer<M>, number: u32) -> (Step, Vec<(String, Vec<f32>)>) {
    let batches = [batch(2 * number), batch(2 * number + 1)];
    let step = trainer.step(&batches).expect("a step").expect("targets");
    (step, small::parameters(trainer.model()))
}

/// Asserts that a run that goes on at its fifth step has the steps and the parameters of one that was never stopped.
fn assert_resumes(new: impl Fn() -> Trainer) {
    let root = tempfile::tempdir().expect("a directory");
    let mut whole = new();
    for number in 0..5 {
        step(&mut whole, number);
    }
    let checkpoint = Checkpoint::open(&whole.save(root.path()).expect("saved")).expect("a checkpoint");
    let mut resumed = new().restored(&checkpoint).expect("the same optimizer");
    for number in 5..12 {
        assert_eq!(step(&mut resumed, number), step(&mut whole, number));
    }
}

#[test]
fn all_optimizers_go_on_to_the_bit() {
    assert_resumes(|| trainer(OptimizerKind::Muon));
    let adamw = || trainer(OptimizerKind::AdamW);
    assert_resumes(move || adamw().with_optimizer(|_| sgd().build()));
    assert_resumes(move || adamw().with_optimizer(|_| LionConfig::new().build()));
    assert_resumes(move || adamw().with_optimizer(mixed));
    // The parameters and moments of a run in bf16 are f32, and are kept so.
    let mut config = config(OptimizerKind::AdamW);
    config.train.precision = Precision::Bf16;
    assert_resumes(|| Trainer::new(&config, &ByteTokenizer).expect("a trainer"));
}

#[test]
fn a_custom_optimizer_gets_the_rate_and_the_clipped_gradient() {
    let with = |train: TrainConfig, optimizer: SgdConfig| {
        let config = RunConfig { train, ..config(OptimizerKind::AdamW) };
        Trainer::new(&config, &ByteTokenizer).expect("a trainer").with_optimizer(move |_| optimizer.build())
    };
    let train = config(OptimizerKind::AdamW).train;
    let mut trainer = with(TrainConfig { clip: 0.01, ..train.clone() }, SgdConfig::new());
    let before = small::parameters(trainer.model());
    let (first, after) = step(&mut trainer, 0);
    assert!(first.grad_norm > 0.1, "{first:?}");
    let moved = before.iter().zip(&after).flat_map(|((_, before), (_, after))| before.iter().zip(after));
    let moved = moved.map(|(before, after)| f64::from(before - after).powi(2)).sum::<f64>().sqrt();
    assert!((moved / (first.lr * 0.01) - 1.0).abs() < 1e-2, "{moved} at a rate of {}", first.lr);

    let mut trainer = with(TrainConfig { lr: Some(0.1), min_lr: Some(0.1), ..train }, sgd());
    let losses = [0; 12].map(|number| step(&mut trainer, number).0.loss);
    assert!(losses[11] < losses[0] - 0.1, "it learns: {losses:?}");
}

#[test]
fn muon_steps_the_matrices_of_the_layers_and_adamw_the_rest() {
    let (mut adamw, mut muon) = (trainer(OptimizerKind::AdamW), trainer(OptimizerKind::Muon));
    let before = small::parameters(muon.model());
    let (report, by_adamw) = step(&mut adamw, 0);
    let (_, by_muon) = step(&mut muon, 0);
    let mut hidden = 0;
    for (((path, before), (_, by_adamw)), (_, by_muon)) in before.iter().zip(&by_adamw).zip(&by_muon) {
        let matrices = [".attention.qkv", ".attention.out", ".mlp.up", ".mlp.down"];
        if !matrices.iter().any(|end| path.ends_with(end)) {
            assert_eq!(by_adamw, by_muon, "{path}");
            continue;
        }
        hidden += 1;
        let decay = 1.0 - report.lr * 0.1;
        let step = |after: &[f32]| {
            let steps =
                before.iter().zip(after).map(|(a, b)| (f64::from(*a) * decay - f64::from(*b)).powi(2));
            (steps.sum::<f64>() / before.len() as f64).sqrt() / report.lr
        };
        // Adam's first step is the rate for each number, and Muon's a fifth of it for a matrix that is quite orthogonal.
        assert!((step(by_adamw) - 1.0).abs() < 0.1, "{path}: {}", step(by_adamw));
        assert!((0.14..0.24).contains(&step(by_muon)), "{path}: {}", step(by_muon));
    }
    assert_eq!(hidden, 8);
}

#[test]
fn moments_of_another_optimizer_are_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let saved = |name: &str, mut trainer: Trainer| {
        step(&mut trainer, 0);
        Checkpoint::open(&trainer.save(&root.path().join(name)).expect("saved")).expect("a checkpoint")
    };
    let adamw = || trainer(OptimizerKind::AdamW);
    let muon = || trainer(OptimizerKind::Muon);
    let custom = || adamw().with_optimizer(|_| sgd().build());
    let plain = || adamw().with_optimizer(|_| SgdConfig::new().build());
    let lion = || adamw().with_optimizer(|_| LionConfig::new().build());
    for (checkpoint, other, was, is) in [
        (saved("adamw", adamw()), muon(), "\"adamw\"", "\"muon\""),
        (saved("muon", muon()), adamw(), "\"muon\"", "\"adamw\""),
        (saved("custom", custom()), adamw(), "custom Sgd", "\"adamw\""),
        (saved("again", adamw()), custom(), "\"adamw\"", "custom Sgd"),
        // It has no moments to refuse.
        (saved("plain", plain()), lion(), "custom Sgd", "custom Lion"),
        (
            saved("mixed", adamw().with_optimizer(mixed)),
            adamw().with_optimizer(averaged),
            "custom mixed",
            "custom averaged",
        ),
    ] {
        match other.restored(&checkpoint) {
            Err(Error::Checkpoint { problem, .. }) => {
                let said = format!("`train.optimizer` was {was} and is now {is}; set it back");
                assert!(problem.starts_with(&said), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Closures of one function have its name, and these have other moments.
    let (sgd, lion) = (|_: &Gpt| sgd().init(), |_: &Gpt| LionConfig::new().init());
    let checkpoint = saved("sgd", adamw().with_optimizer(sgd));
    let refused = adamw().with_optimizer(lion).restored(&checkpoint).expect_err("other moments").to_string();
    assert!(refused.contains("optimizer.bpk: it has "), "{refused}");
    assert!(refused.contains("and the optimizer takes 0 of them"), "{refused}");
}

/// Another model than the crate's, which may name the matrices of its GPT.
#[derive(Module, Debug)]
struct Own {
    gpt: Gpt,
    names_them: bool,
}

impl LanguageModel for Own {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        self.gpt.losses(tensors)
    }

    fn hidden_matrices(&self) -> Vec<HiddenMatrix> {
        if self.names_them { self.gpt.hidden_matrices() } else { Vec::new() }
    }
}

#[test]
fn another_model_names_its_matrices_or_muon_is_refused() {
    let config = config(OptimizerKind::Muon);
    let own = |names_them: bool| {
        let make = |device: &Device| Own {
            gpt: Gpt::new(&config.model, 257, 8, config.data.seed, device),
            names_them,
        };
        Trainer::with_model(&config, &ByteTokenizer, make)
    };
    match own(false) {
        Err(Error::Config { key, problem, .. }) => {
            assert_eq!(key, "train.optimizer");
            assert!(problem.contains("LanguageModel::hidden_matrices"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    let (mut ours, mut own) = (trainer(OptimizerKind::Muon), own(true).expect("a trainer"));
    for number in 0..3 {
        let (ours, own) = (step(&mut ours, number).0, step(&mut own, number).0);
        assert!((ours.loss - own.loss).abs() < 1e-3, "{ours:?} {own:?}");
    }
}

#[test]
#[should_panic(expected = "the widths of the matrices of a parameter add up to its width")]
fn widths_that_do_not_add_up_are_refused() {
    let model = Gpt::new(&config(OptimizerKind::Muon).model, 257, 8, 7, &Device::flex());
    HiddenMatrix::side_by_side(&model.blocks[0].mlp.up, &[24, 25]);
}
