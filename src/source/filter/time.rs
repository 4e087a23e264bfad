//! Dates, times, and the text that writes them.

use std::cmp::Ordering;
use std::fmt;
use std::mem::discriminant;

use toml::value::{Date, Datetime, Offset};

const SECOND: i128 = 1_000_000_000;

/// The length of a date as text, in bytes.
const DATE: usize = "2024-01-31".len();

/// A date or time, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) nanos: i128,
    pub(crate) clock: Clock,
}

/// From when a time counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clock {
    /// From midnight.
    OfDay,
    /// From 1970 in UTC. Text without an offset has this one, in minutes; none where the offset changes over the years.
    Calendar { offset: Option<i16> },
}

impl Time {
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        self.clock.is_like(other.clock).then(|| self.nanos.cmp(&other.nanos))
    }
}

impl fmt::Display for Time {
    /// Writes it as ISO 8601 does, in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.nanos.div_euclid(SECOND), self.nanos.rem_euclid(SECOND));
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        if let Clock::Calendar { .. } = self.clock {
            let (year, month, day) = date(days);
            write!(f, "{year:04}-{month:02}-{day:02}T")?;
        }
        write!(f, "{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)?;
        match nanos {
            0 => Ok(()),
            _ => write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0')),
        }
    }
}

impl Clock {
    /// Dates, and times in UTC.
    pub(crate) const UTC: Self = Self::Calendar { offset: Some(0) };

    /// Whether both are times of day, or neither.
    pub(super) fn is_like(self, other: Self) -> bool {
        discriminant(&self) == discriminant(&other)
    }

    pub(crate) fn in_zone(zone: &str) -> Self {
        match zone {
            "UTC" | "Etc/UTC" | "GMT" | "Z" => Self::UTC,
            _ => Self::Calendar { offset: minutes(zone) },
        }
    }

    pub(super) fn read(self, text: &str) -> Option<Time> {
        let text = text.trim();
        // A date has signs of its own.
        let sign = text.get(DATE..).and_then(|time| time.rfind(['+', '-']));
        let (text, written) = match sign.map(|at| text.split_at(DATE + at)) {
            Some((text, offset)) => (text.trim_end(), Some(minutes(offset)?)),
            None => (text, None),
        };
        let Datetime { date, time, offset } = text.parse::<Datetime>().ok()?;
        let offset = match (offset, written) {
            (None, written) => written,
            (Some(Offset::Z), None) => Some(0),
            _ => return None,
        };
        let since_midnight = time.map_or(0, |time| {
            let minutes = i128::from(time.hour) * 60 + i128::from(time.minute);
            let seconds = minutes * 60 + i128::from(time.second.unwrap_or(0));
            seconds * SECOND + i128::from(time.nanosecond.unwrap_or(0))
        });
        let nanos = match (self, date) {
            (Self::OfDay, None) if offset.is_none() => since_midnight,
            (Self::Calendar { offset: usual }, Some(date)) => {
                let minutes = i128::from(offset.or(usual)?);
                i128::from(days(date)) * 86_400 * SECOND + since_midnight - minutes * 60 * SECOND
            }
            _ => return None,
        };
        Some(Time { nanos, clock: self })
    }

    /// How a text may write a time.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::OfDay => "12:30:00",
            Self::Calendar { offset: Some(_) } => "2024-01-31 or 2024-01-31T12:30:00Z",
            Self::Calendar { offset: None } => "2024-01-31T12:30:00Z, with an offset from UTC",
        }
    }
}

/// The minutes of an offset from UTC, such as `+05:30`, `+0530` or `-08`.
fn minutes(offset: &str) -> Option<i16> {
    let sign = match offset.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let number = |tens: u8, ones: u8| {
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| i16::from(tens - b'0') * 10 + i16::from(ones - b'0'))
    };
    let (hours, minutes) = match offset.as_bytes()[1..] {
        [a, b] => (number(a, b)?, 0),
        [a, b, c, d] | [a, b, b':', c, d] => (number(a, b)?, number(c, d)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn days(date: Date) -> i64 {
    // Years begin in March here, so that a leap day is the last.
    let (year, month) = match (i64::from(date.year), i64::from(date.month)) {
        (year, month @ 3..) => (year, month - 3),
        (year, month) => (year - 1, month + 9),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + i64::from(date.day) - 719_469
}

/// The year, month and day that are so many days from 1970: the inverse of [`days`].
fn date(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    // In eras of 400 years, which have equally many days.
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds in -60_000_000_000_i64..250_000_000_000, nanos in 0_i128..SECOND) {
            let time = Time { nanos: i128::from(seconds) * SECOND + nanos, clock: Clock::UTC };
            prop_assert_eq!(Clock::UTC.read(&time.to_string()), Some(time), "{}", time);
        }
    }
}
