//! Custom documents in place of files: the laws hold where the origin can go back.

use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::{Config, SourceConfig, Uneven};
use millstream::loader::LoaderBuilder;
use millstream::{Document, Error, LaneCursor, Result, Tracked};
use proptest::prelude::*;

use crate::corpus::{self, all_of, reread, resumes_of};
use crate::support::runtime::block_on_bare;

fn config(lanes: usize, window: usize) -> Config {
    let mut config = Config::default();
    config.pipeline.lanes = lanes.into();
    config.pipeline.window = window.into();
    config.pipeline.seq_len = 16;
    config.pipeline.batch_size = 2 * lanes;
    config
}

/// Lane l has `documents` + l documents, each of which names itself.
fn builder(config: &Config, documents: u64) -> LoaderBuilder {
    corpus::builder(config).documents("numbers", move |lane, start| {
        stream::iter((start.documents..documents + lane as u64).map(document(lane))).boxed()
    })
}

fn document(lane: usize) -> impl Fn(u64) -> Result<Tracked<Document>> {
    move |number| {
        let text = format!("lane {lane}, document {number}; ");
        Ok(Tracked::new(Document::new(text), LaneCursor::after(number + 1)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_cursor_resumes_exactly(lanes in 1_usize..4, window in 1_usize..40, documents in 0_u64..120) {
        block_on_bare(async {
            let config = config(lanes, window);
            let builder = || builder(&config, documents + 1);
            prop_assert_eq!(resumes_of(builder, usize::MAX).await, Ok(()));
            let whole = all_of(builder()).await.expect("no error");
            let ids: usize = whole.iter().map(|batch| batch.ids().len()).sum();
            prop_assert!(ids as u64 >= documents * 16);
            Ok(())
        })?;
    }
}

#[test]
fn no_rank_waits_for_the_lanes_of_others_nor_needs_them_to_resume() {
    let mut config = config(2, 4);
    (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(2));
    let whole = block_on_bare(all_of(builder(&config, 40))).expect("no error");
    // The other rank's lane gives nothing, so its length is not known when the cursor is saved.
    let silent = corpus::builder(&config).documents("numbers", move |lane, start| match lane {
        0 => stream::iter((start.documents..40).map(document(0))).boxed(),
        _ => stream::pending().boxed(),
    });
    let first = block_on_bare(async { silent.open().await?.take(3).try_collect::<Vec<_>>().await });
    let first = first.expect("no error");
    for (batch, once) in first.iter().zip(&whole) {
        assert_eq!((batch.ids(), batch.cursor()), (once.ids(), once.cursor()));
    }
    let rest = all_of(builder(&config, 40).with_cursor(reread(first[2].cursor())));
    let rest = block_on_bare(rest).expect("no error");
    assert_eq!(rest.len(), whole.len() - 3);
    for (batch, once) in rest.iter().zip(&whole[3..]) {
        assert_eq!(batch.ids(), once.ids());
    }
}

#[test]
fn a_config_with_sources_is_refused() {
    let mut config = config(1, 1);
    config.sources = vec![SourceConfig { paths: vec!["*.txt".to_owned()], ..SourceConfig::default() }];
    let error = block_on_bare(all_of(builder(&config, 3))).expect_err("an error");
    assert!(matches!(&error, Error::Config { key, .. } if key == "source"), "{error}");
}

#[test]
fn there_is_nothing_to_wrap_to() {
    let mut config = config(1, 1);
    config.pipeline.uneven = Uneven::Wrap;
    let error = block_on_bare(all_of(builder(&config, 3))).expect_err("an error");
    assert!(error.to_string().starts_with("pipeline.uneven: "), "{error}");
}

#[test]
fn they_are_not_held_out() {
    let mut config = config(1, 1);
    config.pipeline.holdout = 0.1;
    for held_out in [false, true] {
        let error = block_on_bare(all_of(builder(&config, 3).with_held_out(held_out))).expect_err("an error");
        assert!(error.to_string().starts_with("pipeline.holdout: "), "{error}");
    }
}

#[test]
fn another_name_is_another_order() {
    let config = config(1, 4);
    let batches = block_on_bare(all_of(builder(&config, 30))).expect("no error");
    let cursor = batches[0].cursor().clone();
    let other = corpus::builder(&config).with_cursor(cursor);
    let other = other.documents("others", |_, _| stream::empty().boxed());
    assert!(matches!(block_on_bare(all_of(other)), Err(Error::Fingerprint { .. })));
}

#[test]
fn an_error_of_the_origin_ends_the_stream() {
    let config = config(1, 1);
    let failing = corpus::builder(&config).documents("failing", |_, start| {
        let first = Document::new("long enough for some rows, and then some more");
        let error = first.error("the line is dead", "call again");
        assert_eq!(start.documents, 0);
        stream::iter([Ok(Tracked::new(first, LaneCursor::after(1))), Err(error)]).boxed()
    });
    let error = block_on_bare(all_of(failing)).expect_err("an error");
    assert!(error.to_string().contains("the line is dead"), "{error}");
}
