//! Training on several ranks, as people start it: on several devices of one process and, with the feature `mpi`, by
//! mpirun. That needs Open MPI:
//!
//! ```sh
//! cargo test --release --features mpi --test ranks
//! ```

#[path = "../support/mod.rs"]
mod support;

mod devices;
#[cfg(feature = "mpi")]
mod ends;
#[cfg(feature = "mpi")]
mod equal;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use millstream::cursor::{Cursor, Digest, LaneState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::wait::wait_for;
use tempfile::TempDir;

/// A model that is far too small, so that a step takes milliseconds. With so large an epsilon a step depends on how large its
/// gradient is, and not only on where it points.
const CONFIG: &str = r#"
seed = 3

[[source]]
name = "plain"
paths = ["corpus/a*.txt"]

[[source]]
name = "odd"
paths = ["corpus/b*.txt"]

[tokenizer]
kind = "bytes"

[pipeline]
seq_len = 16
batch_size = 8
lanes = 8
holdout = 0.1
workers = 1

[model]
layers = 1
d_model = 16
heads = 2
d_ff = 16

[train]
out = "run"
steps = 24
lr = 1e-3
warmup = 2
epsilon = 1e-2
log_every = 1
validate_every = 12
validation_batches = 5
checkpoint_every = 12
trail_every = 6
sample_tokens = 0
"#;

/// What mpirun needs to start more ranks than there are cores, as the root of a container.
const MPIRUN: [&str; 7] =
    ["--oversubscribe", "--bind-to", "none", "--mca", "btl_vader_single_copy_mechanism", "none", "-n"];

/// A directory with a corpus and a config.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let project = Self(directory);
        std::fs::create_dir(project.path("corpus")).expect("made");
        for file in 0..8 {
            let line = |line: usize| format!("file {file} line {line}: {}\n", "some words ".repeat(line % 5));
            let name = if file < 5 { format!("a{file}") } else { format!("b{file}") };
            let text: String = (0..300).map(line).collect();
            std::fs::write(project.path(&format!("corpus/{name}.txt")), text).expect("written");
        }
        std::fs::write(project.path("run.toml"), CONFIG).expect("written");
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program on so many ranks; one is started without mpirun.
    fn ranks(&self, ranks: usize, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_millstream");
        let mut command = match ranks {
            1 => Command::new(program),
            _ => {
                let mut command = Command::new("mpirun");
                command.args(MPIRUN).arg(ranks.to_string()).arg(program);
                command
            }
        };
        command.args(arguments).current_dir(self.0.path()).env("RUST_LOG", "warn");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // The same parts of a batch on each machine.
        command.env("RAYON_NUM_THREADS", "2");
        command
    }

    /// Trains on so many ranks in the directory `out`, with these settings, and must finish.
    fn train(&self, ranks: usize, out: &str, settings: &[&str]) -> Run {
        let out_setting = format!("train.out={out}");
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> =
            ["train", "run.toml", "--set", &out_setting].into_iter().chain(set).collect();
        let output = self.ranks(ranks, &arguments).output().expect("mpirun is there");
        assert!(output.status.success(), "{ranks} ranks: {}", said(&output));
        self.run(out)
    }

    /// Goes on with the run in `out`.
    fn resume(&self, ranks: usize, out: &str, settings: &[&str]) -> Run {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = ["train", "--resume", out].into_iter().chain(set).collect();
        let output = self.ranks(ranks, &arguments).output().expect("mpirun is there");
        assert!(output.status.success(), "{ranks} ranks: {}", said(&output));
        self.run(out)
    }

    fn run(&self, out: &str) -> Run {
        Run(self.path(out))
    }

    /// Puts a byte that is not UTF-8 into `corpus/a3.txt`.
    fn spoil(&self) {
        let mut text = std::fs::read(self.path("corpus/a3.txt")).expect("text");
        let middle = text.len() / 2;
        text[middle] = 0xff;
        std::fs::write(self.path("corpus/a3.txt"), text).expect("written");
    }

    /// Makes what rank 0 alone does fail in the directory `run`, and asserts that all ranks end, and that it is said once.
    fn fails_on_rank_0_alone(&self, running: Ranks) {
        // A directory stands where rank 0 leaves cursors, of which the others know nothing.
        let trail = self.path("run/cursors.jsonl");
        wait_for("a directory stands there", || {
            let _ = std::fs::remove_file(&trail);
            std::fs::create_dir(&trail).ok()
        });
        let (code, _, error) = running.end();
        assert_eq!(code, Some(1), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert!(error.contains("cursors.jsonl"), "{error}");
    }

    /// Starts so many ranks.
    fn start(&self, ranks: usize, arguments: &[&str]) -> Ranks {
        self.spawn(&mut self.ranks(ranks, arguments))
    }

    fn spawn(&self, command: &mut Command) -> Ranks {
        Ranks(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
    }
}

/// A run on disk.
struct Run(PathBuf);

impl Run {
    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join("metrics.jsonl")).unwrap_or_default();
        // The last line of a run that goes on may not be whole.
        text.split_inclusive('\n').filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// A field of all lines that have it, with their step.
    fn curve(&self, field: &str) -> Vec<(u64, f64)> {
        let of = |line: &Value| Some((line["step"].as_u64()?, line[field].as_f64()?));
        self.lines().iter().filter_map(of).collect()
    }

    /// The bytes of a file of the newest checkpoint, which must be of this step.
    fn saved(&self, step: u64, file: &str) -> Vec<u8> {
        std::fs::read(self.0.join(format!("checkpoints/step-{step:08}")).join(file)).expect("a checkpoint")
    }

    /// How many targets the checkpoint says that the run has trained on.
    fn tokens(&self, step: u64) -> u64 {
        let state: Value = serde_json::from_slice(&self.saved(step, "state.json")).expect("JSON");
        state["tokens"].as_u64().expect("a number")
    }

    /// Where the data continues: the batches so far, the digest of all ids, and the place of each lane.
    fn cursor(&self, step: u64) -> (u64, Digest, Vec<LaneState>) {
        let cursor: Cursor = serde_json::from_slice(&self.saved(step, "cursor.json")).expect("a cursor");
        let lane = |lane| cursor.lane(lane).expect("the lanes of all ranks").clone();
        (cursor.batch(), cursor.digest(), (0..cursor.lanes()).map(lane).collect())
    }

    /// All that does not depend on time: losses, the norms, validations, the last of them of the model as it is saved, and
    /// where the data continues. The files of the model have ids of parameters that are drawn anew.
    fn content(&self, step: u64) -> impl PartialEq + std::fmt::Debug {
        let fields = ["loss", "grad_norm", "tokens", "validation_loss", "bits_per_byte"];
        (fields.map(|field| self.curve(field)), self.saved(step, "unigram.bin"), self.cursor(step))
    }
}

/// How far apart losses of the same steps may be, in nats: sums are rounded in another order. Seen are up to 1e-7.
const ROUNDING: f64 = 1e-4;

/// Asserts that a run has the losses of another, and reads on where that does.
fn assert_same(found: &Run, expected: &Run, step: u64) {
    for field in ["loss", "validation_loss", "bits_per_byte", "validation_tokens"] {
        let (found, expected) = (found.curve(field), expected.curve(field));
        assert_eq!(found.len(), expected.len(), "{field}: {found:?} {expected:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.0, expected.0, "{field}");
            assert!((found.1 - expected.1).abs() < ROUNDING, "{field}: {found:?} {expected:?}");
        }
    }
    assert_eq!(found.curve("tokens"), expected.curve("tokens"));
    assert_eq!(found.tokens(step), expected.tokens(step));
    for (found, expected) in found.curve("grad_norm").iter().zip(&expected.curve("grad_norm")) {
        assert!((found.1 / expected.1 - 1.0).abs() < ROUNDING, "gradient's norm: {found:?} {expected:?}");
    }
    assert_eq!(found.cursor(step), expected.cursor(step));
    assert_eq!(found.saved(step, "unigram.bin"), expected.saved(step, "unigram.bin"));
    let sources = |run: &Run| -> Vec<(String, u64)> {
        let lines = run.lines();
        let sources = lines.iter().filter_map(|line| line["sources"].as_object()).flatten();
        sources.map(|(name, source)| (name.clone(), source["tokens"].as_u64().expect("a number"))).collect()
    };
    assert_eq!(sources(found), sources(expected));
}

/// Ranks that train. They end with the test.
struct Ranks(Child);

impl Ranks {
    /// The process that was started.
    fn id(&self) -> u32 {
        self.0.id()
    }

    /// The process ids of the ranks, once all of them are there.
    #[cfg(feature = "mpi")]
    fn pids(&self, ranks: usize) -> Vec<Pid> {
        let mpirun = self.0.id();
        wait_for("all ranks", || {
            let children = std::fs::read_to_string(format!("/proc/{mpirun}/task/{mpirun}/children")).ok()?;
            let is_rank = |pid: &&str| {
                let name = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                name == std::path::Path::new(env!("CARGO_BIN_EXE_millstream"))
            };
            let pids: Vec<_> = children.split_whitespace().filter(is_rank).collect();
            (pids.len() == ranks)
                .then(|| pids.iter().map(|pid| Pid::from_raw(pid.parse().expect("a number"))).collect())
        })
    }

    /// What they say until their end, on standard output and standard error, and how mpirun ends.
    fn end(mut self) -> (Option<i32>, String, String) {
        let read = |from: Option<Box<dyn std::io::Read + Send>>| {
            std::thread::spawn(move || std::io::read_to_string(from.expect("piped")).expect("text"))
        };
        let output = read(self.0.stdout.take().map(|out| Box::new(out) as _));
        let error = read(self.0.stderr.take().map(|error| Box::new(error) as _));
        let code = wait_for("all ranks stop", || self.0.try_wait().expect("it is there")).code();
        (code, output.join().expect("text"), error.join().expect("text"))
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // They may have ended already. mpirun ends its ranks when it is asked to.
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
            let _ = self.0.wait();
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
