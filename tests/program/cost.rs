//! What training costs, as the program says it: operations, memory, and what cannot fit.

use std::path::Path;

use serde_json::Value;

use crate::program::{TINY, failure, json, run, said, text};

/// A run of three steps over this repository's own text, with a model of 300 ids.
const CONFIG: &str = r#"
seed = 3

[[source]]
paths = ["crates/train/src/**/*.rs"]

[tokenizer]
kind = "bytes"

[pipeline]
lanes = 1
workers = 1
depth = 1
memory = "32MiB"

[model]
vocab_size = 300

[train]
steps = 3
log_every = 1
validate_every = 0
checkpoint_every = 0
sample_tokens = 0
"#;

/// A config in `directory`, and the settings that a run is given.
fn settings(directory: &Path, keys: &[&str]) -> Vec<String> {
    let config = directory.join("run.toml");
    std::fs::write(&config, CONFIG).expect("written");
    let out = format!("train.out={}", directory.join("run").display());
    let keys = keys.iter().copied().chain([out.as_str()]);
    let sets = keys.flat_map(|key| ["--set".to_owned(), key.to_owned()]);
    ["train".to_owned(), config.display().to_string()].into_iter().chain(sets).collect()
}

/// The lines of JSON of a run.
fn lines(keys: &[&str]) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = settings(directory.path(), keys);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--json"]).collect();
    let said = text(&arguments);
    said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn rates_are_shown_in_operations_and_as_a_share_of_a_peak_that_is_known() {
    let model = ["model.d_model=32", "pipeline.seq_len=16", "pipeline.batch_size=4"];
    let all = lines(&[&model[..], &["train.peak_tflops=0.01"]].concat());
    assert_eq!(all.len(), 4);
    // 4 layers with 4 matrices of the width and 3 of 384, and the head; 4 heads of 8.
    let of_place = f64::from(6 * (4 * (4 * 32 * 32 + 3 * 32 * 384) + 300 * 32) + 12 * 4 * 32 * 16);
    for line in &all {
        let [tokens, flops, mfu] =
            ["tokens_per_second", "flops_per_second", "mfu"].map(|key| line[key].as_f64().expect("a rate"));
        assert!((flops / tokens / of_place - 1.0).abs() < 1e-9, "{line}");
        assert!((mfu / (flops / 1e10) - 1.0).abs() < 1e-9, "{line}");
    }
    assert!(lines(&model).iter().all(|line| line["flops_per_second"].is_number() && line["mfu"].is_null()));
    // Each batch of a step counts.
    for line in lines(&[&model[..], &["train.accumulate=3"]].concat()) {
        let [tokens, flops] =
            ["tokens_per_second", "flops_per_second"].map(|key| line[key].as_f64().expect("a rate"));
        assert!((flops / tokens / of_place - 1.0).abs() < 1e-9, "{line}");
    }

    let directory = tempfile::tempdir().expect("a directory");
    let arguments = settings(directory.path(), &[&model[..], &["train.peak_tflops=0.01"]].concat());
    let output = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let (shown, progress) = (String::from_utf8_lossy(&output.stdout), said(&output));
    let step = progress.lines().find(|line| line.starts_with("step 1/3")).expect("a step");
    assert!(step.contains(" tokens/s, ") && step.contains("FLOP/s, MFU "), "{step}");
    assert!(shown.contains("FLOP/s, MFU ") && progress.contains("memory: about "), "{shown}{progress}");
    let metrics = std::fs::read_to_string(directory.path().join("run/metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.matches("\"flops_per_second\":").count(), 3, "{metrics}");
    assert_eq!(metrics.matches("\"mfu\":").count(), 3, "{metrics}");
}

/// Each shape is dominated by some terms, so that a term that is left out shows in one of them.
#[cfg(target_os = "linux")]
#[test]
fn the_predicted_memory_is_near_the_real_peak() {
    const SMALL: &[&str] = &["model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=16"];
    const SHORT: &[&str] = &["pipeline.seq_len=16", "pipeline.batch_size=1"];
    const MANY: &[&str] = &["pipeline.seq_len=32", "pipeline.batch_size=256"];
    let peak = |keys: &[&[&str]]| {
        let lines = lines(&keys.concat());
        let last = lines.last().expect("the run");
        let terms = ["parameters", "moments", "gradients", "activations", "allocator", "overlap"];
        let mut terms = terms.map(|term| last["predicted_memory"][term].as_f64().expect("bytes"));
        terms[5] = -terms[5];
        (last["peak_memory"].as_u64().expect("bytes") as f64, terms)
    };
    // The program itself, and its loader.
    let (beside, _) = peak(&[SMALL, SHORT]);
    let gelu: &[&str] = &["model.activation=gelu"];
    let wide: &[&str] = &["model.d_model=512", "model.heads=8", "model.d_ff=2048", "model.vocab_size=16000"];
    /// A name, the settings, and which terms show.
    type Shape<'a> = (&'a str, &'a [&'a [&'a str]], [bool; 4]);
    let shapes: [Shape<'_>; 8] = [
        ("parameters", &[wide, gelu, SHORT], [true, true, true, false]),
        ("accumulated", &[wide, gelu, SHORT, &["train.accumulate=2"]], [false, true, true, false]),
        ("parts", &[wide, SHORT, &["pipeline.batch_size=2"]], [false, true, true, false]),
        ("swiglu", &[MANY, &["model.d_ff=1024"]], [false, false, false, true]),
        ("gelu", &[MANY, gelu, &["model.layers=8", "model.d_model=256"]], [false, false, false, true]),
        (
            "heads",
            &[MANY, &["model.heads=8", "model.kv_heads=2", "model.head_dim=64"]],
            [false, false, false, true],
        ),
        (
            "both",
            &[wide, &["model.layers=6", "pipeline.seq_len=256", "pipeline.batch_size=4"]],
            [false, true, true, true],
        ),
        (
            "bf16",
            &[&["pipeline.seq_len=256", "pipeline.batch_size=32", "train.precision=bf16"]],
            [false, false, false, true],
        ),
    ];
    for (name, keys, shows) in shapes {
        let (peak, terms) = peak(keys);
        let (grown, predicted) = (peak - beside, terms.iter().sum::<f64>());
        let is_near = |predicted: f64| (predicted / grown - 1.0).abs() < NEAR;
        let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
        let seen =
            format!("{name}: {} MiB, predicted {} as {:?}", mib(grown), mib(predicted), terms.map(mib));
        assert!(is_near(predicted), "{seen}");
        for (term, _) in terms.iter().zip(shows).filter(|(_, shows)| *shows) {
            assert!(!is_near(predicted - term), "a term left out does not show; {seen}");
        }
    }
}

/// How far a prediction may be from the peak.
#[cfg(target_os = "linux")]
const NEAR: f64 = 0.15;

#[cfg(target_os = "linux")]
#[test]
fn a_model_that_cannot_fit_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let out = format!("train.out={}", run.display());
    for (key, value) in [("layers", "99999999"), ("d_ff", "9007199254740991"), ("vocab_size", "999999999999")]
    {
        let set = format!("model.{key}={value}");
        for command in ["train", "check"] {
            let (code, error) = failure(&[command, TINY, "--set", &set, "--set", &out]);
            assert_eq!((code, error.lines().count()), (1, 1), "{error}");
            assert!(
                error.contains("model: its parameters, moments and gradients take ")
                    && error.contains(" and this machine has ")
                    && error.contains("; lower model.layers"),
                "{error}"
            );
        }
        assert!(!run.exists());
    }
}

#[test]
fn a_check_says_what_a_step_and_a_run_would_take() {
    let report = json(&["check", TINY]);
    let cost = &report["train"]["cost"];
    assert!(cost["parameters"].as_f64().is_some_and(|count| count > 1e4), "{report}");
    assert!(cost["flops_per_step"].as_f64().is_some_and(|count| count > 1e6), "{report}");
    assert!(cost["memory"]["activations"].as_f64().is_some_and(|bytes| bytes > 1e5), "{report}");
    let twice = json(&["check", TINY, "--set", "train.accumulate=2"]);
    let steps = [&report, &twice].map(|report| report["train"]["cost"]["flops_per_step"].as_f64());
    assert_eq!(steps[0].map(|flops| 2.0 * flops), steps[1]);
    let small = [
        "model.d_model=32", "model.heads=4", "model.layers=2", "model.d_ff=64", "model.vocab_size=300",
        "pipeline.seq_len=16",
    ];
    let cost = |more: &str| {
        let settings = small.iter().copied().chain([more]).flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = ["check", TINY].into_iter().chain(settings).collect();
        json(&arguments)["train"]["cost"].clone()
    };
    let (of_rows, of_tokens) = (cost("pipeline.batch_size=4"), cost("pipeline.batch_tokens=64"));
    // 4 matrices of the width and 3 of 64, the embedding, and the norms.
    let multiplied = f64::from(2 * (4 * 32 * 32 + 3 * 32 * 64) + 300 * 32);
    assert_eq!(of_rows["parameters"].as_f64(), Some(multiplied + f64::from(5 * 32)));
    let of_place = 6.0 * multiplied + f64::from(12 * 2 * 32 * 16);
    for cost in [&of_rows, &of_tokens] {
        assert_eq!(cost["flops_per_step"].as_f64(), Some(64.0 * of_place));
    }
    assert_eq!(of_rows["memory"], of_tokens["memory"]);
    let shown = text(&["check", TINY]);
    assert!(
        shown.contains("\nmodel ") && shown.contains("\nmemory ") && shown.contains(" a step\n"),
        "{shown}"
    );
}

#[test]
fn the_peak_of_a_device_is_measured_by_bench() {
    let report = json(&["bench", "device", TINY]);
    let [rate, tflops] = ["flops_per_second", "peak_tflops"].map(|key| report[key].as_f64().expect("a rate"));
    assert!(rate > 1e8 && (tflops * 1e12 / rate - 1.0).abs() < 1e-9, "{report}");
    let (code, error) = failure(&["bench", "device", TINY, "--set", "train.device=cuda"]);
    assert!(code == 1 && error.contains("--features cuda"), "{error}");
    for peak in ["0", "1e-30", "0.0009", "1000001", "1e30"] {
        let (code, error) = failure(&["check", TINY, "--set", &format!("train.peak_tflops={peak}")]);
        assert!(
            code == 2 && error.contains("`train.peak_tflops` must be from 0.001 to 1000000, in TFLOP/s"),
            "{error}"
        );
    }
    for peak in ["0.001", "1000000"] {
        text(&["check", TINY, "--set", &format!("train.peak_tflops={peak}")]);
    }
}
