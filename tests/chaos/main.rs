//! Rounds of chaos: what is delivered is the same whatever kills, faults and full disks come in between.
//!
//! Each round is drawn from a number. It runs its subject once in quiet, and once in a storm: the processes are killed
//! and started again, as another number of ranks and with other settings of what runs ahead, while reads are short, the
//! disk of the caches is full, what they hold is damaged, and the server fails. Then it compares every row. A fault may
//! end a process with an error that says so, and never with a panic, a hang or a wrong row.
//!
//! `CONTRIBUTING.md` says how to run many rounds. The moments of the kills depend on the speed of the machine too, so a
//! failure may need its round to be repeated some times.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

/// The program that a round starts as the ranks of its loader.
mod child;
/// The same documents in every format.
mod corpora;
mod dice;
/// What a child writes about each batch.
mod journal;
/// The order and the settings of a round over the loader.
mod plan;
/// `millstream prepare`.
mod prepare;
mod process;
/// What one undisturbed run delivers.
mod quiet;
/// Short reads and full disks.
mod shim;
/// A loader that is killed and started again.
mod storm;
mod story;
/// `millstream train`.
mod train;
/// What goes wrong between a start and its end.
mod weather;

use corpora::Corpora;
use dice::Dice;

/// How many rounds there are, and the number that the first one is drawn from.
const ROUNDS: (&str, u64) = ("MILLSTREAM_CHAOS_ROUNDS", 6);
const SEED: (&str, u64) = ("MILLSTREAM_CHAOS_SEED", 36);

/// Says what happened in a round and how it is repeated, if it panics.
struct Round(u64);

impl Drop for Round {
    fn drop(&mut self) {
        let story = story::take();
        if std::thread::panicking() {
            story.iter().for_each(|line| eprintln!("{line}"));
            let (rounds, seed) = (ROUNDS.0, SEED.0);
            eprintln!(
                "repeat the round with: {seed}={} {rounds}=1 cargo test --release --test chaos",
                self.0
            );
        }
    }
}

#[test]
fn rounds() {
    let [rounds, first] = [ROUNDS, SEED].map(|(name, usual)| match std::env::var(name) {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("{name}={number} is not a number")),
        Err(_) => usual,
    });
    let corpora = Corpora::new();
    for number in 0..rounds {
        let round = Round(first.wrapping_add(number));
        let mut dice = Dice::new(round.0);
        let what = match dice.below(8) {
            0 => prepare::round(&mut dice, &corpora),
            1 => train::round(&mut dice, &corpora),
            _ => storm::round(&mut dice, &corpora),
        };
        println!("round {}: {what}", round.0);
    }
}
