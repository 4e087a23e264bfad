//! The laws of the source, over the files that other programs wrote.

use std::collections::HashSet;

use millstream::LaneCursor;
use millstream::config::{SampleConfig, SourceConfig};
use millstream::source::Lane;
use proptest::prelude::*;

use super::others::{config, path};
use crate::corpus::{all, bound, open, run};
use crate::laws;

/// Files of one kind as one source, read with some settings.
#[derive(Clone, Debug)]
struct Case {
    config: SourceConfig,
    lane: Lane,
    slab: usize,
}

fn files() -> impl Strategy<Value = SourceConfig> {
    let of = |name: &str, patterns: &[&str]| SourceConfig {
        paths: patterns.iter().map(|pattern| path(pattern).display().to_string()).collect(),
        ..config(name)
    };
    prop::sample::select(vec![
        of("snappy.parquet", &["*.parquet"]),
        of("stream.arrow", &["*.arrow"]),
        of("gnu.tar", &["*.tar*"]),
        of("mds", &["mds", "mds-zstd", "mds-gz"]),
    ])
}

fn case() -> impl Strategy<Value = Case> {
    let filter =
        prop::option::of(prop::sample::select(vec!["lang <> 'de'", "score > 3", "id = 31", "false"]));
    let split = prop_oneof![1_usize..3000, Just(64 << 20)];
    let slab = prop_oneof![4_usize..200, 200_usize..20_000];
    let order = (1_usize..4, any::<u64>(), any::<bool>(), 1_u64..3);
    (files(), filter, any::<bool>(), split, slab, order).prop_map(
        |(files, filter, samples, split, slab, (lanes, seed, shuffle_splits, epochs))| {
            let is_columnar = files.field.as_deref() == Some("text") && !files.paths[0].ends_with("mds");
            let filter = filter.filter(|_| is_columnar).map(str::to_owned);
            let sample = SampleConfig { field: "quality".to_owned(), max: 4.0 };
            let sample = Some(sample).filter(|_| is_columnar && samples);
            let lane = Lane { lanes, seed, shuffle_splits, epochs: Some(epochs), ..Lane::default() };
            Case { config: SourceConfig { filter, sample, split: Some(bound(split)), ..files }, lane, slab }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn reads_of_any_size_deliver_the_same(case in case()) {
        run(async {
            let source = open(&case.config).await;
            laws::reads_of_any_size_deliver_the_same(&source, laws::lanes(case.lane), case.slab).await
        })?;
    }

    #[test]
    fn every_cursor_resumes_exactly(case in case()) {
        run(async {
            let source = open(&case.config).await.with_slab_bytes(case.slab);
            laws::cursors_resume_exactly(&source, laws::lanes(case.lane), 7).await
        })?;
    }

    #[test]
    fn lanes_and_splits_deliver_every_document_once_an_epoch(case in case()) {
        run(async {
            let place = |seen: &crate::corpus::Seen| (seen.cursor.epoch, seen.position.file, seen.position.byte);
            let one = Lane { lanes: 1, ..case.lane };
            let whole = open(&SourceConfig { split: Some(bound(64 << 20)), ..case.config.clone() }).await;
            let whole = all(whole.lane(one, &LaneCursor::default())).await;
            let source = open(&case.config).await;
            let mut together = HashSet::new();
            for lane in laws::lanes(case.lane) {
                for seen in all(source.lane(lane, &LaneCursor::default())).await {
                    prop_assert!(together.insert((place(&seen), seen.text)), "twice");
                }
            }
            let expected: HashSet<_> = whole.into_iter().map(|seen| (place(&seen), seen.text)).collect();
            prop_assert_eq!(together, expected);
            Ok(())
        })?;
    }
}
