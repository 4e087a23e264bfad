//! The model that a run began from: what its export keeps of it.
//!
//! The run copies the model's small files: its directory may be gone when the run is exported.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::description::{Description, generation_ends};
use super::files::{
    CHAT_TEMPLATE, CHAT_TEMPLATES, CONFIG, GENERATION, SPECIAL_TOKENS, TEMPLATE_EXTENSION, TOKENIZER_CONFIG,
    json, read, replace_file,
};
use millstream::atomic::write_atomically;
use millstream::error::{Error, Result};

/// The keys of a tokenizer's config that an export keeps. The others decide ids, and the run sets them.
const TOKENIZER_KEYS: [&str; 13] = [
    "bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token",
    "additional_special_tokens", "extra_special_tokens", "chat_template", "padding_side", "truncation_side",
    "model_max_length",
];

/// How a model is used: its longest text, the ids that end one, its sampling settings and its chat templates.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The most ids that it was made to see at once.
    pub(super) positions: usize,
    /// The ids that end a text.
    pub(super) ends: Vec<u32>,
    pub(super) config: Map<String, Value>,
    /// `generation_config.json`; empty if it has none.
    pub(super) generation: Map<String, Value>,
    /// The kept keys of `tokenizer_config.json`.
    pub(super) tokenizer: Map<String, Value>,
    /// Its files of chat templates, by their paths.
    pub(super) templates: Vec<(PathBuf, Vec<u8>)>,
}

impl Origin {
    /// Reads a model directory, or the files of one that a run has [copied](crate::RunDirectory::init). `None` if there is
    /// no `config.json`.
    ///
    /// # Errors
    /// [`Error::Config`] if one of them is damaged, [`Error::Io`] if it cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(CONFIG);
        let config: Map<String, Value> = json(&path)?;
        if config.is_empty() {
            return Ok(None);
        }
        let description = Description::from_json(&path, config.clone().into())?;
        let mut tokenizer: Map<String, Value> = json(&directory.join(SPECIAL_TOKENS))?;
        tokenizer.extend(json::<Map<_, _>>(&directory.join(TOKENIZER_CONFIG))?);
        tokenizer.retain(|key, value| TOKENIZER_KEYS.contains(&key.as_str()) && !value.is_null());
        tokenizer.values_mut().for_each(spell);
        let generation = directory.join(GENERATION);
        Ok(Some(Self {
            positions: description.positions(),
            ends: generation_ends(&generation)?.unwrap_or(description.ends),
            config,
            generation: json(&generation)?,
            tokenizer,
            templates: templates(directory)?,
        }))
    }

    /// Whether one of its chat templates is this.
    pub(super) fn has_template(&self, template: &str) -> bool {
        let key = self.tokenizer.get("chat_template");
        let is_named = |named: &Value| named["template"] == template;
        self.templates.iter().any(|(_, text)| text == template.as_bytes())
            || key.is_some_and(|key| {
                key == template || key.as_array().is_some_and(|all| all.iter().any(is_named))
            })
    }
}

/// Replaces `directory` by a copy of the small files of `model`, or removes it if there is no model.
pub(crate) fn copy_origin(model: Option<&Path>, directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(Error::io(directory, "remove what an earlier run began from", e));
        }
        _ => {}
    }
    let Some(model) = model else { return Ok(()) };
    let model = &*millstream::local(model)?;
    fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create the directory", e))?;
    for name in [CONFIG, GENERATION, TOKENIZER_CONFIG, SPECIAL_TOKENS] {
        replace_file(&directory.join(name), read(&model.join(name))?.as_deref())?;
    }
    write_files(templates(model)?, directory)
}

/// Replaces the files in `directory` that say how a tokenizer renders conversations by those beside `tokenizer`: there, a
/// copy of the tokenizer makes the same texts of them. Without `is_needed`, only if a chat template is among them.
pub(crate) fn copy_chat_files(tokenizer: Option<&Path>, is_needed: bool, directory: &Path) -> Result<()> {
    let tokenizer = tokenizer.map(millstream::local).transpose()?;
    let beside = tokenizer.as_deref().and_then(Path::parent);
    let found = beside.map_or(Ok(Vec::new()), templates)?;
    let config: Map<String, Value> =
        beside.map_or(Ok(Map::new()), |beside| json(&beside.join(TOKENIZER_CONFIG)))?;
    let is_needed = is_needed || !found.is_empty() || config.contains_key("chat_template");
    for name in [TOKENIZER_CONFIG, SPECIAL_TOKENS, CHAT_TEMPLATE] {
        let bytes = match beside.filter(|_| is_needed) {
            Some(beside) => read(&beside.join(name))?,
            None => None,
        };
        replace_file(&directory.join(name), bytes.as_deref())?;
    }
    write_files(found, directory)
}

/// Writes files to `directory`, by their paths in it.
fn write_files(files: Vec<(PathBuf, Vec<u8>)>, directory: &Path) -> Result<()> {
    for (path, bytes) in files {
        let path = directory.join(path);
        let within = path.parent().unwrap_or(directory);
        fs::create_dir_all(within).map_err(|e| Error::io(within, "create the directory", e))?;
        write_atomically(&path, &bytes)?;
    }
    Ok(())
}

/// The files of chat templates in a model directory, by their paths in it.
fn templates(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let others = directory.join(CHAT_TEMPLATES);
    let mut paths = vec![PathBuf::from(CHAT_TEMPLATE)];
    if others.is_dir() {
        let failed = |e| Error::io(&others, "read the directory", e);
        for entry in fs::read_dir(&others).map_err(failed)? {
            paths.push(Path::new(CHAT_TEMPLATES).join(entry.map_err(failed)?.file_name()));
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == TEMPLATE_EXTENSION));
    paths.sort_unstable();
    let mut found = Vec::new();
    for path in paths {
        if let Some(bytes) = read(&directory.join(&path))? {
            found.push((path, bytes));
        }
    }
    Ok(found)
}

/// Replaces token objects by their texts. `tokenizer.json` has their other settings.
fn spell(value: &mut Value) {
    if let Some(content) = value.get("content").filter(|content| content.is_string()) {
        *value = content.clone();
        return;
    }
    match value {
        Value::Array(values) => values.iter_mut().for_each(spell),
        Value::Object(values) => values.values_mut().for_each(spell),
        _ => {}
    }
}
