//! Standard input as a source: the program at the end of a real pipe.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

const CONFIG: &str = "\
[[source]]
paths = [\"-\"]
split = \"64MiB\"

[tokenizer]
eos = \"<|endoftext|>\"

[pipeline]
lanes = 1
seq_len = 32
batch_size = 2
window = 16
";

#[test]
fn a_tokenizer_is_learned_from_what_is_piped_in() {
    let files = Files::new();
    let expected = std::fs::read(files.path("t.json")).expect("learned from the file");
    let output = files.piped(text().as_bytes(), &["tokenizer", "train", "stdin.toml", "-o", "piped.json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(files.path("piped.json")).expect("learned"), expected);
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().expect("a directory") };
        std::fs::write(files.path("stdin.toml"), CONFIG).expect("written");
        std::fs::write(files.path("lines.txt"), text()).expect("written");
        let learned = files.start(
            &["tokenizer", "train", "stdin.toml", "-o", "t.json", "--set"],
            "source.0.paths=[\"lines.txt\"]",
        );
        assert!(learned.wait_with_output().expect("it runs").status.success());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, arguments: &[&str], last: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(arguments).arg(last).current_dir(self.directory.path()).env("RUST_LOG", "warn");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    }

    /// What `digest` says of each batch of what is piped in.
    fn digests(&self, piped: &[u8], more: &[&str]) -> Vec<Value> {
        let output =
            self.piped(piped, &[&["digest", "stdin.toml", "-n", "10000", "--each", "--json"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn piped(&self, piped: &[u8], arguments: &[&str]) -> Output {
        let mut child = self.start(&[arguments, &["--set"]].concat(), "tokenizer.path=t.json");
        let mut stdin = child.stdin.take().expect("a pipe");
        let piped = piped.to_vec();
        let writer = thread::spawn(move || {
            // Pieces of odd lengths, the first of them with a pause in the middle of a line.
            for (index, piece) in piped.chunks(777).enumerate() {
                if index < 3 {
                    thread::sleep(Duration::from_millis(20));
                }
                if stdin.write_all(piece).is_err() {
                    return;
                }
            }
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("no panic");
        output
    }
}

fn text() -> String {
    (0..700).map(|n| format!("line {n} of what comes down the pipe, {}\n", "and on ".repeat(n % 7))).collect()
}

fn batches(digests: &[Value]) -> Vec<&Value> {
    digests.iter().filter(|digest| digest.get("batch").is_some()).map(|digest| &digest["digest"]).collect()
}

#[test]
fn a_pipe_gives_the_batches_of_the_file() {
    let files = Files::new();
    let piped = files.digests(text().as_bytes(), &[]);
    let file = files.digests(b"", &["--set", "source.0.paths=[\"lines.txt\"]", "--set", "pipeline.epochs=1"]);
    assert!(batches(&piped).len() > 50);
    assert_eq!(batches(&piped), batches(&file));
}

#[test]
fn a_cursor_resumes_when_the_same_text_comes_again() {
    let files = Files::new();
    let cursor = files.path("cursor.json").display().to_string();
    let whole = files.digests(text().as_bytes(), &["--cursor-at", "30", &cursor]);
    let rest = files.digests(text().as_bytes(), &["--from", &cursor]);
    assert_eq!(batches(&whole)[30..], batches(&rest)[..]);
    let short = files.piped(b"too short\n", &["digest", "stdin.toml", "-n", "3", "--from", &cursor]);
    let error = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(
        !short.status.success() && error.contains("- (byte ") && error.contains("no document begins there"),
        "{error}"
    );
}

#[test]
fn what_standard_input_cannot_do_is_said() {
    let files = Files::new();
    let refused = |arguments: &[&str]| {
        let output = files.piped(text().as_bytes(), arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let digest = ["digest", "stdin.toml", "-n", "3", "--set"];
    let lanes = refused(&[&digest[..], &["pipeline.lanes=2"]].concat());
    assert!(lanes.contains("pipeline.lanes: 2 lanes, and standard input is one"), "{lanes}");
    let others = refused(&[&digest[..], &["source.0.paths=[\"-\", \"lines.txt\"]"]].concat());
    assert!(others.contains("source.0.paths: \"-\" is standard input and stands alone"), "{others}");
    let epochs = refused(&[&digest[..], &["source.0.epochs=2"]].concat());
    assert!(epochs.contains("source.0.epochs: standard input comes only once"), "{epochs}");
    let epochs = refused(&[&digest[..], &["pipeline.epochs=2"]].concat());
    assert!(epochs.contains("source.0.epochs: standard input comes only once"), "{epochs}");
    let table = refused(&[&digest[..], &["source.0.kind=csv", "--set", "source.0.field=text"]].concat());
    assert!(table.contains("source.0.kind: csv cannot be read from standard input"), "{table}");
    let proof = refused(&["verify", "stdin.toml"]);
    assert!(proof.contains("source: standard input comes only once"), "{proof}");

    // There is nothing to learn a tokenizer from before the stream begins.
    let child = files.start(&["digest", "stdin.toml", "-n"], "3");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "tokenizer: standard input comes only once, so no tokenizer can be learned from it";
    assert!(error.contains(why) && error.contains("set tokenizer.path"), "{error}");
    assert!(!output.status.success());
}
