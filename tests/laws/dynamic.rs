//! Batches of a budget of tokens: bounded, complete, resumable, and alike at every world.

use futures::{StreamExt, TryStreamExt};
use millstream::config::{Config, ExcludedDocument, PackRule, Uneven};
use millstream::{Batch, Cursor};
use proptest::prelude::*;

use crate::corpus::{Row, all, block_on, configs, corpora, open, ranks, resumes, unpadded};

/// Configs whose batches have a budget.
pub(crate) fn budgets() -> impl Strategy<Value = Config> {
    let buckets = prop::collection::btree_set(1_usize..40, 0..4);
    (configs(), buckets, 1_usize..5, 1_usize..80).prop_map(|(mut config, buckets, factor, window)| {
        let pipeline = &mut config.pipeline;
        pipeline.buckets = buckets.into_iter().collect();
        if let Some(&longest) = pipeline.buckets.last() {
            (pipeline.seq_len, pipeline.ahead) = (longest, pipeline.ahead.min(longest));
        }
        pipeline.batch_tokens = Some(pipeline.seq_len * factor);
        pipeline.bucket_window = window;
        config
    })
}

fn rows(batch: &Batch) -> (usize, Vec<Row>) {
    (batch.width(), unpadded(batch))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_batch_passes_its_budget_and_each_document_comes_once(corpus in corpora(), config in budgets()) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        config.pipeline.epochs = Some(1);
        let batches = block_on(all(&config)).expect("no errors");
        let tokens = config.pipeline.batch_tokens.expect("a budget");
        for batch in &batches {
            prop_assert!(batch.rows() * batch.seq_len() <= tokens, "{} x {}", batch.rows(), batch.seq_len());
            let buckets = &config.pipeline.buckets;
            prop_assert!(buckets.is_empty() || buckets.contains(&batch.seq_len()));
        }
        // The rows are those of batches without a budget, in another order.
        let mut plain = config.clone();
        plain.pipeline.batch_tokens = None;
        let sorted = |batches: &[Batch]| {
            let rows = batches.iter().flat_map(unpadded).map(|(ids, _)| ids);
            let mut rows: Vec<Vec<u32>> = rows.filter(|ids| !ids.is_empty()).collect();
            rows.sort();
            rows
        };
        prop_assert_eq!(sorted(&batches), sorted(&block_on(all(&plain)).expect("no errors")));
    }

    #[test]
    fn resume_is_exact_at_every_batch(corpus in corpora(), config in budgets(), wrap: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        config.pipeline.uneven = if wrap { Uneven::Wrap } else { Uneven::Pad };
        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn the_ranks_batches_are_those_of_one_process_in_turn(
        corpus in corpora(), config in budgets(), worlds in prop::sample::subsequence(vec![1_usize, 2, 4], 2).prop_shuffle(),
        cut in 1_usize..4,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        (config.pipeline.lanes, config.pipeline.batch_size) = (4.into(), 4);
        let one: Vec<_> = block_on(all(&config)).expect("no errors").iter().map(rows).collect();
        let ranks = |world: usize, from: Option<&Cursor>| ranks(&config, world, from, usize::MAX);
        let dealt = |ranks: &[Vec<Batch>]| {
            let steps = ranks[0].len();
            assert!(ranks.iter().all(|batches| batches.len() == steps));
            (0..steps * ranks.len()).map(|batch| rows(&ranks[batch % ranks.len()][batch / ranks.len()])).collect::<Vec<_>>()
        };
        let first = ranks(worlds[0], None);
        prop_assert_eq!(&dealt(&first), &one);
        // Both worlds can have made so many batches.
        let step = 4 * cut / worlds[0];
        if step <= first[0].len() {
            let saved: Vec<Cursor> = first.iter().map(|batches| batches[step - 1].cursor().clone()).collect();
            let whole = Cursor::merge(&saved).expect("they are of one batch");
            prop_assert_eq!(dealt(&ranks(worlds[1], Some(&whole))), &one[4 * cut..]);
        }
    }
}

#[test]
fn documents_that_are_excluded_on_the_way_change_no_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = crate::corpus::lines(directory.path(), 400);
    (config.pipeline.pack, config.pipeline.batch_tokens) = (PackRule::Pad, Some(256));
    let before = block_on(all(&config)).expect("no errors");
    let path = directory.path().join("lines.txt");
    for at in [3, 17, 40] {
        let upcoming = before[at + 4].pieces()[1].position.byte;
        config.exclude.documents = vec![ExcludedDocument { path: path.clone(), byte: upcoming }];
        let after: Vec<Batch> =
            block_on(async { open(&config, Some(before[at].cursor())).await?.try_collect().await })
                .expect("no errors");
        assert_eq!(after.len(), before.len() - at - 1);
        let places = |batches: &[Batch]| {
            let pieces =
                batches.iter().flat_map(|batch| batch.pieces().iter().map(|piece| piece.position.byte));
            pieces.filter(|byte| *byte != upcoming).collect::<Vec<_>>()
        };
        assert_eq!(places(&after), places(&before[at + 1..]));
        assert!(after.iter().all(|batch| batch.pieces().iter().all(|piece| piece.position.byte != upcoming)));
    }
}

#[test]
fn a_world_that_cannot_have_made_a_cursor_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = crate::corpus::lines(directory.path(), 500);
    (config.pipeline.lanes, config.pipeline.batch_tokens) = (2.into(), Some(128));
    let batches = block_on(all(&config)).expect("no errors");
    (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(2));
    let error = block_on(open(&config, Some(batches[0].cursor()))).expect_err("an odd number").to_string();
    assert!(error.starts_with("pipeline.world: 1 batches were made one after the other"), "{error}");
    assert!(
        block_on(async { open(&config, Some(batches[1].cursor())).await?.next().await.expect("more") })
            .is_ok()
    );
}
