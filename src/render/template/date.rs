//! The date that a template asks for.

use std::fmt::Write;

/// A day of the Gregorian calendar. Its time is midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    year: u16,
    month: u8,
    day: u8,
}

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

    fn is_leap(self) -> bool {
        self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_of_month(self) -> u8 {
        match self.month {
            2 => 28 + u8::from(self.is_leap()),
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

    /// The ISO 8601 year and week.
    fn iso_week(self) -> (u16, u16) {
        let weekday = (self.day_of_week() + 6) % 7 + 1;
        let weeks = |year: u16| {
            let last = Self { year, month: 12, day: 31 };
            let first = Self { year, month: 1, day: 1 };
            if last.day_of_week() == 4 || first.day_of_week() == 4 { 53 } else { 52 }
        };
        match (self.day_of_year() + 10 - weekday) / 7 {
            0 => (self.year - 1, weeks(self.year - 1)),
            53 if weeks(self.year) == 52 => (self.year + 1, 1),
            week => (self.year, week),
        }
    }

    /// The date in the words of a format, as Python's `strftime` gives them on Linux in English.
    pub(crate) fn strftime(self, format: &str) -> String {
        let mut out = String::new();
        let mut rest = format;
        while let Some(start) = rest.find('%') {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let flag = rest[1..].chars().next().filter(|flag| "-_0^#".contains(*flag));
            let letter = rest[1 + flag.map_or(0, char::len_utf8)..].chars().next();
            let directive = letter.and_then(|letter| self.directive(letter, flag));
            let taken = 1 + flag.map_or(0, char::len_utf8) + letter.map_or(0, char::len_utf8);
            out.push_str(directive.as_deref().unwrap_or(&rest[..taken]));
            rest = &rest[taken..];
        }
        out + rest
    }

    fn directive(self, letter: char, flag: Option<char>) -> Option<String> {
        let number = |value: u16, width: usize, pad: char| {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = match (flag, pad) {
                (Some('-'), _) => write!(text, "{value}"),
                (Some('0'), _) | (None | Some('^' | '#'), '0') => write!(text, "{value:0width$}"),
                _ => write!(text, "{value:width$}"),
            };
            text
        };
        let two = |value: u16| number(value, 2, '0');
        let word =
            |word: &str| if matches!(flag, Some('^' | '#')) { word.to_uppercase() } else { word.to_owned() };
        let weekday = self.day_of_week();
        let (day_name, month_name) = (DAYS[usize::from(weekday)], MONTHS[usize::from(self.month) - 1]);
        let (month, day) = (u16::from(self.month), u16::from(self.day));
        Some(match letter {
            'Y' => number(self.year, 4, '0'),
            'G' => number(self.iso_week().0, 4, '0'),
            'C' => two(self.year / 100),
            'y' => two(self.year % 100),
            'g' => two(self.iso_week().0 % 100),
            'm' => two(month),
            'd' => two(day),
            'e' => number(day, 2, ' '),
            'j' => number(self.day_of_year(), 3, '0'),
            'U' => two((self.day_of_year() + 6 - weekday) / 7),
            'W' => two((self.day_of_year() + 6 - (weekday + 6) % 7) / 7),
            'V' => two(self.iso_week().1),
            'u' => number((weekday + 6) % 7 + 1, 1, '0'),
            'w' => number(weekday, 1, '0'),
            'H' | 'M' | 'S' => two(0),
            'k' => number(0, 2, ' '),
            'I' => two(12),
            'l' => number(12, 2, ' '),
            'f' => "000000".to_owned(),
            'p' => if flag == Some('#') { "am" } else { "AM" }.to_owned(),
            'P' => "am".to_owned(),
            'B' => word(month_name),
            'b' | 'h' => word(&month_name[..3]),
            'A' => word(day_name),
            'a' => word(&day_name[..3]),
            'F' => self.strftime("%Y-%m-%d"),
            'D' | 'x' => self.strftime("%m/%d/%y"),
            'T' | 'X' => "00:00:00".to_owned(),
            'R' => "00:00".to_owned(),
            'r' => "12:00:00 AM".to_owned(),
            'c' => self.strftime("%a %b %e 00:00:00 %Y"),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            'Z' | 'z' => String::new(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_exist_are_dates() {
        for text in ["2026-11-28", "2024-02-29", "2000-02-29", "0001-01-01"] {
            assert_eq!(Date::parse(text).expect(text).strftime("%F"), text);
        }
        for text in [
            "2026-11-31",
            "2023-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-1-01",
            "2026-11-28-",
            "today",
            "+026-11-28",
            "",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn formats_are_those_of_python() {
        let date = Date::parse("2026-03-05").expect("a date");
        for (format, text) in [
            ("%d %B %Y", "05 March 2026"),
            ("%-d. %b %y, %A (%a)", "5. Mar 26, Thursday (Thu)"),
            ("%e|%j|%^a|%u%w", " 5|064|THU|44"),
            ("%U %W %V %G", "09 09 10 2026"),
            ("%c %I:%M %p", "Thu Mar  5 00:00:00 2026 12:00 AM"),
            ("100%% %Q %", "100% %Q %"),
            ("ü%Y", "ü2026"),
        ] {
            assert_eq!(date.strftime(format), text);
        }
        let weeks = ["2024-12-30", "2021-01-03", "2020-12-31"]
            .map(|day| Date::parse(day).expect(day).strftime("%G-%V"));
        assert_eq!(weeks, ["2025-01", "2020-53", "2020-53"]);
    }
}
