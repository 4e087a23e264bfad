//! One optimizer step: gradients, their norm, and the new parameters.

use std::time::Instant;

use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::Trainer;
use crate::device::is_asynchronous;
use crate::device::reading::{Reading, failed, read};
use crate::events::LossByValue;
use crate::model::{LanguageModel, Unigram};
use crate::optim::gradients::{Factor, PendingGradients, add, forward_backward, global_norm};
use crate::optim::{LossSums, learning_rate};
use crate::peers::{Decision, Request, Total, Vote, has_gradient};
use millstream::batch::Batch;
use millstream::error::{Error, Result};
use millstream::meter::stage_span;

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: u64,
    /// The mean loss of the step's targets, under the model before the step, in nats.
    pub loss: f64,
    /// The learning rate.
    pub lr: f64,
    /// The L2 norm of the gradient before it was clipped.
    pub grad_norm: f64,
    /// The number of targets.
    pub tokens: usize,
    /// The floating-point operations, as [`Flops`](crate::cost::Flops) counts them; `None` for a model that is not the
    /// crate's own.
    pub flops: Option<f64>,
    /// The losses of the targets by what their documents say.
    pub loss_by: LossByValue,
}

/// A step that the device may still compute: the numbers that are known, and the results that are being read.
#[derive(Debug)]
#[must_use = "a step that has diverged is known only when it is completed"]
pub struct Submitted {
    batches: Vec<Batch>,
    number: u64,
    lr: f64,
    flops: f64,
    results: Reading,
}

/// The gradients of a step, and the numbers that are known before its losses are read.
struct StepGradients {
    /// The sum over this process's batches, and after the peers have summed, over all.
    params: GradientsParams,
    /// The losses of this process's batches.
    losses: Vec<Tensor<1>>,
    /// The counts of this process's targets.
    unigram: Unigram,
    tokens: usize,
    flops: f64,
}

impl<M: LanguageModel> Trainer<M> {
    /// Does one optimizer step over all the batches together, and with [peers](Trainer::with_peers) over theirs. Every
    /// target has the same weight, whichever batch it is in. The batches may differ in rows and width. Without targets
    /// nothing is stepped and it returns `None`: only the cursor moves on.
    ///
    /// # Errors
    /// [`Error::Train`] if the batches do not fit the model or the device fails, [`Error::Diverged`] if the gradient is
    /// not finite, [`Error::Peer`] if another rank has failed. The model is then unchanged.
    pub fn step(&mut self, batches: &[Batch]) -> Result<Option<Step>> {
        self.attempt(batches, Request::Step)?.step()
    }

    /// Does a step, if all ranks agree to. This one has `batches`, and asks for `request`.
    pub(crate) fn attempt(&mut self, batches: &[Batch], request: Request) -> Result<Decision<Step>> {
        let began = Instant::now();
        self.gradients(batches, request)?.and_then(|gradients| {
            let norm = global_norm(self.model(), &gradients.params);
            let results = read(self.results(&gradients, norm))?;
            let (losses, norm) = self.summed_losses(&results, batches)?;
            if !norm.is_finite() {
                return Err(self.diverged(self.state.step + 1, batches));
            }
            let (factor, flops) = (self.optimizer.factor(norm, gradients.tokens), gradients.flops);
            let lr = self.apply(gradients, &factor, batches);
            self.state.seconds += began.elapsed().as_secs_f64();
            Ok(self.finish_step(self.state.step, lr, &losses, norm, flops))
        })
    }

    /// Tells the peers that this rank has no batches, or has failed, so that there is no step.
    pub(crate) fn decline<S>(&mut self, request: Result<Request>) -> Result<Decision<S>> {
        let decision = self.decide(request.map(Vote::without_batches))?;
        decision.and_then(|_| unreachable!("there is no step if a rank wants none"))
    }

    /// Queues the work of one optimizer step on the device, as [`step`](Self::step) does, and does not wait for it.
    /// Give the result to [`complete`](Self::complete) before you save a checkpoint. With peers the gradients go through
    /// the host, and so it waits for them.
    ///
    /// # Errors
    /// As [`step`](Self::step), but for the gradient's norm. The model is then unchanged.
    pub fn submit(&mut self, batches: Vec<Batch>) -> Result<Option<Submitted>> {
        let began = Instant::now();
        let submitted = self.gradients(&batches, Request::Step)?.and_then(|gradients| {
            let norm = global_norm(self.model(), &gradients.params);
            let factor = match &norm {
                Some(norm) => self.optimizer.factor_on_device(norm.clone(), gradients.tokens),
                None => self.optimizer.factor(0.0, gradients.tokens),
            };
            let results = self.results(&gradients, norm);
            let flops = gradients.flops;
            let lr = self.apply(gradients, &factor, &batches);
            // The read is queued here, ahead of the next step's work.
            let results = Reading::begin(results);
            self.state.seconds += began.elapsed().as_secs_f64();
            Ok(Submitted { batches, number: self.state.step, lr, flops, results })
        });
        submitted?.step()
    }

    /// Waits for a submitted step, and returns its result.
    ///
    /// # Errors
    /// [`Error::Train`] if the device failed. [`Error::Diverged`] if the gradient was not finite: the model and its
    /// moments are then lost, and you go on from a checkpoint.
    pub fn complete(&mut self, submitted: Submitted) -> Result<Step> {
        let began = Instant::now();
        let Submitted { batches, number, lr, flops, results } = submitted;
        let (losses, norm) = self.summed_losses(&results.finish()?, &batches)?;
        self.state.seconds += began.elapsed().as_secs_f64();
        match norm.is_finite() {
            true => Ok(self.finish_step(number, lr, &losses, norm, flops)),
            false => Err(self.diverged(number, &batches)),
        }
    }

    /// The gradients over all ranks' batches, if there is a step.
    fn gradients(&mut self, batches: &[Batch], request: Request) -> Result<Decision<StepGradients>> {
        let own = match self.own_gradients(batches) {
            Ok(own) => own,
            Err(error) => return self.decline(Err(error)),
        };
        let has_gradient = has_gradient(self.model(), &own.params);
        let vote = Vote { request, tokens: own.tokens, flops: own.flops, has_gradient };
        let decision = self.decide(Ok(vote))?;
        if decision == Decision::WithoutTargets {
            self.cursor = batches.last().map(|batch| batch.cursor().clone()).or(self.cursor.take());
        }
        decision.and_then(|total| {
            let began = Instant::now();
            let span = stage_span!("trainer", "sum");
            let params = span.in_scope(|| self.peers.sum(self.model(), own.params, &total.has_gradient))?;
            self.summed += began.elapsed();
            Ok(StepGradients { params, tokens: total.tokens, flops: total.flops, ..own })
        })
    }

    /// The gradients over this process's batches.
    fn own_gradients(&mut self, batches: &[Batch]) -> Result<StepGradients> {
        for batch in batches {
            self.check(batch)?;
        }
        if let Some(model) = &mut self.model {
            model.begin_step(self.state.step);
        }
        let (params, unigram) = (GradientsParams::new(), self.unigram.clone());
        let mut own = StepGradients { params, losses: Vec::new(), unigram, tokens: 0, flops: 0.0 };
        for batch in batches.iter().filter(|batch| self.scope.tokens(batch) > 0) {
            own.unigram.count(batch, self.scope);
            let span = stage_span!("trainer", "gradients");
            let PendingGradients { losses: found, params } = span
                .in_scope(|| forward_backward(self.model(), batch, self.scope, &self.device, self.parts))?;
            own.losses.push(found);
            own.tokens += self.scope.tokens(batch);
            add(self.model(), &mut own.params, params);
        }
        let stepped = batches.iter().filter(|batch| self.scope.tokens(batch) > 0);
        own.flops = self.flops.as_ref().map_or(0.0, |flops| flops.for_batches(stepped));
        if !self.peers.is_alone() && is_asynchronous(&self.config.train) {
            // Time spent waiting for the device is not to count as time spent waiting for peers.
            self.device.sync().map_err(failed)?;
        }
        Ok(own)
    }

    /// Votes, and returns the decision of all ranks.
    fn decide(&mut self, vote: Result<Vote>) -> Result<Decision<Total>> {
        let began = Instant::now();
        let decision = self.peers.vote(vote);
        self.summed += began.elapsed();
        decision
    }

    /// The losses of all batches of a step, and the norm of the sum of their gradients, in one tensor: each read waits for
    /// the device.
    fn results(&self, gradients: &StepGradients, norm: Option<Tensor<1>>) -> Tensor<1> {
        let norm = norm.unwrap_or_else(|| Tensor::zeros([1], &self.device.clone().inner()));
        Tensor::cat(gradients.losses.iter().cloned().chain([norm]).collect(), 0)
    }

    /// Steps the model along the gradients, and returns the learning rate.
    fn apply(&mut self, gradients: StepGradients, factor: &Factor, batches: &[Batch]) -> f64 {
        let lr = learning_rate(&self.config.train, self.state.step);
        let span = stage_span!("trainer", "optimizer");
        let model = self.take_model();
        self.model = Some(span.in_scope(|| self.optimizer.apply(model, gradients.params, factor, lr)));
        self.unigram = gradients.unigram;
        self.cursor = batches.last().map(|batch| batch.cursor().clone());
        self.state.step += 1;
        self.state.tokens += gradients.tokens as u64;
        lr
    }

    fn finish_step(&mut self, number: u64, lr: f64, losses: &LossSums, grad_norm: f64, flops: f64) -> Step {
        self.state.loss_by.join(&losses.by);
        let (loss, tokens) = (losses.all.mean(), losses.all.tokens);
        self.state.loss = Some(loss);
        let flops = self.flops.as_ref().map(|_| flops);
        Step { number, loss, lr, grad_norm, tokens, flops, loss_by: losses.by.means() }
    }

    /// The losses by source and column, of all steps since the last call.
    pub(crate) fn take_loss_by(&mut self) -> LossByValue {
        let means = self.state.loss_by.means();
        self.state.loss_by.reset();
        means
    }

    /// The losses of all ranks' targets, and the norm of their mean gradient, from this process's results.
    fn summed_losses(&mut self, results: &[f32], batches: &[Batch]) -> Result<(LossSums, f64)> {
        let (mut at, mut own) = (0, LossSums::default());
        for batch in batches {
            if self.scope.tokens(batch) > 0 {
                let places = batch.rows() * batch.seq_len();
                self.add_losses(&mut own, batch, &results[at..at + places]);
                at += places;
            }
        }
        let began = Instant::now();
        let losses = self.whole_losses(own)?;
        self.summed += began.elapsed();
        let norm = f64::from(results[at]) / losses.all.tokens as f64;
        Ok((losses, norm))
    }

    /// The error that the gradient of these batches is not finite. All ranks have the same gradient, so only one reports
    /// it.
    fn diverged(&self, step: u64, batches: &[Batch]) -> Error {
        let first = batches.first().map_or(0, Batch::number);
        let diverged = Error::Diverged {
            step,
            batches: first..batches.last().map_or(first, Batch::number) + 1,
            resume: None,
        };
        self.peers.fail(diverged)
    }
}
