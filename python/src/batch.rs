//! Batches and their pieces.

use std::ffi::OsStr;
use std::sync::Arc;

use millstream::document::ColumnValue;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::cursor::Cursor;
use super::memory::{Numbers, View, array};

/// A batch whose ids are in memory that Python shares.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// All of it; without its ids, if they are not wide.
    pub(crate) batch: Arc<millstream::Batch>,
    ids: Arc<Numbers>,
    is_wide: bool,
}

impl Ready {
    /// With ids of 32 bits, which are not copied.
    pub(crate) fn narrow(mut batch: millstream::Batch) -> Self {
        let ids = Numbers::ids(batch.replace_ids(Vec::new()));
        Self { batch: Arc::new(batch), ids, is_wide: false }
    }

    /// With a copy of the ids in 64 bits.
    pub(crate) fn wide(batch: millstream::Batch) -> Self {
        let ids = Numbers::new(batch.ids().iter().map(|id| i64::from(*id)).collect::<Vec<_>>());
        Self { batch: Arc::new(batch), ids, is_wide: true }
    }
}

/// Rows of ids, with where they came from and the cursor after them.
///
/// Arrays are as `dtype` and `arrays` of the loader say. `ids`, `inputs` and `targets` share one piece of memory; the others
/// are made each time you ask for them. A segment is the part of one document that lies in a row.
#[pyclass(frozen, module = "millstream", name = "Batch")]
#[derive(Debug)]
pub(crate) struct Batch {
    ready: Ready,
    /// What arrays become before they are handed out.
    convert: Option<Arc<Py<PyAny>>>,
}

impl Batch {
    pub(crate) fn new(ready: Ready, convert: Option<Arc<Py<PyAny>>>) -> Self {
        Self { ready, convert }
    }

    fn batch(&self) -> &millstream::Batch {
        &self.ready.batch
    }

    fn array<'py>(&self, py: Python<'py>, view: View) -> PyResult<Bound<'py, PyAny>> {
        let array = array(py, view)?;
        match &self.convert {
            None => Ok(array),
            Some(convert) => convert.bind(py).call1((array,)),
        }
    }

    /// Columns of the ids.
    fn ids_from<'py>(&self, py: Python<'py>, from: usize, columns: usize) -> PyResult<Bound<'py, PyAny>> {
        self.array(py, View::columns(self.ready.ids.clone(), self.batch().width(), from, columns))
    }

    /// Numbers for each id, for the first columns alone.
    fn columns_of<'py>(
        &self,
        py: Python<'py>,
        numbers: Vec<u32>,
        columns: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let numbers = match self.ready.is_wide {
            false => Numbers::new(numbers),
            true => Numbers::new(numbers.into_iter().map(i64::from).collect::<Vec<_>>()),
        };
        self.array(py, View::columns(numbers, self.batch().width(), 0, columns))
    }
}

#[pymethods]
impl Batch {
    /// All ids, `[rows, seq_len + 1]`; with `pipeline.ahead = n`, `[rows, seq_len + n]`.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ids_from(py, 0, self.batch().width())
    }

    /// The inputs, `[rows, seq_len]`: a view of the ids.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ids_from(py, 0, self.batch().seq_len())
    }

    /// The targets, `[rows, seq_len]`: a view of the ids, one place later.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ids_from(py, 1, self.batch().seq_len())
    }

    /// The number of each input's segment in its row, from 1; 0 for padding. `[rows, seq_len]`.
    #[getter]
    fn segment_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.columns_of(py, self.batch().segment_ids(), self.batch().seq_len())
    }

    /// The place of each input in its segment, from 0. `[rows, seq_len]`.
    #[getter]
    fn position_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.columns_of(py, self.batch().position_ids(), self.batch().seq_len())
    }

    /// The place of each id in its segment, of the shape of `ids`.
    #[getter]
    fn _positions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.columns_of(py, self.batch().position_ids(), self.batch().width())
    }

    /// Whether each input's target exists, is of the same document and is learned from. `[rows, seq_len]`.
    #[getter]
    fn loss_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let seq_len = self.batch().seq_len();
        self.array(py, View::columns(Numbers::new(self.batch().loss_mask()), seq_len, 0, seq_len))
    }

    /// How many ids of each row count; the rest is padding. `[rows]`.
    #[getter]
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lengths: Vec<_> = self.batch().lengths().iter().map(|len| *len as i32).collect();
        self.array(py, View::flat(Numbers::new(lengths)))
    }

    /// Where the segments of all inputs begin, row after row, and where the last one ends, as variable-length attention
    /// takes them: padding at the end of a row is a segment too. `[segments + 1]`, int32.
    #[getter]
    fn cu_seqlens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.array(py, View::flat(Numbers::new(self.batch().cu_seqlens().0)))
    }

    /// The length of the longest segment among the inputs.
    #[getter]
    fn max_seqlen(&self) -> usize {
        self.batch().cu_seqlens().1
    }

    /// The runs of ids of one document each, by row and then by place.
    #[getter]
    fn pieces(&self) -> Vec<Piece> {
        let batch = &self.ready.batch;
        (0..batch.pieces().len()).map(|index| Piece { batch: batch.clone(), index }).collect()
    }

    /// The columns that `source.columns` names: for each name a list with the value of each piece, in the order of
    /// `pieces`. A value is a `str`, `int`, `float`, `bool` or `None`, which is also that of a piece whose source has no such
    /// column.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (batch, columns) = (self.batch(), PyDict::new(py));
        for (nth, piece) in batch.pieces().iter().enumerate() {
            for (name, value) in batch.columns(piece) {
                let values = match columns.get_item(name)? {
                    Some(values) => values,
                    None => {
                        let none = PyList::new(py, batch.pieces().iter().map(|_| None::<u8>))?;
                        columns.set_item(name, &none)?;
                        none.into_any()
                    }
                };
                values.set_item(nth, python_value(py, value)?)?;
            }
        }
        Ok(columns)
    }

    /// The shape of `ids`: rows, and ids in each.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        let [rows, width] = self.batch().shape();
        (rows, width)
    }

    /// How many targets there are, without padding and what is not learned from.
    #[getter]
    fn tokens(&self) -> usize {
        self.batch().tokens()
    }

    /// The length of the text that the targets stand for, in bytes.
    #[getter]
    fn text_bytes(&self) -> u64 {
        self.batch().text_bytes()
    }

    /// Its number in the stream, from 0.
    #[getter]
    fn number(&self) -> u64 {
        self.batch().number()
    }

    /// A digest of its shape, its ids, and what of them is not learned from: equal batches have equal digests.
    #[getter]
    fn digest(&self, py: Python<'_>) -> String {
        if self.ready.is_wide {
            return py.detach(|| self.batch().digest().to_string());
        }
        let ids = self.ready.ids.kept(py);
        py.detach(|| {
            let mut whole = self.batch().clone();
            whole.replace_ids(ids.to_vec());
            whole.digest().to_string()
        })
    }

    /// Where to resume after it.
    #[getter]
    fn cursor(&self) -> Cursor {
        Cursor::new(self.batch().cursor().clone())
    }

    fn __repr__(&self) -> String {
        let [rows, width] = self.batch().shape();
        let number = self.batch().number();
        format!("<millstream.Batch {number}: {rows} rows of {width} ids, {} targets>", self.batch().tokens())
    }
}

/// A run of ids of one document in a row of a batch.
#[pyclass(frozen, module = "millstream", name = "Piece")]
#[derive(Debug)]
pub(crate) struct Piece {
    batch: Arc<millstream::Batch>,
    index: usize,
}

impl Piece {
    fn piece(&self) -> &millstream::batch::Piece {
        &self.batch.pieces()[self.index]
    }
}

#[pymethods]
impl Piece {
    /// The row.
    #[getter]
    fn row(&self) -> u32 {
        self.piece().row
    }

    /// Where it begins in the row.
    #[getter]
    fn start(&self) -> u32 {
        self.piece().from
    }

    /// Where it ends in the row, exclusive.
    #[getter]
    fn stop(&self) -> u32 {
        self.piece().to
    }

    /// The index of its first id in the document.
    #[getter]
    fn offset(&self) -> u32 {
        self.piece().offset
    }

    /// The path or URL of the document's file; `None` if it came from no file.
    #[getter]
    fn path(&self) -> Option<&OsStr> {
        let path = self.batch.path(self.piece()).as_os_str();
        (!path.is_empty()).then_some(path)
    }

    /// The line that the document begins on, from 1; `None` if it is unknown or the format has no lines. This may read
    /// the file.
    #[getter]
    fn line(&self, py: Python<'_>) -> Option<u64> {
        let line = py.detach(|| self.batch.line(self.piece()));
        (line > 0).then_some(line)
    }

    /// Where the document begins in its file, in `unit`.
    #[getter]
    fn byte(&self) -> u64 {
        self.piece().position.byte
    }

    /// What `byte` counts: `byte`, `row` or `token`.
    #[getter]
    fn unit(&self) -> String {
        self.batch.unit(self.piece()).to_string()
    }

    /// The columns of its document that `source.columns` names, by their names.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, value) in self.batch.columns(self.piece()) {
            columns.set_item(name, python_value(py, value)?)?;
        }
        Ok(columns)
    }

    /// Which source of the config it came from, from 0; `None` if it came from no file.
    #[getter]
    fn source(&self) -> Option<usize> {
        self.batch.source(self.piece())
    }

    fn __repr__(&self) -> String {
        let piece = self.piece();
        let path = self.batch.path(piece).display().to_string();
        let (row, from, to, byte) = (piece.row, piece.from, piece.to, piece.position.byte);
        format!("<millstream.Piece row {row} [{from}:{to}] of {path:?}, {} {byte}>", self.batch.unit(piece))
    }
}

/// The value of a column as Python has it.
fn python_value<'py>(py: Python<'py>, value: &ColumnValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        ColumnValue::Bool(value) => value.into_bound_py_any(py),
        ColumnValue::Integer(value) => value.into_bound_py_any(py),
        ColumnValue::Float(value) => value.into_bound_py_any(py),
        ColumnValue::Text(value) => value.into_bound_py_any(py),
        _ => Ok(py.None().into_bound(py)),
    }
}
