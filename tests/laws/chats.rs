//! The laws over conversations, in files of every kind that has records.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, ChatConfig, Config, PackRule, Samples, SourceConfig, SourceKind, Task, TokenizerConfig,
};
use millstream::prepare::prepare;
use millstream::{Batch, Error, Loader, Result};
use proptest::prelude::*;

use crate::chats_in_files::{Chat, KINDS, TEMPLATES, chats, samples, written};
use crate::corpus::{all, all_of, block_on, builder, configs, digests, resumes, resumes_of, worlds_agree};
use crate::order::deliveries;

/// A config that reads conversations of one kind, with rows that hold most of them.
fn config(
    config: Config,
    kind: SourceKind,
    directory: &std::path::Path,
    chats: &[Chat],
    samples: Samples,
) -> Config {
    let chat = ChatConfig { samples, ..TEMPLATES[0].chat(directory) };
    let mut config = Config { sources: vec![written(kind, directory, chats).with_chat(chat)], ..config };
    config.pipeline.seq_len *= 8;
    config
}

/// A question and its answer.
fn answered(n: usize) -> Chat {
    Chat(vec![("user", format!("question {n}")), ("assistant", format!("answer {n}"))])
}

/// One to six questions and their answers.
fn talk(n: usize) -> Chat {
    Chat((0..=n % 6).flat_map(|turn| answered(10 * n + turn).0).collect())
}

fn kinds() -> impl Strategy<Value = SourceKind> {
    prop::sample::select(KINDS.to_vec())
}

/// Whether nothing of the conversations fits, or is learned from.
fn is_nothing(batches: &Result<Vec<Batch>>) -> bool {
    matches!(batches, Err(Error::Corpus { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn order_does_not_depend_on_what_runs_ahead(
        kind in kinds(), samples in samples(), chats in chats(), base in configs(),
        workers in 1_usize..9, memory in 300_u64..2000,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(base, kind, directory.path(), &chats, samples);
        let expected = block_on(all(&config));
        prop_assume!(!is_nothing(&expected));
        (config.pipeline.workers, config.pipeline.memory) = (workers.into(), ByteCount(memory << 10));
        let batches = block_on(all(&config)).expect("no errors");
        prop_assert_eq!(digests(&batches), digests(&expected.expect("no errors")));
    }

    #[test]
    fn resume_is_exact_at_every_batch(
        kind in kinds(), samples in samples(), chats in chats(), base in configs(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(base, kind, directory.path(), &chats, samples);
        prop_assume!(!is_nothing(&block_on(all(&config))));
        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn ranks_make_the_rows_of_one_process(
        kind in kinds(), samples in samples(), chats in chats(), base in configs(),
        worlds in prop::sample::subsequence(vec![1_usize, 2, 3, 6], 2).prop_shuffle(), cut in 1_usize..5,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(base, kind, directory.path(), &chats, samples);
        (config.pipeline.lanes, config.pipeline.batch_size) = (6.into(), 6 * config.pipeline.batch_size);
        let one = block_on(all(&config));
        prop_assume!(!is_nothing(&one));
        block_on(worlds_agree(&config, builder, &one.expect("no errors"), &worlds, cut))?;
    }

    #[test]
    fn every_conversation_that_is_learned_from_comes_once_an_epoch(
        kind in kinds(), samples in samples(), chats in chats(), base in configs(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(base, kind, directory.path(), &chats, samples);
        config.pipeline.pack = PackRule::Concat;
        let batches = block_on(all(&config));
        let mut found: Vec<String> = match is_nothing(&batches) {
            true => Vec::new(),
            false => deliveries(&batches.expect("no errors")).into_iter().map(|(.., text)| text).collect(),
        };
        let epochs = config.pipeline.epochs.expect("a number") as usize;
        let texts = chats.iter().flat_map(|chat| chat.samples(samples)).map(|chat| TEMPLATES[0].text(&chat));
        let mut expected: Vec<String> = texts.flat_map(|text| vec![text; epochs]).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_same_records_are_held_out_whatever_the_template(
        kind in kinds(), samples in samples(), chats in chats(), base in configs(), holdout in 0.1..0.9_f64,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config(base, kind, directory.path(), &chats, samples);
        (config.pipeline.pack, config.pipeline.holdout) = (PackRule::Concat, holdout);
        config.pipeline.epochs = Some(1);
        let mut found = Vec::new();
        for template in TEMPLATES {
            config.sources[0].chat = ChatConfig { samples, ..template.chat(directory.path()) };
            let sides = [false, true].map(|held_out| {
                let batches = block_on(all_of(builder(&config).with_held_out(held_out)));
                let batches = if is_nothing(&batches) { Vec::new() } else { batches.expect("no errors") };
                let deliveries = deliveries(&batches);
                deliveries.into_iter().map(|(_, byte, _)| byte).collect::<BTreeSet<u64>>()
            });
            prop_assert!(sides[0].is_disjoint(&sides[1]));
            let learned = chats.iter().filter(|chat| chat.is_learned()).count();
            prop_assert_eq!(sides[0].len() + sides[1].len(), learned);
            found.push(sides);
        }
        prop_assert_eq!(&found[0], &found[1]);
    }
}

/// A cursor names the template that it was made with, by its text.
#[test]
fn a_cursor_of_another_template_is_refused_and_a_moved_one_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let chats: Vec<Chat> = (0..40).map(answered).collect();
    let mut config = config(Config::default(), SourceKind::Jsonl, directory.path(), &chats, Samples::Chat);
    let open = async |config: &Config, cursor| {
        builder(config).with_cursor(cursor).open().await.map(|loader| loader.start().batch())
    };
    block_on(async {
        let cursor = builder(&config).open().await.expect("it opens").start().clone();
        let moved = directory.path().join("moved.jinja");
        let template = config.sources[0].chat.template.replace(moved.clone()).expect("a template");
        std::fs::rename(template, moved).expect("it moves");
        open(&config, cursor.clone()).await.expect("the same template");
        config.sources[0].chat = TEMPLATES[1].chat(directory.path());
        match open(&config, cursor).await {
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("the template of `source.0.chat.template` is another one"), "{said}");
                assert!(!said.contains("rendering"), "{said}");
            }
            Ok(batch) => panic!("{batch}"),
        }
    });
}

/// Texts in memory are records too.
#[test]
fn records_in_memory_are_rendered() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut chats: Vec<Chat> = (0..20).map(talk).collect();
    chats.push(Chat(vec![("user", "nobody answers".to_owned())]));
    let mut like =
        written(SourceKind::Jsonl, directory.path(), &chats).with_chat(TEMPLATES[0].chat(directory.path()));
    let mut config = Config::default();
    (config.pipeline.epochs, config.pipeline.seq_len) = (Some(1), 64);
    let builder = |records: Vec<String>, like: &SourceConfig| {
        let source = SourceConfig { field: None, ..SourceConfig::records(records) };
        let source = source.with_task(Task::Chat).with_chat(like.chat.clone());
        builder(&config.clone().with_source(source))
    };
    let records: Vec<String> = chats.iter().map(|chat| chat.record().to_string()).collect();
    for samples in [Samples::Chat, Samples::Turns] {
        like.chat.samples = samples;
        let batches = block_on(all_of(builder(records.clone(), &like))).expect("no errors");
        let mut found: Vec<String> = deliveries(&batches).into_iter().map(|(.., text)| text).collect();
        let expected = chats.iter().flat_map(|chat| chat.samples(samples));
        let mut expected: Vec<String> = expected.map(|chat| TEMPLATES[0].text(&chat)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    let broken = [records, vec!["{\"messages\": 7}".to_owned()]].concat();
    let error = block_on(all_of(builder(broken, &like))).expect_err("a refusal").to_string();
    assert!(error.starts_with("texts (row 21): "), "{error}");
}

/// Token shards of conversations: the same batches, the same hold-out, and rows of the same width.
#[test]
fn prepared_conversations_are_those_of_the_files() {
    let chats: Vec<Chat> = (0..60).map(talk).collect();
    for (kind, samples) in [
        (SourceKind::Jsonl, Samples::Chat),
        (SourceKind::Jsonl, Samples::Turns),
        (SourceKind::Parquet, Samples::Turns),
        (SourceKind::Tar, Samples::Chat),
    ] {
        for pack in [PackRule::Concat, PackRule::BestFit] {
            let directory = tempfile::tempdir().expect("a directory");
            let mut text = config(Config::default(), kind, directory.path(), &chats, samples);
            text.tokenizer = TokenizerConfig::bytes();
            let pipeline = &mut text.pipeline;
            (pipeline.pack, pipeline.seq_len, pipeline.epochs) = (pack, 256, Some(1));
            (pipeline.holdout, pipeline.lanes) = (0.4, 2.into());
            let shards = directory.path().join("shards");
            block_on(prepare(&text, &shards, |_| {})).expect("they are prepared");
            let stored = SourceConfig::shards(shards.display().to_string());
            let stored = Config { sources: vec![stored], ..text.clone() };
            let batches = |config: &Config, held_out: bool| -> Vec<Batch> {
                block_on(all_of(Loader::builder(config).with_held_out(held_out))).expect("no errors")
            };
            for held_out in [false, true] {
                let [of_text, of_shards] = [&text, &stored].map(|config| batches(config, held_out));
                assert_eq!(digests(&of_text), digests(&of_shards), "{kind} {pack}");
                assert!(!of_text.is_empty());
            }
            // A cursor of one goes on with the other.
            let whole = batches(&text, false);
            for batch in whole.iter().take(12) {
                let rest = async { Loader::resume(&stored, batch.cursor()).await?.try_collect().await };
                let rest: Vec<Batch> = block_on(rest).expect("the same order");
                assert_eq!(digests(&rest), digests(&whole[batch.number() as usize + 1..]), "{kind} {pack}");
            }

            let other = if pack == PackRule::Concat { PackRule::Pad } else { PackRule::Concat };
            let mut changed = stored.clone();
            changed.pipeline.pack = other;
            let error = block_on(Loader::open(&changed)).expect_err("other rows").to_string();
            assert!(error.starts_with("source.0.paths: the conversations of "), "{error}");
            text.pipeline.pack = other;
            let error = block_on(prepare(&text, &shards, |_| {})).expect_err("other rows").to_string();
            assert!(error.contains("fitted into other rows"), "{error}");
        }
    }
}

/// What is drawn follows from the seed and from where a text stands.
#[test]
fn holes_are_drawn_from_the_seed_of_the_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines: String = (0..200).map(|n| format!("line {n} with a few words that may move\n")).collect();
    std::fs::write(directory.path().join("a.txt"), lines).expect("a file");
    let mut config = Config::default();
    let ranks = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizers/ranks.tiktoken");
    let holes = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];
    config.tokenizer = TokenizerConfig {
        pattern: Some("cl100k_base".to_owned()),
        special: (100_000..).zip(holes).map(|(id, name)| (name.to_owned(), id)).collect(),
        ..TokenizerConfig::file(ranks)
    };
    let source = SourceConfig::text(directory.path().join("a.txt").display().to_string());
    config.sources = vec![source.with_task(Task::Fim)];
    // The order of the documents does not depend on the seed.
    (config.pipeline.shuffle_splits, config.pipeline.window, config.pipeline.lanes) =
        (false, 1.into(), 2.into());
    (config.pipeline.epochs, config.pipeline.seq_len, config.pipeline.batch_size) = (Some(2), 32, 4);
    assert_eq!(block_on(resumes_of(|| Loader::builder(&config), usize::MAX)), Ok(()));
    let digests = |config: &Config| digests(&block_on(all_of(Loader::builder(config))).expect("no errors"));
    let whole = digests(&config);
    let seeded = Config { seed: 7, ..config.clone() };
    assert_ne!(digests(&seeded), whole);
    let mut fixed = seeded.clone();
    fixed.sources[0].seed = Some(config.seed);
    assert_eq!(digests(&fixed), whole);
}
