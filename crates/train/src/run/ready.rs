//! The checks before a run begins: no tokenizer is learned for a run that cannot start.

use std::path::{Path, PathBuf};

use super::devices::for_ranks;
use crate::checkpoint::folder;
use crate::config::RunConfig;
use crate::cost::Memory;
use crate::device;
use crate::file_names::{CHAT, CHECKPOINTS, CONFIG, FILES, METRICS, SAMPLES, SKIPPED, TOKENIZER};
use millstream::error::{Error, Result};
use millstream::source::covered;
use millstream::world::World;
use millstream::writable;

/// Checks that this process can train as the config says: that several ranks can share the rows, that the device and its
/// precision are there, that the model fits into memory, and that the run directory can be written to. It writes nothing.
///
/// # Errors
/// [`Error::Config`] with the key and what to do.
pub fn ready(config: &RunConfig) -> Result<()> {
    // The size of another vocabulary is known when its tokenizer is open: the trainer checks again then.
    let vocab = config.data.tokenizer.train.as_ref().map_or(1, |learned| learned.vocab_size);
    for own in for_ranks(config)? {
        batches_of_step(&own, World::planned(&own.data.pipeline)?)?;
        device::open(&own.train)?;
    }
    Memory::new(config, vocab).check(config)?;
    check_own_files(config)?;
    writable::check("train.out", &config.train.out)
}

/// Refuses sources whose paths stand for files that the run writes itself: later runs would learn from them, and a resume
/// would find other files than the run began with.
fn check_own_files(config: &RunConfig) -> Result<()> {
    let out = &config.train.out;
    let digests = folder::path(Path::new(CHECKPOINTS), 1).join(folder::DIGESTS);
    let names = [CONFIG, METRICS, SAMPLES, FILES, SKIPPED, TOKENIZER, CHAT].map(PathBuf::from);
    let names = [&names[..], &[digests]].concat();
    for (index, source) in config.data.sources.iter().enumerate() {
        let Some(own) = covered(source, out, &names) else { continue };
        let problem = format!(
            "source.{index}.paths stand for the run's own files too, such as {}; name the directories of the texts there, \
             or set train.out to a directory beside them",
            own.display()
        );
        return Err(Error::config("train.out", problem));
    }
    Ok(())
}

/// How many batches each of `ranks` ranks takes for a step.
///
/// The ranks share each batch, unless batches have a token budget. Then each batch belongs to one rank, and the ranks
/// share the batches of a step.
pub(super) fn batches_of_step(config: &RunConfig, ranks: usize) -> Result<usize> {
    let accumulate = config.train.accumulate;
    if config.data.pipeline.batch_tokens.is_none() {
        return Ok(accumulate);
    }
    if !accumulate.is_multiple_of(ranks) {
        let problem = format!(
            "must be a multiple of the world's size, {ranks}, not {accumulate}, because with pipeline.batch_tokens each \
             batch belongs to one rank; set it to {}",
            accumulate.next_multiple_of(ranks)
        );
        return Err(Error::config("train.accumulate", problem));
    }
    Ok(accumulate / ranks)
}
