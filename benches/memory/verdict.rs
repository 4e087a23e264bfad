//! Compares the last third of the time with the first.

use std::fmt;
use std::time::Duration;

use millstream::config::ByteCount;

use super::look::Sample;

/// How much more the last third may have than the first: a twentieth, and so many bytes or so many threads and files.
/// Which documents are in flight differs from second to second, and so do the threads that are idle for a while.
const PARTS: u64 = 20;
const BYTES: u64 = 4 << 20;
const COUNT: u64 = 16;

/// This part of the samples comes first and is left out: windows and queues fill.
const WARM_UP: usize = 10;

/// What is known of one run.
pub(crate) struct Row {
    name: String,
    /// Tokens in all, and the most bytes of the budget that were taken, if the program said so.
    tokens: Option<u64>,
    budget: Option<u64>,
    mapped: u64,
    own: Thirds,
    threads: Thirds,
    files: Thirds,
}

/// The least, the median and the most of one quantity, in the first and in the last third of the time.
struct Thirds {
    first: [u64; 3],
    last: [u64; 3],
}

impl Thirds {
    fn new(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> Self {
        let samples = &samples[samples.len() / WARM_UP..];
        let third = samples.len().div_ceil(3);
        let summary = |samples: &[Sample]| {
            let mut numbers: Vec<u64> = samples.iter().map(&of).collect();
            numbers.sort_unstable();
            [0, numbers.len() / 2, numbers.len().saturating_sub(1)]
                .map(|nth| numbers.get(nth).copied().unwrap_or_default())
        };
        Self { first: summary(&samples[..third]), last: summary(&samples[samples.len() - third..]) }
    }

    /// Whether the median did not rise by more than chance.
    fn is_flat(&self, chance: u64) -> bool {
        let [_, first, _] = self.first;
        let [_, last, _] = self.last;
        last <= first + first / PARTS + chance
    }
}

impl Row {
    /// Sums up the samples, and what `millstream bench loader --json` printed.
    pub(crate) fn new(name: &str, samples: &[Sample], report: &str) -> Self {
        let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
        let mut mapped: Vec<u64> = samples.iter().map(|sample| sample.mapped).collect();
        mapped.sort_unstable();
        Self {
            name: name.to_owned(),
            tokens: report["tokens"].as_u64(),
            budget: report["meters"]["peak_bytes_in_flight"].as_u64(),
            mapped: mapped.get(mapped.len() / 2).copied().unwrap_or_default(),
            own: Thirds::new(samples, |sample| sample.own),
            threads: Thirds::new(samples, |sample| sample.threads),
            files: Thirds::new(samples, |sample| sample.files),
        }
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.own.is_flat(BYTES) && self.threads.is_flat(COUNT) && self.files.is_flat(COUNT)
    }
}

/// What the columns are.
pub(crate) fn header(time: Duration, memory: ByteCount) -> String {
    format!(
        "{} seconds each, `memory = \"{memory}\"`. MiB of own memory: least, median and most, in the first and in the last \
         third of the time.\n\n\
         | what | M tokens | budget, most | first third | last third | mapped | threads | files | |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---|\n",
        time.as_secs(),
    )
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let mib = |numbers: [u64; 3]| numbers.map(|bytes| (bytes >> 20).to_string()).join(" / ");
        let most = |thirds: &Thirds| format!("{} → {}", thirds.first[2], thirds.last[2]);
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            or_none(self.tokens.map(|tokens| tokens / 1_000_000)),
            or_none(self.budget.map(|bytes| bytes >> 20)),
            mib(self.own.first),
            mib(self.own.last),
            self.mapped >> 20,
            most(&self.threads),
            most(&self.files),
            if self.is_flat() { "flat" } else { "NOT FLAT" },
        )
    }
}
