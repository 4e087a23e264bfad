//! The library's events in Python's log, as those of the logger `millstream`.
//!
//! Rust's threads only queue them, and whoever holds the GIL hands them on: a thread that waited for the GIL to log
//! could wait for a thread that waits for it. Held in memory: some hundred events at most; more are counted.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::calls::CLOSED;

/// How many events may wait.
const MOST: usize = 500;

struct Queue {
    /// Python's levels, and texts.
    events: VecDeque<(u8, String)>,
    dropped: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { events: VecDeque::new(), dropped: 0 });
static WAITS: AtomicBool = AtomicBool::new(false);

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues the events from now on, unless the process has another subscriber.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Queued));
    });
}

/// Hands on what has been queued.
pub(crate) fn hand_on(py: Python<'_>) -> PyResult<()> {
    if !WAITS.swap(false, Ordering::Acquire) {
        return Ok(());
    }
    let (events, dropped) = {
        let mut queue = queue();
        (std::mem::take(&mut queue.events), std::mem::take(&mut queue.dropped))
    };
    let logger = py.import("logging")?.call_method1("getLogger", ("millstream",))?;
    for (level, text) in events {
        logger.call_method1("log", (level, "%s", text))?;
    }
    if dropped > 0 {
        logger.call_method1("warning", ("%d more lines of this log were dropped", dropped))?;
    }
    Ok(())
}

struct Queued;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Queued {
    fn enabled(&self, about: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        about.is_event() && about.target().starts_with("millstream") && *about.level() <= Level::INFO
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        if text.fields.contains(CLOSED) {
            return;
        }
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            _ => 20,
        };
        let mut queue = queue();
        if queue.events.len() < MOST {
            queue.events.push_back((level, text.whole()));
        } else {
            queue.dropped += 1;
        }
        WAITS.store(true, Ordering::Release);
    }
}

/// An event in words: its message, and its fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        self.message + &self.fields
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
