//! What can be checked before a run begins: a tokenizer is never learned for a run that cannot start.

use super::cost::Memory;
use super::device;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::world::World;
use crate::writable;

/// Checks that this process can train as the config says: alone, on its device in its precision, a model that its memory
/// can hold, and with a run directory that can be written to. It writes nothing.
///
/// # Errors
/// [`Error::Config`] with the key and what to do.
pub fn ready(config: &Config) -> Result<()> {
    refuse_ranks(config)?;
    device::open(&config.train)?;
    // A vocabulary that is not learned is known once its tokenizer is open: the trainer checks again then.
    let vocab = config.tokenizer.train.as_ref().map_or(1, |learned| learned.vocab_size);
    Memory::of(config, vocab).check(config)?;
    writable::check("train.out", &config.train.out)
}

/// Refuses to run as one of several ranks: it would not see the other ranks' gradients.
fn refuse_ranks(config: &Config) -> Result<()> {
    match World::detect(&config.pipeline)? {
        World::ALONE => Ok(()),
        World { rank, size } => {
            let problem = format!(
                "this would be rank {rank} of {size}, and the trainer is one process; set pipeline.world = 1, or \
                 await the loader in your own distributed trainer"
            );
            Err(Error::config("pipeline.world", problem))
        }
    }
}
