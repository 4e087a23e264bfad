//! Settings beside a model that has a shape and a tokenizer of its own: they hold, or are refused.

use std::fs;

use serde_json::json;

use super::super::{self as runs, Project};
use super::{MODEL, MODELS_TOKENIZER, change};

#[test]
fn what_is_written_of_a_models_shape_must_be_so_and_the_rest_is_taken_from_it() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let from = |config: &str, settings: &[&str]| {
        let set = ["train.init=model", "train.out=second"].into_iter().chain(settings.iter().copied());
        let set: Vec<&str> = set.flat_map(|setting| ["--set", setting]).collect();
        let output = project.program(&[&["train", config][..], &set].concat()).output().expect("it runs");
        (output.status.code(), runs::said(&output))
    };
    let refused = |config: &str, settings: &[&str]| {
        let (code, said) = from(config, settings);
        let checked = ["check", config, "--set", "train.init=model"].map(str::to_owned).into_iter();
        let settings = settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]);
        let checked: Vec<String> = checked.chain(settings).collect();
        let checked = project.fail(&checked.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(code == Some(1) && !project.path("second").exists(), "{said}");
        assert_eq!(checked.lines().last(), said.lines().last());
        said
    };
    project.write("init.toml", MODELS_TOKENIZER, "");
    // 4 is the default of layers.
    for layers in [4, 7] {
        project.write(
            "layers.toml",
            MODELS_TOKENIZER,
            &format!("[model]\nd_model = 16\nlayers = {layers}\n"),
        );
        let line = fs::read_to_string(project.path("layers.toml")).expect("a config");
        let line = 1 + line.lines().position(|line| line.starts_with("layers")).expect("a line");
        let said = refused("layers.toml", &[]);
        let expected =
            format!("layers.toml:{line}:1: model.layers: it is {layers} here and 1 in model; leave it out");
        assert!(said.contains(&expected), "{said}");
        let setting = format!("model.layers={layers}");
        let said = refused("init.toml", &[&setting]);
        assert!(
            said.contains(&format!("--set {setting}: model.layers: it is {layers} here and 1 in model")),
            "{said}"
        );
    }
    // Whatever else is not written is not to blame.
    let said = refused("init.toml", &["model.d_model=32"]);
    assert!(said.contains("--set model.d_model=32: model.d_model: it is 32 here and 16 in model"), "{said}");
    project.write("same.toml", MODELS_TOKENIZER, MODEL);
    let said = refused("same.toml", &["model.heads=3"]);
    assert!(said.contains("--set model.heads=3: model.heads: it is 3 here and 2 in model"), "{said}");
    let said = refused("same.toml", &["model.layers=0"]);
    assert!(said.contains("--set model.layers=0: model.layers: it is 0 here and 1 in model"), "{said}");
    // The same with a part of the shape: what is left out is the model's, also when the run goes on.
    project.write("part.toml", MODELS_TOKENIZER, "[model]\nd_ff = 16\n");
    project.succeed(&["digest", "part.toml", "-n", "1", "--set", "train.init=model"]);
    let (code, said) = from("part.toml", &["model.layers=", "train.steps=10"]);
    assert_eq!(code, Some(0), "{said}");
    let on = ["train", "part.toml", "--resume", "second", "--set", "train.init=model", "--set"];
    project.succeed(&[&on[..], &["train.steps=12"]].concat());
    let said = project.fail(&[&on[..], &["model.layers=4"]].concat());
    assert!(said.contains("model.layers"), "{said}");
    let said = project.fail(&[&on[..], &["model.heads=0"]].concat());
    assert!(said.contains("--set model.heads=0: `model.heads` must be at least 1, not 0"), "{said}");
}

#[test]
fn a_prompt_is_read_as_the_models_directory_says() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let path = project.path("model/tokenizer_config.json");
    let text = |setting: &[&str]| {
        let prompt = "file 1<|endoftext|>file 1 line";
        let generate = ["generate", "model", prompt, "--top-k", "0", "--top-p", "1", "--tokens", "64"];
        project.print(&[&generate[..], setting].concat())["text"].as_str().expect("a text").to_owned()
    };
    let as_special = text(&["--set", "tokenizer.special_tokens=parse"]);
    let as_text = text(&["--set", "tokenizer.special_tokens=text"]);
    assert_ne!(as_special, as_text);
    for (split, expected) in
        [(json!(true), &as_text), (json!(false), &as_special), (json!(null), &as_special)]
    {
        change(&path, |config| config["split_special_tokens"] = split);
        assert_eq!(&text(&[]), expected);
    }
    fs::remove_file(&path).expect("removed");
    assert_eq!(text(&[]), as_special);
}

#[test]
fn code_that_comes_with_a_model_is_said_not_to_run() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    assert!(!project.succeed(&["generate", "model", "file"]).contains("auto_map"));
    change(&project.path("model/config.json"), |config| {
        config["auto_map"] = json!({ "AutoModelForCausalLM": "modeling_other.OtherForCausalLM" });
    });
    let said = project.succeed(&["generate", "model", "file"]);
    assert!(said.contains("auto_map") && said.contains("config.json"), "{said}");
}

#[test]
fn a_tokenizer_that_a_setting_changes_is_what_is_to_blame() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", "", "");
    let said =
        project.fail(&["check", "init.toml", "--set", "train.init=model", "--set", "tokenizer.kind=bytes"]);
    assert!(
        said.contains("--set tokenizer.kind=bytes: tokenizer.path: set it to \"model/tokenizer.json\""),
        "{said}"
    );
}

#[test]
fn settings_for_a_models_directory_hold_or_are_refused() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let generate = ["generate", "model", "file", "--temperature", "0", "--tokens", "40"];
    let text = |setting: &str| {
        let said = project.print(&[&generate[..], &["--set", setting]].concat());
        said["text"].as_str().expect("a text").to_owned()
    };
    let usual = project.print(&generate)["text"].as_str().expect("a text").to_owned();
    assert_eq!(text("pipeline.seq_len=16"), usual, "that is what it was made for");
    let said = project.succeed(&[&generate[..], &["--set", "pipeline.seq_len=64"]].concat());
    assert!(said.contains("rows are longer than the texts that the model was made for"), "{said}");
    fs::copy(project.path("model/tokenizer.json"), project.path("same.json")).expect("copied");
    for setting in ["tokenizer.path=same.json", "tokenizer.kind=subwords", "model.layers=1"] {
        assert_eq!(text(setting), usual, "{setting}");
    }
    change(&project.path("same.json"), |tokenizer| {
        let vocab = tokenizer["model"]["vocab"].as_object_mut().expect("a vocabulary");
        let (one, other) = (vocab["a"].clone(), vocab["b"].clone());
        vocab["a"] = other;
        vocab["b"] = one;
    });
    for (setting, why) in [
        ("tokenizer.path=same.json", "tokenizer.path: set it to \"model/tokenizer.json\""),
        ("tokenizer.kind=bytes", "tokenizer.path: set it to \"model/tokenizer.json\""),
        ("tokenizer.train.vocab_size=300", "tokenizer.train: the model has a tokenizer"),
        ("model.layers=4", "model.layers: it is 4 here and 1 in model; leave it out"),
        ("pipeline.seq_len=0", "must be"),
    ] {
        let output =
            project.program(&[&generate[..], &["--set", setting]].concat()).output().expect("it runs");
        let said = runs::said(&output);
        assert!(!output.status.success(), "{setting}");
        assert!(said.contains(&format!("--set {setting}: ")) && said.contains(why), "{setting}: {said}");
    }
}

#[test]
fn a_run_that_keeps_its_tokenizer_takes_no_other() {
    let project = Project::with_model(MODEL);
    fs::copy(project.path("run/tokenizer.json"), project.path("other.json")).expect("copied");
    let why = "the run keeps its tokenizer, and the ids of another one would mean other text; leave it out";
    // A learned tokenizer goes when another is named.
    let other = ["tokenizer.train=", "tokenizer.path=other.json"];
    for (settings, blamed) in
        [(&other[..], other[1]), (&["tokenizer.train.vocab_size=301"], "tokenizer.train.vocab_size=301")]
    {
        let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        for command in [
            &["generate", "run", "file"][..],
            &["train", "--resume", "run"],
            &["model", "export", "run", "-o", "x"],
        ] {
            let said = project.fail(&[command, &set].concat());
            assert!(said.contains(why), "{said}");
            assert!(command[0] == "model" || said.contains(&format!("--set {blamed}: tokenizer.")), "{said}");
        }
    }
    project.succeed(&["generate", "run", "file", "--set", "tokenizer.train.vocab_size=300"]);
}
