//! Steps on a device that computes while the host goes on. Holds at most one that is not finished.

use crate::model::LanguageModel;
use crate::peers::Request;
use crate::trainer::{Attempt, Step, Submitted, Trainer};
use millstream::batch::Batch;
use millstream::error::Result;

/// Gives a trainer its batches. If the device computes while the host goes on, the next step is queued before the result
/// of the one before is awaited.
#[derive(Debug)]
pub(super) struct Queue {
    is_ahead: bool,
    submitted: Option<Submitted>,
}

/// The fate of the batches of a step.
#[derive(Debug, PartialEq)]
pub(super) enum Advance {
    /// They are queued, and there was no step before.
    Queued,
    /// The result of their step, or, if they are queued, of the step before.
    Done(Attempt),
}

impl Queue {
    /// A queue that is a step ahead, or one that does a step at a time.
    ///
    /// Only a process without peers can be ahead: peers must communicate in the same order, and a queue that is ahead
    /// finishes its step when a batch is late, which differs between ranks.
    pub(super) fn new(is_ahead: bool) -> Self {
        Self { is_ahead, submitted: None }
    }

    /// Does a step on `batches`, or queues it and waits for the one before.
    pub(super) fn advance<M: LanguageModel>(
        &mut self,
        trainer: &mut Trainer<M>,
        batches: Vec<Batch>,
        request: Request,
    ) -> Result<Advance> {
        if !self.is_ahead {
            return trainer.attempt(&batches, request).map(Advance::Done);
        }
        let Some(submitted) = trainer.submit(batches)? else {
            return Ok(Advance::Done(Attempt::WithoutTargets));
        };
        let before = self.submitted.replace(submitted);
        let step = before.map(|before| trainer.complete(before)).transpose()?;
        Ok(step.map_or(Advance::Queued, |step| Advance::Done(Attempt::Step(step))))
    }

    /// Waits for the step that is queued, if there is one.
    pub(super) fn finish<M: LanguageModel>(&mut self, trainer: &mut Trainer<M>) -> Result<Option<Step>> {
        self.submitted.take().map(|submitted| trainer.complete(submitted)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelConfig, RunConfig};
    use millstream::tokenizer::ByteTokenizer;

    fn trainer() -> Trainer {
        let model = ModelConfig { layers: 1, d_model: 8, heads: 2, d_ff: 8, ..ModelConfig::default() };
        let mut config = RunConfig { model, ..RunConfig::default() };
        config.data.pipeline.seq_len = 4;
        // Small, so that gradients are clipped.
        config.train.clip = 0.1;
        Trainer::new(&config, &ByteTokenizer).expect("a trainer")
    }

    fn batches(step: u32) -> Vec<Batch> {
        (0..2)
            .map(|i| Batch::from_ids((0..15).map(|at| (step * 31 + i + at * 7) % 251).collect(), 5))
            .collect()
    }

    #[test]
    fn steps_come_one_late_and_are_the_same() {
        let (mut now, mut ahead) = (Queue::new(false), Queue::new(true));
        let (mut one, mut other) = (trainer(), trainer());
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for step in 0..6 {
            let Ok(Advance::Done(Attempt::Step(done))) = now.advance(&mut one, batches(step), Request::Step)
            else {
                panic!("no step")
            };
            expected.push(done);
            match ahead.advance(&mut other, batches(step), Request::Step).expect("a step") {
                Advance::Done(Attempt::Step(done)) => found.push(done),
                queued => assert_eq!((queued, step), (Advance::Queued, 0)),
            }
            let nothing = ahead.advance(&mut other, Vec::new(), Request::Step).expect("nothing");
            assert_eq!(nothing, Advance::Done(Attempt::WithoutTargets));
            assert_eq!(other.state().step, u64::from(step) + 1);
        }
        found.extend(ahead.finish(&mut other).expect("a step"));
        assert_eq!(ahead.finish(&mut other).expect("nothing"), None);
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!((expected.number, expected.tokens), (found.number, found.tokens));
            // One multiplies by a number, the other by a tensor of f32.
            assert!((expected.loss - found.loss).abs() < 1e-5, "{expected:?} {found:?}");
            assert!((expected.grad_norm / found.grad_norm - 1.0).abs() < 1e-4, "{expected:?} {found:?}");
        }
        assert_eq!(one.state().tokens, other.state().tokens);
        assert!(expected.iter().any(|step| step.grad_norm > 0.1), "nothing was clipped");
    }
}
