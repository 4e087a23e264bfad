//! What a cursor depends on: the settings that fix the order, and the changes of the stream during the run, which a
//! repetition of the run must make too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Something that changed the stream at a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// From this batch on, the sources have these shares, in parts of their sum. Sources without a share are
    /// left out.
    Weights {
        /// The first batch.
        batch: u64,
        /// Its first row.
        row: u64,
        /// The shares by the sources' names.
        shares: BTreeMap<String, u32>,
    },
    /// The batches `from..to` were read but not delivered.
    ExcludedBatches {
        /// The first excluded batch.
        from: u64,
        /// The batch after the last excluded one.
        to: u64,
    },
    /// From this batch on, these documents are left out.
    ExcludedDocuments {
        /// The batch at which the stream was resumed without them.
        batch: u64,
        /// The documents.
        documents: Vec<ExcludedDocument>,
        /// Where they are, by the names of the sources that have them: the number of the file in its source, and the byte.
        /// It holds wherever the corpus moves.
        places: BTreeMap<String, Vec<(u32, u64)>>,
    },
}

/// A document, as `inspect` names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExcludedDocument {
    /// Its file, spelled as its source's paths spell it.
    pub path: PathBuf,
    /// Where it begins in the file, in bytes.
    pub byte: u64,
}

/// Separates the description of files by paths and lengths from the digest of samples of their text.
pub(crate) const SAMPLES: &str = ", samples ";

/// The prefix of the fields with the commits of the Hub's branches and tags.
const COMMIT: &str = "commit of ";

/// The settings that must be equal for a cursor to be valid: named values, compared one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

impl Fingerprint {
    /// Notes the commits that the Hub's branches and tags stood for, by the names of their repositories.
    pub(crate) fn insert_commits(&mut self, commits: impl IntoIterator<Item = (String, String)>) {
        self.0.extend(commits.into_iter().map(|(name, commit)| (format!("{COMMIT}{name}"), commit)));
    }

    /// Those commits.
    pub(crate) fn commits(&self) -> impl Iterator<Item = (String, String)> {
        let named = |(field, commit): (&String, &String)| {
            Some((field.strip_prefix(COMMIT)?.to_owned(), commit.clone()))
        };
        self.0.iter().filter_map(named)
    }

    /// Refuses a cursor whose `saved` fingerprint differs from this one, naming the first difference.
    pub fn check(&self, saved: &Self) -> Result<()> {
        let absent = "absent".to_owned();
        // The other side has other settings too.
        let held_out = |of: &Self| of.0.get("side").map(|side| (side != "train").to_string());
        if let (Some(saved), Some(now)) = (held_out(saved), held_out(self))
            && saved != now
        {
            return Err(Error::Fingerprint { field: "held_out".to_owned(), saved, now });
        }
        let fields = self.0.keys().chain(saved.0.keys());
        // A commit tells where the files are. What they hold is compared by their etags.
        for field in fields.filter(|field| !field.starts_with(COMMIT)) {
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
