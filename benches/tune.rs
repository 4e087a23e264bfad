//! What the loader finds by itself, beside every fixed setting.
//!
//!     cargo bench -- tune
//!
//! The whole loader runs over documents, a tokenizer and a consumer whose costs are sleeps, so that they are known and
//! the machine's other work hardly shows. Each scenario is run with workers 1 and 2 and depths 1 to 32, and with both left to
//! the loader, two rounds of all in turn; the mean rates stand.
//!
//! What it printed on two cores:
//!
//! In brackets the workers and the depth.
//!
//! ```text
//! batches/s                   auto (ends at)         best fixed        worst fixed  auto/best
//! fast consumer              483.6    (2, 4)       484.8 (2, 2)       242.6 (1, 2)      99.8%
//! slow consumer              163.7    (1, 4)       163.7 (2, 8)      162.6 (1, 16)     100.0%
//! consumer that changes      266.7   (2, 32)      275.0 (2, 32)       205.0 (1, 1)      97.0%
//! slow disk                  210.6    (2, 4)      211.5 (1, 16)      210.3 (2, 16)      99.6%
//! expensive among cheap      447.3   (2, 32)      463.6 (2, 16)       347.0 (1, 1)      96.5%
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use millstream::config::{Config, OrAuto};
use millstream::tokenizer::{EncodeError, Tokenizer};
use millstream::{Document, LaneCursor, Loader, Tracked};

use crate::common::runtime;

const ROW: usize = 1024;
const ROWS: usize = 8;
const ROUNDS: usize = 2;
const WORKERS: [usize; 2] = [1, 2];
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// What batch n costs, in milliseconds: to read, to tokenize, to consume.
type Costs = fn(u64) -> [f64; 3];

const SCENARIOS: [(&str, u64, Costs); 5] = [
    ("fast consumer", 400, |_| [0.0, 4.0, 0.2]),
    ("slow consumer", 200, |_| [0.0, 2.0, 6.0]),
    ("consumer that changes", 800, |n| [0.0, 4.0, if n / 100 % 2 == 0 { 6.0 } else { 0.2 }]),
    ("slow disk", 250, |n| [if n % 60 == 59 { 40.0 } else { 3.0 }, 2.0, 2.5]),
    ("expensive among cheap", 500, |n| [0.0, if n % 50 < 2 { 30.0 } else { 0.5 }, 2.0]),
];

fn pause(milliseconds: f64) {
    if milliseconds > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(milliseconds / 1e3));
    }
}

/// Takes its time over each text, which begins with its number, and makes one batch of it.
#[derive(Debug)]
struct Paced(Costs);

impl Tokenizer for Paced {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let number = text.split(' ').next().and_then(|number| number.parse().ok()).ok_or("no number")?;
        let [_, tokenizing, _] = (self.0)(number);
        pause(tokenizing);
        ids.extend((0..(ROW * ROWS) as u32).map(|id| id % 256));
        Ok(())
    }

    fn decode(&self, _: &[u32]) -> String {
        String::new()
    }

    fn vocab_size(&self) -> usize {
        256
    }

    fn id(&self, _: &str) -> Option<u32> {
        None
    }

    fn fingerprint(&self) -> String {
        "paced".to_owned()
    }
}

/// Batches a second, and the workers and the depth at the end.
async fn measure(batches: u64, costs: Costs, workers: OrAuto, depth: OrAuto) -> (f64, u64, u64) {
    let mut config = Config::default();
    let pipeline = &mut config.pipeline;
    (pipeline.workers, pipeline.depth) = (workers, depth);
    (pipeline.seq_len, pipeline.batch_size) = (ROW, ROWS);
    (pipeline.window, pipeline.epochs) = (1.into(), Some(1));
    let loader = Loader::builder(&config).with_tokenizer(Arc::new(Paced(costs))).documents(
        "paced",
        move |_, start| {
            let numbers = stream::iter(start.documents..batches + 1);
            // As long as a group, so that each is a job of its own.
            let document = |n: u64| Document::new(format!("{n} {}", "x".repeat(512 << 10)));
            let read = move |n: u64| async move {
                let [reading, ..] = costs(n);
                if reading > 0.0 {
                    tokio::time::sleep(Duration::from_secs_f64(reading / 1e3)).await;
                }
                Ok(Tracked::new(document(n), LaneCursor::after(n + 1)))
            };
            numbers.then(read).boxed()
        },
    );
    let mut loader = loader.open().await.expect("it opens");
    let began = Instant::now();
    for n in 0..batches {
        loader.next().await.expect("a batch").expect("no error");
        let [_, _, consuming] = costs(n);
        pause(consuming);
    }
    let rate = batches as f64 / began.elapsed().as_secs_f64();
    let meters = loader.meters();
    let stage = |name| meters.stage(name).expect("the stage").clone();
    (rate, stage("tokenize").workers, stage("prefetch").capacity)
}

pub(crate) fn run(is_trial: bool) {
    let runtime = runtime();
    let fixed = |number: usize| OrAuto::from(number);
    let settings: Vec<_> = WORKERS.iter().flat_map(|&workers| DEPTHS.map(|depth| (workers, depth))).collect();
    println!("batches/s                   auto (ends at)         best fixed        worst fixed  auto/best");
    for (name, batches, costs) in SCENARIOS {
        let batches = if is_trial { batches / 50 } else { batches };
        let mut rates = vec![0.0; settings.len()];
        let (mut auto, mut end) = (0.0, (0, 0));
        for _ in 0..ROUNDS {
            let (rate, workers, depth) =
                runtime.block_on(measure(batches, costs, OrAuto::Auto, OrAuto::Auto));
            auto += rate / ROUNDS as f64;
            end = (workers, depth);
            for (&(workers, depth), sum) in settings.iter().zip(&mut rates) {
                let (rate, ..) = runtime.block_on(measure(batches, costs, fixed(workers), fixed(depth)));
                *sum += rate / ROUNDS as f64;
            }
        }
        let mut ranked: Vec<_> = rates.into_iter().zip(&settings).collect();
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let said =
            |(rate, (workers, depth)): &(f64, &(usize, usize))| format!("{rate:.1} ({workers}, {depth})");
        let (worst, best) = (ranked.first().expect("some"), ranked.last().expect("some"));
        println!(
            "{name:<22} {auto:>9.1} {:>9} {:>18} {:>18} {:>9.1}%",
            format!("({}, {})", end.0, end.1),
            said(best),
            said(worst),
            100.0 * auto / best.0
        );
    }
}
