//! System calls that fail in a program under test, as they do on file systems that are not here. See `faults.c`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// The library that is loaded before the system's, compiled once.
static LIBRARY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let library = directory.path().join("faults.so");
    let source = crate::support::root().join("tests/support/faults.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([source.as_os_str(), "-ldl".as_ref()]);
    let output = compiler.output().expect("a C compiler, which Rust links with too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, library)
});

/// Lets `command` run with these faults, each a call, a part of the path and an error number: `("rename", "step-", 18)`.
/// Number 0 lets the call wait.
pub(crate) fn inject(command: &mut Command, faults: &[(&str, &str, i32)]) {
    let lines: Vec<String> =
        faults.iter().map(|(call, path, number)| format!("{call} {path} {number}")).collect();
    command.env("LD_PRELOAD", &LIBRARY.1).env("FAULTS", lines.join("\n"));
}
