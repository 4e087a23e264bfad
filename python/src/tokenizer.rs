//! Tokenizers: the library's for Python, and Python's for the library.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millstream::tokenizer::EncodeError;
use pyo3::prelude::*;

use super::calls::{self, CLOSED, Calls};
use super::errors::{raise, refused};

/// A tokenizer that makes the ids of a loader.
#[pyclass(frozen, module = "millstream", name = "Tokenizer")]
#[derive(Clone, Debug)]
pub(crate) struct Tokenizer(pub(crate) Arc<dyn millstream::tokenizer::Tokenizer>);

#[pymethods]
impl Tokenizer {
    /// One more than the largest id.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    /// The ids of a text, without special tokens around them.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        let mut ids = Vec::new();
        let encoded = py.detach(|| calls::directly(|| self.0.encode(text, &mut ids)));
        encoded.map(|()| ids).map_err(|e| refused("tokenizer", e.to_string()))
    }

    /// The text of some ids. Ids that are not in the vocabulary are left out.
    fn decode(&self, py: Python<'_>, ids: Vec<u32>) -> String {
        py.detach(|| self.0.decode(&ids))
    }

    /// The id of a token by its exact spelling, special tokens included.
    fn id(&self, token: &str) -> Option<u32> {
        self.0.id(token)
    }

    /// The text of a `tokenizer.json` that gives the same ids, if there is one.
    #[getter]
    fn json(&self) -> Option<&str> {
        self.0.tokenizer_json()
    }

    fn __repr__(&self) -> String {
        format!("<millstream.Tokenizer of {} ids>", self.0.vocab_size())
    }
}

/// The text of a `tokenizer.json` that gives the ids of tiktoken's ranks.
#[pyfunction]
pub(crate) fn ranks_to_json(
    py: Python<'_>,
    name: &str,
    ranks: &str,
    pattern: &str,
    special: BTreeMap<String, u32>,
) -> PyResult<String> {
    let json = py.detach(|| millstream::tokenizer::ranks::to_json(name, ranks, pattern, &special));
    json.map_err(|e| raise(py, &e))
}

/// A Python function from a text to its ids. It is called text by text, with the GIL.
pub(crate) struct Called {
    encode: Py<PyAny>,
    /// From ids to their text, and from a token to its id, if they are known.
    decode: Option<Py<PyAny>>,
    id: Option<Py<PyAny>>,
    name: String,
    fingerprint: String,
    vocab_size: usize,
    calls: Calls,
}

impl Called {
    /// Takes a `_tokenizer.Called` apart.
    pub(crate) fn new(called: &Bound<'_, PyAny>, calls: Calls) -> PyResult<Self> {
        let optional = |name| -> PyResult<Option<Py<PyAny>>> {
            let value = called.getattr(name)?;
            Ok((!value.is_none()).then(|| value.unbind()))
        };
        Ok(Self {
            encode: called.getattr("encode")?.unbind(),
            decode: optional("decode")?,
            id: optional("id")?,
            name: called.getattr("name")?.extract()?,
            fingerprint: called.getattr("fingerprint")?.extract()?,
            vocab_size: called.getattr("vocab_size")?.extract()?,
            calls,
        })
    }
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Called").field(&self.name).finish()
    }
}

impl millstream::tokenizer::Tokenizer for Called {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let encoded = self.calls.run_alone(|py| {
            let made = self.encode.call1(py, (text,)).and_then(|made| {
                made.bind(py).try_iter()?.map(|id| id?.extract::<u32>()).collect::<PyResult<Vec<u32>>>()
            });
            match made {
                Ok(made) => {
                    ids.extend(made);
                    Ok(())
                }
                Err(error) => {
                    let problem = format!("the tokenizer {} raised {error}", self.name);
                    self.calls.keep(py, problem.clone(), error);
                    Err(problem.into())
                }
            }
        });
        encoded.unwrap_or_else(|| Err(CLOSED.into()))
    }

    fn decode(&self, ids: &[u32]) -> String {
        let Some(decode) = &self.decode else { return String::new() };
        let decoded = Python::attach(|py| decode.call1(py, (ids.to_vec(),))?.extract::<String>(py));
        decoded.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the decoder of the tokenizer {} raised; its text is left out", self.name);
            String::new()
        })
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn id(&self, token: &str) -> Option<u32> {
        let id = self.id.as_ref()?;
        Python::attach(|py| id.call1(py, (token,)).and_then(|id| id.extract::<Option<u32>>(py))).ok()?
    }

    fn fingerprint(&self) -> String {
        format!("python:{}", self.fingerprint)
    }
}
