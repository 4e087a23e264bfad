//! The programs in `examples/`.

use std::path::PathBuf;

/// Where cargo builds an example: beside the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("this test's path");
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    path
}
