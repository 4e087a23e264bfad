//! Checks that token shards fit the loader that reads them.

use crate::error::{Error, Result};
use crate::source::Source;
use crate::tokenizer::Tokenizer;

/// Refuses shards that another tokenizer made, and stages that need text.
pub(super) fn check(source: &Source, tokenizer: &dyn Tokenizer, has_stages: bool) -> Result<()> {
    for (index, shards) in source.shards() {
        let (made, now) = (&shards.manifest().tokenizer, tokenizer.fingerprint());
        if *made != now {
            let directory = shards.directory().display();
            let problem = format!(
                "{directory} was made by the tokenizer {made}, and the config's is {now}; leave [tokenizer] as it was, \
                 or leave `path` and `train` out, or prepare the shards again"
            );
            return Err(Error::config(format!("source.{index}.paths"), problem));
        }
        if has_stages {
            let problem = "token shards have no text, and the program puts stages before the tokenizer; name the text \
                           instead, or prepare what the stages make of it";
            return Err(Error::config(format!("source.{index}.kind"), problem));
        }
    }
    Ok(())
}
