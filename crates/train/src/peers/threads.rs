//! Communicates with ranks that are threads of this process, by an all-gather: all get everything, once all have
//! shared.
//!
//! Sums are added as over MPI: each rank adds its part of all ranks' buckets, in the order of the ranks, and gives it to
//! the others. So they are the same bits. Held in memory: each rank's bucket, and the sum.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use millstream::error::{Error, Result};

/// One rank of a group. When it is dropped the rank has left, and whoever waits for it gets an error.
#[derive(Debug)]
pub(super) struct Member {
    rank: usize,
    group: Arc<Group>,
}

/// The state that all ranks share.
#[derive(Debug)]
struct Group {
    bytes: Exchange<Vec<u8>>,
    numbers: Exchange<Vec<f32>>,
}

/// An exchange: each rank shares a value, and gets the values of all.
#[derive(Debug)]
struct Exchange<T> {
    round: Mutex<Round<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Round<T> {
    number: u64,
    shared: Vec<Option<T>>,
    /// The values of the round before.
    all: Arc<Vec<T>>,
    /// The first rank that has left.
    left: Option<usize>,
}

impl Member {
    pub(super) fn all(ranks: usize) -> impl Iterator<Item = Self> {
        let group = Arc::new(Group { bytes: Exchange::new(ranks), numbers: Exchange::new(ranks) });
        (0..ranks).map(move |rank| Self { rank, group: group.clone() })
    }

    /// The bytes of all ranks.
    pub(super) fn share(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.group.bytes.share(self.rank, mine).map(Arc::unwrap_or_clone)
    }

    /// The sum of all ranks' buckets, which are equally long.
    pub(super) fn add(&self, bucket: Vec<f32>) -> Result<Vec<f32>> {
        let length = bucket.len();
        let all = self.group.numbers.share(self.rank, bucket)?;
        let part = length.div_ceil(all.len());
        let mine = (self.rank * part).min(length)..((self.rank + 1) * part).min(length);
        let mut sum = all[0][mine.clone()].to_vec();
        for other in &all[1..] {
            sum.iter_mut().zip(&other[mine.clone()]).for_each(|(sum, number)| *sum += number);
        }
        drop(all);
        self.group.numbers.share(self.rank, sum).map(|parts| parts.concat())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.group.bytes.leave(self.rank);
        self.group.numbers.leave(self.rank);
    }
}

impl<T> Exchange<T> {
    fn new(ranks: usize) -> Self {
        let shared = (0..ranks).map(|_| None).collect();
        let round = Round { number: 0, shared, all: Arc::default(), left: None };
        Self { round: Mutex::new(round), changed: Condvar::new() }
    }

    fn share(&self, rank: usize, mine: T) -> Result<Arc<Vec<T>>> {
        let mut round = self.lock();
        let number = round.number;
        round.shared[rank] = Some(mine);
        if round.shared.iter().all(Option::is_some) {
            // The ranks have taken what was shared before: each did so before it shared this.
            round.all = Arc::new(round.shared.iter_mut().filter_map(Option::take).collect());
            round.number += 1;
            self.changed.notify_all();
        }
        let waits = |round: &mut Round<T>| round.number == number && round.left.is_none();
        let round = self.changed.wait_while(round, waits).unwrap_or_else(PoisonError::into_inner);
        match round.left {
            Some(rank) if round.number == number => Err(Error::Peer { rank }),
            _ => Ok(round.all.clone()),
        }
    }

    fn leave(&self, rank: usize) {
        self.lock().left.get_or_insert(rank);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Round<T>> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What `rank` returns on each of `ranks` threads.
    fn on_threads<T: Send>(ranks: usize, rank: impl Fn(Member) -> T + Sync) -> Vec<T> {
        let rank = &rank;
        thread::scope(|scope| {
            let threads: Vec<_> =
                Member::all(ranks).map(|member| scope.spawn(move || rank(member))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it returns")).collect()
        })
    }

    #[test]
    fn all_get_what_all_have_given_round_after_round() {
        for ranks in [2, 3, 5] {
            let found = on_threads(ranks, |member| {
                let round = |round: u8| member.share(vec![round, member.rank as u8]).expect("nobody leaves");
                (0..100).map(round).collect::<Vec<_>>()
            });
            let round = |round| (0..ranks as u8).map(|rank| vec![round, rank]).collect::<Vec<_>>();
            let expected: Vec<_> = (0..100).map(round).collect();
            assert!(found.iter().all(|found| *found == expected), "{ranks}");
        }
    }

    #[test]
    fn a_sum_is_in_the_order_of_the_ranks_whatever_its_length() {
        for (ranks, length) in [(2, 0), (2, 1), (3, 2), (3, 7), (4, 1000)] {
            // Of so different sizes that another order gives another sum.
            let number = |rank: usize, at: usize| (10f32).powi(rank as i32 * 7 % 19) / (at + 3) as f32;
            let found = on_threads(ranks, |member| {
                member.add((0..length).map(|at| number(member.rank, at)).collect()).expect("nobody leaves")
            });
            let sum = |at| (1..ranks).fold(number(0, at), |sum, rank| sum + number(rank, at));
            let expected: Vec<f32> = (0..length).map(sum).collect();
            assert!(found.iter().all(|found| *found == expected), "{ranks} ranks, {length} numbers");
        }
    }

    #[test]
    fn whoever_waits_for_a_rank_that_leaves_gets_an_error() {
        let found = on_threads(3, |member| {
            member.share(vec![0]).expect("all are there");
            // Rank 1 leaves now.
            (member.rank != 1).then(|| {
                let first = member.share(vec![1]).map(drop);
                (first.expect_err("one has left").to_string(), member.add(vec![1.0]).is_err())
            })
        });
        for (rank, found) in found.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
            let (error, fails_again) = found.expect("it stays");
            assert!(error.starts_with("rank 1 has failed") && fails_again, "rank {rank}: {error}");
        }
    }
}
