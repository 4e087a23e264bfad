//! The vote of all ranks before the gradients of a step are summed: whether there is a step at all.
//!
//! A rank that is asked to stop, or whose batch is bad, says so here, where all ranks meet. Then no rank makes the
//! step, and all are at the end of the step before.

use serde::{Deserialize, Serialize};

use super::Peers;
use millstream::error::{Error, Result};

/// A rank's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Request {
    fn has_ended(self) -> bool {
        matches!(self, Self::LastStep | Self::End)
    }
}

/// A rank's part in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) request: Request,
    /// How many targets its batches have.
    pub(crate) tokens: usize,
    /// The floating-point operations that they took.
    pub(crate) flops: f64,
    /// For each parameter of the model, whether it has a gradient. It may end early: the others have none.
    pub(crate) has_gradient: Vec<bool>,
}

impl Vote {
    pub(crate) fn without_batches(request: Request) -> Self {
        Self { request, tokens: 0, flops: 0.0, has_gradient: Vec::new() }
    }
}

/// All ranks' batches together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Total {
    pub(crate) tokens: usize,
    pub(crate) flops: f64,
    /// For each parameter of the model, whether it has a gradient on any rank.
    pub(crate) has_gradient: Vec<bool>,
}

/// The decision of all ranks, the same on each: a step, as far as it has come, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision<S> {
    /// A step of all ranks' batches together.
    Step(S),
    /// The batches have no targets.
    WithoutTargets,
    /// No rank has batches left.
    End,
    /// This rank was asked to stop, and maybe others.
    Stop { rank: usize },
}

impl<S> Decision<S> {
    /// Goes on with the step, if there is one.
    pub(crate) fn and_then<T>(self, go_on: impl FnOnce(S) -> Result<T>) -> Result<Decision<T>> {
        Ok(match self {
            Self::Step(step) => Decision::Step(go_on(step)?),
            Self::WithoutTargets => Decision::WithoutTargets,
            Self::End => Decision::End,
            Self::Stop { rank } => Decision::Stop { rank },
        })
    }

    /// The step, for a caller that cannot stop its peers.
    pub(crate) fn step(self) -> Result<Option<S>> {
        match self {
            Self::Step(step) => Ok(Some(step)),
            Self::WithoutTargets | Self::End => Ok(None),
            Self::Stop { rank } => {
                Err(Error::Train(format!("rank {rank} was asked to stop, so there is no step")))
            }
        }
    }
}

impl Peers {
    /// Gives this rank's vote, or its failure, and returns the decision of all. Blocks until all ranks have called it.
    pub(crate) fn vote(&self, mine: Result<Vote>) -> Result<Decision<Total>> {
        let all = match self.share(mine.as_ref().ok().cloned()) {
            Ok(all) => all,
            Err(left) => return mine.and(Err(left)),
        };
        let failed: Vec<bool> = all.iter().map(Option::is_none).collect();
        self.unless_failed(mine, &failed)?;
        let all: Vec<Vote> = all.into_iter().flatten().collect();
        decide(&all).map_err(|problem| self.fail(Error::Train(problem)))
    }
}

/// The decision of all votes, or why there is none.
fn decide(all: &[Vote]) -> Result<Decision<Total>, String> {
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
    let total = Total {
        tokens: all.iter().map(|vote| vote.tokens).sum(),
        flops: all.iter().map(|vote| vote.flops).sum(),
        has_gradient: (0..parameters).map(has).collect(),
    };
    Ok(if total.tokens > 0 { Decision::Step(total) } else { Decision::WithoutTargets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(request: Request, tokens: usize) -> Vote {
        Vote { request, tokens, flops: 0.5 * tokens as f64, has_gradient: vec![tokens > 0, false] }
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
        let none = || Vote::without_batches(Request::Step);
        let step = Decision::Step(Total { tokens: 2, flops: 1.0, has_gradient: vec![true, false] });
        assert_eq!(decide(&[none(), vote(Request::Step, 2)]), Ok(step));
        assert_eq!(decide(&[none(), none()]), Ok(Decision::WithoutTargets));
    }
}
