//! `millstream completions`.

use super::{root, run, text};
use crate::support::skip::skipped;

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// The commands that the program's help names.
fn commands() -> Vec<String> {
    let help = text(root(), &["-h"]);
    let listed =
        help.lines().take_while(|line| *line != "Options:").filter_map(|line| line.strip_prefix("  "));
    listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_shells_script_names_every_command() {
    let commands = commands();
    assert!(commands.len() > 12 && commands.contains(&"tokenizer".to_owned()), "{commands:?}");
    for shell in SHELLS {
        let script = text(root(), &["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("--metrics-addr") || script.contains("metrics-addr"), "{shell}: options");
        assert!(
            !script.contains("verify-child") && !script.contains("compare-child"),
            "{shell}: hidden commands"
        );
    }
}

#[test]
fn bash_completes_with_the_script() {
    let Ok(bash) = std::process::Command::new("bash").arg("--version").output() else {
        return skipped("first_steps::completions::bash_completes_with_the_script", "there is no bash");
    };
    assert!(bash.status.success());
    let script = text(root(), &["completions", "bash"]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("millstream.bash");
    std::fs::write(&path, script).expect("a file");
    let complete = "source \"$1\"; COMP_WORDS=(millstream ver); COMP_CWORD=1; _millstream millstream ver millstream; \
                    echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash")
        .args(["-c", complete, "bash"])
        .arg(&path)
        .output()
        .expect("bash runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "verify",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_unknown_shell_is_refused() {
    let output = run(root(), &["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("elvish"));
}
