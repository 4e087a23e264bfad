//! The tokenizer of token shards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Config, StoreConfig, TokenizerConfig};
use crate::error::{Error, Result};
use crate::loader::open_tokenizer;
use crate::shards::{ShardPlace, ShardSet, TOKENIZER};
use crate::store::Stores;
use crate::tasks;
use crate::tokenizer::{ByteTokenizer, Tokenizer};

/// Opens the tokenizer that made the token shards of a directory, or of several sources' directories in it.
///
/// # Errors
/// [`Error::Corpus`] if there are no whole shards; [`Error::Tokenizer`] if the tokenizer was a custom one, which
/// left no file.
pub async fn tokenizer_of(directory: &Path) -> Result<Arc<dyn Tokenizer>> {
    let place = ShardPlace::named(directory, &Arc::new(Stores::new(&StoreConfig::default())));
    let (name, tokenizer, missing) = tasks::blocking("shards", move || of(&[place])).await?;
    if name == ByteTokenizer.fingerprint() {
        return Ok(Arc::new(ByteTokenizer));
    }
    let Some(file) = tokenizer else {
        let problem =
            format!("there is no {}; name the file of the tokenizer that made the ids", missing.display());
        return Err(Error::tokenizer(name, problem));
    };
    open_tokenizer(&Config::default().with_tokenizer(TokenizerConfig::file(file))).await
}

/// The fingerprint of the tokenizer of token shards, its file, and where that would be.
fn of(places: &[ShardPlace]) -> Result<(String, Option<PathBuf>, PathBuf)> {
    let set = ShardSet::open(places)?;
    let first = &set.all()[0];
    Ok((first.manifest().tokenizer.clone(), first.tokenizer(), first.place().of(TOKENIZER)))
}
