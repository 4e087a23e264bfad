//! The ledger counts conversations that are left out: each is a document that is skipped, however it is read.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, ChatConfig, Config, OnError, OrAuto, Oversize, PackRule, Samples, ShuffleRule, SourceConfig,
    SourceKind, TokenCacheConfig, TokenizerKind, Truncate,
};
use millstream::cursor::SourceLedger;
use millstream::prepare::prepare;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Loader};
use proptest::prelude::*;

use crate::chats_in_files::{Chat, TEMPLATES, chats, samples, written};
use crate::corpus::{block_on, configs, read, reread};

/// What gives the documents' ids.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Files,
    Cache,
    Shards,
    Global,
}

/// The longest record that is read, in bytes.
const MOST_BYTES: usize = 400;

/// A file of numbered conversations, some broken records behind them, and a config that reads it.
fn config(directory: &Path, chats: &[Chat], broken: usize, samples: Samples, mut config: Config) -> Config {
    let truncate = if config.seed.is_multiple_of(2) { Truncate::Drop } else { Truncate::Turns };
    let chat = ChatConfig { samples, truncate, ..TEMPLATES[0].chat(directory) };
    let source = written(SourceKind::Jsonl, directory, chats).with_chat(chat);
    let path = directory.join("chats.jsonl");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let numbered = |(number, line): (usize, &str)| format!("{{\"number\": {number}, {}\n", &line[1..]);
    let mut text: String = text.lines().enumerate().map(numbered).collect();
    (0..broken).for_each(|_| text.push_str("{broken\n"));
    std::fs::write(&path, text).expect("it can be written");
    config.sources = vec![SourceConfig {
        on_error: OnError::Skip(broken as u64),
        oversize: Oversize::Skip,
        max_document_bytes: ByteCount(MOST_BYTES as u64),
        split: Some(ByteCount(300)),
        ..source
    }];
    config.tokenizer.kind = TokenizerKind::Bytes;
    config.pipeline.seq_len *= 8;
    config
}

/// The same documents, read in another way.
fn read_as(way: Way, directory: &Path, mut config: Config) -> Config {
    let source = &mut config.sources[0];
    match way {
        Way::Files => {}
        Way::Cache => {
            let (path, limit) = (directory.join("cache"), ByteCount::mib(64));
            source.cache = Some(TokenCacheConfig { path, limit });
        }
        Way::Shards | Way::Global => {
            let shards = directory.join("shards");
            let (columns, filter) = (source.columns.clone(), source.filter.take());
            block_on(prepare(&config, &shards, |_| ())).expect("prepared");
            let source = SourceConfig::shards(shards.display().to_string());
            config.sources = vec![SourceConfig { columns, filter, ..source }];
            if way == Way::Global {
                (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
                config.pipeline.shuffle_splits = true;
            }
        }
    }
    config
}

/// How many documents the records have, without those that `where` leaves out, and how many of them every side of a
/// hold-out counts: records that are too long, and those whose columns cannot be read.
fn documents(chats: &[Chat], broken: usize, samples: Samples, from: usize) -> (u64, u64) {
    let numbered = |(number, chat): (usize, &Chat)| {
        format!("{{\"number\": {number}, {}", &chat.record().to_string()[1..])
    };
    let is_long = |record: (usize, &Chat)| numbered(record).len() > MOST_BYTES;
    let long = chats.iter().enumerate().filter(|record| is_long(*record)).count();
    let others = chats.iter().enumerate().skip(from).filter(|record| !is_long(*record));
    let others = others.map(|(_, chat)| chat.samples(samples).len().max(1));
    let unreadable = if from > 0 { broken } else { 0 };
    ((others.sum::<usize>() + broken + long) as u64, (long + unreadable) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn each_conversation_is_in_one_number(
        chats in chats(), broken in 0_usize..3, samples in samples(), base in configs(), holdout in 0.2..0.6_f64,
        way in prop::sample::select(vec![Way::Files, Way::Cache, Way::Shards, Way::Global]),
        from in prop_oneof![Just(0), 1_usize..5],
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        // Without columns, a record that cannot be rendered is on one side of a hold-out; token shards do not know on which.
        let is_stored = matches!(way, Way::Shards | Way::Global);
        let broken = if is_stored && from == 0 { 0 } else { broken };
        let mut text = config(directory.path(), &chats, broken, samples, base);
        text.pipeline.holdout = holdout;
        if from > 0 {
            let source = &mut text.sources[0];
            (source.columns, source.filter) = (vec!["number".to_owned()], Some(format!("number >= {from}")));
        }
        let config = read_as(way, directory.path(), text.clone());
        let epochs = config.pipeline.epochs.expect("a number");
        let Some((batches, end)) = read(Loader::builder(&config)) else { return Ok(()) };

        // Who reads the files themselves counts the same, after each batch.
        if way != Way::Global {
            let (of_text, end_of_text) = read(Loader::builder(&text)).expect("it has batches");
            prop_assert_eq!(&end, &end_of_text);
            for (batch, of_text) in batches.iter().zip(&of_text) {
                prop_assert_eq!(batch.cursor().ledger(), of_text.cursor().ledger());
            }
        }
        // What the cache has by now is counted as well.
        let (_, again) = read(Loader::builder(&config)).expect("it has batches");
        prop_assert_eq!(&again, &end);

        // Each document is in one number of one side.
        let (all, of_both) = documents(&chats, broken, samples, from);
        let (_, held_out) = read(Loader::builder(&config).with_held_out(true)).expect("it may have no batch");
        let [end_of_one, held_out] = [&end, &held_out].map(|ledger| ledger.sources[0].1);
        let of_each = [end_of_one.skipped / epochs, held_out.skipped];
        prop_assert!(of_each.iter().all(|skipped| *skipped >= of_both), "{of_both} {:?} {:?}", end_of_one, held_out);
        prop_assert_eq!(end_of_one.all_documents() % epochs, 0);
        let of_an_epoch = end_of_one.all_documents() / epochs;
        prop_assert_eq!(of_an_epoch + held_out.all_documents(), all + of_both, "{:?} {:?}", end_of_one, held_out);

        // Who resumes goes on counting, among the documents of a record as well.
        for batch in &batches {
            let (_, again) = read(Loader::builder(&config).with_cursor(reread(batch.cursor()))).expect("it opens");
            prop_assert_eq!(&again, &end);
        }
    }

    #[test]
    fn ranks_count_what_one_process_counts(
        chats in chats(), broken in 0_usize..3, samples in samples(), base in configs(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(directory.path(), &chats, broken, samples, base);
        (config.pipeline.lanes, config.pipeline.batch_size) = (4.into(), 4 * config.pipeline.batch_size);
        let Some((whole, end)) = read(Loader::builder(&config)) else { return Ok(()) };
        let ranks = [0, 1].map(|rank| {
            (config.pipeline.rank, config.pipeline.world) = (Some(rank), Some(2));
            read(Loader::builder(&config)).expect("it has batches")
        });
        let mut sum = SourceLedger::default();
        ranks.iter().for_each(|(_, ledger)| sum += ledger.sources[0].1);
        prop_assert_eq!(sum, end.sources[0].1);
        for (nth, batch) in whole.iter().enumerate() {
            let cursors = ranks.each_ref().map(|(batches, _)| batches[nth].cursor().clone());
            prop_assert_eq!(Cursor::merge(&cursors).expect("of one batch").ledger(), batch.cursor().ledger());
        }
    }
}

/// However many are left out, `on_error` lets as many broken records be skipped as before.
#[test]
fn what_is_left_out_takes_nothing_from_on_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let unanswered = Chat(vec![("user", "nobody answers".to_owned())]);
    let answered = Chat(vec![("user", "one".to_owned()), ("assistant", "two".to_owned())]);
    let chats = [vec![unanswered; 9], vec![answered; 3]].concat();
    let mut base = Config::default();
    (base.pipeline.epochs, base.pipeline.lanes, base.pipeline.pack) = (Some(1), 1.into(), PackRule::BestFit);
    let mut config = config(directory.path(), &chats, 2, Samples::Chat, base);
    let (_, end) = read(Loader::builder(&config)).expect("it has batches");
    assert_eq!((end.sources[0].1.documents, end.sources[0].1.skipped), (3, 9 + 2));
    config.sources[0].on_error = OnError::Skip(1);
    let builder = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
    let read = async { builder.open().await?.try_collect::<Vec<Batch>>().await };
    let error = block_on(read).expect_err("two are broken").to_string();
    assert!(error.contains("the 1 documents that on_error lets"), "{error}");
}

/// Who resumes between two samples of a record does not count again what was left out of it.
#[test]
fn a_sample_that_is_left_out_is_counted_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let turns = ["yes", "no", &"on and on ".repeat(14)];
    let turns = turns.map(|answer| [("user", "and?".to_owned()), ("assistant", answer.to_owned())]);
    let mut base = Config { seed: 0, ..Config::default() };
    (base.pipeline.epochs, base.pipeline.lanes, base.pipeline.pack) = (Some(1), 1.into(), PackRule::Pad);
    (base.pipeline.seq_len, base.pipeline.batch_size, base.pipeline.window) = (20, 1, 1.into());
    let config = config(directory.path(), &vec![Chat(turns.concat()); 2], 0, Samples::Turns, base);
    let (batches, end) = read(Loader::builder(&config)).expect("it has batches");
    assert_eq!((batches.len(), end.sources[0].1.documents, end.sources[0].1.skipped), (4, 4, 2));
    for batch in &batches {
        let (_, again) =
            read(Loader::builder(&config).with_cursor(reread(batch.cursor()))).expect("it opens");
        assert_eq!(again, end, "after batch {}", batch.number());
    }
}
