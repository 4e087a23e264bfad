//! The report of a comparison, as an object and as a table.

use std::fmt;

use serde::Serialize;

use super::child::{Measured, Takes, Way};
use super::{Rounds, Shape};
use crate::bench::consumer::Spend;
use millstream::Config;
use millstream::config::OrAuto;

/// The whole comparison.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) config: String,
    pub(super) cores: usize,
    pub(super) takes: Takes,
    pub(super) rounds: u64,
    pub(super) workloads: Vec<Workload>,
}

/// One shape of batches, made in every way.
#[derive(Debug, Serialize)]
pub(super) struct Workload {
    #[serde(flatten)]
    pub(super) shape: Shape,
    pub(super) workers: OrAuto,
    pub(super) depth: OrAuto,
    pub(super) variants: Vec<Variant>,
}

/// One way: for each number, the median of its rounds.
#[derive(Debug, Serialize)]
pub(super) struct Variant {
    pub(super) variant: Way,
    #[serde(flatten)]
    pub(super) median: Measured,
    /// Tokens per second, divided by those of the way without overlap.
    pub(super) speed_up: f64,
    /// The rates of all rounds, ascending.
    pub(super) rounds_tokens_per_second: Vec<f64>,
}

impl Workload {
    /// Combines the rounds of each way.
    pub(super) fn new(shape: Shape, config: &Config, ways: &Rounds) -> Self {
        let mut variants: Vec<Variant> = ways
            .iter()
            .filter_map(|(way, rounds)| {
                let of = |value: fn(&Measured) -> f64| sorted(rounds.iter().map(value));
                let rates = of(|it| it.tokens_per_second);
                let option = |values: Vec<f64>| (values.len() == rounds.len()).then(|| middle(&values));
                let median = Measured {
                    tokens_per_second: middle(&rates),
                    wait_share: middle(&of(|it| it.wait_share)),
                    first_batch_seconds: middle(&of(|it| it.first_batch_seconds)),
                    cpu_per_second: option(sorted(rounds.iter().filter_map(|it| it.cpu_per_second))),
                    peak_rss_bytes: option(sorted(
                        rounds.iter().filter_map(|it| it.peak_rss_bytes.map(|bytes| bytes as f64)),
                    ))
                    .map(|bytes| bytes as u64),
                    ..rounds.first()?.clone()
                };
                Some(Variant { variant: *way, median, speed_up: 1.0, rounds_tokens_per_second: rates })
            })
            .collect();
        if let Some(base) = variants.first().map(|it| it.median.tokens_per_second) {
            variants.iter_mut().for_each(|it| it.speed_up = it.median.tokens_per_second / base);
        }
        Self { shape, workers: config.pipeline.workers, depth: config.pipeline.depth, variants }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of sorted values; the lower of two in the middle.
fn middle(values: &[f64]) -> f64 {
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "train")]
            Self::Train => write!(f, "a step of training a batch"),
            Self::Simulated { spend, seconds } => {
                let how = match spend {
                    Spend::Sleep => "the cores free meanwhile",
                    Spend::Busy => "on one core",
                };
                write!(f, "{} ms a batch, {how}", seconds * 1e3)
            }
        }
    }
}

const HEAD: [&str; 8] = ["batch", "how", "tokens/s", "speed-up", "wait", "cores", "memory", "first"];

impl Variant {
    fn row(&self, shape: Shape) -> [String; 8] {
        let (none, it) = (|| "–".to_owned(), &self.median);
        [
            shape.name(),
            self.variant.name().to_owned(),
            count(it.tokens_per_second),
            format!("{:.2}×", self.speed_up),
            format!("{:.2}%", it.wait_share * 100.0),
            it.cpu_per_second.map_or_else(none, |cores| format!("{cores:.2}")),
            it.peak_rss_bytes.map_or_else(none, |bytes| format!("{} MiB", bytes >> 20)),
            format!("{:.1} ms", it.first_batch_seconds * 1e3),
        ]
    }
}

impl Report {
    /// The title: what was run, in a sentence.
    fn title(&self) -> String {
        let Self { config, cores, takes, rounds, .. } = self;
        // Fewer than requested, if the stream ends earlier.
        let of = |workload: &Workload| workload.variants.first().map(|variant| variant.median.batches);
        let counts = || self.workloads.iter().filter_map(of);
        let batches = match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
            (least, most) if least == most => most.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        let rounds =
            if *rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
        format!("{config}: {batches} batches, the consumer takes {takes}; {rounds} on {cores} cores")
    }

    /// The table below its title, in Markdown.
    pub(super) fn table(&self) -> String {
        let rows = |workload: &Workload| {
            workload.variants.iter().map(|variant| variant.row(workload.shape)).collect::<Vec<_>>()
        };
        let head = [HEAD.map(str::to_owned)];
        let rows: Vec<_> = head.into_iter().chain(self.workloads.iter().flat_map(rows)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let cell = |(column, cell): (usize, &String)| match column {
            0 | 1 => format!(" {cell:<0$} ", width(column)),
            _ => format!(" {cell:>0$} ", width(column)),
        };
        let rule = (0..HEAD.len()).map(|column| match column {
            0 | 1 => "-".repeat(width(column) + 2),
            _ => "-".repeat(width(column) + 1) + ":",
        });
        let line = |cells: Vec<String>| format!("|{}|", cells.join("|"));
        let mut lines: Vec<String> =
            rows.iter().map(|row| line(row.iter().enumerate().map(cell).collect())).collect();
        lines.insert(1, line(rule.collect()));
        format!("{}\n\n{}", self.title(), lines.join("\n"))
    }
}

/// A number with three digits and a unit.
pub(super) fn count(value: f64) -> String {
    let (value, unit) = match value {
        _ if value >= 1e9 => (value / 1e9, "G"),
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value >= 100.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 12.34, 999.4, 1234.0, 54.32e6, 1.1e9].map(count);
        assert_eq!(shown, ["0.00", "12.3", "999", "1.23 k", "54.3 M", "1.10 G"]);
    }

    #[test]
    fn a_median_is_each_numbers_own_and_no_overlap_is_the_measure() {
        let measured = |rate: f64, wait: f64| Measured {
            batches: 9,
            tokens: 90,
            digest: "d".to_owned(),
            tokens_per_second: rate,
            wait_share: wait,
            cpu_per_second: None,
            peak_rss_bytes: Some(rate as u64),
            first_batch_seconds: 0.0,
        };
        let rounds =
            |rates: [f64; 3]| vec![measured(rates[0], 0.3), measured(rates[1], 0.1), measured(rates[2], 0.2)];
        let ways = vec![(Way::OnDemand, rounds([3.0, 1.0, 2.0])), (Way::Workers, rounds([5.0, 6.0, 4.0]))];
        let shape = Shape { batch_size: 4, seq_len: 8 };
        let workload = Workload::new(shape, &Config::default(), &ways);
        let [first, second] = &workload.variants[..] else { panic!("two ways") };
        assert_eq!((first.median.tokens_per_second, first.speed_up), (2.0, 1.0));
        assert_eq!((second.median.tokens_per_second, second.speed_up), (5.0, 2.5));
        assert_eq!((second.median.wait_share, second.median.peak_rss_bytes), (0.2, Some(5)));
        assert_eq!(second.rounds_tokens_per_second, [4.0, 5.0, 6.0]);
        assert_eq!(second.median.cpu_per_second, None);
    }
}
