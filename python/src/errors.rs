//! The library's errors as Python's exceptions. Their classes are in `millstream/_errors.py`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception of an error: of the class that its kind has, with the same text and with what is known by name.
pub(crate) fn raise(py: Python<'_>, error: &millstream::Error) -> PyErr {
    let fields = serde_json::Value::Object(error.fields()).to_string();
    made(py, error.kind(), &error.chain(), &fields)
}

/// The exception of a kind, for what is refused here.
pub(crate) fn refused(kind: &str, problem: impl AsRef<str>) -> PyErr {
    Python::attach(|py| made(py, kind, problem.as_ref(), "{}"))
}

fn made(py: Python<'_>, kind: &str, message: &str, fields: &str) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let make = py.import("millstream._errors")?.getattr("make")?;
        let arguments = PyDict::new(py);
        arguments.set_item("kind", kind)?;
        arguments.set_item("message", message)?;
        arguments.set_item("fields", fields)?;
        Ok(PyErr::from_value(make.call((), Some(&arguments))?))
    };
    make().unwrap_or_else(|error| error)
}
