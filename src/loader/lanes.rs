//! Whether the lanes have enough to read, and all ranks the same number of turns.

use super::own::is_own;
use crate::config::{Config, names};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::source::Source;
use crate::world::World;

/// Refuses an endless source that some lanes would never have a row of: its share would not be what its weight says.
pub(super) fn check(config: &Config, source: &Source) -> Result<()> {
    let lanes = config.pipeline.lanes.get();
    for (index, name) in names(&config.sources).iter().enumerate() {
        let splits = source.only(index).splits();
        if splits >= lanes || is_own(&config.sources[index]) {
            continue;
        }
        if config.epochs(index).is_none() {
            let problem = format!(
                "{lanes} lanes, and the files of source {name} have {splits} splits; set fewer lanes, or a smaller \
                 source.{index}.split"
            );
            return Err(Error::config("pipeline.lanes", problem));
        }
        tracing::warn!(
            source = name,
            lanes,
            splits,
            "a source has fewer splits than there are lanes: some have none"
        );
    }
    Ok(())
}

/// Refuses a cursor after which some ranks would be a turn ahead of others: one process made so many batches of a
/// token budget, each of one lane, and the world's size does not divide their number.
pub(super) fn check_turn(start: &Cursor, world: World) -> Result<()> {
    if start.turn().is_multiple_of(world.size.get() as u64) {
        return Ok(());
    }
    let problem = format!(
        "{} batches were made one after the other, which {} ranks cannot have made together; resume from a cursor \
         after a multiple of that",
        start.turn(),
        world.size
    );
    Err(Error::config("pipeline.world", problem))
}
