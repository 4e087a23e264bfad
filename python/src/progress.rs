//! How far a loader is: what outlives the stream that a loop reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::loader::Watch;
use pyo3::prelude::*;

use super::cursor::Cursor;
use super::errors::refused;
use super::tokenizer::Tokenizer;

/// The last batch that was handed out, and the meters and the tokenizer of the last stream that was opened.
#[pyclass(frozen, module = "millstream._millstream")]
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    start: Option<Cursor>,
    last: Option<Arc<millstream::Batch>>,
    watch: Option<Watch>,
    tokenizer: Option<Tokenizer>,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream begins here.
    pub(crate) fn begin(&self, start: Cursor, watch: Watch, tokenizer: Tokenizer) {
        let tokenizer = Some(tokenizer);
        *self.state() = State { start: Some(start), last: None, watch: Some(watch), tokenizer };
    }

    /// A batch is handed out.
    pub(crate) fn note(&self, batch: &Arc<millstream::Batch>) {
        self.state().last = Some(batch.clone());
    }
}

#[pymethods]
impl Progress {
    #[new]
    #[pyo3(signature = (start = None))]
    fn new(start: Option<Bound<'_, Cursor>>) -> Self {
        let start = start.map(|start| start.get().clone());
        Self(Mutex::new(State { start, ..State::default() }))
    }

    /// The cursor after the last batch that was handed out; before the first, where the stream begins, if that is known.
    #[getter]
    fn cursor(&self) -> Option<Cursor> {
        let state = self.state();
        let last = state.last.as_ref().map(|last| Cursor::new(last.cursor().clone()));
        last.or_else(|| state.start.clone())
    }

    /// The meters as JSON, the verdict and the table, if a stream was opened.
    fn meters(&self) -> PyResult<Option<(String, String, String)>> {
        let Some(watch) = self.state().watch.clone() else { return Ok(None) };
        let meters = watch.meters();
        let json = serde_json::to_string(&meters).map_err(|e| refused("io", e.to_string()))?;
        Ok(Some((json, meters.verdict().to_string(), meters.table().to_string())))
    }

    /// The tokenizer of the last stream that was opened.
    #[getter]
    fn tokenizer(&self) -> Option<Tokenizer> {
        self.state().tokenizer.clone()
    }
}
