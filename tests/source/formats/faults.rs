//! Damaged files: nothing panics, hangs or is silently missing, and what was read before the damage is delivered.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use millstream::config::{OnError, SourceConfig};
use millstream::meter::Meter;
use millstream::{Error, LaneCursor, Source};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;

use super::others::{bytes, config};
use crate::corpus::{Corpus, Seen, all, drain, open, run, texts};
use crate::support::wait::ends;

const FILES: [&str; 20] = [
    "snappy.parquet", "zstd.parquet", "gzip.parquet", "brotli.parquet", "lz4.parquet", "dictionary.parquet",
    "stream.arrow", "file.arrow", "lz4.arrow", "zstd.arrow", "view.arrow", "replaced.arrow", "delta.arrow",
    "polars.arrow", "polars_categorical.arrow", "gnu.tar", "pax.tar.gz", "sparse.tar", "mds/shard.00000.mds",
    "mds-zstd/shard.00000.mds.zstd",
];

/// What is delivered of a damaged file of this name, and the error that ends it.
async fn read(name: &str, bytes: &[u8], on_error: OnError) -> (Vec<Seen>, Option<Error>) {
    let corpus = Corpus::new([(name.rsplit('/').next().expect("a name"), bytes)]);
    let config = SourceConfig { paths: vec![corpus.path("*")], on_error, ..config(name) };
    let work = async {
        match Source::open(&[config]).await {
            Ok(source) => drain(source.documents(&LaneCursor::default())).await,
            Err(error) => (Vec::new(), Some(error)),
        }
    };
    ends(work).await
}

async fn whole(name: &str) -> Vec<Seen> {
    all(open(&config(name)).await.documents(&LaneCursor::default())).await
}

fn run_with_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn bytes_that_are_changed_are_an_error_at_most(
        name in prop::sample::select(FILES.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        is_tail in any::<bool>(),
    ) {
        let mut damaged = bytes(name);
        for (index, byte) in changes {
            // What a file says of itself often stands at its end.
            let from = if is_tail { damaged.len().saturating_sub(2500) } else { 0 };
            let at = from + index.index(damaged.len() - from);
            damaged[at] = byte;
        }
        let (_, error) = run_with_time(read(name, &damaged, OnError::Skip(u64::MAX)));
        prop_assert!(matches!(error, None | Some(Error::Corpus { .. })), "{error:?}");
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error_and_what_was_before_is_delivered(
        name in prop::sample::select(FILES.to_vec()),
        cut in any::<prop::sample::Index>(),
    ) {
        let file = bytes(name);
        let cut = &file[..cut.index(file.len() - 1) + 1];
        run_with_time(async {
            let whole = whole(name).await;
            let (seen, error) = read(name, cut, OnError::Fail).await;
            prop_assert!(texts(&whole).starts_with(&texts(&seen)));
            // A stream of Arrow may end behind any message.
            prop_assert!(error.is_some() || seen.len() == whole.len() || is_stream(name), "silently short");
            let (skipped, none) = read(name, cut, OnError::Skip(u64::MAX)).await;
            prop_assert!(none.is_none(), "{none:?}");
            prop_assert_eq!(texts(&skipped), texts(&seen));
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_byte_of_arrow_that_is_changed_never_loses_a_batch(
        name in prop::sample::select(FILES.iter().copied().filter(|name| name.ends_with(".arrow")).collect::<Vec<_>>()),
        index in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut damaged = bytes(name);
        let at = index.index(damaged.len());
        damaged[at] = byte;
        run_with_time(async {
            let (seen, error) = read(name, &damaged, OnError::Fail).await;
            // Nothing in the file says which rows are null but one bit for each, eight of them in a byte.
            let expected = whole(name).await.len();
            prop_assert!(error.is_some() || seen.len() + 8 >= expected, "{} rows, byte {at}", seen.len());
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_wrong_end_of_a_column_in_a_footer_loses_no_row() {
    let mut damaged = bytes("dictionary.parquet");
    // With this byte, the footer says that a column ends at byte 7444 of 7437. Its pages are as they were.
    assert_eq!(std::mem::replace(&mut damaged[5909], 68), 7, "another file");
    let (seen, error) = read("dictionary.parquet", &damaged, OnError::Fail).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&seen), texts(&whole("dictionary.parquet").await));
}

fn is_stream(name: &str) -> bool {
    name.ends_with(".arrow") && !["file.arrow", "zstd.arrow"].contains(&name) && !name.starts_with("polars")
}

#[test]
fn a_stream_of_arrow_that_is_cut_within_a_message_is_an_error() {
    let file = bytes("stream.arrow");
    run_with_time(async {
        let mut silent = 0;
        for cut in (1..file.len()).step_by(13) {
            let (seen, error) = read("stream.arrow", &file[..cut], OnError::Fail).await;
            silent += u32::from(error.is_none() && seen.len() < 54);
        }
        assert!(silent <= 3, "{silent}");
    });
}

#[test]
fn a_damaged_file_among_others_costs_one_skip() {
    for (damaged, name) in [("a.parquet", "snappy.parquet"), ("a.arrow", "stream.arrow")] {
        let (cut, file) = (bytes(name)[..900].to_vec(), bytes(name));
        let corpus = Corpus::new([(damaged, cut), ("b", file)]);
        let config =
            SourceConfig { paths: vec![corpus.path("*")], on_error: OnError::Skip(1), ..config(name) };
        run(async {
            let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
            assert_eq!(seen.len(), 54, "{name}");
        });
    }
}

#[test]
fn a_buffer_that_says_it_becomes_a_tebibyte_is_refused() {
    let mut file = bytes("lz4.arrow");
    let mut changed = 0;
    for at in 0..file.len() - 12 {
        let is_buffer = file[at + 8..at + 12] == [0x04, 0x22, 0x4d, 0x18];
        if is_buffer && file[at + 2..at + 8] == [0; 6] {
            file[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 5, "{changed}");
    let (_, error) = run_with_time(read("lz4.arrow", &file, OnError::Fail));
    let error = error.expect("an error").to_string();
    assert!(error.contains("bytes decompressed, more than the limit of 1073741824"), "{error}");
}

#[test]
fn a_buffer_outside_of_its_message_is_refused() {
    let file = bytes("stream.arrow");
    run_with_time(async {
        let mut refused = 0;
        for at in (0..file.len() - 8).step_by(8) {
            let word = file[at..].first_chunk().map_or(0, |&word| i64::from_le_bytes(word));
            if !(8..1 << 16).contains(&word) {
                continue;
            }
            let mut damaged = file.clone();
            damaged[at..at + 8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
            let error = read("stream.arrow", &damaged, OnError::Fail).await.1.map(|error| error.to_string());
            let is_refused =
                error.as_deref().is_some_and(|error| error.contains("is outside of its body of "));
            refused += usize::from(is_refused);
            // The words of the library's panic, which would stand beside the error.
            let has_panicked = error.as_deref().is_some_and(|error| error.contains("the new Buffer"));
            assert!(!has_panicked, "byte {at}: {error:?}");
        }
        assert!(refused > 5, "{refused}");
    });
}

#[test]
fn damage_is_told_with_its_place() {
    run_with_time(async {
        let mut file = bytes("snappy.parquet");
        // The pages of the first columns.
        file[100..4000].fill(0xff);
        let (seen, error) = read("snappy.parquet", &file, OnError::Fail).await;
        assert!(seen.is_empty());
        let error = error.expect("an error").to_string();
        assert!(error.contains("snappy.parquet (row 0): its row group cannot be read here"), "{error}");

        let file = bytes("gnu.tar");
        let (_, error) = read("gnu.tar", &file[..9000], OnError::Fail).await;
        let error = error.expect("an error").to_string();
        assert!(error.contains("gnu.tar (byte ") && error.contains("get the file again"), "{error}");
    });
}

/// One row group of 4,000 rows in short pages, of which one has wrong lengths, or one value that is not UTF-8.
fn damaged_table(is_utf8: bool) -> Vec<u8> {
    let text = |row: u32| format!("{row:04} {}", "x".repeat(100));
    let column: ArrayRef = Arc::new(StringArray::from_iter_values((0..4000).map(text)));
    let batch = RecordBatch::try_from_iter([("text", column)]).expect("a batch");
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_write_batch_size(50)
        .set_data_page_row_count_limit(50);
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
    let row = file.windows(5).position(|bytes| bytes == b"2800 ").expect("a row");
    match is_utf8 {
        // The lengths of the row and of those behind it.
        true => (row - 4..row + 1000).step_by(109).for_each(|at| file[at..at + 4].fill(0xff)),
        false => file[row] = 0xff,
    }
    file
}

#[test]
fn a_damaged_page_takes_the_same_rows_wherever_reading_begins_and_each_of_them_counts() {
    let config = config("snappy.parquet");
    for (is_utf8, on_error) in [true, false]
        .into_iter()
        .flat_map(|is_utf8| [OnError::Fail, OnError::Skip(u64::MAX)].map(|on_error| (is_utf8, on_error)))
    {
        let corpus = Corpus::new([("a.parquet", damaged_table(is_utf8))]);
        let config = SourceConfig { paths: vec![corpus.path("*")], on_error, ..config.clone() };
        run(async {
            let start = LaneCursor::default();
            let source = open(&config).await;
            let (whole, error) = drain(source.documents(&start)).await;
            assert!((1000..4000).contains(&whole.len()), "{}", whole.len());
            assert_eq!(error.is_some(), on_error == OnError::Fail);
            match error {
                Some(error) => assert_eq!(error.to_string().contains("store the column as binary"), !is_utf8),
                None => {
                    let meter = Meter::new("source");
                    all(source.clone().with_meter(meter.clone()).documents(&start)).await;
                    let meter = meter.snapshot();
                    assert_eq!(
                        (meter.documents, meter.documents + meter.skipped),
                        (whole.len() as u64, 4000)
                    );
                    // Behind the rows that are lost the others come.
                    assert!(whole.last().is_some_and(|last| last.text.starts_with("3999 ")));
                }
            }
            for slab in [500, 5_000, 40_000] {
                let short = source.clone().with_slab_bytes(slab);
                assert_eq!(drain(short.documents(&start)).await.0, whole, "slabs of {slab} bytes");
            }
            for (index, seen) in whole.iter().enumerate().step_by(97) {
                let (rest, _) = drain(source.documents(&seen.cursor)).await;
                assert_eq!(rest, whole[index + 1..], "after document {index}");
            }
        });
    }
}
