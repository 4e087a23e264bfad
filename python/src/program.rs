//! The program's commands.

use std::ffi::OsString;

use millstream_cli::Program;
use pyo3::prelude::*;

/// Runs the program and returns its exit code. `args` begins with its name; `command` starts it again.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>, command: Vec<OsString>) -> u8 {
    py.detach(|| {
        let code = millstream_cli::run(Program { args, command, ..Program::default() });
        // The only way to see a code: it has no number of its own.
        (0..=u8::MAX).find(|number| code == std::process::ExitCode::from(*number)).unwrap_or(1)
    })
}
