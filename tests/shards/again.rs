//! Shards that are prepared again: what is damaged is made anew, and what differs is refused.

use std::fs;
use std::future::pending;

use millstream::config::ByteCount;
use millstream::prepare::{Prepared, prepare_until, status};
use millstream::world::World;
use millstream::{Batch, Result};

use crate::text::{Case, all, run};

#[test]
fn a_damaged_list_is_none_and_is_written_anew() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    let said = || {
        let status = run(status(&case.config, &case.shards(), None)).expect("a status");
        (status[0].is_whole(), status[0].to_string())
    };
    assert_eq!(said(), (true, "1 of 1 segments are there".to_owned()));
    let list = case.shards().join("segments.json");
    let whole = fs::read(&list).expect("a list");
    fs::write(&list, &whole[..whole.len() / 2]).expect("written");
    let (is_whole, told) = said();
    assert!(!is_whole && told.contains("and not their list: prepare any part once more"), "{told}");
    assert_eq!(case.prepare().expect("prepared again").documents, 0);
    assert!(fs::read(&list).expect("a list") == whole && said().0);
}

#[test]
fn files_that_are_cut_otherwise_are_refused() {
    let mut case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    case.config.sources[0].split = Some(ByteCount(100));
    let error = case.prepare().expect_err("a refusal").to_string();
    assert!(
        error.contains("it has the tokens of files that were cut otherwise (source.split), or"),
        "{error}"
    );
}

#[test]
fn a_corpus_may_move_between_its_parts() {
    let mut case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    let part = |case: &Case, rank: usize| -> Result<Prepared> {
        let world = World { rank, size: 2 };
        run(prepare_until(pending(), &case.config, &case.shards(), world, |_| {}))
    };
    // There is one segment, which the first part makes.
    assert!(part(&case, 1).expect("the second part").left_to_others > 0);
    let path = |name: &str| case.directory.path().join(name);
    fs::create_dir(path("mnt")).expect("a directory");
    fs::rename(path("0.txt"), path("mnt/0.txt")).expect("moved");
    let (moved, renamed) = (path("mnt/0.txt"), path("mnt/1.txt"));
    case.config.sources[0].paths = vec![path("mnt/*.txt").display().to_string()];
    assert!(part(&case, 0).expect("the first part").is_whole());
    let ids = |batches: Vec<Batch>| batches.iter().map(|batch| batch.ids().to_vec()).collect::<Vec<_>>();
    let [text, shards] = [&case.config, &case.sharded()].map(|config| all(config, None).expect("batches"));
    assert_eq!(ids(text), ids(shards));
    // A file of another name is another file.
    fs::rename(moved, renamed).expect("renamed");
    let error = part(&case, 0).expect_err("a refusal").to_string();
    assert!(error.contains("it has the tokens of other files, or files that have changed since"), "{error}");
}
