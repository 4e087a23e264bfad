//! Tests that need what this machine may lack.

use std::io::Write;

/// Says why the test `name` is skipped. The line is written past the harness, which shows nothing of tests that pass.
pub(crate) fn skipped(name: &str, why: &str) {
    let line = format!("skipped: {name}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}
