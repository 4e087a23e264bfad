//! The settings that finished rows fix, and whether the rows fit the loader that reads them.

use std::fmt::Display;

use super::custom::CustomStages;
use crate::config::{Config, PackRule, Packing, PipelineConfig};
use crate::error::{Error, Result};
use crate::rows::RowRules;
use crate::source::Source;
use crate::tokenizer::{Tokenizer, difference};

/// Sets the settings that finished rows fix, where the config leaves them at their defaults.
///
/// # Errors
/// [`Error::Config`] if the config contradicts the rows, or if the rows of several sources follow different rules.
pub(super) fn adopt(config: &mut Config, source: &Source) -> Result<()> {
    let Some((first, rows)) = source.rows().next() else { return Ok(()) };
    let (rules, place) = (rows.rules(), rows.path().display().to_string());
    for (_, other) in source.rows() {
        if let Some((key, was, is)) = rules.difference(other.rules()) {
            let problem = format!(
                "{was} made the rows of {place}, and {is} those of {}; prepare them by the same rules",
                other.path().display()
            );
            return Err(Error::config(key, problem));
        }
    }
    let default = PipelineConfig::default();
    let Config { tokenizer, pipeline, .. } = config;
    let of = format!("the rows of source {first} ({place})");
    let RowRules { bos, eos, seq_len, ahead, pack, max_segments, pack_window, holdout, .. } = rules;
    take("tokenizer.bos", &mut tokenizer.bos, &None, bos, &of, text)?;
    take("tokenizer.eos", &mut tokenizer.eos, &None, eos, &of, text)?;
    take("pipeline.seq_len", &mut pipeline.seq_len, &default.seq_len, seq_len, &of, shown)?;
    take("pipeline.ahead", &mut pipeline.ahead, &default.ahead, ahead, &of, shown)?;
    take("pipeline.pack", &mut pipeline.pack, &default.pack, pack, &of, shown)?;
    let number = |number: &Option<usize>| number.map_or("none".to_owned(), |number| number.to_string());
    take("pipeline.max_segments", &mut pipeline.max_segments, &None, max_segments, &of, number)?;
    if *pack == PackRule::BestFit {
        let window = pack_window.unwrap_or(Packing::WINDOW);
        take("pipeline.pack_window", &mut pipeline.pack_window, &default.pack_window, &window, &of, shown)?;
    }
    take("pipeline.holdout", &mut pipeline.holdout, &default.holdout, holdout, &of, shown)?;
    config.validate()
}

/// Sets a key that is at its default to what was `stored`.
fn take<T: Clone + PartialEq>(
    key: &str,
    value: &mut T,
    default: &T,
    stored: &T,
    of: &str,
    shown: impl Fn(&T) -> String,
) -> Result<()> {
    if value != stored && value != default {
        let problem = format!(
            "{} in the config, and {} in {of}, which were made with it; remove the key, or prepare the rows again",
            shown(value),
            shown(stored)
        );
        return Err(Error::config(key, problem));
    }
    value.clone_from(stored);
    Ok(())
}

fn shown(value: &impl Display) -> String {
    value.to_string()
}

fn text(value: &Option<String>) -> String {
    value.as_ref().map_or("none".to_owned(), |value| format!("{value:?}"))
}

/// Refuses rows that another tokenizer made, and stages before packing.
pub(super) fn check(source: &Source, tokenizer: &dyn Tokenizer, stages: &CustomStages) -> Result<()> {
    for (index, rows) in source.rows() {
        if let Some(made) = difference(&rows.rules().tokenizer, &tokenizer.fingerprint()) {
            let problem =
                format!("the rows of {} were {made}, or prepare the rows again", rows.path().display());
            return Err(Error::config(format!("source.{index}.paths"), problem));
        }
        if !stages.documents.is_empty() || !stages.tokens.is_empty() {
            let problem = "rows are packed already, and the program puts stages before packing; name the text or token \
                           shards instead, or put the stages between packing and batches";
            return Err(Error::config(format!("source.{index}.kind"), problem));
        }
    }
    Ok(())
}
