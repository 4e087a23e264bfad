//! What a model says of its use goes on to the exports of runs that began from it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{MODEL, MODELS_TOKENIZER, Project, change};
use crate::support::torch::{python, torch};

/// What a chat is in the template that is meant, and in those that are not.
const CHAT: &str = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}";

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

impl Project {
    /// A project with a model that says all that is handed on, and runs `second` and `third`, each begun from the export of the
    /// one before: `again` and `last`. None of the directories that they began from is there any more.
    fn with_generations(settings: &[&str]) -> Self {
        let project = Self::with_model(MODEL);
        project.succeed(&["model", "export", "run", "-o", "model"]);
        let model = |name: &str| project.path("model").join(name);
        change(&model("config.json"), |config| {
            config["max_position_embeddings"] = json!(4096);
            config["pad_token_id"] = json!(7);
        });
        change(&model("generation_config.json"), |generation| {
            let end = generation["eos_token_id"].clone();
            *generation = json!({ "eos_token_id": [5, end, 6], "pad_token_id": 7 });
            generation["do_sample"] = json!(true);
            generation["temperature"] = json!(0.6);
            generation["top_p"] = json!(0.9);
        });
        change(&model("tokenizer_config.json"), |config| {
            config["model_max_length"] = json!(1000);
            config["pad_token"] = json!({ "__type": "AddedToken", "content": "e", "lstrip": false });
            config["bos_token"] = json!("e");
            config["padding_side"] = json!("left");
            config["add_bos_token"] = json!(true);
            config["tokenizer_class"] = json!("LlamaTokenizer");
        });
        let unk = json!({ "unk_token": { "content": "f", "lstrip": false } });
        fs::write(model("special_tokens_map.json"), unk.to_string()).expect("written");
        fs::write(model("chat_template.jinja"), CHAT).expect("written");
        fs::create_dir(model("additional_chat_templates")).expect("a directory");
        fs::write(model("additional_chat_templates/tools.jinja"), "tools").expect("written");
        for (init, run, export) in [("model", "second", "again"), ("again", "third", "last")] {
            project.write("init.toml", &MODELS_TOKENIZER.replace("model", init), "");
            let (from, out) = (format!("train.init={init}"), format!("train.out={run}"));
            let settings = [&[from.as_str(), out.as_str(), "train.steps=2"], settings].concat();
            let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
            project.succeed(&[&["train", "init.toml"][..], &settings].concat());
            fs::rename(project.path(init), project.path(&format!("{init}-moved"))).expect("moved");
            project.succeed(&["model", "export", run, "-o", export]);
            if export == "again" {
                fs::create_dir(project.path("kept")).expect("a directory");
                for name in ["config.json", "generation_config.json", "tokenizer_config.json"] {
                    fs::copy(project.path(export).join(name), project.path("kept").join(name))
                        .expect("copied");
                }
            }
        }
        project
    }
}

#[test]
fn an_export_keeps_what_its_origin_says_of_its_use() {
    let project = Project::with_generations(&[]);
    let last = |name: &str| project.path("last").join(name);
    for name in ["config.json", "generation_config.json", "tokenizer_config.json"] {
        assert_eq!(json_of(&last(name)), json_of(&project.path("kept").join(name)), "{name}");
    }
    let (config, generation) = (json_of(&last("config.json")), json_of(&last("generation_config.json")));
    let end = json_of(&project.path("model-moved/config.json"))["eos_token_id"].clone();
    assert_eq!(config["max_position_embeddings"], 4096);
    assert_eq!(config["pad_token_id"], 7);
    // The run's own end comes first.
    assert_eq!(config["eos_token_id"], json!([end, 5, 6]));
    assert_eq!(generation["eos_token_id"], json!([end, 5, 6]));
    for (key, value) in [("do_sample", json!(true)), ("temperature", json!(0.6)), ("top_p", json!(0.9))] {
        assert_eq!(generation[key], value);
    }
    let tokenizer = json_of(&last("tokenizer_config.json"));
    let expected = [
        ("model_max_length", json!(1000)),
        ("pad_token", json!("e")),
        ("unk_token", json!("f")),
        ("padding_side", json!("left")),
        // A chat template may write it, though the run's documents do not begin with it.
        ("bos_token", json!("e")),
        // What says how texts become ids is the run's own.
        ("tokenizer_class", json!("PreTrainedTokenizerFast")),
        ("eos_token", json!("<|endoftext|>")),
        ("add_bos_token", Value::Null),
        // Its chat templates spell special tokens out.
        ("split_special_tokens", json!(false)),
    ];
    for (key, value) in expected {
        assert_eq!(tokenizer[key], value, "{key}");
    }
    assert_eq!(fs::read_to_string(last("chat_template.jinja")).expect("a template"), CHAT);
    let tools = fs::read_to_string(last("additional_chat_templates/tools.jinja"));
    assert_eq!(tools.expect("a template"), "tools");

    // Another run in the same directory has another origin: none.
    assert!(project.path("third/init/config.json").is_file());
    fs::remove_dir_all(project.path("third/checkpoints")).expect("removed");
    project.succeed(&["train", "run.toml", "--set", "train.out=third"]);
    assert!(!project.path("third/init").exists());
    project.succeed(&["model", "export", "third", "-o", "own"]);
    let own = json_of(&project.path("own/config.json"));
    assert_eq!(own["max_position_embeddings"], 16);
    // transformers 4.57 warns of the tokenizers of older versions, if they have more than 100,000 ids.
    assert_eq!(own["transformers_version"], "5.0.0");
}

#[test]
fn rows_that_are_longer_than_its_origins_texts_are_the_longest_of_an_export() {
    let project = Project::with_generations(&["pipeline.seq_len=5000", "pipeline.batch_size=1"]);
    assert_eq!(json_of(&project.path("last/config.json"))["max_position_embeddings"], 5000);
    assert_eq!(json_of(&project.path("last/tokenizer_config.json"))["model_max_length"], 5000);
}

#[test]
fn a_damaged_file_of_an_origin_is_named() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", MODELS_TOKENIZER, "");
    project.succeed(&["train", "init.toml", "--set", "train.init=model", "--set", "train.out=second"]);
    fs::write(project.path("second/init/tokenizer_config.json"), "[1]").expect("written");
    let said = project.fail(&["model", "export", "second", "-o", "again"]);
    assert!(
        said.contains("init/tokenizer_config.json: this is not JSON, or lacks what is expected: "),
        "{said}"
    );
    assert!(!project.path("again").exists());
}

#[test]
fn transformers_finds_what_an_export_hands_on() {
    let Some(python) = python("transformers_finds_what_an_export_hands_on") else { return };
    let project = Project::with_generations(&[]);
    project.succeed(&["model", "export", "third", "-o", "half", "--dtype", "bf16"]);
    let directory = project.path("half").display().to_string();
    let about: Value = serde_json::from_str(&torch(&python, &["about", &directory])).expect("JSON");
    let end = json_of(&project.path("half/config.json"))["eos_token_id"][0].clone();
    let expected = json!({
        "chat": "[user] hi",
        "dtype": "torch.bfloat16",
        "end": [end, 5, 6],
        "longest": [4096, 1000],
        "pad": [7, "e"],
        "said": [],
        "sampling": [true, 0.6, 0.9],
        "templates": ["default", "tools"],
        "unk": "f",
    });
    assert_eq!(about, expected);
}
