//! A round over `millstream train`: ended and resumed until it is done, each step has the loss of a quiet run.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::corpora::{Corpora, inner};
use crate::dice::Dice;
use crate::home::Home;
use crate::process::{Ending, Moment};
use crate::program::text;
use crate::session::{Session, Site};
use crate::shim::Ground;
use crate::trouble::Trouble;

/// After so many sessions nothing disturbs it.
const MOST_SESSIONS: usize = 7;

/// A run as its config says it.
struct Run {
    config: String,
    /// The format of its corpus.
    format: &'static str,
    has_cache: bool,
    steps: usize,
    /// How many checkpoints it keeps.
    keep: usize,
}

/// Plays a round, and says what it was.
pub(crate) fn round(dice: &mut Dice, corpora: &Corpora) -> String {
    let scratch = corpora.scratch();
    let mut home = Home::draw(dice, corpora, scratch.path());
    let run = Run::draw(dice, corpora, &home, scratch.path());
    let train = |out: &Path| format!("train.out={}", out.display());
    let [quiet, stormy] = ["quiet", "stormy"].map(|name| scratch.path().join(name));
    text(&["train", &run.config, "--set", &train(&quiet)]);

    let (set, out) = (train(&stormy), stormy.display().to_string());
    let (kept, cache) = (stormy.join("checkpoints"), scratch.path().join("cache"));
    let saved = format!("saved {}/step-", kept.display());
    let site = Site { corpora, out: &stormy, scratch: scratch.path(), saved: &saved };
    let ground =
        Ground { disks: &[&stormy], old: Some(&kept), caches: run.has_cache.then_some(cache.as_path()) };
    let (mut sessions, mut ends) = (0, 0);
    loop {
        sessions += 1;
        let before = lines(&stormy);
        let moment = |dice: &mut Dice| match dice.below(4) {
            0 => Moment::After(Duration::from_millis(dice.below(200))),
            _ => Moment::Made(before + dice.below(6), Duration::from_micros(dice.below(20_000))),
        };
        let is_last = sessions >= dice.tries(MOST_SESSIONS);
        let session = if is_last { Session::default() } else { Session::draw(dice, ground, moment) };
        let resumes = checkpoints(&stormy).iter().any(|name| !name.starts_with('.'));
        let has_moved = home.moves(dice);
        let paths = run.paths(&home);
        let arguments = match resumes {
            true => ["train", "--resume", &out, "--set", &paths].to_vec(),
            false => ["train", &run.config, "--set", &set, "--set", &paths].to_vec(),
        };
        let ending = session.run(dice, &arguments, &site, || lines(&stormy));
        if resumes && has_moved && lines(&stormy) > before {
            dice.met(Trouble::Moved);
        }
        match ending {
            Ending::Done if is_last || dice.awaited().is_none() => break,
            // It was too fast.
            Ending::Done => std::fs::remove_dir_all(&stormy).expect("removed"),
            Ending::Stopped => {
                let newest = checkpoints(&stormy).pop().expect("a checkpoint");
                assert_eq!(newest, format!("step-{:08}", last_step(&stormy)), "all is saved");
                ends += 1;
            }
            Ending::Killed => ends += 1,
            Ending::Failed(_) | Ending::Deaf | Ending::Unread => {}
        }
    }
    assert_eq!(metrics(&stormy), metrics(&quiet), "each step's loss");
    assert!(last_checkpoint(&stormy) == last_checkpoint(&quiet), "the last checkpoint");
    // What could not be removed goes with the next checkpoint.
    let more = format!("train.steps={}", run.steps + 1);
    text(&["train", "--resume", &out, "--set", &run.paths(&home), "--set", &more]);
    let left = checkpoints(&stormy);
    assert!(
        left.len() <= run.keep && left.iter().all(|name| name.starts_with("step-")),
        "left over: {left:?}"
    );
    format!("train on {}, {sessions} sessions, {ends} of them ended", run.format)
}

impl Run {
    /// Draws a tiny model and few steps, and writes the config.
    fn draw(dice: &mut Dice, corpora: &Corpora, home: &Home, directory: &Path) -> Self {
        let format = dice.pick(&["jsonl", "jsonl.gz", "csv", "chats.jsonl", "chats.parquet"]);
        let source = corpora.source(format, &home.directory(format));
        let (what, pipeline) = match &source.chat.template {
            Some(template) => {
                let what = format!("task = \"chat\"\nchat = {{ template = {template:?} }}");
                (what, "seq_len = 200\npack = \"best_fit\"")
            }
            None => ("field = \"text\"".to_owned(), "seq_len = 16"),
        };
        let has_cache = dice.brings(Trouble::ReadOnly, 50);
        let cache = match has_cache {
            true => format!("cache = {{ path = {:?} }}\n", directory.join("cache")),
            false => String::new(),
        };
        let (steps, keep) = (dice.within(8, 16), dice.within(1, 2));
        let text = format!(
            "[[source]]\nkind = \"{}\"\n{what}\npaths = {:?}\non_error = {{ skip = 100 }}\n{cache}\n\
             [tokenizer]\nkind = \"bytes\"\neos = \"<|endoftext|>\"\n\n\
             [pipeline]\n{pipeline}\nbatch_size = 4\nlanes = 2\nholdout = 0.1\n\n\
             [model]\nlayers = 1\nd_model = 16\nheads = 2\nd_ff = 16\n\n\
             [train]\nsteps = {steps}\nwarmup = 2\nlog_every = 1\naccumulate = {}\nvalidate_every = 5\nvalidation_batches = 2\n\
             checkpoint_every = {}\ntrail_every = 2\nkeep = {keep}\nsample_tokens = 0\n",
            source.kind,
            source.paths,
            dice.within(1, 2),
            dice.within(1, 4),
        );
        let path = directory.join("train.toml");
        std::fs::write(&path, text).expect("written");
        Self { config: path.display().to_string(), format, has_cache, steps, keep }
    }

    /// The setting that says where its corpus is.
    fn paths(&self, home: &Home) -> String {
        format!("source.0.paths=[\"{}/*.{}\"]", home.directory(self.format).display(), inner(self.format))
    }
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

/// The step of the last line of the metrics, or 0.
fn last_step(run: &Path) -> u64 {
    metrics(run).last().map_or(0, |line| line["step"].as_u64().expect("a step"))
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
