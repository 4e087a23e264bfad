//! A round over `millstream train`: killed and resumed until it is done, each step has the loss of a quiet run.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::corpora::Corpora;
use crate::dice::Dice;
use crate::process::{Ending, Moment, Process, watch};
use crate::shim::Odd;
use crate::story;
use crate::support::program::{millstream, text};

/// The program's exit code for an error.
const FAILED: i32 = 1;

/// After so many sessions nothing disturbs it.
const MOST_SESSIONS: usize = 7;

/// Plays a round, and says what it was.
pub(crate) fn round(dice: &mut Dice, corpora: &Corpora) -> String {
    let scratch = corpora.scratch();
    let config = config(dice, corpora, scratch.path());
    let train = |out: &Path| format!("train.out={}", out.display());
    let [quiet, stormy] = ["quiet", "stormy"].map(|name| scratch.path().join(name));
    text(&["train", &config, "--set", &train(&quiet)]);

    let (mut sessions, mut kills) = (0, 0);
    let (set, out) = (train(&stormy), stormy.display().to_string());
    loop {
        sessions += 1;
        let has_checkpoint = checkpoints(&stormy).iter().any(|name| !name.starts_with('.'));
        let arguments = match has_checkpoint {
            true => vec!["train", "--resume", &out],
            false => vec!["train", &config, "--set", &set],
        };
        let odd = dice.maybe(60, |dice| Odd::draw(dice, &[&stormy])).filter(|_| sessions < MOST_SESSIONS);
        let moment = match dice.below(4) {
            _ if sessions == MOST_SESSIONS => None,
            0 => Some(Moment::After(Duration::from_millis(dice.below(200)))),
            _ => {
                Some(Moment::Made(lines(&stormy) + dice.below(6), Duration::from_micros(dice.below(20_000))))
            }
        };
        let mut command = millstream(&arguments);
        if let (Some(shim), Some(odd)) = (&corpora.shim, &odd) {
            shim.put(odd, corpora.root(), &mut command);
        }
        let process = Process::start(command, scratch.path().join("stderr"));
        let ending = watch(&mut [process], moment, FAILED, || lines(&stormy)).remove(0);
        story::note("session", (has_checkpoint, &odd, moment, &ending));
        match ending {
            Ending::Done => break,
            Ending::Killed => kills += 1,
            Ending::Failed(error) => {
                assert!(odd.is_some_and(|odd| odd.full.is_some()), "it cannot fail in this weather: {error}");
                assert!(error.contains(&out), "the error names the disk: {error}");
            }
        }
    }
    assert_eq!(metrics(&stormy), metrics(&quiet), "each step's loss");
    assert!(last_checkpoint(&stormy) == last_checkpoint(&quiet), "the last checkpoint");
    format!("train, {sessions} sessions, {kills} kills")
}

/// Writes a config of a tiny model and few steps, and returns its path.
fn config(dice: &mut Dice, corpora: &Corpora, directory: &Path) -> String {
    let format = dice.pick(&["jsonl", "jsonl.gz", "csv"]);
    let kind = format.split('.').next().expect("a name");
    let cache = if dice.chance(50) {
        format!("cache = {{ path = {:?} }}\n", directory.join("cache"))
    } else {
        String::new()
    };
    let text = format!(
        "[[source]]\nkind = {kind:?}\nfield = \"text\"\npaths = [\"{}/*.{format}\"]\non_error = {{ skip = 100 }}\n{cache}\n\
         [tokenizer]\nkind = \"bytes\"\neos = \"<|endoftext|>\"\n\n\
         [pipeline]\nseq_len = 16\nbatch_size = 4\nlanes = 2\nholdout = 0.1\n\n\
         [model]\nlayers = 1\nd_model = 16\nheads = 2\nd_ff = 16\n\n\
         [train]\nsteps = {}\nwarmup = 2\nlog_every = 1\naccumulate = {}\nvalidate_every = 5\nvalidation_batches = 2\n\
         checkpoint_every = {}\ntrail_every = 2\nkeep = {}\nsample_tokens = 0\n",
        corpora.directory(format).display(),
        dice.within(8, 16),
        dice.within(1, 2),
        dice.within(1, 4),
        dice.within(1, 2),
    );
    let path = directory.join("train.toml");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn checkpoints(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// How many lines the metrics have.
fn lines(run: &Path) -> u64 {
    let text = std::fs::read(run.join("metrics.jsonl")).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The metrics without what depends on time and on the process.
fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("a line");
        let fields = line.as_object_mut().expect("an object");
        let rates = ["tokens_per_second", "flops_per_second", "mfu"];
        for timed in rates.into_iter().chain(["wait_share", "verdict", "stages", "memory", "seconds"]) {
            fields.remove(timed);
        }
        line
    };
    text.lines().map(line).collect()
}

/// The name of the last checkpoint, its cursor, and how often each id was a target. Parameters have other names in each
/// session, so that the bytes of the model differ.
fn last_checkpoint(run: &Path) -> (String, Vec<u8>, Vec<u8>) {
    let name = checkpoints(run).pop().expect("a checkpoint");
    let file = |file: &str| std::fs::read(run.join("checkpoints").join(&name).join(file)).expect("a file");
    let (cursor, unigram) = (file("cursor.json"), file("unigram.bin"));
    (name, cursor, unigram)
}
