//! A cursor that was damaged, or changed by hand, gives batches or an error, and no panic, hang or silence.

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, Config, MixtureChange, PackRule};
use millstream::{Batch, Cursor, Error, Result};
use proptest::prelude::*;
use serde_json::Value;

use crate::corpus::{block_on, configs, corpora, lines, open, rules};
use crate::support::cursors::editable;
use crate::support::wait::ends;

/// What is done to a number of a cursor.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Set(u64),
    Add(i64),
}

fn edits() -> impl Strategy<Value = Edit> {
    let extremes = vec![0, 1, u64::from(u32::MAX), (1 << 53) - 1, 1 << 53, u64::MAX];
    prop_oneof![
        prop::sample::select(extremes).prop_map(Edit::Set),
        (2_u64..400).prop_map(Edit::Set),
        prop::sample::select(vec![-1_i64, 1]).prop_map(Edit::Add),
    ]
}

impl Edit {
    fn of(self, number: u64) -> u64 {
        match self {
            Self::Set(value) => value,
            Self::Add(value) => number.saturating_add_signed(value),
        }
    }
}

/// All numbers in `value`.
fn numbers<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| numbers(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| numbers(field, found)),
        Value::Number(_) => found.push(value),
        _ => {}
    }
}

/// The cursor behind `batches`, or behind the last of them.
async fn cursor(config: &Config, batches: usize) -> Result<Cursor> {
    let loader = open(config, None).await?;
    let start = loader.start().clone();
    loader.take(batches).try_fold(start, async |_, batch| Ok(batch.cursor().clone())).await
}

/// Up to 20 batches from a cursor on.
async fn resume(config: &Config, cursor: Value) -> Result<Vec<Batch>, String> {
    let cursor: Cursor = serde_json::from_value(cursor).map_err(|e| e.to_string())?;
    let read = async { open(config, Some(&cursor)).await?.take(20).try_collect().await };
    let read = ends(read).await;
    read.map_err(|error: Error| {
        assert!(!matches!(error, Error::Panic { .. }), "{error}");
        error.to_string()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_number_may_be_wrong(
        corpora in prop::collection::vec(corpora(), 1..3), config in configs(), (uneven, last) in rules(), endless: bool, budget in prop::option::of(1_usize..5),
        batches in 0_usize..12, edits in prop::collection::vec((any::<prop::sample::Index>(), edits()), 12),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let sources = corpora.iter().enumerate().map(|(number, corpus)| {
            let directory = directory.path().join(number.to_string());
            corpus.write(&directory);
            let mut source = corpus.source(&directory);
            (source.name, source.weight) = (Some(format!("s{number}")), Some(1.0 + number as f64));
            source.split = Some(ByteCount(64));
            source
        });
        let mut config = Config { sources: sources.collect(), ..config };
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        match budget {
            Some(factor) => config.pipeline.batch_tokens = Some(factor * config.pipeline.seq_len),
            // So that there is a history.
            None => {
                let weights = config.sources.iter().filter_map(|source| Some((source.name.clone()?, 2.0))).collect();
                config.mixture.changes = vec![MixtureChange { batch: 2, weights }];
                config.exclude.batches = vec![(3, 4)];
            }
        }
        if endless {
            (config.pipeline.epochs, config.pipeline.lanes) = (None, 1.into());
        }
        let cursor = block_on(cursor(&config, batches));
        prop_assume!(!matches!(cursor, Err(Error::Corpus { .. } | Error::Config { .. })), "nothing is left");
        let whole = editable(&cursor.expect("no error"));
        for (index, edit) in edits {
            let mut cursor = whole.clone();
            let mut found = Vec::new();
            numbers(&mut cursor, &mut found);
            let number = index.get(&found).as_u64().expect("a whole number");
            *found.swap_remove(index.index(found.len())) = edit.of(number).into();
            // What comes of it is checked there.
            let _ = block_on(resume(&config, cursor));
        }
    }
}

/// An endless stream of one lane, and a cursor of it that is within windows, documents and splits.
fn endless(pack: PackRule) -> (tempfile::TempDir, Config, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    config.sources[0].split = Some(ByteCount(1000));
    (config.pipeline.pack, config.pipeline.pack_window) = (pack, 32);
    config.pipeline.epochs = None;
    let cursor = block_on(cursor(&config, 5)).expect("no error");
    (directory, config, editable(&cursor))
}

/// Sets a field of the cursor's only lane and source.
fn with(cursor: &Value, field: &str, value: impl Into<Value>) -> Value {
    let mut cursor = cursor.clone();
    let at = &mut cursor["lanes"][0]["sources"][0]["at"];
    *at.pointer_mut(field).expect("the field is there") = value.into();
    cursor
}

fn number(cursor: &Value, field: &str) -> u64 {
    cursor["lanes"][0]["sources"][0]["at"].pointer(field).and_then(Value::as_u64).expect("a number")
}

fn refusal(config: &Config, cursor: Value) -> String {
    block_on(resume(config, cursor)).expect_err("a refusal")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_more_was_delivered_of_a_window_than_it_has(more in prop_oneof![64_u64..200, Just(u64::from(u32::MAX))], says: bool) {
        let (_directory, config, cursor) = endless(PackRule::Concat);
        let (len, _) = shuffled(&cursor);
        let skip = if says { len << 32 | more } else { more };
        let refusal = refusal(&config, with(&cursor, "/skips/0", skip));
        let expected = format!(
            "this cursor is not valid: {more} documents of the shuffle were delivered of a window that has {len}"
        );
        prop_assert!(refusal.starts_with(&expected), "{refusal}");
    }

    #[test]
    fn a_window_of_the_shuffle_is_as_long_as_it_was(
        other in prop_oneof![1_u64..200, Just(u64::from(u32::MAX))], delivered in prop::option::of(any::<u32>()),
    ) {
        let (_directory, config, cursor) = endless(PackRule::Concat);
        let (len, was_delivered) = shuffled(&cursor);
        prop_assume!(other != len);
        let delivered = delivered.map_or(was_delivered, u64::from);
        let refusal = refusal(&config, with(&cursor, "/skips/0", other << 32 | delivered));
        let expected =
            format!("this cursor is not valid: a window of the shuffle had {other} documents, and has {len} now");
        prop_assert!(refusal.starts_with(&expected), "{refusal}");
    }

    #[test]
    fn no_more_was_packed_of_a_document_than_it_has(more in prop_oneof![40_u64..200, Just(u64::MAX)]) {
        let (_directory, config, cursor) = endless(PackRule::Concat);
        let refusal = refusal(&config, with(&cursor, "/skips/1", more));
        let expected = format!("this cursor is not valid: {more} ids were packed of a document of ");
        prop_assert!(refusal.starts_with(&expected), "{refusal}");
    }

    #[test]
    fn no_more_rows_were_delivered_than_a_window_gives(
        prelude: bool, delivered in prop_oneof![64_u64..200, Just(u64::from(u32::MAX))], last in prop::option::of(0_u64..40),
    ) {
        let (_directory, config, cursor) = endless(PackRule::BestFit);
        let skip = best_fit(last, delivered, prelude);
        let refusal = refusal(&config, with(&cursor, "/skips/1", skip));
        let is_told = refusal.starts_with("this cursor is not valid: ") && refusal.contains("best-fit packing");
        prop_assert!(is_told, "{refusal}");
    }

    #[test]
    fn a_last_window_gave_rows_and_is_short(
        prelude: bool, (documents, delivered) in prop_oneof![
            (0_u64..1 << 30, Just(0_u64)),
            (32_u64..1 << 30, 1_u64..4),
        ],
    ) {
        let (_directory, config, cursor) = endless(PackRule::BestFit);
        let skip = best_fit(Some(documents), delivered, prelude);
        let refusal = refusal(&config, with(&cursor, "/skips/1", skip));
        prop_assert!(refusal.starts_with("this cursor is not valid: best-fit packing: "), "{refusal}");
    }

    #[test]
    fn a_split_is_one_of_the_lane(split in prop_oneof![8_u64..100, Just((1_u64 << 53) - 1)]) {
        let (_directory, config, cursor) = endless(PackRule::Concat);
        let refusal = refusal(&config, with(&cursor, "/split", split));
        let expected = format!("this cursor is not valid: split {split} of lane 0, which has 7");
        prop_assert!(refusal.starts_with(&expected), "{refusal}");
    }

    /// The first four bytes of a file are read together: a place within them is not looked at more closely.
    #[test]
    fn a_byte_is_where_a_document_of_the_split_begins(
        byte in prop_oneof![4_u64..8000, Just((1 << 53) - 1), (1_usize..300).prop_map(start_of)],
    ) {
        let (directory, config, cursor) = endless(PackRule::Concat);
        let text = std::fs::read(directory.path().join("lines.txt")).expect("the file");
        let path = directory.path().display();
        let none = format!("this cursor is not valid: {path}/lines.txt (byte {byte}): no document begins there");
        let mut splits_with_it = 0;
        for split in 0..7 {
            let cursor = with(&with(&cursor, "/split", split), "/byte", byte);
            match block_on(resume(&config, cursor)) {
                Ok(_) => splits_with_it += 1,
                Err(refusal) if refusal.starts_with(&none) => {}
                // Fewer documents are left from there on.
                Err(refusal) => {
                    let is_short = refusal.starts_with("this cursor is not valid: a window of the shuffle had ");
                    prop_assert!(is_short, "{refusal}");
                    splits_with_it += 1;
                }
            }
        }
        let begins = byte < text.len() as u64 && text[byte as usize - 1] == b'\n';
        prop_assert_eq!(splits_with_it, u64::from(begins));
    }

    #[test]
    fn no_run_comes_so_far(index: prop::sample::Index, value in prop_oneof![Just(1_u64 << 53), any::<u64>().prop_map(|n| n | 1 << 53)]) {
        let (_directory, config, cursor) = endless(PackRule::Concat);
        let counts = ["epoch", "split", "byte", "documents", "skipped", "sample"];
        let field = index.get(&counts);
        let mut edited = cursor.clone();
        edited["lanes"][0]["sources"][0]["at"][*field] = value.into();
        let refused = refusal(&config, edited);
        prop_assert_eq!(refused, format!("lane 0: {field} = {value}, and no run gets so far"));
        for count in ["/batch", "/turn", "/lanes/0/rows", "/lanes/0/sources/0/rows"] {
            let mut cursor = cursor.clone();
            *cursor.pointer_mut(count).expect("it is there") = value.into();
            prop_assert!(refusal(&config, cursor).ends_with("and no run gets so far"));
        }
    }
}

/// Where a line of the corpus begins.
fn start_of(line: usize) -> u64 {
    (0..line).map(|line| format!("line {line} of the corpus\n").len() as u64).sum()
}

/// What a cursor says of the shuffle's window: how long it is, and how many of its documents were delivered.
fn shuffled(cursor: &Value) -> (u64, u64) {
    let skip = number(cursor, "/skips/0");
    (skip >> 32, skip & u64::from(u32::MAX))
}

#[test]
fn a_cursor_need_not_say_how_long_its_window_is() {
    let (_directory, config, cursor) = endless(PackRule::Concat);
    let (len, delivered) = shuffled(&cursor);
    assert!(0 < delivered && delivered < len, "{delivered} of {len}");
    let ids = |cursor: Value| {
        let batches = block_on(resume(&config, cursor)).expect("no error");
        batches.iter().map(|batch| batch.ids().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(ids(with(&cursor, "/skips/0", delivered)), ids(cursor));
}

/// What a cursor of best-fit packing says: how many documents the last window has, rows, and whether the window
/// before leaves something over.
fn best_fit(last: Option<u64>, delivered: u64, prelude: bool) -> u64 {
    last.map_or(0, |documents| documents + 1) << 33 | delivered << 1 | u64::from(prelude)
}

#[test]
fn a_window_is_as_long_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    (config.pipeline.pack, config.pipeline.pack_window) = (PackRule::BestFit, 400);
    let batches = block_on(crate::corpus::all(&config)).expect("no errors");
    let cursor = editable(batches[batches.len() - 2].cursor());
    let skip = number(&cursor, "/skips/1");
    let (delivered, prelude) = (skip >> 1 & u64::from(u32::MAX), skip & 1 == 1);
    // Windows of 16, 16, 32, 64 and 128 documents came before.
    assert_eq!(skip, best_fit(Some(44), delivered, prelude));
    assert!(block_on(resume(&config, cursor.clone())).is_ok());
    for (last, was) in [(Some(45), 45), (Some(255), 255), (None, 256)] {
        let cursor = with(&cursor, "/skips/1", best_fit(last, delivered, prelude));
        let expected = format!("best-fit packing: a window of {was} documents has 44;");
        let refusal = refusal(&config, cursor);
        assert!(refusal.contains(&expected), "{refusal}");
    }
}

#[test]
fn a_window_before_leaves_something_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    config.pipeline.pack = PackRule::BestFit;
    // Each line fills a row.
    config.pipeline.seq_len = "line 100 of the corpus".len();
    let cursor = editable(&block_on(cursor(&config, 5)).expect("no error"));
    let delivered = number(&cursor, "/skips/1") >> 1;
    assert_eq!(number(&cursor, "/skips/1"), best_fit(None, delivered, false));
    let refusal = refusal(&config, with(&cursor, "/skips/1", best_fit(None, delivered, true)));
    assert!(refusal.contains("best-fit packing: the window before leaves nothing over"), "{refusal}");
}

#[test]
fn a_history_leads_to_its_cursor() {
    let (_directory, config, cursor) = endless(PackRule::Concat);
    let weights = |batch: u64, row: u64, shares: Value| serde_json::json!({ "weights": { "batch": batch, "row": row, "shares": shares } });
    let start = || weights(0, 0, serde_json::json!({ "0": 1 }));
    let one = || serde_json::json!({ "0": 1 });
    let histories = [
        (vec![start(), weights(5, 20, one())], "are later than the cursor"),
        (vec![start(), weights(4, 21, one())], "are later than the cursor"),
        (vec![start(), weights(0, 0, one())], "are out of order"),
        (vec![start(), weights(3, 12, one()), weights(2, 12, one())], "are out of order"),
        (vec![start(), weights(2, 12, one()), weights(3, 11, one())], "are out of order"),
        (vec![weights(0, 0, serde_json::json!({}))], "the shares of batch 0"),
        (vec![weights(0, 0, serde_json::json!({ "0": 1, "1": 0 }))], "the shares of batch 0"),
        (vec![weights(0, 0, serde_json::json!({ "0": 65_536, "1": 1 }))], "the shares of batch 0"),
        (vec![start(), serde_json::json!({ "excluded_batches": { "from": 3, "to": 3 } })], "is empty"),
    ];
    assert!(block_on(resume(&config, cursor.clone())).is_ok());
    for (history, problem) in histories {
        let mut cursor = cursor.clone();
        cursor["history"] = history.into();
        let refusal = refusal(&config, cursor);
        assert!(refusal.contains(problem), "{refusal}");
    }
}

/// A cursor with all that a cursor can have, as `save` writes it.
fn saved() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    config.pipeline.lanes = 2.into();
    config.exclude.batches = vec![(1, 2)];
    let path = directory.path().join("cursor.json");
    block_on(cursor(&config, 5)).expect("no error").save(&path).expect("saved");
    (directory, path)
}

#[test]
fn a_bit_or_a_character_that_differs_is_refused_or_changes_nothing() {
    let (directory, path) = saved();
    let (bytes, whole) = (std::fs::read(&path).expect("a file"), Cursor::load(&path).expect("a cursor"));
    let edited = directory.path().join("edited.json");
    let mut refusals = 0;
    let mut check = |bytes: &[u8]| {
        std::fs::write(&edited, bytes).expect("a file");
        match Cursor::load(&edited) {
            // Such as white space.
            Ok(cursor) => assert_eq!(cursor, whole, "{}", String::from_utf8_lossy(bytes)),
            Err(Error::Cursor { problem, .. }) => {
                refusals += 1;
                let is_told = problem.contains("use the cursor of the checkpoint before")
                    || problem.contains("this version reads format");
                assert!(is_told, "{problem}");
            }
            Err(other) => panic!("{other}"),
        }
    };
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            check(&bytes);
        }
        for other in *b"0918a\" ,{" {
            let mut bytes = bytes.clone();
            bytes[at] = other;
            check(&bytes);
        }
        check(&[&bytes[..at], &bytes[at + 1..]].concat());
        check(&[&bytes[..at], b"0", &bytes[at..]].concat());
        check(&bytes[..at]);
    }
    assert!(refusals > 10 * bytes.len(), "{refusals}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn several_edits_are_refused_too(edits in prop::collection::vec((any::<prop::sample::Index>(), b' '..b'~'), 2..6)) {
        let (_directory, path) = saved();
        let whole = Cursor::load(&path).expect("a cursor");
        let mut bytes = std::fs::read(&path).expect("a file");
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        std::fs::write(&path, &bytes).expect("a file");
        if let Ok(cursor) = Cursor::load(&path) {
            prop_assert_eq!(cursor, whole);
        }
    }
}

#[test]
fn a_damaged_file_names_the_remedy() {
    let (_directory, path) = saved();
    let text = std::fs::read_to_string(&path).expect("a file");
    let remedy = "use the cursor of the checkpoint before, or start without one";
    let turn = text.replace("\"turn\": 24", "\"turn\": 28");
    assert_ne!(turn, text);
    for (text, problem) in [
        ("", "the file is empty"),
        ("\n", "the file is empty"),
        (&text[..text.len() / 2], "this is not a cursor, or it is damaged: EOF while parsing"),
        ("weights", "this is not a cursor, or it is damaged: expected value"),
        (&turn, "this is not a cursor: its checksum is wrong: it was edited or damaged"),
    ] {
        std::fs::write(&path, text).expect("a file");
        let error = Cursor::load(&path).expect_err("a refusal").to_string();
        assert!(error.starts_with(&format!("{}: {problem}", path.display())), "{error}");
        assert!(error.ends_with(remedy), "{error}");
    }
}

#[test]
fn a_checksum_may_be_left_out_and_not_be_wrong() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 300);
    let whole = block_on(cursor(&config, 5)).expect("no error");
    let mut form = editable(&whole);
    assert_eq!(serde_json::from_value::<Cursor>(form.clone()).expect("a cursor"), whole);
    form["checksum"] = "0123456789abcdef".into();
    let refused = serde_json::from_value::<Cursor>(form).expect_err("another checksum").to_string();
    assert!(refused.starts_with("its checksum is wrong"), "{refused}");
}
