//! Limits of the system: a full disk, open files, the length of a file. Each is told with what raises it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{failure, said};
use crate::support::skip::skipped;

/// The program with these arguments, after `first` in a shell.
fn after(first: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_millstream")]);
    command.args(arguments).env("RUST_LOG", "warn").env_remove("RUST_BACKTRACE").output().expect("a shell")
}

/// A config over a few lines, whose runs go to `run` beside it.
fn config(directory: &Path) -> String {
    for number in 0..20 {
        let lines: String = (0..200).map(|line| format!("text {number}, line {line}\n")).collect();
        fs::write(directory.join(format!("{number}.txt")), lines).expect("written");
    }
    let path = directory.join("run.toml");
    let text = format!(
        "[[source]]\npaths = [\"{here}/*.txt\"]\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 32\n\
         batch_size = 4\n[model]\nlayers = 1\nheads = 2\nd_model = 32\n[train]\nsteps = 4\nwarmup = 1\n\
         checkpoint_every = 2\nsample_tokens = 0\nout = \"{here}/run\"\n",
        here = directory.display()
    );
    fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// What a run that ends with code 1 says last.
fn last_words(output: &Output) -> String {
    let said = said(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said.lines().last().expect("a line").to_owned()
}

#[test]
fn too_many_open_files_name_the_limit_and_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    for few in [9, 10, 11] {
        let output = after(&format!("ulimit -n {few}"), &["train", &config]);
        let last = last_words(&output);
        let wanted = format!(
            "this process has as many files open as it may, {few} (`ulimit -n`); raise that, or lower pipeline.lanes"
        );
        assert!(last.starts_with("error: ") && last.ends_with(&wanted), "{last}");
        drop(fs::remove_dir_all(directory.path().join("run")));
    }
}

#[test]
fn a_file_that_may_not_be_so_long_is_an_error_and_no_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    let last = last_words(&after("ulimit -f 40", &["train", &config]));
    assert!(last.ends_with("(`ulimit -f`); raise that limit"), "{last}");
}

#[test]
fn a_full_disk_says_where_and_what_is_left() {
    let name = "a_full_disk_says_where_and_what_is_left";
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    let disk = directory.path().join("disk");
    fs::create_dir(&disk).expect("a directory");
    // A disk that only this process sees.
    let mounted = |options: &str| format!("mount -t tmpfs -o {options} tmpfs '{}'", disk.display());
    let run = |options: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c"]);
        command.arg(format!("{} && exec \"$@\"", mounted(options)));
        command.args(["sh", env!("CARGO_BIN_EXE_millstream")]).args(arguments);
        command.env("RUST_LOG", "warn").env_remove("RUST_BACKTRACE").output()
    };
    match run("size=1m", &["--version"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(name, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => return skipped(name, &format!("no unshare: {error}")),
    }
    let out = format!("train.out={}/run", disk.display());
    let shards = format!("{}/shards", disk.display());
    // No room for the first file, for a checkpoint, and for the shards.
    let full: [(&str, &[&str]); 3] = [
        ("size=4k", &["train", &config, "--set", &out]),
        ("size=100k", &["train", &config, "--set", &out]),
        ("size=100k", &["prepare", &config, "--output", &shards]),
    ];
    let place = disk.display().to_string();
    for (options, arguments) in full {
        let last = last_words(&run(options, arguments).expect("it runs"));
        assert!(last.starts_with(&format!("error: {place}/")), "{last}");
        assert!(last.contains(": cannot ") && last.contains(": the disk is full ("), "{last}");
        assert!(last.ends_with(" left); make room there, then resume or run it again"), "{last}");
    }
    // The root directory has the only inode, and the run directory or the first shard the last one.
    for inodes in [1, 2] {
        for arguments in [["train", &config, "--set", &out], ["prepare", &config, "--output", &shards]] {
            let last = last_words(&run(&format!("size=1m,nr_inodes={inodes}"), &arguments).expect("it runs"));
            assert!(last.starts_with(&format!("error: {place}")) && last.contains(": cannot "), "{last}");
            assert!(last.contains("has space but no inodes left; remove files there"), "{last}");
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_named_as_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    let out = directory.path().join("run");
    symlink("/nowhere/at-all", &out).expect("a link");
    let out = out.display().to_string();
    for arguments in [["train", &config].as_slice(), &["train", "--resume", &out]] {
        let (code, said) = failure(arguments);
        assert!(code == 1 && said.contains(&format!("error: {out}: cannot ")), "{said}");
        let wanted = "it is a link to /nowhere/at-all, where nothing is; make that, or remove the link";
        assert!(said.ends_with(wanted), "{said}");
    }
}

#[test]
fn a_config_without_a_source_says_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("empty.toml");
    fs::write(&config, "").expect("written");
    for command in ["train", "check", "digest", "inspect"] {
        let (_, said) = failure(&[command, config.to_str().expect("a name")]);
        let wanted = "error: there is no source; add a [[source]] with the paths of the corpus";
        assert!(said.ends_with(wanted), "{command}: {said}");
    }
}

/// Addresses that are used up end the process at once, with a sentence of its own before Rust's. How many it takes to get
/// so far differs between machines: with fewer it cannot even be loaded.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_addresses_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    let is_named = (60_000..4_000_000).step_by(10_000).find_map(|limit| {
        let output = after(&format!("ulimit -v {limit}"), &["digest", &config]);
        let sentence = format!("error: `ulimit -v` gives this process {} MiB of addresses", limit >> 10);
        let is_said = said(&output).contains(&sentence);
        (is_said || output.status.success()).then_some(is_said)
    });
    assert_eq!(is_named, Some(true));
}
