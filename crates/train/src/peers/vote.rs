//! The vote of all ranks before the gradients of a step are summed: whether there is a step at all.
//!
//! A rank that is asked to stop, or whose batch is bad, says so here, where all ranks meet. Then no rank makes the
//! step, and all are at the end of the step before.

use super::Peers;
use millstream::error::{Error, Result};

/// A rank's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
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
pub(crate) struct Vote {
    pub(crate) request: Request,
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

/// The decision of all votes, the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// A step of all ranks' batches together.
    Step(Total),
    /// No rank has batches left.
    End,
    /// This rank was asked to stop, and maybe others.
    Stop { rank: usize },
}

/// The number of a rank that has failed, where others have their request.
const FAILED: f64 = -1.0;

impl Request {
    const ALL: [Self; 4] = [Self::Step, Self::LastStep, Self::End, Self::Stop];

    fn has_ended(self) -> bool {
        matches!(self, Self::LastStep | Self::End)
    }
}

impl Vote {
    pub(crate) fn without_batches(request: Request) -> Self {
        Self { request, tokens: 0, flops: 0.0, has_gradient: Vec::new() }
    }

    /// Counts are exact up to 2^53.
    fn to_numbers(&self) -> Vec<f64> {
        let gradients = self.has_gradient.iter().map(|&has| f64::from(u8::from(has)));
        [f64::from(self.request as u8), self.tokens as f64, self.flops].into_iter().chain(gradients).collect()
    }

    /// `None` of a rank that has failed.
    fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let [request, tokens, flops, gradients @ ..] = numbers else { return None };
        Some(Self {
            request: *Request::ALL.get(*request as usize)?,
            tokens: *tokens as usize,
            flops: *flops,
            has_gradient: gradients.iter().map(|&has| has > 0.0).collect(),
        })
    }
}

impl Peers {
    /// Gives this rank's vote, or its failure, and returns the decision of all. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// As [`agree`](Self::agree). [`Error::Train`] if some ranks have batches and others have none left.
    pub(crate) fn vote(&self, mine: Result<Vote>) -> Result<Decision> {
        let numbers = mine.as_ref().map_or_else(|_| vec![FAILED], Vote::to_numbers);
        let all = match self.share_numbers(&numbers) {
            Ok(all) => all,
            Err(left) => return mine.and(Err(left)),
        };
        let all: Vec<Option<Vote>> = all.iter().map(|numbers| Vote::from_numbers(numbers)).collect();
        let failed = all.iter().map(Option::is_none).collect::<Vec<_>>();
        self.unless_failed(mine, &failed)?;
        let all: Vec<Vote> = all.into_iter().flatten().collect();
        decide(&all).map_err(|problem| self.fail(Error::Train(problem)))
    }
}

/// The decision of all votes, or why there is none.
fn decide(all: &[Vote]) -> Result<Decision, String> {
    let first = |request: Request| all.iter().position(|vote| vote.request == request);
    if let Some(rank) = first(Request::Stop) {
        return Ok(Decision::Stop { rank });
    }
    let ended = |vote: &Vote| vote.request.has_ended();
    if let (Some(ended), Some(more)) = (all.iter().position(ended), all.iter().position(|one| !ended(one))) {
        return Err(format!(
            "the batches of rank {ended} have ended, and rank {more} has more: all ranks need the same config, files and \
             build"
        ));
    }
    if first(Request::End).is_some() {
        return Ok(Decision::End);
    }
    let parameters = all.iter().map(|vote| vote.has_gradient.len()).max().unwrap_or(0);
    let has = |at: usize| all.iter().any(|vote| vote.has_gradient.get(at) == Some(&true));
    Ok(Decision::Step(Total {
        tokens: all.iter().map(|vote| vote.tokens).sum(),
        flops: all.iter().map(|vote| vote.flops).sum(),
        has_gradient: (0..parameters).map(has).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(request: Request, tokens: usize) -> Vote {
        Vote { request, tokens, flops: 0.5 * tokens as f64, has_gradient: vec![tokens > 0, false] }
    }

    #[test]
    fn votes_come_back_from_numbers() {
        for (tokens, request) in Request::ALL.into_iter().enumerate() {
            let vote = vote(request, tokens);
            assert_eq!(Vote::from_numbers(&vote.to_numbers()), Some(vote));
        }
        assert_eq!(Vote::from_numbers(&[FAILED]), None);
    }

    #[test]
    fn one_rank_that_stops_is_enough_and_ends_must_be_common() {
        let all = |requests: &[Request]| {
            let votes: Vec<_> =
                requests.iter().zip(3..).map(|(request, tokens)| vote(*request, tokens)).collect();
            decide(&votes)
        };
        let step = Decision::Step(Total { tokens: 3 + 4, flops: 3.5, has_gradient: vec![true, false] });
        assert_eq!(all(&[Request::Step, Request::Step]), Ok(step.clone()));
        assert_eq!(all(&[Request::LastStep, Request::LastStep]), Ok(step));
        assert_eq!(all(&[Request::Step, Request::Stop]), Ok(Decision::Stop { rank: 1 }));
        assert_eq!(all(&[Request::End, Request::End]), Ok(Decision::End));
        let problem = all(&[Request::Step, Request::LastStep]).expect_err("one has more");
        assert!(problem.contains("rank 1 have ended, and rank 0 has more"), "{problem}");
    }

    #[test]
    fn a_rank_without_targets_takes_part() {
        let decided = decide(&[Vote::without_batches(Request::Step), vote(Request::Step, 2)]);
        let step = Decision::Step(Total { tokens: 2, flops: 1.0, has_gradient: vec![true, false] });
        assert_eq!(decided, Ok(step));
    }
}
