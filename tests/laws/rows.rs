//! The laws of finished rows (`prepare --rows`, `kind = "rows"`), over generated corpora, and that they are the rows that a
//! loader makes of the text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, Config, Last, PackRule, PipelineConfig, SourceConfig, TokenizerKind, Uneven,
};
use millstream::prepare::prepare_rows;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Error, Loader};
use proptest::prelude::*;

use crate::corpus::{all, block_on, configs, corpora, lines, open, resumes, rules, unpadded, worlds_agree};

/// The config that reads the rows that are made of `text` in `directory`, in one epoch. What the rows fix is left out.
fn of_rows(text: &Config, directory: &Path) -> Config {
    let rows = directory.join("rows");
    block_on(prepare_rows(text, &rows, |_| {})).expect("prepared");
    let pipeline = &text.pipeline;
    let kept = PipelineConfig {
        lanes: pipeline.lanes,
        batch_size: pipeline.batch_size,
        epochs: pipeline.epochs,
        memory: pipeline.memory,
        ..PipelineConfig::default()
    };
    let mut config = Config { seed: text.seed, pipeline: kept, ..Config::default() };
    config.tokenizer.kind = text.tokenizer.kind;
    config.with_source(SourceConfig::rows(rows.display().to_string()))
}

fn prepared(text: Config, directory: &Path, split: u64) -> (Config, Config) {
    let mut text = text;
    text.tokenizer.kind = TokenizerKind::Bytes;
    text.sources.iter_mut().for_each(|source| source.split = Some(ByteCount(split)));
    let rows = of_rows(&text, directory);
    (text, rows)
}

/// Where a run of ids came from: path, line, byte, its index in the document, and where it is in the row.
type Origin = (PathBuf, u64, u64, u32, u32, u32);

/// All that a batch says of a row.
type Told = (Vec<u32>, u32, Vec<Origin>, Vec<u32>, Vec<u32>, Vec<bool>);

/// The rows of batches, but those of padding.
fn rows(batches: &[Batch]) -> Vec<Told> {
    let of = |batch: &Batch| -> Vec<Told> {
        let (width, seq_len) = (batch.width(), batch.seq_len());
        let (segments, positions, mask) = (batch.segment_ids(), batch.position_ids(), batch.loss_mask());
        let row = |row: usize| {
            let pieces = batch.pieces().iter().filter(|piece| piece.row as usize == row);
            let origin = |piece| {
                let millstream::batch::Piece { offset, from, to, position, .. } = piece;
                (batch.path(&piece).to_owned(), batch.line(&piece), position.byte, offset, from, to)
            };
            (
                batch.row(row)[..batch.lengths()[row] as usize].to_vec(),
                batch.lengths()[row],
                pieces.copied().map(origin).collect(),
                segments[row * width..(row + 1) * width].to_vec(),
                positions[row * width..(row + 1) * width].to_vec(),
                mask[row * seq_len..(row + 1) * seq_len].to_vec(),
            )
        };
        (0..batch.rows()).map(row).filter(|row| row.1 > 0).collect()
    };
    batches.iter().flat_map(of).collect()
}

fn text_bytes(batches: &[Batch]) -> (u64, u64) {
    let sum = |of: fn(&Batch) -> u64| batches.iter().map(of).sum();
    (sum(Batch::text_bytes), sum(Batch::text_bytes_within_documents))
}

fn digests(batches: &[Batch]) -> Vec<String> {
    batches.iter().map(|batch| batch.digest().to_string()).collect()
}

/// All batches, or none if all is held out or cut off.
fn some(config: &Config) -> Vec<Batch> {
    match block_on(all(config)) {
        Err(Error::Corpus { problem }) if problem.contains("there is no batch") => Vec::new(),
        batches => batches.expect("no errors"),
    }
}

fn held_out(config: &Config) -> Vec<Batch> {
    block_on(async {
        let builder = Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer)).with_held_out(true);
        builder.open().await?.try_collect().await
    })
    .expect("no errors")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Once: in an epoch each row comes once, with the documents, masks and places that it has from text. The held-out
    /// rows are those of the text, in its order.
    #[test]
    fn rows_are_those_of_a_loader(
        corpus in corpora(), config in configs(), split in 4_u64..200, ahead in 1_usize..4,
        holdout in prop_oneof![Just(0.0), 0.0..0.9_f64],
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let mut text = Config { sources: vec![corpus.source(directory.path())], ..config };
        text.pipeline.epochs = Some(1);
        text.pipeline.ahead = ahead.min(text.pipeline.seq_len);
        text.pipeline.holdout = holdout;
        let (text, stored) = prepared(text, directory.path(), split);
        let (expected, found) = (some(&text), some(&stored));
        prop_assert_eq!(text_bytes(&found), text_bytes(&expected));
        let (mut expected, mut found) = (rows(&expected), rows(&found));
        expected.sort();
        found.sort();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(rows(&held_out(&stored)), rows(&held_out(&text)));

        let mut twice = stored;
        twice.pipeline.epochs = Some(2);
        let mut found = rows(&some(&twice));
        found.sort();
        prop_assert_eq!(found, expected.iter().flat_map(|row| [row.clone(), row.clone()]).collect::<Vec<_>>());
    }

    #[test]
    fn order_and_resume(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), split in 4_u64..200,
        workers in 1_usize..9, depth in 1_usize..17, memory in 300_u64..2000, lanes in 1_usize..9,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let (_, mut config) = prepared(text, directory.path(), split);
        let mut other = config.clone();
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        let expected = some(&config);
        prop_assume!(!expected.is_empty());
        let again = {
            let mut again = config.clone();
            again.pipeline.workers = workers.into();
            again.pipeline.depth = depth.into();
            again.pipeline.memory = ByteCount(memory << 10);
            again.pipeline.window = 7.into();
            again
        };
        let batches = block_on(all(&again)).expect("no errors");
        prop_assert_eq!(digests(&batches), digests(&expected));

        // Row i of the stream is row i of the order, however many lanes there are.
        let of_one_epoch = |config: &Config| {
            let mut config = config.clone();
            (config.pipeline.epochs, config.pipeline.uneven, config.pipeline.last) = (Some(1), Uneven::Pad, Last::Short);
            rows(&some(&config))
        };
        other.pipeline.lanes = lanes.into();
        prop_assert_eq!(of_one_epoch(&other), of_one_epoch(&config));

        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn ranks_make_the_rows_of_one_process_and_go_on_at_another_world(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), split in 4_u64..200,
        worlds in prop::sample::subsequence(vec![1_usize, 2, 3, 4, 6, 12], 2).prop_shuffle(), cut in 1_usize..9,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        prop_assume!(!corpus.write(directory.path()).is_empty());
        let text = Config { sources: vec![corpus.source(directory.path())], ..config };
        let (_, mut config) = prepared(text, directory.path(), split);
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.batch_size) = (12.into(), 12 * pipeline.batch_size);
        (pipeline.uneven, pipeline.last) = (uneven, last);
        let expected: Vec<_> = some(&config).iter().map(unpadded).collect();
        prop_assume!(!expected.is_empty());
        worlds_agree(&config, &expected, &worlds, cut)?;
    }
}

/// Rows of numbered lines, which were packed two documents at most to a row.
fn numbered(directory: &Path, count: usize) -> Config {
    let mut text = lines(directory, count);
    text.tokenizer.kind = TokenizerKind::Bytes;
    text.pipeline.max_segments = Some(2);
    text.pipeline.holdout = 0.1;
    of_rows(&text, directory)
}

#[test]
fn what_rows_fix_is_taken_from_them_and_what_contradicts_them_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = numbered(directory.path(), 400);
    let batches = block_on(all(&config)).expect("no errors");
    assert_eq!((batches[0].seq_len(), batches[0].ahead()), (64, 1));
    let taken = block_on(millstream::loader::with_rows(&config)).expect("rows");
    assert_eq!(
        (taken.pipeline.seq_len, taken.pipeline.max_segments, taken.pipeline.holdout),
        (64, Some(2), 0.1)
    );
    assert_eq!(taken.tokenizer.eos.as_deref(), Some("<|endoftext|>"));
    assert_eq!(digests(&block_on(all(&taken)).expect("no errors")), digests(&batches));

    type Change = fn(&mut Config);
    let changes: [(Change, &str); 6] = [
        (
            |config| config.pipeline.seq_len = 32,
            "pipeline.seq_len: 32 in the config, and 64 in the rows of source 0",
        ),
        (|config| config.pipeline.ahead = 2, "pipeline.ahead: 2 in the config, and 1 in the rows"),
        (
            |config| config.pipeline.pack = PackRule::Pad,
            "pipeline.pack: pad in the config, and concat in the rows",
        ),
        (
            |config| config.pipeline.max_segments = Some(3),
            "pipeline.max_segments: 3 in the config, and 2 in the rows",
        ),
        (|config| config.pipeline.holdout = 0.5, "pipeline.holdout: 0.5 in the config, and 0.1 in the rows"),
        (
            |config| config.tokenizer.bos = Some("<|endoftext|>".to_owned()),
            "tokenizer.bos: \"<|endoftext|>\" in the config, and none in the rows",
        ),
    ];
    for (change, expected) in changes {
        let mut other = config.clone();
        change(&mut other);
        let said = block_on(all(&other)).expect_err("an error").to_string();
        assert!(said.starts_with(expected), "{said}");
        assert!(
            said.ends_with("which were made with it; remove the key, or prepare the rows again"),
            "{said}"
        );
    }
}

#[test]
fn rows_come_in_another_order_each_epoch_or_as_they_are_stored() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = numbered(directory.path(), 2000);
    config.pipeline.epochs = Some(2);
    let found = rows(&block_on(all(&config)).expect("no errors"));
    let (first, second) = found.split_at(found.len() / 2);
    let again = first.iter().zip(second).filter(|(one, other)| one == other).count();
    assert!(
        again < first.len() / 20,
        "{again} of {} rows come at the same place in both epochs",
        first.len()
    );
    let follow = first.windows(2).filter(|pair| pair[0].2[0].2 < pair[1].2[0].2).count();
    assert!(
        (first.len() / 3..2 * first.len() / 3).contains(&follow),
        "{follow} of {} rows go on",
        first.len()
    );

    config.pipeline.shuffle_splits = false;
    let found = rows(&block_on(all(&config)).expect("no errors"));
    let (first, second) = found.split_at(found.len() / 2);
    assert_eq!(first, second);
}

#[test]
fn rows_are_mixed_with_other_sources_by_weights() {
    let directory = tempfile::tempdir().expect("a directory");
    let stored = numbered(directory.path(), 800);
    let mut mixed = block_on(millstream::loader::with_rows(&stored)).expect("rows");
    mixed.sources[0].weight = Some(3.0);
    let text = SourceConfig::text(format!("{}/lines.txt", directory.path().display()));
    mixed.sources.push(text.with_name("text").with_weight(1.0));
    let of = |config: &Config| rows(&block_on(all(config)).expect("no errors")).len();
    let mut alone = mixed.clone();
    alone.sources.remove(0);
    assert_eq!(of(&mixed), of(&stored) + of(&alone));
    mixed.pipeline.epochs = None;
    let found = block_on(async {
        let mut loader = open(&mixed, None).await?;
        let mut of_rows = 0;
        for _ in 0..100 {
            let batch = loader.try_next().await?.expect("it is endless");
            let mut rows: Vec<_> =
                batch.pieces().iter().filter(|piece| batch.source(piece) == Some(0)).collect();
            rows.dedup_by_key(|piece| piece.row);
            of_rows += rows.len();
        }
        Ok::<_, Error>(of_rows)
    });
    let found = found.expect("no errors");
    assert!((270..330).contains(&found), "{found} of 400 rows");
}

#[test]
fn a_damaged_byte_is_found_wherever_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = numbered(directory.path(), 12);
    let path = directory.path().join("rows/00000-00000.rows");
    let whole = std::fs::read(&path).expect("a segment");
    assert!(!some(&config).is_empty());
    // The end of the header is zeros that mean nothing.
    for at in (0..48).chain(64..whole.len()) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, damaged).expect("written");
        let said = block_on(all(&config)).expect_err("it is damaged").to_string();
        assert!(said.contains("00000-00000.rows"), "byte {at}: {said}");
    }
}
