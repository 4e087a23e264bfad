//! The ledger by the values of a column, `pipeline.ledger_by`: for people and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Numbers, whole};
use crate::words::value as value_in_words;
use millstream::cursor::{Ledger, LeftOut, SourceLedger};

/// What became of the documents and ids of a source that have a value.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ShownValue {
    source: String,
    value: String,
    #[serde(flatten)]
    numbers: Numbers,
    /// With a count, all that the stream has, or one epoch of one without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<LeftOut>,
}

/// The values of all sources; with a count, also those that are not yet reached. Of each source those with the most
/// learned ids come first.
pub(super) fn values(ledger: &Ledger, all: Option<&Ledger>) -> Vec<ShownValue> {
    let names = ledger.sources.iter().map(|(name, _)| name);
    let of_source = |source: &String| {
        let (own, all) = (ledger.values.get(source), all.map(|all| all.values.get(source)));
        let counted = all.flatten().into_iter().flatten().map(|(value, _)| (value, SourceLedger::default()));
        let mut values: BTreeMap<&String, SourceLedger> = counted.collect();
        values.extend(own.into_iter().flatten().map(|(value, ledger)| (value, *ledger)));
        let shown = |(value, ledger): (&String, SourceLedger)| {
            let all = all.map(|all| all.and_then(|all| all.get(value)).copied().unwrap_or_default());
            ShownValue::new(source, value, ledger, all)
        };
        let mut shown: Vec<ShownValue> = values.into_iter().map(shown).collect();
        shown.sort_by_key(|value| std::cmp::Reverse(value.numbers.learned));
        shown
    };
    names.flat_map(of_source).collect()
}

impl ShownValue {
    fn new(source: &str, value: &str, ledger: SourceLedger, all: Option<SourceLedger>) -> Self {
        Self {
            source: source.to_owned(),
            value: value.to_owned(),
            numbers: Numbers::of(&ledger),
            all: all.as_ref().map(whole),
        }
    }
}

/// A column of the table, and its numbers.
type Column = (&'static str, fn(&ShownValue) -> u64);

/// The numbers as a table: a row for each value of a column. Columns without a number are left out.
pub(super) fn rows(column: &str, values: &[ShownValue]) -> Vec<Vec<String>> {
    let numbers: [Column; 8] = [
        ("documents", |value| value.numbers.documents),
        ("learned", |value| value.numbers.learned),
        ("masked", |value| value.numbers.masked),
        ("first in a row", |value| value.numbers.first),
        ("cut", |value| value.numbers.cut.ids),
        ("excluded", |value| value.numbers.excluded.ids),
        ("ids", |value| value.numbers.ids),
        ("of all", |value| value.all.map_or(0, |all| all.ids)),
    ];
    let is_shown = |(_, number): &Column| values.iter().any(|value| number(value) > 0);
    let shown: Vec<Column> = numbers.into_iter().filter(is_shown).collect();
    let words = |first: &str, source: &str| vec![first.to_owned(), source.to_owned()];
    let head = words(column, "source").into_iter().chain(shown.iter().map(|(name, _)| (*name).to_owned()));
    let row = |value: &ShownValue| {
        let numbers = shown.iter().map(|(_, number)| number(value).to_string());
        words(&value_in_words(&value.value), &value.source).into_iter().chain(numbers).collect()
    };
    std::iter::once(head.collect()).chain(values.iter().map(row)).collect()
}
