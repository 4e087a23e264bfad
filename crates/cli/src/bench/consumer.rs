//! The consumer of the batches: none, a simulated trainer, or the real one.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use millstream::{Batch, Result};
#[cfg(feature = "train")]
use millstream_train::Trainer;

/// How a simulated trainer spends its time. The values have no help texts, which would make a command's help longer than a
/// screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Spend {
    // Asleep, as while an accelerator works: the cores are free.
    #[default]
    Sleep,
    // Busy on one core, as in a step on the CPU.
    Busy,
}

/// How often a sleeping consumer checks whether to stop.
const LOOKS: Duration = Duration::from_millis(50);

/// Takes batches one after the other.
pub(super) enum Consumer {
    Simulated(Spend, Duration),
    /// One step of training per batch. No checkpoint is written.
    #[cfg(feature = "train")]
    Trainer(Box<Trainer>),
}

impl Consumer {
    /// Reads every id, as a copy to a device would, and spends the time of a simulated step, until `is_stopped`; or does
    /// a real step.
    pub(super) fn take(&mut self, batch: &Batch, is_stopped: impl Fn() -> bool) -> Result<()> {
        match self {
            #[cfg(feature = "train")]
            Self::Trainer(trainer) => return trainer.step(std::slice::from_ref(batch)).map(drop),
            Self::Simulated(spend, time) => {
                std::hint::black_box(batch.ids().iter().fold(0_u32, |sum, id| sum.wrapping_add(*id)));
                match spend {
                    _ if time.is_zero() => {}
                    Spend::Sleep => sleep(*time, is_stopped),
                    Spend::Busy => spin(*time, is_stopped),
                }
            }
        }
        Ok(())
    }
}

fn sleep(time: Duration, is_stopped: impl Fn() -> bool) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
        && !is_stopped()
    {
        std::thread::sleep(left.min(LOOKS));
    }
}

/// Works for this much CPU time of this thread, however long other threads hold the core.
#[cfg(target_os = "linux")]
fn spin(time: Duration, is_stopped: impl Fn() -> bool) {
    use nix::sys::resource::{UsageWho, getrusage};
    let began = Instant::now();
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        Some(super::process::cpu_time(&usage))
    };
    let start = used();
    let spent = || used().zip(start).map_or(began.elapsed(), |(now, start)| now.saturating_sub(start));
    while spent() < time && !is_stopped() {
        std::hint::spin_loop();
    }
}

/// Works for this long: this system does not tell a thread's CPU time.
#[cfg(not(target_os = "linux"))]
fn spin(time: Duration, is_stopped: impl Fn() -> bool) {
    let began = Instant::now();
    while began.elapsed() < time && !is_stopped() {
        std::hint::spin_loop();
    }
}

/// Reads a number of milliseconds from the command line.
pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().ok().and_then(|parsed| Duration::try_from_secs_f64(parsed / 1e3).ok());
    parsed.ok_or_else(|| "give a number of milliseconds that is at least 0, such as 2.5".to_owned())
}
