//! `millstream verify`: checks the laws on your config and data.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use serde_json::{Value, json};

use super::failure::Failure;
use super::program::program;
use super::settings::Settings;
use super::{INTERRUPTED, RunConfig, blocking, hint, print_json, print_line, progress, stop, temporary};
use millstream::config::Seconds;
use millstream::verify::{Check, Law, Plan, Report};
use millstream::{Error, Loader, Result};

pub(super) const HELP: &str = "\
Example: check workers, kills and ranks on the first 200 batches
  millstream verify configs/quickstart.toml

Example: check a loader with custom stages, whose main begins with millstream::verify::serve
  millstream verify my.toml --program target/release/my-loader --points 50

Example: check any loader, such as a PyTorch one; the docs of millstream::verify say what the program has to do
  millstream verify --program \"python my_loader.py\" --workers 0,2,4

Each run is a separate process. It is compared with an undisturbed run: the ids of each row, the documents that they
come from, and the digests in the cursors; of any loader, the digests that it gives its rows. The first row that was
lost, repeated, changed or moved is named. Exit codes: 0 no difference, 1 a difference or a failure, 130 interrupted.";

/// The name of the command that makes this program a child.
pub(super) const CHILD: &str = "verify-child";

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The config: a .toml, .json or .yaml file. Without it, the program is any loader.
    #[arg(required_unless_present = "program")]
    pub(super) config: Option<PathBuf>,

    #[command(flatten)]
    pub(super) settings: Settings,

    /// How many batches to compare. Fewer if the stream ends earlier.
    #[arg(long, short = 'n', default_value = "200")]
    batches: NonZeroU64,

    /// How many processes to kill while they work, and to resume.
    #[arg(long, short = 'k', default_value = "10")]
    points: u64,

    /// The numbers of ranks to compare. Default: those of 1, 2, 4 and 8 that divide pipeline.lanes and, without
    /// pipeline.batch_tokens, pipeline.batch_size; 1 without a config.
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    world: Option<Vec<NonZeroUsize>>,

    /// The numbers of workers to compare. Default: 1,2,8; without a config 0,1,2, where 0 is the process itself.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    workers: Option<Vec<usize>>,

    /// The depths to compare, each with each number of workers. Default: 1,16. Only with a config.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    depth: Option<Vec<NonZeroUsize>>,

    /// The seed of the moments of the kills. Default: a new one each time. It is printed.
    #[arg(long)]
    seed: Option<u64>,

    /// How long a process may take for a batch: seconds, or with a unit, such as 10min. With a finite config, ranks
    /// wait at their end until the whole corpus is counted.
    #[arg(long, value_name = "DURATION", default_value = "5min")]
    patience: Seconds,

    /// The program to start instead of this one: a file, or a command line with arguments, quoted as in a shell. With
    /// a config it is a loader with custom stages, without one any loader.
    #[arg(long, value_name = "COMMAND")]
    program: Option<PathBuf>,
}

pub(super) async fn run(args: VerifyArgs, json: bool) -> Result<ExitCode, Failure> {
    let requested = stop::requested().shared();
    let given_up = stop::flag(requested.clone());
    let directory = temporary()?;
    let plan = tokio::select! {
        plan = plan(args, directory.path()) => plan?,
        () = requested => {
            progress::say("interrupted before anything was compared");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let flag = given_up.clone();
    let report = match blocking(move || plan.run(&flag).map_err(by_option)).await {
        // It failed because of the interruption, and says what was compared.
        Err(Failure::Failed(error)) if given_up.load(Ordering::Relaxed) => {
            progress::say(&error.to_string());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        report => report?,
    };
    if json {
        print_json(&summary(&report))?;
    } else {
        print_line(&report.to_string())?;
    }
    Ok(if report.mismatches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plan of the comparison. A tokenizer that has to be learned is written to `directory`.
async fn plan(args: VerifyArgs, directory: &Path) -> Result<Plan, Failure> {
    let (program, arguments) = match &args.program {
        Some(program) => command(program)?,
        None => {
            let (own, before) = program().again();
            let mut arguments: Vec<String> =
                before.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            arguments.push(CHILD.to_owned());
            (own.into(), arguments)
        }
    };
    let mut plan = match &args.config {
        Some(config) => {
            let config = RunConfig::load_with(config, args.settings.all())?.data;
            let _slow = progress::slow("listing the files");
            Plan::new(millstream::loader::resolved(&config).await?, program)
        }
        None if !args.settings.all().is_empty() => {
            return Err(Failure::usage("--set", "it overrides a key of a config; give the config too"));
        }
        None => Plan::of_any(program),
    };
    (plan.args, plan.batches, plan.points) = (arguments, args.batches.get(), args.points);
    plan.workers = args.workers.unwrap_or(plan.workers);
    plan.depths = args.depth.map_or(plan.depths, plain);
    plan.worlds = args.world.map_or(plan.worlds, plain);
    plan.patience = Duration::try_from_secs_f64(args.patience.0)
        .map_err(|e| Failure::usage("--patience", format!("it is too long: {e}")))?;
    plan.seed = args.seed.unwrap_or(plan.seed);
    plan.check().map_err(by_option)?;
    if let Some(config) = plan.config_mut() {
        if args.program.is_none() {
            // Another program may have its own documents and tokenizer.
            millstream::loader::check(config).await?;
            *config = millstream::loader::with_stored_tokenizer(config).await?;
        }
        if config.tokenizer.is_learned() {
            super::learn_once(config, directory).await?;
        }
    }
    Ok(plan)
}

/// A program and its arguments. A file may have spaces in its path.
fn command(program: &Path) -> Result<(PathBuf, Vec<String>), Failure> {
    let line = match program.to_str() {
        Some(line) if !program.is_file() => line,
        _ => return Ok((program.to_owned(), Vec::new())),
    };
    let Some(words) = shlex::split(line) else {
        return Err(Failure::usage("--program", format!("a quote is not closed: {line}")));
    };
    let mut words = words.into_iter();
    match words.next() {
        Some(program) => Ok((program.into(), words.collect())),
        None => Err(Failure::usage("--program", "it is empty; give a file or a command line")),
    }
}

/// The error with the option that is wrong, instead of the plan's field.
fn by_option(error: Error) -> Failure {
    match error {
        Error::Config { key, problem, .. } if ["batches", "workers", "depth", "world"].contains(&&*key) => {
            Failure::usage(format!("--{key}"), problem)
        }
        error => error.into(),
    }
}

fn plain(numbers: Vec<NonZeroUsize>) -> Vec<usize> {
    numbers.into_iter().map(NonZeroUsize::get).collect()
}

/// The report for scripts.
fn summary(report: &Report) -> Value {
    let mut summary = json!(report);
    summary["seconds"] = json!({
        "order": report.seconds(Law::Order),
        "resume": report.seconds(Law::Resume),
        "world": report.seconds(Law::World),
    });
    summary["difference"] = json!(report.first_difference().map(|(Check { law, how, .. }, difference)| {
        let mut first = json!(difference);
        (first["law"], first["how"]) = (json!(law), json!(how));
        first
    }));
    summary
}

/// The command that runs this program as a child.
pub(super) async fn child() -> Result<ExitCode> {
    match millstream::verify::serve(Loader::builder).await? {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::config(CHILD, format!("only `{}` starts this", hint::command(["verify"])))),
    }
}
