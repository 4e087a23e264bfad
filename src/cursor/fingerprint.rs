//! The settings that fix an order, and the check that a cursor was made with the same ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Separates the description of files by paths and lengths from the digest of samples of their text.
pub(crate) const SAMPLES: &str = ", samples ";

/// The settings that must be equal for a cursor to be valid: named values, compared one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

impl Fingerprint {
    /// Refuses a cursor whose `saved` fingerprint differs from this one, naming the first difference.
    pub fn check(&self, saved: &Self) -> Result<()> {
        let absent = "absent".to_owned();
        for field in self.0.keys().chain(saved.0.keys()) {
            let value = |of: &Self| of.0.get(field).unwrap_or(&absent).clone();
            let (saved, mut now) = (value(saved), value(self));
            let files = |value: &str| value.split(SAMPLES).next().map(str::to_owned);
            if files(&saved) == files(&now) {
                // Token shards take the place of the text, so its files are not read.
                if saved == now || !(saved.contains(SAMPLES) && now.contains(SAMPLES)) {
                    continue;
                }
                now.push_str(" (the text of some files has changed, and not their lengths)");
            }
            return Err(Error::Fingerprint { field: field.clone(), saved, now });
        }
        Ok(())
    }
}
