//! What becomes of a path that the program writes to: a link, a pipe, a device, a directory.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use tempfile::TempDir;

use crate::program::{failure, text};
use crate::support::skip::skipped;

/// A corpus, its shards, and a cursor.
struct Case {
    directory: TempDir,
    config: String,
}

/// A command with its arguments but for the file that it writes, which comes last.
type Writes = Vec<String>;

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let lines: String = (0..60).map(|n| format!("line {n} of a text to write about\n")).collect();
        fs::write(directory.path().join("a.txt"), lines).expect("a file");
        for other in ["link", "pipe", "out"] {
            fs::create_dir(directory.path().join(other)).expect("a directory");
        }
        let config = format!(
            "[[source]]\npaths = [\"{}/a.txt\"]\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 32\nbatch_size = 2\n\
             lanes = 1\n",
            directory.path().display()
        );
        fs::write(directory.path().join("bytes.toml"), &config).expect("a config");
        let learned = config.replace("kind = \"bytes\"", "train = { vocab_size = 300 }");
        fs::write(directory.path().join("learned.toml"), learned).expect("a config");
        let config = directory.path().join("bytes.toml").display().to_string();
        let case = Self { directory, config };
        text(&["prepare", &case.config, "-o", &case.name("shards")]);
        text(&["digest", &case.config, "-n", "3", "--cursor-at", "3", &case.name("cursor.json")]);
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The commands that write one file, each with a name for the file.
    fn commands(&self) -> Vec<(&'static str, Writes)> {
        let (config, shards, cursor) = (&*self.config, &*self.name("shards"), &*self.name("cursor.json"));
        let (learned, corpus) = (&*self.name("learned.toml"), &*self.name("a.txt"));
        let eos = "<|endoftext|>";
        let commands: [(&str, &[&str]); 5] = [
            ("saved.json", &["digest", config, "-n", "2", "--cursor-at", "2"]),
            ("merged.json", &["cursor", "merge", cursor, "-o"]),
            ("ids.bin", &["export", shards, "--to", "nanogpt", "--eos", eos, "--output"]),
            ("tokenizer.json", &["tokenizer", "train", learned, "-o"]),
            ("new.toml", &["init", corpus, "--force", "-o"]),
        ];
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        commands.iter().map(|(name, words)| (*name, owned(words))).collect()
    }
}

/// Runs a command that writes to `path`. Returns what it says on standard output.
fn write_to(command: &Writes, path: &Path) -> String {
    let path = path.display().to_string();
    let words: Vec<&str> = command.iter().map(String::as_str).chain([&*path]).collect();
    text(&words)
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let case = Case::new();
    for (name, command) in case.commands() {
        let (plain, target, link) =
            (case.path(name), case.path("target"), case.path(&format!("link/{name}")));
        write_to(&command, &plain);
        // There is something to be replaced, and nothing.
        fs::write(&target, "before").expect("a file");
        symlink(&target, &link).expect("a link");
        for _ in 0..2 {
            write_to(&command, &link);
            assert!(link.symlink_metadata().expect("it is there").is_symlink(), "{name}");
            assert!(fs::read(&target).expect("a file") == fs::read(&plain).expect("a file"), "{name}");
            fs::remove_file(&target).expect("removed");
        }
    }
}

#[test]
fn a_pipe_and_standard_output_get_what_a_file_would_get() {
    let case = Case::new();
    for (name, command) in case.commands() {
        let (plain, pipe) = (case.path(name), case.path(&format!("pipe/{name}")));
        write_to(&command, &plain);
        let expected = fs::read(&plain).expect("a file");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe)
        });
        write_to(&command, &pipe);
        assert!(pipe.metadata().expect("it is there").file_type().is_fifo(), "{name}");
        assert!(reader.join().expect("no panic").expect("read") == expected, "{name}");

        // A link to it has the ending that a config needs.
        let out = case.path(&format!("out/{name}"));
        symlink("/proc/self/fd/1", &out).expect("a link");
        let printed = write_to(&command, &out);
        assert!(out.symlink_metadata().expect("it is there").is_symlink(), "{name}");
        let expected = String::from_utf8_lossy(&expected).into_owned();
        match name {
            // Digests and what to do next are printed beside it.
            "saved.json" | "new.toml" => assert!(printed.starts_with(&expected), "{name}: {printed}"),
            _ => assert!(printed == expected, "{name}: {printed}"),
        }
    }
}

#[test]
fn a_device_is_written_to() {
    let case = Case::new();
    let null = case.path("null.toml");
    let made = Command::new("mknod").arg(&null).args(["c", "1", "3"]).output();
    let is_writable = made.is_ok_and(|made| made.status.success())
        && fs::OpenOptions::new().write(true).open(&null).is_ok();
    if !is_writable {
        return skipped("a_device_is_written_to", "only root can make a device");
    }
    for (name, command) in case.commands() {
        write_to(&command, &null);
        assert!(null.metadata().expect("it is there").file_type().is_char_device(), "{name}");
    }
}

#[test]
fn a_directory_is_refused_before_anything_is_read() {
    let case = Case::new();
    let directory = case.path("directory.toml");
    fs::create_dir(&directory).expect("a directory");
    for (name, command) in case.commands() {
        let path = directory.display().to_string();
        let words: Vec<&str> = command.iter().map(String::as_str).chain([&*path]).collect();
        let expected = format!("error: {path}: cannot write: it is a directory; name a file");
        assert_eq!(failure(&words), (1, expected), "{name}");
    }
    assert_eq!(fs::read_dir(&directory).expect("it can be read").count(), 0);
}

#[test]
fn megatrons_index_needs_a_name() {
    let case = Case::new();
    let out = case.path("stdout");
    symlink("/proc/self/fd/1", &out).expect("a link");
    let (out, shards) = (out.display().to_string(), case.name("shards"));
    let (_, error) = failure(&["export", &shards, "--to", "megatron", "-o", &out]);
    assert_eq!(error, "error: output: the index is written beside it; name a file that ends in .bin");
    assert!(!case.path("stdout.idx").exists());
}

#[test]
fn the_option_has_one_name() {
    let case = Case::new();
    let cursor = case.name("cursor.json");
    for option in ["-o", "--output"] {
        let merged = case.name(&format!("merged{option}"));
        text(&["cursor", "merge", &cursor, option, &merged]);
        assert_eq!(fs::read(&merged).expect("a file"), fs::read(&cursor).expect("a file"));
    }
    for command in [&["cursor", "merge"][..], &["prepare"], &["export"], &["init"]] {
        let help = text(&[command, &["--help"]].concat());
        assert!(help.contains("-o, --output <") && !help.contains("--out "), "{help}");
    }
}

#[test]
fn what_a_command_reads_is_not_replaced() {
    let case = Case::new();
    let (config, learned, corpus) = (&*case.config, &*case.name("learned.toml"), &*case.name("a.txt"));
    let (shards, segment) = (&*case.name("shards"), &*case.name("shards/00000000.tokens"));
    let eos = "<|endoftext|>";
    for words in [
        &["digest", config, "--cursor-at", "2", config][..],
        &["digest", config, "--cursor-at", "2", corpus],
        &["tokenizer", "train", learned, "-o", learned],
        &["tokenizer", "train", learned, "-o", corpus],
        &["export", shards, "--to", "nanogpt", "--eos", eos, "-o", segment],
    ] {
        let path = words[words.len() - 1];
        let before = fs::read(path).expect("a file");
        let (code, error) = failure(words);
        assert!(code == 2 && error.contains(path) && error.contains("name another"), "{code} {error}");
        assert!(fs::read(path).expect("a file") == before, "{path}");
    }
}
