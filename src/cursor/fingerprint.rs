//! The settings that fix an order, and the check that a cursor was made with the same ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What must be equal for a cursor to be valid: named values, compared one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

impl Fingerprint {
    /// Refuses a cursor whose `saved` fingerprint differs from this one, naming the first difference.
    pub fn check(&self, saved: &Self) -> Result<()> {
        let absent = "absent".to_owned();
        for field in self.0.keys().chain(saved.0.keys()) {
            let (was, now) = (saved.0.get(field), self.0.get(field));
            if was != now {
                return Err(Error::Fingerprint {
                    field: field.clone(),
                    saved: was.unwrap_or(&absent).clone(),
                    now: now.unwrap_or(&absent).clone(),
                });
            }
        }
        Ok(())
    }
}
