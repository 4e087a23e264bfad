//! What the gate found is kept on disk: a later start uses it for exactly the same tokenizer and corpus, and does
//! without where it cannot.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::program::{millstream, said};

/// What the log says where a verdict is used.
const KNOWN: &str = "the engines were compared before";

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new(tokenizer: &str) -> Self {
        let files = Self { directory: tempfile::tempdir().expect("a directory") };
        let tokenizer = crate::support::root().join(format!("tests/data/tokenizers/gate/{tokenizer}.json"));
        let config = format!(
            "[[source]]\npaths = [{:?}]\n[tokenizer]\npath = {:?}\n[pipeline]\nseq_len = 32\nbatch_size = 2\n",
            files.path("text.txt").display(),
            tokenizer.display()
        );
        std::fs::write(files.path("run.toml"), config).expect("written");
        files.text("a mill and a miller, 1234 mills\n");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, line: &str) {
        std::fs::write(self.path("text.txt"), line.repeat(200)).expect("written");
    }

    /// The digest of some batches, and what the log says.
    fn run(&self, cache: &Path) -> (String, String) {
        let config = self.path("run.toml").display().to_string();
        let mut command = millstream(&["digest", &config, "-n", "5"]);
        let output: Output =
            command.env("RUST_LOG", "debug").env("MILLSTREAM_CACHE", cache).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    }

    /// The entries that are kept.
    fn entries(&self) -> Vec<PathBuf> {
        let listed = std::fs::read_dir(self.path("cache/gate")).into_iter().flatten();
        listed.map(|entry| entry.expect("an entry").path()).collect()
    }
}

#[test]
fn a_second_start_does_not_compare_again() {
    for (name, warning) in [("cl100k", None), ("digits-2", Some("does not run this tokenizer"))] {
        let files = Files::new(name);
        let cache = files.path("cache");
        let (first, log) = files.run(&cache);
        assert!(!log.contains(KNOWN), "{log}");
        assert_eq!(files.entries().len(), 1);
        let (second, log) = files.run(&cache);
        assert!(log.contains(KNOWN), "{log}");
        assert!(warning.is_none_or(|warning| log.contains(warning)), "{log}");
        assert_eq!(second, first);
        // Another text is another matter.
        files.text("a mill and two millers, 5678 mills\n");
        let (_, log) = files.run(&cache);
        assert!(!log.contains(KNOWN), "{log}");
        assert_eq!(files.entries().len(), 2);
    }
}

#[test]
fn a_damaged_verdict_is_found_again() {
    let files = Files::new("cl100k");
    let cache = files.path("cache");
    let (first, _) = files.run(&cache);
    let entry = files.entries().remove(0);
    let whole = std::fs::read(&entry).expect("readable");
    let text = String::from_utf8_lossy(&whole[32..]).into_owned();
    let other = [&whole[..32], text.replace("\"Fast\"", "\"Best\"").as_bytes()].concat();
    for damaged in [&whole[..whole.len() / 2], b"", &other] {
        std::fs::write(&entry, damaged).expect("written");
        let (again, log) = files.run(&cache);
        assert!(!log.contains(KNOWN), "{log}");
        assert_eq!(again, first);
        assert_eq!(std::fs::read(&entry).expect("readable"), whole);
    }
}

#[test]
fn nothing_is_kept_where_nothing_can_be() {
    let files = Files::new("cl100k");
    let (first, _) = files.run(&files.path("cache"));
    let under_a_file = files.path("text.txt");
    for place in [Path::new(""), &under_a_file] {
        for _ in 0..2 {
            let (again, log) = files.run(place);
            assert!(!log.contains(KNOWN), "{log}");
            assert_eq!(again, first);
        }
    }
}
