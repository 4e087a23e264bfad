//! The chat templates beside a tokenizer, and its special tokens by the names that templates know them by.
//!
//! They are found as transformers finds them. Templates in files of their own hide those of `tokenizer_config.json`; the
//! `chat_template.json` of older multimodal models counts only where there is no other template.

use std::path::Path;

use crate::bounded;
use crate::error::{Error, Result};
use crate::render::json::Json;

const TEMPLATE: &str = "chat_template.jinja";
const MORE_TEMPLATES: &str = "additional_chat_templates";
const OLD_TEMPLATE: &str = "chat_template.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TOKENS_MAP: &str = "special_tokens_map.json";

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
        let mut tokens = Vec::new();
        add_tokens(&mut tokens, &config);
        add_tokens(&mut tokens, &object(&directory.join(TOKENS_MAP))?);
        Ok(Self { templates, tokens })
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
                put(&mut templates, name.clone(), source.to_owned());
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

/// Adds the special tokens of a file that are not known yet. Models can have tokens of their own: under more names that
/// end in `_token`, and in `extra_special_tokens`.
fn add_tokens(tokens: &mut Vec<(String, String)>, json: &Json) {
    let Json::Object(entries) = json else { return };
    let own = entries.iter().filter(|(name, _)| name.ends_with("_token"));
    let extra = match json.get("extra_special_tokens") {
        Some(Json::Object(extra)) => extra.as_slice(),
        _ => &[],
    };
    for (name, value) in own.chain(extra) {
        let spelling = value.as_str().or_else(|| value.get("content")?.as_str());
        if let Some(spelling) = spelling
            && tokens.iter().all(|(known, _)| known != name)
        {
            tokens.push((name.clone(), spelling.to_owned()));
        }
    }
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

/// The text of a file, if there is one.
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
    fn tokens_of_the_config_come_before_those_of_the_map() {
        let folder = Folder::new();
        let config = r#"{"bos_token": {"content": "<s>"}, "eos_token": null, "image_token": "<image>",
            "model_max_length": 5, "add_bos_token": true, "extra_special_tokens": {"boi_token": "<boi>"}}"#;
        folder.put(TOKENIZER_CONFIG, config);
        folder.put(TOKENS_MAP, r#"{"bos_token": "<other>", "eos_token": {"content": "</s>"}}"#);
        let expected =
            [("bos_token", "<s>"), ("image_token", "<image>"), ("boi_token", "<boi>"), ("eos_token", "</s>")];
        assert_eq!(folder.read().expect("tokens").tokens, pairs(&expected));
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
