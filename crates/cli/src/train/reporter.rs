//! Shows the progress of a run.

use std::path::Path;

use millstream::error::ResumeFrom;
use millstream::loader::Watch;
use millstream::meter::Verdict;
use millstream_train::cost::Memory;
use millstream_train::{Observer, RunConfig, StepReport, Validation};

use crate::cost::speed;
use crate::program::program;
use crate::progress::{self, Progress, Slow};
use crate::telemetry::Telemetry;
use crate::{hint, print_json};

/// Shows a run: a bar on a terminal, lines elsewhere, or JSON.
pub(super) struct Reporter {
    json: bool,
    progress: Option<Progress>,
    /// Reports that the loader opens, until it is open.
    opening: Option<Slow>,
    /// The predicted peak memory of the run.
    memory: Memory,
    /// The warning that it may be too much.
    warning: Option<String>,
    telemetry: Telemetry,
    /// Watches the loader of the training batches, once it is open.
    pub(super) watch: Option<Watch>,
    steps: u64,
    /// The last logged rates, in tokens and in operations, and the last verdict. Single steps are too short to measure
    /// them.
    logged: Option<(String, String, Option<Verdict>)>,
    /// The verdict that was printed last, where there is no terminal.
    printed: Option<Verdict>,
}

impl Reporter {
    pub(super) fn new(config: &RunConfig, memory: Memory, telemetry: &Telemetry, json: bool) -> Self {
        let (telemetry, steps) = (telemetry.clone(), config.train.steps);
        let opening = Some(progress::slow("opening the corpus"));
        let warning = memory.warning(config);
        Self {
            json,
            progress: None,
            opening,
            memory,
            warning,
            telemetry,
            watch: None,
            steps,
            logged: None,
            printed: None,
        }
    }

    pub(super) fn clear(&self) {
        if let Some(progress) = &self.progress {
            progress.clear();
        }
    }

    /// The message beside the step, in ever shorter forms.
    fn messages(&self, loss: f64) -> Vec<String> {
        let loss = format!("loss {loss:.3}");
        let Some((rate, speed, verdict)) = &self.logged else { return vec![loss] };
        let Some(verdict) = verdict else {
            return vec![format!("{loss}  {rate}{speed}"), format!("{loss}  {rate}"), loss];
        };
        let brief = verdict.brief();
        vec![
            format!("{loss}  {rate}{speed}  {verdict}"),
            format!("{loss}  {rate}{speed}  {brief}"),
            format!("{loss}  {rate}  {brief}"),
            format!("{loss}  {brief}"),
            loss,
        ]
    }

    /// The verdict, if it differs from the one that was printed last.
    fn news(&mut self, verdict: Option<&Verdict>) -> String {
        let Some(verdict) = verdict else { return String::new() };
        let gist = |verdict: &Verdict| {
            let finding = verdict.fault.is_none().then(|| verdict.finding.clone());
            (verdict.fault, verdict.remedy.clone(), finding)
        };
        if self.printed.as_ref().is_some_and(|printed| gist(printed) == gist(verdict)) {
            return String::new();
        }
        self.printed = Some(verdict.clone());
        format!("  {verdict}")
    }
}

/// Keeps the memory that is freed: each step takes the same again.
fn keep_memory() {
    (program().keep_memory)();
}

/// The observer of other ranks than the first, which prints nothing.
pub(super) struct Aside;

impl Observer for Aside {
    fn on_open(&mut self, _: &Watch) {
        keep_memory();
    }
}

impl Observer for Reporter {
    fn on_open(&mut self, watch: &Watch) {
        keep_memory();
        self.opening = None;
        progress::say(&format!("memory: {}", self.memory));
        if let Some(warning) = &self.warning {
            progress::say(warning);
        }
        self.telemetry.watch(watch);
        self.watch = Some(watch.clone());
    }

    fn on_step(&mut self, report: &StepReport) {
        let StepReport { step, loss, rates, verdict, .. } = report;
        self.telemetry.metrics.training(|training| training.step(report));
        // Its time begins behind the first step.
        let progress = self.progress.get_or_insert_with(|| Progress::new(self.steps, *step)).clone();
        if report.logged {
            let rate = format!("{:.0} tokens/s", rates.tokens_per_second);
            let speed = rates
                .flops_per_second
                .map_or(String::new(), |flops| format!(", {}", speed(flops, rates.mfu)));
            let summed = rates.sum_share.map(|share| format!(", {:.1}% summing", share * 100.0));
            let speed = speed + &summed.unwrap_or_default();
            if self.json {
                // The run goes on to its last step without a reader.
                drop(print_json(report));
            } else if progress.is_hidden() {
                let news = self.news(verdict.as_ref());
                progress::say(&format!("step {step}/{}  loss {loss:.3}  {rate}{speed}{news}", self.steps));
            }
            self.logged = Some((rate, speed, verdict.clone()));
        }
        if !progress.is_hidden() {
            progress.show(*step, &self.messages(*loss));
        }
    }

    fn on_validation(&mut self, validation: &Validation) {
        let bits =
            validation.bits_per_byte.map_or(String::new(), |bits| format!(", {bits:.3} bits per byte"));
        let Validation { step, validation_loss, .. } = validation;
        self.telemetry.metrics.training(|training| training.validation(validation));
        if self.json {
            drop(print_json(validation));
        }
        let sources = validation.loss_by.get("source").into_iter().flatten();
        let sources: Vec<String> =
            sources.map(|(name, source)| format!("{name} {:.3}", source.loss)).collect();
        let sources = if sources.is_empty() { String::new() } else { format!(" ({})", sources.join(", ")) };
        progress::say(&format!("step {step}: validation loss {validation_loss:.3}{bits}{sources}"));
    }

    fn on_checkpoint(&mut self, path: &Path) {
        tracing::debug!(path = %path.display(), "checkpoint");
    }

    fn on_message(&mut self, message: &str) {
        progress::say(message);
    }

    fn on_resumable(&mut self, from: &ResumeFrom) {
        progress::say(&format!("resume with: {}", hint::resume(from)));
    }
}
