//! The program on a terminal, by util-linux's `script`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::support::skip::skipped;

/// What the program shows on a terminal of so many columns, with these variables. `None`, and a line that says so, where
/// there is no `script`; `test` is the name of the test.
pub(crate) fn on_a_terminal(
    test: &str,
    columns: usize,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Option<String> {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words: Vec<String> =
        [env!("CARGO_BIN_EXE_millstream")].iter().chain(arguments).map(|word| quoted(word)).collect();
    let shell = format!("stty cols {columns} rows 24 && exec {}", words.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &shell, "/dev/null"]);
    let variables: BTreeMap<&str, &str> = [("TERM", "xterm-256color"), ("RUST_LOG", "info")]
        .into_iter()
        .chain(variables.iter().copied())
        .collect();
    command.env_remove("NO_COLOR").envs(variables).current_dir(crate::support::root());
    match command.stdin(Stdio::null()).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            skipped(test, &format!("there is no `script` (util-linux): {error}"));
            None
        }
    }
}

/// What was drawn, line by line, without the escapes that move the cursor.
pub(crate) fn drawn(shown: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = shown.chars();
    while let Some(char) = rest.next() {
        match char {
            // CSI … letter. Whatever moves the cursor begins another line.
            '\u{1b}' => {
                rest.by_ref().skip(1).take_while(|c| !c.is_ascii_alphabetic()).for_each(drop);
                plain.push('\n');
            }
            '\r' => plain.push('\n'),
            char => plain.push(char),
        }
    }
    plain.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}
