//! Token shards that lie on a server: the batches are those of the shards on disk and of the text.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use millstream::Cursor;
use millstream::config::{
    ByteCount, ChatConfig, Config, OrAuto, PackRule, ShuffleRule, SourceConfig, SourceKind, Task, TurnConfig,
};
use millstream::prepare::{prepare, verify_shards};
use proptest::prelude::*;

use super::corpus::{
    assert_resumes, batches, block_on, chain, config, fault, files, lines, open, rows, write,
};
use crate::support::server::{Content, Fault, Server};

/// A corpus, its shards, and a server that has the shards.
struct Case {
    directory: tempfile::TempDir,
    text: Config,
    server: Server,
}

impl Case {
    fn new(counts: &[usize]) -> Self {
        Self::of(counts, |_| {})
    }

    fn of(counts: &[usize], change: impl Fn(&mut Config)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &files(counts));
        let mut text = config(lines(vec![format!("{}/**/*.txt", directory.path().display())]));
        text.tokenizer.kind = millstream::config::TokenizerKind::Bytes;
        change(&mut text);
        Self::prepared(directory, text)
    }

    /// A config's shards in a directory, and on a server.
    fn prepared(directory: tempfile::TempDir, text: Config) -> Self {
        let shards = directory.path().join("shards");
        block_on(prepare(&text, &shards, |_| {})).expect("prepared");
        let entries = std::fs::read_dir(&shards).expect("shards").flatten();
        let served = entries.map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (format!("far/{name}"), Content::new(std::fs::read(entry.path()).expect("a file")))
        });
        Self { server: Server::new(served.collect::<Vec<_>>()), directory, text }
    }

    /// The config that reads the shards at this place.
    fn shards(&self, place: String) -> Config {
        let source = SourceConfig { kind: SourceKind::Shards, paths: vec![place], ..SourceConfig::default() };
        Config { sources: vec![source], ..self.text.clone() }
    }

    fn far(&self) -> Config {
        self.shards(self.server.url("far"))
    }

    fn near(&self) -> Config {
        self.shards(self.path("shards").display().to_string())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn batches_are_those_of_the_shards_on_disk_and_of_the_text(
        counts in prop::collection::vec(0_usize..900, 1..7),
        faults in prop::collection::vec(fault(), 1..12),
        split in prop::sample::select(vec![700_u64, 20_000, 1 << 20]),
        window in prop::sample::select(vec![1_usize, 50]),
        memory in 500_u64..4000,
        block in 4_u64..64,
    ) {
        prop_assume!(counts.iter().any(|&count| count > 0));
        let case = Case::of(&counts, |text| {
            text.sources[0].split = Some(ByteCount(split));
            text.pipeline.window = window.into();
        });
        let expected = block_on(batches(&case.text)).expect("no errors");
        let near = block_on(batches(&case.near())).expect("no errors");
        let mut far = case.far();
        far.pipeline.memory = ByteCount(memory << 10);
        far.store.block = ByteCount(block << 10);
        let nth = AtomicUsize::new(0);
        let faults = [faults, vec![Fault::Nothing]].concat();
        case.server.with_faults(move |_| faults[nth.fetch_add(1, Ordering::SeqCst) % faults.len()]);
        let found = block_on(batches(&far)).expect("no errors");
        prop_assert_eq!(rows(&found), rows(&expected));
        prop_assert_eq!(rows(&near), rows(&expected));
        let cursors = |batches: &[millstream::Batch]| -> Vec<Cursor> {
            batches.iter().map(|batch| batch.cursor().clone()).collect()
        };
        prop_assert_eq!(cursors(&found), cursors(&near));
    }
}

#[test]
fn masks_come_with_the_ids() {
    let directory = tempfile::tempdir().expect("a directory");
    let line = |n: usize| {
        let turn = |role, words| format!(r#"{{"role": "{role}", "content": "{}"}}"#, "word ".repeat(words));
        let [asked, answered] = [turn("user", n % 7), turn("assistant", n % 11)];
        format!("{{\"messages\": [{asked}, {answered}, {asked}, {answered}]}}\n")
    };
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}";
    let files = [
        ("chats.jsonl".to_owned(), (0..2000).map(line).collect::<String>().into_bytes()),
        ("chat.jinja".to_owned(), template.as_bytes().to_vec()),
    ];
    write(directory.path(), &files);
    let path = |name: &str| directory.path().join(name);
    let mut text = config(lines(vec![path("chats.jsonl").display().to_string()]));
    text.tokenizer.kind = millstream::config::TokenizerKind::Bytes;
    (text.pipeline.seq_len, text.pipeline.pack) = (400, PackRule::BestFit);
    let source = &mut text.sources[0];
    (source.kind, source.field, source.task) = (SourceKind::Jsonl, Some("messages".to_owned()), Task::Chat);
    // Each part of a split has many blocks.
    source.split = Some(ByteCount(1 << 20));
    let turn = TurnConfig { begin: "<assistant>".to_owned(), end: "</>".to_owned() };
    source.chat =
        ChatConfig { template: Some(path("chat.jinja")), turn: Some(turn), ..ChatConfig::default() };
    let case = Case::prepared(directory, text);
    let masks = |config: &Config| -> Vec<(Vec<u32>, Vec<bool>)> {
        let batches = block_on(batches(config)).expect("no errors");
        batches.iter().map(|batch| (batch.ids().to_vec(), batch.loss_mask())).collect()
    };
    let expected = masks(&case.text);
    assert!(expected.iter().all(|(_, mask)| mask.contains(&true) && mask.contains(&false)));
    assert!(masks(&case.near()) == expected && masks(&case.far()) == expected);
    let [mut near, mut far] = [case.near(), case.far()];
    [&mut near, &mut far].into_iter().for_each(shuffle_globally);
    let near = masks(&near);
    assert!(near != expected && masks(&far) == near);
}

#[test]
fn resuming_inside_them_is_exact() {
    for window in [1_usize, 50] {
        let case = Case::of(&[700, 40, 900, 3], |text| {
            text.pipeline.batch_size = 40;
            text.pipeline.window = window.into();
        });
        assert_resumes(&case.far(), 40);
    }
}

fn shuffle_globally(config: &mut Config) {
    (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn all_documents_shuffled_together_are_those_of_the_shards_on_disk(
        counts in prop::collection::vec(1_usize..300, 1..5),
        faults in prop::collection::vec(fault(), 1..12),
        split in prop::sample::select(vec![700_u64, 20_000, 1 << 20]),
        memory in 500_u64..4000,
        holdout in prop::sample::select(vec![0.0, 0.3]),
    ) {
        let case = Case::of(&counts, |text| {
            text.sources[0].split = Some(ByteCount(split));
            shuffle_globally(text);
            text.pipeline.holdout = holdout;
        });
        let near = block_on(batches(&case.near())).expect("no errors");
        let mut far = case.far();
        far.pipeline.memory = ByteCount(memory << 10);
        let nth = AtomicUsize::new(0);
        let faults = [faults, vec![Fault::Nothing]].concat();
        case.server.with_faults(move |_| faults[nth.fetch_add(1, Ordering::SeqCst) % faults.len()]);
        let found = block_on(batches(&far)).expect("no errors");
        prop_assert_eq!(rows(&found), rows(&near));
        let cursors = |batches: &[millstream::Batch]| -> Vec<Cursor> {
            batches.iter().map(|batch| batch.cursor().clone()).collect()
        };
        prop_assert_eq!(cursors(&found), cursors(&near));
    }
}

#[test]
fn shuffled_together_they_resume_and_come_from_a_cache_the_second_time() {
    let case = Case::of(&[700, 40, 900, 3], |text| {
        text.pipeline.batch_size = 40;
        shuffle_globally(text);
    });
    assert_resumes(&case.far(), 40);
    let mut far = case.far();
    far.store.cache = Some(case.path("cache"));
    let first = rows(&block_on(batches(&far)).expect("no errors"));
    let asked =
        || case.server.requests().into_iter().filter(|request| request.path.ends_with(".tokens")).count();
    let before = asked();
    assert_eq!(rows(&block_on(batches(&far)).expect("no errors")), first);
    // What was being kept when the first loader ended may have been lost.
    let again = asked();
    assert!(20 * again < before, "{again} requests after {before}, although all is in the cache");
}

#[test]
fn damage_to_one_of_all_documents_is_found() {
    let case = Case::of(&[400, 400], shuffle_globally);
    let segment = std::fs::read(case.path("shards/00000000.tokens")).expect("a segment");
    // Of the first ids, and of what lies somewhere among the splits.
    for byte in [100, segment.len() / 3] {
        let mut damaged = segment.clone();
        damaged[byte] ^= 1;
        case.server.set("far/00000000.tokens", Content::new(damaged.clone()));
        std::fs::write(case.path("shards/00000000.tokens"), damaged).expect("written");
        for config in [case.far(), case.near()] {
            let said = chain(&block_on(batches(&config)).map(drop).expect_err("an error"));
            assert!(
                said.contains("/00000000.tokens (byte ")
                    && said.contains("): the block there does not have its checksum; remove the file"),
                "byte {byte}: {said}"
            );
        }
    }
}

#[test]
fn only_what_is_read_is_fetched_and_a_cache_keeps_it() {
    // Splits of a megabyte, in one segment.
    let case = Case::of(&[9000, 9000, 9000, 9000], |text| {
        text.sources[0].split = Some(ByteCount(100_000));
        (text.pipeline.epochs, text.pipeline.holdout) = (Some(1), 0.0);
    });
    let segments: u64 = std::fs::read_dir(case.path("shards"))
        .expect("shards")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "tokens"))
        .map(|entry| entry.metadata().expect("a file").len())
        .sum();
    let mut far = case.far();
    far.store.block = ByteCount(64 << 10);
    far.store.cache = Some(case.path("cache"));
    far.pipeline.memory = ByteCount(1 << 20);
    let fetched = || -> u64 {
        let of_segments =
            case.server.requests().into_iter().filter(|request| request.path.ends_with(".tokens"));
        of_segments.filter_map(|request| request.range(usize::MAX)).map(|(from, to)| (to - from) as u64).sum()
    };
    block_on(async {
        let mut loader = open(&far, None).await.expect("it opens");
        for _ in 0..3 {
            loader.try_next().await.expect("no error").expect("a batch");
        }
    });
    let few = fetched();
    assert!(0 < few && few < segments / 2, "{few} of {segments} bytes for three batches");
    let first = rows(&block_on(batches(&far)).expect("no errors"));
    let all = fetched();
    assert!(all < segments + segments / 4, "{all} bytes of {segments} for all batches");
    assert_eq!(rows(&block_on(batches(&far)).expect("no errors")), first);
    let again = fetched();
    assert!(again < segments / 8, "{again} of {segments} bytes although they are in the cache");
}

#[test]
fn what_is_wrong_with_them_is_said_with_the_place() {
    let case = Case::new(&[400, 400]);
    let error = |config: &Config| chain(&block_on(batches(config)).expect_err("an error"));
    let said = error(&case.shards(case.server.url("nowhere")));
    assert!(said.contains("nowhere/manifest.json: there is no manifest of token shards"), "{said}");

    let segment = std::fs::read(case.path("shards/00000000.tokens")).expect("a segment");
    let set = |bytes: Vec<u8>| case.server.set("far/00000000.tokens", Content::new(bytes));
    let mut damaged = segment.clone();
    damaged[100] ^= 1;
    set(damaged);
    let said = error(&case.far());
    assert!(
        said.contains("far/00000000.tokens (byte 64): the block there does not have its checksum"),
        "{said}"
    );
    set(segment[..segment.len() - 8].to_vec());
    let said = error(&case.far());
    assert!(
        said.contains("far/00000000.tokens: it has") && said.contains("the list of segments says"),
        "{said}"
    );
    set(segment.clone());
    block_on(batches(&case.far())).expect("no errors");

    case.server.set("far/segments.json", Content::new(b"{}".to_vec()));
    let said = error(&case.far());
    assert!(said.contains("far/segments.json: this is not a list of segments: missing field"), "{said}");
    let written = case.shards(case.path("shards").display().to_string());
    block_on(verify_shards(&written, Path::new(&case.path("shards")))).expect("whole");
}
