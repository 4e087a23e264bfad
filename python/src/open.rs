//! Opening a loader from Python's arguments, and ending what is open when Python ends.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use millstream::Loader;
use millstream::config::{SourceConfig, Texts};
use millstream::loader::LoaderBuilder;
use millstream::stage::StageExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tempfile::TempDir;

use super::batch::Ready;
use super::calls::{self, Calls};
use super::config::Config;
use super::cursor::Cursor;
use super::errors::{raise, refused};
use super::log;
use super::progress::Progress;
use super::stages::{self, Does};
use super::stream::{self, Handle, Running, Stream, failed};
use super::tokenizer::{Called, Tokenizer};

/// The streams that may be open.
static OPEN: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// How many batches with ids of 64 bits are made ahead, besides `pipeline.depth` of 32.
const WIDE_AHEAD: usize = 2;

/// How long Python's end waits for Python functions that still run.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// A stage of a Python function: `map` or `filter`, its name, the function.
type Stage = (String, String, Py<PyAny>);

/// An opening that another thread may give up, until it is done.
#[pyclass(frozen, module = "millstream._millstream")]
#[derive(Debug)]
pub(crate) struct Opening(Mutex<Option<Calls>>);

impl Opening {
    fn calls(&self) -> MutexGuard<'_, Option<Calls>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was given up; if not, it is done and cannot be any more.
    fn is_given_up(&self) -> bool {
        self.calls().take().is_some_and(|calls| calls.have_ended())
    }
}

#[pymethods]
impl Opening {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(Some(Calls::default())))
    }

    /// Gives it up: opening raises an error soon.
    fn end(&self) {
        if let Some(calls) = &*self.calls() {
            calls.close();
        }
    }
}

/// Opens a loader.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
#[pyo3(signature = (config, progress, *, cursor, held_out, is_wide, convert, stages, documents, texts, source, tokenizer, world, opening))]
pub(crate) fn open(
    py: Python<'_>,
    config: Py<Config>,
    progress: Py<Progress>,
    cursor: Option<Bound<'_, Cursor>>,
    held_out: bool,
    is_wide: bool,
    convert: Option<Py<PyAny>>,
    stages: Vec<Stage>,
    documents: Option<(String, Py<PyAny>)>,
    texts: Option<Vec<String>>,
    source: Option<Bound<'_, Config>>,
    tokenizer: Option<Bound<'_, PyAny>>,
    world: Option<(usize, usize)>,
    opening: Option<Bound<'_, Opening>>,
) -> PyResult<Stream> {
    log::listen();
    let calls = opening.as_ref().and_then(|opening| opening.get().calls().clone()).unwrap_or_default();
    let mut given = config.get().config.clone();
    if let Some((rank, world)) = world {
        (given.pipeline.rank, given.pipeline.world) = (Some(rank), Some(world));
    }
    // Removed when the loader is open.
    let mut kept = None;
    let made: Option<Arc<dyn millstream::tokenizer::Tokenizer>> = match &tokenizer {
        Some(files) if files.is_instance_of::<PyDict>() => {
            let directory = TempDir::with_prefix("millstream-")
                .map_err(|e| refused("io", format!("cannot make a temporary directory: {e}")))?;
            for (name, text) in files.extract::<HashMap<String, String>>()? {
                std::fs::write(directory.path().join(name), text)?;
            }
            given.tokenizer = given.tokenizer.with_json(directory.path().join("tokenizer.json"));
            kept = Some(directory);
            None
        }
        Some(other) => Some(match other.cast::<Tokenizer>() {
            // An earlier loop has opened it.
            Ok(opened) => opened.get().0.clone(),
            Err(_) => Arc::new(Called::new(other, calls.clone())?),
        }),
        None => None,
    };
    if let Some(texts) = texts {
        if !given.sources.is_empty() {
            let problem = "the loader was given texts; leave [[source]] out";
            return Err(raise(py, &millstream::Error::config("source", problem)));
        }
        let like = source.and_then(|source| source.get().config.sources.first().cloned()).unwrap_or_default();
        let texts = Some(py.detach(|| Texts::new(texts)));
        let name = like.name.clone().or_else(|| Some("texts".to_owned()));
        given.sources = vec![SourceConfig { texts, name, paths: Vec::new(), ..like }];
    }
    let mut builder = Loader::builder(&given).with_held_out(held_out);
    if let Some(made) = made {
        builder = builder.with_tokenizer(made);
    }
    if let Some(cursor) = cursor {
        builder = builder.with_cursor((*cursor.get().0).clone());
    }
    if let Some((name, open)) = documents {
        builder = stages::documents(builder, name, open, &calls);
    }
    for (kind, name, call) in stages {
        let does = Does::named(&kind)
            .ok_or_else(|| PyValueError::new_err(format!("a stage is map or filter, not {kind:?}")))?;
        builder = stages::add(builder, does, name, call, &calls);
    }
    let running = start(py, builder, config.get(), &progress, is_wide, &calls)?;
    drop(kept);
    if opening.is_some_and(|opening| opening.get().is_given_up()) {
        return Err(given_up());
    }
    let stream = Stream::new(running, progress, config, convert);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|handle| handle.strong_count() > 0);
    open.push(stream.handle());
    Ok(stream)
}

/// Opens the loader on threads of its own.
fn start(
    py: Python<'_>,
    builder: LoaderBuilder,
    config: &Config,
    progress: &Py<Progress>,
    is_wide: bool,
    calls: &Calls,
) -> PyResult<Running> {
    let running = Running::start(calls.clone())?;
    let opening = running.runtime().spawn(builder.open());
    let opened = running.wait(py, pin!(opening))?;
    log::hand_on(py)?;
    let opened = opened.ok_or_else(given_up)?;
    let opened = opened.map_err(|lost| refused("panic", lost.to_string()))?;
    let loader = opened.map_err(|error| failed(py, config, error, calls))?;
    let tokenizer = Tokenizer(loader.tokenizer().clone());
    progress.get().begin(Cursor::new(loader.start().clone()), loader.watch(), tokenizer);
    let _runtime = running.runtime().enter();
    let batches = match is_wide {
        false => loader.map_ok(Ready::narrow).boxed(),
        true => loader.map_ok(Ready::wide).prefetch(WIDE_AHEAD).boxed(),
    };
    running.set(batches.peekable());
    Ok(running)
}

fn given_up() -> PyErr {
    refused("stage", "opening the loader was given up")
}

/// Ends all streams that are open: before Python itself ends. A thread that came back from a Python function later would
/// find no interpreter, so this waits for them, for some time.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let handles = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        handles.iter().filter_map(Handle::upgrade).for_each(|running| stream::close(&running));
        let began = Instant::now();
        while calls::are_running() && began.elapsed() < LAST_CALLS {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
