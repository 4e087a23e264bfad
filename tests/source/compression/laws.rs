//! The laws: a compressed file is read as its text would be.

use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{Config, DocumentKind, OnError, Oversize, SourceConfig, SourceKind};
use millstream::source::Lane;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, LaneCursor, Loader, Meter};
use proptest::prelude::*;

use crate::corpus::{Corpus, Seen, all, bound, naive, open, run, texts};
use crate::laws;
use crate::packed::{Packing, cuts, packing, text};
use crate::support::runtime::block_on;

#[derive(Clone, Debug)]
struct Case {
    files: Vec<(Vec<u8>, Packing, Vec<usize>)>,
    document: DocumentKind,
    max: usize,
    oversize: Oversize,
    split: usize,
    lanes: usize,
    seed: u64,
    slab: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let files = prop::collection::vec((text(), packing(), cuts()), 1..4);
    let document =
        prop::sample::select(vec![DocumentKind::Line, DocumentKind::Paragraph, DocumentKind::File]);
    let oversize = prop::sample::select(vec![Oversize::Error, Oversize::Skip, Oversize::Truncate]);
    let max = prop_oneof![1_usize..40, 200_usize..700];
    let split = prop_oneof![1_usize..12, 12_usize..220, Just(64 << 20)];
    let slab = prop_oneof![4_usize..12, 12_usize..400];
    (files, document, max, oversize, split, 1_usize..4, any::<u64>(), slab).prop_map(
        |(files, document, max, oversize, split, lanes, seed, slab)| Case {
            files,
            document,
            max,
            oversize,
            split,
            lanes,
            seed,
            slab,
        },
    )
}

impl Case {
    /// The files compressed, with and without a name that says so, and as they are.
    fn corpora(&self) -> (Corpus, Corpus) {
        let name = |(index, file): (usize, &(_, Packing, _))| match index {
            0 => "0".to_owned(),
            _ => format!("{index}.{}", file.1.extension()),
        };
        let packed = self.files.iter().enumerate().map(|(index, file)| {
            let (text, packing, cuts) = file;
            (name((index, file)), packing.pack(text, cuts).bytes)
        });
        let plain = self.files.iter().enumerate().map(|(index, file)| (index.to_string(), file.0.clone()));
        (Corpus::new(packed), Corpus::new(plain))
    }

    fn config(&self, corpus: &Corpus) -> SourceConfig {
        SourceConfig {
            document: self.document,
            max_document_bytes: bound(self.max),
            split: Some(bound(self.split)),
            oversize: self.oversize,
            on_error: OnError::Skip(u64::MAX),
            ..corpus.lines()
        }
    }

    fn lanes(&self) -> impl Iterator<Item = Lane> {
        let (lanes, seed, epochs) = (self.lanes, self.seed, Some(2));
        laws::lanes(Lane { lanes, seed, epochs, shuffle_splits: true, ..Lane::default() })
    }

    fn is_empty(&self) -> bool {
        self.files.iter().all(|(text, ..)| text.is_empty())
    }
}

/// What is delivered, wherever it was cut.
fn places(seen: &[Seen]) -> Vec<(u32, u64, &str)> {
    seen.iter().map(|seen| (seen.position.file, seen.position.byte, seen.text.as_str())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn documents_are_those_of_the_text(case in case()) {
        prop_assume!(!case.is_empty());
        let (packed, plain) = case.corpora();
        run(async {
            let whole = SourceConfig { split: Some(bound(1 << 20)), ..case.config(&plain) };
            let expected = all(open(&whole).await.documents(&LaneCursor::default())).await;
            let source = open(&case.config(&packed)).await.with_slab_bytes(case.slab);
            let seen = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(places(&seen), places(&expected));
            for (seen, expected) in seen.iter().zip(&expected) {
                let line = source.files().line(seen.position).expect("nothing is counted in the file");
                prop_assert!(line == 0 || line == expected.position.line);
                prop_assert!(line > 0 || case.split < 1 << 20);
            }
            Ok(())
        })?;
    }

    #[test]
    fn reads_of_any_size_deliver_the_same_and_every_cursor_resumes(case in case()) {
        let (packed, _) = case.corpora();
        run(async {
            let source = open(&case.config(&packed)).await;
            laws::reads_of_any_size_deliver_the_same(&source, case.lanes(), case.slab).await?;
            laws::cursors_resume_exactly(&source.with_slab_bytes(case.slab), case.lanes(), 1).await
        })?;
    }

    #[test]
    fn every_document_is_delivered_once_an_epoch_or_skipped(case in case()) {
        let (packed, _) = case.corpora();
        run(async {
            let config = case.config(&packed);
            let meter = Meter::new("source");
            let source = open(&config).await.with_meter(meter.clone()).with_slab_bytes(case.slab);
            let mut expected = Vec::new();
            let mut skipped = 0;
            for (file, (text, ..)) in case.files.iter().enumerate() {
                for document in naive(&config, text) {
                    skipped += u64::from(document.text.is_none());
                    expected.extend(document.text.map(|text| (file as u32, document.byte, text)));
                }
            }
            let mut seen = Vec::new();
            for lane in case.lanes() {
                seen.extend(all(source.lane(lane, &LaneCursor::default())).await);
            }
            for epoch in 0..2 {
                let of = seen.iter().filter(|seen| seen.cursor.epoch == epoch);
                let mut of: Vec<_> = of.map(|s| (s.position.file, s.position.byte, s.text.clone())).collect();
                of.sort_unstable();
                prop_assert_eq!(&of, &expected);
            }
            prop_assert_eq!(meter.snapshot().skipped, 2 * skipped);
            Ok(())
        })?;
    }

    #[test]
    fn records_are_those_of_the_text(
        cells in prop::collection::vec("[a-zé,\\n\"]{0,20}", 1..30), packing in packing(), cuts in cuts(), slab in 4_usize..400,
    ) {
        let line = |(n, cell): (usize, &String)| format!("{n},\"{}\"\n", cell.replace('"', "\"\""));
        let text = format!("id,text\n{}", cells.iter().enumerate().map(line).collect::<String>());
        let corpus = Corpus::new([("table", packing.pack(text.as_bytes(), &cuts).bytes)]);
        run(async {
            let config = SourceConfig {
                kind: SourceKind::Csv,
                field: Some("text".to_owned()),
                split: Some(bound(100)),
                ..corpus.lines()
            };
            let source = open(&config).await.with_slab_bytes(slab);
            let seen = all(source.documents(&LaneCursor::default())).await;
            let expected: Vec<_> = cells.iter().filter(|cell| !cell.is_empty()).collect();
            prop_assert_eq!(texts(&seen), expected);
            for (index, at) in seen.iter().enumerate() {
                prop_assert_eq!(&all(source.documents(&at.cursor)).await, &seen[index + 1..]);
            }
            Ok(())
        })?;
    }

    #[test]
    fn batches_are_those_of_the_text(files in prop::collection::vec("([a-zé]{1,30}\n){1,20}", 1..4), packing in packing(), cuts in cuts()) {
        let packed = files.iter().map(|text| packing.pack(text.as_bytes(), &cuts).bytes);
        let packed = Corpus::new(packed.enumerate().map(|(name, bytes)| (name.to_string(), bytes)));
        let plain = Corpus::new(files.iter().enumerate().map(|(name, text)| (name.to_string(), text)));
        let rows = |corpus: &Corpus| {
            // Where a file is cut, and so the order, depends on whether it is compressed.
            let source = SourceConfig { split: Some(bound(1 << 20)), ..corpus.lines() };
            let mut config = Config { sources: vec![source], ..Config::default() };
            config.pipeline.lanes = 1.into();
            config.pipeline.shuffle_splits = false;
            config.pipeline.seq_len = 16;
            config.pipeline.epochs = Some(2);
            config.pipeline.batch_size = 3;
            block_on(async {
                let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).open().await;
                let batches: Vec<Batch> = loader.expect("opened").try_collect().await.expect("no errors");
                batches.iter().map(|batch| batch.digest().to_string()).collect::<Vec<_>>()
            })
        };
        prop_assert_eq!(rows(&packed), rows(&plain));
    }
}
