//! The date that a template asks for.

use std::fmt::Write;

use chrono::{NaiveDate, NaiveTime};
use minijinja::Error;

use super::fail;

/// The letters of a format that are known: those of numbers, and those of words.
const NUMBERS: &str = "YymdjHMSI";
const WORDS: &str = "pBbAa%";

/// A date, at midnight, in the words of a format, as Python's `strftime` gives them on Linux in English.
pub(super) fn strftime(date: NaiveDate, format: &str) -> Result<String, Error> {
    let (moment, mut out, mut rest) = (date.and_time(NaiveTime::MIN), String::new(), format);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_python() {
        let date = NaiveDate::from_ymd_opt(2026, 3, 5).expect("a date");
        for (format, text) in [
            ("%d %B %Y", "05 March 2026"),
            ("%-d. %b %y, %A (%a)", "5. Mar 26, Thursday (Thu)"),
            ("%j %H:%M %I:%M:%S %p", "064 00:00 12:00:00 AM"),
            ("ü%Y 100%% %", "ü2026 100% %"),
        ] {
            assert_eq!(strftime(date, format).expect(format), text);
        }
        assert!(strftime(date, "%Q").is_err());
    }
}
