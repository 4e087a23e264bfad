//! PyTorch and transformers, which `transformers_peer.py` runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::skip::skipped;

/// The Python that has them, if the environment names one. Without it the test `test` says that it is skipped.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("TORCH_PYTHON").map(PathBuf::from);
    if python.is_none() {
        let how = "set TORCH_PYTHON to a Python with torch, transformers, peft and safetensors";
        assert!(std::env::var_os("MILLSTREAM_REQUIRE_TORCH").is_none(), "{how}");
        skipped(test, how);
    }
    python
}

/// What `transformers_peer.py` prints.
pub(crate) fn torch(python: &Path, arguments: &[&str]) -> String {
    let script = crate::support::root().join("tests/support/transformers_peer.py");
    let output = Command::new(python).arg(script).args(arguments).output().expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("text")
}
