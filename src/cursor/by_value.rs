//! What became of a source's documents and ids by the values of a column, `pipeline.ledger_by`.
//!
//! Held in memory for each lane and source: at most [`MOST`] values and their numbers. A batch's cursor shares them until
//! the lane's next row.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Ledger, SourceLedger};

/// How many values of a column have numbers of their own, in one lane and source: the first ones. The rest share those of
/// [`OTHER`].
const MOST: usize = 64;

/// The value of a document that lacks the column.
pub const NONE: &str = "none";

/// The value of all documents whose value has no numbers of its own.
pub const OTHER: &str = "other";

/// The numbers of one source, by value. Of a [`SourceLedger`], a value has all but padding and what is skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ByValue(BTreeMap<Arc<str>, SourceLedger>);

/// What a source gave and no row delivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Omitted {
    pub(crate) all: SourceLedger,
    /// The same by value, but for what is skipped; `None` if nothing is counted so.
    pub(crate) values: Option<Box<ByValue>>,
}

impl ByValue {
    /// Adds to the numbers of a value.
    fn add(&mut self, value: &str, ledger: SourceLedger) {
        add(&mut self.0, value, ledger);
    }

    /// Adds to the numbers of a value, or to those of [`OTHER`] if the value is new and there is no room for it.
    pub(super) fn add_within_bounds(&mut self, value: &str, ledger: SourceLedger) {
        let has_room = || is_reserved(value) || self.own_values() < MOST;
        let value = if self.0.contains_key(value) || has_room() { value } else { OTHER };
        self.add(value, ledger);
    }

    /// How many values have numbers of their own.
    fn own_values(&self) -> usize {
        self.0.keys().filter(|value| !is_reserved(value)).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, SourceLedger)> {
        self.0.iter().map(|(value, ledger)| (&**value, *ledger))
    }

    /// Refuses what no run can have counted.
    pub(super) fn check(&self, number: impl Fn(&str, u64) -> Result<(), String>) -> Result<(), String> {
        let values = self.own_values();
        if values > MOST {
            return Err(format!("a source has numbers of {values} values, and a lane keeps at most {MOST}"));
        }
        self.0.values().flat_map(SourceLedger::numbers).try_for_each(|(name, value)| number(name, value))
    }
}

fn is_reserved(value: &str) -> bool {
    value == NONE || value == OTHER
}

impl Omitted {
    /// What is left out of a document; with a value if the ledger tells values apart.
    pub(crate) fn of(value: Option<&str>, all: SourceLedger) -> Self {
        let mut omitted = Self { all, values: None };
        if let Some(value) = value {
            omitted.values.get_or_insert_default().add(value, all);
        }
        omitted
    }

    /// Itself, unless nothing is in it.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl AddAssign for Omitted {
    fn add_assign(&mut self, Self { all, values }: Self) {
        self.all += all;
        match (&mut self.values, values) {
            (_, None) => {}
            (own @ None, values) => *own = values,
            (Some(own), Some(values)) => values.iter().for_each(|(value, ledger)| own.add(value, ledger)),
        }
    }
}

impl Ledger {
    #[cold]
    pub(crate) fn add_values(&mut self, source: &str, values: &ByValue) {
        let of_source = self.values.entry(source.to_owned()).or_default();
        values.iter().for_each(|(value, ledger)| add(of_source, value, ledger));
    }
}

/// Adds to the numbers of a value. Most values are there already, and their names are not copied.
fn add<K>(values: &mut BTreeMap<K, SourceLedger>, value: &str, ledger: SourceLedger)
where
    K: Borrow<str> + Ord + for<'a> From<&'a str>,
{
    match values.get_mut(value) {
        Some(all) => *all += ledger,
        None => drop(values.insert(value.into(), ledger)),
    }
}
