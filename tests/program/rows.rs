//! `prepare --rows`: finished rows, made in parts, killed, sent to a store, and read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::program::{failure, json, millstream, run, said, start, text as text_of};
use crate::support::moto::Moto;
use crate::support::wait::wait_for;

/// A corpus, and its config.
struct Case {
    directory: TempDir,
}

impl Case {
    fn new(lines: usize) -> Self {
        let case = Self { directory: tempfile::tempdir().expect("a directory") };
        let line = |n: usize| format!("{n}: {}\n", "words ".repeat(n % 31));
        std::fs::write(case.path("a.txt"), (0..lines).map(line).collect::<String>()).expect("a file");
        let config = format!(
            "[[source]]\npaths = [{:?}]\n[tokenizer]\nkind = \"bytes\"\n\
             [pipeline]\nseq_len = 256\nbatch_size = 8\nlanes = 4\nholdout = 0.05\nworkers = 1\n",
            case.path("*.txt").display().to_string()
        );
        std::fs::write(case.path("text.toml"), config).expect("a file");
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a config that reads the rows at a place, and returns its path.
    fn rows(&self, name: &str, place: &str) -> String {
        let text = format!(
            "[[source]]\nkind = \"rows\"\npaths = [{place:?}]\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nbatch_size = 8\n"
        );
        std::fs::write(self.path(name), text).expect("a file");
        self.name(name)
    }
}

/// All files of a directory, but for locks.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap_or_default())
    };
    entries.map(file).filter(|(name, _)| name != ".lock").collect()
}

#[test]
fn parts_that_are_killed_and_go_on_make_what_one_process_makes() {
    let case = Case::new(60_000);
    let (config, whole, out) = (case.name("text.toml"), case.name("whole"), case.name("out"));
    let made = json(&["prepare", &config, "-o", &whole, "--rows"]);
    assert_eq!(
        (&made["lanes"], &made["of"]),
        (&5.into(), &5.into()),
        "those of training, and the held-out one"
    );
    let expected = files(&case.path("whole"));

    let begin = |part: &str| start(&["prepare", &config, "-o", &out, "--rows", "--part", part, "--json"]);
    for part in ["1/2", "2/2"] {
        let before = files(&case.path("out")).len();
        let mut victim = begin(part);
        wait_for("something of it", || {
            let has_ended = victim.try_wait().expect("it can be asked").is_some();
            (files(&case.path("out")).len() > before || has_ended).then_some(())
        });
        // One that is done is killed in vain.
        let _ = victim.kill();
        victim.wait().expect("it ends");
    }
    let children: Vec<Child> = ["1/2", "2/2", "1/2"].map(begin).into_iter().collect();
    let mut done = 0;
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        done += usize::from(output.status.success());
        assert!(output.status.success() || said(&output).contains("writes rows there"), "{}", said(&output));
    }
    assert!(done >= 2);
    let found = files(&case.path("out"));
    assert!(found == expected, "the files differ: {:?} and {:?}", found.keys(), expected.keys());
    let status = text_of(&["prepare", &config, "-o", &out, "--status"]);
    assert_eq!(status.trim_end(), format!("{out}: 5 of 5 lanes of rows are there"));
    let again = json(&["prepare", &config, "-o", &out, "--rows", "--verify"]);
    assert_eq!((&again["rows"], &again["verified"]), (&0.into(), &true.into()));

    // What is held out is validated on, as from text.
    let rows = case.rows("rows.toml", &out);
    let held_out = |config: &str| text_of(&["inspect", config, "--held-out", "--json", "--batches", "3"]);
    let ids = |said: String| -> Vec<serde_json::Value> {
        let batch =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["ids"].clone();
        said.lines().map(batch).collect()
    };
    assert_eq!(ids(held_out(&rows)), ids(held_out(&config)));
    // A config for text shards finds none there, and the other way round.
    let (_, error) = failure(&["prepare", &config, "-o", &out]);
    assert!(error.contains("rows are there; prepare token shards into an empty directory"), "{error}");
}

#[test]
fn a_corpus_may_move_between_its_parts() {
    let kinds: [&[&str]; 2] = [&[], &["--rows"]];
    for rows in kinds {
        let case = Case::new(2_000);
        let (config, whole, out) = (case.name("text.toml"), case.name("whole"), case.name("out"));
        let prepare = |arguments: &[&str]| json(&[&["prepare", &*config][..], rows, arguments].concat());
        prepare(&["-o", &whole]);
        // Of token shards there is one segment, which the first part makes.
        prepare(&["-o", &out, "--part", "2/2"]);
        std::fs::create_dir(case.path("mnt")).expect("a directory");
        std::fs::rename(case.path("a.txt"), case.path("mnt/a.txt")).expect("moved");
        let moved = format!("source.0.paths=[{:?}]", case.name("mnt/*.txt"));
        prepare(&["-o", &out, "--part", "1/2", "--set", &moved]);
        let (found, expected) = (files(&case.path("out")), files(&case.path("whole")));
        assert!(found == expected, "the files differ: {:?} and {:?}", found.keys(), expected.keys());
        // A file of another name is another file.
        std::fs::rename(case.path("mnt/a.txt"), case.path("mnt/b.txt")).expect("renamed");
        let again = [&["prepare", &*config][..], rows, &["-o", &*out, "--set", &*moved]].concat();
        let (_, error) = failure(&again);
        assert!(error.contains("of other files, or") && error.contains("that have changed since"), "{error}");
    }
}

#[test]
fn whoever_finds_lanes_missing_names_their_parts() {
    let case = Case::new(2_000);
    let (config, out) = (case.name("text.toml"), case.name("out"));
    let status = || {
        let output = run(&["prepare", &config, "-o", &out, "--status"]);
        (output.status.code(), String::from_utf8(output.stdout).expect("text").trim_end().to_owned())
    };
    assert_eq!(status(), (Some(1), format!("{out}: nothing is there yet")));
    let first = text_of(&["prepare", &config, "-o", &out, "--rows", "--part", "2/3"]);
    assert!(
        first.contains(": part 2 of 3, 2 lanes, ") && first.contains("; 3 lanes of other parts are not"),
        "{first}"
    );
    let (code, told) = status();
    assert_eq!(
        (code, told),
        (Some(1), format!("{out}: 2 of 5 lanes of rows are there; 1 of 3 parts are done, and not 1, 3"))
    );
    // More parts than lanes.
    let none =
        text_of(&["prepare", &config, "-o", &case.name("other"), "--rows", "--part", "7/9", "--verify"]);
    assert!(
        none.contains(
            ": part 7 of 9, 0 lanes, nothing to do: this part has no lanes; 5 lanes of other parts are not"
        ) && none
            .trim_end()
            .ends_with("; no checksum was compared: --verify waits until everything is there"),
        "{none}"
    );
    let (_, error) = failure(&["digest", &case.rows("rows.toml", &out)]);
    let missing = "2 of 5 lanes of rows are there, and of 3 parts these are missing: 1, 3; prepare each";
    assert!(error.contains(missing) && error.contains("part 1 of 3"), "{error}");
}

#[test]
fn rows_in_a_store_are_those_on_disk() {
    let Some(moto) = Moto::start_or_skip("rows::rows_in_a_store_are_those_on_disk") else { return };
    moto.put("/rows", b"");
    let endpoint = moto.endpoint();
    let case = Case::new(5_000);
    let (config, whole, far) = (case.name("text.toml"), case.name("whole"), "s3://rows/a".to_owned());
    json(&["prepare", &config, "-o", &whole, "--rows"]);
    let near = |arguments: &[&str]| {
        let mut command = millstream(arguments);
        command.envs(Moto::environment(&endpoint)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    for part in ["2/2", "1/2"] {
        near(&["prepare", &config, "-o", &far, "--rows", "--part", part]);
    }
    for (name, bytes) in &files(&case.path("whole")) {
        assert!(moto.get(&format!("/rows/a/{name}")).as_ref() == Some(bytes), "{name}");
    }
    near(&["prepare", &config, "-o", &far, "--rows", "--verify"]);
    let digest = |config: &str| near(&["digest", config, "-n", "200"]);
    assert_eq!(digest(&case.rows("far.toml", &far)), digest(&case.rows("near.toml", &whole)));
}
