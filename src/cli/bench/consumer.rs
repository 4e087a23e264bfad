//! Who takes the batches: nobody, a trainer of so many milliseconds, or the real one.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use millstream::tokenizer::Tokenizer;
use millstream::train::Trainer;
use millstream::{Batch, Config, Result};
use serde::{Deserialize, Serialize};

/// How a simulated trainer spends its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Spend {
    /// It waits for an accelerator: the cores are free.
    #[default]
    Sleep,
    /// It keeps a core busy for so much CPU time, as a step on the CPU would.
    Busy,
}

/// What takes batches, one after the other.
pub(super) enum Consumer {
    Simulated(Spend, Duration),
    Trainer(Box<Trainer>),
}

impl Consumer {
    /// A new model of the config, trained a step a batch; no checkpoint is written.
    pub(super) fn trainer(config: &Config, tokenizer: &dyn Tokenizer) -> Result<Self> {
        Ok(Self::Trainer(Box::new(Trainer::new(config, tokenizer)?)))
    }

    /// Reads every id, as a copy to a device would, and takes its time over it; or makes a step.
    pub(super) fn take(&mut self, batch: &Batch) -> Result<()> {
        match self {
            Self::Trainer(trainer) => return trainer.step(std::slice::from_ref(batch)).map(drop),
            Self::Simulated(spend, time) => {
                std::hint::black_box(batch.ids().iter().fold(0_u32, |sum, id| sum.wrapping_add(*id)));
                match spend {
                    _ if time.is_zero() => {}
                    Spend::Sleep => std::thread::sleep(*time),
                    Spend::Busy => spin(*time),
                }
            }
        }
        Ok(())
    }
}

/// Works for so much of this thread's CPU time, however long others keep the core.
#[cfg(target_os = "linux")]
fn spin(time: Duration) {
    use nix::sys::resource::{UsageWho, getrusage};
    let began = Instant::now();
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        Some(super::process::cpu_time(&usage))
    };
    let start = used();
    while used().zip(start).map_or(began.elapsed(), |(now, start)| now.saturating_sub(start)) < time {
        std::hint::spin_loop();
    }
}

/// Works for so long: this system does not tell a thread's CPU time.
#[cfg(not(target_os = "linux"))]
fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A number of milliseconds, as an option has it.
pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().map_err(|e| e.to_string())?;
    Duration::try_from_secs_f64(parsed / 1e3).map_err(|e| format!("milliseconds: {e}"))
}
