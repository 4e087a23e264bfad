//! One way of making batches, measured in a separate process.
//!
//! The child reads its orders as a line of JSON on standard input, which then stays open: when it closes, the parent is
//! gone, and the child ends. It prints its measurements as a line of JSON.

use std::fs::File;
use std::io::{BufRead, Read, Seek, Write};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::super::consumer::{Consumer, Spend};
use super::super::process::{cpu_seconds, peak_rss_bytes};
use super::super::rate;
use super::COMMAND;
use crate::program::program;
use crate::{RunConfig, hint, print_json};
use millstream::process::end_with_parent;
use millstream::{Batch, Error, Loader, Result, loader};
#[cfg(feature = "train")]
use millstream_train::Trainer;

/// How often the parent looks whether a child has ended, and whether it is asked to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// One way of making batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// Each batch when the consumer asks for it, while the consumer waits.
    OnDemand,
    /// Ahead, with one worker.
    Prefetch,
    /// Ahead, with all workers.
    Workers,
    /// All batches are held in memory before the first is taken.
    LoadAll,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "no overlap",
            Self::Prefetch => "prefetch",
            Self::Workers => "prefetch and workers",
            Self::LoadAll => "all in memory first",
        }
    }
}

/// The consumer of the batches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Takes {
    /// This many seconds per batch.
    Simulated { spend: Spend, seconds: f64 },
    /// One training step per batch.
    #[cfg(feature = "train")]
    Train,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) config: RunConfig,
    pub(super) way: Way,
    pub(super) takes: Takes,
    pub(super) batches: u64,
}

/// The measurements of one run. Rates and shares leave out the first tenth of the batches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) batches: u64,
    pub(super) tokens: u64,
    /// The running digest of all ids.
    pub(super) digest: String,
    pub(super) tokens_per_second: f64,
    /// The share of the time that the consumer waited in `next()`.
    pub(super) wait_share: f64,
    /// CPU time of all threads over wall time. Absent where the system does not say.
    pub(super) cpu_per_second: Option<f64>,
    pub(super) peak_rss_bytes: Option<u64>,
    /// Counted from opening the loader.
    pub(super) first_batch_seconds: f64,
}

/// A process that is killed when it is dropped.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // Both fail if the child has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one child to its end. None if `stop` was set meanwhile.
pub(super) fn run(orders: &Orders, stop: &AtomicBool) -> Result<Option<Measured>> {
    let lost = |e| Error::io("a child of this program", "run", e);
    let [output, complaints] = [(); 2].map(|()| tempfile::tempfile().map_err(lost));
    let (mut output, mut complaints) = (output?, complaints?);
    let mut command = program().child();
    command.arg(COMMAND).stdin(Stdio::piped());
    command.stdout(output.try_clone().map_err(lost)?).stderr(complaints.try_clone().map_err(lost)?);
    // A terminal's signals go to the parent alone, which ends its children.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = Kept(command.spawn().map_err(lost)?);
    let json = serde_json::to_string(orders).map_err(|e| lost(e.into()))?;
    // It stays open until the child has ended. If the child has failed before it read, its last line says why.
    let mut input = child.0.stdin.take();
    let _ = input.as_mut().map(|input| writeln!(input, "{json}"));
    let status = loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match child.0.try_wait().map_err(lost)? {
            Some(status) => break status,
            None => std::thread::sleep(GLANCE),
        }
    };
    let said = |file: &mut File| {
        let mut said = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut said)).map_err(lost).map(|_| said)
    };
    if let (true, Ok(measured)) = (status.success(), serde_json::from_str(&said(&mut output)?)) {
        return Ok(Some(measured));
    }
    let said = said(&mut complaints)?;
    // The log may come before the error.
    let cause = said.rsplit("error: ").next().unwrap_or_default().trim();
    Err(Error::Train(format!("`{}` failed ({status}): {cause}", orders.way.name())))
}

/// Carries out the orders.
pub(crate) async fn serve() -> Result<()> {
    let mut line = String::new();
    let told = std::io::stdin().lock().read_line(&mut line);
    told.map_err(|e| Error::io("standard input", "read", e))?;
    let orders = serde_json::from_str(&line).map_err(|_| {
        let parent = hint::command(["bench", "compare"]);
        Error::config("compare-child", format!("only `{parent}` starts this"))
    })?;
    end_with_parent();
    print_json(&measure(orders).await?)
}

async fn measure(Orders { config, way, takes, batches: wanted }: Orders) -> Result<Measured> {
    let tokenizer = loader::open_tokenizer(&config.data).await?;
    let mut consumer = match takes {
        Takes::Simulated { spend, seconds } => {
            Consumer::Simulated(spend, Duration::try_from_secs_f64(seconds).unwrap_or_default())
        }
        #[cfg(feature = "train")]
        Takes::Train => Consumer::Trainer(Box::new(Trainer::new(&config, &*tokenizer)?)),
    };
    let opened = Instant::now();
    let builder =
        Loader::builder(&config.data).with_tokenizer(tokenizer).with_on_demand(way == Way::OnDemand);
    let mut batches = builder.open().await?.take(wanted as usize).boxed();
    if way == Way::LoadAll {
        batches = load_all(batches).await?;
    }

    let warm_up = (wanted / 10).max(1);
    let (mut taken, mut tokens, mut first, mut last) = (0, 0, None, None);
    let (mut waited, mut counted, mut began, mut cpu) = (Duration::ZERO, 0, opened, None);
    loop {
        let asked = Instant::now();
        let Some(batch) = batches.next().await else { break };
        let (batch, wait) = (batch?, asked.elapsed());
        first.get_or_insert_with(|| opened.elapsed());
        // The parent ends this child.
        consumer.take(&batch, || false)?;
        taken += 1;
        tokens += batch.tokens() as u64;
        if taken == warm_up {
            (began, cpu) = (Instant::now(), cpu_seconds());
        } else if taken > warm_up {
            waited += wait;
            counted += batch.tokens() as u64;
        }
        last = Some(batch.cursor().digest());
    }
    let seconds = began.elapsed().as_secs_f64();
    let (Some(first), Some(digest), true) = (first, last, taken > warm_up) else {
        let problem = format!(
            "the stream ended after {taken} batches, and at least {} are needed to measure {wanted}; ask for fewer \
             with --batches, or read the sources more than once: pipeline.epochs",
            warm_up + 1
        );
        return Err(Error::Corpus { problem });
    };
    Ok(Measured {
        batches: taken,
        tokens,
        digest: digest.to_string(),
        tokens_per_second: rate(counted, seconds),
        wait_share: (waited.as_secs_f64() / seconds).min(1.0),
        cpu_per_second: cpu_seconds().zip(cpu).map(|(now, then)| (now - then) / seconds),
        peak_rss_bytes: peak_rss_bytes(),
        first_batch_seconds: first.as_secs_f64(),
    })
}

/// Holds all batches before it gives the first, as a program does that loads its data before it trains. It keeps them
/// after they are taken, for the next epoch.
async fn load_all(batches: BoxStream<'static, Result<Batch>>) -> Result<BoxStream<'static, Result<Batch>>> {
    let all: Vec<Batch> = batches.try_collect().await?;
    Ok(stream::iter(0..all.len()).map(move |index| Ok(all[index].clone())).boxed())
}
