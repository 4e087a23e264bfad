//! The laws of the source, over generated corpora and configs.

use millstream::config::{DocumentKind, OnError, Oversize, SampleConfig, SourceConfig};
use millstream::source::{Holdout, Lane, Side};
use millstream::{LaneCursor, Meter};
use proptest::prelude::*;

use crate::corpus::{Corpus, Expected, Seen, all, bound, naive, open, run};
use crate::laws;

/// What most texts are made of, and what trips readers.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let usual =
        prop::sample::select(vec!["a", "word ", "é", "漢字", "😀", " ", "\t"]).prop_map(str::as_bytes);
    let ends = prop::sample::select(vec!["\n", "\r\n", "\n\n", "\n \t\n", "\r"]).prop_map(str::as_bytes);
    let long = (20_usize..90).prop_map(|n| "long ".repeat(n).into_bytes());
    let part = prop_oneof![
        8 => usual.prop_map(<[u8]>::to_vec),
        5 => ends.prop_map(<[u8]>::to_vec),
        1 => long,
        1 => Just(b"\xff".to_vec()),
        // The two halves of a character, which may come to lie in two files.
        1 => prop::sample::select(vec![b"\xc3".to_vec(), b"\xa9".to_vec()]),
    ];
    prop::collection::vec(part, 0..25).prop_map(|parts| parts.concat())
}

fn jsonl() -> impl Strategy<Value = Vec<u8>> {
    let json =
        |text: String| serde_json::json!({"n": [1, {}], "text": text, "z": text}).to_string().into_bytes();
    let line = prop_oneof![
        6 => "[a-zé漢\"\\\\\n]{0,20}".prop_map(json),
        1 => (100_usize..400).prop_map(move |n| json("é\n".repeat(n))),
        2 => prop::sample::select(vec![
            "", " ", "{}", "[]", r#"{"text": 1}"#, r#"{"text": "x"} y"#, r#"{"text": "x"#, r#"{"text": "a", "text": "b"}"#,
        ])
        .prop_map(|line| line.as_bytes().to_vec()),
        1 => Just(b"{\"text\": \"ok\", \"n\": \"\xff\"}".to_vec()),
    ];
    let end = prop::sample::select(vec!["\n", "\r\n", "\n\n"]);
    (prop::collection::vec((line, end), 0..12), any::<bool>()).prop_map(|(lines, is_ended)| {
        let mut file: Vec<u8> = Vec::new();
        for (line, end) in lines {
            file.extend(line);
            file.extend(end.as_bytes());
        }
        while !is_ended && file.ends_with(b"\n") {
            file.pop();
        }
        file
    })
}

/// Files, where the order of names is not the order of most directories' listings.
fn corpus(file: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let file = (any::<bool>(), file)
        .prop_map(|(bom, file)| if bom { [b"\xef\xbb\xbf".to_vec(), file].concat() } else { file });
    let names =
        prop::sample::subsequence(vec!["b", "a.txt", "a/b/c", "a/é", "B", "a/10", "a/9", "z/a"], 1..7);
    (names, prop::collection::vec(file, 7))
        .prop_map(|(names, files)| names.into_iter().zip(files).collect())
        .prop_filter("some file has bytes", |files: &Vec<(_, Vec<u8>)>| {
            files.iter().any(|(_, file)| !file.is_empty())
        })
}

#[derive(Clone, Debug)]
struct Case {
    files: Vec<(&'static str, Vec<u8>)>,
    is_json: bool,
    document: DocumentKind,
    max: usize,
    oversize: Oversize,
    split: usize,
    lane: Lane,
    slab: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let files = prop_oneof![
        2 => corpus(text()).prop_map(|files| (false, files)),
        1 => corpus(jsonl()).prop_map(|files| (true, files)),
    ];
    let document =
        prop::sample::select(vec![DocumentKind::Line, DocumentKind::Paragraph, DocumentKind::File]);
    let oversize = prop::sample::select(vec![Oversize::Error, Oversize::Skip, Oversize::Truncate]);
    let max = prop_oneof![1_usize..40, 200_usize..700];
    let split = prop_oneof![1_usize..12, 12_usize..120, Just(64 << 20)];
    let order = (1_usize..5, any::<u64>(), any::<bool>(), 1_usize..7, 1_u64..4);
    let slab = prop_oneof![4_usize..12, 12_usize..400];
    (files, document, max, oversize, split, order, slab).prop_map(
        |(
            (is_json, files),
            document,
            max,
            oversize,
            split,
            (lanes, seed, shuffle_splits, interleave, epochs),
            slab,
        )| {
            Case {
                files,
                is_json,
                document,
                max,
                oversize,
                split,
                lane: Lane {
                    lanes,
                    seed,
                    shuffle_splits,
                    interleave,
                    epochs: Some(epochs),
                    ..Lane::default()
                },
                slab,
            }
        },
    )
}

impl Case {
    fn config(&self, corpus: &Corpus) -> SourceConfig {
        SourceConfig {
            document: if self.is_json { DocumentKind::Line } else { self.document },
            max_document_bytes: bound(self.max),
            split: Some(bound(self.split)),
            oversize: self.oversize,
            on_error: OnError::Skip(u64::MAX),
            ..if self.is_json { corpus.jsonl() } else { corpus.lines() }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn reads_of_any_size_deliver_the_same(case in case()) {
        let corpus = Corpus::new(case.files.clone());
        run(async {
            let source = open(&case.config(&corpus)).await;
            laws::reads_of_any_size_deliver_the_same(&source, laws::lanes(case.lane), case.slab).await
        })?;
    }

    #[test]
    fn every_cursor_resumes_exactly(case in case()) {
        let corpus = Corpus::new(case.files.clone());
        run(async {
            let source = open(&case.config(&corpus)).await;
            laws::cursors_resume_exactly(&source, laws::lanes(case.lane), 1).await
        })?;
    }

    #[test]
    fn every_document_is_delivered_once_an_epoch_or_skipped(case in case()) {
        let corpus = Corpus::new(case.files.clone());
        run(async {
            let config = case.config(&corpus);
            let source = open(&config).await.with_slab_bytes(case.slab);
            let mut wanted = laws::Wanted::new();
            for (number, file) in (0..).zip(source.files().iter()) {
                let bytes = std::fs::read(file.path()).expect("read");
                for Expected { line, byte, text } in naive(&config, &bytes) {
                    wanted.insert((number, byte), (Some(line), text));
                }
            }
            laws::each_comes_once_an_epoch_or_is_skipped(source, case.lane, &wanted).await
        })?;
    }

    #[test]
    fn a_document_is_on_one_side_of_the_hold_out(case in case(), fraction in 0.0..1.0_f64) {
        let corpus = Corpus::new(case.files.clone());
        run(async {
            let source = open(&case.config(&corpus)).await;
            let lane = Lane { epochs: Some(1), lanes: 1, ..case.lane };
            let whole = all(source.lane(lane, &LaneCursor::default())).await;
            let mut places = Vec::new();
            for side in [Side::Train, Side::HeldOut] {
                let lane = Lane { holdout: Holdout { fraction, side }, ..lane };
                let part = all(source.lane(lane, &LaneCursor::default())).await;
                for (index, seen) in part.iter().enumerate() {
                    let rest = all(source.lane(lane, &seen.cursor)).await;
                    prop_assert_eq!(&rest, &part[index + 1..]);
                    let copies = whole.iter().filter(|other| other.text == seen.text).count();
                    prop_assert_eq!(part.iter().filter(|other| other.text == seen.text).count(), copies);
                }
                places.extend(part.into_iter().map(|seen| (seen.position.file, seen.position.byte)));
            }
            let mut expected: Vec<_> = whole.iter().map(|seen| (seen.position.file, seen.position.byte)).collect();
            expected.sort_unstable();
            places.sort_unstable();
            prop_assert_eq!(places, expected);
            Ok(())
        })?;
    }

    #[test]
    fn each_epoch_draws_its_own_sample(
        weights in prop::collection::vec(prop::sample::select(vec!["0", "0.5", "1", "2", "2.5"]), 1..20),
        seed in any::<u64>(),
        lanes in 1_usize..4,
        split in 4_usize..400,
        slab in 30_usize..400,
    ) {
        let line = |(n, weight)| format!("{{\"text\": \"{n}\", \"doc\": {{\"w\": {weight}}}}}\n");
        let corpus = Corpus::new([("a", weights.iter().enumerate().map(line).collect::<String>())]);
        let sample = SampleConfig { field: "doc.w".to_owned(), max: 2.0 };
        let config = SourceConfig { sample: Some(sample), ..corpus.jsonl() };
        run(async {
            let lane = Lane { seed, epochs: Some(40), ..Lane::default() };
            let meter = Meter::new("source");
            let whole = all(open(&config).await.with_meter(meter.clone()).lane(lane, &LaneCursor::default())).await;
            prop_assert_eq!(meter.snapshot().skipped, 0);
            let mut drawn = vec![0_u32; weights.len()];
            whole.iter().for_each(|seen| drawn[seen.text.parse::<usize>().expect("a number")] += 1);
            for (&times, &weight) in drawn.iter().zip(&weights) {
                // With 40 draws at 1/4 and 1/2 a document passes these bounds once in ten million times.
                let bounds = match weight { "0" => 0..=0, "0.5" => 0..=26, "1" => 3..=37, _ => 40..=40 };
                prop_assert!(bounds.contains(&times), "weight {} was drawn {} times", weight, times);
            }
            // Neither lanes nor splits nor reads change what an epoch draws.
            let split = open(&SourceConfig { split: Some(bound(split)), ..config }).await.with_slab_bytes(slab);
            let mut together = Vec::new();
            for index in 0..lanes {
                let lane = Lane { lane: index, lanes, shuffle_splits: true, ..lane };
                let seen = all(split.lane(lane, &LaneCursor::default())).await;
                for index in [0, seen.len() / 2, seen.len().saturating_sub(2)] {
                    let Some(at) = seen.get(index) else { continue };
                    prop_assert_eq!(&all(split.lane(lane, &at.cursor)).await, &seen[index + 1..]);
                }
                together.extend(seen);
            }
            let sorted = |seen: &[Seen]| {
                let mut places: Vec<_> = seen.iter().map(|s| (s.cursor.epoch, s.position.byte)).collect();
                places.sort_unstable();
                places
            };
            prop_assert_eq!(sorted(&together), sorted(&whole));
            Ok(())
        })?;
    }
}
