//! Weights of 16 bits.

use std::fs;

use serde_json::{Value, json};

use super::{MODEL, MODELS_TOKENIZER, Project};
use crate::support::torch::{python, torch};

/// Each type, with its name in PyTorch.
const TYPES: [(&str, &str); 2] = [("bf16", "bfloat16"), ("f16", "float16")];

#[test]
fn weights_of_16_bits_are_read_again() {
    let project = Project::with_model(MODEL);
    let loss = project.validations("run").last().expect("a validation").1;
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", MODELS_TOKENIZER, "");
    let len = |path: &str| fs::metadata(project.path(path)).expect("a file").len();
    for (dtype, name) in TYPES {
        project.succeed(&["model", "export", "run", "-o", dtype, "--dtype", dtype]);
        assert!(len(&format!("{dtype}/model.safetensors")) < len("model/model.safetensors") * 2 / 3);
        let config = fs::read(project.path(dtype).join("config.json")).expect("a config");
        assert_eq!(serde_json::from_slice::<Value>(&config).expect("JSON")["dtype"], name);
        assert!(!project.text(dtype, "file 1").is_empty());

        // A step that changes nothing shows where the run starts.
        let settings = [
            &format!("train.init={dtype}"),
            &format!("train.out=from-{dtype}"),
            "train.steps=1",
            "train.lr=1e-30",
            "train.min_lr=0",
            "train.weight_decay=0",
        ];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        project.succeed(&[&["train", "init.toml"][..], &settings].concat());
        let there = project.validations(&format!("from-{dtype}"))[0].1;
        assert!(there != loss && (there - loss).abs() < 0.02, "{dtype}: {there} and {loss}");

        // Files are counted in bytes of what they hold.
        let (out, size) = (format!("{dtype}-shards"), "8KiB");
        project.succeed(&["model", "export", "run", "-o", &out, "--dtype", dtype, "--shard-size", size]);
        let index = fs::read(project.path(&out).join("model.safetensors.index.json")).expect("an index");
        let index: Value = serde_json::from_slice(&index).expect("JSON");
        let total: u64 = index["weight_map"]
            .as_object()
            .expect("a map")
            .values()
            .map(|file| file.as_str().expect("a name"))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(|file| {
                let bytes = fs::read(project.path(&out).join(file)).expect("a file");
                let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
                bytes.len() as u64 - 8 - header
            })
            .sum();
        assert_eq!(index["metadata"]["total_size"], json!(total));
        assert_eq!(project.text(&out, "file 1"), project.text(dtype, "file 1"));
    }
}

#[test]
fn weights_of_16_bits_are_rounded_as_pytorch_rounds_them() {
    let Some(python) = python("weights_of_16_bits_are_rounded_as_pytorch_rounds_them") else { return };
    let project = Project::with_model(MODEL);
    let path = |name: &str| project.path(name).display().to_string();
    project.succeed(&["model", "export", "run", "-o", "model"]);
    for (dtype, _) in TYPES {
        project.succeed(&["model", "export", "run", "-o", dtype, "--dtype", dtype]);
        torch(&python, &["rounded", &path("model"), &path(dtype)]);
    }
}
