//! The laws: a compressed file is read as its text would be.

use millstream::LaneCursor;
use millstream::config::{DocumentKind, OnError, Oversize, SourceConfig, SourceKind};
use millstream::source::Lane;
use proptest::prelude::*;

use crate::corpus::{Corpus, Seen, all, bound, naive, open, run, texts};
use crate::laws;
use crate::packed::{Packing, cuts, packing, text};

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

    fn lane(&self) -> Lane {
        let (lanes, seed, epochs) = (self.lanes, self.seed, Some(2));
        Lane { lanes, seed, epochs, shuffle_splits: true, ..Lane::default() }
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
            laws::reads_of_any_size_deliver_the_same(&source, laws::lanes(case.lane()), case.slab).await?;
            laws::cursors_resume_exactly(&source.with_slab_bytes(case.slab), laws::lanes(case.lane()), 1).await
        })?;
    }

    #[test]
    fn every_document_is_delivered_once_an_epoch_or_skipped(case in case()) {
        let (packed, _) = case.corpora();
        run(async {
            let config = case.config(&packed);
            let mut wanted = laws::Wanted::new();
            for (number, (text, ..)) in (0..).zip(&case.files) {
                for document in naive(&config, text) {
                    wanted.insert((number, document.byte), (None, document.text));
                }
            }
            let source = open(&config).await.with_slab_bytes(case.slab);
            laws::each_comes_once_an_epoch_or_is_skipped(source, case.lane(), &wanted).await
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
}
