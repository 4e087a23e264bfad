//! The stages side by side, for people.

use std::fmt;

use super::snapshot::{Meters, StageMeter};

/// How wide a table is at most, in characters.
const WIDTH: usize = 100;

/// What stands between two columns.
const GAP: usize = 2;

/// The columns behind the stage's name.
const HEAD: [&str; 10] =
    ["docs", "tokens", "docs/s", "tokens/s", "MB/s", "busy s", "wait in", "wait out", "queue", "busy"];

/// [`Meters`] as lines of text, at most 100 characters long: one for each stage, in the order of data flow. Times are
/// seconds; workers' times add up, and the pipeline's waits for a custom stage count as its work. A rate is left out if
/// the stage does not count its unit. A name that is too long for its column has a line of its own.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(&'a Meters);

impl Meters {
    /// Returns the stages side by side, with their rates, as lines of text.
    pub fn table(&self) -> Table<'_> {
        Table(self)
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 10]> =
            self.0.stages.iter().map(|stage| cells(stage, self.0.wall_seconds)).collect();
        let widths: [usize; 10] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].len());
            cells.fold(HEAD[column].len(), usize::max)
        });
        let room = WIDTH.saturating_sub(widths.iter().map(|width| width + GAP).sum());
        let names = self.0.stages.iter().map(|stage| stage.stage.chars().count());
        let name_width = names.filter(|name| *name <= room).max().unwrap_or(0).max("prefetch".len());

        write!(f, "{:<name_width$}", "stage")?;
        line(f, &HEAD, &widths)?;
        self.0.stages.iter().zip(&rows).try_for_each(|(stage, row)| {
            let name = &stage.stage;
            match name.chars().count() > name_width {
                true => write!(f, "\n{name}\n{:name_width$}", "")?,
                false => write!(f, "\n{name:<name_width$}")?,
            }
            line(f, &row.each_ref().map(String::as_str), &widths)
        })
    }
}

/// Writes cells to the right of their columns.
fn line(f: &mut fmt::Formatter<'_>, cells: &[&str; 10], widths: &[usize; 10]) -> fmt::Result {
    // Nothing stands behind the last cell that there is.
    let len = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
    cells[..len].iter().zip(widths).try_for_each(|(cell, width)| write!(f, "{cell:>0$}", width + GAP))
}

fn cells(stage: &StageMeter, wall: f64) -> [String; 10] {
    let rate = |count: u64| match count {
        0 => String::new(),
        _ if wall > 0.0 => short(count as f64 / wall),
        _ => String::new(),
    };
    let megabytes = match stage.bytes {
        0 => String::new(),
        bytes => {
            let rate = bytes as f64 / 1e6 / wall;
            if rate < 1e3 { format!("{rate:.1}") } else { format!("{rate:.0}") }
        }
    };
    let queue = match stage.capacity {
        0 => held(stage.queued),
        capacity => format!("{}/{}", held(stage.queued), held(capacity)),
    };
    let workers = match (stage.workers, stage.workers_at_most(wall)) {
        (0, _) => String::new(),
        (_, most) => {
            let busy = if wall > 0.0 { stage.busy_seconds / wall } else { 0.0 };
            if most < 100 { format!("{busy:.1}/{most}") } else { format!("{busy:.0}/{most}") }
        }
    };
    [
        count(stage.documents),
        count(stage.tokens),
        rate(stage.documents),
        rate(stage.tokens),
        megabytes,
        seconds(stage.busy_seconds + stage.awaited_seconds),
        seconds(stage.wait_in_seconds),
        seconds(stage.wait_out_seconds),
        queue,
        workers,
    ]
}

/// Formats a number; zero is left empty.
fn count(count: u64) -> String {
    match count {
        0 => String::new(),
        count if count < 10_000_000 => count.to_string(),
        count => short(count as f64),
    }
}

/// Formats how many items a stage holds.
fn held(items: u64) -> String {
    if items < 10_000 { items.to_string() } else { format!("{}k", items / 1000) }
}

fn seconds(seconds: f64) -> String {
    if seconds < 1e3 { format!("{seconds:.3}") } else { format!("{seconds:.0}") }
}

/// Formats a rate or a large count, in thousands, millions or more.
fn short(rate: f64) -> String {
    let (scaled, unit) = match rate {
        rate if rate >= 1e12 => (rate / 1e12, " T"),
        rate if rate >= 1e9 => (rate / 1e9, " G"),
        rate if rate >= 1e6 => (rate / 1e6, " M"),
        rate if rate >= 1e4 => (rate / 1e3, " k"),
        rate => return format!("{rate:.0}"),
    };
    let digits = if scaled >= 100.0 { 0 } else { 1 + usize::from(scaled < 10.0) };
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meters(stages: Vec<StageMeter>) -> Meters {
        Meters { wall_seconds: 2.0, stages, ..Meters::default() }
    }

    fn tokenize() -> StageMeter {
        StageMeter {
            stage: "tokenize".into(),
            documents: 30_000,
            tokens: 8_000_000,
            bytes: 32_000_000,
            busy_seconds: 3.8,
            wait_in_seconds: 0.1,
            queued: 3,
            capacity: 4,
            workers: 2,
            ..StageMeter::default()
        }
    }

    #[test]
    fn rates_queues_and_workers_stand_beside_the_counts() {
        let batch =
            StageMeter { stage: "batch".into(), tokens: 400, busy_seconds: 0.25, ..StageMeter::default() };
        let expected = "\
stage      docs   tokens  docs/s  tokens/s  MB/s  busy s  wait in  wait out  queue   busy
tokenize  30000  8000000  15.0 k    4.00 M  16.0   3.800    0.100     0.000    3/4  1.9/2
batch                400               200         0.250    0.000     0.000      0";
        assert_eq!(meters(vec![tokenize(), batch]).table().to_string(), expected);
    }

    #[test]
    fn no_line_is_longer_than_a_hundred_however_large_the_numbers() {
        let large = StageMeter {
            documents: 9_999_999,
            tokens: 9_999_999,
            bytes: 199_999_000_000,
            busy_seconds: 999.999 * 2.0,
            wait_in_seconds: 999_999.4,
            wait_out_seconds: 999_999.4,
            queued: 9_999,
            capacity: 9_999,
            workers: 999,
            ..tokenize()
        };
        let larger =
            StageMeter { documents: 999_400_000_000_000, tokens: 999_400_000_000_000, ..large.clone() };
        let long = "a custom stage whose name says everything that it does";
        let custom = StageMeter { stage: long.into(), ..large.clone() };
        let table = meters(vec![large, larger, custom]).table().to_string();
        for line in table.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}\n{table}");
        }
        assert!(table.contains(&format!("\n{long}\n ")), "{table}");
        // Where there is room, a name stands in its line.
        let custom = StageMeter { stage: "deduplicate".into(), ..tokenize() };
        assert!(meters(vec![custom]).table().to_string().contains("\ndeduplicate  30000"));
    }
}
