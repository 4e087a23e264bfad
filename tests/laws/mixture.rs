//! Several sources: shares, changes on the way, sources that come later, and what is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures::TryStreamExt;
use millstream::config::{
    ByteCount, Config, ExcludedDocument, MixtureChange, SampleConfig, SourceConfig, SourceKind,
    TokenizerKind, Uneven,
};
use millstream::cursor::Event;
use millstream::document::ColumnValue;
use millstream::prepare::prepare;
use millstream::{Batch, Cursor, Error};
use proptest::prelude::*;

use crate::corpus::{all, block_on, configs, corpora, lines, mixed, open, ranks, reread, resumes};

/// Sources `a`, `b` and so on, each a file of as many lines as it is given.
fn sources(directory: &Path, counts: &[usize]) -> Config {
    let mut config = lines(directory, 1);
    config.sources = Vec::new();
    for (index, count) in counts.iter().enumerate() {
        let name = char::from(b'a' + index as u8).to_string();
        let text: String = (0..*count).map(|line| format!("line {line} of {name}\n")).collect();
        let path = directory.join(format!("{name}.txt"));
        std::fs::write(&path, text).expect("a file");
        let paths = vec![path.display().to_string()];
        config.sources.push(SourceConfig {
            name: Some(name),
            paths,
            split: Some(ByteCount::mib(64)),
            ..SourceConfig::default()
        });
    }
    config
}

/// Which source each row is of; nothing for padding.
fn row_sources(batches: &[Batch]) -> Vec<Option<char>> {
    let mut sources = Vec::new();
    for batch in batches {
        for row in 0..batch.rows() {
            let piece = batch.pieces().iter().find(|piece| piece.row as usize == row);
            let name = piece.and_then(|piece| batch.path(piece).file_stem()?.to_str()?.chars().next());
            sources.push(name);
        }
    }
    sources
}

fn take(config: &Config, from: Option<&Cursor>, batches: usize) -> Vec<Batch> {
    block_on(async {
        let loader = open(config, from).await?;
        futures::StreamExt::take(loader, batches).try_collect().await
    })
    .expect("no errors")
}

fn ids(batches: &[Batch]) -> Vec<Vec<u32>> {
    batches.iter().map(|batch| batch.ids().to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn each_value_of_a_column_is_mixed_as_a_source_of_its_own(
        weights in prop::array::uniform2(1_u32..60), of in 0..4, is_stored: bool, batch_size in 1_usize..5,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let (values, is_plain) = match of {
            0 => (["1", "2.0", "3"], true),
            1 => (["true", "false", "null"], true),
            // Text that looks like something else.
            2 => (["1", "2.0", "true"], false),
            _ => (["en", "d\"e.x'/y", "fr"], false),
        };
        let literal = |value: &str| if is_plain { value.to_owned() } else { format!("{value:?}") };
        let record = |n: usize| {
            let value = literal(values[n * n % 7 % 3]);
            format!("{{\"text\": \"record {n}\", \"of\": {{\"x\": {value}}}, \"good\": {}}}\n", !n.is_multiple_of(4))
        };
        std::fs::write(directory.path().join("a.jsonl"), (0..300).map(record).collect::<String>()).expect("a file");
        let path = |name: &str| vec![directory.path().join(name).display().to_string()];
        let text = SourceConfig {
            kind: SourceKind::Jsonl,
            field: Some("text".to_owned()),
            paths: path("a.jsonl"),
            split: Some(ByteCount(900)),
            columns: vec!["of.x".to_owned(), "good".to_owned()],
            ..SourceConfig::default()
        };
        let mut config = Config { sources: vec![text], ..lines(directory.path(), 1) };
        config.tokenizer.kind = TokenizerKind::Bytes;
        if is_stored {
            block_on(prepare(&config, &directory.path().join("shards"), |_| ())).expect("prepared");
            let (kind, columns) = (SourceKind::Shards, config.sources[0].columns.clone());
            config.sources = vec![SourceConfig { kind, paths: path("shards"), columns, ..SourceConfig::default() }];
        }
        config.sources[0].filter = Some("good -- and nothing else".to_owned());
        config.pipeline.epochs = None;
        (config.pipeline.batch_size, config.pipeline.seq_len) = (batch_size, 20);
        let named = |[one, other]: [u32; 2]| {
            let of = [(values[0], one), (values[1], other)];
            of.map(|(value, weight)| (value.to_owned(), f64::from(weight) / 10.0)).into()
        };
        config.mixture.by = Some("of.x".to_owned());
        config.mixture.weights = named(weights);
        let change = (100 / batch_size) as u64;
        config.mixture.changes = vec![MixtureChange { batch: change, weights: named([1, 1]) }];
        let batches = take(&config, None, 300 / batch_size);

        let (mut counts, mut rows) = ([0_u32; 2], 0_u32);
        for batch in &batches {
            if batch.number() == change {
                (counts, rows) = ([0; 2], 0);
            }
            for row in 0..batch.rows() {
                let pieces = batch.pieces().iter().filter(|piece| piece.row as usize == row);
                let of: BTreeSet<String> = pieces
                    .map(|piece| {
                        assert_eq!(batch.column(piece, "good"), Some(&ColumnValue::Bool(true)));
                        batch.column(piece, "of.x").expect("it comes along").to_string()
                    })
                    .collect();
                prop_assert_eq!(of.len(), 1, "{:?}", of);
                let nth = values.iter().position(|value| of.contains(*value)).expect("a value");
                prop_assert!(nth < 2);
                (counts[nth], rows) = (counts[nth] + 1, rows + 1);
                let [one, other] = if batch.number() < change { weights } else { [1, 1] };
                let share = f64::from(rows) * f64::from(one) / f64::from(one + other);
                prop_assert!((f64::from(counts[0]) - share).abs() < 1.01, "{counts:?} {share}");
            }
        }
        let at = batches.len() / 2;
        let rest = take(&config, Some(&reread(batches[at].cursor())), batches.len() - at - 1);
        prop_assert_eq!(ids(&rest), ids(&batches[at + 1..]));
    }

    #[test]
    fn each_prefix_has_each_share_to_one_row(
        weights in prop::collection::vec(prop_oneof![1 => Just(0_u32), 3 => 0_u32..60], 2..5), lanes in 1_usize..4,
        batch_size in 1_usize..5,
    ) {
        let sum: u32 = weights.iter().sum();
        prop_assume!(sum > 0, "a source has rows");
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = sources(directory.path(), &vec![200; weights.len()]);
        for (source, weight) in config.sources.iter_mut().zip(&weights) {
            source.weight = Some(f64::from(*weight) / 10.0);
        }
        config.pipeline.epochs = None;
        (config.pipeline.batch_size, config.pipeline.seq_len) = (batch_size, 20);
        config.pipeline.lanes = lanes.into();
        config.sources.iter_mut().for_each(|source| source.split = Some(ByteCount(300)));
        let rows = row_sources(&take(&config, None, 300 / batch_size));
        let mut counts = vec![0_u32; weights.len()];
        for (row, name) in rows.iter().enumerate() {
            counts[(name.expect("a source") as u8 - b'a') as usize] += 1;
            // A source of weight 0 has no row.
            for (count, weight) in counts.iter().zip(&weights) {
                let due = f64::from(*weight) / f64::from(sum) * (row + 1) as f64;
                prop_assert!((f64::from(*count) - due).abs() < 1.0, "{counts:?} after row {row}");
            }
        }
    }

    #[test]
    fn mixed_sources_resume_exactly_at_every_batch(
        corpora in prop::collection::vec(corpora(), 2..4),
        config in configs(),
        weights in prop::collection::vec(0_u32..9, 3),
        change in 1_u64..6,
        epochs in prop::collection::vec(prop::option::of(1_u64..4), 3),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = mixed(config, directory.path(), &corpora, &weights, &epochs);
        let later = corpora.iter().enumerate().map(|(index, _)| (index.to_string(), f64::from(index as u32 + 1)));
        config.mixture.changes = vec![MixtureChange { batch: change, weights: later.collect() }];
        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn without_weights_each_document_still_comes_once(
        corpora in prop::collection::vec(corpora(), 2..4), config in configs(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = config;
        config.pipeline.epochs = Some(1);
        let mut expected = Vec::new();
        for (index, corpus) in corpora.iter().enumerate() {
            let home = directory.path().join(index.to_string());
            expected.extend(corpus.write(&home));
            config.sources.push(corpus.source(&home));
        }
        let mut found = crate::order::deliveries(&block_on(all(&config)).expect("no errors"));
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn weights_change_at_a_batch_whether_told_before_or_on_the_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[500, 500]);
    (config.sources[0].weight, config.sources[1].weight) = (Some(3.0), Some(1.0));
    config.pipeline.epochs = None;
    let before = take(&config, None, 10);
    let mut changed = config.clone();
    let weights = BTreeMap::from([("a".to_owned(), 0.0), ("b".to_owned(), 1.0)]);
    changed.mixture.changes = vec![MixtureChange { batch: 6, weights }];
    let whole = take(&changed, None, 12);
    assert_eq!(ids(&whole[..6]), ids(&before[..6]));
    assert!(row_sources(&whole[6..]).iter().all(|name| *name == Some('b')));

    let resumed = take(&changed, Some(before[5].cursor()), 6);
    assert_eq!(ids(&resumed), ids(&whole[6..]));
    assert_eq!(resumed[0].cursor(), whole[6].cursor());
    assert_eq!(whole[11].cursor().history().len(), 2);

    // Told otherwise before the change has come: what is told last holds, and it is told once.
    let mut again = changed.clone();
    let weights = BTreeMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]);
    again.mixture.changes[0].weights = weights.clone();
    let resumed = take(&again, Some(whole[5].cursor()), 6);
    assert_eq!(ids(&resumed), ids(&take(&again, None, 12)[6..]));
    assert!(row_sources(&resumed).contains(&Some('a')) && resumed[5].cursor().history().len() == 2);
    let mut both = changed.clone();
    both.mixture.changes.push(MixtureChange { batch: 6, weights });
    let error = block_on(open(&both, None)).expect_err("two changes at a batch").to_string();
    assert!(error.contains("`mixture.changes.1.batch` must be later than the change before it"), "{error}");

    // Another batch size on the way: the change comes at its batch all the same.
    let mut wider = changed.clone();
    wider.pipeline.batch_size = 12;
    let resumed = take(&wider, Some(before[2].cursor()), 6);
    let rows = row_sources(&resumed);
    assert!(rows[..36].contains(&Some('a')) && rows[36..].iter().all(|name| *name == Some('b')), "{rows:?}");
    assert_eq!(ids(&take(&wider, Some(resumed[4].cursor()), 1)), ids(&resumed[5..]));

    // What is past cannot be told otherwise.
    let refused = |config: &Config, cursor: &Cursor| {
        block_on(open(config, Some(cursor))).expect_err("refused").to_string()
    };
    assert!(refused(&changed, before[8].cursor()).contains("from batch 6 on the shares were as before when"));
    assert!(refused(&config, whole[8].cursor()).contains("and are as before now"));
    config.sources[0].weight = Some(4.0);
    assert!(
        refused(&config, before[8].cursor()).contains(
            "from batch 0 on the shares were a 3, b 1 when the cursor was made, and are a 4, b 1 now"
        )
    );
}

#[test]
fn each_lane_has_rows_of_each_source_and_all_documents_come_before_they_come_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[300, 300]);
    config.sources.iter_mut().for_each(|source| source.split = Some(ByteCount(300)));
    (config.sources[0].weight, config.sources[1].weight) = (Some(1.0), Some(1.0));
    (config.pipeline.lanes, config.pipeline.batch_size) = (2.into(), 2);
    config.pipeline.epochs = None;
    let batches = take(&config, None, 300);
    let mut counts = BTreeMap::new();
    for (row, name) in row_sources(&batches).into_iter().enumerate() {
        *counts.entry((row % 2, name)).or_insert(0) += 1;
    }
    assert!(counts.len() == 4 && counts.values().all(|count| *count > 100), "{counts:?}");
    let places = batches.iter().flat_map(|batch| {
        batch.pieces().iter().map(|piece| (batch.path(piece).to_owned(), piece.position.byte))
    });
    let seen: std::collections::BTreeSet<_> = places.collect();
    assert_eq!(seen.len(), 600, "all documents are read");
}

#[test]
fn an_endless_source_of_fewer_splits_than_lanes_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[300, 300]);
    config.sources[0].split = Some(ByteCount(300));
    (config.pipeline.lanes, config.pipeline.epochs) = (2.into(), None);
    let error = block_on(open(&config, None)).expect_err("refused").to_string();
    assert!(
        error.contains("source b has only 1 split; set fewer lanes, or leave pipeline.lanes out"),
        "{error}"
    );
}

#[test]
fn a_weighted_sample_does_not_change_when_a_source_comes_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[1, 200]);
    let lines: String =
        (0..400).map(|line| format!("{{\"text\": \"document {line}\", \"q\": 1}}\n")).collect();
    let path = directory.path().join("a.jsonl");
    std::fs::write(&path, lines).expect("a file");
    config.sources[0] = SourceConfig {
        name: Some("a".to_owned()),
        kind: SourceKind::Jsonl,
        field: Some("text".to_owned()),
        sample: Some(SampleConfig { field: "q".to_owned(), max: 2.0 }),
        paths: vec![path.display().to_string()],
        ..SourceConfig::default()
    };
    config.pipeline.epochs = None;
    let mut alone = config.clone();
    alone.sources.truncate(1);
    let before = take(&alone, None, 6);
    config.sources.rotate_left(1);
    (config.sources[0].weight, config.sources[1].weight) = (Some(0.0), Some(1.0));
    assert_eq!(ids(&take(&config, Some(before[2].cursor()), 3)), ids(&before[3..]));
}

#[test]
fn temperature_evens_the_weights_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[500, 500]);
    (config.sources[0].weight, config.sources[1].weight) = (Some(9.0), Some(1.0));
    config.pipeline.epochs = None;
    let share = |temperature: f64| {
        let mut config = config.clone();
        config.mixture.temperature = temperature;
        let rows = row_sources(&take(&config, None, 100));
        rows.iter().filter(|name| **name == Some('b')).count() as f64 / rows.len() as f64
    };
    assert_eq!((share(1.0), share(2.0)), (0.1, 0.25));
    assert!((share(1e6) - 0.5).abs() < 0.01);
}

#[test]
fn a_source_that_comes_later_leaves_the_others_where_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = sources(directory.path(), &[500, 500, 500]);
    let mut two = all.clone();
    two.sources.truncate(2);
    two.pipeline.epochs = None;
    let before = take(&two, None, 8);

    let mut three = all;
    three.pipeline.epochs = None;
    three.sources.rotate_right(1);
    for (source, weight) in three.sources.iter_mut().zip([0.0, 1.0, 1.0]) {
        source.weight = Some(weight);
    }
    let weights = ["a", "b", "c"].map(|name| (name.to_owned(), 1.0));
    three.mixture.changes = vec![MixtureChange { batch: 8, weights: BTreeMap::from(weights) }];
    let after = take(&three, Some(before[7].cursor()), 8);
    let of = |name: char, batches: &[Batch]| {
        let names = row_sources(batches);
        let rows = batches.iter().flat_map(|batch| (0..batch.rows()).map(|row| batch.row(row).to_vec()));
        rows.zip(names).filter(|(_, of)| *of == Some(name)).map(|(row, _)| row).collect::<Vec<_>>()
    };
    let alone = take(&two, None, 24);
    let (old, new) = (of('a', &before), of('a', &after));
    assert_eq!([old, new.clone()].concat(), of('a', &alone)[..of('a', &before).len() + new.len()]);
    assert!(!of('c', &after).is_empty() && of('c', &before).is_empty());
    // The stream from its start, told all of it, is the same.
    assert_eq!(ids(&take(&three, None, 16)[8..]), ids(&after));

    // One that would have had rows before is refused.
    three.sources[0].weight = Some(1.0);
    assert!(block_on(open(&three, Some(before[7].cursor()))).is_err());
    // And so is leaving one out.
    two.sources.truncate(1);
    match block_on(open(&two, Some(before[7].cursor()))) {
        Err(Error::Fingerprint { field, now, .. }) => {
            assert_eq!([&*field, &*now], ["source.b.documents", "absent"])
        }
        other => panic!("expected a refusal, not {other:?}"),
    }
}

#[test]
fn a_source_repeats_as_often_as_it_may_and_leaves_its_rows_to_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = sources(directory.path(), &[20, 200]);
    (config.sources[0].weight, config.sources[1].weight) = (Some(1.0), Some(1.0));
    (config.sources[0].epochs, config.sources[1].epochs) = (Some(2), Some(1));
    let batches = block_on(all(&config)).expect("no errors");
    let found = crate::order::deliveries(&batches);
    let count = |name: &str| found.iter().filter(|(path, ..)| path.ends_with(name)).count();
    assert_eq!((count("a.txt"), count("b.txt")), (40, 200));
}

#[test]
fn excluded_batches_are_read_and_not_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 500);
    let all_batches = take(&config, None, 100);
    config.exclude.batches = vec![(5, 8), (10, 11)];
    let rest = take(&config, None, 100);
    let expected = [&all_batches[..5], &all_batches[8..10], &all_batches[11..]].concat();
    assert_eq!(ids(&rest), ids(&expected));
    assert_eq!(rest[5].cursor().batch(), 9);
    let events = rest[5].cursor().history();
    assert!(events.contains(&Event::ExcludedBatches { from: 5, to: 8 }), "{events:?}");
    assert_ne!(rest[5].cursor().digest(), all_batches[8].cursor().digest());

    // Told on the way, it is the same; what is past is refused.
    let resumed = take(&config, Some(all_batches[4].cursor()), 100);
    assert_eq!(ids(&resumed), ids(&rest[5..]));
    assert_eq!(resumed[0].cursor(), rest[5].cursor());
    let error = block_on(open(&config, Some(all_batches[6].cursor()))).expect_err("refused").to_string();
    assert!(error.starts_with("exclude.batches.0: [5, 8] begins before batch 7"), "{error}");
    assert_eq!(ids(&take(&config, Some(rest[6].cursor()), 100)), ids(&rest[7..]));
}

#[test]
fn excluded_documents_are_left_out_from_the_cursor_on_and_stay_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    config.pipeline.epochs = Some(2);
    let before = take(&config, None, 1000);
    let half = before.len() / 2 - 3;
    let path = directory.path().join("lines.txt");
    let byte =
        |line: usize| (0..line).map(|line| format!("line {line} of the corpus\n").len() as u64).sum::<u64>();
    let lines = [7, 120, 250];
    config.exclude.documents =
        lines.map(|line| ExcludedDocument { path: path.clone(), byte: byte(line) }).to_vec();
    let after = take(&config, Some(before[half].cursor()), 1000);
    assert_eq!(after.len(), before.len() - half - 1);
    let has = |batches: &[Batch], line: usize| {
        batches
            .iter()
            .flat_map(|batch| batch.pieces())
            .filter(|piece| piece.position.byte == byte(line))
            .count()
    };
    for line in lines {
        assert!(has(&before[half + 1..], line) > 0 && has(&after, line) == 0);
    }
    assert_eq!(has(&before[half + 1..], 8), has(&after, 8));
    // The history knows it, whatever the config says later.
    config.exclude.documents.clear();
    let later = take(&config, Some(after[3].cursor()), 1000);
    assert_eq!(ids(&later), ids(&after[4..]));
    config.exclude.documents = vec![ExcludedDocument { path: path.clone(), byte: byte(7) + 1 }];
    let error = block_on(open(&config, None)).expect_err("no document").to_string();
    assert!(error.contains("lines.txt begins at byte 148; each batch says where"), "{error}");
    config.exclude.documents = vec![ExcludedDocument { path: "elsewhere.txt".into(), byte: 0 }];
    let error = block_on(open(&config, None)).expect_err("no such file").to_string();
    assert!(error.starts_with("exclude.documents: elsewhere.txt is not a file of any source"), "{error}");
}

#[test]
fn what_cannot_be_mixed_by_a_column_is_refused() {
    let refused = |source: &str, mixture: &str| {
        let text = format!("[[source]]\npaths = [\"a\"]\n{source}\n[mixture]\n{mixture}\n");
        Config::from_toml(&text).expect_err("a refusal").to_string()
    };
    let json = "kind = \"jsonl\"\nfield = \"text\"";
    for (source, mixture, expected) in [
        (json, "by = \"lang\"", "mixture.weights: no value of \"lang\" has a weight; give some"),
        (
            json,
            "weights = { en = 1 }",
            "mixture.weights: they are the weights of a column's values, and no column",
        ),
        (json, "by = \"lang\"\nweights = { en = -1 }", "`mixture.weights` must be from 0 to 1e15, not -1"),
        (
            json,
            "by = \"lang\"\nweights = { en = 0 }",
            "mixture.weights: all weights are 0; one must be above it",
        ),
        (
            json,
            "by = \"lang\"\nweights = { \"\" = 1 }",
            "mixture.weights: a value is empty, and its source would have",
        ),
        (
            json,
            "by = \"lang\"\nweights = { \"a.b\" = 1, \"a_b\" = 1 }",
            "mixture.weights: the values \"a.b\" and \"a_b\" would",
        ),
        (
            "weight = 1\nkind = \"jsonl\"",
            "by = \"lang\"\nweights = { en = 1 }",
            "source.0.weight: a source that mixture.by",
        ),
        (
            "kind = \"text\"",
            "by = \"lang\"\nweights = { en = 1 }",
            "mixture.by: a source of kind text has no columns",
        ),
        (
            "[[source]]\npaths = [\"b\"]",
            "by = \"lang\"\nweights = { en = 1 }",
            "mixture.by: it takes one source apart by",
        ),
    ] {
        let said = refused(source, mixture);
        assert!(said.contains(expected), "{said}");
    }
}

/// A stream that `uneven = "wrap"` has ended goes on where its config then has more to read: from a last cursor in which
/// lanes have begun again, with more epochs or with a source that is new.
#[test]
fn lanes_that_have_begun_again_go_on_where_there_is_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let part = |name: &str, counts: [usize; 4]| {
        std::fs::create_dir_all(directory.path().join(name)).expect("a directory");
        for (nth, count) in counts.into_iter().enumerate() {
            let text: String = (0..count).map(|line| format!("line {line} of {name}/{nth}\n")).collect();
            std::fs::write(directory.path().join(format!("{name}/{nth}.txt")), text).expect("a file");
        }
        let source = SourceConfig::text(format!("{}/{name}/*.txt", directory.path().display()));
        SourceConfig { name: Some(name.to_owned()), split: Some(ByteCount::mib(64)), ..source }
    };
    // Whether so many documents of a source began, each of them at least so often.
    let begin = |batches: &[Batch], name: &str, documents: usize, times: u64| {
        let mut counts = BTreeMap::new();
        let pieces = batches.iter().flat_map(|batch| batch.pieces().iter().map(move |piece| (batch, piece)));
        for (batch, piece) in pieces.filter(|(_, piece)| piece.offset == 0) {
            let path = batch.path(piece);
            if path.parent().is_some_and(|parent| parent.ends_with(name)) {
                *counts.entry((path.to_owned(), piece.position.byte)).or_insert(0) += 1;
            }
        }
        counts.len() == documents && counts.into_values().min() >= Some(times)
    };
    for packing in ["concat", "best_fit", "pad"] {
        let mut config = lines(directory.path(), 1);
        config.sources = vec![part("old", [90, 3, 20, 41])];
        config.pipeline.pack = serde_json::from_value(packing.into()).expect("a rule");
        (config.pipeline.lanes, config.pipeline.uneven) = (4.into(), Uneven::Wrap);
        let before = block_on(all(&config)).expect("no errors");
        let end = before.last().expect("a batch").cursor();
        assert!(begin(&before, "old", 154, 1), "{packing}");

        let mut more = config.clone();
        more.pipeline.epochs = Some(3);
        let mut added = config.clone();
        added.sources.push(part("new", [7, 120, 5, 30]));
        (added.sources[0].weight, added.sources[1].weight) = (Some(1.0), Some(0.0));
        let weights = BTreeMap::from(["old", "new"].map(|name| (name.to_owned(), 1.0)));
        added.mixture.changes = vec![MixtureChange { batch: end.batch(), weights }];
        for world in [1, 2] {
            let read = |config: &Config| ranks(config, world, Some(end), usize::MAX).concat();
            let batches = [before.clone(), read(&more)].concat();
            assert!(begin(&batches, "old", 154, 3), "{packing}, {world}");
            assert!(begin(&read(&added), "new", 162, 1), "{packing}, {world}");
        }
        // Every cursor of what follows resumes it.
        for config in [more, added] {
            let after = take(&config, Some(end), usize::MAX);
            for (nth, batch) in after.iter().enumerate() {
                assert_eq!(
                    ids(&take(&config, Some(batch.cursor()), usize::MAX)),
                    ids(&after[nth + 1..]),
                    "{packing}"
                );
            }
        }
    }
}
