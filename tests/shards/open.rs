//! Open files that take much memory: fewer of them are read side by side, from text and from its shards alike.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use millstream::Source;
use millstream::config::{Config, OrAuto, SourceConfig, SourceKind};
use millstream::loader::resolved;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::text::{Case, all, assert_same, run};

/// Lines that no codec makes much shorter, `bytes` together.
fn lines(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let end = if text.len() % 100 == 99 { '\n' } else { char::from(b'!' + (state >> 58) as u8) };
        text.push(end);
    }
    text
}

/// A source of one file, in a directory of its own.
fn source(kind: SourceKind, name: &str, write: impl FnOnce(File)) -> (Case, SourceConfig) {
    let mut case = Case::new(&[], |_| {});
    let path = case.directory.path().join(name);
    write(File::create(&path).expect("a file"));
    let field = (kind != SourceKind::Text).then(|| "text".to_owned());
    let paths = vec![path.display().to_string()];
    let config = SourceConfig { kind, field, paths, ..SourceConfig::default() };
    case.config.sources = vec![config.clone()];
    (case, config)
}

/// How many splits each of so many lanes reads side by side.
fn interleave<const N: usize>(config: &SourceConfig, lanes: [usize; N]) -> [usize; N] {
    let source = run(Source::open(std::slice::from_ref(config))).expect("opened");
    lanes.map(|lanes| source.interleave(128, lanes))
}

fn packed<W: Write>(mut packer: W, text: &str, end: impl FnOnce(W) -> io::Result<Vec<u8>>) -> Vec<u8> {
    packer.write_all(text.as_bytes()).expect("written to memory");
    end(packer).expect("written to memory")
}

#[test]
fn the_more_a_codec_looks_back_the_fewer_files_are_open() {
    let text = lines(3 << 20);
    let gzip = || flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let xz = || liblzma::write::XzEncoder::new(Vec::new(), 0);
    let zstd = || zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    let packed: [(&str, Vec<u8>, [usize; 3]); 5] = [
        ("plain", text.clone().into_bytes(), [8, 8, 8]),
        ("long.gz", packed(gzip(), &text, |packer| packer.finish()), [8, 8, 8]),
        ("long.zst", packed(zstd(), &text, |packer| packer.finish()), [8, 8, 2]),
        ("long.xz", packed(xz(), &text, |packer| packer.finish()), [8, 4, 1]),
        ("short.xz", packed(xz(), "a short line\n", |packer| packer.finish()), [8, 8, 8]),
    ];
    for (name, bytes, wanted) in packed {
        let (_case, config) =
            source(SourceKind::Text, name, |mut file| file.write_all(&bytes).expect("written"));
        assert_eq!(interleave(&config, [1, 4, 16]), wanted, "{name}");
    }
}

/// One row group of so many rows, each of `bytes`.
fn table(rows: usize, bytes: usize) -> impl FnOnce(File) {
    move |file| {
        let text = lines(rows * bytes);
        let rows = (0..rows).map(|row| &text[row * bytes..][..bytes]);
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
        let batch = RecordBatch::try_from_iter([("text", column)]).expect("a batch");
        let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(plain)).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("written");
    }
}

#[test]
fn the_longer_pages_usually_are_the_fewer_of_them_are_open() {
    for (rows, bytes, wanted) in
        [(9000, 100, [8, 8, 8]), (60_000, 100, [8, 8, 7]), (4000, 3 << 10, [8, 8, 2])]
    {
        let (_case, config) = source(SourceKind::Parquet, "table.parquet", table(rows, bytes));
        assert_eq!(interleave(&config, [1, 4, 16]), wanted, "{rows} rows of {bytes} bytes");
    }
}

#[test]
fn so_many_lanes_have_a_file_open_as_memory_allows_unless_the_config_says_it() {
    let (mut case, _) = source(SourceKind::Parquet, "0.parquet", table(1200, 40 << 10));
    let first = case.directory.path().join("0.parquet");
    for nth in 1..16 {
        fs::hard_link(&first, first.with_file_name(format!("{nth}.parquet"))).expect("a link");
    }
    case.config.sources[0].paths = vec![first.with_file_name("*.parquet").display().to_string()];
    case.config.pipeline.lanes = OrAuto::Auto;
    let lanes = |config: &Config| run(resolved(config)).expect("resolved").pipeline.lanes();
    assert_eq!(lanes(&case.config), 8);
    case.config.pipeline.lanes = 16.into();
    assert_eq!(lanes(&case.config), 16);
}

#[test]
fn shards_are_read_as_the_files_that_they_are_of() {
    let (mut case, config) = source(SourceKind::Parquet, "table.parquet", table(1600, 8 << 10));
    case.config.pipeline.epochs = Some(1);
    case.config.pipeline.seq_len = 4 << 10;
    case.config.pipeline.lanes = 16.into();
    case.config.pipeline.window = 128.into();
    case.prepare().expect("prepared");
    let sharded = case.sharded();
    assert_eq!(interleave(&config, [16]), [1]);
    assert_eq!(interleave(&sharded.sources[0], [16]), [1]);
    assert_same(&all(&sharded, None).expect("batches"), &all(&case.config, None).expect("batches"));
}

#[test]
fn a_compressed_shard_of_mds_is_one_split() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    for name in ["mds-zstd", "mds-gz", "mds"] {
        let (of_mds, field) = (directory.join(name), Some("text".to_owned()));
        let files = fs::read_dir(&of_mds).expect("a directory");
        let shards =
            files.filter(|file| !file.as_ref().expect("a file").path().ends_with("index.json")).count();
        let paths = vec![of_mds.display().to_string()];
        let config = SourceConfig { kind: SourceKind::Mds, field, paths, ..SourceConfig::default() };
        let splits = run(Source::open(&[config])).expect("opened").splits();
        assert!(
            if name == "mds" { splits > shards } else { splits == shards },
            "{name}: {splits} of {shards}"
        );
    }
}
