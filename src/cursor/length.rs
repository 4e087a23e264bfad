//! The length of a finite stream, for ranks that see only some of its lanes.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::{LaneState, check};

/// The length of a finite stream, or the place from which it is being counted.
///
/// The cursors of one stream share it, so all that are saved after the count have the result.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "Form")]
pub(crate) struct Length {
    /// The settings that it depends on besides the fingerprint.
    pub(crate) of: String,
    /// The states of all lanes when the count began. A rank's own cursor knows only its lanes.
    from: Option<(u64, Vec<LaneState>)>,
    rounds: OnceLock<u64>,
}

/// A length as it is written: the rounds, or where to count from.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the length of a source")]
pub(super) struct Form {
    of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rounds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<(u64, Vec<LaneState>)>,
}

impl Length {
    fn known(of: String, rounds: u64) -> Self {
        Self { of, from: None, rounds: rounds.into() }
    }

    /// A length that is to be counted from the place where `lanes` have had `turn` turns.
    pub(super) fn unknown(of: String, turn: u64, lanes: Vec<LaneState>) -> Self {
        Self { of, from: Some((turn, lanes)), rounds: OnceLock::new() }
    }

    /// How many turns each lane has, if it was counted.
    pub(crate) fn rounds(&self) -> Option<u64> {
        self.rounds.get().copied()
    }

    /// Notes the result of the count.
    pub(crate) fn set(&self, rounds: u64) {
        // Two counts of one stream are equal.
        let _ = self.rounds.set(rounds);
    }

    /// The turns, and the states of all lanes, where the count begins.
    pub(super) fn from(&self) -> Option<&(u64, Vec<LaneState>)> {
        self.from.as_ref()
    }

    /// The states of the lanes, to be updated like the cursor's.
    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut LaneState> {
        self.from.iter_mut().flat_map(|(_, lanes)| lanes)
    }

    /// The length that was written, of a stream with so many lanes and sources.
    pub(super) fn read(form: Form, lanes: usize, sources: usize) -> Result<Self, String> {
        match form {
            Form { of, rounds: Some(rounds), from: None } => {
                check::rounds(rounds)?;
                Ok(Self::known(of, rounds))
            }
            Form { of, rounds: None, from: Some((turn, states)) } => {
                if states.len() != lanes || states.iter().any(|lane| lane.sources.len() != sources) {
                    return Err("its length is counted from other lanes or sources".to_owned());
                }
                check::counts(0, turn, states.iter().enumerate())?;
                Ok(Self::unknown(of, turn, states))
            }
            _ => Err("its length is both known and unknown, or neither".to_owned()),
        }
    }
}

impl From<Length> for Form {
    fn from(Length { of, from, rounds }: Length) -> Self {
        let rounds = rounds.into_inner();
        Self { of, rounds, from: from.filter(|_| rounds.is_none()) }
    }
}

/// Equality ignores whether the length is known yet.
impl PartialEq for Length {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

impl Eq for Length {}
