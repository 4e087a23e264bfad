//! Seek tables that lie: what they say is compared with what is read.

use std::collections::HashSet;

use millstream::LaneCursor;
use millstream::config::{OnError, SourceConfig};
use proptest::prelude::*;

use crate::corpus::{Corpus, all, bound, drain, open, run};
use crate::packed::{Packing, table};

fn lines() -> String {
    (0..300).map(|n| format!("line {n}\n")).collect()
}

/// The file of frames with another table.
fn with_table(cut: usize, change: impl FnOnce(&mut Vec<[u32; 3]>), checks: bool) -> Vec<u8> {
    let mut packed = Packing::Streamed.pack(lines().as_bytes(), &[cut]);
    change(&mut packed.entries);
    packed.bytes.extend(table(&packed.entries, checks));
    packed.bytes
}

/// What a reading of it delivers, as far as it goes, and what ends it.
fn read(bytes: &[u8], split: usize, on_error: OnError) -> (Vec<String>, Option<String>) {
    let corpus = Corpus::new([("a.zst", bytes)]);
    run(async {
        let config = SourceConfig { split: Some(bound(split)), on_error, ..corpus.lines() };
        let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
        (seen.into_iter().map(|seen| seen.text).collect(), error.map(|error| error.to_string()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_table_that_lies_is_an_error_and_nothing_else_is_delivered(
        cut in 20_usize..300, at in any::<prop::sample::Index>(), field in 0_usize..3, by in prop::sample::select(vec![-9_i32, -1, 1, 8]),
        balances: bool, split in 30_usize..600,
    ) {
        let bytes = with_table(cut, |entries| {
            let first = at.index(entries.len());
            let second = (first + 1) % entries.len();
            entries[first][field] = entries[first][field].saturating_add_signed(by);
            if balances && second != first {
                entries[second][field] = entries[second][field].saturating_add_signed(-by);
            }
        }, true);
        let whole = lines();
        let (seen, error) = read(&bytes, split, OnError::Fail);
        prop_assert!(seen.iter().map(String::as_str).eq(whole.lines().take(seen.len())));
        match error {
            Some(error) => prop_assert!(error.contains("the seek table at the file's end"), "{error}"),
            // Nobody asks for the places between two that are asked for.
            None => prop_assert!(balances && field < 2 && seen.len() == 300),
        }
        let (seen, error) = read(&bytes, split, OnError::Skip(1000));
        prop_assert!(error.is_none());
        let lines: HashSet<&str> = whole.lines().collect();
        let distinct: HashSet<&str> = seen.iter().map(String::as_str).collect();
        prop_assert_eq!(distinct.len(), seen.len(), "nothing comes twice");
        prop_assert!(distinct.is_subset(&lines), "{:?}", distinct.difference(&lines));
    }
}

#[test]
fn a_file_that_is_one_split_resumes_within() {
    let text: String = (0_u64..100_000)
        .map(|n| format!("{n} and {}\n", "some more words, ".repeat(n as usize % 7)))
        .collect();
    assert!(text.len() > 4 << 20);
    for packing in [Packing::Streamed, Packing::Seekable { checks: true }] {
        let corpus = Corpus::new([("a.zst", packing.pack(text.as_bytes(), &[150_000, 7, 90_000]).bytes)]);
        run(async {
            let source = open(&SourceConfig { split: Some(bound(64 << 20)), ..corpus.lines() }).await;
            assert_eq!(source.splits(), 1);
            let whole = all(source.documents(&LaneCursor::default())).await;
            assert!(whole.iter().map(|seen| seen.text.as_str()).eq(text.lines()));
            for index in [0, 1, 25_000, 50_000, 77_777, 99_990, 99_999] {
                let rest = all(source.documents(&whole[index].cursor)).await;
                assert_eq!(rest.len(), 99_999 - index);
                assert_eq!(rest, whole[index + 1..]);
            }
        });
    }
}

#[test]
fn a_table_that_cannot_be_is_an_error() {
    let good = with_table(200, |_| {}, false);
    let at = |back: usize| good.len() - back;
    let cases = [
        (at(9), 0xff, "has more entries than the file has room for"),
        (at(8), 0xff, "has more entries than the file has room for"),
        (at(9), 0x03, "does not begin where its length says"),
        (at(5), 0x04, "is of a kind that is not known"),
        (at(9 + 8), 0x01, "gives other lengths than the frames have"),
    ];
    for (at, bits, what) in cases {
        let mut bytes = good.clone();
        bytes[at] ^= bits;
        for split in [100, 1 << 20] {
            let (seen, error) = read(&bytes, split, OnError::Fail);
            assert!(seen.is_empty());
            let error = error.expect("an error");
            assert!(error.contains(&format!("the seek table at the file's end {what}")), "{error}");
        }
    }
    assert_eq!(read(&good, 100, OnError::Fail).0.len(), 300);
}
