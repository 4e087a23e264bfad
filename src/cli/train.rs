//! `millstream train`: trains a model, and shows how it goes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use millstream::loader::Watch;
use millstream::meter::Verdict;
use millstream::tokenizer::Tokenizer;
use millstream::train::cost::Memory;
use millstream::train::{self, Checkpoint, RunDirectory, Sample, Sampling};
use millstream::train::{End, Observer, Outcome, StepReport, Validation};
use millstream::{Config, Error, Meters, Result, loader};
use serde::Serialize;

use super::bench::peak_rss_bytes;
use super::cost::speed;
use super::generate::{complete, sampling};
use super::init::bytes;
use super::progress::{Progress, Slow};
use super::settings::Settings;
use super::sight::{Sight, SightArgs};
use super::words::count;
use super::{ConfigArgs, INTERRUPTED, hint, print_json, print_line, progress, stop};

pub(super) const HELP: &str = "\
Example: millstream train configs/quickstart.toml
Example: fewer steps, another directory, JSON output
  millstream train configs/quickstart.toml --set train.steps=200 --set train.out=runs/short --json
Example: resume a run that was interrupted
  millstream train --resume runs/quickstart
Example: go back to an earlier checkpoint, and train on at a lower rate
  millstream train --resume runs/quickstart --at 400 --set train.lr=1e-4

With --json each logged step is a line {step, loss, tokens_per_second, flops_per_second, wait_share, verdict, memory,
stages, …}, and each validation a line {step, validation_loss, bits_per_byte, validation_tokens}. The last line has
unigram_loss, validation_loss, tokens_per_second, wait_share, verdict, the sample, the predicted and the real peak of
the memory, and the meters of all stages. Ctrl-C, SIGTERM and a closed terminal
save a checkpoint and exit with code 130. Press Ctrl-C again to exit at once. The run keeps what you --set at a resume.";

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// The config: a .toml, .json or .yaml file. With --resume it replaces the config of the run.
    #[arg(required_unless_present = "resume")]
    config: Option<PathBuf>,

    /// Resume the run in this directory from its newest checkpoint.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,

    /// Resume from the checkpoint of this step instead of the newest.
    #[arg(long, value_name = "STEP", requires = "resume")]
    at: Option<u64>,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    pub(super) sight: SightArgs,
}

/// A checkpoint to resume, in a run that this process has claimed.
struct Resumed {
    directory: RunDirectory,
    checkpoint: Checkpoint,
}

impl Resumed {
    fn open(run: &Path, at: Option<u64>) -> Result<Self> {
        let directory = RunDirectory::open(run)?.claim()?;
        let checkpoint = at.map_or_else(|| directory.latest(), |step| directory.after(step))?;
        Ok(Self { directory, checkpoint })
    }
}

impl TrainArgs {
    /// The config that is read, the run's own if no other is given.
    pub(super) fn config(&self) -> Option<ConfigArgs> {
        let of_run = || Some(RunDirectory::open(self.resume.as_ref()?).ok()?.config_path());
        let config = self.config.clone().or_else(of_run)?;
        Some(ConfigArgs { config, settings: self.settings.clone() })
    }

    fn load(&self, resumed: Option<&Resumed>) -> Result<Config> {
        let settings = self.settings.all();
        match (&self.config, resumed) {
            (Some(path), None) => Config::load_with(path, settings),
            (Some(path), Some(resumed)) => resumed.directory.load(path, settings),
            (None, Some(Resumed { directory, checkpoint })) => {
                directory.config_at(checkpoint.state().step, settings)
            }
            (None, None) => unreachable!("clap requires one of them"),
        }
    }
}

#[derive(Serialize)]
struct Last<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    sample: Option<String>,
    /// What was predicted for the model, in bytes.
    predicted_memory: Memory,
    /// The most that the process had, in bytes; `None` if the device has memory of its own.
    peak_memory: Option<u64>,
    meters: Option<Meters>,
}

pub(super) async fn run(args: TrainArgs, sight: &Sight, json: bool) -> Result<ExitCode> {
    let resumed = args.resume.as_deref().map(|run| Resumed::open(run, args.at)).transpose()?;
    let mut config = args.load(resumed.as_ref())?;
    train::ready(&config)?;
    if resumed.is_none() {
        RunDirectory::vacant(&config)?;
        if let Some(path) = &args.config {
            config = train::load(path, args.settings.all())?;
        }
    }
    // From here on a request to stop is always heard.
    let seen = sight.clone();
    let stopping = "stopping after this step; ask again to stop at once";
    let mut stop = std::pin::pin!(stop::announced(stopping, move || seen.finish()));
    let slow = match args.resume.is_none() && config.tokenizer.is_learned() {
        true => progress::told("learning a tokenizer from the corpus"),
        false => progress::slow("opening the tokenizer"),
    };
    let tokenizer = tokio::select! {
        tokenizer = loader::open_tokenizer(&config) => tokenizer?,
        () = &mut stop => return Err(Error::Train("interrupted before the first step: nothing is saved".to_owned())),
    };
    drop(slow);
    let memory = Memory::of(&config, tokenizer.vocab_size());
    memory.check(&config)?;
    let mut reporter = Reporter::new(&config, memory, sight, json);
    let outcome = match &resumed {
        Some(Resumed { directory, checkpoint }) => {
            train::resume_from(directory, checkpoint, &config, tokenizer.clone(), &mut reporter, stop).await
        }
        None => train::run(&config, tokenizer.clone(), tokenizer.tokenizer_json(), &mut reporter, stop).await,
    };
    reporter.clear();
    let (outcome, meters) = (outcome?, reporter.watch.as_ref().map(Watch::meters));
    if outcome.end == End::Interrupted {
        let run = config.train.out.to_string_lossy();
        progress::say(&format!("saved {} after step {}", outcome.checkpoint.display(), outcome.step));
        progress::say(&format!("resume with: {}", hint::command(["train", "--resume", &run])));
        if !json {
            // All is saved, and whoever asked may be gone, with the terminal.
            drop(print_sight(&outcome, meters));
        }
        return Ok(ExitCode::from(INTERRUPTED));
    }
    finish(&config, &*tokenizer, &outcome, meters, memory, json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the results of the run, and a sample of its model.
fn finish(
    config: &Config,
    tokenizer: &dyn Tokenizer,
    outcome: &Outcome,
    meters: Option<Meters>,
    predicted_memory: Memory,
    json: bool,
) -> Result<()> {
    let sampling = sampling(config, tokenizer, config.train.sample_tokens);
    let prompt = &config.train.prompt;
    // Taken before the sample, which is made by a model of its own.
    let peak_memory = peak_rss_bytes().filter(|_| config.train.device == "flex");
    if json {
        let wanted = config.train.sample_tokens > 0;
        let text = wanted.then(|| sample(config, tokenizer, prompt, &sampling)).transpose()?;
        let sample = text.clone();
        print_json(&Last { outcome, sample, predicted_memory, peak_memory, meters })?;
        return text.map_or(Ok(()), |text| keep(config, outcome, text));
    }
    let (steps, tokens) = (count(outcome.step, "step"), count(outcome.tokens, "token"));
    print_line(&format!("after {steps} and {tokens}:"))?;
    print_line(&format!("  unigram loss     {:.3}", outcome.unigram_loss))?;
    if let Some(loss) = outcome.loss {
        print_line(&format!("  training loss    {loss:.3}"))?;
    }
    if let Some(loss) = outcome.validation_loss {
        let bits = outcome.bits_per_byte.map_or(String::new(), |bits| format!(", {bits:.3} bits per byte"));
        print_line(&format!("  validation loss  {loss:.3}{bits}"))?;
    }
    print_line(&format!(
        "  {:.0} tokens/s, {:.2}% of the time waiting for data",
        outcome.tokens_per_second,
        outcome.wait_share * 100.0
    ))?;
    if let Some(flops) = outcome.flops_per_second {
        print_line(&format!("  {}", speed(flops, outcome.mfu)))?;
    }
    if let Some(peak) = peak_memory {
        let predicted = bytes(predicted_memory.total() as u64);
        print_line(&format!(
            "  {} of memory at most; {predicted} were predicted for the model",
            bytes(peak)
        ))?;
    }
    print_line(&format!("  {}", outcome.checkpoint.display()))?;
    print_sight(outcome, meters)?;
    if config.train.sample_tokens > 0 {
        print_line("a sample:\n")?;
        let text = sample(config, tokenizer, prompt, &sampling)?;
        print_line(&format!("{prompt}{text}"))?;
        keep(config, outcome, text)?;
    }
    Ok(())
}

/// What the newest model of the config's run makes of the prompt.
fn sample(config: &Config, tokenizer: &dyn Tokenizer, prompt: &str, sampling: &Sampling) -> Result<String> {
    let model = RunDirectory::open(&config.train.out)?.model(config, tokenizer)?;
    complete(&model, tokenizer, prompt, sampling, |_| Ok(()))
}

/// Keeps the sample in the run's directory.
fn keep(config: &Config, outcome: &Outcome, text: String) -> Result<()> {
    let sample = Sample { step: outcome.step, prompt: config.train.prompt.clone(), text };
    RunDirectory::open(&config.train.out)?.keep_sample(&sample)
}

/// Prints what the trainer waited for, and the table of stages.
fn print_sight(outcome: &Outcome, meters: Option<Meters>) -> Result<()> {
    if let Some(verdict) = &outcome.verdict {
        print_line(&verdict.to_string())?;
    }
    meters.map_or(Ok(()), |meters| print_line(&meters.table().to_string()))
}

/// Shows a run: a bar on a terminal, lines elsewhere, or JSON.
struct Reporter {
    json: bool,
    progress: Option<Progress>,
    /// Until the loader is open.
    opening: Option<Slow>,
    /// What the run will take at the peak.
    memory: Memory,
    /// If that is more than there is.
    warning: Option<String>,
    sight: Sight,
    /// Watches the loader of the training batches, once it is open.
    watch: Option<Watch>,
    steps: u64,
    /// The last logged rates, in tokens and in operations, and the last verdict. Single steps are too short to measure
    /// them.
    logged: Option<(String, String, Option<Verdict>)>,
    /// The verdict that was printed last, where there is no terminal.
    printed: Option<Verdict>,
}

impl Reporter {
    fn new(config: &Config, memory: Memory, sight: &Sight, json: bool) -> Self {
        let (sight, steps) = (sight.clone(), config.train.steps);
        let opening = Some(progress::slow("opening the corpus"));
        let warning = memory.warning(config);
        Self {
            json,
            progress: None,
            opening,
            memory,
            warning,
            sight,
            watch: None,
            steps,
            logged: None,
            printed: None,
        }
    }

    fn clear(&self) {
        if let Some(progress) = &self.progress {
            progress.clear();
        }
    }

    /// What is known besides the place, in ways that get shorter.
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

    /// The verdict, if it says something else than the one that was printed last.
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

impl Observer for Reporter {
    fn on_open(&mut self, watch: &Watch) {
        // From now on each step takes the same memory again.
        #[cfg(target_os = "linux")]
        super::allocator::keep_memory();
        self.opening = None;
        progress::say(&format!("memory: {}", self.memory));
        if let Some(warning) = &self.warning {
            progress::say(warning);
        }
        self.sight.watch(watch);
        self.watch = Some(watch.clone());
    }

    fn on_step(&mut self, report: &StepReport) {
        let StepReport { step, loss, tokens_per_second, verdict, .. } = report;
        if let Some(metrics) = self.sight.metrics() {
            metrics.step(report);
        }
        let progress = self.progress.get_or_insert_with(|| Progress::new(self.steps, step - 1)).clone();
        if report.logged {
            let rate = format!("{tokens_per_second:.0} tokens/s");
            let speed = report
                .flops_per_second
                .map_or(String::new(), |flops| format!(", {}", speed(flops, report.mfu)));
            if self.json {
                // If the reader is gone, the run still goes on to its last step.
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
        if let Some(metrics) = self.sight.metrics() {
            metrics.validation(validation);
        }
        if self.json {
            drop(print_json(validation));
        }
        let sources = validation.sources.iter();
        let sources: Vec<String> =
            sources.map(|(name, source)| format!("{name} {:.3}", source.loss)).collect();
        let sources = if sources.is_empty() { String::new() } else { format!(" ({})", sources.join(", ")) };
        progress::say(&format!("step {step}: validation loss {validation_loss:.3}{bits}{sources}"));
    }

    fn on_checkpoint(&mut self, path: &Path) {
        tracing::debug!(path = %path.display(), "checkpoint");
    }

    fn on_message(&mut self, message: &str) {
        progress::say(&hint::pasteable(message));
    }
}
