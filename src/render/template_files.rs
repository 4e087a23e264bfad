//! The chat templates beside a tokenizer, and its special tokens by the names that templates know them by.
//!
//! They are found as transformers finds them. Templates in files of their own hide those of `tokenizer_config.json`; the
//! `chat_template.json` of older multimodal models counts only where there is no other template. Special tokens of
//! `special_tokens_map.json` come before those of a `tokenizer_config.json` from the time before that had all of them.

use std::path::Path;

use serde::Deserialize;

use crate::bounded;
use crate::error::{Error, Result};
use crate::render::json::{self, Json};
use crate::store::local;

const TEMPLATE: &str = "chat_template.jinja";
const MORE_TEMPLATES: &str = "additional_chat_templates";
const OLD_TEMPLATE: &str = "chat_template.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TOKENS_MAP: &str = "special_tokens_map.json";

/// What each tokenizer of transformers has a name for.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
const PAD: &str = "pad_token";

/// The key of a template in JSON.
const KEY: &str = "chat_template";
/// The name of a template that has none.
const DEFAULT: &str = "default";
/// The most bytes of one of the files. A `tokenizer_config.json` may describe each of many added tokens.
const MOST: u64 = 64 << 20;
/// The most templates beside one tokenizer.
const MOST_TEMPLATES: usize = 256;

/// What stands beside a tokenizer.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateFiles {
    /// Each template's name, such as `default` or `tool_use`, and its source.
    pub(crate) templates: Vec<(String, String)>,
    /// Each special token's name, such as `bos_token`, and its spelling.
    pub(crate) tokens: Vec<(String, String)>,
}

impl TemplateFiles {
    /// Reads what stands beside a `tokenizer.json`. A missing file is not an error.
    pub(crate) fn beside(tokenizer: &Path) -> Result<Self> {
        let tokenizer = &*local(tokenizer)?;
        let Some(directory) = tokenizer.parent() else { return Ok(Self::default()) };
        let config_path = directory.join(TOKENIZER_CONFIG);
        let config = object(&config_path)?;
        let mut templates = files(directory)?;
        if templates.is_empty() {
            templates = named(&config_path, &config)?;
        }
        if templates.is_empty() {
            let path = directory.join(OLD_TEMPLATE);
            templates = named(&path, &object(&path)?)?;
        }
        let map = object(&directory.join(TOKENS_MAP))?;
        Ok(Self { templates, tokens: tokens(&config, &map, || pad(tokenizer)) })
    }
}

/// The templates in files of their own: `chat_template.jinja`, and those of the folder, sorted by their names.
fn files(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut templates = Vec::new();
    if let Some(source) = text(&directory.join(TEMPLATE))? {
        templates.push((DEFAULT.to_owned(), source));
    }
    let folder = directory.join(MORE_TEMPLATES);
    if !folder.is_dir() {
        return Ok(templates);
    }
    let failed = |error| Error::io(&folder, "list the chat templates in", error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        // Nobody can ask for a template whose name is not UTF-8.
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".jinja")).map(str::to_owned));
        if names.len() > MOST_TEMPLATES {
            let problem =
                format!("it has more than {MOST_TEMPLATES} chat templates; keep those that are used");
            return Err(broken(&folder, problem));
        }
    }
    names.sort();
    for name in names {
        if let Some(source) = text(&folder.join(format!("{name}.jinja")))? {
            put(&mut templates, name, source);
        }
    }
    Ok(templates)
}

/// The templates under `chat_template` in the JSON of a file: one, a list of objects with a name and a template, or an
/// object of templates by name.
fn named(path: &Path, json: &Json) -> Result<Vec<(String, String)>> {
    let mut templates = Vec::new();
    match json.get(KEY) {
        None | Some(Json::Null) => {}
        Some(Json::String(source)) => templates.push((DEFAULT.to_owned(), source.clone())),
        Some(Json::List(list)) => {
            for (number, item) in list.iter().enumerate() {
                let part = |key| item.get(key).and_then(Json::as_str).map(str::to_owned);
                let (Some(name), Some(source)) = (part("name"), part("template")) else {
                    let problem =
                        format!("`{KEY}` {number} must be an object with the strings `name` and `template`");
                    return Err(broken(path, problem));
                };
                put(&mut templates, name, source);
            }
        }
        Some(Json::Object(entries)) => {
            for (name, source) in entries {
                let Some(source) = source.as_str() else {
                    return Err(broken(path, format!("`{KEY}.{name}` must be a string")));
                };
                put(&mut templates, name.to_string(), source.to_owned());
            }
        }
        Some(_) => {
            let problem =
                format!("`{KEY}` must be a string, or a list of objects with `name` and `template`");
            return Err(broken(path, problem));
        }
    }
    Ok(templates)
}

/// Of equal names the last template counts.
fn put(templates: &mut Vec<(String, String)>, name: String, source: String) {
    match templates.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = source,
        None => templates.push((name, source)),
    }
}

/// The special tokens by their names. Models can have tokens of their own: under more names that end in `_token`, and in
/// `extra_special_tokens`. `pad` gives a token for a file that does not name one.
fn tokens(config: &Json, map: &Json, pad: impl FnOnce() -> Option<String>) -> Vec<(String, String)> {
    let none = Json::Object(Vec::new());
    // A config that describes the added tokens has all that the map has.
    let map = if config.get("added_tokens_decoder").is_some() { &none } else { map };
    let is_named = |name: &str| NAMED.contains(&name);
    let is_late = |(name, value): &&(json::Key, Json)| !is_named(name) && value.as_str().is_some();
    let extra =
        [config, map].into_iter().filter_map(|json| json.get("extra_special_tokens")).flat_map(entries);
    let of = |json| entries(json).iter().filter(|entry| entry.0.ends_with("_token"));
    let early = of(config).filter(|entry| !is_late(entry));
    let all = early.chain(of(map)).chain(of(config).filter(is_late)).chain(extra);
    let mut tokens: Vec<(String, String)> = Vec::new();
    for (name, value) in all {
        // The last one counts, and a null is none.
        tokens.retain(|(known, _)| known != name);
        let spelling = value.as_str().or_else(|| value.get("content")?.as_str());
        tokens.extend(spelling.map(|spelling| (name.to_string(), spelling.to_owned())));
    }
    if config.get(PAD).or(map.get(PAD)).is_none() {
        tokens.extend(pad().map(|token| (PAD.to_owned(), token)));
    }
    tokens
}

fn entries(json: &Json) -> &[(json::Key, Json)] {
    if let Json::Object(entries) = json { entries } else { &[] }
}

/// The token that a `tokenizer.json` pads texts with. Whoever opens the tokenizer says what is wrong with it.
fn pad(tokenizer: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct File {
        padding: Option<Padding>,
    }
    #[derive(Deserialize)]
    struct Padding {
        pad_token: String,
    }
    let file: File = serde_json::from_slice(&bounded::read(tokenizer, MOST).ok()?).ok()?;
    file.padding.map(|padding| padding.pad_token)
}

/// The JSON object in a file, which is empty if there is no such file.
fn object(path: &Path) -> Result<Json> {
    let Some(text) = text(path)? else { return Ok(Json::Object(Vec::new())) };
    match Json::parse(&text) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err(broken(path, "it must be a JSON object")),
        Err(error) => Err(broken(path, format!("it is not JSON: {error}"))),
    }
}

fn text(path: &Path) -> Result<Option<String>> {
    let bytes = match bounded::read(path, MOST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, "read", error)),
    };
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|e| broken(path, format!("it is not UTF-8 at byte {}", e.utf8_error().valid_up_to())))
}

fn broken(path: &Path, problem: impl Into<String>) -> Error {
    Error::config(path.display().to_string(), problem)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use serde_json::{Value, json};

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("written");
        }

        fn read(&self) -> Result<TemplateFiles> {
            TemplateFiles::beside(&self.0.path().join("tokenizer.json"))
        }

        fn templates(&self) -> Vec<(String, String)> {
            self.read().expect("templates").templates
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn files_of_templates_hide_those_of_the_config_which_hide_the_oldest() {
        let folder = Folder::new();
        assert_eq!(folder.templates(), []);
        folder.put(OLD_TEMPLATE, r#"{"chat_template": "oldest"}"#);
        assert_eq!(folder.templates(), pairs(&[("default", "oldest")]));
        folder.put(TOKENIZER_CONFIG, r#"{"chat_template": "one"}"#);
        assert_eq!(folder.templates(), pairs(&[("default", "one")]));
        let list = r#"{"chat_template": [{"name": "b", "template": "1"}, {"name": "default", "template": "2"},
            {"name": "b", "template": "3"}]}"#;
        folder.put(TOKENIZER_CONFIG, list);
        assert_eq!(folder.templates(), pairs(&[("b", "3"), ("default", "2")]));
        folder.put("additional_chat_templates/tool_use.jinja", "tools");
        folder.put("additional_chat_templates/README.md", "none");
        assert_eq!(folder.templates(), pairs(&[("tool_use", "tools")]));
        folder.put(TEMPLATE, "file");
        assert_eq!(folder.templates(), pairs(&[("default", "file"), ("tool_use", "tools")]));
    }

    #[test]
    fn tokens_of_the_map_come_before_those_of_a_config_that_does_not_describe_all() {
        let folder = Folder::new();
        let config = r#""bos_token": {"content": "<s>"}, "eos_token": "</s>", "image_token": "<image>", "unk_token": "?",
            "model_max_length": 5, "add_bos_token": true, "extra_special_tokens": {"boi_token": "<boi>"}"#;
        folder.put(TOKENIZER_CONFIG, &format!("{{{config}}}"));
        let map = r#"{"bos_token": "<other>", "eos_token": {"content": "<end>"}, "unk_token": null, "image_token": "x"}"#;
        folder.put(TOKENS_MAP, map);
        let sorted = || {
            let mut tokens = folder.read().expect("tokens").tokens;
            tokens.sort();
            tokens
        };
        let own = [
            ("boi_token", "<boi>"),
            ("bos_token", "<other>"),
            ("eos_token", "<end>"),
            ("image_token", "<image>"),
        ];
        assert_eq!(sorted(), pairs(&own));
        folder.put("tokenizer.json", r#"{"padding": {"pad_token": "<pad>", "pad_id": 0}}"#);
        assert!(sorted().contains(&(PAD.to_owned(), "<pad>".to_owned())));
        folder.put(
            TOKENIZER_CONFIG,
            &format!(r#"{{{config}, "added_tokens_decoder": {{}}, "pad_token": null}}"#),
        );
        let own = [
            ("boi_token", "<boi>"),
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("image_token", "<image>"),
            ("unk_token", "?"),
        ];
        assert_eq!(sorted(), pairs(&own));
    }

    /// What a file says of a token: nothing, null, its spelling, or a description of it.
    fn token(nth: usize, spelling: &str) -> Option<Value> {
        match nth % 4 {
            0 => None,
            1 => Some(Value::Null),
            2 => Some(spelling.into()),
            _ => Some(json!({"__type": "AddedToken", "content": spelling, "lstrip": false, "rstrip": false,
                "normalized": false, "single_word": false, "special": true})),
        }
    }

    #[test]
    fn templates_get_the_tokens_that_they_get_from_transformers() {
        let Some(python) = std::env::var_os("TORCH_PYTHON") else {
            let how = "set TORCH_PYTHON to a Python with transformers";
            assert!(std::env::var_os("MILLSTREAM_REQUIRE_TORCH").is_none(), "{how}");
            eprintln!("skipped: templates_get_the_tokens_that_they_get_from_transformers: {how}");
            return;
        };
        let root = tempfile::tempdir().expect("a directory");
        let folders: Vec<_> = (0..256).map(|nth| root.path().join(format!("{nth:03}"))).collect();
        for (nth, folder) in folders.iter().enumerate() {
            std::fs::create_dir(folder).expect("a directory");
            let put = |name: &str, file: &Value| {
                std::fs::write(folder.join(name), file.to_string()).expect("a file")
            };
            let (mut config, mut map) = (json!({"model_max_length": 9}), json!({}));
            // Each name comes in each way with each other, over all folders.
            for (place, name) in ["bos_token", "eos_token", PAD, "image_token"].into_iter().enumerate() {
                let (own, other) = (nth + place, nth / 4 + nth / 16 * place);
                if let Some(token) = token(own, &format!("<c{place}>")) {
                    config[name] = token;
                }
                if let Some(mut token) = token(other, &format!("<m{place}>")) {
                    // The map says it without a type.
                    token.as_object_mut().map(|token| token.remove("__type"));
                    map[name] = token;
                }
            }
            if nth / 16 % 2 == 1 {
                config["extra_special_tokens"] = json!({"boi_token": "<boi>", "image_token": "<extra>"});
            }
            if nth / 32 % 2 == 1 {
                map["extra_special_tokens"] = json!({"boi_token": "<mboi>"});
            }
            if nth / 64 % 2 == 1 {
                config["added_tokens_decoder"] = json!({});
            }
            let padding = json!({"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                "pad_type_id": 0, "pad_token": "<p>"});
            let padding = if nth / 128 % 2 == 1 { padding } else { Value::Null };
            let file = json!({"version": "1.0", "truncation": null, "padding": padding, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": null, "post_processor": null, "decoder": null,
                "model": {"type": "WordLevel", "vocab": {"<p>": 0}, "unk_token": "<p>"}});
            put("tokenizer.json", &file);
            put(TOKENIZER_CONFIG, &config);
            put(TOKENS_MAP, &map);
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tokens_peer.py");
        let output = Command::new(python).arg(script).arg(root.path()).output().expect("Python runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).expect("text");
        let theirs = output.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        let theirs: Vec<BTreeMap<String, String>> = theirs.collect();
        assert_eq!(theirs.len(), folders.len());
        for (folder, theirs) in folders.iter().zip(theirs) {
            let ours = TemplateFiles::beside(&folder.join("tokenizer.json")).expect("tokens").tokens;
            assert_eq!(ours.into_iter().collect::<BTreeMap<_, _>>(), theirs, "{}", folder.display());
        }
    }

    #[test]
    fn what_is_broken_is_an_error_with_its_path() {
        let broken = [
            (TOKENIZER_CONFIG, "{", "it is not JSON"),
            (TOKENIZER_CONFIG, "[]", "it must be a JSON object"),
            (TOKENIZER_CONFIG, r#"{"chat_template": 5}"#, "must be a string"),
            (
                TOKENIZER_CONFIG,
                r#"{"chat_template": [{"name": "a"}]}"#,
                "`chat_template` 0 must be an object",
            ),
            (OLD_TEMPLATE, r#"{"chat_template": {"a": 1}}"#, "`chat_template.a` must be a string"),
            (TOKENS_MAP, "nothing", "it is not JSON"),
        ];
        for (name, text, problem) in broken {
            let folder = Folder::new();
            folder.put(name, text);
            let error = folder.read().expect_err(text).to_string();
            assert!(error.contains(problem) && error.contains(name), "{error}");
        }
    }
}
