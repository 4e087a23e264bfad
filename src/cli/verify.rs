//! `millstream verify`: checks the laws on your config and data.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use serde::Serialize;

use super::program::program;
use super::{ConfigArgs, INTERRUPTED, print_json, print_line, stop};
use crate::config::Seconds;
use crate::verify::{Check, Difference, Law, Plan, Report};
use crate::{Config, Error, Loader, Result};

pub(super) const HELP: &str = "\
Example: check workers, kills and ranks on the first 200 batches
  millstream verify configs/quickstart.toml

Example: check a loader with custom stages, whose main begins with crate::verify::serve
  millstream verify my.toml --program target/release/my-loader --points 50

Each run is a separate process. It is compared with an undisturbed run: the ids of each row, the documents that they
come from, and the digests in the cursors. Exit codes: 0 no difference, 1 a difference or a failure, 130 interrupted.";

/// The name of the command that makes this program a child.
pub(super) const CHILD: &str = "verify-child";

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches to compare. Fewer if the stream ends earlier.
    #[arg(long, short = 'n', default_value = "200")]
    batches: NonZeroU64,

    /// How many processes to kill while they work, and to resume.
    #[arg(long, short = 'k', default_value = "10")]
    points: u64,

    /// The numbers of ranks to compare. Default: those of 1, 2, 4 and 8 that divide pipeline.lanes and, without
    /// pipeline.batch_tokens, pipeline.batch_size.
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    world: Option<Vec<NonZeroUsize>>,

    /// The numbers of workers to compare.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,8")]
    workers: Vec<NonZeroUsize>,

    /// The depths to compare, each with each number of workers.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16")]
    depth: Vec<NonZeroUsize>,

    /// The seed of the moments of the kills. Default: a new one each time. It is printed.
    #[arg(long)]
    seed: Option<u64>,

    /// How long a process may take for a batch: seconds, or with a unit, such as 10min. With a finite config, each rank
    /// first counts the whole corpus.
    #[arg(long, value_name = "DURATION", default_value = "5min")]
    patience: Seconds,

    /// The program to start instead of this one, for a loader with custom stages.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The report for scripts.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    report: &'a Report,
    seconds: LawSeconds,
    difference: Option<First<'a>>,
}

#[derive(Serialize)]
struct LawSeconds {
    order: f64,
    resume: f64,
    world: f64,
}

#[derive(Serialize)]
struct First<'a> {
    law: Law,
    how: &'a str,
    #[serde(flatten)]
    difference: &'a Difference,
}

pub(super) async fn run(args: VerifyArgs, json: bool) -> Result<ExitCode> {
    let requested = stop::requested().shared();
    let given_up = stop::flag(requested.clone());
    let directory =
        tempfile::tempdir().map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))?;
    let plan = tokio::select! {
        plan = plan(args, directory.path()) => plan?,
        () = requested => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let flag = given_up.clone();
    let work = tokio::task::spawn_blocking(move || plan.run(&flag).map_err(by_option));
    let report = work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
    // A report that failed after an interruption failed because of it.
    if given_up.load(Ordering::Relaxed) && report.is_err() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let report = report?;
    if json {
        print_json(&summary(&report))?;
    } else {
        print_line(&report.to_string())?;
    }
    Ok(if report.mismatches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is to be compared. A tokenizer that has to be learned is written to `directory`.
async fn plan(args: VerifyArgs, directory: &Path) -> Result<Plan> {
    let config = args.config.load()?;
    let slow = super::progress::slow("listing the files");
    let config = crate::loader::resolved(&config).await?;
    drop(slow);
    let mut plan = match &args.program {
        Some(program) => Plan::new(config, program),
        None => {
            let (file, before) = program().again();
            let mut args: Vec<String> =
                before.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            args.push(CHILD.to_owned());
            Plan { args, ..Plan::new(config, file) }
        }
    };
    (plan.batches, plan.points, plan.workers, plan.depths) =
        (args.batches.get(), args.points, plain(args.workers), plain(args.depth));
    plan.patience = Duration::try_from_secs_f64(args.patience.0)
        .map_err(|e| Error::config("--patience", format!("it is too long: {e}")))?;
    plan.seed = args.seed.unwrap_or(plan.seed);
    plan.worlds = args.world.map_or(plan.worlds, plain);
    plan.check().map_err(by_option)?;
    if args.program.is_none() {
        // Another program may have its own documents and tokenizer.
        crate::loader::check(&plan.config).await?;
        plan.config = crate::loader::with_rows(&plan.config).await?;
    }
    if plan.config.tokenizer.is_learned() {
        learn_once(&mut plan.config, directory.join("tokenizer.json")).await?;
    }
    Ok(plan)
}

/// The error with the option that is wrong, instead of the plan's field of that name.
fn by_option(error: Error) -> Error {
    match error {
        Error::Config { key, problem, .. } if ["batches", "workers", "depth", "world"].contains(&&*key) => {
            Error::config(format!("--{key}"), problem)
        }
        error => error,
    }
}

fn plain(numbers: Vec<NonZeroUsize>) -> Vec<usize> {
    numbers.into_iter().map(NonZeroUsize::get).collect()
}

/// Learns the tokenizer once, so that the children need not.
async fn learn_once(config: &mut Config, path: PathBuf) -> Result<()> {
    let tokenizer = super::open_tokenizer(config).await?;
    let json = tokenizer.tokenizer_json().unwrap_or_default();
    std::fs::write(&path, json).map_err(|e| crate::Error::io(&path, "write", e))?;
    (config.tokenizer.path, config.tokenizer.train) = (Some(path), None);
    Ok(())
}

fn summary(report: &Report) -> Summary<'_> {
    let seconds = LawSeconds {
        order: report.seconds(Law::Order),
        resume: report.seconds(Law::Resume),
        world: report.seconds(Law::World),
    };
    let first = report.first_difference();
    let difference = first.map(|(Check { law, how, .. }, difference)| First { law: *law, how, difference });
    Summary { report, seconds, difference }
}

/// This program as a child.
pub(super) async fn child() -> Result<ExitCode> {
    match crate::verify::serve(Loader::builder).await? {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::config(CHILD, "only `millstream verify` starts this")),
    }
}
