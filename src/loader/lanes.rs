//! Decides how many lanes there are, and checks that they have enough to read and that all ranks take the same number
//! of turns.

use crate::config::{Config, OrAuto, SourceConfig, Texts, Uneven, names};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::source::{Lane, Origin, Source};
use crate::world::World;

/// If more than this share of the rows is padding, the loader warns before making them.
const MOST_PADDING: f64 = 0.1;

/// Why there are fewer lanes than there should be.
const FEW: &str = "the source comes in too few pieces that can be read by themselves";

/// With fewer lanes than this, documents hardly mix, however many rows a batch has.
const FEW_LANES: usize = 16;

/// How many texts in memory a lane should have, and how many rows. With fewer, rows would stay half empty.
const TEXTS_A_LANE: u64 = 16;
const ROWS_A_LANE: u64 = 16;

/// Of sources with fewer stored bytes together nobody expects that they fill lanes, unless the config splits them.
/// Standard input has none.
const TINY: u64 = 4 << 10;

/// How many lanes there are: if they are `auto`, as many as every source has splits for, or as the cursor has.
pub(super) fn lanes(config: &Config, source: &Source, cursor: Option<&Cursor>) -> usize {
    match (config.pipeline.lanes, cursor) {
        (OrAuto::Fixed(lanes), _) => lanes,
        (OrAuto::Auto, Some(cursor)) => cursor.lanes().max(1),
        (OrAuto::Auto, None) => most_lanes(config, source),
    }
}

/// How many of the wanted lanes the files have pieces and open files for. If that is fewer than wanted, logs it with a
/// remedy.
fn most_lanes(config: &Config, source: &Source) -> usize {
    // The program deals custom documents.
    if source.is_custom() {
        return 1;
    }
    let wanted = config.pipeline.lanes();
    // A lane for each row is enough.
    let rows = match config.pipeline.batch_tokens {
        None => config.pipeline.batch_size.clamp(FEW_LANES, wanted),
        Some(_) => wanted,
    };
    let mut most = wanted;
    for (index, name) in names(&config.sources).iter().enumerate() {
        if let Some(texts) = &config.sources[index].texts {
            most = most.min(lanes_of_texts(texts, config.pipeline.seq_len));
            continue;
        }
        let splits = pieces(config, &source.only(index)).max(1);
        let fits = match splits {
            _ if matches!(source.origin(index), Origin::Stdin) => 1,
            splits if (rows..wanted).contains(&splits) => rows,
            splits => 1 << splits.ilog2(),
        };
        let held = source.only(index).most_lanes();
        if fits.min(held) >= wanted {
            continue;
        }
        let lanes = fits.min(held);
        most = most.min(lanes);
        if lanes >= rows {
            continue;
        }
        let what = if lanes < FEW_LANES { "documents hardly mix" } else { "rows will share documents" };
        let settings = source.settings(index).unwrap_or(&config.sources[index]);
        let (why, remedy) = match held < fits {
            false => (FEW, more_pieces(source.origin(index), settings)),
            true => (
                "each piece of the source takes much memory while it is read",
                "write tables with shorter row groups or record batches, leave text uncompressed, or set \
                 pipeline.lanes if you have the memory",
            ),
        };
        let is_tiny = (1..TINY).contains(&source.bytes()) && settings.split.is_none();
        if !source.logs() || is_tiny {
            continue;
        }
        tracing::warn!(source = name, splits, lanes, wanted, "{what}: {why}; {remedy}");
    }
    most
}

/// How many lanes texts in memory can fill with full rows: a power of two.
fn lanes_of_texts(texts: &Texts, seq_len: usize) -> usize {
    // A byte is at most one id.
    let of_rows = texts.bytes() / (ROWS_A_LANE * seq_len.max(1) as u64);
    1 << (texts.count() / TEXTS_A_LANE).min(of_rows).max(1).ilog2()
}

/// How many pieces are dealt to the lanes in an epoch: splits or, if all documents are shuffled together, documents.
fn pieces(config: &Config, source: &Source) -> usize {
    match config.pipeline.shuffles_globally() {
        true => usize::try_from(source.stored_documents()).unwrap_or(usize::MAX),
        false => source.splits(),
    }
}

fn more_pieces(origin: &Origin, source: &SourceConfig) -> &'static str {
    match origin {
        Origin::Stdin => "write it to a file first",
        _ if source.texts.is_some() => "give it more texts",
        _ if source.split.is_some() => "remove source.split, or lower it",
        _ => source.kind.more_splits(),
    }
}

/// Refuses ranks that cannot share the lanes evenly, if an endless source comes in too few pieces for more lanes.
pub(super) fn check_ranks(config: &Config, source: &Source) -> Result<()> {
    let (lanes, ranks) = (config.pipeline.lanes(), World::planned_size(&config.pipeline)?.max(1));
    if lanes.is_multiple_of(ranks) || source.is_custom() {
        return Ok(());
    }
    let endless = (0..config.sources.len()).filter(|index| config.epochs(*index).is_none());
    let fewest = endless.map(|index| (pieces(config, &source.only(index)), index)).min();
    let Some((splits, index)) = fewest.filter(|(splits, _)| *splits < lanes.next_multiple_of(ranks)) else {
        return Ok(());
    };
    let problem = match splits / ranks {
        0 => format!(
            "each of {ranks} ranks needs a lane of its own, and source {} comes in {splits} piece{} that can be read by \
             itself; start fewer ranks, or {}",
            names(&config.sources)[index],
            if splits == 1 { "" } else { "s" },
            more_pieces(source.origin(index), source.settings(index).unwrap_or(&config.sources[index])),
        ),
        of_each => format!(
            "must be a multiple of the world's size, {ranks}, not {lanes}; set it to {}",
            of_each * ranks
        ),
    };
    Err(Error::config("pipeline.lanes", problem))
}

/// Refuses an endless source if some lanes would never get a row of it: its share would not match its weight. Warns if
/// a finite stream is mostly padding.
pub(super) fn check(config: &Config, source: &Source) -> Result<()> {
    let lanes = config.pipeline.lanes();
    for (index, name) in names(&config.sources).iter().enumerate() {
        let splits = pieces(config, &source.only(index));
        if splits >= lanes || source.is_custom() || config.epochs(index).is_some() {
            continue;
        }
        let world = World::planned(&config.pipeline).unwrap_or(1);
        let remedy = match splits < world {
            true => format!("make more files of it, or start fewer than {world} ranks"),
            false => "set fewer lanes, or leave pipeline.lanes out, so that there are as many as it allows"
                .to_owned(),
        };
        let problem = format!(
            "{lanes} lanes, and source {name} has only {splits} {}{}; {remedy}",
            if config.pipeline.shuffles_globally() { "document" } else { "split" },
            if splits == 1 { "" } else { "s" }
        );
        return Err(Error::config("pipeline.lanes", problem));
    }
    let is_finite = (0..config.sources.len()).all(|source| config.epochs(source).is_some());
    let is_even = source.is_custom() || config.pipeline.shuffles_globally();
    if is_finite && source.logs() && !is_even && config.pipeline.uneven == Uneven::Pad {
        let share = padding(config, source);
        if share > MOST_PADDING {
            let has_split = config.sources.iter().any(|source| source.split.is_some());
            tracing::warn!(
                lanes,
                "about {:.0}% of the rows will be padding: some lanes have much less to read than others. The last batches \
                 may have no target, and then their mean loss is NaN. Set fewer pipeline.lanes, {}or pipeline.uneven = \
                 \"wrap\" or \"stop\"",
                100.0 * share,
                if has_split { "a smaller source.split, " } else { "" }
            );
        }
    }
    Ok(())
}

/// The estimated share of rows that will be padding, from the bytes dealt to each lane, counting one epoch.
fn padding(config: &Config, source: &Source) -> f64 {
    let pipeline = &config.pipeline;
    let lanes = pipeline.lanes();
    let mut bytes = vec![0_u64; lanes];
    for index in 0..config.sources.len() {
        let deal =
            Lane { lanes, seed: config.seed, shuffle_splits: pipeline.shuffle_splits, ..Lane::default() };
        for (lane, dealt) in bytes.iter_mut().zip(source.only(index).dealt_bytes(deal)) {
            *lane += dealt;
        }
    }
    let (most, all) = (bytes.iter().max().copied().unwrap_or(0), bytes.iter().sum::<u64>());
    if most == 0 { 0.0 } else { 1.0 - all as f64 / (most * lanes as u64) as f64 }
}

/// Refuses a cursor after which some ranks would be a turn ahead of others. This happens when one process made batches
/// with a token budget, each from one lane, and the world's size does not divide their number.
pub(super) fn check_turn(start: &Cursor, world: World) -> Result<()> {
    if start.turn().is_multiple_of(world.size as u64) {
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
