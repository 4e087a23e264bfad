//! Masks 15% of all tokens at random: a custom stage after packing, for augmentation.
//!
//!     cargo run --release --example mask_tokens
//!
//! Randomness comes from a key and not from a generator: the seed, the epoch, and each id's place in its document. So a
//! resumed run, any number of workers and every world of ranks mask the same ids, and each epoch masks different ones.
//! The program also serves `millstream verify my.toml --program target/release/examples/mask_tokens`, which checks
//! this.

use millstream::document::IdPlace;
use millstream::loader::LoaderBuilder;
use millstream::prelude::*;
use millstream::verify;

/// A byte that does not occur in text. If the vocabulary has a mask token, use it instead: `tokenizer.id("[MASK]")`.
const MASK: u32 = 0;

/// Masks 15% of the ids of each row.
fn loader(config: &Config) -> LoaderBuilder {
    let seed = config.seed;
    Loader::builder(config).row_stage("mask 15%", move |rows, _start| {
        let mask = move |epoch, place, id| if draw(seed, epoch, place) < 0.15 { MASK } else { id };
        rows.map_ok(move |row| {
            let epoch = row.cursor.epoch;
            row.map(|row| row.map_ids(|place, id| mask(epoch, place, id)))
        })
        .boxed()
    })
}

/// A number from 0 to 1 for an id, by SplitMix64's mixing function (Steele, Lea and Flood, 2014).
fn draw(seed: u64, epoch: u64, place: IdPlace) -> f64 {
    let key = [seed, epoch, u64::from(place.position.file), place.position.byte, place.offset as u64];
    let mixed = key.into_iter().fold(0_u64, |state, word| {
        let z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

async fn read(builder: LoaderBuilder, batches: usize) -> Result<Vec<Batch>> {
    builder.open().await?.take(batches).try_collect().await
}

#[tokio::main]
async fn main() -> Result<()> {
    if verify::serve(loader).await? {
        return Ok(());
    }
    let mut config = Config::default().with_source(SourceConfig::text("src/**/*.rs"));
    config.tokenizer = TokenizerConfig::bytes();
    config.pipeline.seq_len = 256;

    let batches = read(loader(&config), 20).await?;
    let ids = || batches.iter().flat_map(Batch::ids);
    let share = ids().filter(|id| **id == MASK).count() as f64 / ids().count() as f64;
    println!("{:.0}% of {} tokens are masked", 100.0 * share, ids().count());

    let resumed = read(loader(&config).with_cursor(batches[9].cursor().clone()), 10).await?;
    let same = resumed.iter().zip(&batches[10..]).all(|(again, once)| again.ids() == once.ids());
    println!("resumed after batch 10: {}", if same { "the same masks" } else { "other masks" });
    Ok(())
}
