//! The proof, for loaders in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::verify::Plan;
use pyo3::prelude::*;

use super::errors::{raise, refused};
use super::log;
use super::stream::GLANCE;

/// Runs the plan, and returns its report as JSON and as a table.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
#[pyo3(signature = (command, *, batches, points, workers, worlds, seed, patience))]
pub(crate) fn verify(
    py: Python<'_>,
    command: Vec<String>,
    batches: u64,
    points: u64,
    workers: Vec<usize>,
    worlds: Vec<usize>,
    seed: Option<u64>,
    patience: f64,
) -> PyResult<(String, String)> {
    log::listen();
    let (program, args) = command.split_first().ok_or_else(|| refused("config", "the command is empty"))?;
    let mut plan = Plan { args: args.to_vec(), batches, points, workers, worlds, ..Plan::of_any(program) };
    plan.seed = seed.unwrap_or(plan.seed);
    plan.patience = Duration::try_from_secs_f64(patience)
        .map_err(|e| refused("config", format!("patience: {e}; give a number of seconds")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let work = std::thread::spawn({
        let stop = stop.clone();
        move || plan.run(&stop)
    });
    let mut interrupted = Ok(());
    while !work.is_finished() {
        py.detach(|| std::thread::sleep(GLANCE));
        if interrupted.is_ok() {
            interrupted = log::hand_on(py).and_then(|()| py.check_signals());
            stop.store(interrupted.is_err(), Ordering::Relaxed);
        }
    }
    let report = work.join().map_err(|_| refused("panic", "the proof panicked"))?;
    interrupted?;
    let report = report.map_err(|e| raise(py, &e))?;
    let json = serde_json::to_string(&report).map_err(|e| refused("io", e.to_string()))?;
    Ok((json, report.to_string()))
}
