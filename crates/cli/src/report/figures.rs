//! The results of a run, in numbers: a line of JSON, or a row of a table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::chart::means_by_value;
use super::unit::{Kind, short};
use crate::ledger::Shown;
use crate::words::value as shown;

/// The figures of a run up to its last logged line.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) run: String,
    pub(super) path: PathBuf,
    /// The last step that was logged or saved, and `train.steps`.
    pub(super) step: u64,
    pub(super) steps: u64,
    /// How many targets it trained on.
    pub(super) tokens: Option<u64>,
    /// The last training loss.
    pub(super) loss: Option<f64>,
    /// The last validation.
    pub(super) validation_loss: Option<f64>,
    pub(super) bits_per_byte: Option<f64>,
    /// Over the whole run, without validations and checkpoints.
    pub(super) tokens_per_second: Option<f64>,
    /// The shares and rates over the whole run.
    pub(super) wait_share: Option<f64>,
    pub(super) flops_per_second: Option<f64>,
    pub(super) mfu: Option<f64>,
    /// The highest logged value, in bytes.
    pub(super) memory: Option<u64>,
    /// How long it trained.
    pub(super) seconds: Option<f64>,
    /// The losses by the names of `train.loss_by`, and by the values of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) loss_by: BTreeMap<String, BTreeMap<String, ValueLosses>>,
    /// What became of its documents and ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ledger: Option<Shown>,
}

/// The losses of a value.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ValueLosses {
    #[serde(skip)]
    first: Option<f64>,
    /// The last that was logged in training.
    loss: Option<f64>,
    /// The difference between that and the first.
    change: Option<f64>,
    /// That of the last validation.
    validation_loss: Option<f64>,
}

/// A mean over time.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    seconds: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, seconds: f64) {
        if let Some(value) = value {
            self.sum += value * seconds;
            self.seconds += seconds;
        }
    }

    fn get(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

/// Collects the figures, line by line.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    figures: Figures,
    wait: Mean,
    flops: Mean,
    mfu: Mean,
}

impl Sums {
    pub(super) fn new(run: String, path: PathBuf, steps: u64) -> Self {
        Self { figures: Figures { run, path, steps, ..Figures::default() }, ..Self::default() }
    }

    pub(super) fn add(&mut self, step: u64, line: &Value) {
        let Self { figures, wait, flops, mfu } = self;
        figures.step = figures.step.max(step);
        let number = |field: &str| line[field].as_f64();
        if let Some(now) = number("seconds") {
            let since = (now - figures.seconds.unwrap_or_default()).max(0.0);
            wait.add(number("wait_share"), since);
            flops.add(number("flops_per_second"), since);
            mfu.add(number("mfu"), since);
        }
        for (figure, field) in [
            (&mut figures.seconds, "seconds"),
            (&mut figures.loss, "loss"),
            (&mut figures.validation_loss, "validation_loss"),
            (&mut figures.bits_per_byte, "bits_per_byte"),
        ] {
            *figure = number(field).or(*figure);
        }
        for (name, value, mean) in means_by_value(line) {
            let loss = mean["loss"].as_f64();
            let losses = figures.loss_by.entry(name.clone()).or_default().entry(value.clone()).or_default();
            if line["validation_loss"].is_number() {
                losses.validation_loss = loss.or(losses.validation_loss);
            } else if let Some(loss) = loss {
                let first = *losses.first.get_or_insert(loss);
                (losses.loss, losses.change) = (Some(loss), Some(loss - first));
            }
        }
        figures.tokens = line["tokens"].as_u64().or(figures.tokens);
        figures.memory = line["memory"].as_u64().max(figures.memory);
    }

    pub(super) fn finish(self) -> Figures {
        let rate = self.figures.tokens.zip(self.figures.seconds).filter(|(_, seconds)| *seconds > 0.0);
        Figures {
            tokens_per_second: rate.map(|(tokens, seconds)| tokens as f64 / seconds),
            wait_share: self.wait.get(),
            flops_per_second: self.flops.get(),
            mfu: self.mfu.get(),
            ..self.figures
        }
    }
}

impl Figures {
    /// The cells of a row, each with the head of its column. A figure that is not known is empty.
    pub(super) fn cells(&self) -> [(&'static str, String); 12] {
        let shown =
            |kind: Kind, value: Option<f64>| value.map_or_else(String::new, |value| kind.shown(value));
        let whole = |kind: Kind, value: Option<u64>| shown(kind, value.map(|value| value as f64));
        let number = |value: Option<f64>| value.map_or_else(String::new, short);
        [
            ("run", self.run.clone()),
            ("step", format!("{}/{}", self.step, self.steps)),
            ("tokens", whole(Kind::Rate(""), self.tokens).trim_end().to_owned()),
            ("loss", number(self.loss)),
            ("validation", number(self.validation_loss)),
            ("bits/byte", number(self.bits_per_byte)),
            ("tokens/s", shown(Kind::Rate(""), self.tokens_per_second).trim_end().to_owned()),
            ("wait", shown(Kind::Share, self.wait_share)),
            ("FLOP/s", shown(Kind::Rate(""), self.flops_per_second).trim_end().to_owned()),
            ("MFU", shown(Kind::Share, self.mfu)),
            ("memory", whole(Kind::Bytes, self.memory)),
            ("time", self.seconds.map_or_else(String::new, time)),
        ]
    }
}

/// The rows of several runs under their heads. A column that is empty in all of them is left out.
pub(super) fn table(runs: &[&Figures]) -> Vec<Vec<String>> {
    let rows: Vec<_> = runs.iter().map(|figures| figures.cells()).collect();
    let Some(first) = rows.first() else { return Vec::new() };
    let kept: Vec<usize> =
        (0..first.len()).filter(|&column| rows.iter().any(|row| !row[column].1.is_empty())).collect();
    let head = kept.iter().map(|&column| first[column].0.to_owned()).collect();
    let body = rows.iter().map(|row| kept.iter().map(|&column| row[column].1.clone()).collect());
    [head].into_iter().chain(body).collect()
}

/// The losses by value of several runs, under their heads; empty if there are none.
pub(super) fn table_by_value(runs: &[Figures]) -> Vec<Vec<String>> {
    let number = |value: Option<f64>| value.map_or_else(String::new, short);
    let signed = |value: f64| if value > 0.0 { format!("+{}", short(value)) } else { short(value) };
    let mut rows =
        vec![["run", "loss by", "value", "loss", "change", "validation"].map(str::to_owned).to_vec()];
    for figures in runs {
        for (name, values) in &figures.loss_by {
            rows.extend(values.iter().map(|(value, losses)| {
                let change = losses.change.map_or_else(String::new, signed);
                let (loss, validation) = (number(losses.loss), number(losses.validation_loss));
                vec![figures.run.clone(), name.clone(), shown(value).into_owned(), loss, change, validation]
            }));
        }
    }
    if rows.len() == 1 { Vec::new() } else { rows }
}

/// A time, in its two largest units.
fn time(seconds: f64) -> String {
    let whole = seconds as u64;
    match (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60) {
        (0, 0, 0, _) => format!("{seconds:.1} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_those_of_the_whole_run() {
        let mut sums = Sums::new("a".to_owned(), PathBuf::new(), 40);
        for line in [
            json!({ "step": 10, "tokens": 100, "seconds": 1.0, "wait_share": 0.5, "memory": 90 }),
            json!({
                "step": 20, "tokens": 200, "seconds": 4.0, "wait_share": 0.1, "memory": 80, "mfu": 0.5,
                "flops_per_second": 8e9,
            }),
            json!({ "step": 20, "validation_loss": 2.0 }),
        ] {
            sums.add(line["step"].as_u64().expect("a step"), &line);
        }
        let figures = sums.finish();
        assert_eq!((figures.step, figures.tokens_per_second), (20, Some(50.0)));
        assert!((figures.wait_share.expect("a share") - 0.2).abs() < 1e-12);
        assert_eq!((figures.memory, figures.validation_loss), (Some(90), Some(2.0)));
        // The mean over the time in which they were logged.
        assert_eq!((figures.flops_per_second, figures.mfu), (Some(8e9), Some(0.5)));
        let table = table(&[&figures]);
        let heads =
            ["run", "step", "tokens", "validation", "tokens/s", "wait", "FLOP/s", "MFU", "memory", "time"];
        assert_eq!(table[0], heads);
        assert_eq!(table[1], ["a", "20/40", "200", "2", "50", "20.00%", "8 G", "50.00%", "90 B", "4.0 s"]);
    }

    #[test]
    fn each_value_has_its_last_loss_and_the_change_since_its_first() {
        let mut sums = Sums::new("a".to_owned(), PathBuf::new(), 40);
        let by = |values: Value| json!({ "step": 1, "loss": 1.0, "loss_by": { "lang": values } });
        let mean = |loss: f64| json!({ "loss": loss, "tokens": 3 });
        sums.add(1, &by(json!({ "en": mean(4.0) })));
        sums.add(2, &by(json!({ "en": mean(3.0), "de": mean(2.0) })));
        sums.add(3, &by(json!({ "de": mean(2.5) })));
        let mut validation = by(json!({ "en": mean(3.5), "fr": mean(6.0) }));
        validation["validation_loss"] = 3.5.into();
        sums.add(3, &validation);
        let figures = [sums.finish(), Figures::default()];
        let rows: Vec<String> = table_by_value(&figures).iter().map(|row| row.join(" ")).collect();
        let expected = [
            "run loss by value loss change validation",
            "a lang de 2.500 +0.5000 ",
            "a lang en 3 -1 3.500",
            "a lang fr   6",
        ];
        assert_eq!(rows, expected);
        assert!(table_by_value(&figures[1..]).is_empty());
    }

    #[test]
    fn times_have_two_units() {
        let shown = [0.25, 61.0, 3_700.0, 200_000.0].map(time);
        assert_eq!(shown, ["0.2 s", "1 min 1 s", "1 h 1 min", "2 d 7 h"]);
    }
}
