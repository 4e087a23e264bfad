//! Rounds of chaos: what is delivered is the same whatever kills, faults and full disks come in between.
//!
//! Each round is drawn from a number. It runs its subject once in quiet, and once in a storm: the processes are killed
//! and started again, as another number of ranks and with other settings of what runs ahead, while reads are short, the
//! disk of the caches is full, what they hold is damaged, and the server fails. The program is asked to stop too, and
//! nobody may read what it says. Then it compares every row. A fault may end a process with an error that says so, and
//! never with a panic, a hang or a wrong row. [`trouble`] says what six rounds in a row are sure to meet.
//!
//! `CONTRIBUTING.md` says how to run many rounds. The moments of the kills depend on the speed of the machine too, so a
//! failure may need its round to be repeated some times.
#![cfg(unix)]

#[path = "../support/chats.rs"]
mod chats_in_files;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/mod.rs"]
mod support;

/// The program that a round starts as the ranks of its loader.
mod child;
/// The same documents and conversations in every format.
mod corpora;
mod dice;
/// Where the corpora of a round lie.
mod home;
/// What a child writes about each batch.
mod journal;
/// The order and the settings of a round over the loader.
mod plan;
/// `millstream prepare`.
mod prepare;
mod process;
/// What one undisturbed run delivers.
mod quiet;
/// One run of the program.
mod session;
/// What fails in the system: reads, writes, removals.
mod shim;
/// A loader that is killed and started again.
mod storm;
mod story;
/// `millstream train`.
mod train;
/// What a round is sure to meet.
mod trouble;
/// What goes wrong between a start and its end.
mod weather;

use corpora::Corpora;
use dice::Dice;
use trouble::Trouble;

/// How many rounds there are, and the number that the first one is drawn from.
const ROUNDS: (&str, u64) = ("MILLSTREAM_CHAOS_ROUNDS", 6);
const SEED: (&str, u64) = ("MILLSTREAM_CHAOS_SEED", 36);
const _: () = assert!(ROUNDS.1 >= trouble::ALL, "every trouble is met by default");

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
        let dealt = Trouble::dealt(round.0).filter(|trouble| corpora.shim.is_some() || !trouble.needs_shim());
        let mut dice = Dice::dealt(round.0, dealt);
        story::note("trouble", dealt);
        let play = match (dealt, dice.below(8)) {
            (Some(Trouble::TwoSignals | Trouble::NoReader), 0..3) | (None, 0) => prepare::round,
            (Some(Trouble::TwoSignals | Trouble::NoReader | Trouble::NoRemoval), _) | (None, 1) => {
                train::round
            }
            (Some(Trouble::ReadOnly | Trouble::Moved), 0..2) => train::round,
            _ => storm::round,
        };
        let what = play(&mut dice, &corpora);
        assert_eq!(dice.awaited(), None, "the round never met it");
        println!("round {}: {what}", round.0);
    }
}
