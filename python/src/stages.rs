//! Python functions in the pipeline: over documents, and where documents come from.
//!
//! They run on threads that may block, on a group of documents at a time, so that the GIL is taken once for a group. What
//! they raise is kept, and becomes the cause of the exception that ends the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::{Document, Error, LaneCursor, Result, Tracked};
use pyo3::prelude::*;

use super::calls::{CLOSED, Calls};
use super::marks::{Text, ranges_of};

/// How many documents a function is called with before the GIL is given back.
const GROUP: usize = 256;

/// After how many documents that a filter has left out in a row the log says so.
const MANY: u64 = 100_000;

/// For how long documents are taken from a Python iterator before they are handed on.
const TOGETHER: Duration = Duration::from_millis(5);

/// What a function does with a document's text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// Returns another text.
    Map,
    /// The same, knowing what of the text is learned from, and what its special tokens are.
    MapMarks,
    /// Says whether to keep it.
    Filter,
}

impl Does {
    /// By its name in Python.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Map, Self::MapMarks, Self::Filter].into_iter().find(|does| does.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::MapMarks => "map_marks",
            Self::Filter => "filter",
        }
    }
}

/// A function over documents.
struct Function {
    /// How many documents it has left out since it kept one.
    left_out: AtomicU64,
    does: Does,
    name: String,
    call: Py<PyAny>,
    calls: Calls,
}

impl Function {
    fn apply(&self, py: Python<'_>, document: Tracked<Document>) -> Result<Option<Tracked<Document>>> {
        let text = document.value.text();
        let call = self.call.bind(py);
        let returned = match self.does {
            Does::Filter | Does::Map => call.call1((text,)),
            Does::MapMarks => {
                let [learned, special] = ranges_of(&document.value);
                call.call1((text, learned, special))
            }
        };
        let raised = |error| ("raised", error);
        let done = returned.map_err(raised).and_then(|returned| match self.does {
            Does::Filter => returned.is_truthy().map_err(raised).map(|kept| kept.then_some(None)),
            Does::Map | Does::MapMarks => match Text::extract(&returned) {
                Ok(text) => Ok(Some(Some(text))),
                Err(error) => Err(("returned a wrong value:", error)),
            },
        });
        match done {
            Ok(None) => {
                if self.left_out.fetch_add(1, Ordering::Relaxed) + 1 == MANY {
                    tracing::warn!("the filter {} has left out {MANY} documents in a row", self.name);
                }
                Ok(None)
            }
            Ok(Some(None)) => {
                self.left_out.store(0, Ordering::Relaxed);
                Ok(Some(document))
            }
            Ok(Some(Some(text))) => match text.replace(document.value.clone()) {
                Ok(replaced) => Ok(Some(document.map(|_| replaced))),
                Err(problem) => Err(at(&document, &self.name, &format!("{} {problem}", self.name))),
            },
            Err((what, error)) => {
                let failure = at(&document, &self.name, &format!("{} {what} {error}", self.name));
                self.calls.keep(py, failure.chain(), error);
                Err(failure)
            }
        }
    }

    /// Applies it to a group, up to the first error.
    fn apply_all(&self, group: Vec<Result<Tracked<Document>>>) -> Vec<Result<Tracked<Document>>> {
        let attached = self.calls.run_alone(|py| {
            let mut done = Vec::with_capacity(group.len());
            for document in group {
                if self.calls.have_ended() {
                    done.push(Err(stage(&self.name, CLOSED)));
                    break;
                }
                match document.and_then(|document| self.apply(py, document)) {
                    Ok(Some(document)) => done.push(Ok(document)),
                    Ok(None) => {}
                    Err(error) => {
                        done.push(Err(error));
                        break;
                    }
                }
            }
            done
        });
        attached.unwrap_or_else(|| vec![Err(stage(&self.name, CLOSED))])
    }
}

/// The error at a document: at its place in its file, or in its lane if it is of no file.
fn at(document: &Tracked<Document>, name: &str, problem: &str) -> Error {
    if document.value.path().as_os_str().is_empty() {
        let number = document.cursor.documents.saturating_sub(1);
        return stage(name, &format!("document {number} of its lane: {problem}"));
    }
    document.value.error(problem.to_owned(), "fix the function, or the document")
}

fn stage(name: &str, problem: &str) -> Error {
    Error::Stage { name: name.to_owned(), problem: problem.to_owned() }
}

/// The documents of a job; a panic in it is an error.
async fn done(
    name: &str,
    job: tokio::task::JoinHandle<Vec<Result<Tracked<Document>>>>,
) -> Vec<Result<Tracked<Document>>> {
    job.await.unwrap_or_else(|lost| vec![Err(stage(name, &lost.to_string()))])
}

/// Adds a function over documents.
pub(crate) fn add(
    builder: LoaderBuilder,
    does: Does,
    name: String,
    call: Py<PyAny>,
    calls: &Calls,
) -> LoaderBuilder {
    let function = Arc::new(Function {
        left_out: AtomicU64::new(0),
        does,
        name: name.clone(),
        call,
        calls: calls.clone(),
    });
    builder.stage(format!("python:{}:{name}", does.name()), move |documents, _| {
        let function = function.clone();
        let groups = documents.ready_chunks(GROUP).then(move |group| {
            let function = function.clone();
            async move {
                let name = function.name.clone();
                let job = tokio::task::spawn_blocking(move || function.apply_all(group));
                done(&name, job).await
            }
        });
        groups.flat_map(stream::iter).boxed()
    })
}

/// The documents of one lane, which a Python iterator makes.
struct Iterator {
    name: String,
    /// From the lane and the number of the first document to an iterator.
    open: Arc<Py<PyAny>>,
    lane: usize,
    next: u64,
    /// How many documents are taken at a time: more if they come fast, and one by one if not, since those that have come
    /// wait for the last one.
    group: usize,
    opened: Option<Py<PyAny>>,
    has_ended: bool,
    calls: Calls,
}

impl Iterator {
    /// Takes documents for a short time, up to the end or the first error.
    fn take(&mut self) -> Vec<Result<Tracked<Document>>> {
        let began = Instant::now();
        let mut taken = Vec::new();
        let calls = self.calls.clone();
        let attached = calls.run(|py| {
            while !self.has_ended
                && !calls.have_ended()
                && taken.len() < self.group
                && began.elapsed() < TOGETHER
            {
                match self.pull(py) {
                    Ok(Some(text)) => {
                        self.next += 1;
                        taken.push(Ok(Tracked::new(text.document(), LaneCursor::after(self.next))));
                    }
                    Ok(None) => self.has_ended = true,
                    Err(error) => {
                        self.has_ended = true;
                        let (lane, next) = (self.lane, self.next);
                        let problem = format!("document {next} of lane {lane}: it raised {error}");
                        self.calls.keep(py, problem.clone(), error);
                        taken.push(Err(stage(&self.name, &problem)));
                    }
                }
            }
        });
        self.group = if began.elapsed() < TOGETHER { (2 * self.group).min(GROUP) } else { 1 };
        if attached.is_none() {
            self.has_ended = true;
            taken.push(Err(stage(&self.name, CLOSED)));
        }
        taken
    }

    fn pull(&mut self, py: Python<'_>) -> PyResult<Option<Text>> {
        let opened = match &self.opened {
            Some(opened) => opened,
            None => {
                let documents = self.open.bind(py).call1((self.lane, self.next))?;
                self.opened.insert(documents.try_iter()?.into_any().unbind())
            }
        };
        let next = opened.bind(py).cast::<pyo3::types::PyIterator>()?.clone().next();
        next.map(|text| Text::extract(&text?)).transpose()
    }
}

/// Reads the documents that a Python function makes, instead of files.
pub(crate) fn documents(
    builder: LoaderBuilder,
    name: String,
    open: Py<PyAny>,
    calls: &Calls,
) -> LoaderBuilder {
    let (open, calls) = (Arc::new(open), calls.clone());
    builder.documents(name.clone(), move |lane, start| -> DocumentStream {
        let iterator = Iterator {
            name: name.clone(),
            open: open.clone(),
            lane,
            next: start.documents,
            group: 1,
            opened: None,
            has_ended: false,
            calls: calls.clone(),
        };
        let groups = stream::unfold(iterator, |mut iterator| async move {
            if iterator.has_ended {
                return None;
            }
            let name = iterator.name.clone();
            let job = tokio::task::spawn_blocking(move || {
                let taken = iterator.take();
                (taken, iterator)
            });
            match job.await {
                Ok((taken, iterator)) => Some((taken, iterator)),
                Err(lost) => std::panic::resume_unwind(Box::new(format!("{name}: {lost}"))),
            }
        });
        groups.flat_map(stream::iter).boxed()
    })
}
