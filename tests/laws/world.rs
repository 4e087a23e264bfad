//! The law of the world: any number of ranks makes the rows of one process.

use futures::{StreamExt, TryStreamExt};
use millstream::config::{
    ByteCount, Config, DocumentKind, Last, MixtureChange, SourceConfig, TokenizerConfig, Uneven,
};
use millstream::{Batch, Cursor, Error, Loader};
use proptest::prelude::*;

use crate::corpus::{
    all, block_on, builder, configs, corpora, dealt, lines, mixed, open, ranks, rules, unpadded, worlds_agree,
};
use crate::support::cursors::editable;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn ranks_make_the_rows_of_one_process_and_resume_at_another_world(
        corpus in corpora(),
        config in configs(),
        (uneven, last) in rules(),
        worlds in prop::sample::subsequence(vec![1_usize, 2, 3, 4, 6, 12], 2).prop_shuffle(),
        endless: bool,
        cut in 1_usize..9,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.batch_size) = (12.into(), 12 * pipeline.batch_size);
        (pipeline.uneven, pipeline.last) = (uneven, last);
        // Twelve lanes over a few files: an endless lane without any is refused.
        if endless && corpus.files.len() >= 12 {
            pipeline.epochs = None;
        }
        let most = if config.pipeline.epochs.is_some() { usize::MAX } else { 40 };
        let one = block_on(async { open(&config, None).await?.take(most).try_collect::<Vec<Batch>>().await });
        let one = match one {
            // The shortest of twelve lanes often has nothing, and so has a first batch that is cut short.
            Err(Error::Corpus { .. }) if uneven == Uneven::Stop || last == Last::Drop => return Ok(()),
            one => one.expect("no errors"),
        };
        block_on(worlds_agree(&config, builder, &one, &worlds, cut))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn mixed_sources_are_alike_at_every_world_whatever_changes_at_the_resume(
        corpora in prop::collection::vec(corpora(), 2..4),
        config in configs(),
        (uneven, _) in rules(),
        weights in prop::collection::vec(0_u32..5, 6),
        epochs in prop::collection::vec(1_u64..3, 3),
        worlds in prop::sample::subsequence(vec![1_usize, 2, 4], 2).prop_shuffle(),
        cut in 1_usize..6,
        more in 0_u64..3,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let epochs: Vec<_> = epochs.into_iter().map(Some).collect();
        let mut config = mixed(config, directory.path(), &corpora, &weights, &epochs);
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.batch_size, pipeline.uneven) = (4.into(), 4 * pipeline.batch_size, uneven);
        if let Err(Error::Corpus { .. }) = block_on(all(&config)) {
            return Ok(()); // The shortest lane has nothing.
        }
        let saved = ranks(&config, worlds[0], None, cut);
        prop_assume!(saved[0].len() == cut);
        let saved: Vec<Cursor> = saved.iter().map(|batches| batches[cut - 1].cursor().clone()).collect();
        let whole = Cursor::merge(&saved).expect("they are of one batch");

        // From here on other epochs and other weights.
        config.sources.iter_mut().for_each(|source| source.epochs = source.epochs.map(|epochs| epochs + more));
        let later = (0..corpora.len()).map(|index| {
            (index.to_string(), f64::from(weights[3 + index]) + if index == 1 { 1.0 } else { 0.0 })
        });
        config.mixture.changes = vec![MixtureChange { batch: cut as u64 + 1, weights: later.collect() }];
        config.pipeline.world = Some(1);
        let one = block_on(async { open(&config, Some(&whole)).await?.try_collect::<Vec<Batch>>().await });
        let one: Vec<_> = match one {
            // Lanes that had wrapped were in a window that now ends with the stream.
            Err(Error::Resume { .. }) => return Ok(()),
            one => one.expect("no errors").iter().map(unpadded).collect(),
        };
        prop_assert_eq!(dealt(&ranks(&config, worlds[1], Some(&whole), usize::MAX)), one);
    }
}

#[test]
fn validation_is_whole_whatever_ends_the_training_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    config.sources[0].split = Some(ByteCount(400));
    (config.pipeline.lanes, config.pipeline.holdout) = (4.into(), 0.1);
    (config.pipeline.rank, config.pipeline.world) = (Some(1), Some(2));
    let held_out = |uneven: Uneven, last: Last| {
        let mut config = config.clone();
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        let batches: Vec<Batch> =
            block_on(async { builder(&config).with_held_out(true).open().await?.try_collect().await })
                .expect("no errors");
        crate::order::deliveries(&batches)
    };
    let expected = held_out(Uneven::Pad, Last::Short);
    assert!(expected.len() > 10);
    assert_eq!(held_out(Uneven::Stop, Last::Drop), expected);
    assert_eq!(held_out(Uneven::Wrap, Last::Pad), expected);
}

#[test]
fn cursors_that_make_no_whole_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 500);
    config.pipeline.lanes = 4.into();
    let ranks = ranks(&config, 2, None, 3);
    let cursor = |rank: usize, batch: usize| ranks[rank][batch].cursor().clone();
    let refused = |cursors: &[Cursor]| Cursor::merge(cursors).expect_err("no whole").to_string();
    assert_eq!(refused(&[]), "these cursors do not make one: there is no cursor");
    assert!(refused(&[cursor(0, 1)]).ends_with(
        "lane 1 of 4 is in none of them, so that of rank 1 of 2 is missing; give the cursors of all ranks"
    ));
    assert!(
        refused(&[cursor(0, 1), cursor(1, 2)]).contains("the first is of batch 2 and number 2 of batch 3")
    );
    let mut other = editable(&cursor(0, 1));
    other["lanes"][2]["rows"] = 7.into();
    let other: Cursor = serde_json::from_value(other).expect("a cursor");
    assert!(refused(&[cursor(0, 1), cursor(1, 1), other]).contains("lane 2 stands elsewhere in number 3"));
    let whole = Cursor::merge(&[cursor(1, 1), cursor(0, 1)]).expect("it is whole");
    assert_eq!(Cursor::merge(&[whole.clone(), cursor(0, 1)]).expect("nothing new"), whole);

    config.pipeline.world = Some(1);
    let error = block_on(open(&config, Some(&cursor(0, 1)))).expect_err("half a cursor");
    assert!(error.to_string().contains("lane 1 of 4 is another rank's"), "{error}");
}

#[test]
fn one_process_pads_wraps_or_stops() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 10);
    std::fs::write(directory.path().join("short.txt"), "a\n").expect("a file");
    config.sources[0].paths = vec![format!("{}/*.txt", directory.path().display())];
    (config.pipeline.lanes, config.pipeline.batch_size) = (2.into(), 2);
    config.pipeline.shuffle_splits = false;
    let lengths = |uneven: Uneven| {
        let mut config = config.clone();
        config.pipeline.uneven = uneven;
        let batches = block_on(all(&config)).expect("no errors");
        batches.iter().map(|batch| batch.lengths().to_vec()).collect::<Vec<_>>()
    };
    // Lane 0 has ten lines of 20 bytes and an end of text, lane 1 one of a byte.
    assert_eq!(lengths(Uneven::Pad), [[65, 2], [65, 0], [65, 0], [18, 0]]);
    assert_eq!(lengths(Uneven::Stop), [[65, 2]]);
    let wrapped = lengths(Uneven::Wrap);
    assert_eq!(wrapped.len(), 4);
    assert!(wrapped[1][1] > 0, "{wrapped:?}");
}

#[test]
fn the_advice_for_ranks_that_cannot_share_the_lanes_works() {
    let open = |config: &Config| block_on(Loader::open(config)).map(|_| ());
    for (files, world, works) in
        [(1, 2, None), (2, 3, None), (4, 3, Some(3)), (20, 3, Some(18)), (17, 3, Some(15))]
    {
        let directory = tempfile::tempdir().expect("a directory");
        for n in 0..files {
            std::fs::write(directory.path().join(format!("{n}.txt")), format!("file {n}\n").repeat(50))
                .expect("a file");
        }
        let paths = vec![directory.path().join("*.txt").display().to_string()];
        let source = SourceConfig { paths, document: DocumentKind::File, ..SourceConfig::default() };
        let mut config = Config::default().with_source(source).with_tokenizer(TokenizerConfig::bytes());
        (config.pipeline.seq_len, config.pipeline.batch_size) = (16, 12);
        (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(world));
        let error = open(&config).expect_err("refused").to_string();
        match works {
            None => assert!(error.contains("make more files") && error.contains("fewer ranks"), "{error}"),
            Some(lanes) => {
                assert!(
                    error.contains("`pipeline.lanes`") && error.contains(&format!("set it to {lanes}")),
                    "{error}"
                );
                config.pipeline.lanes = lanes.into();
                open(&config).expect("it opens");
            }
        }
    }
}
