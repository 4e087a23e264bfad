//! What the program takes while it runs: about its budget, and no more later than soon.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use millstream::config::{ByteCount, Config, TokenizerConfig};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use serde_json::Value;

use crate::program::{run, said};
use crate::samples::{corpus, source};

/// About how much the program takes beside its budget, with threads, code and what its allocator has not given back.
const BESIDE: u64 = 112 << 20;

/// The lanes of a default config, and the most that one of the documents takes in flight.
const LANES: u64 = 16;
const LONGEST: u64 = 6 * 420 * 9;

/// Documents of words that hardly compress, of 2 KiB on average.
fn documents(bytes: usize) -> Vec<String> {
    let mut state = 7_u64;
    let mut number = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut documents, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let words = 20 + number(400);
        let text = (0..words).map(|_| format!("{:x} ", number(1 << 30))).collect::<String>();
        left = left.saturating_sub(text.len());
        documents.push(text);
    }
    documents
}

/// Writes Parquet files, and a config that reads them without end.
fn tables(directory: &Path, bytes: usize, memory: ByteCount) -> String {
    corpus("parquet", &documents(bytes), directory);
    config("parquet", directory, memory)
}

/// Writes a config that reads the tables in a directory without end.
fn config(kind: &str, directory: &Path, memory: ByteCount) -> String {
    let mut config = Config { sources: vec![source(kind, directory)], ..Config::default() };
    config.tokenizer = TokenizerConfig::bytes();
    config.pipeline.workers = 2.into();
    config.pipeline.memory = memory;
    let path = directory.join("config.json");
    std::fs::write(&path, serde_json::to_string(&config).expect("JSON")).expect("written");
    path.display().to_string()
}

#[cfg(target_os = "linux")]
#[test]
fn resident_memory_stays_near_the_budget_over_many_epochs_of_tables() {
    let directory = tempfile::tempdir().expect("a directory");
    let memory = ByteCount::mib(128);
    let config = tables(directory.path(), 64 << 20, memory);
    let output = run(&["bench", "loader", &config, "-n", "40000", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let peak = report["peak_rss_bytes"].as_u64().expect("Linux says it");
    assert!(peak < memory.0 + BESIDE, "{} MiB: {}", peak >> 20, said(&output));
    let [most, budget] = ["peak_bytes_in_flight", "budget_bytes"]
        .map(|key| report["meters"][key].as_u64().expect("a number of bytes"));
    // A lane may pass its share by what it reads at once, a twelfth of it, and by one document.
    assert!(most <= budget + budget / 12 + LANES * LONGEST, "{most} of {budget}");
}

/// A table of `rows` texts of `bytes` each, and of other columns.
fn table(rows: usize, bytes: usize, others: usize) -> RecordBatch {
    let text = |row: usize| format!("{row} ").repeat(bytes).chars().take(bytes).collect::<String>();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(text)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let others = (0..others).map(|other| (format!("c{other}"), numbers.clone()));
    RecordBatch::try_from_iter(others.chain([("text".to_owned(), texts)])).expect("a table")
}

fn parquet(table: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let (mut bytes, properties) = (Vec::new(), properties.build());
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).expect("a writer");
    writer.write(table).expect("written");
    writer.close().expect("written");
    bytes
}

#[cfg(target_os = "linux")]
#[test]
fn tables_that_are_decoded_in_large_parts_or_have_a_long_footer_take_no_multiple_of_them() {
    let (whole, groups) = (table(2000, 30 << 10, 0), table(4000, 200, 40));
    let page = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_write_batch_size(1 << 20);
    let many = WriterProperties::builder().set_max_row_group_row_count(Some(4));
    let mut batch = Vec::new();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).expect("zstd");
    let mut writer =
        FileWriter::try_new_with_options(&mut batch, &whole.schema(), options).expect("a writer");
    writer.write(&whole).expect("written");
    writer.finish().expect("written");
    drop(writer);
    let long = 2000 * (30 << 10);
    for (kind, bytes, held) in [
        ("parquet", parquet(&whole, page), long),
        ("parquet", parquet(&groups, many), 0),
        ("arrow", batch, long),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(format!("0.{kind}")), bytes).expect("written");
        let config = config(kind, directory.path(), ByteCount::mib(128));
        let output = run(&["bench", "loader", &config, "-n", "20", "--json"]);
        assert!(output.status.success(), "{kind}: {}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let peak = report["peak_rss_bytes"].as_u64().expect("Linux says it");
        assert!(peak < 400 << 20, "{kind}: {} MiB: {}", peak >> 20, said(&output));
        let output = run(&["check", &config, "--json", "--set", "pipeline.memory=16MiB"]);
        let checked: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let said = checked["memory"].as_u64().expect("bytes");
        assert!((held..2 * held + (32 << 20)).contains(&said), "{kind}: {said}");
    }
}

#[test]
fn open_files_that_take_more_than_their_part_of_the_memory_are_told_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = tables(directory.path(), 24 << 20, ByteCount::mib(8));
    let output = run(&["bench", "loader", &config, "-n", "50", "--json"]);
    assert!(output.status.success());
    let said = said(&output);
    assert!(
        said.contains("the open files of a source take more than its share of pipeline.memory")
            && said.contains("source=\"0\""),
        "{said}"
    );
}

#[test]
fn footers_that_stay_in_memory_count() {
    let budget = |others| {
        let of_ten = WriterProperties::builder().set_max_row_group_row_count(Some(10));
        let directory = tempfile::tempdir().expect("a directory");
        let bytes = parquet(&table(4000, 200, others), of_ten);
        std::fs::write(directory.path().join("0.parquet"), bytes).expect("written");
        let config = config("parquet", directory.path(), ByteCount::mib(128));
        let output = run(&["bench", "loader", &config, "-n", "1", "--json", "--set", "pipeline.lanes=1"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
        report["meters"]["budget_bytes"].as_u64().expect("a number of bytes")
    };
    let (one, many) = (budget(0), budget(40));
    // 400 row groups of 40 more columns, some 500 bytes each.
    assert!(many + (4 << 20) < one, "{many} and {one}");
}
