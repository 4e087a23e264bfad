//! Two that prepare into one directory at once: one does, and the other is refused or finds it done.

use std::sync::Barrier;
use std::thread;

use millstream::config::{ByteCount, Config};
use millstream::prepare::{Prepared, prepare};
use millstream::{Error, Result};

use crate::text::{Case, all, assert_same, run};

/// Prepares by each config at the same moment.
fn together(case: &Case, configs: &[&Config]) -> Vec<Result<Prepared>> {
    let barrier = Barrier::new(configs.len());
    thread::scope(|scope| {
        let one = |config: &Config| {
            barrier.wait();
            run(prepare(config, &case.shards(), |_| {}))
        };
        let threads: Vec<_> = configs.iter().map(|config| scope.spawn(move || one(config))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn of_one_config_they_make_one_directory() {
    for _ in 0..20 {
        let files: Vec<String> = (0..8).map(|n| format!("file {n}\nof lines\n")).collect();
        let case = Case::new(&files, |_| {});
        let prepared = together(&case, &[&case.config; 3]);
        // Nothing is tokenized twice.
        let documents = prepared.iter().flatten().map(|prepared| prepared.documents).sum::<u64>();
        assert_eq!(documents, 16);
        for refused in prepared.into_iter().filter_map(Result::err) {
            assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        }
        assert_same(&all(&case.config, None).expect("text"), &all(&case.sharded(), None).expect("shards"));
    }
}

#[test]
fn of_two_configs_one_is_refused() {
    for _ in 0..40 {
        let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
        let mut other = case.config.clone();
        other.sources[0].split = Some(ByteCount(100));
        let configs = [&case.config, &other];
        let prepared = together(&case, &configs);
        let won = prepared.iter().position(Result::is_ok).expect("one is prepared");
        match &prepared[1 - won] {
            Err(Error::Corpus { problem }) => assert!(problem.contains("it has the tokens of"), "{problem}"),
            Err(Error::Busy { .. }) => {}
            other => panic!("the other is refused: {other:?}"),
        }
        assert_same(&all(configs[won], None).expect("text"), &all(&case.sharded(), None).expect("shards"));
    }
}
