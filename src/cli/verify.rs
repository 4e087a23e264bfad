//! `millstream verify`: how anybody proves the laws on their own config and data.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use millstream::verify::{Check, Difference, Law, Plan, Report};
use millstream::{Config, Error, Loader, Result};
use serde::Serialize;
use tokio_stream::StreamExt;

use super::{ConfigArgs, INTERRUPTED, print_json, print_line, stop};

pub(super) const HELP: &str = "\
Example: workers, kills and ranks, on the first 200 batches
  millstream verify configs/quickstart.toml

Example: a loader with stages of its own, whose main begins with millstream::verify::serve
  millstream verify my.toml --program target/release/my-loader --points 50

Every run is a process of its own and is compared with one quiet run, by the ids of each row, the documents
that they are of, and the digests in the cursors. Exit codes: 0 no difference, 1 a difference or a failure,
130 interrupted.";

/// The name of the command that makes this program a child.
pub(super) const CHILD: &str = "verify-child";

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// How many batches to compare; fewer if the stream ends before.
    #[arg(long, short = 'n', default_value = "200")]
    batches: NonZeroU64,

    /// How many processes to kill at their work and to resume.
    #[arg(long, short = 'k', default_value = "10")]
    points: u64,

    /// The numbers of ranks; by default those of 1, 2, 4 and 8 that divide pipeline.lanes and, without
    /// pipeline.batch_tokens, pipeline.batch_size.
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    world: Option<Vec<NonZeroUsize>>,

    /// The numbers of workers.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,8")]
    workers: Vec<NonZeroUsize>,

    /// The depths, each with each number of workers.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16")]
    depth: Vec<NonZeroUsize>,

    /// What the random moments are drawn from; by default another number each time, which is printed.
    #[arg(long)]
    seed: Option<u64>,

    /// How long a process may go without a batch. Ranks of a finite config count the whole corpus before theirs.
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    patience: u64,

    /// The program to start instead of this one, for a loader with stages of its own.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The report as scripts read it.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    report: &'a Report,
    seconds: Seconds,
    difference: Option<First<'a>>,
}

#[derive(Serialize)]
struct Seconds {
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
    let given_up = Arc::new(AtomicBool::new(false));
    let interrupted = tokio::spawn({
        let given_up = given_up.clone();
        async move {
            match stop::requests() {
                Ok(mut requests) => requests.next().await,
                // Without a handler the system's own remains: it stops at once.
                Err(_) => std::future::pending().await,
            };
            given_up.store(true, Ordering::Relaxed);
        }
    });
    let mut config = args.config.load()?;
    let directory =
        tempfile::tempdir().map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))?;
    if config.tokenizer.is_learned() {
        learn_once(&mut config, directory.path().join("tokenizer.json")).await?;
    }
    let config = millstream::loader::resolved(&config).await?;
    let mut plan = match &args.program {
        Some(program) => Plan::new(config, program),
        None => {
            let own = std::env::current_exe().map_err(|e| Error::io("this program", "find", e))?;
            Plan { args: vec![CHILD.to_owned()], ..Plan::new(config, own) }
        }
    };
    (plan.batches, plan.points, plan.workers, plan.depths) =
        (args.batches, args.points, args.workers, args.depth);
    plan.patience = Duration::from_secs(args.patience);
    plan.seed = args.seed.unwrap_or(plan.seed);
    plan.worlds = args.world.unwrap_or(plan.worlds);
    let work = tokio::task::spawn_blocking(move || plan.run(&given_up));
    let report = work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
    // It ends by itself only after an interruption.
    if interrupted.is_finished() && report.is_err() {
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

/// Learns the tokenizer that every child would learn, and puts it where they find it.
async fn learn_once(config: &mut Config, path: PathBuf) -> Result<()> {
    let tokenizer = millstream::loader::open_tokenizer(config).await?;
    let json = tokenizer.tokenizer_json().unwrap_or_default();
    std::fs::write(&path, json).map_err(|e| millstream::Error::io(&path, "write", e))?;
    (config.tokenizer.path, config.tokenizer.train) = (Some(path), None);
    Ok(())
}

fn summary(report: &Report) -> Summary<'_> {
    let seconds = Seconds {
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
    match millstream::verify::serve(Loader::builder).await? {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::config(CHILD, "only `millstream verify` starts this")),
    }
}
