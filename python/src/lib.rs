//! The Python package's native part: the loader of `millstream`, for `python/millstream/`, which is its public face.
//!
//! - `stream`: an open loader, and waiting for it without the GIL
//! - `batch`: a batch and its pieces; `memory`: their numbers, by the buffer protocol; `dlpack`: the same by DLPack
//! - `cursor`, `config`, `tokenizer`: the library's, as Python objects
//! - `stages`: Python functions over documents, and documents that Python makes; `calls`: what these have in common;
//!   `marks`: what of a text is learned from
//! - `errors`: the library's errors as Python's exceptions; `log`: its events in Python's log
//! - `verify`, `program`: the proof and the commands

use pyo3::prelude::*;

mod batch;
mod calls;
mod config;
mod cursor;
mod dlpack;
mod errors;
mod log;
mod marks;
mod memory;
mod open;
mod program;
mod progress;
mod stages;
mod stream;
mod tokenizer;
mod verify;

/// The native part of the package `millstream`.
#[pymodule(gil_used = true)]
mod _millstream {
    use super::*;

    #[pymodule_export]
    use super::batch::{Batch, Piece};
    #[pymodule_export]
    use super::calls::forked;
    #[pymodule_export]
    use super::config::Config;
    #[pymodule_export]
    use super::cursor::Cursor;
    #[pymodule_export]
    use super::dlpack::dlpack;
    #[pymodule_export]
    use super::memory::describe;
    #[pymodule_export]
    use super::open::{Opening, close_all, open};
    #[pymodule_export]
    use super::program::main;
    #[pymodule_export]
    use super::progress::Progress;
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::tokenizer::{Tokenizer, ranks_to_json};
    #[pymodule_export]
    use super::verify::verify;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("Memory", super::memory::type_object(module.py())?)
    }
}
