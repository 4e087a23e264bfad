//! Models of the Hugging Face libraries: read, written and refused, and trained as PyTorch trains them.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use millstream::batch::BatchBuilder;
use millstream::config::TokenizerConfig;
use millstream::document::Part;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Config, Cursor, Sequence, Tokens};
use millstream_train::config::{ModelConfig, OptimizerKind, RunConfig, Schedule, TrainConfig};
use millstream_train::gradients::gradients;
use millstream_train::model::Gpt;
use millstream_train::{Export, Scope, Trainer, WeightDtype};
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use crate::small;
use crate::support::torch::{python, torch};

mod files;
mod refusals;

/// How many ids a row has, and how many of them are inputs.
const WIDTH: usize = 17;
const LENGTH: usize = WIDTH - 1;

/// How far a number may be from PyTorch's, as a part of the largest of its tensor. `docs/guide/models.md` names it.
const CLOSE: f32 = 1e-4;
/// How far a parameter may be after twenty steps. Adam divides small gradients by their size, and their last bits with
/// them. PyTorch's Muon computes in bf16, which has changed its matrices by up to 6e-4.
const CLOSE_AFTER_STEPS: f32 = 20.0 * CLOSE;

/// Numbers by their names.
type Tensors = BTreeMap<String, Vec<f32>>;

/// All f32 tensors of a file.
fn tensors(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let numbers = |bytes: &[u8]| {
        bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect::<Vec<_>>()
    };
    let floats = file.iter().filter(|(_, view)| view.dtype() == Dtype::F32);
    floats.map(|(name, view)| (name.to_owned(), numbers(view.data()))).collect()
}

fn ids(path: &Path) -> Vec<Vec<u32>> {
    let bytes = std::fs::read(path).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let view = file.tensor("ids").expect("ids");
    let ids: Vec<u32> = view
        .data()
        .chunks(8)
        .map(|eight| i64::from_le_bytes(eight.try_into().expect("eight")) as u32)
        .collect();
    ids.chunks(WIDTH).map(<[u32]>::to_vec).collect()
}

fn batch(rows: &[Vec<u32>]) -> Batch {
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for row in rows {
        let tokens = Tokens::new(row.clone(), row.len());
        builder.push(&Sequence::new(vec![Part::new(&tokens, 0..row.len())], WIDTH));
    }
    builder.finish(Cursor::default())
}

fn assert_close(what: &str, ours: &[f32], theirs: &[f32], close: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let most = theirs.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!((ours - theirs).abs() <= close * most.max(1e-3), "{what} at {at}: {ours} and {theirs}");
    }
}

/// What an export of the model has, in the names of the Hugging Face libraries.
fn exported(config: &ModelConfig, model: &Gpt) -> Tensors {
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("model");
    export(config, None).write(model, &out).expect("written");
    tensors(&out.join("model.safetensors"))
}

fn export<'a>(config: &'a ModelConfig, tokenizer: Option<&'a str>) -> Export<'a> {
    Export { tokenizer, ..small::export(config, LENGTH) }
}

#[test]
fn a_value_that_is_too_large_for_f16_is_refused_with_its_tensor() {
    /// Every parameter times a number.
    struct Scaled(f64);
    impl ModuleMapper for Scaled {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|values| values.mul_scalar(self.0))
        }
    }
    let model = ModelConfig { layers: 1, d_ff: 16, ..small::shape() };
    let data = Config::default().with_tokenizer(TokenizerConfig::bytes());
    let config = RunConfig::new(data).with_model(model);
    let model = Trainer::new(&config, &ByteTokenizer).expect("a trainer").model().valid();
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("model");
    let write = |scale: f64, dtype: WeightDtype| {
        let export = Export { dtype, ..export(&config.model, None) };
        export.write(&model.clone().map(&mut Scaled(scale)), &out)
    };
    // The gains of the norms are 1 at first.
    let error = write(65_520.0, WeightDtype::F16).expect_err("too large").to_string();
    assert!(
        error.contains("model.layers.0.input_layernorm.weight has 65520.0, which is too large for float16; "),
        "{error}"
    );
    assert!(!out.exists(), "no half of a model");
    let error = write(f64::from(f32::MAX), WeightDtype::Bf16).expect_err("too large").to_string();
    assert!(error.contains("which is too large for bfloat16; export it as f32"), "{error}");
    write(65_519.0, WeightDtype::F16).expect("it is rounded to 65504");
}

/// The gradients in the place of the parameters.
struct Swap<'a>(&'a GradientsParams, f64);

impl ModuleMapper for Swap<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
        param.map(|_| gradient.mul_scalar(self.1))
    }
}

fn config(directory: &Path) -> RunConfig {
    let mut config = RunConfig::default();
    config.data.pipeline.seq_len = LENGTH;
    config.data.tokenizer = TokenizerConfig::bytes();
    config.train = TrainConfig {
        init: Some(directory.to_owned()),
        steps: 1000,
        lr: Some(3e-3),
        min_lr: Some(0.0),
        schedule: Schedule::Constant,
        warmup: 0,
        ..TrainConfig::default()
    };
    config
}

#[test]
fn logits_gradients_and_steps_are_those_of_pytorch() {
    let Some(python) = python("logits_gradients_and_steps_are_those_of_pytorch") else { return };
    let made = TempDir::new().expect("a directory");
    torch(&python, &["make", &made.path().display().to_string()]);
    let mut count = 0;
    for entry in std::fs::read_dir(made.path()).expect("a directory") {
        let directory = entry.expect("an entry").path();
        let name = directory.file_name().expect("a name").to_string_lossy().into_owned();
        let expected = tensors(&directory.join("expected.safetensors"));
        let rows = ids(&directory.join("expected.safetensors"));
        std::fs::remove_file(directory.join("expected.safetensors")).expect("removed");
        let trainer = Trainer::new(&config(&directory), &ByteTokenizer).expect("a trainer");
        let shape = trainer.config().model.clone();

        let device = Device::flex();
        let inputs: Vec<i32> = rows.iter().flat_map(|row| &row[..LENGTH]).map(|id| *id as i32).collect();
        let inputs = Tensor::<2, Int>::from_data(TensorData::new(inputs, [rows.len(), LENGTH]), &device);
        let logits = trainer.model().valid().logits(inputs).into_data().try_to_vec::<f32>().expect("f32");
        assert_close(&format!("{name}: logits"), &logits, &expected["logits"], CLOSE);

        let batch = batch(&rows);
        let device = device.autodiff();
        let found = gradients(trainer.model(), &batch, Scope::Row, &device, 1).expect("gradients");
        let mean = 1.0 / found.tokens as f64;
        assert_close(&format!("{name}: loss"), &[(found.nats * mean) as f32], &expected["loss"], CLOSE);
        let swapped = trainer.model().valid().map(&mut Swap(&found.params, mean));
        let ours = exported(&shape, &swapped);
        for (tensor, ours) in &ours {
            let theirs = &expected[&format!("gradient.{tensor}")];
            assert_close(&format!("{name}: gradient of {tensor}"), ours, theirs, CLOSE);
        }
        let theirs = expected.keys().filter(|name| name.starts_with("gradient.")).count();
        assert_eq!(ours.len(), theirs, "{name}");

        for (optimizer, peers) in
            [(OptimizerKind::AdamW, &["adamw"][..]), (OptimizerKind::Muon, &["muon", "muon in f32"][..])]
        {
            let mut config = config(&directory);
            config.train.optimizer = optimizer;
            let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
            for _ in 0..20 {
                trainer.step(std::slice::from_ref(&batch)).expect("a step").expect("targets");
            }
            let after = exported(&shape, &trainer.model().valid());
            let last = trainer.step(std::slice::from_ref(&batch)).expect("a step").expect("targets").loss;
            for peer in peers {
                for (tensor, ours) in &after {
                    // Muon divides by no small number.
                    let exact = *peer == "muon in f32" && tensor.ends_with("_proj.weight");
                    let close = if exact { CLOSE } else { CLOSE_AFTER_STEPS };
                    let theirs = &expected[&format!("{peer}.after.{tensor}")];
                    assert_close(&format!("{name}: {tensor} after 20 steps of {peer}"), ours, theirs, close);
                }
                let theirs = &expected[&format!("{peer}.last_loss")];
                let what = format!("{name}: the last loss of {peer}");
                assert_close(&what, &[last as f32], theirs, 10.0 * CLOSE);
            }
        }
        count += 1;
    }
    assert_eq!(count, 7);
}
