//! Documents that are made up, as the program shows them.

use std::process::Command;

use crate::support::root;

/// What a command that must succeed prints, in an empty directory.
fn printed(arguments: &[&str]) -> String {
    let empty = tempfile::tempdir().expect("a directory");
    let config = root().join("configs/synthetic.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments[0].split(' ')).arg(config).args(&arguments[1..]);
    let output = command.current_dir(empty.path()).env("RUST_LOG", "warn").output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_example_is_shown_measured_and_proved_without_files() {
    let shown = printed(&["inspect", "-n", "1"]);
    assert!(shown.contains("synthetic://seed=42,documents=100000,bytes=2048 (row "), "{shown}");
    assert!(printed(&["bench loader", "-n", "20"]).contains("tokens/s"));
    let report = printed(&["verify", "-n", "24", "--points", "2", "--world", "1,2", "--json"]);
    assert!(report.contains("\"mismatches\":0"), "{report}");
    let digest = || printed(&["digest", "-n", "5"]);
    assert_eq!(digest(), digest());
}
