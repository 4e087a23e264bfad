//! A run on disk: its figures, curves, samples and config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millstream::{Error, Result};
use millstream_train::{Checkpoint, RunDirectory, Sample};

use super::chart::Chart;
use super::curve::Curve;
use super::figures::{Figures, Sums};
use super::line;
use crate::ledger::Shown;

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) figures: Figures,
    /// The two curves that each chart has of it. The second is dashed.
    pub(super) curves: BTreeMap<Chart, [Curve; 2]>,
    pub(super) samples: Vec<Sample>,
    /// The config with the settings of its resumes, as TOML.
    pub(super) config: toml::Table,
    /// The settings of resumes, each with its step.
    pub(super) settings: Vec<(u64, String)>,
}

impl Run {
    /// Reads a run, which may still be training.
    pub(super) fn read(name: String, path: &Path) -> Result<Self> {
        let directory = RunDirectory::open(path)?;
        let config = directory.config(&[])?;
        let mut sums = Sums::new(name, path.to_owned(), config.train.steps);
        let mut curves: BTreeMap<Chart, [Curve; 2]> = BTreeMap::new();
        line::read(&directory.metrics(), |step, line| {
            sums.add(step, line);
            Chart::visit(line, |chart, numbers| {
                if numbers != [None; 2] {
                    let curves = curves.entry(chart).or_default();
                    curves.iter_mut().zip(numbers).for_each(|(curve, number)| curve.push(step, number));
                }
            });
        })?;
        // Steps need not be logged.
        let saved = Checkpoint::steps(&directory.checkpoints())?.into_iter().max();
        let config = toml::Table::try_from(&config);
        let figures = sums.finish();
        let step = figures.step.max(saved.unwrap_or_default());
        let figures = Figures { step, ledger: Shown::of_run(&directory)?, ..figures };
        Ok(Self {
            figures,
            curves,
            samples: directory.saved_samples()?,
            config: config.map_err(|e| Error::config(path.display().to_string(), e.to_string()))?,
            settings: directory.resume_settings()?,
        })
    }
}

/// The names of runs: their directories' names, or their paths if two directories have the same name.
pub(super) fn names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| {
        // `.` and a path that ends in `..` have no name.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        real.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let names: Vec<String> = paths.iter().map(name).collect();
    let is_twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let name = |(name, path): (&String, &PathBuf)| {
        if is_twice(name) { path.display().to_string() } else { name.clone() }
    };
    names.iter().zip(paths).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_names_of_their_directories() {
        let named = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(named(&["runs/a", "runs/b/"]), ["a", "b"]);
        assert_eq!(named(&["one/a", "two/a", "b"]), ["one/a", "two/a", "b"]);
        assert_eq!(named(&["/"]), ["/"]);
    }
}
