//! A format of the program's own, added from outside the crate, keeps the laws of the others.

use std::io::{self, ErrorKind, Write};

use futures::TryStreamExt;
use millstream::config::{CustomFormat, OnError, Oversize, SourceConfig};
use millstream::source::{Lane, RecordFile, RecordFormat, RecordReader, RecordText};
use millstream::{Batch, Config, Error, LaneCursor, Loader, Source};
use proptest::prelude::*;

use crate::corpus::{Corpus, all, bound, drain, open, run, texts};
use crate::laws;
use crate::packed::{Packing, cuts, packing};
use crate::support::runtime::block_on;

/// What a file begins with, and what ends a record.
const HEAD: &[u8] = b"separated\n";
const END: u8 = 0x1e;

/// Records that end with a byte. One that begins with `!` has no text that could be used.
#[derive(Clone, Copy, Debug)]
struct Separated;

impl RecordFormat for Separated {
    fn open(&self, file: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>> {
        let mut head = Vec::new();
        file.read_until(b'\n', &mut head)?;
        match head == HEAD {
            true => Ok(Box::new(*self)),
            false => Err(io::Error::other("there is no head")),
        }
    }
}

impl RecordReader for Separated {
    fn read(&mut self, file: &mut dyn RecordFile, text: &mut RecordText) -> io::Result<bool> {
        let mut record = Vec::new();
        file.read_until(END, &mut record)?;
        match record.pop() {
            None => return Ok(false),
            Some(END) => {}
            Some(_) => return Err(ErrorKind::UnexpectedEof.into()),
        }
        if record.starts_with(b"!") {
            text.refuse("the record says that it is bad");
        }
        text.write_all(&record).map(|()| true)
    }
}

/// Never passes a record.
#[derive(Clone, Copy, Debug)]
struct Stuck;

impl RecordFormat for Stuck {
    fn open(&self, _: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>> {
        Ok(Box::new(*self))
    }
}

impl RecordReader for Stuck {
    fn read(&mut self, _: &mut dyn RecordFile, _: &mut RecordText) -> io::Result<bool> {
        Ok(true)
    }
}

/// A file with these records.
fn file(records: &[Vec<u8>]) -> Vec<u8> {
    records.iter().fold(HEAD.to_vec(), |file, record| [&file[..], &record[..], &[END][..]].concat())
}

/// All files of a corpus.
fn separated(corpus: &Corpus) -> SourceConfig {
    SourceConfig::custom(corpus.path("*"), CustomFormat::new("separated", Separated))
}

/// A file's records, and how it is compressed.
#[derive(Clone, Debug)]
struct Written {
    records: Vec<Vec<u8>>,
    packing: Option<Packing>,
    cuts: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Case {
    files: Vec<Written>,
    max: usize,
    oversize: Oversize,
    lane: Lane,
    slab: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let record = prop_oneof![
        6 => "[a-zé漢\n]{0,20}".prop_map(String::into_bytes),
        1 => (100_usize..400).prop_map(|n| "é".repeat(n).into_bytes()),
        1 => prop::sample::select(vec![b"!bad".to_vec(), b"not UTF-8: \xff".to_vec()]),
    ];
    let file = (prop::collection::vec(record, 0..40), prop::option::of(packing()), cuts())
        .prop_map(|(records, packing, cuts)| Written { records, packing, cuts });
    let max = prop_oneof![1_usize..30, 200_usize..900];
    let oversize = prop::sample::select(vec![Oversize::Error, Oversize::Skip]);
    let order = (1_usize..4, any::<u64>(), any::<bool>(), 1_usize..4, 1_u64..3);
    let slab = prop_oneof![4_usize..12, 12_usize..400];
    (prop::collection::vec(file, 1..5), max, oversize, order, slab).prop_map(
        |(files, max, oversize, (lanes, seed, shuffle_splits, interleave, epochs), slab)| {
            let epochs = Some(epochs);
            let lane = Lane { lanes, seed, shuffle_splits, interleave, epochs, ..Lane::default() };
            Case { files, max, oversize, lane, slab }
        },
    )
}

impl Case {
    fn corpus(&self) -> Corpus {
        Corpus::new(self.files.iter().enumerate().map(|(number, Written { records, packing, cuts })| {
            let text = file(records);
            (number.to_string(), packing.map_or(text.clone(), |packing| packing.pack(&text, cuts).bytes))
        }))
    }

    fn config(&self, corpus: &Corpus) -> SourceConfig {
        SourceConfig {
            max_document_bytes: bound(self.max),
            oversize: self.oversize,
            on_error: OnError::Skip(u64::MAX),
            ..separated(corpus)
        }
    }

    /// The records that are not empty.
    fn wanted(&self) -> laws::Wanted {
        let mut wanted = laws::Wanted::new();
        for (number, Written { records, .. }) in (0..).zip(&self.files) {
            let mut byte = HEAD.len() as u64;
            for record in records {
                let is_bad = record.starts_with(b"!") || record.len() > self.max;
                let text = std::str::from_utf8(record).ok().filter(|_| !is_bad);
                if !record.is_empty() {
                    wanted.insert((number, byte), (None, text.map(str::to_owned)));
                }
                byte += record.len() as u64 + 1;
            }
        }
        wanted
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_of_any_size_deliver_the_same(case in case()) {
        let corpus = case.corpus();
        run(async {
            let source = open(&case.config(&corpus)).await;
            laws::reads_of_any_size_deliver_the_same(&source, laws::lanes(case.lane), case.slab).await
        })?;
    }

    #[test]
    fn every_cursor_resumes_exactly(case in case()) {
        let corpus = case.corpus();
        run(async {
            let source = open(&case.config(&corpus)).await.with_slab_bytes(case.slab);
            laws::cursors_resume_exactly(&source, laws::lanes(case.lane), 1).await
        })?;
    }

    #[test]
    fn every_record_is_delivered_once_an_epoch_or_skipped(case in case()) {
        let corpus = case.corpus();
        run(async {
            let source = open(&case.config(&corpus)).await.with_slab_bytes(case.slab);
            laws::each_comes_once_an_epoch_or_is_skipped(source, case.lane, &case.wanted()).await
        })?;
    }
}

#[test]
fn a_small_file_is_cut_between_its_records() {
    let corpus = Corpus::new([("a", file(&vec![b"record".to_vec(); 50]))]);
    let source = run(async { open(&separated(&corpus)).await });
    assert_eq!(source.splits(), 50);
}

#[test]
fn a_loader_reads_what_the_config_names_and_resumes_at_every_batch() {
    let records =
        |file: usize| (0..90).map(|n| format!("record {n} of {file}").into_bytes()).collect::<Vec<_>>();
    let corpus = Corpus::new((0..3).map(|number| (number.to_string(), file(&records(number)))));
    let paths = corpus.path("*");
    let config = |format: &str| {
        let config = format!(
            "[[source]]\nkind = 'custom'\nformat = '{format}'\npaths = ['{paths}']\n[tokenizer]\nkind = 'bytes'\n\
             [pipeline]\nlanes = 4\nwindow = 16\nseq_len = 32\nbatch_size = 2\nepochs = 2"
        );
        Config::from_toml(&config).expect("a config")
    };
    let builder = |format: &str| Loader::builder(&config(format)).format(format, Separated);
    block_on(async {
        let loader = builder("separated").open().await.expect("opened");
        let batches: Vec<Batch> = loader.try_collect().await.expect("batches");
        assert!(batches.len() > 60, "{}", batches.len());
        for (n, batch) in batches.iter().enumerate() {
            let loader =
                builder("separated").with_cursor(batch.cursor().clone()).open().await.expect("resumed");
            let rest: Vec<Batch> = loader.try_collect().await.expect("batches");
            assert!(rest.iter().map(Batch::ids).eq(batches[n + 1..].iter().map(Batch::ids)), "after {n}");
        }
        let cursor = batches[0].cursor().clone();
        let renamed = builder("other").with_cursor(cursor).open().await.expect_err("another format");
        let Error::Fingerprint { field, saved, .. } = &renamed else { panic!("{renamed}") };
        assert!(field.ends_with(".documents") && saved.starts_with("custom separated"), "{renamed}");
        let unknown = Loader::open(&config("separated")).await.expect_err("no code").to_string();
        assert!(unknown.starts_with("source.0.format: ") && unknown.contains("\"separated\""), "{unknown}");
    });
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    let whole = file(&[b"one".to_vec(), b"two".to_vec()]);
    let told = |bytes: &[u8], kept: &[&str], words: &[&str]| {
        let corpus = Corpus::new([("a", bytes)]);
        let (seen, error) =
            run(async { drain(open(&separated(&corpus)).await.documents(&LaneCursor::default())).await });
        assert_eq!(texts(&seen), kept);
        let said = error.expect("bad input").to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        // The rest of the file is lost with the record that cannot be read.
        let skips = SourceConfig { on_error: OnError::Skip(1), ..separated(&corpus) };
        let skipped = run(async { all(open(&skips).await.documents(&LaneCursor::default())).await });
        assert_eq!(texts(&skipped), kept);
    };
    told(&whole[..whole.len() - 2], &["one"], &["a (byte 14): ", "cut off", "get the file again"]);
    told(b"another\none\x1e", &[], &["a (byte 0): ", "there is no head"]);
    told(&file(&[b"one".to_vec(), b"!".to_vec()]), &["one"], &["a (byte 14): ", "says that it is bad"]);
    let corpus = Corpus::new([("a", &whole)]);
    let stuck = SourceConfig::custom(corpus.path("a"), CustomFormat::new("stuck", Stuck));
    let said = run(Source::open(&[stuck])).expect_err("it would read for ever").to_string();
    assert!(said.contains("stays at byte 0"), "{said}");
}
