//! Prometheus' text exposition format, version 0.0.4.
//!
//! The crate `prometheus-client` does not replace this. It writes OpenMetrics only, which has another media type and
//! another end, and a collector over our snapshots would still have to list every metric with its help. It would save
//! the ten lines of `Text::family`, and the bare library has them without a dependency.

use std::fmt::Write;

use super::snapshot::{Meters, StageMeter};

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

    /// Adds a gauge that has a sample for each value of one label.
    pub fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let labels = |(of, value): (&str, f64)| (format!("{label}=\"{}\"", escaped(of)), value);
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
        self.stages(meters);
        let waits = meters.waits.by_cause().map(|(cause, seconds)| (format!("for=\"{cause}\""), seconds));
        self.labelled(
            Self::gauge,
            "millstream_wait_seconds",
            "Time the trainer waited in next() after the first batch, by what it waited for; the shares are updated when a wait ends.",
            &waits,
        );
        self.one(
            Self::counter,
            "millstream_consumed_seconds_total",
            "Time since the first batch.",
            meters.consumed_seconds,
        );
        self.one(
            Self::gauge,
            "millstream_wait_share",
            "Share of the time since the first batch that the trainer waited, 0 to 1.",
            meters.wait_share,
        );
        self.one(Self::counter, "millstream_batches_total", "Batches taken.", meters.batches as f64);
        self.one(
            Self::counter,
            "millstream_batches_of_full_total",
            "Batches taken while the queue was full.",
            meters.batches_of_full as f64,
        );
        self.one(
            Self::gauge,
            "millstream_bytes_in_flight",
            "Bytes of text and ids in flight.",
            meters.bytes_in_flight as f64,
        );
        self.one(
            Self::gauge,
            "millstream_peak_bytes_in_flight",
            "The most bytes that were ever in flight.",
            meters.peak_bytes_in_flight as f64,
        );
        self.one(
            Self::gauge,
            "millstream_budget_bytes",
            "The bound on the bytes in flight.",
            meters.budget_bytes as f64,
        );
        self.one(
            Self::counter,
            "millstream_open_seconds_total",
            "Time since the loader was opened.",
            meters.wall_seconds,
        );
        if let Some(store) = meters.store {
            self.one(
                Self::gauge,
                "millstream_store_requests",
                "Requests to stores under way.",
                store.requests as f64,
            );
            self.one(
                Self::gauge,
                "millstream_store_concurrency",
                "How many requests to stores may be under way.",
                store.concurrency as f64,
            );
            self.one(
                Self::counter,
                "millstream_store_waits_total",
                "How often the source waited for a store.",
                store.waits as f64,
            );
            self.one(
                Self::counter,
                "millstream_store_wait_seconds_total",
                "Time the source waited for stores, over all lanes.",
                store.wait_seconds,
            );
        }
    }

    fn stages(&mut self, meters: &Meters) {
        type Value = fn(&StageMeter) -> f64;
        let counters: [(&str, &str, Value); 8] = [
            ("millstream_documents_total", "Documents that a stage delivered.", |stage| {
                stage.documents as f64
            }),
            ("millstream_skipped_documents_total", "Documents that a stage skipped.", |stage| {
                stage.skipped as f64
            }),
            ("millstream_tokens_total", "Tokens that a stage delivered.", |stage| stage.tokens as f64),
            ("millstream_bytes_total", "Bytes of text that a stage delivered.", |stage| stage.bytes as f64),
            ("millstream_busy_seconds_total", "Time a stage worked, over all its workers.", |stage| {
                stage.busy_seconds
            }),
            (
                "millstream_awaited_seconds_total",
                "Time the pipeline waited for a custom stage that had input.",
                |stage| stage.awaited_seconds,
            ),
            ("millstream_wait_in_seconds_total", "Time a stage had nothing to work on.", |stage| {
                stage.wait_in_seconds
            }),
            ("millstream_wait_out_seconds_total", "Time nobody took what a stage had done.", |stage| {
                stage.wait_out_seconds
            }),
        ];
        let gauges: [(&str, &str, Value); 4] = [
            ("millstream_queue_items", "What a stage holds, in its own unit.", |stage| stage.queued as f64),
            ("millstream_queue_capacity", "How much it holds at most; 0 without a bound.", |stage| {
                stage.capacity as f64
            }),
            (
                "millstream_workers",
                "Threads that a stage works on at most; 0 within prefetch's tasks.",
                |stage| stage.workers as f64,
            ),
            ("millstream_workers_busy", "How many of them work now.", |stage| stage.workers_busy as f64),
        ];
        let families = counters.into_iter().map(|family| (Self::counter as Family, family));
        let families = families.chain(gauges.into_iter().map(|family| (Self::gauge as Family, family)));
        for (add, (name, help, value)) in families {
            let samples: Vec<_> = meters
                .stages
                .iter()
                .map(|stage| (format!("stage=\"{}\"", escaped(&stage.stage)), value(stage)))
                .collect();
            self.labelled(add, name, help, &samples);
        }
    }

    fn labelled(&mut self, add: Family, name: &str, help: &str, samples: &[(String, f64)]) {
        let samples: Vec<(&str, f64)> =
            samples.iter().map(|(labels, value)| (labels.as_str(), *value)).collect();
        add(self, name, help, &samples);
    }

    fn one(&mut self, add: Family, name: &str, help: &str, value: f64) {
        add(self, name, help, &[("", value)]);
    }
}

/// A label's value: a custom stage may have any name.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// How a family of one kind is added.
type Family = fn(&mut Text, &str, &str, &[(&str, f64)]);

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
