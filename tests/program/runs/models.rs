//! A run's model as a directory of the Hugging Face libraries, and runs that begin from one.

use std::fs;

use burn::tensor::{Device, Int, Tensor};
use millstream::config::{Config, TokenizerConfig};
use millstream::loader::open_tokenizer;
use millstream::tokenizer::Tokenizer;
use millstream_train::{Pretrained, RunConfig};
use serde_json::{Value, json};

use super::{CONFIG, Project};
use crate::support::runtime::block_on;
use crate::support::torch::{python, torch};

mod adapters;
mod dtypes;
mod origin;
mod settings;
mod template;

/// What a run has for a tokenizer of its own.
const TOKENIZER: &str = "[tokenizer]\neos = \"<|endoftext|>\"\ntrain = { vocab_size = 300 }\n";

/// The tokenizer of a model that such a run has made.
const MODELS_TOKENIZER: &str = "[tokenizer]\neos = \"<|endoftext|>\"\npath = \"model/tokenizer.json\"\n";

/// A run's `[model]`.
const MODEL: &str = "[model]\nlayers = 1\nd_model = 16\nheads = 2\nd_ff = 16\n";

impl Project {
    /// A project with a finished run of a model with its own tokenizer.
    fn with_model(model: &str) -> Self {
        let project = Self::new();
        project.write("run.toml", TOKENIZER, model);
        project.succeed(&["train", "run.toml", "--set", "train.lr=1e-2"]);
        project
    }

    /// Writes the config with other sections.
    fn write(&self, name: &str, tokenizer: &str, model: &str) {
        let config = CONFIG.replace("[tokenizer]\nkind = \"bytes\"\n", tokenizer).replace(MODEL, model);
        fs::write(self.path(name), config).expect("written");
    }

    /// The object that a command prints.
    fn print(&self, arguments: &[&str]) -> Value {
        let output = self.program(&[arguments, &["--json"]].concat()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        super::succeeded(&output);
        serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
    }

    /// The greedy text of a model.
    fn text(&self, model: &str, prompt: &str) -> String {
        let greedy = ["generate", model, prompt, "--temperature", "0", "--tokens", "24"];
        self.print(&greedy)["text"].as_str().expect("a text").to_owned()
    }

    /// The validation losses of a run, by step.
    fn validations(&self, run: &str) -> Vec<(u64, f64)> {
        let text = fs::read_to_string(self.path(run).join("metrics.jsonl")).expect("metrics");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of = |line: Value| Some((line["step"].as_u64()?, line["validation_loss"].as_f64()?));
        lines.filter_map(of).collect()
    }
}

#[test]
fn a_model_goes_out_and_comes_in_again() {
    let project = Project::with_model(MODEL);
    // The text of an earlier checkpoint is another's, so that a wrong one would be seen.
    let newest = project.print(&["model", "export", "run", "-o", "model"]);
    assert_eq!((&newest["step"], &newest["output"]), (&json!(20), &json!("model")));
    assert_eq!(newest["without_tokenizer"], Value::Null);
    let files: Vec<&str> =
        newest["files"].as_array().expect("files").iter().flat_map(Value::as_str).collect();
    for name in ["model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "README.md"]
    {
        assert!(files.contains(&name) && project.path("model").join(name).is_file(), "{name}: {files:?}");
    }
    assert_eq!(project.print(&["model", "export", "run", "-o", "earlier", "--step", "10"])["step"], 10);
    let prompt = "file 1 line";
    assert_eq!(project.text("model", prompt), project.text("run", prompt));
    assert_ne!(
        fs::read(project.path("model/model.safetensors")).expect("a file"),
        fs::read(project.path("earlier/model.safetensors")).expect("a file")
    );

    // A step that changes nothing shows where each of them starts.
    project.write("init.toml", MODELS_TOKENIZER, "");
    let still = ["train.steps=1", "train.lr=1e-30", "train.min_lr=0", "train.weight_decay=0"];
    let still: Vec<&str> = still.iter().flat_map(|setting| ["--set", setting]).collect();
    let losses = project.validations("run");
    for (model, step) in [("earlier", 10), ("model", 20)] {
        let out = format!("train.out=from-{model}");
        let init = format!("train.init={model}");
        project.succeed(&[&["train", "init.toml", "--set", &init, "--set", &out][..], &still].concat());
        let expected = losses.iter().find(|(at, _)| *at == step).expect("a validation").1;
        assert_eq!(project.validations(&format!("from-{model}")), [(1, expected)]);
    }
}

#[test]
fn a_run_that_began_from_a_model_resumes_exactly_without_it() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", MODELS_TOKENIZER, "");
    let init = ["--set", "train.init=model", "--set", "train.out=second"];
    project.succeed(&[&["check", "init.toml"][..], &init].concat());
    project.succeed(&[&["train", "init.toml"][..], &init].concat());
    let all = project.losses("second");
    assert_eq!(all.len(), 20);
    fs::remove_dir_all(project.path("model")).expect("removed");
    project.succeed(&["train", "--resume", "second", "--at", "10"]);
    assert_eq!(project.losses("second"), all);
    // The config that the run began with goes on too, though it says nothing of the shape.
    project.succeed(
        &[&["train", "init.toml", "--resume", "second", "--set", "train.steps=21"][..], &init].concat(),
    );
    assert_eq!(project.losses("second").len(), 21);
    project.succeed(&["model", "export", "second", "-o", "again"]);
    assert_eq!(project.text("again", "file 2"), project.text("second", "file 2"));
}

/// Changes a file of JSON.
fn change(path: &std::path::Path, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON");
    change(&mut json);
    fs::write(path, json.to_string()).expect("written");
}

#[test]
fn each_of_a_models_end_ids_ends_a_text() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let (config, generation) =
        (project.path("model/config.json"), project.path("model/generation_config.json"));
    let text = project.text("model", "file");
    assert!(!text.is_empty());
    // The usual end first, which the text does not have, and then whatever else the model may say.
    let mut all = Vec::new();
    change(&config, |config| {
        all.push(config["eos_token_id"].clone());
        all.extend((0..config["vocab_size"].as_u64().expect("a number")).map(Value::from));
        config["eos_token_id"] = json!(all);
    });
    assert_eq!(project.text("model", "file"), text, "transformers reads the generation config first");
    change(&generation, |generation| generation["eos_token_id"] = json!(null));
    assert_eq!(project.text("model", "file"), "", "which names none");
    fs::remove_file(&generation).expect("removed");
    assert_eq!(project.text("model", "file"), "");
    change(&config, |config| config["eos_token_id"] = json!(null));
    assert!(project.text("model", "file").starts_with(&text), "nothing ends it");
    fs::write(&generation, json!({ "eos_token_id": all }).to_string()).expect("written");
    assert_eq!(project.text("model", "file"), "");
    fs::write(&generation, json!({ "eos_token_id": ["</s>"] }).to_string()).expect("written");
    let said = project.fail(&["generate", "model", "file"]);
    assert!(
        said.contains("model/generation_config.json: eos_token_id is \"</s>\", and must be a whole number"),
        "{said}"
    );
}

#[test]
fn a_link_stays_and_the_directory_that_it_leads_to_gets_the_model() {
    use std::os::unix::fs::symlink;
    let project = Project::with_model(MODEL);
    fs::create_dir_all(project.path("far/empty")).expect("made");
    symlink("far/empty", project.path("to-empty")).expect("a link");
    symlink("to-nothing-either", project.path("to-nothing")).expect("a link");
    symlink("far/new", project.path("to-nothing-either")).expect("a link");
    for (link, directory) in [("to-empty", "far/empty"), ("to-nothing", "far/new")] {
        project.succeed(&["model", "export", "run", "-o", link]);
        assert!(project.path(link).is_symlink() && !project.path(directory).is_symlink(), "{link}");
        assert_eq!(project.text(directory, "file"), project.text("run", "file"));
        assert_eq!(
            fs::read_dir(project.path("far")).expect("a directory").flatten().count(),
            1 + usize::from(link == "to-nothing")
        );
        let said = project.fail(&["model", "export", "run", "-o", link]);
        assert!(said.contains("there is something in it already"), "{said}");
    }
    symlink("round", project.path("round")).expect("a link");
    let said = project.fail(&["model", "export", "run", "-o", "round"]);
    assert!(said.contains("round") && !said.contains("exporting"), "{said}");
}

#[test]
fn what_cannot_go_in_or_out_is_refused_before_any_work() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let said = project.fail(&["model", "export", "run", "-o", "model"]);
    assert!(said.contains("there is something in it already; name a new or an empty directory"), "{said}");
    let said = project.fail(&["model", "export", "run", "-o", "other", "--step", "7"]);
    assert!(said.contains("there is no checkpoint of step 7") && !project.path("other").exists(), "{said}");
    let said = project.fail(&["model", "export", "corpus", "-o", "other"]);
    assert!(said.contains("this is not a run's directory"), "{said}");
    let said = project.fail(&["generate", "corpus", "file"]);
    assert!(said.contains("config.toml") && said.contains("config.json"), "{said}");
    let said = project.fail(&["generate", "HuggingFaceTB/SmolLM-135M", "file"]);
    assert!(said.contains("\"hf://HuggingFaceTB/SmolLM-135M\""), "{said}");
    let output = project.program(&["generate", "model", "file", "--at", "10"]).output().expect("it runs");
    let said = super::said(&output);
    assert!(output.status.code() == Some(2) && said.contains("has no checkpoints; leave it out"), "{said}");

    let train = |config: &str, init: &str| {
        let init = format!("train.init={init}");
        let said = project.fail(&["train", config, "--set", &init, "--set", "train.out=second"]);
        assert!(!project.path("second").exists() && !said.contains("learned"), "{said}");
        said
    };
    project.write("init.toml", MODELS_TOKENIZER, "");
    let said = train("init.toml", "run");
    assert!(said.contains("it is a run's directory; export its model first"), "{said}");
    assert!(said.trim_end().ends_with(" model export run -o run-model"), "{said}");
    let said = train("init.toml", "nowhere");
    assert!(said.contains("nowhere: there is no such directory; download the model first"), "{said}");
    let said = train("init.toml", "~/nowhere");
    assert!(said.contains("download the model first, and write its whole path: ~ and variables"), "{said}");
    project.write("other.toml", MODELS_TOKENIZER, &MODEL.replacen("layers = 1", "layers = 2", 1));
    let said = train("other.toml", "model");
    assert!(said.contains("model.layers: it is 2 here and 1 in model; leave it out"), "{said}");
    // The model's own shape may be said too.
    project.write("same.toml", MODELS_TOKENIZER, MODEL);
    project.succeed(&["check", "same.toml", "--set", "train.init=model"]);
    for other in [TOKENIZER, "", "[tokenizer]\nkind = \"bytes\"\n"] {
        project.write("init.toml", other, "");
        let checked = project.fail(&["check", "init.toml", "--set", "train.init=model"]);
        for said in [train("init.toml", "model"), checked] {
            assert!(said.contains("tokenizer.path: set it to \"model/tokenizer.json\""), "{said}");
        }
    }
    // The model's own tokenizer, with a token more than it has weights for.
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(project.path(name)).expect("a file")).expect("JSON")
    };
    let (vocab, mut tokenizer) =
        (read("model/config.json")["vocab_size"].clone(), read("model/tokenizer.json"));
    tokenizer["added_tokens"].as_array_mut().expect("tokens").push(json!({
        "id": vocab,
        "content": "<extra>",
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": true,
    }));
    fs::write(project.path("model/tokenizer.json"), tokenizer.to_string()).expect("written");
    project.write("init.toml", MODELS_TOKENIZER, "");
    let said = project.fail(&["check", "init.toml", "--set", "train.init=model"]);
    assert!(said.contains(&format!("model: its embedding has weights for {vocab} ids")), "{said}");
    assert!(said.contains("resize the embedding in transformers first"), "{said}");
    fs::remove_file(project.path("model/tokenizer.json")).expect("removed");
    let said = project.fail(&["generate", "model", "file"]);
    assert!(said.contains("model: it has no tokenizer.json"), "{said}");
}

#[test]
fn a_model_of_bytes_or_with_gelu_says_what_is_missing() {
    let project = Project::trained();
    let report = project.print(&["model", "export", "run", "-o", "model"]);
    let why = report["without_tokenizer"].as_str().expect("a reason");
    assert!(why.contains("so there is no tokenizer.json") && !project.path("model/tokenizer.json").exists());
    project.succeed(&["train", "run.toml", "--set", "train.out=gelu", "--set", "model.activation=gelu"]);
    let said = project.fail(&["model", "export", "gelu", "-o", "other"]);
    assert!(said.contains("model.activation: gelu: no architecture of the Hugging Face libraries"), "{said}");
    assert!(!project.path("other").exists());
}

#[test]
fn the_card_has_front_matter_and_the_figures_of_the_run() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let card = fs::read_to_string(project.path("model/README.md")).expect("a card");
    let (front, body) =
        card.strip_prefix("---\n").and_then(|card| card.split_once("\n---\n")).expect("front matter");
    let keys: Vec<_> = front.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(keys, [("library_name", "transformers"), ("pipeline_tag", "text-generation")]);
    let loss =
        format!("| validation loss, in nats | {:.4} |", project.validations("run").last().expect("one").1);
    for part in ["\n# run\n", "| optimizer steps | 20 |", &loss, "seq_len = 16", "d_model = 16"] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!card.contains("corpus"), "the corpus is its owner's: {card}");
}

/// The logits that a model has for ids, as the library reads it.
fn logits(directory: &std::path::Path, tokenizer: &dyn Tokenizer, ids: &[i32]) -> Vec<f32> {
    let mut config = RunConfig::default();
    config.data.pipeline.seq_len = 64;
    let pretrained = Pretrained::open(directory).expect("a model");
    let model = pretrained.model_without_autodiff(&config, tokenizer).expect("it is read");
    let ids = Tensor::<1, Int>::from_data(ids, &Device::flex()).unsqueeze::<2>();
    model.logits(ids).into_data().try_to_vec().expect("f32")
}

#[test]
fn transformers_reads_an_export_and_computes_the_same() {
    let Some(python) = python("transformers_reads_an_export_and_computes_the_same") else { return };
    let begin = TOKENIZER.replacen("eos", "bos = \"<|endoftext|>\"\neos", 1);
    let llama3 = "rope_scaling = { kind = \"llama3\", factor = 4.0, original_seq_len = 8192 }\n";
    for (kind, keys, tokenizer, size) in [
        ("LlamaForCausalLM", "", TOKENIZER, "5GiB"),
        ("LlamaForCausalLM", "tied = false\nkv_heads = 1\n", begin.as_str(), "8KiB"),
        ("LlamaForCausalLM", llama3, TOKENIZER, "8KiB"),
        ("Qwen2ForCausalLM", "tied = false\nqkv_bias = true\nhead_dim = 6\n", TOKENIZER, "5GiB"),
        ("Qwen3ForCausalLM", "qk_norm = true\n", begin.as_str(), "5GiB"),
    ] {
        let project = Project::new();
        project.write("run.toml", tokenizer, &format!("{MODEL}{keys}"));
        let settings = ["train.lr=1e-2", "train.steps=60", "pipeline.seq_len=64"];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        project.succeed(&[&["train", "run.toml"][..], &settings].concat());
        project.succeed(&["model", "export", "run", "-o", "model", "--shard-size", size]);
        let directory = project.path("model");
        assert_eq!(directory.join("model.safetensors").is_file(), size == "5GiB");

        let prompt = "file 1";
        let texts = [
            "",
            " two  spaces\n\tand a tab ",
            "na\u{ef}ve \u{65e5}\u{672c} \u{1f389} e\u{301}",
            "a<|endoftext|> b",
        ];
        let read =
            ["read", &directory.display().to_string(), prompt, &json!(texts).to_string()].map(str::to_owned);
        let read: Value =
            serde_json::from_str(&torch(&python, &read.each_ref().map(String::as_str))).expect("JSON");
        assert_eq!(read["said"], json!([]), "it warns of nothing");
        assert_eq!((&read["kind"], &read["end"]), (&json!(kind), &json!("<|endoftext|>")));
        assert_eq!(read["text"], project.text("run", prompt).as_str());

        let tokenizer_json = TokenizerConfig::file(directory.join("tokenizer.json"));
        let config = Config { tokenizer: tokenizer_json, ..Config::default() };
        let tokenizer_of = block_on(open_tokenizer(&config)).expect("a tokenizer");
        let begin = tokenizer.contains("bos").then(|| tokenizer_of.id("<|endoftext|>").expect("an id"));
        let ids = |text: &str| {
            let mut ids: Vec<u32> = begin.into_iter().collect();
            tokenizer_of.encode(text, &mut ids).expect("ids");
            ids
        };
        assert_eq!(read["ids"], json!(ids(prompt)));
        assert_eq!(read["texts"], json!(texts.map(ids)));

        let ids: Vec<i32> = ids(prompt).into_iter().map(|id| id as i32).collect();
        let ours = logits(&directory, &*tokenizer_of, &ids);
        let theirs: Vec<f64> = serde_json::from_value(read["logits"].clone()).expect("numbers");
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{kind}: {ours} and {theirs}");
        }
    }
}
