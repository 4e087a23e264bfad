//! Runs that train adapters.

use std::fs;

use serde_json::{Value, json};

use super::{MODEL, MODELS_TOKENIZER, Project};

#[test]
fn adapters_are_trained_resumed_and_exported() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", MODELS_TOKENIZER, "");
    let lora = "train.lora={ rank = 2, dropout = 0.1, targets = [\"q_proj\", \"down_proj\"] }";
    let settings = ["train.init=model", "train.out=second", "train.lr=1e-2", lora];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let cost = &project.print(&[&["check", "init.toml"][..], &settings].concat())["train"]["cost"];
    // A block with queries of 16 from 16 and a way down of 16 from 16.
    assert_eq!(cost["trained"], json!(f64::from(2 * 2 * (16 + 16))));
    assert!(cost["parameters"].as_f64() > cost["trained"].as_f64(), "{cost}");
    project.succeed(&[&["train", "init.toml"][..], &settings].concat());
    let all = project.losses("second");
    assert_eq!(all.len(), 20);
    fs::rename(project.path("model"), project.path("moved")).expect("renamed");
    project.succeed(&["train", "--resume", "second", "--at", "10"]);
    assert_eq!(project.losses("second"), all, "what is left out is the same");
    let said = project.fail(&["train", "--resume", "second", "--set", "train.lora.rank=3"]);
    assert!(said.contains("`train.lora.rank` was 2 and is now 3"), "{said}");

    project.succeed(&["model", "export", "second", "-o", "merged"]);
    let prompt = "file 1 line";
    assert_eq!(project.text("merged", prompt), project.text("second", prompt));
    let adapter = project.print(&["model", "export", "second", "--adapter", "-o", "adapter"]);
    let files: Vec<&str> =
        adapter["files"].as_array().expect("files").iter().flat_map(Value::as_str).collect();
    for name in ["adapter_model.safetensors", "adapter_config.json", "tokenizer.json", "README.md"] {
        assert!(files.contains(&name) && project.path("adapter").join(name).is_file(), "{name}: {files:?}");
    }
    let config = fs::read(project.path("adapter/adapter_config.json")).expect("a config");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    let found =
        [&config["r"], &config["lora_alpha"], &config["base_model_name_or_path"], &config["target_modules"]];
    assert_eq!(found, [&json!(2), &json!(32), &json!("model"), &json!(["q_proj", "down_proj"])]);

    let said = project.fail(&["model", "export", "run", "--adapter", "-o", "none"]);
    assert!(said.contains("--adapter") && said.contains("no adapters"), "{said}");
    let config = fs::read_to_string(project.path("init.toml")).expect("a config");
    fs::write(project.path("none.toml"), config + "\n[train.lora]\nrank = 2\n").expect("written");
    let said = project.fail(&["train", "none.toml"]);
    assert!(said.contains("train.lora") && said.contains("train.init"), "{said}");
}

#[test]
fn a_model_without_a_chat_template_does_not_talk() {
    let project = Project::with_model(MODEL);
    for arguments in [&["generate", "run", "--chat"][..], &["generate", "run", "--chat", "hi"]] {
        let said = project.fail(arguments);
        assert!(said.contains("has no chat template") && said.contains("chat_template.jinja"), "{said}");
    }
}

#[test]
fn a_run_keeps_what_it_renders_with_and_hands_it_on() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}\n";
    fs::write(project.path("model/chat_template.jinja"), template).expect("written");
    // Of a new model with the tokenizer of another one.
    project.write("init.toml", MODELS_TOKENIZER, MODEL);
    project.succeed(&["train", "init.toml", "--set", "train.out=second", "--set", "train.steps=1"]);
    for name in ["chat_template.jinja", "tokenizer_config.json"] {
        let [from, to] =
            ["model", "second"].map(|run| fs::read(project.path(run).join(name)).expect("a file"));
        assert_eq!(from, to, "{name}");
    }
    project.succeed(&["model", "export", "second", "-o", "again"]);
    let handed_on = fs::read_to_string(project.path("again/chat_template.jinja")).expect("a template");
    assert_eq!(handed_on, template);

    // The template may write tokens that the run puts around no document.
    let bare = ["--set", "train.out=third", "--set", "train.steps=1", "--set", "tokenizer.eos="];
    project.succeed(&[&["train", "init.toml"], &bare[..]].concat());
    project.succeed(&["model", "export", "third", "-o", "bare"]);
    let eos = |model: &str| {
        let config = fs::read(project.path(model).join("tokenizer_config.json")).expect("a file");
        serde_json::from_slice::<Value>(&config).expect("JSON")["eos_token"].clone()
    };
    assert_eq!((eos("bare"), eos("model").is_string()), (eos("model"), true));
}
