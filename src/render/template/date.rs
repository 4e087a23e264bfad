//! The date that a template asks for.

use minijinja::Error;

use super::fail;

/// A day of the Gregorian calendar. Its time is midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    year: u16,
    month: u8,
    day: u8,
}

/// Their short names are the first three letters.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Date {
    /// Reads a date such as `2026-11-28`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts =
            text.split('-').map(|part| part.bytes().all(|byte| byte.is_ascii_digit()).then_some(part));
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        if (year.len(), month.len(), day.len()) != (4, 2, 2) || parts.next().is_some() {
            return None;
        }
        let date = Self { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? };
        let valid =
            date.year > 0 && (1..=12).contains(&date.month) && (1..=date.days_of_month()).contains(&date.day);
        valid.then_some(date)
    }

    fn days_of_month(self) -> u8 {
        let leap =
            self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The day of the year; the first is 1.
    fn day_of_year(self) -> u16 {
        let before = (1..self.month).map(|month| u16::from(Self { month, ..self }.days_of_month()));
        before.sum::<u16>() + u16::from(self.day)
    }

    /// The day of the week; Sunday is 0.
    fn day_of_week(self) -> u16 {
        let before = self.year - 1;
        // The first of January of the year 1 was a Monday.
        (before % 7 + before / 4 - before / 100 + before / 400 + self.day_of_year()) % 7
    }

    /// The date in the words of a format, as Python's `strftime` gives them on Linux in English.
    pub(super) fn strftime(self, format: &str) -> Result<String, Error> {
        let mut out = String::new();
        let mut rest = format;
        while let Some((text, directive)) = rest.split_once('%') {
            out.push_str(text);
            // `%-d` has no zero before the day.
            let short = directive.starts_with('-');
            let directive = directive.strip_prefix('-').unwrap_or(directive);
            let letter = directive.chars().next().unwrap_or('%');
            let number = |value: u16, width: usize| {
                let width = if short { 0 } else { width };
                format!("{value:0width$}")
            };
            let day = DAYS[usize::from(self.day_of_week())];
            let month = MONTHS[usize::from(self.month) - 1];
            out.push_str(&match letter {
                'Y' => number(self.year, 4),
                'y' => number(self.year % 100, 2),
                'm' => number(self.month.into(), 2),
                'd' => number(self.day.into(), 2),
                'j' => number(self.day_of_year(), 3),
                'H' | 'M' | 'S' => number(0, 2),
                'I' => "12".to_owned(),
                'p' => "AM".to_owned(),
                'B' => month.to_owned(),
                'b' => month[..3].to_owned(),
                'A' => day.to_owned(),
                'a' => day[..3].to_owned(),
                '%' => "%".to_owned(),
                _ => return fail(format!("`strftime_now` does not know `%{letter}`")),
            });
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
            "2026-11-31",
            "2023-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-1-01",
            "2026-11-28-",
            "+026-11-28",
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
