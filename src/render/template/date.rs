//! The date that a template asks for.

use std::fmt::Write;

use chrono::{Datelike, NaiveDate, NaiveTime};
use minijinja::Error;

use super::fail;

/// A day of the Gregorian calendar. Its time is midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date(NaiveDate);

/// The letters of a format that are known: those of numbers, and those of words.
const NUMBERS: &str = "YymdjHMSI";
const WORDS: &str = "pBbAa%";

impl Date {
    /// Reads a date such as `2026-11-28`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        // Shorter numbers and signs are read too.
        (date.to_string() == text && date.year() > 0).then_some(Self(date))
    }

    /// The date in the words of a format, as Python's `strftime` gives them on Linux in English.
    pub(super) fn strftime(self, format: &str) -> Result<String, Error> {
        let (moment, mut out, mut rest) = (self.0.and_time(NaiveTime::MIN), String::new(), format);
        while let Some((text, directive)) = rest.split_once('%') {
            out.push_str(text);
            // `%-d` has no zero before the day.
            let (dash, directive) = directive.strip_prefix('-').map_or(("", directive), |rest| ("-", rest));
            let letter = directive.chars().next().unwrap_or('%');
            let known = match letter {
                _ if NUMBERS.contains(letter) => format!("%{dash}{letter}"),
                _ if WORDS.contains(letter) => format!("%{letter}"),
                _ => return fail(format!("`strftime_now` does not know `%{letter}`")),
            };
            // Writing to a string fails only for a directive that chrono does not know.
            let _ = write!(out, "{}", moment.format(&known));
            rest = directive.get(letter.len_utf8()..).unwrap_or_default();
        }
        Ok(out + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_exist_are_dates() {
        for text in ["2026-11-28", "2024-02-29", "2000-02-29", "0001-01-01"] {
            assert_eq!(Date::parse(text).expect(text).strftime("%Y-%m-%d").expect("a format"), text);
        }
        let wrong = [
            "2026-11-31", "2023-02-29", "1900-02-29", "2026-13-01", "2026-1-01", "2026-11-28-", "+026-11-28",
            "",
        ];
        for text in wrong {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn formats_are_those_of_python() {
        let date = Date::parse("2026-03-05").expect("a date");
        for (format, text) in [
            ("%d %B %Y", "05 March 2026"),
            ("%-d. %b %y, %A (%a)", "5. Mar 26, Thursday (Thu)"),
            ("%j %H:%M %I:%M:%S %p", "064 00:00 12:00:00 AM"),
            ("ü%Y 100%% %", "ü2026 100% %"),
        ] {
            assert_eq!(date.strftime(format).expect(format), text);
        }
        assert!(date.strftime("%Q").is_err());
    }
}
