//! What is written, and read again.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, bf16, f16};
use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{Activation, ModelConfig, RopeKind, RopeScaling};
use millstream_train::model::Gpt;
use millstream_train::{Export, Pretrained};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use super::{LENGTH, config, export, tensors};
use crate::small;

const VOCAB: usize = 260;

pub(super) fn base() -> ModelConfig {
    ModelConfig { heads: 4, ..small::shape() }
}

pub(super) fn model(config: &ModelConfig) -> Gpt {
    Gpt::new(config, VOCAB, LENGTH, 7, &Device::flex())
}

fn logits(model: &Gpt) -> Vec<f32> {
    let ids: Vec<i32> = (0..LENGTH as i32).map(|at| at * 37 % 256).collect();
    let ids = Tensor::<1, Int>::from_data(ids.as_slice(), &Device::flex()).reshape([1, LENGTH]);
    model.logits(ids).into_data().try_to_vec().expect("f32")
}

fn read(directory: &Path) -> Gpt {
    let pretrained = Pretrained::open(directory).expect("a model");
    pretrained.model_without_autodiff(&config(directory), &ByteTokenizer).expect("it is read")
}

/// The names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_again_to_the_last_bit() {
    let linear = RopeScaling { kind: RopeKind::Linear, factor: 4.0, ..RopeScaling::default() };
    let llama3 = RopeScaling { kind: RopeKind::Llama3, original_seq_len: 8, ..linear };
    let shapes = [
        base(),
        ModelConfig { tied: false, ..base() },
        ModelConfig { kv_heads: Some(2), head_dim: Some(6), rope_theta: 1e6, ..base() },
        ModelConfig { kv_heads: Some(1), qkv_bias: true, norm_epsilon: 1e-6, ..base() },
        ModelConfig { qk_norm: true, rope_scaling: Some(linear), ..base() },
        ModelConfig { rope_scaling: Some(llama3), ..base() },
    ];
    for shape in shapes {
        let made = model(&shape);
        for shard_bytes in [u64::MAX, 8 << 10, 1] {
            let place = TempDir::new().expect("a directory");
            let out = place.path().join("a/model");
            let files = Export { shard_bytes, ..export(&shape, None) }.write(&made, &out).expect("written");
            assert_eq!(names(&place.path().join("a")), ["model"], "nothing is left beside it");
            let mut expected = files.clone();
            expected.sort();
            assert_eq!(names(&out), expected);
            assert_eq!(files.iter().any(|name| name == "model.safetensors"), shard_bytes == u64::MAX);

            let pretrained = Pretrained::open(&out).expect("a model");
            let with_vocab = ModelConfig { vocab_size: Some(VOCAB), ..shape.clone() };
            assert_eq!(*pretrained.model(), with_vocab);
            // A Llama 3 scaling stretches 8 ids to 32.
            let is_llama3 = shape.rope_scaling.is_some_and(|scaling| scaling.kind == RopeKind::Llama3);
            assert_eq!(pretrained.max_seq_len(), if is_llama3 { 32 } else { LENGTH });
            assert!(logits(&read(&out)) == logits(&made), "{shape:?}");
        }
    }
}

#[test]
fn a_model_of_another_shape_is_not_filled_in_part() {
    let place = TempDir::new().expect("a directory");
    let out = place.path().join("model");
    export(&base(), None).write(&model(&base()), &out).expect("written");
    let pretrained = Pretrained::open(&out).expect("a model");
    let others = [
        (ModelConfig { layers: 1, ..base() }, "it has no parameter blocks.1.attention_norm.gain"),
        (ModelConfig { tied: false, ..base() }, "only it has a parameter head of "),
        (
            ModelConfig { layers: 3, ..base() },
            "only it has a parameter blocks.2.attention_norm.gain of 16 values",
        ),
        (ModelConfig { d_ff: 8, ..base() }, "only it has a parameter blocks.0.mlp.up of "),
    ];
    for (shape, why) in others {
        let error = pretrained.load(model(&shape)).expect_err("another shape").to_string();
        assert!(error.contains("has another shape than the one in") && error.contains(why), "{error}");
    }
    pretrained.load(model(&base())).expect("the same shape");
}

#[test]
fn weights_of_sixteen_bits_are_read() {
    let shape = ModelConfig { tied: false, ..base() };
    let place = TempDir::new().expect("a directory");
    let out = place.path().join("model");
    export(&shape, None).write(&model(&shape), &out).expect("written");
    let file = out.join("model.safetensors");
    let (all, bytes) = (tensors(&file), fs::read(&file).expect("a file"));
    let shapes = SafeTensors::deserialize(&bytes).expect("safetensors");
    type Store = fn(f32) -> [u8; 2];
    type Rounded = fn(f32) -> f32;
    let kinds: [(Dtype, Store, Rounded); 2] = [
        (Dtype::F16, |value| f16::from_f32(value).to_le_bytes(), |value| f16::from_f32(value).to_f32()),
        (Dtype::BF16, |value| bf16::from_f32(value).to_le_bytes(), |value| bf16::from_f32(value).to_f32()),
    ];
    for (dtype, store, rounded) in kinds {
        let halves: HashMap<&String, Vec<u8>> = all
            .iter()
            .map(|(name, values)| (name, values.iter().flat_map(|value| store(*value)).collect()))
            .collect();
        let views = halves.iter().map(|(name, bytes)| {
            let shape = shapes.tensor(name).expect("a tensor").shape().to_vec();
            (name.as_str(), TensorView::new(dtype, shape, bytes).expect("a view"))
        });
        safetensors::serialize_to_file(views, None, &file).expect("written");
        let again = place.path().join(format!("{dtype:?}"));
        export(&shape, None).write(&read(&out), &again).expect("written");
        for (name, values) in tensors(&again.join("model.safetensors")) {
            let expected: Vec<f32> = all[&name].iter().map(|value| rounded(*value)).collect();
            assert!(values == expected, "{dtype:?}: {name}");
        }
    }
}

#[test]
fn what_cannot_be_exported_says_why_and_leaves_nothing() {
    let place = TempDir::new().expect("a directory");
    let out = place.path().join("model");
    let refused = |shape: &ModelConfig, model: &Gpt| {
        let error = export(shape, None).write(model, &out).expect_err("refused").to_string();
        assert!(names(place.path()).is_empty(), "{error}");
        error
    };
    let gelu = ModelConfig { activation: Activation::Gelu, ..base() };
    let error = refused(&gelu, &model(&gelu));
    assert!(error.starts_with("model.activation: gelu") && error.contains("without a gate"), "{error}");
    let both = ModelConfig { qkv_bias: true, qk_norm: true, ..base() };
    let error = refused(&both, &model(&both));
    assert!(error.contains("both biases and norms"), "{error}");
    let error = refused(&ModelConfig { qk_norm: true, ..base() }, &model(&base()));
    assert!(error.contains("has no parameter blocks.0.attention.query_norm.gain"), "{error}");
}

#[test]
fn only_a_new_or_an_empty_directory_is_written_to() {
    let place = TempDir::new().expect("a directory");
    let (shape, made) = (base(), model(&base()));
    let full = place.path().join("full");
    fs::create_dir(&full).expect("made");
    fs::write(full.join("mine"), "text").expect("written");
    for (path, why) in [(&full, "there is something in it already"), (&full.join("mine"), "not a directory")]
    {
        let error = export(&shape, None).write(&made, path).expect_err("refused").to_string();
        assert!(error.contains(why) && error.contains(&path.display().to_string()), "{error}");
    }
    assert_eq!((names(&full), names(place.path())), (vec!["mine".to_owned()], vec!["full".to_owned()]));
    let empty = place.path().join("empty");
    fs::create_dir(&empty).expect("made");
    export(&shape, None).write(&made, &empty).expect("written");
    Pretrained::open(&empty).expect("a model");
}

#[cfg(unix)]
#[test]
fn an_empty_directory_stays_the_one_that_it_is_and_what_a_kill_left_goes() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let place = TempDir::new().expect("a directory");
    let out = place.path().join("model");
    fs::create_dir(&out).expect("made");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o700)).expect("set");
    let of =
        |path: &Path| fs::metadata(path).map(|metadata| (metadata.ino(), metadata.mode())).expect("there");
    let before = of(&out);
    // A killed process and a running one have begun there, and beside it.
    for within in [place.path(), &out] {
        for name in [".exporting-left", ".exporting-held"] {
            fs::create_dir(within.join(name)).expect("made");
            fs::write(within.join(name).join("model.safetensors"), "half").expect("written");
        }
    }
    let hold = |within: &Path| {
        let held = fs::File::open(within.join(".exporting-held")).expect("a directory");
        held.try_lock().expect("locked");
        held
    };
    let (_held, _beside) = (hold(&out), hold(place.path()));
    let files = export(&base(), None).write(&model(&base()), &out).expect("written");
    assert_eq!(of(&out), before);
    let mut expected = files.clone();
    expected.push(".exporting-held".to_owned());
    expected.sort();
    assert_eq!(names(&out), expected);
    export(&base(), None).write(&model(&base()), &place.path().join("other")).expect("written");
    assert_eq!(names(place.path()), [".exporting-held", "model", "other"]);
    read(&out);
}
