//! The gain of overlap: making batches while the consumer works.
//!
//! The same batches are made on demand, then ahead with one worker, then ahead with all workers. Each way runs in a
//! separate process, one after the other. All must deliver the same ids; their time and memory are compared.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use serde::Serialize;

use super::consumer::{Spend, milliseconds};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{
    ConfigArgs, INTERRUPTED, RunConfig, blocking, hint, learn_once, print_json, print_line, progress, stop,
    temporary,
};
use millstream::config::SourceConfig;
use millstream::loader::with_stored_tokenizer;
use millstream::{Error, Loader, Result};

mod child;
mod report;

pub(crate) use child::serve;
use child::{Measured, Orders, Takes, Way};
use report::{Report, Workload};

/// The hidden command that runs one child.
pub(crate) const COMMAND: &str = "compare-child";

/// The fewest batches: the first is not measured.
const LEAST: u64 = 2;

pub(super) const HELP: &str = "\
Example: for a trainer that takes 20 ms a batch, at three batch sizes
  millstream bench compare configs/quickstart.toml --batch-sizes 4,16,64

Each way runs in a separate process, one after the other, and all must deliver the same ids. Token caches are off, and
the rates and shares leave out the first tenth of the batches.";

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches each way makes. Fewer if the stream ends earlier.
    #[arg(long, short = 'n', default_value = "200")]
    batches: NonZeroU64,

    /// Spend this many milliseconds on each batch, as a trainer would.
    #[arg(long, value_name = "MS", default_value = "20", value_parser = milliseconds)]
    consume_ms: Duration,

    /// How to spend that time: asleep, as while an accelerator works, or busy on one core.
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    consume_by: Spend,

    /// Train the config's model instead, one step per batch.
    #[cfg(feature = "train")]
    #[arg(long, conflicts_with_all = ["consume_ms", "consume_by"])]
    train: bool,

    /// The batch sizes to compare, in rows. Default: the config's.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    batch_sizes: Option<Vec<NonZeroUsize>>,

    /// The row lengths to compare, in targets. Default: the config's.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    seq_lens: Option<Vec<NonZeroUsize>>,

    /// How many sequences may wait ahead. Overrides pipeline.depth.
    #[arg(long, value_name = "SEQUENCES")]
    in_flight: Option<NonZeroUsize>,

    /// Add a fourth way, which holds all batches in memory before the first is taken.
    #[arg(long)]
    load_all: bool,

    /// How often each way runs. The medians count.
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroU64,
}

impl CompareArgs {
    /// The consumer of the batches.
    fn takes(&self) -> Takes {
        #[cfg(feature = "train")]
        if self.train {
            return Takes::Train;
        }
        Takes::Simulated { spend: self.consume_by, seconds: self.consume_ms.as_secs_f64() }
    }
}

/// What all runs of a comparison share.
struct Plan {
    config: RunConfig,
    shapes: Vec<Shape>,
    ways: Vec<Way>,
    args: CompareArgs,
}

/// The shape of batches: the rows, and the targets per row.
#[derive(Clone, Copy, Debug, Serialize)]
struct Shape {
    batch_size: usize,
    seq_len: usize,
}

impl Shape {
    fn name(self) -> String {
        format!("{} × {}", self.batch_size, self.seq_len)
    }
}

/// What the rounds of each way measured.
type Rounds = Vec<(Way, Vec<Measured>)>;

pub(super) async fn run(args: CompareArgs, json: bool) -> Result<ExitCode, Failure> {
    let mut config = args.config.load()?;
    config.data = with_stored_tokenizer(&config.data).await?;
    let path = args.config.config.display().to_string();
    let mut plan = plan(args, config)?;
    let kept = temporary()?;
    let requested = stop::requested().shared();
    let stop = stop::flag(requested.clone());
    tokio::select! {
        ready = plan.ready(kept.path()) => ready?,
        () = requested => return Ok(interrupted()),
    }
    let (rounds, takes) = (plan.args.rounds.get(), plan.args.takes());
    let Some(workloads) = blocking(move || plan.run(&stop)).await? else { return Ok(interrupted()) };
    let report = Report { config: path, cores: crate::cores(), takes, rounds, workloads };
    if json { print_json(&report) } else { print_line(&report.table()) }?;
    Ok(ExitCode::SUCCESS)
}

fn interrupted() -> ExitCode {
    progress::say("interrupted: nothing was compared to its end");
    ExitCode::from(INTERRUPTED)
}

fn plan(args: CompareArgs, mut config: RunConfig) -> Result<Plan, Failure> {
    let data = &mut config.data;
    if data.sources.iter().any(SourceConfig::is_stdin) {
        let problem = "standard input comes only once; compare with files";
        return Err(Error::config("source.paths", problem).into());
    }
    // Tokens that one run cached would make the next one faster.
    data.sources.iter_mut().for_each(|source| source.cache = None);
    // Ignore the environment of a launcher: each child is the only process.
    (data.pipeline.rank, data.pipeline.world) = (Some(0), Some(1));
    if args.batch_sizes.is_some() && data.pipeline.batch_tokens.is_some() {
        let problem = "batches have as many rows as fit; leave --batch-sizes or pipeline.batch_tokens out";
        return Err(Error::config("pipeline.batch_tokens", problem).into());
    }
    let batches = args.batches.get();
    if batches < LEAST {
        let problem =
            format!("{batches} leaves nothing to measure behind the first; it must be at least {LEAST}");
        return Err(Failure::usage("--batches", problem));
    }
    let sizes = match &args.batch_sizes {
        Some(sizes) => sizes.iter().map(|size| size.get()).collect(),
        None => vec![data.pipeline.batch_size],
    };
    let lengths = match &args.seq_lens {
        Some(lengths) => lengths.iter().map(|length| length.get()).collect(),
        None => vec![data.pipeline.seq_len],
    };
    let of_size = |&batch_size: &usize| {
        lengths.iter().map(|&seq_len| Shape { batch_size, seq_len }).collect::<Vec<_>>()
    };
    let mut ways = vec![Way::OnDemand, Way::Prefetch, Way::Workers];
    ways.extend(args.load_all.then_some(Way::LoadAll));
    let plan = Plan { shapes: sizes.iter().flat_map(of_size).collect(), ways, config, args };
    // Report wrong settings before anything runs.
    plan.shapes.iter().try_for_each(|shape| plan.shaped(*shape).validate())?;
    Ok(plan)
}

impl Plan {
    /// Learns the tokenizer, and tries each config: what a loader refuses must be known before anything is measured.
    async fn ready(&mut self, directory: &Path) -> Result<()> {
        if self.config.data.tokenizer.is_learned() {
            learn_once(&mut self.config.data, directory).await?;
        }
        for shape in &self.shapes {
            Loader::builder(&self.shaped(*shape).data).with_on_demand(true).open().await?;
        }
        Ok(())
    }

    /// The config for batches of one shape.
    fn shaped(&self, shape: Shape) -> RunConfig {
        let mut config = self.config.clone();
        let pipeline = &mut config.data.pipeline;
        (pipeline.batch_size, pipeline.seq_len) = (shape.batch_size, shape.seq_len);
        if let Some(sequences) = self.args.in_flight {
            pipeline.depth = sequences.get().div_ceil(shape.batch_size).into();
        }
        #[cfg(feature = "train")]
        {
            config.train.steps = self.args.batches.get();
        }
        config
    }

    fn orders(&self, shape: Shape, way: Way) -> Orders {
        let mut config = self.shaped(shape);
        if way == Way::Prefetch {
            config.data.pipeline.workers = 1.into();
        }
        Orders { config, way, takes: self.args.takes(), batches: self.args.batches.get() }
    }

    /// Runs every way of every shape in turns. None if `stop` was set meanwhile.
    fn run(&self, stop: &AtomicBool) -> Result<Option<Vec<Workload>>> {
        let bar = Progress::new(self.args.rounds.get() * (self.shapes.len() * self.ways.len()) as u64, 0);
        let rounds = self.measure(&bar, stop);
        bar.clear();
        let workload =
            |(&shape, ways): (&Shape, Rounds)| Workload::new(shape, &self.shaped(shape).data, &ways);
        Ok(rounds?.map(|rounds| self.shapes.iter().zip(rounds).map(workload).collect()))
    }

    fn measure(&self, bar: &Progress, stop: &AtomicBool) -> Result<Option<Vec<Rounds>>> {
        let none: Rounds = self.ways.iter().map(|&way| (way, Vec::new())).collect();
        let mut all = vec![none; self.shapes.len()];
        let of = self.args.rounds;
        for round in 1..=of.get() {
            for (shape, ways) in self.shapes.iter().zip(&mut all) {
                for (way, rounds) in ways.iter_mut() {
                    let what = format!("round {round}/{of}, {}, {}", shape.name(), way.name());
                    bar.show(bar.done(), &[what.clone(), way.name().to_owned()]);
                    let Some(run) = child::run(&self.orders(*shape, *way), stop)? else { return Ok(None) };
                    bar.show(bar.done() + 1, &[what.clone(), way.name().to_owned()]);
                    if bar.is_hidden() {
                        let (rate, wait) = (report::count(run.tokens_per_second), run.wait_share * 100.0);
                        progress::say(&format!("{what}: {rate} tokens/s, {wait:.2}% data wait"));
                    }
                    rounds.push(run);
                }
                are_equal(ways)?;
            }
        }
        Ok(Some(all))
    }
}

/// Refuses to compare ways that delivered different ids.
fn are_equal(ways: &Rounds) -> Result<()> {
    let mut runs = ways.iter().flat_map(|(way, rounds)| rounds.iter().map(move |run| (way, run)));
    let Some((_, first)) = runs.next() else { return Ok(()) };
    let of = |run: &Measured| (run.batches, run.tokens, run.digest.clone());
    let Some((way, other)) = runs.find(|(_, run)| of(run) != of(first)) else { return Ok(()) };
    let problem = format!(
        "`{}` delivered {} tokens, digest {}, and `{}` {}, digest {}: did files change meanwhile? `{}` tells what \
         differs",
        Way::OnDemand.name(),
        first.tokens,
        first.digest,
        way.name(),
        other.tokens,
        other.digest,
        hint::command(["verify"])
    );
    Err(Error::Verify { problem })
}
