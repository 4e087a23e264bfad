//! What is refused, with the file and the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{ModelConfig, RopeKind, RopeScaling};
use millstream_train::{Export, Pretrained, Sampling, Trainer, generate, resolved};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::files::{base, model};
use super::{config, export};
use crate::support::pointer::{POINTER, assert_named};

/// A model's directory, in one file of weights.
fn written() -> (TempDir, PathBuf) {
    sharded(u64::MAX)
}

fn sharded(shard_bytes: u64) -> (TempDir, PathBuf) {
    let place = TempDir::new().expect("a directory");
    let out = place.path().join("model");
    Export { shard_bytes, ..export(&base(), None) }.write(&model(&base()), &out).expect("written");
    (place, out)
}

fn refused(directory: &Path) -> String {
    Pretrained::open(directory).expect_err("refused").to_string()
}

/// Asserts that opening the directory fails with words of the file `name` and of the reason.
fn assert_refused(directory: &Path, name: &str, why: &str) {
    let error = refused(directory);
    assert!(error.starts_with(&directory.join(name).display().to_string()), "{name}: {error}");
    assert!(error.contains(why), "{why}: {error}");
}

#[test]
fn what_a_config_says_and_we_do_not_do() {
    let (_place, directory) = written();
    let path = directory.join("config.json");
    let good: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let write = |config: &Value| fs::write(&path, config.to_string()).expect("written");
    for (key, value, why) in [
        ("model_type", json!("gpt2"), "model_type is gpt2, and must be one of llama, mistral, qwen2, qwen3"),
        ("model_type", json!(null), "model_type is absent"),
        ("hidden_act", json!("gelu"), "hidden_act is gelu; only silu"),
        ("mlp_bias", json!(true), "mlp_bias is true"),
        ("attention_bias", json!(true), "attention_bias is true"),
        ("is_causal", json!(false), "is_causal is false"),
        ("quantization_config", json!({ "quant_method": "gptq" }), "quantization_config is set"),
        ("rope_parameters", json!({ "rope_type": "yarn", "factor": 4.0 }), "the type yarn"),
        ("rope_parameters", json!({ "rope_type": "linear" }), "rope_scaling has no factor"),
        ("rope_parameters", json!({ "rope_type": "llama3", "factor": 8.0 }), "has no low_freq_factor"),
        ("rope_parameters", json!({ "partial_rotary_factor": 0.5 }), "partial_rotary_factor"),
        ("rope_parameters", json!({ "rope_type": "linear", "factor": 0.5 }), "factor` must be at least 1"),
        ("layer_types", json!(["full_attention", "sliding_attention"]), "layer_types has layers"),
        ("partial_rotary_factor", json!(0.5), "partial_rotary_factor"),
        ("hidden_size", json!("wide"), "hidden_size is \"wide\", and must be a whole number"),
        ("hidden_size", json!(-1), "hidden_size is -1, and must be a whole number"),
        ("rms_norm_eps", json!("small"), "a key is missing or wrong"),
        ("num_key_value_heads", json!(3), "`num_key_value_heads` must be a divisor"),
        ("head_dim", json!(3), "must be an even number"),
        ("num_hidden_layers", json!(0), "must be at least 1"),
        ("num_hidden_layers", json!(1_u64 << 60), "num_hidden_layers is 1152921504606846976, and the files"),
        ("num_attention_heads", json!(0), "must be at least 1"),
        ("max_position_embeddings", json!(0), "max_position_embeddings is 0, and must be at least 1"),
        ("eos_token_id", json!(-1), "eos_token_id is -1, and must be a whole number"),
        ("eos_token_id", json!(["</s>"]), "eos_token_id is \"</s>\", and must be a whole number"),
        ("rope_scaling", json!({ "rope_type": "yarn", "type": "linear" }), "the type yarn"),
    ] {
        let mut config = good.clone();
        config[key] = value;
        write(&config);
        assert_refused(&directory, "config.json", why);
    }
    let mut config = good.clone();
    config.as_object_mut().expect("an object").remove("vocab_size");
    write(&config);
    assert_refused(&directory, "config.json", "missing field `vocab_size`");
    fs::write(&path, "{").expect("written");
    assert_refused(&directory, "config.json", "not JSON");
    // Sizes that no memory holds are no tensor's.
    for (key, size) in
        [("vocab_size", 1_u64 << 50), ("num_attention_heads", 1 << 62), ("intermediate_size", 1 << 62)]
    {
        let mut config = good.clone();
        config[key] = json!(size);
        write(&config);
        assert_refused(&directory, "model.safetensors", "and should be");
    }
    // What only trains or serves a model is not looked at.
    let mut config = good.clone();
    config["attention_dropout"] = json!(0.5);
    config["pretraining_tp"] = json!(2);
    config["layer_types"] = json!(["full_attention", "full_attention"]);
    write(&config);
    Pretrained::open(&directory).expect("a model");
}

#[test]
fn either_name_of_the_rotary_parameters_is_read_as_transformers_reads_it() {
    let (_place, directory) = written();
    let path = directory.join("config.json");
    let good: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let linear = |factor| RopeScaling { kind: RopeKind::Linear, factor, ..RopeScaling::default() };
    let two = json!({ "type": "linear", "rope_type": "linear", "factor": 2.0 });
    let four = json!({ "rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0 });
    for (older, newer, theta, scaling) in [
        (json!(null), json!(null), 3000.0, None),
        (json!({ "type": "linear", "factor": 2.0 }), json!(null), 3000.0, Some(linear(2.0))),
        (two.clone(), four.clone(), 3000.0, Some(linear(2.0))),
        (four.clone(), two, 5000.0, Some(linear(4.0))),
        (json!({}), four.clone(), 5000.0, Some(linear(4.0))),
        (json!(null), four, 5000.0, Some(linear(4.0))),
    ] {
        let mut config = good.clone();
        (config["rope_scaling"], config["rope_parameters"]) = (older, newer);
        config["rope_theta"] = json!(3000.0);
        fs::write(&path, config.to_string()).expect("written");
        let pretrained = Pretrained::open(&directory).expect("a model");
        let read = pretrained.model();
        assert_eq!((read.rope_theta, read.rope_scaling), (theta, scaling), "{config}");
    }
}

#[test]
fn a_value_that_is_not_finite_is_named() {
    let (_place, directory) = written();
    let path = directory.join("model.safetensors");
    let good = fs::read(&path).expect("a file");
    let begin = 8 + u64::from_le_bytes(good[..8].try_into().expect("eight bytes")) as usize;
    let tensors = SafeTensors::deserialize(&good).expect("tensors");
    let name = "model.norm.weight";
    let norm = tensors.tensor(name).expect("a tensor").data().as_ptr() as usize - good.as_ptr() as usize;
    assert!(norm >= begin);
    for value in [f32::NAN, f32::INFINITY] {
        let mut bytes = good.clone();
        bytes[norm + 8..][..4].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).expect("written");
        let pretrained = Pretrained::open(&directory).expect("its header is whole");
        let error =
            pretrained.model_without_autodiff(&config(&directory), &ByteTokenizer).expect_err("damaged");
        let error = error.to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(&format!("value 2 of {name} is {value}")), "{error}");
    }
    // Values that are finite may still give logits that are not.
    let mut bytes = good.clone();
    bytes[norm..][..64].as_chunks_mut().0.iter_mut().for_each(|value| *value = f32::MAX.to_le_bytes());
    fs::write(&path, bytes).expect("written");
    let pretrained = Pretrained::open(&directory).expect("its header is whole");
    let model = pretrained.model_without_autodiff(&config(&directory), &ByteTokenizer).expect("finite");
    for temperature in [0.0, 1.0] {
        let sampling = Sampling { temperature, ..Sampling::default() };
        let error = generate(&model, &ByteTokenizer, "a", &sampling, |_| Ok(())).expect_err("no such logits");
        assert!(error.to_string().contains("not finite"), "{error}");
    }
}

#[test]
fn a_window_is_a_bound_on_rows() {
    let (_place, directory) = written();
    let path = directory.join("config.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    (file["model_type"], file["sliding_window"]) = (json!("mistral"), json!(8));
    fs::write(&path, file.to_string()).expect("written");
    let mut config = config(&directory);
    config.data.pipeline.seq_len = 9;
    let error = resolved(&config).expect_err("refused").to_string();
    assert!(error.starts_with("`pipeline.seq_len` must be at most 8"), "{error}");
    config.data.pipeline.seq_len = 8;
    resolved(&config).expect("short enough");
    assert_eq!(Pretrained::open(&directory).expect("a model").max_seq_len(), 8);
    file["sliding_window"] = json!(0);
    fs::write(&path, file.to_string()).expect("written");
    assert_refused(&directory, "config.json", "sliding_window is 0, and must be at least 1");
}

#[test]
fn what_is_no_model_says_what_is_missing() {
    let place = TempDir::new().expect("a directory");
    let error = refused(place.path());
    assert!(error.contains("neither a Hugging Face model's directory"), "{error}");
    let error = refused(&place.path().join("HuggingFaceTB/SmolLM-135M"));
    assert!(error.contains("there is no such directory; download the model first"), "{error}");
    fs::write(place.path().join("q4.gguf"), "GGUF").expect("written");
    for path in [place.path().join("q4.gguf"), place.path().to_owned()] {
        assert!(refused(&path).contains("GGUF files are not read; name the directory"), "{path:?}");
    }
    fs::write(place.path().join("adapter_config.json"), "{}").expect("written");
    assert!(refused(place.path()).contains("merge it into its base model"));
    fs::write(place.path().join("config.toml"), "").expect("written");
    assert!(refused(&place.path().join("config.toml")).contains("it is a file"));
    let error = refused(place.path());
    assert!(error.contains("export its model"), "{error}");

    let (_place, directory) = written();
    fs::remove_file(directory.join("model.safetensors")).expect("removed");
    fs::write(directory.join("pytorch_model.bin"), "").expect("written");
    let error = refused(&directory);
    assert!(error.contains("no model.safetensors and no model.safetensors.index.json"), "{error}");
}

/// Tensors by name: type, shape and bytes.
type Stored = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn rewrite(path: &Path, change: impl FnOnce(&mut Stored)) {
    let bytes = fs::read(path).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let stored = |(name, view): (&str, TensorView<'_>)| {
        (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    let mut tensors: Stored = file.iter().map(stored).collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).expect("a view"))
    });
    safetensors::serialize_to_file(views, None, path).expect("written");
}

#[test]
fn tensors_that_are_not_those_of_the_model() {
    const NORM: &str = "model.norm.weight";
    type Change = fn(&mut Stored);
    let changes: [(Change, &str); 5] = [
        (|all| drop(all.remove(NORM)), "there is no tensor model.norm.weight"),
        (|all| drop(all.insert("model.extra".to_owned(), all[NORM].clone())), "model.extra is not a part"),
        (
            |all| all.get_mut(NORM).expect("a norm").1 = vec![4, 4],
            "model.norm.weight is [4, 4], and should be [16]",
        ),
        (
            |all| drop(all.insert(NORM.to_owned(), (Dtype::I32, vec![16], vec![0; 64]))),
            "model.norm.weight is I32; only F32, F16 and BF16",
        ),
        (
            |all| drop(all.insert(NORM.to_owned(), (Dtype::F64, vec![16], vec![0; 128]))),
            "model.norm.weight is F64",
        ),
    ];
    for (change, why) in changes {
        let (_place, directory) = written();
        rewrite(&directory.join("model.safetensors"), change);
        assert_refused(&directory, "model.safetensors", why);
    }
    // These change nothing: a tied head that is stored all the same, and frequencies that are computed.
    let (_place, directory) = written();
    rewrite(&directory.join("model.safetensors"), |all| {
        all.insert("lm_head.weight".to_owned(), all["model.embed_tokens.weight"].clone());
        let frequencies = (Dtype::F32, vec![2], vec![0; 8]);
        all.insert("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), frequencies);
    });
    Pretrained::open(&directory).expect("a model");
}

/// A file of safetensors with this header and so many bytes of values.
fn file(header: &Value, values: usize) -> Vec<u8> {
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &vec![0; values]].concat()
}

#[test]
fn files_that_are_damaged_or_lie() {
    let (_place, directory) = written();
    let path = directory.join("model.safetensors");
    let good = fs::read(&path).expect("a file");
    let longer = |len: u64| [&len.to_le_bytes()[..], &good[8..]].concat();
    let tensor = |from: u64, to: u64| json!({ "dtype": "F32", "shape": [2], "data_offsets": [from, to] });
    let files = [
        (Vec::new(), "damaged or cut off"),
        (good[..4].to_vec(), "damaged or cut off"),
        (good[..100].to_vec(), "damaged or cut off"),
        (good[..good.len() - 1].to_vec(), " by its header: it is damaged"),
        ([&good[..], &[0]].concat(), " by its header: it is damaged"),
        (longer(u64::MAX), "damaged or cut off"),
        (longer(good.len() as u64 - 7), "damaged or cut off"),
        (longer(10), "its header is not that of a safetensors file"),
        (
            file(&json!({ "a": tensor(0, 8), "b": tensor(4, 12) }), 12),
            "its header is not that of a safetensors file",
        ),
        (
            file(&json!({ "a": tensor(0, 8), "b": tensor(0, 8) }), 8),
            "its header is not that of a safetensors file",
        ),
        (file(&json!({ "a": tensor(8, 16) }), 16), "its header is not that of a safetensors file"),
        (file(&json!({ "a": tensor(8, 0) }), 8), "its header is not that of a safetensors file"),
        (file(&json!({ "a": tensor(0, u64::MAX) }), 8), "its header is not that of a safetensors file"),
        (
            file(
                &json!({ "a": { "dtype": "F32", "shape": [u64::MAX, u64::MAX], "data_offsets": [0, 8] } }),
                8,
            ),
            "its header is not that of a safetensors file",
        ),
        (file(&json!({ "a": { "dtype": "F32" } }), 8), "its header is not that of a safetensors file"),
        (file(&json!([]), 0), "its header is not that of a safetensors file"),
    ];
    for (bytes, why) in files {
        fs::write(&path, bytes).expect("written");
        assert_refused(&directory, "model.safetensors", why);
    }
}

#[test]
fn pointers_that_git_lfs_left_are_named() {
    for name in ["config.json", "model.safetensors"] {
        let (_place, directory) = written();
        fs::write(directory.join(name), POINTER).expect("written");
        let error = Pretrained::open(&directory).expect_err("refused");
        assert_named(&error, &directory.join(name).display().to_string());
    }
}

#[test]
fn an_index_names_files_of_its_directory() {
    let (place, directory) = sharded(8 << 10);
    Pretrained::open(&directory).expect("a model");
    const INDEX: &str = "model.safetensors.index.json";
    let path = directory.join(INDEX);
    let good: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let write = |index: &Value| fs::write(&path, index.to_string()).expect("written");
    fs::write(place.path().join("x.safetensors"), "").expect("written");
    for name in ["../x.safetensors", "/etc/passwd", ""] {
        let mut index = good.clone();
        index["weight_map"]["model.norm.weight"] = json!(name);
        write(&index);
        assert_refused(&directory, INDEX, "outside of its directory");
    }
    let mut index = good.clone();
    index["weight_map"]["model.norm.weight"] = json!("gone.safetensors");
    write(&index);
    assert!(refused(&directory).contains("gone.safetensors"), "{}", refused(&directory));
    fs::create_dir(directory.join("gone.safetensors")).expect("made");
    assert_refused(&directory, "gone.safetensors", "not a regular file");
    fs::remove_dir(directory.join("gone.safetensors")).expect("removed");
    let first = good["weight_map"]["model.norm.weight"].as_str().expect("a name");
    fs::copy(directory.join(first), directory.join("gone.safetensors")).expect("copied");
    assert!(
        refused(&directory).contains("is in another of the model's files too"),
        "{}",
        refused(&directory)
    );
    write(&json!({ "weight_map": [] }));
    assert_refused(&directory, INDEX, "not an index");
}

#[test]
fn a_tokenizer_that_is_not_the_models() {
    let (_place, directory) = written();
    let config = config(&directory);
    Trainer::new(&config, &ByteTokenizer).expect("nothing says that ids are not bytes");
    fs::write(directory.join("tokenizer.json"), "{}").expect("written");
    let error = Trainer::new(&config, &ByteTokenizer).expect_err("refused").to_string();
    assert!(
        error.starts_with("tokenizer.path: set it to ") && error.contains("model/tokenizer.json"),
        "{error}"
    );

    // A tokenizer of more ids than there are weights.
    let (_place, directory) = written();
    let path = directory.join("config.json");
    let text = fs::read_to_string(&path).expect("a file");
    fs::write(&path, text.replace("\"vocab_size\": 260", "\"vocab_size\": 200")).expect("written");
    rewrite(&directory.join("model.safetensors"), |all| {
        let embedding = all.get_mut("model.embed_tokens.weight").expect("an embedding");
        (embedding.1, embedding.2) = (vec![200, 16], vec![0; 200 * 16 * 4]);
    });
    let error = Trainer::new(&super::config(&directory), &ByteTokenizer).expect_err("refused").to_string();
    assert!(error.contains("the tokenizer has 257 ids, and the model in"), "{error}");
}

#[test]
fn a_shape_of_ones_own_is_not_the_models() {
    let (_place, directory) = written();
    let mut config = config(&directory);
    config.model = ModelConfig { layers: 3, ..base() };
    let error = resolved(&config).expect_err("refused").to_string();
    assert!(
        error.starts_with("model.layers: it is 3 here and 2 in ") && error.ends_with("; leave it out"),
        "{error}"
    );
    config.model = ModelConfig { rope_scaling: Some(RopeScaling::default()), ..base() };
    let error = resolved(&config).expect_err("refused").to_string();
    assert!(error.starts_with("model.rope_scaling: it is {") && error.contains("not set in"), "{error}");
    config.model = ModelConfig { vocab_size: Some(200), ..base() };
    let error = resolved(&config).expect_err("refused").to_string();
    assert!(error.starts_with("model.vocab_size: it is 200 here and 260 in "), "{error}");
    // What is left out in one of them and follows from the rest in the other is the same.
    config.model = ModelConfig { kv_heads: Some(4), head_dim: Some(4), ..base() };
    resolved(&config).expect("the same shape");
    config.model = resolved(&super::config(&directory)).expect("a config").model;
    resolved(&config).expect("the same shape");
}

#[test]
fn a_tied_head_that_is_stored_with_other_values_is_refused() {
    let shape = ModelConfig { tied: false, ..base() };
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("model");
    export(&shape, None).write(&model(&shape), &directory).expect("written");
    let path = directory.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    config["tie_word_embeddings"] = json!(true);
    fs::write(&path, config.to_string()).expect("written");
    let load = || Pretrained::open(&directory).expect("a model").load(model(&base()));
    let error = load().expect_err("refused").to_string();
    assert!(error.contains("lm_head.weight has other values than model.embed_tokens.weight"), "{error}");
    // One that has the same values is what ties them.
    let weights = directory.join("model.safetensors");
    let bytes = fs::read(&weights).expect("a file");
    let tensors = SafeTensors::deserialize(&bytes).expect("tensors");
    let embedding = || tensors.tensor("model.embed_tokens.weight").expect("an embedding");
    let all = tensors.iter().map(|(name, tensor)| match name {
        "lm_head.weight" => (name.to_owned(), embedding()),
        _ => (name.to_owned(), tensor),
    });
    let same: BTreeMap<String, TensorView<'_>> = all.collect();
    fs::write(&weights, safetensors::serialize(same, None).expect("bytes")).expect("written");
    load().expect("a model");
}
