//! The tokenizer of token shards.

use std::path::Path;
use std::sync::Arc;

use crate::config::{Config, TokenizerConfig};
use crate::error::{Error, Result};
use crate::loader::open_tokenizer;
use crate::shards::{ShardSet, TOKENIZER};
use crate::tasks;
use crate::tokenizer::{ByteTokenizer, Tokenizer};

/// Opens the tokenizer that made the shards of a directory, or of those of several sources in it.
///
/// # Errors
/// [`Error::Corpus`] if there are no whole shards; [`Error::Tokenizer`] if the tokenizer was a custom one,
/// which left no file.
pub async fn tokenizer_of(directory: &Path) -> Result<Arc<dyn Tokenizer>> {
    let path = directory.to_owned();
    let (name, file) = tasks::blocking("shards", move || {
        let set = ShardSet::open(&[path])?;
        let first = &set.all()[0];
        Ok((first.manifest().tokenizer.clone(), first.directory().join(TOKENIZER)))
    })
    .await?;
    if name == ByteTokenizer.fingerprint() {
        return Ok(Arc::new(ByteTokenizer));
    }
    if !file.exists() {
        let problem =
            format!("there is no {}; name the file of the tokenizer that made the shards", file.display());
        return Err(Error::tokenizer(name, problem));
    }
    open_tokenizer(&Config::default().with_tokenizer(TokenizerConfig::file(file))).await
}
