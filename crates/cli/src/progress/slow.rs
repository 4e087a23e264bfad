//! Reports work that takes longer than a second: a line that counts the seconds on a terminal, one line of the log
//! elsewhere.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::{Progress, lock};

/// Work that takes less is not reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the line is drawn.
const APART: Duration = Duration::from_millis(200);

/// Work that may take long. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Slow {
    task: AbortHandle,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug, Default)]
struct Shown {
    has_ended: bool,
    /// The progress, in words.
    detail: String,
    progress: Option<Progress>,
}

/// Reports work, if it takes long. Call it within a runtime.
pub(crate) fn slow(what: &'static str) -> Slow {
    Slow::begin(what, true)
}

/// Reports work at once, and on a terminal counts its seconds if it takes long. Call it within a runtime.
#[cfg(feature = "train")]
pub(crate) fn told(what: &'static str) -> Slow {
    super::say(what);
    Slow::begin(what, false)
}

impl Slow {
    fn begin(what: &'static str, is_logged: bool) -> Self {
        let shown: Arc<Mutex<Shown>> = Arc::default();
        let task = tokio::spawn(show(what, is_logged, shown.clone())).abort_handle();
        Self { task, shown }
    }

    pub(crate) fn detail(&self, detail: impl FnOnce() -> String) {
        let mut shown = lock(&self.shown);
        // The text is made only if there is a drawing to show it.
        if shown.progress.as_ref().is_some_and(|progress| !progress.is_hidden()) {
            shown.detail = detail();
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.task.abort();
        let mut shown = lock(&self.shown);
        shown.has_ended = true;
        if let Some(progress) = shown.progress.take() {
            progress.clear();
        }
    }
}

async fn show(what: &'static str, is_logged: bool, shown: Arc<Mutex<Shown>>) {
    let began = Instant::now();
    tokio::time::sleep(PATIENCE).await;
    loop {
        {
            let mut shown = lock(&shown);
            if shown.has_ended {
                return;
            }
            let Shown { detail, progress, .. } = &mut *shown;
            let is_first = progress.is_none();
            let progress = progress.get_or_insert_with(|| Progress::new(0, 0));
            if progress.is_hidden() {
                if is_first && is_logged {
                    tracing::info!("{what}");
                }
                return;
            }
            let seconds = format!("{what}  {} s", began.elapsed().as_secs());
            let long = if detail.is_empty() { seconds.clone() } else { format!("{seconds}  {detail}") };
            progress.show(0, &[long, seconds, what.to_owned()]);
        }
        tokio::time::sleep(APART).await;
    }
}
