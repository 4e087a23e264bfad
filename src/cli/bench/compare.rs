//! `millstream bench --compare`: what it is worth that batches are made while the consumer works.
//!
//! The same batches are made on demand, then ahead by one worker, then ahead by all workers, each in a process of its
//! own, in turns. What they delivered must be equal; how long it took and what it held is what is compared.

use std::io::Write;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use millstream::config::OrAuto;
use millstream::tokenizer::Tokenizer;
use millstream::{Config, Error, Loader, Result};
use tokio_stream::StreamExt;

use super::consumer::Spend;
use crate::cli::{INTERRUPTED, print_json, print_line, progress, stop};

mod child;
mod plot;
mod process;
mod report;

pub(in crate::cli) use child::serve;
use child::{Measured, Orders, Takes, Way};
use report::{Report, Workload};

/// The name of the command that makes this program a child.
pub(in crate::cli) const COMMAND: &str = "compare-child";

/// How many batches a run takes unless it is told.
const BATCHES: u64 = 200;

/// The first is not measured.
const LEAST: u64 = 2;

/// How long the simulated consumer takes unless it is told.
const CONSUMES: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Compare three ways to make the same batches: on demand, ahead by one worker, ahead by all workers.
    #[arg(long, conflicts_with_all = ["bare", "trace", "metrics_addr"])]
    pub(super) compare: bool,

    /// With --compare: train the config's model, a step a batch, instead of a simulated consumer.
    #[arg(long, requires = "compare", conflicts_with_all = ["consume_ms", "consume_by"])]
    train: bool,

    /// With --compare: batches of so many rows; by default the config's.
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "compare")]
    batch_sizes: Option<Vec<NonZeroUsize>>,

    /// With --compare: rows of so many targets; by default the config's.
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "compare")]
    seq_lens: Option<Vec<NonZeroUsize>>,

    /// With --compare: let so many sequences wait ahead, whatever pipeline.depth says.
    #[arg(long, value_name = "SEQUENCES", requires = "compare")]
    in_flight: Option<NonZeroUsize>,

    /// With --compare: a fourth way, that holds all batches in memory before it takes the first.
    #[arg(long, requires = "compare")]
    load_all: bool,

    /// With --compare: how often each way runs; the medians count.
    #[arg(long, value_name = "N", requires = "compare")]
    rounds: Option<NonZeroU64>,

    /// With --compare: where the table, the plot and the figures go; by default beside the run's directory.
    #[arg(long, value_name = "DIR", requires = "compare")]
    out: Option<PathBuf>,
}

/// What all runs of a comparison have in common.
struct Plan {
    config: Config,
    /// The rows and the targets a row of each shape of batches.
    shapes: Vec<(usize, usize)>,
    ways: Vec<Way>,
    takes: Takes,
    batches: u64,
    rounds: u64,
    in_flight: Option<NonZeroUsize>,
}

/// The outcomes of all shapes.
type Outcomes = Vec<((usize, usize), Outcome)>;

/// What came of one shape: the config's workers and depth, and what each way measured.
type Outcome = ((OrAuto, OrAuto), Vec<(Way, Vec<Measured>)>);

/// Compares, writes and prints. `consumer` is what the simulated one was told.
pub(super) async fn run(
    args: CompareArgs,
    (path, config): (&Path, Config),
    (spend, time): (Spend, Option<Duration>),
    batches: Option<NonZeroU64>,
    json: bool,
) -> Result<ExitCode> {
    let out = args.out.clone().unwrap_or_else(|| beside(&config.train.out));
    let mut plan = plan(&args, config, (spend, time), batches)?;
    // What cannot be written is told before anything is measured.
    let there = out.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(there).map_err(|e| Error::io(there, "write to the directory", e))?;
    let tokenizer = tokenizer(&plan.config).await?;
    // So is what a loader refuses.
    for shape in &plan.shapes {
        Loader::builder(&plan.shaped(*shape)).tokenizer(tokenizer.clone()).on_demand().open().await?;
    }
    // Until here there is nothing to clear away, and who asks to stop is heard at once.
    let stop = Arc::new(AtomicBool::new(false));
    let asked = tokio::spawn(interrupted(stop.clone()));
    let kept = tempfile::tempdir().map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))?;
    // A learned one is learned once, and not by each child.
    if let (true, Some(json)) = (plan.config.tokenizer.is_learned(), tokenizer.tokenizer_json()) {
        let path = kept.path().join("tokenizer.json");
        std::fs::write(&path, json).map_err(|e| Error::io(&path, "write", e))?;
        (plan.config.tokenizer.path, plan.config.tokenizer.train) = (Some(path), None);
    }
    drop(tokenizer);
    let (rounds, takes) = (plan.rounds, plan.takes);
    let work = tokio::task::spawn_blocking(move || plan.run(&stop));
    let measured = work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))?;
    asked.abort();
    let Some(measured) = measured else {
        progress::say("interrupted: nothing is written");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let workloads = measured.into_iter().map(|(shape, (ahead, ways))| Workload::new(shape, ahead, &ways));
    let mut report = Report {
        config: path.display().to_string(),
        cores: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        takes,
        rounds,
        workloads: workloads.collect(),
        files: ["compare.md", "compare.svg", "compare.json"].map(|name| out.join(name)).into(),
    };
    write(&mut report)?;
    if json {
        return print_json(&report).map(|()| ExitCode::SUCCESS);
    }
    print_line(report.text().trim_end())?;
    for file in &report.files {
        print_line(&format!("wrote {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets `stop` when somebody asks for it.
async fn interrupted(stop: Arc<AtomicBool>) {
    let Ok(mut requests) = stop::requests() else {
        // Without a handler the system's own remains: it stops at once.
        return;
    };
    requests.next().await;
    stop.store(true, Ordering::Relaxed);
}

/// A directory beside that of the run, which has to stay empty for the run.
fn beside(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push("-compare");
    run.with_file_name(name)
}

/// Loads the tokenizer, or learns it.
async fn tokenizer(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    if config.tokenizer.is_learned() {
        progress::say("learning a tokenizer from the corpus");
    }
    millstream::loader::open_tokenizer(config).await
}

fn plan(
    args: &CompareArgs,
    mut config: Config,
    (spend, time): (Spend, Option<Duration>),
    batches: Option<NonZeroU64>,
) -> Result<Plan> {
    let paths = config.sources.iter().flat_map(|source| &source.paths);
    if paths.into_iter().any(|path| path == "-") {
        return Err(Error::config("source.paths", "standard input comes only once; compare with files"));
    }
    // What one run kept would make the next one faster.
    config.sources.iter_mut().for_each(|source| source.cache = None);
    // The environment of a launcher has no say: each child is the whole world.
    (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(NonZeroUsize::MIN));
    if args.batch_sizes.is_some() && config.pipeline.batch_tokens.is_some() {
        let problem = "batches have as many rows as fit; leave --batch-sizes or pipeline.batch_tokens out";
        return Err(Error::config("pipeline.batch_tokens", problem));
    }
    let batches = batches.map_or(BATCHES, NonZeroU64::get);
    if batches < LEAST {
        let problem =
            format!("{batches} leaves nothing to measure behind the first; it must be at least {LEAST}");
        return Err(Error::config("--batches", problem));
    }
    let takes = match args.train {
        true => Takes::Train,
        false => Takes::Simulated { spend, seconds: time.unwrap_or(CONSUMES).as_secs_f64() },
    };
    let sizes = args.batch_sizes.clone().unwrap_or_else(|| vec![config.pipeline.batch_size]);
    let lengths = match &args.seq_lens {
        Some(lengths) => lengths.iter().map(|length| length.get()).collect(),
        None => vec![config.pipeline.seq_len],
    };
    let of_size =
        |size: &NonZeroUsize| lengths.iter().map(|&length| (size.get(), length)).collect::<Vec<_>>();
    let mut ways = vec![Way::OnDemand, Way::Prefetch, Way::Workers];
    ways.extend(args.load_all.then_some(Way::LoadAll));
    let plan = Plan {
        shapes: sizes.iter().flat_map(of_size).collect(),
        ways,
        takes,
        batches,
        rounds: args.rounds.map_or(3, NonZeroU64::get),
        in_flight: args.in_flight,
        config,
    };
    // What is wrong is said before anything runs.
    plan.shapes.iter().try_for_each(|shape| plan.shaped(*shape).validate())?;
    Ok(plan)
}

impl Plan {
    /// The config of batches of one shape.
    fn shaped(&self, (size, length): (usize, usize)) -> Config {
        let mut config = self.config.clone();
        config.pipeline.batch_size = NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN);
        config.pipeline.seq_len = length;
        if let Some(sequences) = self.in_flight {
            config.pipeline.depth =
                NonZeroUsize::new(sequences.get().div_ceil(size)).unwrap_or(NonZeroUsize::MIN).into();
        }
        config.train.steps = self.batches;
        config
    }

    fn orders(&self, shape: (usize, usize), way: Way) -> Orders {
        let mut config = self.shaped(shape);
        if way == Way::Prefetch {
            config.pipeline.workers = NonZeroUsize::MIN.into();
        }
        Orders { config, way, takes: self.takes, batches: self.batches }
    }

    /// Runs every way of every shape in turns; none if `stop` was set meanwhile.
    fn run(&self, stop: &AtomicBool) -> Result<Option<Outcomes>> {
        let runs = self.rounds * (self.shapes.len() * self.ways.len()) as u64;
        let bar = progress::bar(runs * self.batches, 0);
        let mut outcomes: Outcomes = self
            .shapes
            .iter()
            .map(|&shape| {
                let pipeline = self.shaped(shape).pipeline;
                let ways = self.ways.iter().map(|way| (*way, Vec::new())).collect();
                (shape, ((pipeline.workers, pipeline.depth), ways))
            })
            .collect();
        for round in 1..=self.rounds {
            for (shape, (_, ways)) in &mut outcomes {
                for (way, measured) in ways.iter_mut() {
                    let (size, length) = *shape;
                    let what = format!("round {round}/{}, {size} × {length}, {}", self.rounds, way.name());
                    bar.set_message(what.clone());
                    let before = bar.position();
                    let orders = self.orders(*shape, *way);
                    let taken = |batches| bar.set_position(before + batches);
                    let Some(run) =
                        process::run(&orders, stop, taken).inspect_err(|_| bar.finish_and_clear())?
                    else {
                        bar.finish_and_clear();
                        return Ok(None);
                    };
                    bar.set_position(before + self.batches);
                    if bar.is_hidden() {
                        let (rate, wait) = (report::count(run.tokens_per_second), run.wait_share * 100.0);
                        progress::say(&format!("{what}: {rate} tokens/s, {wait:.2}% data wait"));
                    }
                    measured.push(run);
                }
                are_equal(ways)?;
            }
        }
        bar.finish_and_clear();
        Ok(Some(outcomes))
    }
}

/// Refuses to compare what is not the same work.
fn are_equal(ways: &[(Way, Vec<Measured>)]) -> Result<()> {
    let mut runs = ways.iter().flat_map(|(way, runs)| runs.iter().map(move |run| (way, run)));
    let Some((_, first)) = runs.next() else { return Ok(()) };
    let of = |run: &Measured| (run.batches, run.tokens, run.digest.clone());
    let Some((way, other)) = runs.find(|(_, run)| of(run) != of(first)) else { return Ok(()) };
    let problem = format!(
        "`{}` delivered {} tokens, digest {}, and `{}` {}, digest {}: did files change meanwhile? `millstream verify` \
         tells what differs",
        Way::OnDemand.name(),
        first.tokens,
        first.digest,
        way.name(),
        other.tokens,
        other.digest
    );
    Err(Error::Verify { problem })
}

/// Writes the table, the plot and the figures: each whole, or not at all.
fn write(report: &mut Report) -> Result<()> {
    let json =
        serde_json::to_string(&report).map_err(|e| Error::io("compare.json", "write", e.into()))? + "\n";
    let contents = [report.markdown(), plot::svg(report), json];
    for (path, content) in report.files.iter().zip(contents) {
        let directory = path.parent().unwrap_or(Path::new("."));
        let write = || {
            std::fs::create_dir_all(directory)?;
            let mut builder = tempfile::Builder::new();
            // Readable by whom the system's mask lets.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let mut file = builder.prefix(".tmp").tempfile_in(directory)?;
            file.write_all(content.as_bytes())?;
            file.persist(path).map_err(|e| e.error)
        };
        write().map_err(|e| Error::io(path, "write", e))?;
    }
    Ok(())
}
