//! Adapters: what is trained, what stays as it was, and what goes out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use millstream::config::TokenizerConfig;
use millstream::error::Error;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Config};
use millstream_train::config::{
    LoraConfig, LoraTargets, ModelConfig, OptimizerKind, Projection, RunConfig, TrainConfig,
};
use millstream_train::cost::{Flops, Memory, Parameters};
use millstream_train::model::Gpt;
use millstream_train::{Checkpoint, Peers, Pretrained, Trainer};
use safetensors::SafeTensors;
use tempfile::TempDir;

use crate::numbers::assert_close;
use crate::small;
use crate::support::torch::{python, torch};

const LENGTH: usize = 8;
const VOCAB: usize = 260;

/// A shape whose heads share keys and values, with biases.
fn shape() -> ModelConfig {
    ModelConfig { qkv_bias: true, ..small::grouped() }
}

/// Writes a model to begin from.
fn base(directory: &Path) {
    let model = Gpt::new(&shape(), VOCAB, LENGTH, 7, &Device::flex());
    small::export(&shape(), LENGTH).write(&model, directory).expect("written");
}

fn lora() -> LoraConfig {
    LoraConfig { rank: 3, alpha: 12.0, ..LoraConfig::default() }
}

fn config(base: &Path, lora: LoraConfig) -> RunConfig {
    let train = TrainConfig {
        init: Some(base.to_owned()),
        lora: Some(lora),
        lr: Some(1e-2),
        min_lr: Some(1e-3),
        warmup: 2,
        steps: 12,
        ..TrainConfig::default()
    };
    let mut config = RunConfig::new(Config::default().with_tokenizer(TokenizerConfig::bytes()));
    config.train = train;
    config.data.pipeline.seq_len = LENGTH;
    config
}

/// So many rows of nine ids.
fn batch(seed: u32, rows: u32) -> Batch {
    Batch::from_ids((0..9 * rows).map(|at| (seed * 31 + at * at * 7) % 251).collect(), 9)
}

fn trainer(config: &RunConfig) -> Trainer {
    Trainer::new(config, &ByteTokenizer).expect("a trainer")
}

/// The values of each parameter, by its path.
fn parameters(model: &Gpt) -> BTreeMap<String, Vec<f32>> {
    small::parameters(model).into_iter().collect()
}

fn is_factor(path: &str) -> bool {
    path.contains("_lora.")
}

fn step(trainer: &mut Trainer, number: u32) -> (f64, BTreeMap<String, Vec<f32>>) {
    let batches = [batch(2 * number, 4), batch(2 * number + 1, 4)];
    let step = trainer.step(&batches).expect("a step").expect("targets");
    (step.loss, parameters(trainer.model()))
}

fn logits(model: &Gpt) -> Vec<f32> {
    let ids: Vec<i32> = (0..LENGTH as i32).map(|at| at * 37 % 256).collect();
    let ids = Tensor::<1, Int>::from_data(ids.as_slice(), &Device::flex()).reshape([1, LENGTH]);
    model.logits(ids).into_data().try_to_vec().expect("f32")
}

fn targets() -> [LoraTargets; 3] {
    let [query, value, down] = [Projection::Query, Projection::Value, Projection::Down];
    [LoraTargets::AllLinear, LoraTargets::Named(vec![query, value]), LoraTargets::Named(vec![down])]
}

#[test]
fn only_the_factors_of_the_targets_are_trained() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    for (targets, count) in targets().into_iter().zip([7, 2, 1]) {
        for optimizer in [OptimizerKind::AdamW, OptimizerKind::Muon] {
            let mut config = config(&directory, LoraConfig { targets: targets.clone(), ..lora() });
            config.train.optimizer = optimizer;
            let mut trainer = trainer(&config);
            let whole =
                RunConfig { train: TrainConfig { lora: None, ..config.train.clone() }, ..config.clone() };
            let plain = self::trainer(&whole);
            assert_eq!(
                logits(&trainer.model().valid()),
                logits(&plain.model().valid()),
                "it begins as it was"
            );
            let before = parameters(trainer.model());
            let (mut first, mut last) = (None, 0.0);
            for _ in 0..6 {
                last = step(&mut trainer, 0).0;
                first = first.or(Some(last));
            }
            assert!(last < first.expect("a loss"), "{first:?} {last}");
            let after = parameters(trainer.model());
            for (path, values) in &before {
                assert_eq!(is_factor(path), *values != after[path], "{path}");
            }
            // The first factors of queries, keys and values are one parameter.
            let second = before.keys().filter(|path| path.contains("_lora.b.")).count();
            assert_eq!(second, count * shape().layers);
            let factors = before.iter().filter(|(path, _)| is_factor(path)).map(|(_, values)| values.len());
            let model = trainer.config().model.clone();
            let counted = Parameters::of_adapters(&model, config.train.lora.as_ref().expect("LoRA"));
            assert_eq!(counted, factors.sum::<usize>() as f64);
        }
    }
}

#[test]
fn gradients_are_those_of_the_whole_matrix_by_the_chain_rule() {
    use millstream_train::Scope;
    use millstream_train::gradients::gradients;

    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    let mut trained = trainer(&config(&directory, lora()));
    for number in 0..3 {
        step(&mut trained, number);
    }
    let device = Device::flex().autodiff();
    let rows = batch(5, 4);
    let found = gradients(trained.model(), &rows, Scope::Row, &device, 1).expect("gradients");
    // The merged model with a gradient for each of its matrices.
    let merged = trained.model().merged().train();
    let merged = merged.set_require_grad(true);
    let whole = gradients(&merged, &rows, Scope::Row, &device, 1).expect("gradients");
    assert!((found.nats - whole.nats).abs() < 1e-3, "{} {}", found.nats, whole.nats);
    let gradient = |id| whole.params.get::<2>(id).expect("a gradient");
    let (values, scale) = (|x: Tensor<2>| x.into_data().try_to_vec::<f32>().expect("f32"), lora().scale());
    for (block, of_merged) in trained.model().blocks.iter().zip(&merged.blocks) {
        let (attention, mlp) = (&block.attention, &block.mlp);
        // Each matrix, its gradient, its adapters, and the widths of its projections.
        let matrices = [
            (&attention.qkv, gradient(of_merged.attention.qkv.id), &attention.qkv_lora, vec![16, 8, 8]),
            (&attention.out, gradient(of_merged.attention.out.id), &attention.out_lora, vec![16]),
            (&mlp.up, gradient(of_merged.mlp.up.id), &mlp.up_lora, vec![24, 24]),
            (&mlp.down, gradient(of_merged.mlp.down.id), &mlp.down_lora, vec![16]),
        ];
        for (matrix, whole, adapters, widths) in matrices {
            assert!(found.params.get::<2>(matrix.id).is_none(), "a frozen matrix has no gradient");
            let adapters = adapters.as_ref().expect("adapters");
            let of = |id| found.params.get::<2>(id).expect("a gradient");
            let rank = lora().rank;
            let all_of_a = of(adapters.a.id);
            for (number, whole) in whole.split_with_sizes(widths, 1).into_iter().enumerate() {
                let columns = number * rank..(number + 1) * rank;
                let a = adapters.a.val().inner().slice_dim(1, columns.clone());
                let b = adapters.b[number].val().inner();
                let of_a = whole.clone().matmul(b.transpose()).mul_scalar(scale);
                assert_close(&values(all_of_a.clone().slice_dim(1, columns)), &values(of_a), 1e-4);
                let of_b = a.transpose().matmul(whole).mul_scalar(scale);
                assert_close(&values(of(adapters.b[number].id)), &values(of_b), 1e-4);
            }
        }
    }
    assert!(found.params.get::<2>(trained.model().embedding.id).is_none());
}

#[test]
fn a_run_goes_on_to_the_bit_with_dropout_too() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    for (dropout, optimizer) in [(0.0, OptimizerKind::Muon), (0.3, OptimizerKind::AdamW)] {
        let mut config = config(&directory, LoraConfig { dropout, ..lora() });
        config.train.optimizer = optimizer;
        let root = place.path().join(format!("checkpoints{dropout}"));
        let mut whole = trainer(&config);
        for number in 0..5 {
            step(&mut whole, number);
        }
        let checkpoint = Checkpoint::open(&whole.save(&root).expect("saved")).expect("a checkpoint");
        let config = whole.config().clone();
        let mut resumed = Trainer::resume(&config, &ByteTokenizer, &checkpoint).expect("a trainer");
        for number in 5..9 {
            assert_eq!(step(&mut resumed, number), step(&mut whole, number));
        }
        let loaded = checkpoint.load_model(&config, &ByteTokenizer).expect("a model");
        assert!(loaded.has_adapters());

        let mut other = config.clone();
        let rank = |config: &mut RunConfig| config.train.lora.as_mut().expect("LoRA").rank = 4;
        rank(&mut other);
        let error =
            Trainer::resume(&other, &ByteTokenizer, &checkpoint).expect_err("another rank").to_string();
        assert!(error.contains("train.lora.rank` was 3 and is now 4"), "{error}");
        other.train.lora = None;
        let error =
            Trainer::resume(&other, &ByteTokenizer, &checkpoint).expect_err("no adapters").to_string();
        assert!(error.contains("train.lora.") && error.contains("is now absent"), "{error}");
    }
}

/// The parameters after three steps of each of two ranks, which have half of the rows of each batch.
fn on_two_ranks(config: &RunConfig) -> Vec<BTreeMap<String, Vec<f32>>> {
    let on_rank = |peers: Peers| {
        let half = peers.world().rank;
        let mut trainer = trainer(config).with_peers(peers).with_parts(1);
        for number in 0..3 {
            let halves = [2 * number, 2 * number + 1].map(|seed| {
                let ids = batch(seed, 4).ids()[18 * half..18 * (half + 1)].to_vec();
                Batch::from_ids(ids, 9)
            });
            trainer.step(&halves).expect("a step").expect("targets");
        }
        parameters(trainer.model())
    };
    std::thread::scope(|scope| {
        let ranks = Peers::in_process(2).into_iter().map(|peers| scope.spawn(|| on_rank(peers)));
        let threads: Vec<_> = ranks.collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    })
}

#[test]
fn ranks_and_parts_leave_out_what_one_process_does() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    let mut seen = Vec::new();
    for dropout in [0.0, 0.5] {
        let mut config = config(&directory, LoraConfig { dropout, ..lora() });
        // A step depends on how large a gradient is, and not only on where it points.
        config.train.epsilon = 1e-2;
        let alone = |parts| {
            let mut trainer = trainer(&config).with_parts(parts);
            for number in 0..3 {
                step(&mut trainer, number);
            }
            parameters(trainer.model())
        };
        let (one, ranks) = (alone(1), on_two_ranks(&config));
        assert_eq!(ranks[0], ranks[1], "to the bit");
        for (how, other) in [("four parts", &alone(4)), ("two ranks", &ranks[0])] {
            for (path, values) in other {
                for (ours, theirs) in values.iter().zip(&one[path]) {
                    assert!((ours - theirs).abs() < 1e-4, "{how}, {dropout}: {path}: {ours} and {theirs}");
                }
            }
        }
        seen.push(one);
    }
    assert_ne!(seen[0], seen[1], "something is left out");
}

#[test]
fn what_is_merged_or_written_for_peft_gives_the_models_logits() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    for (number, targets) in targets().into_iter().enumerate() {
        let lora = LoraConfig { targets, dropout: 0.1, ..lora() };
        let mut trainer = trainer(&config(&directory, lora.clone()));
        for number in 0..6 {
            step(&mut trainer, number);
        }
        let (model, shape) = (trainer.model(), trainer.config().model.clone());
        let expected = logits(&model.valid());
        assert_ne!(expected, logits(&self::trainer(&config(&directory, lora.clone())).model().valid()));
        let merged = model.merged();
        assert!(!merged.has_adapters());
        assert_close(&logits(&merged), &expected, 1e-4);

        let out = place.path().join(format!("merged{number}"));
        small::export(&shape, LENGTH).write(&model.valid(), &out).expect("written");
        let plain = RunConfig {
            train: TrainConfig { lora: None, ..config(&out, lora.clone()).train },
            ..config(&out, lora.clone())
        };
        let read = Pretrained::open(&out).expect("a model").model_without_autodiff(&plain, &ByteTokenizer);
        assert_eq!(logits(&read.expect("it is read")), logits(&merged), "to the bit");

        let adapter = place.path().join(format!("adapter{number}"));
        let written =
            small::export(&shape, LENGTH).write_adapter(&model.valid(), &lora, &directory, &adapter);
        assert_eq!(
            written.expect("written"),
            ["adapter_model.safetensors", "adapter_config.json", "README.md"]
        );
        let bytes = fs::read(adapter.join("adapter_model.safetensors")).expect("a file");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let projections = lora.targets.projections();
        assert_eq!(file.len(), 2 * projections.len() * shape.layers);
        for projection in projections {
            let within = match projection {
                Projection::Gate | Projection::Up | Projection::Down => "mlp",
                _ => "self_attn",
            };
            let name = |factor: &str| {
                format!("base_model.model.model.layers.1.{within}.{}.lora_{factor}.weight", projection.name())
            };
            let shape = |factor| file.tensor(&name(factor)).expect("a factor").shape().to_vec();
            assert_eq!((shape("A")[0], shape("B")[1]), (3, 3));
        }
        let error = Trainer::new(&config(&adapter, lora.clone()), &ByteTokenizer).expect_err("an adapter");
        assert!(error.to_string().contains("it holds an adapter, and not a whole model"), "{error}");
    }
}

#[test]
fn peft_reads_adapters_and_has_the_logits_of_the_merged_model() {
    let Some(python) = python("peft_reads_adapters_and_has_the_logits_of_the_merged_model") else { return };
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    for (number, targets) in targets().into_iter().enumerate() {
        let lora = LoraConfig { targets, ..lora() };
        let mut trainer = trainer(&config(&directory, lora.clone()));
        for number in 0..6 {
            step(&mut trainer, number);
        }
        let (model, shape) = (trainer.model().valid(), trainer.config().model.clone());
        let paths = ["merged", "adapter"].map(|name| place.path().join(format!("{name}{number}")));
        let export = small::export(&shape, LENGTH);
        export.write(&model, &paths[0]).expect("written");
        export.write_adapter(&model, &lora, &directory, &paths[1]).expect("written");
        let ids: Vec<usize> = (0..LENGTH).map(|at| at * 37 % 256).collect();
        let [merged, adapter] = paths.map(|path| path.display().to_string());
        let said = torch(&python, &["adapter", &merged, &adapter, &serde_json::json!(ids).to_string()]);
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let numbers = |key: &str| -> Vec<f32> {
            said[key]
                .as_array()
                .expect("logits")
                .iter()
                .map(|x| x.as_f64().expect("a number") as f32)
                .collect()
        };
        assert_close(&numbers("adapter"), &logits(&model), 1e-4);
        assert_close(&numbers("merged"), &logits(&model), 1e-4);
        let trained = Parameters::of_adapters(&shape, &lora);
        assert_eq!(said["trained"].as_f64(), Some(trained), "PEFT would train as many");
    }
}

#[test]
fn a_config_that_cannot_be_says_what_to_do() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("base");
    base(&directory);
    let refused = |change: &dyn Fn(&mut RunConfig), key: &str, why: &str| {
        let mut config = config(&directory, lora());
        change(&mut config);
        match config.validate() {
            Err(Error::Config { key: found, problem, .. }) => {
                assert!(found == key && problem.contains(why), "{found}: {problem}");
            }
            other => panic!("{key}: {other:?}"),
        }
    };
    let lora_of = |config: &mut RunConfig| config.train.lora.take().expect("LoRA");
    let with = |change: fn(&mut LoraConfig)| {
        move |config: &mut RunConfig| {
            let mut lora = lora_of(config);
            change(&mut lora);
            config.train.lora = Some(lora);
        }
    };
    refused(&|config| config.train.init = None, "train.lora", "name its directory in train.init");
    refused(&with(|lora| lora.rank = 0), "train.lora.rank", "at least 1");
    refused(&with(|lora| lora.alpha = 0.0), "train.lora.alpha", "above 0");
    refused(&with(|lora| lora.dropout = 1.0), "train.lora.dropout", "less than 1");
    let named = |projections: Vec<Projection>| LoraTargets::Named(projections);
    refused(
        &|config| config.train.lora.as_mut().expect("LoRA").targets = named(Vec::new()),
        "train.lora.targets",
        "all-linear",
    );
    refused(
        &|config| config.train.lora.as_mut().expect("LoRA").targets = named(vec![Projection::Up; 2]),
        "train.lora.targets",
        "up_proj is named twice",
    );
    let error =
        RunConfig::from_toml("[train]\ninit = \"m\"\n[train.lora]\ntargets = [\"q\"]\n").expect_err("a name");
    assert!(
        error.to_string().contains("train.lora.targets") && error.to_string().contains("q_proj"),
        "{error}"
    );
    let error =
        RunConfig::from_toml("[train]\ninit = \"m\"\nlora = { r = 8 }\n").expect_err("a key").to_string();
    assert!(error.contains("unknown key `r`"), "{error}");
    let config =
        "[[source]]\npaths = [\"a\"]\n[train]\ninit = \"m\"\nlora = { targets = [\"q_proj\", \"v_proj\"] }\n";
    let read = RunConfig::from_toml(config).expect("a config").train.lora.expect("LoRA");
    assert_eq!(read.targets, LoraTargets::Named(vec![Projection::Query, Projection::Value]));
    let written = toml::to_string(&read).expect("TOML");
    assert_eq!(toml::from_str::<LoraConfig>(&written).expect("read again"), read);
}

#[test]
fn adapters_take_less_memory_and_work() {
    let mut config = RunConfig::default();
    config.data.pipeline.batch_size = 1;
    let whole = (Memory::new(&config, 4096), Flops::for_run(&config, 4096).per_place(128));
    config.train.lora = Some(lora());
    let (memory, flops) = (Memory::new(&config, 4096), Flops::for_run(&config, 4096).per_place(128));
    let adapters = 4.0 * Parameters::of_adapters(&config.model, &lora());
    assert_eq!(memory.parameters, whole.0.parameters + adapters);
    assert_eq!(memory.moments, 2.0 * adapters);
    assert_eq!(memory.checkpoint(), whole.0.parameters + 3.0 * adapters);
    assert!(memory.gradients < 0.1 * whole.0.gradients && memory.total() < whole.0.total());
    assert!(flops > 0.6 * whole.1 && flops < 0.8 * whole.1, "{flops} of {}", whole.1);
    config.train.optimizer = OptimizerKind::Muon;
    assert_eq!(Memory::new(&config, 4096).moments, adapters);
    let named = LoraTargets::Named(vec![Projection::Query]);
    config.train.lora = Some(LoraConfig { targets: named, ..lora() });
    assert!(Memory::new(&config, 4096).activations < memory.activations, "frozen matrices keep no input");
}
