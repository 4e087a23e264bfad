//! A run's batches, made again between two of its cursors, are the run's; and a run that had others is told from it.

use millstream::batch::Piece;
use millstream::config::{Config, ExcludedDocument, OrAuto, SourceConfig};
use millstream::replay::{Checked, Replay, Run, Session};
use millstream::when::Search;
use millstream::{Batch, Cursor, Error};
use proptest::prelude::*;

use crate::corpus::{all, block_on, configs, corpora, mixed, rules};
use crate::dynamic::budgets;
use crate::when::{bytes, parts, rest, run, written};

fn check(run: Run, most: usize) -> Vec<Checked> {
    block_on(async {
        let replay = Replay::open(run).await.expect("a replay");
        replay.check(most, |made, of| assert!(made <= of)).await.expect("no errors")
    })
}

/// All batches of a config; none if nothing is left of its documents.
fn batches(config: &Config) -> Vec<Batch> {
    match block_on(all(config)) {
        Err(Error::Corpus { .. }) => Vec::new(),
        batches => batches.expect("no errors"),
    }
}

/// The cursor with another digest in its first known lane.
fn damaged(cursor: &Cursor) -> Cursor {
    let mut json = serde_json::to_value(cursor).expect("JSON");
    json.as_object_mut().expect("an object").remove("checksum");
    let lanes = json["lanes"].as_array_mut().expect("lanes");
    let lane = lanes.iter_mut().find(|lane| !lane.is_null()).expect("a lane");
    lane["digest"] = "0123456789abcdef0123456789abcdef".into();
    serde_json::from_value(json).expect("a cursor")
}

/// That every stretch of the run is the same, and that only those around a damaged cursor differ.
fn is_checked(config: &Config, trail_every: usize) -> Result<(), TestCaseError> {
    let batches = batches(config);
    let run = run(config, &batches, trail_every);
    let ends: Vec<u64> = run.trail.iter().map(Cursor::batch).collect();
    let checked = check(run.clone(), usize::MAX);
    prop_assert_eq!(checked.iter().map(|checked| checked.to).collect::<Vec<_>>(), &ends[..]);
    prop_assert!(checked.iter().all(|checked| checked.difference.is_none()), "{:?}", checked);
    if let Some(middle) = ends.len().checked_sub(1).map(|last| last / 2) {
        let mut run = run;
        run.trail[middle] = damaged(&run.trail[middle]);
        for (nth, checked) in check(run, usize::MAX).into_iter().enumerate() {
            let is_beside = nth == middle || nth == middle + 1;
            prop_assert_eq!(checked.difference.is_some(), is_beside, "{} {:?}", nth, checked);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn batches_that_are_made_again_are_the_same(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), (trail_every, _) in parts(), is_rank: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let mut config = bytes(Config { sources: vec![corpus.source(directory.path())], ..config });
        let pipeline = &mut config.pipeline;
        (pipeline.uneven, pipeline.last) = (uneven, last);
        if is_rank && pipeline.lanes().is_multiple_of(2) && pipeline.batch_size.is_multiple_of(2) {
            (pipeline.rank, pipeline.world) = (Some(0), Some(2));
        }
        is_checked(&config, trail_every)?;
    }

    #[test]
    fn also_those_of_mixtures(
        first in corpora(), second in corpora(), config in configs(), weights in [0_u32..4, 1..4], (trail_every, _) in parts(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        is_checked(&bytes(mixed(config, directory.path(), &[first, second], &weights, &[None, None])), trail_every)?;
    }

    #[test]
    fn also_those_of_a_budget(corpus in corpora(), config in budgets(), (trail_every, _) in parts()) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        is_checked(&bytes(Config { sources: vec![corpus.source(directory.path())], ..config }), trail_every)?;
    }
}

/// The second session has another size of batches, and leaves batches and documents out.
#[test]
fn each_session_is_made_with_its_own_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = written(directory.path(), 400, 2);
    let mut second = first.clone();
    second.pipeline.batch_size = 6;
    second.exclude.batches = vec![(30, 32), (41, 42)];
    second.exclude.documents = vec![ExcludedDocument { path: directory.path().join("lines.txt"), byte: 0 }];
    let before = batches(&first);
    let before = &before[..21];
    let after = rest(&second, before[20].cursor());
    let batches: Vec<Batch> = before.iter().cloned().chain(after).collect();
    let sessions = vec![Session { begins: 0, config: first.clone() }, Session { begins: 21, config: second }];
    let whole = Run { sessions, ..run(&first, &batches, 7) };
    let all = check(whole.clone(), usize::MAX);
    assert!(all.len() > 6 && all.iter().all(|checked| checked.difference.is_none()), "{all:?}");
    // A sample has the first stretch, the last one and some between.
    let some = check(whole.clone(), 3);
    assert_eq!([some[0].clone(), some[2].clone()], [all[0].clone(), all[all.len() - 1].clone()]);
    assert!(some.len() == 3 && all.contains(&some[1]));
    assert_eq!(check(whole.clone(), 1), all[..1]);
    // Where both sessions lead from one cursor to the next, each makes its part.
    for trail_every in [8, 25] {
        let run = Run { trail: run(&first, &batches, trail_every).trail, ..whole.clone() };
        let ends: Vec<u64> = run.trail.iter().map(Cursor::batch).collect();
        let all = check(run, usize::MAX);
        assert_eq!(all.iter().map(|checked| checked.to).collect::<Vec<_>>(), ends);
        assert!(all.iter().all(|checked| checked.difference.is_none()), "{all:?}");
    }
    // As one session it is another run.
    let sessions = vec![Session { begins: 0, config: first }];
    let other = check(Run { sessions, ..whole }, usize::MAX);
    assert!(other.iter().any(|checked| checked.difference.is_some()), "{other:?}");
}

/// A run on two ranks has the first one's lanes in its trail, and all of them in its checkpoint.
#[test]
fn a_cursor_of_all_ranks_does_not_part_those_of_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = written(directory.path(), 400, 2);
    (config.pipeline.lanes, config.pipeline.batch_size) = (OrAuto::Fixed(2), 4);
    let mut first = config.clone();
    (first.pipeline.rank, first.pipeline.world) = (Some(0), Some(2));
    let (whole, of_rank) = (batches(&config), batches(&first));
    let mut run = run(&first, &of_rank, 10);
    let ends: Vec<u64> = run.trail.iter().map(Cursor::batch).collect();
    for at in [20, 25] {
        let mut run = run.clone();
        let merged = whole[at - 1].cursor().clone();
        let place = run.trail.partition_point(|cursor| cursor.batch() <= merged.batch());
        run.trail.insert(place, merged);
        let all = check(run, usize::MAX);
        assert_eq!(all.iter().map(|checked| checked.to).collect::<Vec<_>>(), ends);
        assert!(all.iter().all(|checked| checked.lanes == 1 && checked.difference.is_none()), "{all:?}");
    }
    run.trail = vec![whole[24].cursor().clone()];
    assert_eq!(check(run, usize::MAX)[0].lanes, 2);
}

/// The cursors of a run whose number of ranks changes, as the first rank has them: five batches after one another.
fn of_ranks(config: &Config, worlds: &[usize]) -> Run {
    let of_world = |world: usize| {
        let mut config = config.clone();
        (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(world));
        batches(&config)
    };
    let mut whole = run(config, &of_world(1), 5);
    let trail = worlds.iter().zip(1..).map(|(world, nth)| {
        let batches = of_world(*world);
        let cursor = batches.iter().map(Batch::cursor).find(|cursor| cursor.batch() >= 5 * nth);
        cursor.expect("it is long enough").clone()
    });
    whole.trail = trail.collect();
    whole
}

/// Where the number of ranks changes, the lanes are compared that the first rank has before and after.
#[test]
fn the_number_of_ranks_may_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = written(directory.path(), 400, 2);
    (config.pipeline.lanes, config.pipeline.batch_size) = (OrAuto::Fixed(4), 4);
    for (worlds, lanes) in
        [([1, 1, 2, 2, 4, 4], [4, 4, 2, 2, 1, 1]), ([4, 4, 2, 2, 1, 1], [1, 1, 1, 2, 2, 4])]
    {
        let run = of_ranks(&config, &worlds);
        let all = check(run.clone(), usize::MAX);
        let found: Vec<_> = all.iter().map(|checked| (checked.to, checked.lanes)).collect();
        assert_eq!(found, (1..).map(|nth| 5 * nth).zip(lanes).collect::<Vec<_>>(), "{all:?}");
        assert!(all.iter().all(|checked| checked.difference.is_none()), "{all:?}");
        let mut other = run;
        other.trail[2] = damaged(&other.trail[2]);
        let differ = check(other, usize::MAX).iter().filter(|checked| checked.difference.is_some()).count();
        assert_eq!(differ, 2, "{worlds:?}");
    }
    // With a token budget a batch is of one rank: the others have other numbers.
    config.pipeline.batch_tokens = Some(64);
    let run = of_ranks(&config, &[1, 1, 2, 2]);
    let next = run.trail[2].batch();
    let replay = block_on(Replay::open(run)).expect("a replay");
    assert_eq!(replay.unchecked(), [10..next]);
}

/// The second session has the sources in another order, and one more.
#[test]
fn sources_may_change_between_sessions() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = |name: &str, weight: f64| {
        let path = directory.path().join(format!("{name}.txt"));
        let text: String = (0..200).map(|line| format!("{name} {line} of some words\n")).collect();
        std::fs::write(&path, text).expect("written");
        let paths = vec![path.display().to_string()];
        SourceConfig { name: Some(name.to_owned()), weight: Some(weight), paths, ..SourceConfig::default() }
    };
    let first =
        Config { sources: vec![source("a", 1.0), source("b", 2.0)], ..written(directory.path(), 1, 2) };
    let mut second = first.clone();
    second.sources = vec![source("c", 0.0), source("b", 2.0), source("a", 1.0)];
    let before = batches(&first);
    let before = &before[..20];
    let after = rest(&second, before[19].cursor());
    let batches: Vec<Batch> = before.iter().cloned().chain(after).collect();
    let sessions = vec![Session { begins: 0, config: first.clone() }, Session { begins: 20, config: second }];
    let run = Run { sessions, ..run(&first, &batches, 5) };
    let all = check(run.clone(), usize::MAX);
    assert!(all.len() > 6 && all.iter().all(|checked| checked.difference.is_none()), "{all:?}");
    for name in ["a.txt", "b.txt"] {
        for line in [1, 77, 150] {
            let begins = |batch: &Batch| {
                let pieces = batch.pieces().iter();
                let is_asked =
                    |piece: &&Piece| batch.path(piece).ends_with(name) && batch.line(piece) == line;
                pieces.filter(is_asked).count()
            };
            let expected: usize = batches.iter().map(begins).sum();
            let found = block_on(async {
                let search = Search::open(run.clone()).await.expect("a search");
                let asked = search.document(name, Some(line)).await.expect("a document");
                search.find(&asked, |_, _| {}).await.expect("no errors")
            });
            assert_eq!(found.found.len(), expected, "{name}:{line} {found:?}");
        }
    }
}
