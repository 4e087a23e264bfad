//! Paths that only the program can try: those of another user, and what it warns of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::corpus::{Corpus, pipe};
use crate::support::skip::skipped;

#[test]
fn a_pipe_that_is_skipped_is_warned_of_once() {
    let corpus = Corpus::new([("sp/a.txt", "one line\nand another line\n")]);
    pipe(&corpus, "sp/f.txt");
    corpus.write(
        "config.toml",
        "tokenizer.kind = \"bytes\"\n[pipeline]\nseq_len = 8\nepochs = 1\n[[source]]\n",
    );
    let paths = format!("source.0.paths=[{:?}, {:?}]", corpus.path("sp/*.txt"), corpus.path("sp/[af].txt"));
    let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["digest", &corpus.path("config.toml"), "--set", &paths])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let warned: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("is a pipe, socket or device, not a file: skipped"))
        .collect();
    assert!(warned.len() == 1 && warned[0].contains("sp/f.txt"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_read_ends_the_run() {
    let name = "a_directory_that_cannot_be_read_ends_the_run";
    let corpus = Corpus::new([("a/x.txt", "one line\n"), ("secret/x.txt", "another\n")]);
    let mode = |path: &str, mode| {
        fs::set_permissions(corpus.path(path), fs::Permissions::from_mode(mode)).expect("changed");
    };
    mode("", 0o755);
    mode("secret", 0o000);
    if fs::read_dir(corpus.path("secret")).is_ok() && !is_there("setpriv") {
        return skipped(name, "this user may read everything, and there is no setpriv");
    }
    for pattern in ["*/x.txt", "*/*.txt", "**/*.txt", "secret/x.txt", "secret/*.txt", "**/secret/x.txt"] {
        let output = as_nobody(&corpus, pattern);
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("setpriv") {
            return skipped(name, "setpriv cannot start the program as another user");
        }
        assert!(!output.status.success(), "{pattern}: {said}");
        assert!(
            said.contains(&corpus.path("secret")) && said.contains("ermission denied"),
            "{pattern}: {said}"
        );
    }
    mode("secret", 0o755);
    let output = as_nobody(&corpus, "*/x.txt");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Looks at the corpus as a user who may not read everything.
fn as_nobody(corpus: &Corpus, pattern: &str) -> Output {
    corpus.write(
        "config.toml",
        "tokenizer.kind = \"bytes\"\n[pipeline]\nseq_len = 8\nepochs = 1\n[[source]]\n",
    );
    let program = env!("CARGO_BIN_EXE_millstream");
    let is_root = fs::read_dir("/root").is_ok();
    let mut command = match is_root && is_there("setpriv") {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
            command
        }
        false => Command::new(program),
    };
    let paths = format!("source.0.paths=[{:?}]", corpus.path(pattern));
    command.args(["digest", &corpus.path("config.toml"), "--set", &paths]).current_dir("/");
    command.output().expect("it runs")
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
