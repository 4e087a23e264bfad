//! Numbers of things, values and dates, for people.

use std::borrow::Cow;

use serde::Serialize;

/// "1 row", "2 rows".
pub(super) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number if noun.ends_with("ch") => format!("{number} {noun}es"),
        number => format!("{number} {noun}s"),
    }
}

/// "1.5 KiB".
pub(super) fn bytes(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The value of a column in a table: in quotes where it would be a blank cell, or does not show its ends.
pub(super) fn value(value: &str) -> Cow<'_, str> {
    let is_plain = !value.is_empty() && value.trim() == value && !value.starts_with('"');
    if is_plain { value.into() } else { format!("{value:?}").into() }
}

/// A value as TOML writes it, on one line.
pub(super) fn toml_of(value: &(impl Serialize + ?Sized)) -> String {
    let mut written = String::new();
    match value.serialize(toml::ser::ValueSerializer::new(&mut written)) {
        Ok(_) => written,
        Err(error) => error.to_string(),
    }
}

/// A value as a config spells it, without quotes.
#[cfg(feature = "train")]
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        value => value.unwrap_or_default().to_string(),
    }
}

/// Today's date, such as `2026-11-28`, by the clock of UTC.
#[cfg(feature = "train")]
pub(super) fn today() -> String {
    chrono::Utc::now().date_naive().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_shows_nothing_has_quotes() {
        let shown = ["en", "two words", "", " ", "en ", "\"en\""].map(value);
        assert_eq!(shown, ["en", "two words", "\"\"", "\" \"", "\"en \"", "\"\\\"en\\\"\""]);
    }

    #[test]
    fn one_of_a_thing_has_no_plural() {
        let said = [count(0, "row"), count(1, "file"), count(2, "batch"), count(1, "batch")];
        assert_eq!(said, ["0 rows", "1 file", "2 batches", "1 batch"]);
    }
}
