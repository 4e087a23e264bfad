//! Work that stays on chosen cores: it does, the threads get their cores back, and no byte changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use millstream::config::{Config, PinConfig, SourceConfig, TokenizerKind};
use millstream::{Batch, Loader};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::support::tokenizers::before;

/// The cores that the calling thread may run on.
fn cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).expect("cores");
    (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect()
}

fn config(pin: PinConfig) -> Config {
    let source = SourceConfig { paths: vec!["src/meter/*.rs".to_owned()], ..SourceConfig::default() };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    (config.pipeline.epochs, config.pipeline.seq_len, config.pipeline.pin) = (Some(1), 64, pin);
    config
}

/// All ids, and the cores that the tokenizer was on.
fn run(pin: PinConfig) -> (Vec<u32>, BTreeSet<Vec<usize>>) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = seen.clone();
    let noting = before("noting", move |_| {
        noted.lock().expect("no panic").insert(cores());
        Ok(())
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
    let ids = runtime.block_on(async {
        let loader = Loader::builder(&config(pin)).with_tokenizer(noting).open().await?;
        let batches: Vec<Batch> = loader.try_collect().await?;
        // The pool's threads have their cores again.
        for _ in 0..64 {
            let now = tokio::task::spawn_blocking(cores).await.expect("no panic");
            assert_eq!(now, cores());
        }
        millstream::Result::<Vec<u32>>::Ok(batches.iter().flat_map(|batch| batch.ids().to_vec()).collect())
    });
    let seen = seen.lock().expect("no panic").clone();
    (ids.expect("no error"), seen)
}

#[test]
fn tokenizing_stays_on_the_cores_that_are_named_and_no_byte_changes() {
    let all = cores();
    let (expected, free) = run(PinConfig::Off);
    assert_eq!(free, BTreeSet::from([all.clone()]));
    let last = vec![*all.last().expect("a core")];
    for (pin, on) in [(PinConfig::Cores(last.clone()), last), (PinConfig::Cores(all.clone()), all)] {
        let (ids, seen) = run(pin);
        assert_eq!(seen, BTreeSet::from([on]));
        assert_eq!(ids, expected);
    }
    // On a machine with several nodes these are some of the cores, and otherwise all.
    let (ids, seen) = run(PinConfig::Auto);
    assert!(seen.iter().flatten().all(|core| cores().contains(core)) && ids == expected, "{seen:?}");
}

#[test]
fn cores_that_are_not_there_are_refused() {
    let refused = |cores: Vec<usize>| {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
        let error = runtime.block_on(Loader::open(&config(PinConfig::Cores(cores)))).expect_err("refused");
        error.to_string()
    };
    for core in [1023, 1_000_000] {
        let error = refused(vec![0, core]);
        assert!(
            error.starts_with(&format!("pipeline.pin: this process has no core {core}; it has ")),
            "{error}"
        );
    }
    assert_eq!(refused(Vec::new()), "`pipeline.pin` must name a core, or be \"off\"");
}
