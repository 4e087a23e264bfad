//! The metrics of training.

use millstream::meter::prometheus::Text;
use millstream_train::{LossByValue, StepReport, Validation};

/// The last reports of training.
#[derive(Debug, Default)]
pub(crate) struct Training {
    step: Option<StepReport>,
    validation: Option<Validation>,
}

impl Training {
    pub(crate) fn step(&mut self, report: &StepReport) {
        // Only logged steps have rates over more than one step.
        if report.logged || self.step.is_none() {
            self.step = Some(report.clone());
        }
    }

    pub(crate) fn validation(&mut self, validation: &Validation) {
        self.validation = Some(validation.clone());
    }

    /// Writes the metrics of the last reports.
    pub(super) fn write(&self, text: &mut Text) {
        if let Some(step) = &self.step {
            let rates = &step.rates;
            for (name, help, value) in [
                ("step", "The last logged step.", Some(step.step as f64)),
                ("loss", "Its mean loss, in nats.", Some(step.loss)),
                ("learning_rate", "Its learning rate.", Some(step.lr)),
                ("gradient_norm", "The L2 norm of its gradient.", Some(step.grad_norm)),
                ("tokens", "Targets trained on, resumed ones included.", Some(step.tokens as f64)),
                ("tokens_per_second", "Since the logged step before it.", Some(rates.tokens_per_second)),
                ("wait_share", "Share of that time that the trainer waited, 0 to 1.", Some(rates.wait_share)),
                (
                    "sum_share",
                    "Share of it that rank 0 waited for others and summed, 0 to 1.",
                    rates.sum_share,
                ),
                ("flops_per_second", "Floating-point operations in a second of it.", rates.flops_per_second),
                ("mfu", "The same as a share of train.peak_tflops, 0 to 1.", rates.mfu),
            ] {
                gauge(text, name, help, value);
            }
            let help = "The mean loss since the logged step before it, by source or column, in nats.";
            by_value(text, "loss_by", help, &step.loss_by);
        }
        if let Some(Validation { validation_loss, loss_by, .. }) = &self.validation {
            let help = "The loss of the last validation, in nats.";
            gauge(text, "validation_loss", help, Some(*validation_loss));
            let help = "The loss of the last validation, by source or column, in nats.";
            by_value(text, "validation_loss_by", help, loss_by);
        }
    }
}

fn gauge(text: &mut Text, name: &str, help: &str, value: Option<f64>) {
    if let Some(value) = value {
        text.gauge(&format!("millstream_train_{name}"), help, &[("", value)]);
    }
}

fn by_value(text: &mut Text, name: &str, help: &str, loss_by: &LossByValue) {
    if !loss_by.is_empty() {
        let losses = loss_by.iter().flat_map(|(name, values)| {
            values.iter().map(move |(value, mean)| ([name.as_str(), value.as_str()], mean.loss))
        });
        text.gauges(&format!("millstream_train_{name}"), help, ["name", "value"], losses);
    }
}
