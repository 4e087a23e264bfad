//! The checks before a run begins: no tokenizer is learned for a run that cannot start.

use std::path::{Path, PathBuf};

use super::devices::for_ranks;
use crate::checkpoint::folder;
use crate::config::RunConfig;
use crate::cost::Memory;
use crate::device;
use crate::file_names::{
    CHAT, CHECKPOINTS, CONFIG, FILES, INIT, METRICS, SAMPLES, SETTINGS, SKIPPED, TOKENIZER, UNUSED,
};
use millstream::error::{Error, Result};
use millstream::source::covered;
use millstream::trail;
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
    let own = [CHAT, CONFIG, FILES, METRICS, SAMPLES, SETTINGS, SKIPPED, TOKENIZER, UNUSED, trail::FILE];
    let mut names = own.map(PathBuf::from).to_vec();
    names.push(folder::path(Path::new(CHECKPOINTS), 1).join(folder::DIGESTS));
    names.push(Path::new(INIT).join("config.json"));
    covered(&config.data.sources, out, &names)
        .map_or(Ok(()), |problem| Err(Error::config("train.out", problem)))
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
