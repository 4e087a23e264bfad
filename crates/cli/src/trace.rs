//! Writes the pipeline's spans as a Chrome trace, with stages as rows.
//!
//! A stage has one row, or more where several of its spans are open at once. A span takes the lowest free row, so that
//! spans of one row never overlap in part. A span inside another span of its stage, on the same thread, lies in the
//! same row. Held in memory: the open spans, and events that are not written yet.
//!
//! The crate `tracing-chrome` does not replace this. Its rows are threads or root spans, and not stages; it has no
//! counters for queues and memory; and after a kill its file ends in the middle of the JSON.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use millstream::Result;
use millstream::loader::Watch;
use millstream::meter::TARGET;

mod file;
mod rows;

use file::TraceFile;
use rows::{Row, Rows};

/// How often queues are sampled.
const EVERY: Duration = Duration::from_millis(50);

/// A trace that is being written. Clones write to the same file.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    began: Instant,
    state: Arc<Mutex<TraceState>>,
}

#[derive(Debug)]
struct TraceState {
    rows: Rows,
    /// `None` when it is finished.
    file: Option<TraceFile>,
}

impl Trace {
    /// Makes the file, or starts an existing trace file over.
    pub(super) fn create(path: impl AsRef<Path>) -> Result<Self> {
        let mut file = TraceFile::create(path.as_ref())?;
        file.push(&json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": "millstream" } }));
        let state = TraceState { rows: Rows::default(), file: Some(file) };
        Ok(Self { began: Instant::now(), state: Arc::new(Mutex::new(state)) })
    }

    /// Selects the spans of the trace.
    pub(super) fn filter() -> FilterFn {
        FilterFn::new(is_wanted as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::DEBUG)
    }

    /// Samples a loader's queues until the trace is finished.
    pub(super) fn watch(&self, watch: Watch) {
        let trace = self.clone();
        tokio::spawn(async move {
            while trace.count(&watch) {
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    /// Writes what is queued and in flight. False if the trace is finished.
    fn count(&self, watch: &Watch) -> bool {
        let (meters, ts) = (watch.meters(), self.at(Instant::now()));
        let stages = meters.stages.iter();
        let workers: Map<String, Value> = (stages.clone().filter(|stage| stage.workers > 0))
            .map(|stage| (stage.stage.to_string(), stage.workers_busy.into()))
            .collect();
        let bytes = json!({ "bytes": meters.bytes_in_flight });
        let totals = [("workers busy".to_owned(), workers.into()), ("bytes in flight".to_owned(), bytes)];
        let queues =
            stages.map(|stage| (format!("queue of {}", stage.stage), json!({ "items": stage.queued })));
        let mut state = self.state();
        let Some(file) = &mut state.file else { return false };
        for (name, args) in totals.into_iter().chain(queues) {
            file.push(&json!({ "name": name, "ph": "C", "ts": ts, "pid": 1, "args": args }));
        }
        true
    }

    /// Ends the file.
    pub(super) fn finish(&self) {
        let file = self.state().file.take();
        if let Some(mut file) = file {
            file.flush();
        }
    }

    /// The microseconds since the trace began.
    fn at(&self, moment: Instant) -> f64 {
        micros(moment.saturating_duration_since(self.began))
    }

    fn state(&self) -> MutexGuard<'_, TraceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn is_wanted(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

struct Open {
    row: Row,
    began: Instant,
    fields: Fields,
}

#[derive(Default)]
struct Fields {
    stage: String,
    others: Map<String, Value>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.others.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "stage" => self.stage = value.to_owned(),
            name => drop(self.others.insert(name.to_owned(), value.into())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl<S> Layer<S> for Trace
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Its parent is the span that this thread has entered.
        let around = cx
            .lookup_current()
            .and_then(|around| around.extensions().get::<Open>().map(|open| open.row.clone()));
        let mut state = self.state();
        let TraceState { rows, file } = &mut *state;
        let (row, is_new) = rows.take(&fields.stage, around.as_ref());
        if is_new && let Some(file) = file {
            let (tid, name) = (row.tid(), row.name());
            file.push(
                &json!({ "ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": { "name": name } }),
            );
            file.push(&json!({ "ph": "M", "pid": 1, "tid": tid, "name": "thread_sort_index", "args": { "sort_index": tid } }));
        }
        drop(state);
        span.extensions_mut().insert(Open { row, began: Instant::now(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let ended = Instant::now();
        let Some(span) = cx.span(&id) else { return };
        let Some(Open { row, began, fields }) = span.extensions_mut().remove::<Open>() else { return };
        let (ts, dur) = (self.at(began), micros(ended - began));
        let event = json!({
            "name": span.name(), "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": row.tid(), "args": fields.others,
        });
        let mut state = self.state();
        if let Some(file) = &mut state.file {
            file.push(&event);
        }
        state.rows.give_back(row);
    }
}
