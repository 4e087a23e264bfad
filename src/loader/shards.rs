//! Checks that token shards fit the loader that reads them, and that they are there where they are needed.

use crate::config::{Config, names};
use crate::error::{Error, Result};
use crate::source::{Origin, Source};
use crate::tokenizer::{Tokenizer, difference};

/// Refuses shards that another tokenizer made or whose conversations were fitted into other rows, and stages that need
/// text.
pub(super) fn check(
    config: &Config,
    source: &Source,
    tokenizer: &dyn Tokenizer,
    has_stages: bool,
) -> Result<()> {
    let row_ids = config.pipeline.row_ids();
    for (index, shards) in source.shards() {
        let manifest = shards.manifest();
        if manifest.source.task.reads_records() && manifest.row_ids != row_ids {
            let are = |ids: Option<usize>| match ids {
                Some(ids) => format!("fit into rows of {ids} ids"),
                None => "are whole, however long".to_owned(),
            };
            let problem = format!(
                "the conversations of {} {}, and those of this pipeline {}; set pipeline.pack, seq_len and ahead as they \
                 were, or prepare again",
                shards.place().path().display(),
                are(manifest.row_ids),
                are(row_ids)
            );
            return Err(Error::config(format!("source.{index}.paths"), problem));
        }
        if let Some(made) = difference(&manifest.tokenizer, &tokenizer.fingerprint()) {
            let directory = shards.place().path().display();
            let problem = format!("{directory} was {made}, or prepare again");
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

/// Refuses to shuffle all documents of a source that is not token shards.
pub(super) fn check_shuffle(config: &Config, source: &Source) -> Result<()> {
    if !config.pipeline.shuffles_globally() {
        return Ok(());
    }
    for (index, name) in names(&config.sources).iter().enumerate() {
        let what = match source.origin(index) {
            Origin::Shards(_) => continue,
            Origin::Program => "the program gives its documents",
            _ if config.sources[index].texts.is_some() => "its texts are in memory",
            Origin::Files | Origin::Stdin => "it is text",
        };
        let problem = format!(
            "\"global\" shuffles documents whose tokens are stored, and source {name} has none: {what}; prepare token \
             shards and name them, with kind = \"shards\", or leave the key out"
        );
        return Err(Error::config("pipeline.shuffle", problem));
    }
    Ok(())
}
