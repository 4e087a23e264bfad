//! Conversations come from token shards and from the token cache with the masks of the text.

use std::collections::BTreeSet;
use std::fs;

use millstream::config::{
    ByteCount, ChatConfig, Config, OrAuto, PackRule, Samples, ShuffleRule, SourceKind, Task,
    TokenCacheConfig, TurnConfig,
};
use millstream::prepare::{TokenFormat, export, verify_shards};
use millstream::{Batch, Cursor};
use proptest::prelude::*;
use serde_json::json;

use crate::text::{Case, all, assert_same, run};

const TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'assistant' %}[a]{{ m.content }}[/a]\
                        {% else %}[u]{{ m.content }}[/u]{% endif %}{% endfor %}";

/// What a user asks and an assistant answers, a few times.
type Conversation = Vec<(String, String)>;

fn conversations() -> impl Strategy<Value = Vec<Conversation>> {
    let words =
        || prop::sample::select(vec!["", "word", "é", "some more words\nof text"]).prop_map(str::to_owned);
    prop::collection::vec(prop::collection::vec((words(), words()), 1..7), 1..40)
}

fn samples() -> impl Strategy<Value = Samples> {
    prop::sample::select(vec![Samples::Chat, Samples::Turns])
}

/// The conversations in files of a few each, and the config that reads them with bytes as ids.
fn chats(conversations: &[Conversation], samples: Samples) -> Case {
    let line = |conversation: &Conversation| {
        let turns =
            conversation.iter().flat_map(|(user, assistant)| [("user", user), ("assistant", assistant)]);
        let messages: Vec<_> =
            turns.map(|(role, content)| json!({"role": role, "content": content})).collect();
        json!({ "messages": messages }).to_string() + "\n"
    };
    let files: Vec<String> = conversations.chunks(9).map(|some| some.iter().map(line).collect()).collect();
    let mut case = Case::new(&files, |source| {
        (source.kind, source.field, source.task) =
            (SourceKind::Jsonl, Some("messages".to_owned()), Task::Chat);
        source.split = Some(ByteCount(200));
    });
    let template = case.directory.path().join("chat.jinja");
    fs::write(&template, TEMPLATE).expect("written");
    let turn = TurnConfig { begin: "[a]".to_owned(), end: "[/a]".to_owned() };
    case.config.sources[0].chat =
        ChatConfig { template: Some(template), turn: Some(turn), samples, ..ChatConfig::default() };
    (case.config.pipeline.seq_len, case.config.pipeline.pack) = (400, PackRule::Pad);
    case
}

fn cached(case: &Case) -> Config {
    let mut config = case.config.clone();
    let path = case.directory.path().join("cache");
    config.sources[0].cache = Some(TokenCacheConfig { path, limit: ByteCount(1 << 30) });
    config
}

fn assert_same_masks(left: &[Batch], right: &[Batch]) {
    assert_same(left, right);
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.loss_mask(), right.loss_mask());
    }
}

/// Asserts that exactly what an assistant writes is learned from, in rows of one conversation each; of samples of turns
/// only what it writes at the end.
fn assert_learned(batches: &[Batch], samples: Samples) {
    for batch in batches {
        let (mask, len) = (batch.loss_mask(), batch.row(0).len() - 1);
        for row in 0..batch.rows() {
            let ids: Vec<u8> =
                batch.row(row).iter().map(|id| u8::try_from(*id).unwrap_or_default()).collect();
            let mut is_learned = vec![false; ids.len()];
            let places = |mark: &[u8]| -> Vec<usize> {
                (mark.len()..=ids.len()).filter(|end| ids[..*end].ends_with(mark)).collect()
            };
            let (begins, ends) = (places(b"[a]"), places(b"[/a]"));
            let mut turns: Vec<_> = begins.into_iter().zip(ends).collect();
            if samples == Samples::Turns {
                turns.drain(..turns.len().saturating_sub(1));
            }
            turns.into_iter().for_each(|(begin, end)| is_learned[begin..end].fill(true));
            assert_eq!(
                mask[row * len..(row + 1) * len],
                is_learned[1..],
                "{}",
                String::from_utf8_lossy(&ids)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn masks_are_those_of_the_text(
        conversations in conversations(),
        samples in samples(),
        holdout in prop_oneof![Just(0.0), Just(0.4)],
        around: [bool; 2],
        pack in prop::sample::select(vec![PackRule::Concat, PackRule::Pad, PackRule::BestFit]),
    ) {
        let mut case = chats(&conversations, samples);
        case.put_around(around);
        (case.config.pipeline.holdout, case.config.pipeline.pack) = (holdout, pack);
        case.prepare().expect("prepared");
        let Ok(text) = all(&case.config, None) else {
            // All conversations may be held out.
            prop_assert!(all(&case.sharded(), None).is_err());
            return Ok(());
        };
        if pack == PackRule::Pad {
            assert_learned(&text, samples);
        }
        let shards = all(&case.sharded(), None).expect("shards");
        assert_same_masks(&text, &shards);
        // The first run fills the cache, the second reads from it.
        for _ in 0..2 {
            assert_same_masks(&text, &all(&cached(&case), None).expect("cached"));
        }
        for batch in text.iter().step_by(5) {
            let rest = &text[batch.number() as usize + 1..];
            for config in [case.config.clone(), case.sharded(), cached(&case)] {
                assert_same_masks(rest, &all(&config, Some(batch.cursor())).expect("the rest"));
            }
        }
        run(verify_shards(&case.config, &case.shards())).expect("whole");
    }

    #[test]
    fn conversations_shuffled_all_together_keep_their_masks(
        conversations in conversations(),
        samples in samples(),
    ) {
        let case = chats(&conversations, samples);
        case.prepare().expect("prepared");
        let mut sharded = case.sharded();
        (sharded.pipeline.shuffle, sharded.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
        let batches = all(&sharded, None).expect("shards");
        assert_learned(&batches, samples);
        assert_same_masks(&batches[1..], &all(&sharded, Some(batches[0].cursor())).expect("the rest"));
    }
}

fn some() -> Case {
    let turns = |n: usize| vec![("a question".to_owned(), "an answer, ".repeat(n % 5 + 1)); n % 3 + 1];
    chats(&(0..40).map(turns).collect::<Vec<_>>(), Samples::Chat)
}

/// How many documents of a record each lane of a cursor has had, if there are more.
fn within_records(cursor: &Cursor) -> Vec<u64> {
    let lanes = (0..cursor.lanes()).filter_map(|lane| cursor.lane(lane));
    lanes.map(|lane| lane.sources[0].at.sample).filter(|sample| *sample > 0).collect()
}

/// A conversation may be longer than what is read of stored tokens at a time.
#[test]
fn a_resume_within_a_record_goes_on_with_its_next_sample() {
    for answer in ["an answer".to_owned(), "a long answer, ".repeat(200)] {
        let turn = |turn: usize| (format!("question {turn}"), answer.clone());
        let conversations: Vec<Conversation> =
            (0..30).map(|n| (10 * n..=10 * n + n % 6).map(turn).collect()).collect();
        let mut case = chats(&conversations, Samples::Turns);
        let pipeline = &mut case.config.pipeline;
        (pipeline.pack, pipeline.window, pipeline.batch_size) = (PackRule::Concat, 2.into(), 1);
        (pipeline.epochs, pipeline.seq_len, pipeline.lanes) = (Some(1), 8 * answer.len(), 1.into());
        pipeline.memory = ByteCount(700 << 10);
        case.prepare().expect("prepared");
        let text = all(&case.config, None).expect("text");
        let within: BTreeSet<u64> = text.iter().flat_map(|batch| within_records(batch.cursor())).collect();
        assert!(within.len() >= 4, "{within:?}");
        all(&cached(&case), None).expect("the cache is filled");
        for batch in &text {
            let rest = &text[batch.number() as usize + 1..];
            for config in [&case.config, &case.sharded(), &cached(&case)] {
                assert_same_masks(rest, &all(config, Some(batch.cursor())).expect("the rest"));
            }
        }
    }
}

/// A cursor that was edited may name a sample that is not there.
#[test]
fn a_sample_that_is_not_there_is_refused() {
    let conversations: Vec<Conversation> =
        (0..20).map(|n| vec![(format!("question {n}"), "an answer".to_owned()); 3]).collect();
    let lines = (0..400).map(|n| format!("line {n}\n")).collect();
    for (mut case, documents) in
        [(chats(&conversations, Samples::Turns), 3_u64), (Case::new(&[lines], |_| {}), 1)]
    {
        let pipeline = &mut case.config.pipeline;
        (pipeline.lanes, pipeline.window, pipeline.batch_size) = (1.into(), 1.into(), 1);
        case.prepare().expect("prepared");
        let batch = all(&case.config, None).expect("text").swap_remove(1);
        let mut cursor = serde_json::to_value(batch.cursor()).expect("JSON");
        cursor.as_object_mut().expect("a cursor").remove("checksum");
        for sample in [documents, 1000, (1 << 53) - 1] {
            cursor["lanes"][0]["sources"][0]["at"]["sample"] = sample.into();
            let cursor = serde_json::from_value(cursor.clone()).expect("a cursor");
            for config in [&case.config, &case.sharded()] {
                let error = all(config, Some(&cursor)).expect_err("a refusal").to_string();
                assert!(error.contains(&format!("no more than {sample} documents begin there")), "{error}");
            }
        }
    }
}

#[test]
fn conversations_and_texts_are_read_as_one_source() {
    let mut case = some();
    let mut texts = case.config.sources[0].clone();
    let path = case.directory.path().join("plain.md");
    fs::write(&path, "a line of text\n".repeat(60)).expect("written");
    (texts.kind, texts.field, texts.task) = (SourceKind::Text, None, Task::Text);
    (texts.chat, texts.paths) = (ChatConfig::default(), vec![path.display().to_string()]);
    (case.config.sources[0].name, texts.name) = (Some("chats".to_owned()), Some("texts".to_owned()));
    case.config.sources.push(texts);
    case.prepare().expect("prepared");
    for shuffle in [ShuffleRule::Window, ShuffleRule::Global] {
        let mut sharded = case.sharded();
        (sharded.pipeline.shuffle, sharded.pipeline.window) = (shuffle, OrAuto::Auto);
        sharded.pipeline.epochs = Some(1);
        // A text has a token behind it, and all of it is learned from. A conversation has none but its own.
        let (mut texts, mut chats) = (0, 0);
        for batch in all(&sharded, None).expect("shards") {
            let (mask, len) = (batch.loss_mask(), batch.row(0).len() - 1);
            for piece in batch.pieces() {
                let (row, from, to) = (piece.row as usize, piece.from as usize, piece.to as usize);
                let (ids, learned) = (&batch.row(row)[from..to], &mask[row * len + from..row * len + to - 1]);
                match ids[0] == u32::from(b'[') {
                    true => {
                        chats += 1;
                        assert!(ids.last() == Some(&u32::from(b']')) && learned.contains(&false));
                    }
                    false => {
                        texts += 1;
                        assert!(ids.last() == Some(&256) && learned.iter().all(|is_learned| *is_learned));
                    }
                }
            }
        }
        assert_eq!((texts, chats), (60, 40));
    }
}

#[test]
fn files_that_cannot_say_what_is_learned_from_are_not_written() {
    let case = some();
    case.prepare().expect("prepared");
    let out = case.directory.path().join("out.bin");
    for format in [TokenFormat::NanoGpt, TokenFormat::Megatron] {
        let error = export(&case.shards(), format, &out, Some(256)).expect_err("refused").to_string();
        assert!(error.starts_with(&case.shards().display().to_string()), "{error}");
        assert!(error.contains("some of its ids are not learned from") && !out.exists(), "{error}");
    }
}

#[test]
fn another_template_is_another_corpus() {
    let mut case = some();
    case.prepare().expect("prepared");
    let template = case.config.sources[0].chat.template.clone().expect("a template");
    let moved = case.directory.path().join("moved.jinja");
    fs::rename(&template, &moved).expect("moved");
    case.config.sources[0].chat.template = Some(moved.clone());
    assert_eq!(case.prepare().expect("the same template").documents, 0);
    fs::write(&moved, TEMPLATE.replace("[u]", "[user]")).expect("written");
    let error = case.prepare().expect_err("another template").to_string();
    assert!(error.contains("it has the tokens of another chat template or other settings of it"), "{error}");
}
