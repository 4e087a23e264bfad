//! What happens to a rendered text that is longer than a row.

use serde::{Deserialize, Serialize};

/// What happens to a conversation that is longer than a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Truncate {
    /// Its oldest turns leave, whole; the system prompt stays. One whose last turns do not fit is left out.
    #[default]
    Turns,
    /// Its first ids are cut off.
    Start,
    /// Its last ids are cut off.
    End,
    /// It is left out.
    Drop,
}
