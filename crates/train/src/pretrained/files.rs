//! The names of the files in a Hugging Face model directory, and the contents of its small ones.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use millstream::atomic::write_atomically;
use millstream::bounded;
use millstream::error::{Error, Result};

/// The most bytes of a small file.
const BYTES: u64 = 64 << 20;

/// The model's shape.
pub(super) const CONFIG: &str = "config.json";
/// The ids that end a text and the sampling settings, for programs that generate.
pub(super) const GENERATION: &str = "generation_config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The settings of the tokenizer.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The special tokens by their use, which older versions of the libraries write to a file.
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// The template that turns a chat into a text.
pub(super) const CHAT_TEMPLATE: &str = "chat_template.jinja";
/// The directory of further templates.
pub(super) const CHAT_TEMPLATES: &str = "additional_chat_templates";
/// The extension of chat templates.
pub(super) const TEMPLATE_EXTENSION: &str = "jinja";
/// The config of an adapter, which has no `config.json`.
pub(super) const ADAPTER: &str = "adapter_config.json";
/// The factors of an adapter.
pub(super) const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
/// All tensors.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Which of several files has which tensor.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The model card.
pub(super) const CARD: &str = "README.md";

/// The contents of a file of at most `most` bytes; `None` if it is not there.
pub(super) fn read_up_to(most: u64, path: &Path) -> Result<Option<Vec<u8>>> {
    match path.is_file() {
        true => bounded::read(path, most).map(Some).map_err(|e| Error::io(path, "read", e)),
        false => Ok(None),
    }
}

/// The contents of a small file; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    read_up_to(BYTES, path)
}

/// Puts `contents` in the place of a file of an earlier run; without any, removes that file.
pub(crate) fn replace_file(path: &Path, contents: Option<&[u8]>) -> Result<()> {
    if let Some(contents) = contents {
        return write_atomically(path, contents);
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(Error::io(path, "remove the file of an earlier run", e))
        }
        _ => Ok(()),
    }
}

/// What a small file of JSON holds; the default if it is not there.
pub(super) fn json<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    let Some(bytes) = read(path)? else { return Ok(T::default()) };
    let problem = |e| {
        Error::config(path.display().to_string(), format!("this is not JSON, or lacks what is expected: {e}"))
    };
    serde_json::from_slice(&bytes).map_err(problem)
}
