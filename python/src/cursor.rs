//! Cursors.

use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyType};

use super::errors::raise;

/// Where a run is: all that an exact resume needs.
#[pyclass(frozen, module = "millstream", name = "Cursor")]
#[derive(Clone, Debug)]
pub(crate) struct Cursor(pub(crate) Arc<millstream::Cursor>);

impl Cursor {
    pub(crate) fn new(cursor: millstream::Cursor) -> Self {
        Self(Arc::new(cursor))
    }
}

#[pymethods]
impl Cursor {
    /// The number of batches before it.
    #[getter]
    fn batch(&self) -> u64 {
        self.0.batch()
    }

    /// The running digest of all ids before it, over the lanes that it knows.
    #[getter]
    fn digest(&self) -> String {
        self.0.digest().to_string()
    }

    /// What became of all documents and ids before it, by source: "learned", "masked", "first", "cut" and so on. Ids in
    /// rows of padding, which no source made, are under None.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ledger = self.0.ledger();
        let all = PyDict::new(py);
        for (name, source) in ledger.sources {
            all.set_item(name, source.numbers().into_py_dict(py)?)?;
        }
        all.set_item(py.None(), [("padding", ledger.padding)].into_py_dict(py)?)?;
        Ok(all)
    }

    /// The same by source and by the values of the column that `pipeline.ledger_by` names; empty if it names none. What is
    /// skipped and padding are of no value.
    fn ledger_by_value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, values) in self.0.ledger().values {
            let of_source = PyDict::new(py);
            for (value, ledger) in values {
                of_source.set_item(value, ledger.numbers().into_py_dict(py)?)?;
            }
            all.set_item(name, of_source)?;
        }
        Ok(all)
    }

    /// The cursor as JSON, as `save` writes it.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.0).map_err(|e| super::errors::refused("cursor", e.to_string()))
    }

    /// The cursor of a text that `to_json` or `save` wrote.
    #[classmethod]
    fn from_json(_: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        let cursor = millstream::Cursor::from_json(text.as_bytes());
        cursor.map(Self::new).map_err(|problem| super::errors::refused("cursor", problem))
    }

    /// Writes it as JSON: the file is replaced as a whole or not at all.
    fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(path)).map_err(|e| raise(py, &e))
    }

    /// Reads what `save` or the program wrote.
    #[classmethod]
    fn load(kind: &Bound<'_, PyType>, path: std::path::PathBuf) -> PyResult<Self> {
        let py = kind.py();
        py.detach(|| millstream::Cursor::load(path)).map(Self::new).map_err(|e| raise(py, &e))
    }

    /// One cursor from those that all ranks saved after the same batch.
    #[classmethod]
    fn merge(kind: &Bound<'_, PyType>, cursors: Vec<Bound<'_, Self>>) -> PyResult<Self> {
        let cursors: Vec<millstream::Cursor> =
            cursors.iter().map(|cursor| (*cursor.get().0).clone()).collect();
        millstream::Cursor::merge(&cursors).map(Self::new).map_err(|e| raise(kind.py(), &e))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let equal = other.cast::<Self>().ok().map(|other| *self.0 == *other.get().0);
        Ok(match (op, equal) {
            (CompareOp::Eq, Some(equal)) => equal.into_pyobject(py)?.to_owned().into_any().unbind(),
            (CompareOp::Ne, Some(equal)) => (!equal).into_pyobject(py)?.to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        })
    }

    fn __hash__(&self) -> u64 {
        self.0.batch() ^ self.0.turn().rotate_left(32)
    }

    fn __repr__(&self) -> String {
        format!("<millstream.Cursor after batch {}>", self.0.batch())
    }

    /// Pickles it as JSON that is compressed: some hundred bytes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let packed = py.import("zlib")?.call_method1("compress", (self.to_json()?.as_bytes(), 9))?;
        Ok((py.import("millstream._cursor")?.getattr("unpickle")?, (packed.cast_into::<PyBytes>()?,)))
    }
}
