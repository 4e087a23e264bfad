//! `millstream train`: trains a model, and shows its progress.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::bench::peak_rss_bytes;
use super::cost::speed;
use super::generate::sampling;
use super::settings::Settings;
use super::stop::Words;
use super::telemetry::{Telemetry, TelemetryArgs};
use super::words::{bytes, count};
use super::{INTERRUPTED, Written, as_json, hint, print_json, print_line, progress, stop};
use millstream::error::ResumeFrom;
use millstream::loader::{Watch, stay_at_commits, with_stored_tokenizer};
use millstream::tokenizer::Tokenizer;
use millstream::{Meters, Result};
use millstream_train::cost::Memory;
use millstream_train::{
    Checkpoint, End, Observer, Outcome, Peers, RunConfig, RunDirectory, Sample, Sampling, generate,
};

mod reporter;

use reporter::{Aside, Reporter};

pub(super) const HELP: &str = "\
Example: millstream train configs/quickstart.toml
Example: fewer steps, another directory, JSON output
  millstream train configs/quickstart.toml --set train.steps=200 --set train.out=runs/short --json
Example: resume a run that was interrupted
  millstream train --resume runs/quickstart
Example: begin a run, or go on with it if the job was started before
  millstream train configs/quickstart.toml --auto-resume
Example: go back to an earlier checkpoint, and train on at a lower rate
  millstream train --resume runs/quickstart --at 400 --set train.lr=1e-4

With --json each logged step is a line {step, loss, tokens_per_second, flops_per_second, wait_share, verdict, memory,
stages, …}, and each validation a line {step, validation_loss, bits_per_byte, validation_tokens}. The last line has
unigram_loss, validation_loss, tokens_per_second, wait_share, verdict, the sample, the memory predicted for
the model and the peak of the whole process, and the meters of all stages. Ctrl-C, SIGTERM, SIGUSR1 and a closed
terminal save a checkpoint and exit with code 130. Press Ctrl-C again to exit at once, unsaved, with code 1. The run
keeps what you --set at a resume.";

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

    /// Resume the run in the config's train.out if it has a checkpoint, and begin it otherwise: for jobs that a scheduler
    /// starts again.
    #[arg(long, requires = "config", conflicts_with = "resume")]
    auto_resume: bool,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,
}

/// A run and its checkpoint to resume.
type Resumed = (RunDirectory, Checkpoint);

impl TrainArgs {
    /// The config that is read, the run's own if no other is given, and the settings.
    pub(super) fn written(&self) -> Option<Written> {
        let of_run = || Some(RunDirectory::open(self.resume.as_ref()?).ok()?.config_path());
        let config = self.config.clone().or_else(of_run)?;
        let settings = self.settings.clone();
        Some(Written { config: Some(config), settings, has_at: self.resume.is_some() })
    }

    /// Names the run to resume, with `--auto-resume`. A wrong config is reported later, by one rank.
    fn with_run(mut self) -> Result<Self> {
        let config = self.config.as_ref().filter(|_| self.auto_resume);
        let config = config.and_then(|path| RunConfig::load_with(path, self.settings.all()).ok());
        if let Some(run) = config.and_then(|config| RunDirectory::open(config.train.out).ok())
            && !Checkpoint::steps(&run.checkpoints())?.is_empty()
        {
            self.resume = Some(run.path().to_owned());
        }
        Ok(self)
    }

    /// Joins the processes that train together, as many as the config and the environment say.
    fn join(&self, given: Option<&Result<RunConfig>>) -> Result<Peers> {
        let of_run = |run: &PathBuf| -> millstream::Result<_> {
            let config = RunDirectory::open(run)?.config_to_resume(u64::MAX, self.settings.all())?;
            Ok(config.data.pipeline)
        };
        let pipeline = match (given, &self.resume) {
            (Some(Ok(config)), _) => Some(config.data.pipeline.clone()),
            (None, Some(run)) => of_run(run).ok(),
            _ => None,
        };
        // A wrong config is reported later, by one rank.
        Peers::join(&pipeline.unwrap_or_default())
    }

    /// Opens the run to resume, and loads and checks the config. Without a run to resume, the config is `given`.
    fn open(&self, given: Option<Result<RunConfig>>, peers: &Peers) -> Result<(Option<Resumed>, RunConfig)> {
        let settings = self.settings.all();
        let resumed = self.resume.as_deref().map(|run| RunDirectory::to_resume(run, self.at, peers));
        let resumed = resumed.transpose()?;
        let Some((directory, checkpoint)) = &resumed else {
            let config = given.expect("clap requires one of them")?;
            millstream_train::ready(&config)?;
            if peers.is_first() {
                RunDirectory::vacant(&config)?;
            }
            let path = self.config.as_deref();
            return Ok((None, path.map_or(Ok(config), |path| millstream_train::load(path, settings))?));
        };
        if let Some(cursor) = checkpoint.cursor()? {
            stay_at_commits(&cursor);
        }
        let config = match &self.config {
            Some(path) => directory.load(path, settings)?,
            None => directory.config_to_resume(checkpoint.state().step, settings)?,
        };
        millstream_train::ready(&config)?;
        Ok((resumed, config))
    }
}

pub(super) async fn run(
    args: TrainArgs,
    joined: &mut Peers,
    telemetry: &Telemetry,
    json: bool,
) -> Result<ExitCode> {
    let args = args.with_run()?;
    let path = args.config.as_ref().filter(|_| args.resume.is_none());
    let given = path.map(|path| RunConfig::load_with(path, args.settings.all()));
    let peers = args.join(given.as_ref())?;
    *joined = peers.clone();
    let (resumed, config) = peers.agree(args.open(given, &peers))?;
    let data = peers.agree(with_stored_tokenizer(&config.data).await)?;
    let config = RunConfig { data, ..config };
    // Requests to stop are caught from here on.
    let seen = telemetry.clone();
    let stopping = peers.is_first().then_some(Words {
        first: "stopping after this step; ask again to stop at once",
        second: "stopped at once, as was asked: what came after the last checkpoint is not saved",
        json,
    });
    let mut stop = std::pin::pin!(stop::announced(stopping, move || seen.finish()));
    let slow = peers.is_first().then(|| match args.resume.is_none() && config.data.tokenizer.is_learned() {
        true => progress::told("learning a tokenizer from the corpus"),
        false => progress::slow("opening the tokenizer"),
    });
    let tokenizer = peers.open_tokenizer(&config.data, stop.as_mut()).await?;
    drop(slow);
    let memory = Memory::new(&config, tokenizer.vocab_size());
    peers.agree(memory.check(&config))?;
    let mut reporter = peers.is_first().then(|| Reporter::new(&config, memory, telemetry, json));
    let observer: &mut dyn Observer = match &mut reporter {
        Some(reporter) => reporter,
        None => &mut Aside,
    };
    let outcome = match &resumed {
        Some((directory, checkpoint)) => {
            millstream_train::resume_from(directory, checkpoint, &config, tokenizer.clone(), observer, stop)
                .await
        }
        None => {
            millstream_train::run(&config, tokenizer.clone(), tokenizer.tokenizer_json(), observer, stop)
                .await
        }
    };
    reporter.iter().for_each(Reporter::clear);
    let outcome = outcome?;
    let is_interrupted = outcome.end == End::Interrupted;
    if let Some(reporter) = reporter {
        let meters = reporter.watch.as_ref().map(Watch::meters);
        match is_interrupted {
            true => say_saved(&config, &outcome, meters, json),
            false => finish(&config, &*tokenizer, &outcome, meters, memory, json)?,
        }
    }
    Ok(if is_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Prints the checkpoint of an interrupted run, and the command that resumes it.
fn say_saved(config: &RunConfig, outcome: &Outcome, meters: Option<Meters>, json: bool) {
    let from = ResumeFrom { run: config.train.out.clone(), step: None, settings: Vec::new() };
    progress::say(&format!("saved {} after step {}", outcome.checkpoint.display(), outcome.step));
    progress::say(&format!("resume with: {}", hint::resume(&from)));
    if !json {
        // All is saved, and the terminal may be gone.
        drop(print_waits(outcome, meters));
    }
}

/// Prints the results of the run, and a sample of its model.
fn finish(
    config: &RunConfig,
    tokenizer: &dyn Tokenizer,
    outcome: &Outcome,
    meters: Option<Meters>,
    predicted_memory: Memory,
    json: bool,
) -> Result<()> {
    let sampling = sampling(&config.data, tokenizer, config.train.sample_tokens);
    let prompt = &config.train.prompt;
    // In bytes, and none if the device has its own memory. Read before the sample, which loads another model.
    let peak_memory = peak_rss_bytes().filter(|_| config.train.device == "flex");
    if json {
        let wanted = config.train.sample_tokens > 0;
        let text = wanted.then(|| sample(config, tokenizer, prompt, &sampling)).transpose()?;
        let mut last = as_json(outcome)?;
        (last["sample"], last["predicted_memory"]) = (json!(text), json!(predicted_memory));
        (last["peak_memory"], last["meters"]) = (json!(peak_memory), json!(meters));
        print_json(&last)?;
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
    // A session without steps has no rate.
    let rates = &outcome.rates;
    let has_trained = rates.tokens_per_second > 0.0;
    if has_trained {
        print_line(&format!(
            "  {:.0} tokens/s, {:.2}% of the time waiting for data",
            rates.tokens_per_second,
            rates.wait_share * 100.0
        ))?;
    }
    if let Some(share) = rates.sum_share {
        print_line(&format!(
            "  {:.2}% of the time waiting for other ranks and summing gradients",
            share * 100.0
        ))?;
    }
    if let Some(flops) = rates.flops_per_second {
        print_line(&format!("  {}", speed(flops, rates.mfu)))?;
    }
    if let Some(peak) = peak_memory {
        let predicted = bytes(predicted_memory.total() as u64);
        print_line(&format!(
            "  peak memory: {} of the whole process, {predicted} predicted for the model alone",
            bytes(peak)
        ))?;
    }
    if let Some((skipped, read)) = meters.as_ref().map(skipped).filter(|(skipped, _)| *skipped > 0) {
        let (all, list) = (count(read, "document"), RunDirectory::open(&config.train.out)?.skipped());
        print_line(&format!("  {skipped} of {all} were skipped in this session: see {}", list.display()))?;
    }
    print_line(&format!("  {}", outcome.checkpoint.display()))?;
    if has_trained {
        print_waits(outcome, meters)?;
    }
    if config.train.sample_tokens > 0 {
        print_line("a sample:\n")?;
        let text = sample(config, tokenizer, prompt, &sampling)?;
        print_line(&format!("{prompt}{text}"))?;
        keep(config, outcome, text)?;
    }
    Ok(())
}

/// The sample: the prompt, continued by the newest model of the config's run.
fn sample(
    config: &RunConfig,
    tokenizer: &dyn Tokenizer,
    prompt: &str,
    sampling: &Sampling,
) -> Result<String> {
    let model = RunDirectory::open(&config.train.out)?.model(config, tokenizer)?;
    generate(&model, tokenizer, prompt, sampling, |_| Ok(()))
}

/// Saves the sample in the run's directory.
fn keep(config: &RunConfig, outcome: &Outcome, text: String) -> Result<()> {
    let sample = Sample { step: outcome.step, prompt: config.train.prompt.clone(), text };
    RunDirectory::open(&config.train.out)?.save_sample(&sample)
}

/// How many documents were skipped in this session, and how many were read.
fn skipped(meters: &Meters) -> (u64, u64) {
    let skipped = meters.stages.iter().map(|stage| stage.skipped).sum();
    let read = meters.stages.first().map_or(0, |source| source.documents + source.skipped);
    (skipped, read)
}

/// Prints the stage that the trainer waited for, and the table of stages.
fn print_waits(outcome: &Outcome, meters: Option<Meters>) -> Result<()> {
    if let Some(verdict) = &outcome.verdict {
        print_line(&verdict.to_string())?;
    }
    meters.map_or(Ok(()), |meters| print_line(&meters.table().to_string()))
}
