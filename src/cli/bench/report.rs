//! The report of a measurement, for people.

use crate::{Config, Result};

use super::Report;
use crate::cli::print_line;
use crate::cli::words::count;

pub(super) fn print(report: &Report, config: &Config) -> Result<()> {
    let Report { tokens, batches, seconds, tokens_per_second, first_batch_seconds, .. } = report;
    print_line(&format!(
        "{}, {}; the first after {:.1} ms, the rest in {seconds:.3} s",
        count(*batches, "batch"),
        count(*tokens, "token"),
        first_batch_seconds * 1e3
    ))?;
    print_line(&format!(
        "{:.2} M tokens/s; workers {}, depth {}, window {}",
        tokens_per_second / 1e6,
        config.pipeline.workers,
        config.pipeline.depth,
        config.pipeline.window
    ))?;
    print_line(&report.verdict.to_string())?;
    if let Some(hint) = &report.hint {
        print_line(hint)?;
    }
    if let Some(mixing) = &report.mixing {
        print_line(&mixing.to_string())?;
        if let Some(warning) = &mixing.warning {
            print_line(&format!("warning: {warning}"))?;
        }
    }
    if let Some(peak) = report.peak_rss_bytes {
        // The budget reserves the most that text can become, and some of that is never used.
        let (taken, budget) = (report.meters.peak_bytes_in_flight, report.meters.budget_bytes);
        let reserved = format!("{} of {} MiB of the budget reserved", taken >> 20, budget >> 20);
        print_line(&format!("peak memory: {} MiB of the whole process, {reserved}", peak >> 20))?;
    }
    print_line(&report.meters.table().to_string())
}
