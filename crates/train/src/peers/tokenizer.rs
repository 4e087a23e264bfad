//! One tokenizer for all ranks. If it has to be learned, the first rank learns it and gives it to the others.

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};

use super::Peers;
use millstream::config::Config;
use millstream::error::{Error, Result};
use millstream::loader::open_tokenizer;
use millstream::tokenizer::Tokenizer;

impl Peers {
    /// Opens the config's tokenizer, or learns it, as [`open_tokenizer`](millstream::loader::open_tokenizer()) does, unless
    /// `stop` is ready before. All ranks call this, and get the same.
    ///
    /// # Errors
    /// As [`open_tokenizer`](millstream::loader::open_tokenizer()); [`Error::Train`] if it was stopped.
    pub async fn open_tokenizer(
        &self,
        config: &Config,
        stop: impl Future<Output = ()>,
    ) -> Result<Arc<dyn Tokenizer>> {
        let is_shared = config.tokenizer.is_learned() && !self.is_alone();
        let mine = match is_shared && !self.is_first() {
            true => Ok(None),
            false => match select(pin!(open_tokenizer(config)), pin!(stop)).await {
                Either::Left((tokenizer, _)) => tokenizer.map(Some),
                Either::Right(_) => {
                    Err(Error::Train("interrupted before the first step: nothing is saved".to_owned()))
                }
            },
        };
        let mine = self.agree(mine)?;
        let json = mine.as_ref().filter(|_| is_shared).and_then(|tokenizer| tokenizer.tokenizer_json());
        let json = self.share(json.unwrap_or_default().to_owned())?;
        self.agree(match mine {
            Some(tokenizer) => Ok(tokenizer),
            None => learned(config, &json[0]).await,
        })
    }
}

/// The tokenizer that another rank has learned, from its `tokenizer.json`.
async fn learned(config: &Config, json: &str) -> Result<Arc<dyn Tokenizer>> {
    let failed = |e| Error::io(std::env::temp_dir(), "write the tokenizer of rank 0", e);
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    file.write_all(json.as_bytes()).map_err(failed)?;
    let tokenizer = config.tokenizer.clone().with_json(file.path().to_owned());
    open_tokenizer(&Config { tokenizer, ..config.clone() }).await
}
