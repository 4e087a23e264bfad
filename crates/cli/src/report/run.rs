//! A run on disk: its figures, curves, samples and config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millstream::{Error, Result};
use millstream_train::{RunDirectory, Sample};

use super::chart::Chart;
use super::curve::Curve;
use super::figures::{Figures, Sums};
use super::line::{self, Line};

/// The two curves that a chart has of a run: the second is dashed.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    pub(super) first: Curve,
    pub(super) second: Curve,
}

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) figures: Figures,
    pub(super) curves: BTreeMap<Chart, Pair>,
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
        let mut curves = BTreeMap::new();
        line::read(&directory.metrics(), |line| {
            sums.add(line);
            add(&mut curves, line);
        })?;
        curves.retain(|_, pair| !pair.first.is_empty() || !pair.second.is_empty());
        let config = toml::Table::try_from(&config);
        Ok(Self {
            figures: sums.finish(),
            curves,
            samples: directory.saved_samples()?,
            config: config.map_err(|e| Error::config(path.display().to_string(), e.to_string()))?,
            settings: directory.resume_settings()?,
        })
    }
}

/// Adds a line's values to their curves.
fn add(curves: &mut BTreeMap<Chart, Pair>, line: &Line) {
    let mut pair = |chart: Chart, first: Option<f64>, second: Option<f64>| {
        if first.is_some() || second.is_some() {
            let pair = curves.entry(chart).or_default();
            pair.first.push(line.step, first);
            pair.second.push(line.step, second);
        }
    };
    pair(Chart::Loss, line.loss, line.validation_loss);
    pair(Chart::BitsPerByte, line.bits_per_byte, None);
    pair(Chart::LearningRate, line.lr, None);
    pair(Chart::GradientNorm, line.grad_norm, None);
    pair(Chart::Rate, line.tokens_per_second, None);
    pair(Chart::Wait, line.wait_share, None);
    pair(Chart::Memory, line.memory.map(|bytes| bytes as f64), None);
    pair(Chart::Flops, line.flops_per_second, None);
    pair(Chart::Mfu, line.mfu, None);
    for (name, source) in line.sources.iter().flatten() {
        let of_validation = line.validation_loss.and(source.loss);
        let of_training = source.loss.filter(|_| line.validation_loss.is_none());
        pair(Chart::Source(name.clone()), of_training, of_validation);
    }
    for (name, stage) in line.stages.iter().flatten() {
        pair(Chart::stage(name), stage.busy, stage.queue);
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
