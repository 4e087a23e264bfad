//! The charts of a page, in their order.

use serde_json::Value;

use super::unit::Kind;

/// The stages in the order of the journey; custom ones follow.
const JOURNEY: [&str; 6] = ["source", "tokenize", "shuffle", "pack", "batch", "prefetch"];

/// The charts of a line's own fields: the fields of its curves, its title, the kind of its numbers, and whether the first
/// curve is noisy, so that a mean of it says more.
const FIELDS: [([&str; 2], &str, Kind, bool); 9] = [
    (["loss", "validation_loss"], "Loss", NATS, true),
    (["bits_per_byte", ""], "Validation, in bits per byte of text", Kind::Plain("bits per byte"), false),
    (["lr", ""], "Learning rate", Kind::Plain(""), false),
    (["grad_norm", ""], "Gradient norm, before clipping", Kind::Plain(""), true),
    (["tokens_per_second", ""], "Training rate", Kind::Rate("tokens/s"), true),
    (["wait_share", ""], "Time spent waiting for data", Kind::Share, true),
    (["memory", ""], "Memory", Kind::Bytes, false),
    (["flops_per_second", ""], "Arithmetic", Kind::Rate("FLOP/s"), true),
    (["mfu", ""], "Share of the device's peak (MFU)", Kind::Share, true),
];

const NATS: Kind = Kind::Plain("nats per token");

/// A chart, by its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chart {
    /// One of the fields.
    Field(usize),
    /// The loss of a value: its name in `train.loss_by`, and the value.
    LossBy(String, String),
    /// A stage: its place in the journey, and its name.
    Stage(usize, String),
}

/// The field of a line that is there and should be a number, but is none.
pub(super) fn not_a_number(line: &Value) -> Option<&'static str> {
    let is_wrong = |field: &&str| !(line[field].is_null() || line[field].is_number());
    FIELDS.iter().flat_map(|(fields, ..)| *fields).find(is_wrong)
}

/// The losses of a line by source and column: the names, the values, and the mean of each with its number of targets.
pub(super) fn means_by_value(line: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let names = line["loss_by"].as_object().into_iter().flatten();
    names.flat_map(|(name, values)| {
        let values = values.as_object().into_iter().flatten();
        values.map(move |(value, mean)| (name, value, mean))
    })
}

impl Chart {
    /// Visits the charts that have numbers of a line of `metrics.jsonl`: one for each of its two curves.
    pub(super) fn visit(line: &Value, mut visit: impl FnMut(Self, [Option<f64>; 2])) {
        for (at, (fields, ..)) in FIELDS.iter().enumerate() {
            visit(Self::Field(at), fields.map(|field| line[field].as_f64()));
        }
        let is_validation = line["validation_loss"].is_number();
        for (name, value, mean) in means_by_value(line) {
            let loss = mean["loss"].as_f64();
            let losses = [loss.filter(|_| !is_validation), loss.filter(|_| is_validation)];
            visit(Self::LossBy(name.clone(), value.clone()), losses);
        }
        for (name, stage) in line["stages"].as_object().into_iter().flatten() {
            let place = JOURNEY.iter().position(|stage| stage == name).unwrap_or(JOURNEY.len());
            visit(Self::Stage(place, name.clone()), ["busy", "queue"].map(|field| stage[field].as_f64()));
        }
    }

    pub(super) fn title(&self) -> String {
        match self {
            Self::Field(at) => FIELDS[*at].1.to_owned(),
            Self::LossBy(name, value) => format!("Loss of {name} {value}"),
            Self::Stage(_, name) => format!("Stage {name}"),
        }
    }

    /// The kind of its numbers.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Field(at) => FIELDS[*at].2,
            Self::LossBy(..) => NATS,
            Self::Stage(..) => Kind::Share,
        }
    }

    /// The names of its two curves.
    pub(super) fn labels(&self) -> [&'static str; 2] {
        match self {
            Self::Field(0) | Self::LossBy(..) => ["training", "validation"],
            Self::Stage(..) => ["busy", "queue full"],
            Self::Field(_) => ["", ""],
        }
    }

    /// Whether the curves are noisy.
    pub(super) fn is_noisy(&self) -> [bool; 2] {
        match self {
            Self::Field(at) => [FIELDS[*at].3, false],
            Self::LossBy(..) => [true, false],
            Self::Stage(..) => [true, true],
        }
    }
}
