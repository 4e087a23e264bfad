//! Where the work and the waits of a task behind `prefetch` are counted.

use std::sync::Arc;
use std::time::Instant;

use super::{Chain, Meter, Work, stage_span};

/// A task's items, and where its work and its waits are counted.
#[derive(Clone, Debug)]
pub(crate) enum TaskMeter {
    /// The items of a single stream.
    Alone(Arc<Meter>),
    /// The rows of one of a loader's lanes. What of them is queued is not counted: it is little.
    Lane(Arc<Chain>),
    /// The batches of a loader.
    Batches(Arc<Chain>),
}

impl TaskMeter {
    fn meter(&self) -> &Arc<Meter> {
        match self {
            Self::Alone(meter) => meter,
            Self::Lane(chain) | Self::Batches(chain) => chain.tasks(),
        }
    }

    /// Counts as work what is done until the guard is dropped.
    pub(crate) fn work(&self) -> Work {
        self.meter().work(stage_span!("prefetch", "work"))
    }

    /// Notes that the task has nothing to work on until the guard is dropped.
    pub(crate) fn wait(&self) -> Waiting {
        match self {
            Self::Alone(_) => {}
            Self::Lane(chain) => chain.set_starving(true),
            Self::Batches(chain) => chain.set_waiting(true),
        }
        Waiting { task: self.clone(), began: Instant::now() }
    }

    /// The meter that counts the queue, if it is counted.
    pub(crate) fn queue(&self) -> Option<&Arc<Meter>> {
        match self {
            Self::Lane(_) => None,
            Self::Alone(_) | Self::Batches(_) => Some(self.meter()),
        }
    }
}

/// A task's wait for something to work on. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    task: TaskMeter,
    began: Instant,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        match &self.task {
            TaskMeter::Alone(meter) => meter.add_wait_in(self.began.elapsed()),
            TaskMeter::Lane(chain) => chain.set_starving(false),
            TaskMeter::Batches(chain) => chain.set_waiting(false),
        }
    }
}
