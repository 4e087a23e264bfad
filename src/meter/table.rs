//! The stages side by side, for people.

use std::fmt;

use super::snapshot::{Meters, StageMeter};

/// [`Meters`] as lines of text: one for each stage, in the order of the journey. Times are seconds; those of workers
/// add up, and what the pipeline waited for a custom stage counts as its work. A rate is left out where the stage does
/// not count what it is of.
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
        // Custom stages may have long names.
        let names = self.0.stages.iter().map(|stage| stage.stage.chars().count() + 1);
        let width = names.max().unwrap_or(0).max(9);
        write!(
            f,
            "{:<width$}{:>11}{:>13}{:>9}{:>11}{:>8}{:>9}{:>10}{:>10}{:>11}{:>8}",
            "stage",
            "documents",
            "tokens",
            "docs/s",
            "tokens/s",
            "MB/s",
            "busy s",
            "wait in",
            "wait out",
            "queue",
            "busy"
        )?;
        let wall = self.0.wall_seconds;
        self.0.stages.iter().try_for_each(|stage| {
            writeln!(f)?;
            line(f, stage, wall, width)
        })
    }
}

fn line(f: &mut fmt::Formatter<'_>, stage: &StageMeter, wall: f64, width: usize) -> fmt::Result {
    let rate = |count: u64| match count {
        0 => String::new(),
        _ if wall > 0.0 => short(count as f64 / wall),
        _ => String::new(),
    };
    let megabytes = match stage.bytes {
        0 => String::new(),
        bytes => format!("{:.1}", bytes as f64 / 1e6 / wall),
    };
    let queue = match stage.capacity {
        0 => stage.queued.to_string(),
        capacity => format!("{}/{capacity}", stage.queued),
    };
    let workers = match stage.workers {
        0 => String::new(),
        _ => {
            let busy = if wall > 0.0 { stage.busy_seconds / wall } else { 0.0 };
            format!("{busy:.1}/{}", stage.workers_at_most(wall))
        }
    };
    let (documents, tokens) = (count(stage.documents), count(stage.tokens));
    write!(
        f,
        "{:<width$}{documents:>11}{tokens:>13}{:>9}{:>11}{megabytes:>8}{:>9.3}{:>10.3}{:>10.3}{queue:>11}{workers:>8}",
        stage.stage,
        rate(stage.documents),
        rate(stage.tokens),
        stage.busy_seconds + stage.awaited_seconds,
        stage.wait_in_seconds,
        stage.wait_out_seconds,
    )
}

/// Formats a number; zero is left empty.
fn count(count: u64) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}

/// Formats a rate, in thousands or millions if it is that high.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_queues_and_workers_stand_beside_the_counts() {
        let tokenize = StageMeter {
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
        };
        let batch =
            StageMeter { stage: "batch".into(), tokens: 400, busy_seconds: 0.25, ..StageMeter::default() };
        let meters = Meters { wall_seconds: 2.0, stages: vec![tokenize, batch], ..Meters::default() };
        let expected = "\
stage      documents       tokens   docs/s   tokens/s    MB/s   busy s   wait in  wait out      queue    busy
tokenize       30000      8000000   15.0 k     4.00 M    16.0    3.800     0.100     0.000        3/4   1.9/2
batch                         400                 200            0.250     0.000     0.000          0        ";
        assert_eq!(meters.table().to_string(), expected);
    }
}
