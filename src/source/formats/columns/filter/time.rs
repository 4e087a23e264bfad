//! Dates, times, and the text that writes them.

use std::cmp::Ordering;
use std::mem::discriminant;

use toml::value::{Date, Datetime, Offset};

const SECOND: i128 = 1_000_000_000;

/// A date or time, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(super) nanos: i128,
    pub(super) clock: Clock,
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

impl Clock {
    /// Dates, and times in UTC.
    pub(super) const UTC: Self = Self::Calendar { offset: Some(0) };

    /// Whether both are times of day, or neither.
    pub(super) fn is_like(self, other: Self) -> bool {
        discriminant(&self) == discriminant(&other)
    }

    /// Times in a zone.
    pub(super) fn in_zone(zone: &str) -> Self {
        let offset = || {
            let (hours, minutes) = zone.starts_with(['+', '-']).then(|| zone.split_at_checked(3))??;
            let (hours, minutes): (i16, _) = (hours.parse().ok()?, minutes.trim_start_matches(':'));
            let minutes: u8 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            Some(hours * 60 + sign * i16::from(minutes))
        };
        match zone {
            "UTC" | "Etc/UTC" | "GMT" | "Z" => Self::UTC,
            _ => Self::Calendar { offset: offset() },
        }
    }

    /// The time that a text writes.
    pub(super) fn read(self, text: &str) -> Option<Time> {
        let Datetime { date, time, offset } = text.trim().parse::<Datetime>().ok()?;
        let since_midnight = time.map_or(0, |time| {
            let minutes = i128::from(time.hour) * 60 + i128::from(time.minute);
            let seconds = minutes * 60 + i128::from(time.second.unwrap_or(0));
            seconds * SECOND + i128::from(time.nanosecond.unwrap_or(0))
        });
        let nanos = match (self, date) {
            (Self::OfDay, None) => since_midnight,
            (Self::Calendar { offset: usual }, Some(date)) => {
                let minutes = match offset {
                    Some(Offset::Z) => 0,
                    Some(Offset::Custom { minutes }) => minutes,
                    None => usual?,
                };
                i128::from(days(date)) * 86_400 * SECOND + since_midnight - i128::from(minutes) * 60 * SECOND
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

/// The days from 1970 to a date.
fn days(date: Date) -> i64 {
    // Years begin in March here, so that a leap day is the last.
    let (year, month) = match (i64::from(date.year), i64::from(date.month)) {
        (year, month @ 3..) => (year, month - 3),
        (year, month) => (year - 1, month + 9),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + i64::from(date.day) - 719_469
}
