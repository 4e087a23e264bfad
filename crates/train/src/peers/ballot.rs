//! What the ranks tell each other before the gradients of a step are summed: whether there is a step at all.
//!
//! A rank that is asked to stop, or whose batch is bad, says so here, where all others ask it. Then no rank makes the
//! step, and all are where they were after the one before.

use super::Peers;
use millstream::error::{Error, Result};

/// What a rank wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A step of its batches.
    Step,
    /// The same, and then the end: it has no more.
    LastStep,
    /// The end: it has no batches.
    End,
    /// To save and stop.
    Stop,
}

/// A rank's part in a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ballot {
    pub(crate) wish: Wish,
    /// How many targets its batches have.
    pub(crate) tokens: usize,
    /// The floating-point operations that they took.
    pub(crate) flops: f64,
    /// For each parameter of the model, whether it has a gradient. It may end early: the others have none.
    pub(crate) has_gradient: Vec<bool>,
}

/// All ranks' batches together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Total {
    pub(crate) tokens: usize,
    pub(crate) flops: f64,
    /// For each parameter of the model, whether it has a gradient on any rank.
    pub(crate) has_gradient: Vec<bool>,
}

/// What comes of all ballots, the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elected {
    /// A step of all ranks' batches together.
    Step(Total),
    /// No rank has batches left.
    End,
    /// This rank was asked to stop, and maybe others.
    Stop { rank: usize },
}

/// The number of a rank that has failed, where others have their wish.
const FAILED: f64 = -1.0;

impl Wish {
    const ALL: [Self; 4] = [Self::Step, Self::LastStep, Self::End, Self::Stop];

    fn has_ended(self) -> bool {
        matches!(self, Self::LastStep | Self::End)
    }
}

impl Ballot {
    /// The ballot of a rank that has no batches.
    pub(crate) fn without_batches(wish: Wish) -> Self {
        Self { wish, tokens: 0, flops: 0.0, has_gradient: Vec::new() }
    }

    /// Counts are exact up to 2^53.
    fn to_numbers(&self) -> Vec<f64> {
        let gradients = self.has_gradient.iter().map(|&has| f64::from(u8::from(has)));
        [f64::from(self.wish as u8), self.tokens as f64, self.flops].into_iter().chain(gradients).collect()
    }

    /// `None` of a rank that has failed.
    fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let [wish, tokens, flops, gradients @ ..] = numbers else { return None };
        Some(Self {
            wish: *Wish::ALL.get(*wish as usize)?,
            tokens: *tokens as usize,
            flops: *flops,
            has_gradient: gradients.iter().map(|&has| has > 0.0).collect(),
        })
    }
}

impl Peers {
    /// Gives this rank's ballot, or that it has failed, and returns what comes of all of them. Blocks until all ranks have
    /// called it.
    ///
    /// # Errors
    /// As [`agree`](Self::agree). [`Error::Train`] if some ranks have batches and others have none left.
    pub(crate) fn vote(&self, mine: Result<Ballot>) -> Result<Elected> {
        let numbers = mine.as_ref().map_or_else(|_| vec![FAILED], Ballot::to_numbers);
        let all = match self.share_numbers(&numbers) {
            Ok(all) => all,
            Err(left) => return mine.and(Err(left)),
        };
        let all: Vec<Option<Ballot>> = all.iter().map(|numbers| Ballot::from_numbers(numbers)).collect();
        let failed = all.iter().map(Option::is_none).collect::<Vec<_>>();
        self.settled(mine, &failed)?;
        let all: Vec<Ballot> = all.into_iter().flatten().collect();
        count(&all).map_err(|problem| self.fail(Error::Train(problem)))
    }
}

/// What comes of all ballots, or why nothing can.
fn count(all: &[Ballot]) -> Result<Elected, String> {
    let first = |wish: Wish| all.iter().position(|ballot| ballot.wish == wish);
    if let Some(rank) = first(Wish::Stop) {
        return Ok(Elected::Stop { rank });
    }
    let ended = |ballot: &Ballot| ballot.wish.has_ended();
    if let (Some(ended), Some(more)) = (all.iter().position(ended), all.iter().position(|one| !ended(one))) {
        return Err(format!(
            "the batches of rank {ended} have ended, and rank {more} has more: all ranks need the same config, files and \
             build"
        ));
    }
    if first(Wish::End).is_some() {
        return Ok(Elected::End);
    }
    let parameters = all.iter().map(|ballot| ballot.has_gradient.len()).max().unwrap_or(0);
    let has = |at: usize| all.iter().any(|ballot| ballot.has_gradient.get(at) == Some(&true));
    Ok(Elected::Step(Total {
        tokens: all.iter().map(|ballot| ballot.tokens).sum(),
        flops: all.iter().map(|ballot| ballot.flops).sum(),
        has_gradient: (0..parameters).map(has).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(wish: Wish, tokens: usize) -> Ballot {
        Ballot { wish, tokens, flops: 0.5 * tokens as f64, has_gradient: vec![tokens > 0, false] }
    }

    #[test]
    fn ballots_come_back_from_numbers() {
        for (tokens, wish) in Wish::ALL.into_iter().enumerate() {
            let ballot = ballot(wish, tokens);
            assert_eq!(Ballot::from_numbers(&ballot.to_numbers()), Some(ballot));
        }
        assert_eq!(Ballot::from_numbers(&[FAILED]), None);
    }

    #[test]
    fn one_rank_that_stops_is_enough_and_ends_must_be_common() {
        let all = |wishes: &[Wish]| {
            let ballots: Vec<_> =
                wishes.iter().zip(3..).map(|(wish, tokens)| ballot(*wish, tokens)).collect();
            count(&ballots)
        };
        let step = Elected::Step(Total { tokens: 3 + 4, flops: 3.5, has_gradient: vec![true, false] });
        assert_eq!(all(&[Wish::Step, Wish::Step]), Ok(step.clone()));
        assert_eq!(all(&[Wish::LastStep, Wish::LastStep]), Ok(step));
        assert_eq!(all(&[Wish::Step, Wish::Stop]), Ok(Elected::Stop { rank: 1 }));
        assert_eq!(all(&[Wish::End, Wish::End]), Ok(Elected::End));
        let problem = all(&[Wish::Step, Wish::LastStep]).expect_err("one has more");
        assert!(problem.contains("rank 1 have ended, and rank 0 has more"), "{problem}");
    }

    #[test]
    fn a_rank_without_targets_takes_part() {
        let counted = count(&[Ballot::without_batches(Wish::Step), ballot(Wish::Step, 2)]);
        let step = Elected::Step(Total { tokens: 2, flops: 1.0, has_gradient: vec![true, false] });
        assert_eq!(counted, Ok(step));
    }
}
