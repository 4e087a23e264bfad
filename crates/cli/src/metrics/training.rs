//! The metrics of training.

use std::collections::BTreeMap;

use millstream::meter::prometheus::Text;
use millstream_train::{SourceLoss, StepReport, Validation};

/// The last reports of training.
#[derive(Debug, Default)]
pub(super) struct Training {
    step: Option<StepReport>,
    validation: Option<Validation>,
}

impl Training {
    /// Keeps the report of a step.
    pub(super) fn step(&mut self, report: &StepReport) {
        // Only logged steps have rates over more than one step.
        if report.logged || self.step.is_none() {
            self.step = Some(report.clone());
        }
    }

    /// Keeps the report of a validation.
    pub(super) fn validation(&mut self, validation: &Validation) {
        self.validation = Some(validation.clone());
    }

    /// Writes the metrics of the last reports.
    pub(super) fn write(&self, text: &mut Text) {
        if let Some(step) = &self.step {
            gauge(text, "millstream_train_step", "The last logged step.", step.step as f64);
            gauge(text, "millstream_train_loss", "Its mean loss, in nats.", step.loss);
            gauge(text, "millstream_train_learning_rate", "Its learning rate.", step.lr);
            gauge(text, "millstream_train_gradient_norm", "The L2 norm of its gradient.", step.grad_norm);
            gauge(
                text,
                "millstream_train_tokens",
                "Targets trained on, resumed ones included.",
                step.tokens as f64,
            );
            gauge(
                text,
                "millstream_train_tokens_per_second",
                "Since the logged step before it.",
                step.tokens_per_second,
            );
            gauge(
                text,
                "millstream_train_wait_share",
                "Share of that time that the trainer waited, 0 to 1.",
                step.wait_share,
            );
            if let Some(share) = step.sum_share {
                let help =
                    "Share of that time that rank 0 waited for other ranks and summed gradients, 0 to 1.";
                gauge(text, "millstream_train_sum_share", help, share);
            }
            by_source(
                text,
                "millstream_train_source_loss",
                "The mean loss of a source's targets since the logged step before it, in nats.",
                &step.sources,
            );
            if let Some(flops) = step.flops_per_second {
                let help = "Floating-point operations a second, since the logged step before it.";
                gauge(text, "millstream_train_flops_per_second", help, flops);
            }
            if let Some(mfu) = step.mfu {
                let help = "The same as a share of train.peak_tflops, 0 to 1.";
                gauge(text, "millstream_train_mfu", help, mfu);
            }
        }
        if let Some(validation) = &self.validation {
            gauge(
                text,
                "millstream_train_validation_loss",
                "The loss of the last validation, in nats.",
                validation.validation_loss,
            );
            by_source(
                text,
                "millstream_train_source_validation_loss",
                "The loss of a source's targets in the last validation, in nats.",
                &validation.sources,
            );
        }
    }
}

fn gauge(text: &mut Text, name: &str, help: &str, value: f64) {
    text.gauge(name, help, &[("", value)]);
}

fn by_source(text: &mut Text, name: &str, help: &str, sources: &BTreeMap<String, SourceLoss>) {
    if !sources.is_empty() {
        text.gauges(name, help, "source", sources.iter().map(|(source, loss)| (source.as_str(), loss.loss)));
    }
}
