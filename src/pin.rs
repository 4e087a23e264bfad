//! Keeps blocking work on chosen cores.
//!
//! Threads of a runtime's pool do other work too. So a job moves its thread to the cores when it begins, and back to
//! the old cores when it ends. That takes two system calls. Only Linux has them.

use crate::config::PinConfig;
use crate::error::{Error, Result};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux::Cores;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
use elsewhere::Cores;

/// The key of the config that errors name.
const KEY: &str = "pipeline.pin";

/// The cores that work stays on.
#[derive(Clone, Debug)]
pub(crate) struct Pinning(Cores);

impl Pinning {
    /// The cores that the config selects on this machine; `None` if the system may place the work.
    pub(crate) fn new(config: &PinConfig) -> Result<Option<Self>> {
        Ok(match config {
            PinConfig::Off => None,
            PinConfig::Auto => Cores::near().map(Self),
            PinConfig::Cores(cores) if cores.is_empty() => {
                return Err(Error::config(KEY, "must name a core, or be \"off\""));
            }
            PinConfig::Cores(cores) => Some(Self(Cores::new(cores)?)),
        })
    }

    /// Runs `work` on these cores, if any are set.
    pub(crate) fn keep<T>(pin: Option<&Self>, work: impl FnOnce() -> T) -> T {
        let _back = pin.map(|Self(cores)| cores.take());
        work()
    }
}
