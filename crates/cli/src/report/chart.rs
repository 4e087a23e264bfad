//! The charts of a page, in their order.

use super::unit::Kind;

/// The stages in the order of the journey; custom ones follow.
const JOURNEY: [&str; 6] = ["source", "tokenize", "shuffle", "pack", "batch", "prefetch"];

/// A chart, by its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chart {
    Loss,
    BitsPerByte,
    LearningRate,
    GradientNorm,
    Rate,
    Wait,
    Memory,
    Flops,
    Mfu,
    /// The loss of one source.
    Source(String),
    /// A stage: its place in the journey, and its name.
    Stage(usize, String),
}

impl Chart {
    pub(super) fn stage(name: &str) -> Self {
        let place = JOURNEY.iter().position(|stage| *stage == name).unwrap_or(JOURNEY.len());
        Self::Stage(place, name.to_owned())
    }

    pub(super) fn title(&self) -> String {
        let title = match self {
            Self::Loss => "Loss",
            Self::BitsPerByte => "Validation, in bits per byte of text",
            Self::LearningRate => "Learning rate",
            Self::GradientNorm => "Gradient norm, before clipping",
            Self::Rate => "Training rate",
            Self::Wait => "Time spent waiting for data",
            Self::Memory => "Memory",
            Self::Flops => "Arithmetic",
            Self::Mfu => "Share of the device's peak (MFU)",
            Self::Source(name) => return format!("Loss of source {name}"),
            Self::Stage(_, name) => return format!("Stage {name}"),
        };
        title.to_owned()
    }

    /// The kind of its numbers.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Loss | Self::Source(_) => Kind::Plain("nats per token"),
            Self::BitsPerByte => Kind::Plain("bits per byte"),
            Self::LearningRate | Self::GradientNorm => Kind::Plain(""),
            Self::Rate => Kind::Rate("tokens/s"),
            Self::Flops => Kind::Rate("FLOP/s"),
            Self::Memory => Kind::Bytes,
            Self::Wait | Self::Mfu | Self::Stage(..) => Kind::Share,
        }
    }

    /// The names of its two curves.
    pub(super) fn labels(&self) -> [&'static str; 2] {
        match self {
            Self::Loss | Self::Source(_) => ["training", "validation"],
            Self::Stage(..) => ["busy", "queue full"],
            _ => ["", ""],
        }
    }

    /// Whether the first and the second curve are noisy, so that a mean of them says more.
    pub(super) fn is_noisy(&self, is_second: bool) -> bool {
        match self {
            Self::LearningRate | Self::BitsPerByte | Self::Memory => false,
            Self::Loss | Self::Source(_) => !is_second,
            _ => true,
        }
    }
}
