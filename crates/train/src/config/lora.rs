//! `[train.lora]`: adapters that are trained instead of the model's weights.

use serde::{Deserialize, Serialize};

use millstream::config::reading::{Bound, Bounded, COUNT, Limit, Number, SHARE};
use millstream::error::{Error, Result};

/// LoRA (Hu et al., 2021, arXiv:2106.09685): a matrix `W` stays as it is, and `alpha / rank * A * B` is added to it, of
/// which only `A`, `[in, rank]`, and `B`, `[rank, out]`, are trained.
///
/// The keys mean what they mean in PEFT (`r`, `lora_alpha`, `lora_dropout`, `target_modules`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = millstream::config::reading::describe::<LoraConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank of each adapter.
    pub rank: usize,
    /// What an adapter is multiplied by, times `rank`.
    pub alpha: f64,
    /// The share of an adapter's inputs that each step leaves out. They are drawn from the seed, the step and the ids of
    /// the row.
    pub dropout: f64,
    /// Which projections have an adapter: `"all-linear"`, those of all blocks, or a list of their names, such as
    /// `["q_proj", "v_proj"]`.
    pub targets: LoraTargets,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, dropout: 0.0, targets: LoraTargets::AllLinear }
    }
}

/// Which projections have an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    expecting = "must be \"all-linear\", or a list of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj"
)]
pub enum LoraTargets {
    /// All of the attention and of the feed-forward network.
    #[default]
    AllLinear,
    /// These.
    #[serde(untagged)]
    Named(Vec<Projection>),
}

/// A projection of a block, by the name that the Hugging Face libraries give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Projection {
    /// To queries.
    #[serde(rename = "q_proj")]
    Query,
    /// To keys.
    #[serde(rename = "k_proj")]
    Key,
    /// To values.
    #[serde(rename = "v_proj")]
    Value,
    /// From the heads back to the residual stream.
    #[serde(rename = "o_proj")]
    Output,
    /// To the gate of the feed-forward network.
    #[serde(rename = "gate_proj")]
    Gate,
    /// Into the feed-forward network.
    #[serde(rename = "up_proj")]
    Up,
    /// Out of it.
    #[serde(rename = "down_proj")]
    Down,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for LoraTargets {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LoraTargets".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names = Projection::ALL.map(Projection::name);
        schemars::json_schema!({
            "description": "Which projections have an adapter: \"all-linear\", or a list of their names.",
            "anyOf": [
                { "type": "string", "enum": ["all-linear"] },
                { "type": "array", "items": { "type": "string", "enum": names }, "minItems": 1 },
            ],
        })
    }
}

impl Projection {
    /// All of them, in the order of a block.
    pub const ALL: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// Its name, such as `q_proj`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }
}

impl LoraTargets {
    /// The projections, in the order of a block.
    pub fn projections(&self) -> Vec<Projection> {
        let is_one = |projection: &Projection| match self {
            Self::AllLinear => true,
            Self::Named(named) => named.contains(projection),
        };
        Projection::ALL.into_iter().filter(is_one).collect()
    }

    fn validate(&self) -> Result<()> {
        let Self::Named(named) = self else { return Ok(()) };
        let wrong = |problem: String| Err(Error::config("train.lora.targets", problem));
        if named.is_empty() {
            return wrong(
                "no projection is named, so nothing would be trained; name some, or set \"all-linear\""
                    .into(),
            );
        }
        let twice = |projection: &&Projection| named.iter().filter(|other| other == projection).count() > 1;
        match named.iter().find(twice) {
            Some(projection) => wrong(format!("{} is named twice; name each once", projection.name())),
            None => Ok(()),
        }
    }
}

impl LoraConfig {
    /// What the product of an adapter's matrices is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    pub(super) fn validate(&self) -> Result<()> {
        self.check_bounds("train.lora")?;
        self.targets.validate()
    }
}

impl Bounded for LoraConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("rank", COUNT, |lora| lora.rank.number()),
        ("alpha", Bound::Above(0.0), |lora| lora.alpha.number()),
        ("dropout", SHARE, |lora| lora.dropout.number()),
    ];
}
