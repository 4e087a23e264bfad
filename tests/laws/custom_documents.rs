//! Custom documents in place of files: the laws hold where the origin can go back.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::{Config, SourceConfig, Uneven};
use millstream::loader::LoaderBuilder;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Document, Error, LaneCursor, Loader, Result, Tracked};
use proptest::prelude::*;

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
    let tokenizer = Arc::new(ByteTokenizer);
    Loader::builder(config).with_tokenizer(tokenizer).documents("numbers", move |lane, start| {
        stream::iter((start.documents..documents + lane as u64).map(document(lane))).boxed()
    })
}

fn document(lane: usize) -> impl Fn(u64) -> Result<Tracked<Document>> {
    move |number| {
        let text = format!("lane {lane}, document {number}; ");
        Ok(Tracked::new(Document::new(text), LaneCursor::after(number + 1)))
    }
}

async fn all(builder: LoaderBuilder) -> Result<Vec<Batch>> {
    builder.open().await?.try_collect().await
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_cursor_resumes_exactly(lanes in 1_usize..4, window in 1_usize..40, documents in 0_u64..120) {
        block_on_bare(async {
            let config = config(lanes, window);
            let whole = all(builder(&config, documents + 1)).await.expect("no error");
            for (index, batch) in whole.iter().enumerate() {
                let rest = all(builder(&config, documents + 1).with_cursor(batch.cursor().clone())).await.expect("no error");
                prop_assert_eq!(rest.len(), whole.len() - index - 1);
                for (again, once) in rest.iter().zip(&whole[index + 1..]) {
                    prop_assert_eq!(again.ids(), once.ids());
                    prop_assert_eq!(again.cursor(), once.cursor());
                }
            }
            let ids: Vec<u32> = whole.iter().flat_map(|batch| batch.ids().to_vec()).collect();
            prop_assert!(ids.len() as u64 >= documents * 16);
            Ok(())
        })?;
    }
}

#[test]
fn no_rank_waits_for_the_lanes_of_others_nor_needs_them_to_resume() {
    let mut config = config(2, 4);
    (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(2));
    let whole = block_on_bare(all(builder(&config, 40))).expect("no error");
    // The other rank's lane gives nothing, so its length is not known when the cursor is saved.
    let silent = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).documents(
        "numbers",
        move |lane, start| match lane {
            0 => stream::iter((start.documents..40).map(document(0))).boxed(),
            _ => stream::pending().boxed(),
        },
    );
    let first = block_on_bare(async { silent.open().await?.take(3).try_collect::<Vec<_>>().await });
    let first = first.expect("no error");
    for (batch, once) in first.iter().zip(&whole) {
        assert_eq!((batch.ids(), batch.cursor()), (once.ids(), once.cursor()));
    }
    let saved = serde_json::to_string(first[2].cursor()).expect("JSON");
    let saved = serde_json::from_str(&saved).expect("the same cursor");
    let rest = block_on_bare(all(builder(&config, 40).with_cursor(saved))).expect("no error");
    assert_eq!(rest.len(), whole.len() - 3);
    for (batch, once) in rest.iter().zip(&whole[3..]) {
        assert_eq!(batch.ids(), once.ids());
    }
}

#[test]
fn a_config_with_sources_is_refused() {
    let mut config = config(1, 1);
    config.sources = vec![SourceConfig { paths: vec!["*.txt".to_owned()], ..SourceConfig::default() }];
    let error = block_on_bare(all(builder(&config, 3))).expect_err("an error");
    assert!(matches!(&error, Error::Config { key, .. } if key == "source"), "{error}");
}

#[test]
fn there_is_nothing_to_wrap_to() {
    let mut config = config(1, 1);
    config.pipeline.uneven = Uneven::Wrap;
    let error = block_on_bare(all(builder(&config, 3))).expect_err("an error");
    assert!(error.to_string().starts_with("pipeline.uneven: "), "{error}");
}

#[test]
fn they_are_not_held_out() {
    let mut config = config(1, 1);
    config.pipeline.holdout = 0.1;
    for held_out in [false, true] {
        let error = block_on_bare(all(builder(&config, 3).with_held_out(held_out))).expect_err("an error");
        assert!(error.to_string().starts_with("pipeline.holdout: "), "{error}");
    }
}

#[test]
fn another_name_is_another_order() {
    let config = config(1, 4);
    let batches = block_on_bare(all(builder(&config, 30))).expect("no error");
    let cursor = batches[0].cursor().clone();
    let other = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).with_cursor(cursor);
    let other = other.documents("others", |_, _| stream::empty().boxed());
    assert!(matches!(block_on_bare(all(other)), Err(Error::Fingerprint { .. })));
}

#[test]
fn an_error_of_the_origin_ends_the_stream() {
    let config = config(1, 1);
    let failing =
        Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).documents("failing", |_, start| {
            let first = Document::new("long enough for some rows, and then some more");
            let error = first.error("the line is dead", "call again");
            assert_eq!(start.documents, 0);
            stream::iter([Ok(Tracked::new(first, LaneCursor::after(1))), Err(error)]).boxed()
        });
    let error = block_on_bare(all(failing)).expect_err("an error");
    assert!(error.to_string().contains("the line is dead"), "{error}");
}
