//! Numbers of things and dates, for people.

#[cfg(feature = "train")]
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Today's date, such as `2026-11-28`, by the clock of UTC.
#[cfg(feature = "train")]
pub(super) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    date(seconds / 86_400)
}

/// The date of a day after 1970-01-01, by Hinnant's `civil_from_days`: years begin in March, and 400 of them repeat.
#[cfg(feature = "train")]
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_thing_has_no_plural() {
        let said = [count(0, "row"), count(1, "file"), count(2, "batch"), count(1, "batch")];
        assert_eq!(said, ["0 rows", "1 file", "2 batches", "1 batch"]);
    }
    #[cfg(feature = "train")]
    #[test]
    fn days_have_dates() {
        let dates = [(0, "1970-01-01"), (58, "1970-02-28"), (11_016, "2000-02-29"), (11_017, "2000-03-01")];
        for (days, expected) in dates.into_iter().chain([(20_785, "2026-11-28"), (47_541, "2100-03-01")]) {
            assert_eq!(date(days), expected);
        }
    }
}
