//! What a tokenizer's own template puts around a text: before prompts, and said if documents are without it.

use std::fs;

use millstream_train::Pretrained;
use serde_json::{Value, json};

use super::{MODEL, MODELS_TOKENIZER, Project, change};
use crate::support::torch::{python, torch};

/// Two tokens that the tokenizer of such a run has.
const TOKENS: [&str; 2] = ["<|endoftext|>", "f"];

impl Project {
    /// The id that the tokenizer of `model` gives a token.
    fn id(&self, token: &str) -> Value {
        let text = fs::read(self.path("model/tokenizer.json")).expect("a tokenizer");
        let tokenizer: Value = serde_json::from_slice(&text).expect("JSON");
        let added = tokenizer["added_tokens"].as_array().expect("tokens");
        let added = added.iter().find(|added| added["content"] == token);
        added.map_or_else(|| tokenizer["model"]["vocab"][token].clone(), |added| added["id"].clone())
    }

    /// A template of such tokens, with the text at `$`.
    fn template(&self, pieces: &[&str]) -> Value {
        let piece = |name: &&str| match *name {
            "$" => json!({ "Sequence": { "id": "A", "type_id": 0 } }),
            name => json!({ "SpecialToken": { "id": name, "type_id": 0 } }),
        };
        let tokens = TOKENS.map(|token| {
            (token.to_owned(), json!({ "id": token, "ids": [self.id(token)], "tokens": [token] }))
        });
        json!({
            "type": "TemplateProcessing",
            "single": pieces.iter().map(piece).collect::<Vec<_>>(),
            "pair": [piece(&"$"), { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": serde_json::Map::from_iter(tokens),
        })
    }

    /// Gives the tokenizer of `model` a post-processor.
    fn process(&self, processor: &Value) {
        change(&self.path("model/tokenizer.json"), |file| file["post_processor"] = processor.clone());
    }
}

#[test]
fn documents_without_what_the_tokenizers_own_template_adds_are_warned_of() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    project.write("init.toml", MODELS_TOKENIZER, "");
    let [end, other] = TOKENS;
    let (end_id, other_id) = (project.id(end), project.id(other));
    let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true });
    let sequence = |step: Value| json!({ "type": "Sequence", "processors": [byte_level, step] });
    let bert = |kind: &str| {
        let (cls, sep) = (json!([other, other_id]), json!([end, end_id]));
        json!({ "type": kind, "cls": cls, "sep": sep, "trim_offsets": true, "add_prefix_space": false })
    };
    let bos = |token: &str| vec![format!("tokenizer.bos={token}")];
    let eos = |token: &str| vec![format!("tokenizer.eos={token}")];
    let both = vec![format!("tokenizer.bos={end}"), "tokenizer.special_tokens=parse".to_owned()];
    let (begun, ended) = (project.template(&[end, "$"]), project.template(&["$", end]));
    let two = project.template(&[end, other, "$"]);
    let (sets_bos, sets_eos) = ("set tokenizer.bos = ", "set tokenizer.eos = ");
    let quoted = |set: &str, token: &str| Some(format!("{set}{token:?}"));
    for (processor, settings, advice) in [
        (Value::Null, vec![], None),
        (project.template(&["$"]), vec![], None),
        (begun.clone(), vec![], quoted(sets_bos, end)),
        (begun.clone(), bos(other), quoted(sets_bos, end)),
        (begun.clone(), bos(end), None),
        (sequence(begun), vec![], quoted(sets_bos, end)),
        (ended.clone(), vec![], None),
        (ended.clone(), eos(other), quoted(sets_eos, end)),
        (ended, eos(""), quoted(sets_eos, end)),
        (bert("BertProcessing"), vec![], quoted(sets_bos, other)),
        (sequence(bert("RobertaProcessing")), bos(other), None),
        (bert("RobertaProcessing"), [bos(other), eos(other)].concat(), quoted(sets_eos, end)),
        (two.clone(), bos(end), quoted(sets_bos, end)),
        (two, both, None),
    ] {
        project.process(&processor);
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let init = ["--set", "train.init=model", "--set", "train.out=second", "--set", "train.steps=1"];
        for command in ["check", "train"] {
            let said = project.succeed(&[&[command, "init.toml"], &init[..], &settings].concat());
            let warnings: Vec<&str> = said.lines().filter(|line| line.contains("template")).collect();
            match &advice {
                None => assert_eq!(warnings, [""; 0], "{command} {processor} {settings:?}"),
                Some(advice) => {
                    assert_eq!(warnings.len(), 1, "{command} {processor} {settings:?}: {said}");
                    assert!(warnings[0].contains(advice) && warnings[0].contains("unless"), "{said}");
                }
            }
        }
        fs::remove_dir_all(project.path("second")).expect("removed");
    }
}

#[test]
fn all_that_a_template_begins_with_comes_before_a_prompt() {
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let [end, other] = TOKENS;
    let text = |prompt: &str| {
        let parse = ["--set", "tokenizer.special_tokens=parse"];
        let sampled = ["generate", "model", prompt, "--top-k", "0", "--top-p", "1", "--tokens", "64"];
        project.print(&[&sampled[..], &parse].concat())["text"].as_str().expect("a text").to_owned()
    };
    // The prompt spells out what the template has. What follows it is cut into the same ids beside it.
    let prompt = " 1 line";
    let (none, one, both) =
        (text(prompt), text(&format!("{end}{prompt}")), text(&format!("{end}{other}{prompt}")));
    assert!(none != one && one != both && none != both);
    for (pieces, expected) in
        [(&["$", end][..], &none), (&[end, "$", other], &one), (&[end, other, "$"], &both)]
    {
        project.process(&project.template(pieces));
        assert_eq!(&text(prompt), expected, "{pieces:?}");
    }
    project.process(
        &json!({ "type": "BertProcessing", "cls": [end, project.id(end)], "sep": [other, project.id(other)] }),
    );
    assert_eq!(text(prompt), one);
}

#[test]
fn transformers_puts_the_same_before_a_prompt() {
    let Some(python) = python("transformers_puts_the_same_before_a_prompt") else { return };
    let project = Project::with_model(MODEL);
    project.succeed(&["model", "export", "run", "-o", "model"]);
    let [end, other] = TOKENS;
    let (directory, prompt) = (project.path("model"), "file 1");
    let ids = || -> Vec<u32> {
        let read = torch(&python, &["read", &directory.display().to_string(), prompt, "[]"]);
        let read: Value = serde_json::from_str(&read).expect("JSON");
        serde_json::from_value(read["ids"].clone()).expect("ids")
    };
    let plain = ids();
    let cls =
        json!({ "type": "BertProcessing", "cls": [end, project.id(end)], "sep": [other, project.id(other)] });
    for processor in [
        project.template(&["$"]),
        project.template(&[end, other, "$"]),
        project.template(&[end, "$", other]),
        cls,
    ] {
        project.process(&processor);
        let begin = Pretrained::open(&directory).expect("a model").begin().expect("a tokenizer");
        let found = ids();
        assert_eq!(found[..begin.len()], begin, "{processor}");
        assert_eq!(found[begin.len()..][..plain.len()], plain, "{processor}");
    }
}
