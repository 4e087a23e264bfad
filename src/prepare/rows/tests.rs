//! Tests that need short segments.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::channel::oneshot;
use proptest::prelude::*;

use super::*;
use crate::config::{ByteCount, SourceConfig, TokenizerKind};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime").block_on(future)
}

/// Prepares one part, and stops it after it has told `steps` times how far it is.
fn prepare(
    config: &Config,
    into: &Path,
    world: World,
    segment_bytes: u64,
    steps: usize,
) -> Result<PreparedRows> {
    let (stop, stopped) = oneshot::channel::<()>();
    let left = Mutex::new((steps, Some(stop)));
    let progress = move |_| {
        let mut left = left.lock().expect("no panic");
        left.0 = left.0.saturating_sub(1);
        if left.0 == 0
            && let Some(stop) = left.1.take()
        {
            // Whoever listens has ended if not.
            let _ = stop.send(());
        }
    };
    block_on(prepared(stopped.map(drop), config, into, world, segment_bytes, Box::new(progress)))
}

/// The files of a directory, but its locks.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let kept = named.filter(|(name, _)| !name.starts_with(".lock"));
    kept.map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn parts_that_are_stopped_at_any_time_make_what_one_process_makes(
        documents in prop::collection::vec("[a-z]{1,30}", 1..80), lanes in 1_usize..5, seq_len in 1_usize..30,
        pack in prop::sample::select(vec![PackRule::Concat, PackRule::Pad, PackRule::BestFit]),
        holdout in prop_oneof![Just(0.0), Just(0.3)], segment_bytes in 1_u64..300, size in 1_usize..5,
        steps in prop::collection::vec(1_usize..6, 1..5),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines.txt");
        std::fs::write(&path, documents.join("\n")).expect("a file");
        let mut config = Config::default().with_source(SourceConfig::text(path.display().to_string()));
        config.tokenizer.kind = TokenizerKind::Bytes;
        config.sources[0].split = Some(ByteCount(50));
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.seq_len, pipeline.pack, pipeline.holdout) = (lanes.into(), seq_len, pack, holdout);
        let [whole, parts] = ["whole", "parts"].map(|name| directory.path().join(name));
        let made = prepare(&config, &whole, World::ALONE, segment_bytes, usize::MAX).expect("prepared");
        prop_assert!(made.is_whole());

        let mut steps = steps.into_iter().chain(std::iter::repeat(usize::MAX));
        for rank in 0..size {
            let world = World { rank, size };
            loop {
                let steps = steps.next().expect("it is endless");
                let made = prepare(&config, &parts, world, segment_bytes, steps).expect("prepared");
                if !made.is_stopped {
                    prop_assert!(made.is_whole() || rank + 1 < size);
                    break;
                }
                prop_assert!(block_on(crate::Source::open(&[SourceConfig::rows(parts.display().to_string())])).is_err());
            }
        }
        prop_assert_eq!(files(&parts), files(&whole));
        // Nothing is made twice.
        prop_assert_eq!(prepare(&config, &parts, World::ALONE, segment_bytes, usize::MAX).expect("prepared").rows, 0);
        // A segment that somebody has removed is made again.
        let segments: Vec<String> = files(&whole).into_keys().filter(|name| name.ends_with(".rows")).collect();
        if let Some(gone) = segments.get(segments.len() / 2) {
            std::fs::remove_file(parts.join(gone)).expect("removed");
            prepare(&config, &parts, World::ALONE, segment_bytes, usize::MAX).expect("prepared");
            prop_assert_eq!(files(&parts), files(&whole));
        }
    }
}
