//! Runs: checkpoints, resuming, interruption, and what is written.

use std::cell::Cell;
use std::future::{pending, ready};
use std::path::Path;
use std::task::Poll;

use futures::channel::oneshot;
use futures::{FutureExt, Stream, StreamExt, stream};
use millstream::batch::BatchBuilder;
use millstream::document::Part;
use millstream::tokenizer::{ByteTokenizer, Tokenizer};
use millstream::trail::nearest;
use millstream::{Batch, Cursor, Error, Result, Sequence, Tokens};
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};
use millstream_train::{
    Checkpoint, End, Observer, Outcome, RunDirectory, StepReport, Trainer, Validation, drive,
};

use crate::small;
use crate::support::cursors::editable;
use crate::support::runtime::{self, block_on_here as block_on};
use crate::support::wait::ends;

fn config(out: &Path) -> RunConfig {
    let train = TrainConfig {
        out: out.to_owned(),
        steps: 12,
        warmup: 4,
        log_every: 2,
        validate_every: 6,
        checkpoint_every: 3,
        keep: 2,
        ..TrainConfig::default()
    };
    small::config(ModelConfig { layers: 1, d_ff: 16, ..small::shape() }, 8, train)
}

fn batch(index: u64) -> Batch {
    let ids = (0..4 * 9).map(|at| ((index * 37 + at * at) % 97) as u32).collect();
    Batch::from_ids(ids, 9)
}

fn batches(from: u64, to: u64) -> impl Stream<Item = Result<Batch>> + Unpin {
    stream::iter((from..to).map(|index| Ok(batch(index))))
}

#[derive(Default)]
struct Heard {
    losses: Vec<(u64, f64)>,
    validations: Vec<Validation>,
    messages: Vec<String>,
    checkpoints: usize,
}

impl Observer for Heard {
    fn on_step(&mut self, report: &StepReport) {
        self.losses.push((report.step, report.loss));
    }
    fn on_validation(&mut self, validation: &Validation) {
        self.validations.push(validation.clone());
    }
    fn on_checkpoint(&mut self, _: &Path) {
        self.checkpoints += 1;
    }
    fn on_message(&mut self, message: &str) {
        self.messages.push(message.to_owned());
    }
}

/// Begins or goes on with the run of `config` on the batches up to `end`.
fn sit(config: &RunConfig, end: u64, stop: impl Future<Output = ()>) -> Result<(Outcome, Heard)> {
    let (trainer, directory) = match RunDirectory::open(&config.train.out) {
        Ok(directory) => (Trainer::resume(config, &ByteTokenizer, &directory.latest()?)?, directory),
        Err(_) => (Trainer::new(config, &ByteTokenizer)?, RunDirectory::create(config, Some("{}"))?),
    };
    let mut heard = Heard::default();
    let from = trainer.state().step;
    let held_out = async || Ok(Some(batches(1000, 1003)));
    let outcome = drive(trainer, &directory, batches(from, end), held_out, &mut heard, stop);
    let outcome = block_on(outcome)?;
    Ok((outcome, heard))
}

fn lines(config: &RunConfig) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(config.train.out.join("metrics.jsonl")).expect("metrics");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_resumed_run_has_the_losses_of_an_uninterrupted_one_to_the_bit() {
    let root = tempfile::tempdir().expect("a directory");
    let whole = config(&root.path().join("whole"));
    let (all, heard) = sit(&whole, 100, pending()).expect("a run");
    assert_eq!((all.end, all.step), (End::Finished, 12));
    assert_eq!(heard.losses.len(), 12);
    assert_eq!(heard.validations.len(), 2);

    // The same in three sittings: the second ends where there is no checkpoint, as if it was killed.
    let parts = config(&root.path().join("parts"));
    let mut losses = Vec::new();
    let count = Cell::new(0);
    let after_five = std::future::poll_fn(|_| {
        count.set(count.get() + 1);
        if count.get() > 5 { Poll::Ready(()) } else { Poll::Pending }
    });
    let (outcome, heard) = sit(&parts, 100, after_five).expect("a run");
    assert_eq!((outcome.end, outcome.step), (End::Interrupted, 5));
    losses.extend(heard.losses);

    let directory = RunDirectory::open(&parts.train.out).expect("a run");
    let trainer = Trainer::resume(&parts, &ByteTokenizer, &directory.latest().expect("a checkpoint"));
    let mut deaf = ();
    let run = drive(
        trainer.expect("a trainer"),
        &directory,
        batches(5, 8).chain(stream::pending()),
        async || Ok(Some(batches(1000, 1003))),
        &mut deaf,
        pending(),
    );
    assert!(run.now_or_never().is_none(), "it waits for a batch, and is gone");
    assert_eq!(directory.latest().expect("a checkpoint").state().step, 6);
    assert_eq!(lines(&parts).last().expect("lines")["step"], 8, "it had come further");

    let (outcome, heard) = sit(&parts, 100, pending()).expect("a run");
    losses.retain(|(step, _)| *step <= 6);
    let reference: Vec<(u64, f64)> = all_losses(&whole);
    assert_eq!(heard.losses.last(), Some(&(12, all.loss.expect("a loss"))));
    assert_eq!(outcome.loss, all.loss);
    assert_eq!(outcome.unigram_loss, all.unigram_loss);
    assert_eq!(outcome.validation_loss, all.validation_loss);
    assert_eq!(outcome.tokens, all.tokens);
    assert_eq!(all_losses(&parts), reference, "each logged step once, with the same loss");
}

#[test]
fn what_was_done_before_an_error_of_the_data_is_saved() {
    let root = tempfile::tempdir().expect("a directory");
    let whole = config(&root.path().join("whole"));
    sit(&whole, 100, pending()).expect("a run");
    let failing = |from: u64, to: u64| {
        batches(from, to).chain(stream::once(ready(Err(Error::Train("a bad disk".to_owned())))))
    };
    let failed = |config: &RunConfig, trainer: Trainer, directory: &RunDirectory, from, to| {
        let mut heard = Heard::default();
        let held_out = async || Ok(Some(batches(1000, 1003)));
        let run = drive(trainer, directory, failing(from, to), held_out, &mut heard, pending());
        assert_eq!(block_on(run).expect_err("it fails").to_string(), "a bad disk");
        let saved = Checkpoint::steps(&config.train.out.join("checkpoints")).expect("listed");
        (saved, heard.messages)
    };
    // For each number of steps before the error.
    for steps in 0..8 {
        let config = config(&root.path().join(steps.to_string()));
        let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let directory = RunDirectory::create(&config, None).expect("a directory");
        let (saved, messages) = failed(&config, trainer, &directory, 0, steps);
        let told = messages.iter().filter(|message| message.starts_with("saved "));
        match steps {
            0 => assert!(saved.is_empty() && messages.is_empty(), "{saved:?} {messages:?}"),
            _ => assert_eq!((saved.last(), told.count()), (Some(&steps), 1), "{messages:?}"),
        }
        if steps == 0 {
            continue;
        }
        // The same error again, before another step: nothing is done, and nothing is lost.
        let trainer = Trainer::resume(&config, &ByteTokenizer, &directory.latest().expect("a checkpoint"));
        assert_eq!(failed(&config, trainer.expect("a trainer"), &directory, 0, 0).0, saved);
        drop(directory);
        sit(&config, 100, pending()).expect("a run");
        assert_eq!(all_losses(&config), all_losses(&whole));
    }
}

#[test]
fn a_validation_is_left_when_the_run_is_asked_to_stop_and_made_up_for() {
    let root = tempfile::tempdir().expect("a directory");
    let whole = config(&root.path().join("whole"));
    sit(&whole, 100, pending()).expect("a run");
    // After half of the steps, and after all of them.
    for at in [6, 12] {
        let mut config = config(&root.path().join(at.to_string()));
        config.train.validation_batches = 1_000_000_000;
        let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let directory = RunDirectory::create(&config, None).expect("a directory");
        let (validations, read) = (Cell::new(0), Cell::new(0));
        let endless = || stream::repeat_with(|| read.set(read.get() + 1)).map(|()| Ok(batch(1000)));
        let held_out = async || {
            validations.set(validations.get() + 6);
            match validations.get() == at {
                true => Ok(Some(endless().boxed_local())),
                false => Ok(Some(batches(1000, 1003).boxed_local())),
            }
        };
        let stop = std::future::poll_fn(|_| if read.get() > 3 { Poll::Ready(()) } else { Poll::Pending });
        let mut heard = Heard::default();
        let run = drive(trainer, &directory, batches(0, 100), held_out, &mut heard, stop);
        let outcome = block_on(run).expect("a run");
        assert_eq!((outcome.end, outcome.step), (End::Interrupted, at));
        assert_eq!(read.get(), 4, "it looks after each batch");
        assert!(heard.validations.iter().all(|validation| validation.step < at));
        drop(directory);
        sit(&config, 100, pending()).expect("a run");
        let shown = |config: &RunConfig| {
            let lines = lines(config);
            let of = |line: &serde_json::Value| (line["step"].clone(), line["validation_loss"].clone());
            lines.iter().map(of).filter(|(_, loss)| !loss.is_null()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&config), shown(&whole));
    }
}

#[test]
fn a_validation_that_waits_for_data_is_left_when_the_run_is_asked_to_stop() {
    // It waits to open the batches, or for the fourth of them.
    for is_opened in [false, true] {
        let root = tempfile::tempdir().expect("a directory");
        let config = config(root.path());
        let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
        let directory = RunDirectory::create(&config, None).expect("a directory");
        let (ask, asked) = oneshot::channel();
        let ask = &Cell::new(Some(ask));
        // When somebody waits for it, the run is asked to stop.
        let silence = move || {
            stream::poll_fn(move |_| -> Poll<Option<Result<Batch>>> {
                if let Some(ask) = ask.take() {
                    ask.send(()).expect("it listens");
                }
                Poll::Pending
            })
        };
        let held_out = async || {
            if !is_opened {
                silence().next().await;
            }
            Ok(Some(batches(1000, 1003).chain(silence())))
        };
        let mut heard = Heard::default();
        let stop = asked.map(drop);
        let run = drive(trainer, &directory, batches(0, 100), held_out, &mut heard, stop);
        let outcome = runtime::block_on(ends(run)).expect("a run");
        assert_eq!((outcome.end, outcome.step), (End::Interrupted, 6));
        let latest = directory.latest().expect("a checkpoint");
        assert_eq!((latest.path(), latest.state().step), (&*outcome.checkpoint, 6));
        drop(directory);
        let (outcome, heard) = sit(&config, 100, pending()).expect("a run");
        assert_eq!((outcome.end, heard.validations.len()), (End::Finished, 2), "it is made up for");
    }
}

fn all_losses(config: &RunConfig) -> Vec<(u64, f64)> {
    let lines = lines(config);
    let steps = lines.iter().filter(|line| line.get("loss").is_some());
    steps
        .map(|line| (line["step"].as_u64().expect("a step"), line["loss"].as_f64().expect("a loss")))
        .collect()
}

#[test]
fn a_checkpoint_gives_back_every_number_and_the_same_next_step() {
    let root = tempfile::tempdir().expect("a directory");
    let config = config(root.path());
    let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    for index in 0..4 {
        trainer.step(&[batch(index)]).expect("a step");
    }
    let path = trainer.save(&root.path().join("checkpoints")).expect("saved");
    assert!(path.ends_with("step-00000004"));
    let checkpoint = Checkpoint::open(&path).expect("whole");
    let mut resumed = Trainer::resume(&config, &ByteTokenizer, &checkpoint).expect("resumed");
    let (found, saved) = (resumed.state(), trainer.state());
    assert_eq!((found.step, found.tokens, &found.model), (saved.step, saved.tokens, &saved.model));
    // The numbers that are only shown may lose their last bit in JSON.
    assert!((found.loss.expect("a loss") - saved.loss.expect("a loss")).abs() < 1e-12);
    assert_eq!(resumed.cursor(), trainer.cursor());
    assert_eq!(resumed.unigram_loss().ok(), trainer.unigram_loss().ok());
    for index in 4..7 {
        let (one, other) = (trainer.step(&[batch(index)]), resumed.step(&[batch(index)]));
        assert_eq!(one.expect("a step"), other.expect("a step"), "to the bit");
    }
}

#[test]
fn torn_checkpoints_are_passed_over_and_removed_and_the_newest_are_kept() {
    let root = tempfile::tempdir().expect("a directory");
    let (config, parent) = (config(root.path()), root.path().join("checkpoints"));
    assert!(Checkpoint::latest(&parent).expect("no directory is no error").is_none());
    let mut trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let mut save = |index| {
        trainer.step(&[batch(index)]).expect("a step");
        trainer.save(&parent).expect("saved")
    };
    save(0);
    let second = save(1);
    // What kills leave: a directory under its hidden name, and one without its last file.
    std::fs::create_dir(parent.join(".partial-00000007")).expect("made");
    std::fs::create_dir(parent.join("step-00000009")).expect("made");
    for name in ["model.bpk", "state.json"] {
        std::fs::copy(second.join(name), parent.join("step-00000009").join(name)).expect("copied");
    }
    let latest = Checkpoint::latest(&parent).expect("listed").expect("one");
    assert_eq!(latest.path(), second);
    let third = save(2);
    assert!(!parent.join(".partial-00000007").exists());
    assert!(!parent.join("step-00000001").exists(), "two are kept");
    assert!(second.exists() && third.exists());

    std::fs::write(third.join("state.json"), "{}").expect("written");
    let damaged = Checkpoint::latest(&parent).expect_err("damaged").to_string();
    // It is not in a run's directory, so there is nothing to resume.
    let before = format!("the checkpoint before it is {}", second.display());
    assert!(damaged.contains("state.json") && damaged.ends_with(&before), "{damaged}");
}

#[test]
fn a_run_does_not_begin_where_another_is_and_another_model_does_not_resume_it() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = config(root.path());
    config.train.steps = 2;
    sit(&config, 10, pending()).expect("a run");
    let error = RunDirectory::create(&config, None).expect_err("it is taken");
    let from = error.resume_from().expect("a run");
    assert_eq!((from.run.as_path(), from.step, from.settings.len()), (root.path(), None, 0));
    let error = error.to_string();
    assert!(error.starts_with("train.out: ") && error.contains("already has a run's checkpoints"), "{error}");

    let directory = RunDirectory::open(root.path()).expect("a run");
    let read = directory.config(&["train.steps=5".to_owned()]).expect("its config");
    assert_eq!((read.train.steps, read.train.out.as_path()), (5, root.path()));
    assert_eq!(read.data.tokenizer.path, Some(directory.tokenizer()));
    assert_eq!(read.model, config.model);

    config.model.layers = 3;
    let checkpoint = directory.latest().expect("a checkpoint");
    match Trainer::resume(&config, &ByteTokenizer, &checkpoint) {
        Err(Error::Checkpoint { problem, .. }) => assert!(problem.contains("`model.layers`"), "{problem}"),
        other => panic!("{other:?}"),
    }
    let elsewhere = RunDirectory::open(root.path().join("nothing")).expect_err("no run").to_string();
    assert!(elsewhere.contains("not a run's directory"), "{elsewhere}");
}

#[test]
fn a_run_that_ends_in_its_last_validation_makes_it_when_it_is_resumed() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = config(root.path());
    config.train.validate_every = 5;
    let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let directory = RunDirectory::create(&config, None).expect("a directory");
    // After the steps 5 and 10 there is one, and after the last step the run ends instead.
    let validations = Cell::new(0);
    let held_out = async || {
        validations.set(validations.get() + 1);
        if validations.get() > 2 {
            Err(Error::Train("killed".to_owned()))
        } else {
            Ok(Some(batches(1000, 1003)))
        }
    };
    let mut deaf = ();
    let run = drive(trainer, &directory, batches(0, 100), held_out, &mut deaf, pending());
    assert_eq!(block_on(run).expect_err("it ends").to_string(), "killed");
    drop(directory);

    let (outcome, heard) = sit(&config, 100, pending()).expect("a run");
    assert_eq!(
        heard.validations.last().map(|validation| validation.step),
        Some(12),
        "the last step is validated"
    );
    assert_eq!(
        outcome.validation_loss,
        heard.validations.last().map(|validation| validation.validation_loss)
    );
    let saved =
        RunDirectory::open(root.path()).and_then(|directory| directory.latest()).expect("a checkpoint");
    assert_eq!(saved.state().validation_loss, outcome.validation_loss, "and its checkpoint says so");
}

#[test]
fn data_that_ends_ends_the_run_and_is_said() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = config(root.path());
    config.train.accumulate = 3;
    let (outcome, heard) = sit(&config, 8, pending()).expect("a run");
    // Eight batches are two whole steps and one of two batches.
    assert_eq!((outcome.end, outcome.step, outcome.tokens), (End::DataEnded, 3, 8 * 32));
    assert!(heard.messages.iter().any(|message| message.contains("the data ended after step 3 of 12")));
    assert_eq!(heard.validations.len(), 1, "the last step is validated");
    // Its checkpoint is there already, and is saved again with the validation.
    assert!(outcome.checkpoint.ends_with("step-00000003") && heard.checkpoints == 2);
    let saved = Checkpoint::open(&outcome.checkpoint).expect("a checkpoint");
    assert_eq!(saved.state().validation_step, Some(3));
}

#[test]
fn a_run_without_held_out_batches_says_so_once() {
    let root = tempfile::tempdir().expect("a directory");
    let config = config(root.path());
    let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let directory = RunDirectory::create(&config, None).expect("a directory");
    let mut heard = Heard::default();
    let none = async || Ok(None::<stream::Empty<Result<Batch>>>);
    let outcome = drive(trainer, &directory, batches(0, 20), none, &mut heard, pending());
    let outcome = outcome.now_or_never().expect("nothing waits").expect("a run");
    assert_eq!(outcome.validation_loss, None);
    let said = heard.messages.iter().filter(|message| message.contains("no held-out batches"));
    assert_eq!(said.count(), 1);
}

/// A batch whose cursor says that it is the `batch`th, with rows as long as `rows` says.
fn numbered(batch: u64, rows: &[usize]) -> Batch {
    let mut cursor = editable(&Cursor::default());
    cursor["batch"] = batch.into();
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for &len in rows {
        let tokens = Tokens::new((0..len as u32).map(|at| (at * 7 + batch as u32) % 97).collect(), len);
        builder.push(&Sequence::new(vec![Part::new(&tokens, 0..len)], 9));
    }
    builder.finish(serde_json::from_value(cursor).expect("a cursor"))
}

/// Begins or goes on with the run of `config` on batches of rows as long as `rows` says.
fn sit_on(config: &RunConfig, rows: &[Vec<usize>]) -> Result<Outcome> {
    let (trainer, directory) = match RunDirectory::open(&config.train.out) {
        Ok(directory) => (Trainer::resume(config, &ByteTokenizer, &directory.latest()?)?, directory),
        Err(_) => (Trainer::new(config, &ByteTokenizer)?, RunDirectory::create(config, None)?),
    };
    let from = trainer.cursor().map_or(0, Cursor::batch) as usize;
    let batches = rows.iter().zip(1..).skip(from).map(|(rows, number)| Ok(numbered(number, rows)));
    let none = async || Ok(None::<stream::Empty<Result<Batch>>>);
    block_on(drive(trainer, &directory, stream::iter(batches), none, &mut (), pending()))
}

#[test]
fn a_run_leaves_a_trail_of_the_cursors_that_count() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = config(root.path());
    config.train.trail_every = 2;
    config.train.accumulate = 3;
    let rows = vec![vec![9, 9]; 100];
    let trail = root.path().join("cursors.jsonl");
    let places = || -> Vec<u64> {
        let batches = (0..=100).filter_map(|batch| nearest(&trail, batch).expect("a trail"));
        let mut batches: Vec<u64> = batches.map(|cursor| cursor.batch()).collect();
        batches.dedup();
        batches
    };
    sit_on(&config, &rows).expect("a run");
    assert_eq!(places(), [6, 12, 18, 24, 30, 36]);

    // As if the last checkpoint had never been, and a kill had torn the last line.
    std::fs::remove_dir_all(root.path().join("checkpoints/step-00000012")).expect("removed");
    let text = std::fs::read_to_string(&trail).expect("a trail");
    std::fs::write(&trail, &text[..text.len() - 5]).expect("written");
    config.train.steps = 9;
    sit_on(&config, &rows).expect("nothing is left to do");
    assert_eq!(places(), [6, 12, 18, 24], "step 9 is batch 27");
    config.train.steps = 12;
    sit_on(&config, &rows).expect("a run");
    assert_eq!(places(), [6, 12, 18, 24, 30, 36]);

    config.train = TrainConfig { out: root.path().join("none"), trail_every: 0, ..config.train };
    sit_on(&config, &rows).expect("a run");
    assert!(!root.path().join("none/cursors.jsonl").exists());
}

#[test]
fn empty_batches_at_the_end_of_the_data_are_no_steps() {
    let root = tempfile::tempdir().expect("a directory");
    let config = config(root.path());
    let rows = [vec![9, 9], vec![9, 0], vec![0, 0], vec![9, 4], vec![1, 0], vec![], vec![0, 0]];
    let outcome = sit_on(&config, &rows).expect("a run");
    assert_eq!((outcome.end, outcome.step, outcome.tokens), (End::DataEnded, 3, 16 + 8 + 11));
    assert!(outcome.loss.expect("a loss").is_finite());
    let resumed = sit_on(&config, &rows).expect("a run");
    assert_eq!((resumed.end, resumed.step, resumed.loss), (End::DataEnded, 3, outcome.loss));
}

#[test]
fn endless_batches_without_targets_end_in_an_error() {
    let root = tempfile::tempdir().expect("a directory");
    // Before the first step, and after five.
    for steps in [0, 5] {
        let config = config(&root.path().join(steps.to_string()));
        let rows = [vec![vec![9, 9]; steps], vec![vec![1, 0]; 5000]].concat();
        let said = sit_on(&config, &rows).expect_err("no end").to_string();
        assert!(said.contains("had no targets") && said.contains("pipeline.pack"), "{said}");
        let saved = Checkpoint::steps(&config.train.out.join("checkpoints")).expect("listed");
        assert_eq!(saved.last().copied(), (steps > 0).then_some(steps as u64), "what was done is saved");
    }
}

#[test]
fn a_stop_before_the_first_batch_saves_and_can_be_resumed() {
    let root = tempfile::tempdir().expect("a directory");
    let config = config(root.path());
    let (outcome, _) = sit(&config, 100, ready(())).expect("a run");
    assert_eq!((outcome.end, outcome.step, outcome.loss), (End::Interrupted, 0, None));
    let (outcome, heard) = sit(&config, 100, pending()).expect("a run");
    assert_eq!((outcome.end, heard.losses.len()), (End::Finished, 12));
    let model = RunDirectory::open(root.path()).and_then(|run| run.model(&config, &ByteTokenizer));
    assert_eq!(model.expect("a model").seq_len(), 8);
    assert_eq!(ByteTokenizer.vocab_size(), 257);
}
