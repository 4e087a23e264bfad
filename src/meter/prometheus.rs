//! Prometheus' text exposition format, version 0.0.4.
//!
//! The crate `prometheus-client` does not replace this. It writes OpenMetrics only, which has another media type and
//! another end, and a collector over our snapshots would still have to list every metric with its help. It would save
//! the ten lines of `Text::family`, and the bare library has them without a dependency.

use std::fmt::Write;

use super::snapshot::{Meters, StageMeter, StoreMeter};

/// The media type of [`Text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics in the text format, one family after the other.
#[derive(Clone, Debug, Default)]
pub struct Text(String);

impl Text {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a counter: a number that only grows while the process lives. Its name ends with `_total`.
    pub fn counter(&mut self, name: &str, help: &str, samples: &[(&str, f64)]) {
        self.family(name, "counter", help, samples);
    }

    /// Adds a gauge: a number as it is now.
    pub fn gauge(&mut self, name: &str, help: &str, samples: &[(&str, f64)]) {
        self.family(name, "gauge", help, samples);
    }

    /// Adds a gauge that has a sample for each pair of values of two labels.
    pub fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; 2],
        samples: impl IntoIterator<Item = ([&'a str; 2], f64)>,
    ) {
        let [first, second] = labels;
        let labels = |([of, and], value): ([&str; 2], f64)| {
            (format!("{first}=\"{}\",{second}=\"{}\"", escaped(of), escaped(and)), value)
        };
        let samples: Vec<_> = samples.into_iter().map(labels).collect();
        self.labelled(Self::gauge, name, help, &samples);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }

    /// Each sample has its labels as they stand between the braces, or none.
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(&str, f64)]) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = match labels.is_empty() {
                true => writeln!(self.0, "{name} {value}"),
                false => writeln!(self.0, "{name}{{{labels}}} {value}"),
            };
        }
    }

    /// Adds all of a loader's counters and gauges.
    pub fn meters(&mut self, meters: &Meters) {
        for (add, name, help, value) in OF_STAGES {
            let sample = |stage: &StageMeter| (format!("stage=\"{}\"", escaped(&stage.stage)), value(stage));
            let samples: Vec<_> = meters.stages.iter().map(sample).collect();
            self.labelled(add, &format!("millstream_{name}"), help, &samples);
        }
        let waits = meters.waits.by_cause().map(|(cause, seconds)| (format!("for=\"{cause}\""), seconds));
        self.labelled(
            Self::gauge,
            "millstream_wait_seconds",
            "Time the trainer waited in next() after the first batch, by what it waited for; the shares are updated when a wait ends.",
            &waits,
        );
        self.each(&OF_LOADER, meters);
        meters.store.iter().for_each(|store| self.each(&OF_STORE, store));
    }

    fn each<T>(&mut self, metrics: &[Metric<T>], of: &T) {
        for (add, name, help, value) in metrics {
            add(self, &format!("millstream_{name}"), help, &[("", value(of))]);
        }
    }

    fn labelled(&mut self, add: Family, name: &str, help: &str, samples: &[(String, f64)]) {
        let samples: Vec<(&str, f64)> =
            samples.iter().map(|(labels, value)| (labels.as_str(), *value)).collect();
        add(self, name, help, &samples);
    }
}

/// How a family of one kind is added.
type Family = fn(&mut Text, &str, &str, &[(&str, f64)]);

/// A family: its kind, its name behind `millstream_`, its help, and its value in counters of type `T`.
type Metric<T> = (Family, &'static str, &'static str, fn(&T) -> f64);

const OF_STAGES: [Metric<StageMeter>; 12] = [
    (Text::counter, "documents_total", "Documents that a stage delivered.", |it| it.documents as f64),
    (Text::counter, "skipped_documents_total", "Documents that a stage skipped.", |it| it.skipped as f64),
    (Text::counter, "tokens_total", "Tokens that a stage delivered.", |it| it.tokens as f64),
    (Text::counter, "bytes_total", "Bytes of text that a stage delivered.", |it| it.bytes as f64),
    (Text::counter, "busy_seconds_total", "Time a stage worked, over all its workers.", |it| it.busy_seconds),
    (
        Text::counter,
        "awaited_seconds_total",
        "Time the pipeline waited for a custom stage that had input.",
        |it| it.awaited_seconds,
    ),
    (Text::counter, "wait_in_seconds_total", "Time a stage had nothing to work on.", |it| it.wait_in_seconds),
    (Text::counter, "wait_out_seconds_total", "Time nobody took what a stage had done.", |it| {
        it.wait_out_seconds
    }),
    (Text::gauge, "queue_items", "What a stage holds, in its own unit.", |it| it.queued as f64),
    (Text::gauge, "queue_capacity", "How much it holds at most; 0 without a bound.", |it| it.capacity as f64),
    (Text::gauge, "workers", "Threads that a stage works on at most; 0 within prefetch's tasks.", |it| {
        it.workers as f64
    }),
    (Text::gauge, "workers_busy", "How many of them work now.", |it| it.workers_busy as f64),
];

const OF_LOADER: [Metric<Meters>; 8] = [
    (Text::counter, "consumed_seconds_total", "Time since the first batch.", |it| it.consumed_seconds),
    (
        Text::gauge,
        "wait_share",
        "Share of the time since the first batch that the trainer waited, 0 to 1.",
        |it| it.wait_share,
    ),
    (Text::counter, "batches_total", "Batches taken.", |it| it.batches as f64),
    (Text::counter, "batches_of_full_total", "Batches taken while the queue was full.", |it| {
        it.batches_of_full as f64
    }),
    (Text::gauge, "bytes_in_flight", "Bytes of text and ids in flight.", |it| it.bytes_in_flight as f64),
    (Text::gauge, "peak_bytes_in_flight", "The most bytes that were ever in flight.", |it| {
        it.peak_bytes_in_flight as f64
    }),
    (Text::gauge, "budget_bytes", "The bound on the bytes in flight.", |it| it.budget_bytes as f64),
    (Text::counter, "open_seconds_total", "Time since the loader was opened.", |it| it.wall_seconds),
];

const OF_STORE: [Metric<StoreMeter>; 4] = [
    (Text::gauge, "store_requests", "Requests to stores under way.", |it| it.requests as f64),
    (Text::gauge, "store_concurrency", "How many requests to stores may be under way.", |it| {
        it.concurrency as f64
    }),
    (Text::counter, "store_waits_total", "How often the source waited for a store.", |it| it.waits as f64),
    (Text::counter, "store_wait_seconds_total", "Time the source waited for stores, over all lanes.", |it| {
        it.wait_seconds
    }),
];

/// A label's value: a custom stage may have any name.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_help_its_type_and_its_samples() {
        let stage =
            StageMeter { stage: "tokenize".into(), documents: 3, busy_seconds: 1.5, ..StageMeter::default() };
        let custom = StageMeter { stage: "the \"best\"".into(), tokens: 7, ..StageMeter::default() };
        let meters = Meters { stages: vec![stage, custom], ..Meters::default() };
        let mut text = Text::new();
        text.meters(&meters);
        text.gauge("millstream_loss", "The loss.", &[("", f64::NAN)]);
        let text = text.finish();
        assert!(text.starts_with(
            "# HELP millstream_documents_total Documents that a stage delivered.\n\
             # TYPE millstream_documents_total counter\n\
             millstream_documents_total{stage=\"tokenize\"} 3\n"
        ));
        assert!(text.contains("\nmillstream_busy_seconds_total{stage=\"tokenize\"} 1.5\n"));
        assert!(text.contains("\nmillstream_tokens_total{stage=\"the \\\"best\\\"\"} 7\n"));
        assert!(text.contains("\nmillstream_wait_seconds{for=\"memory\"} 0\n"));
        assert!(text.ends_with("# TYPE millstream_loss gauge\nmillstream_loss NaN\n"));
        assert!(!text.contains("store"), "all files are local");
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "a family stands once");
    }
}
