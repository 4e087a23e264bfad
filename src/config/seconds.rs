//! Durations as people write them.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use crate::error::Error;

/// A duration: a number of seconds, or text such as `"500ms"`, `"2s"`, `"5min"` or `"1h30m"`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

const HINT: &str = "a duration, such as 30 (seconds), \"500ms\", \"2s\", \"5min\" or \"1h30m\"";

/// The units, by every name that they have, with their seconds.
const UNITS: [(&[&str], f64); 5] = [
    (&["ms", "millisecond", "milliseconds"], 1e-3),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hr", "hour", "hours"], 3_600.0),
    (&["d", "day", "days"], 86_400.0),
];

impl Seconds {
    /// Reads a key that holds seconds.
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Self::deserialize(deserializer).map(|Self(seconds)| seconds)
    }
}

impl FromStr for Seconds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map(Self).ok_or_else(|| Error::config(text, format!("write {HINT}")))
    }
}

/// A number of seconds, or numbers with units, one after the other.
fn parse(text: &str) -> Option<f64> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let text = text.trim();
    if text.chars().all(is_of_number) {
        return text.parse().ok();
    }
    let (mut sum, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|letter| !is_of_number(letter))?);
        let after = after.trim_start();
        let end = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = unit.to_ascii_lowercase();
        let (_, seconds) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()))?;
        sum += number.parse::<f64>().ok()? * seconds;
        rest = after.trim_start();
    }
    Some(sum)
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }

        let seconds = match Written::deserialize(deserializer) {
            Ok(Written::Number(seconds)) => Some(seconds),
            Ok(Written::Text(text)) => parse(&text),
            Err(_) => None,
        };
        seconds.map(Self).ok_or_else(|| de::Error::custom(format_args!("must be {HINT}")))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Seconds {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let units: Vec<&str> = UNITS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        // A number is digits with at most one point.
        let number = r"([0-9]+\.?[0-9]*|\.[0-9]+)";
        let units = units.join("|");
        schemars::json_schema!({
            "description": "A number of seconds, or text such as \"500ms\", \"2s\", \"5min\" or \"1h30m\".",
            "anyOf": [
                { "type": "number" },
                { "type": "string", "pattern": format!(r"^({number}|({number}\s*({units})\s*)+)$") },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("30", 30.0),
            ("0.5", 0.5),
            ("500ms", 0.5),
            ("2s", 2.0),
            ("1.5 s", 1.5),
            ("5min", 300.0),
            ("5 minutes", 300.0),
            ("1h30m", 5400.0),
            ("1h 30min", 5400.0),
            ("1d", 86_400.0),
        ] {
            assert_eq!(text.parse::<Seconds>().expect("a duration"), Seconds(seconds), "{text}");
        }
        for wrong in ["", "-1", "-1s", "s", "1 fortnight", "1s2", "1.2.3s", "inf"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
    }
}
