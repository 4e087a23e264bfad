//! The result: a table for people, one object for scripts.

use std::fmt;

use serde::Serialize;

use super::difference::Difference;

/// A longer cell has a line of its own, so that no line of the table is longer than a hundred characters.
const LONGEST: usize = 50;

/// A law that `verify` checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Law {
    /// Workers and depth never change a byte.
    Order = 1,
    /// The stream after a cursor is the same as without a break.
    Resume = 2,
    /// The ranks of any world make the batches of one process.
    World = 3,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Order => "order",
            Self::Resume => "resume",
            Self::World => "world",
        };
        write!(f, "{} {name}", *self as u8)
    }
}

/// One comparison with the reference.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The law that it checks.
    pub law: Law,
    /// How the program was run, in words.
    pub how: String,
    /// How many batches were compared.
    pub batches: u64,
    /// How many rows were compared.
    pub rows: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
}

impl Check {
    /// Its difference, and what it was found in.
    pub(super) fn said(&self, difference: &Difference) -> String {
        format!("law {}, {}: {difference}", self.law, self.how)
    }
}

pub(super) fn first_difference(checks: &[Check]) -> Option<(&Check, &Difference)> {
    checks.iter().find_map(|check| Some((check, check.difference.as_ref()?)))
}

/// The result of [`Plan::run`](super::Plan::run).
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed of the random moments.
    pub seed: u64,
    /// How many batches the reference has: the number asked for, or all of a shorter stream.
    pub batches: u64,
    /// How many rows the reference has.
    pub rows: u64,
    /// How many children were killed while working, each resumed from its saved state after the last logged batch.
    pub resume_points: u64,
    /// The numbers of workers that were compared.
    pub workers: Vec<usize>,
    /// The depths that were compared; none for any loader.
    pub depths: Vec<usize>,
    /// The numbers of ranks that were compared.
    pub worlds: Vec<usize>,
    /// How many of the comparisons found a difference.
    pub mismatches: u64,
    /// Every comparison, in the order of the laws.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns the first comparison that found a difference.
    pub fn first_difference(&self) -> Option<(&Check, &Difference)> {
        first_difference(&self.checks)
    }

    /// Returns how long the comparisons of a law took, in seconds.
    pub fn seconds(&self, law: Law) -> f64 {
        self.checks.iter().filter(|check| check.law == law).fold(0.0, |sum, check| sum + check.seconds)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = "how it was run";
        let lengths = self.checks.iter().map(|check| check.how.chars().count());
        let width = lengths.filter(|length| *length <= LONGEST).max().unwrap_or(0).max(how.len());
        writeln!(f, "{:<8}  {how:<width$}  {:>8}  {:>9}  {:>8}  result", "law", "batches", "rows", "time")?;
        for Check { law, how, batches, rows, seconds, difference } in &self.checks {
            let (mut law, mut how) = (law.to_string(), how.as_str());
            if how.chars().count() > width {
                writeln!(f, "{law:<8}  {how}")?;
                (law, how) = (String::new(), "");
            }
            let result = if difference.is_some() { "DIFFERS" } else { "equal" };
            writeln!(f, "{law:<8}  {how:<width$}  {batches:>8}  {rows:>9}  {seconds:>6.2} s  {result}")?;
        }
        let seconds = |law| format!("{:.2} s", self.seconds(law));
        writeln!(
            f,
            "{} batches, {} rows; {} kills at work; order {}, resume {}, world {}; seed {}",
            self.batches,
            self.rows,
            self.resume_points,
            seconds(Law::Order),
            seconds(Law::Resume),
            seconds(Law::World),
            self.seed
        )?;
        match self.first_difference() {
            None => write!(f, "no difference"),
            Some((check, difference)) => f.write_str(&check.said(difference)),
        }
    }
}
