//! The same documents in every format, as other programs write them: four files each. Token shards are made of the
//! JSON lines.

#![allow(dead_code, reason = "no binary uses all of it")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use millstream::config::{DocumentKind, SourceConfig, SourceKind};

/// How many files a corpus has.
const FILES: usize = 4;

/// Rows of a record batch, as many as the Hugging Face libraries write.
const ROWS: usize = 1000;

/// Rows of a row group.
const ROW_GROUP: usize = 10_000;

/// The formats, in the order of the table.
pub(crate) const FORMATS: [&str; 13] = [
    "text", "jsonl", "csv", "tsv", "jsonl.gz", "jsonl.zst", "jsonl.bz2", "jsonl.xz", "parquet", "arrow",
    "tar", "mds", "shards",
];

/// How a corpus of `format` in `directory` is read.
pub(crate) fn source(format: &str, directory: &Path) -> SourceConfig {
    let kind = match format {
        "text" => SourceKind::Text,
        "csv" => SourceKind::Csv,
        "tsv" => SourceKind::Tsv,
        "parquet" => SourceKind::Parquet,
        "arrow" => SourceKind::Arrow,
        "tar" => SourceKind::Tar,
        "mds" => SourceKind::Mds,
        "shards" => SourceKind::Shards,
        _ => SourceKind::Jsonl,
    };
    let field = match kind {
        SourceKind::Text | SourceKind::Shards => None,
        SourceKind::Tar => Some("txt".to_owned()),
        _ => Some("text".to_owned()),
    };
    let paths = match kind {
        SourceKind::Shards => vec![directory.display().to_string()],
        _ => vec![format!("{}/*.{format}", directory.display())],
    };
    let document = if kind == SourceKind::Text { DocumentKind::Paragraph } else { DocumentKind::Line };
    SourceConfig { kind, field, paths, document, ..SourceConfig::default() }
}

/// Writes `documents` into `directory`.
pub(crate) fn corpus(format: &str, documents: &[String], directory: &Path) {
    for (index, part) in documents.chunks(documents.len().div_ceil(FILES)).enumerate() {
        let path = directory.join(format!("{index}.{format}"));
        let out = BufWriter::with_capacity(1 << 20, File::create(&path).expect("a file"));
        match format {
            "text" => text(part, out),
            "csv" => table(part, ',', out),
            "tsv" => table(part, '\t', out),
            "parquet" => parquet(part, out),
            "arrow" => arrow(part, out),
            "tar" => tar(part, out),
            "mds" => mds(part, out),
            "jsonl" => jsonl(part, out),
            "jsonl.gz" => {
                let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                jsonl(part, &mut out);
                out.finish().expect("written");
            }
            "jsonl.zst" => {
                let mut out = zstd::Encoder::new(out, 3).expect("an encoder");
                jsonl(part, &mut out);
                out.finish().expect("written");
            }
            "jsonl.bz2" => {
                let mut out = bzip2::write::BzEncoder::new(out, bzip2::Compression::best());
                jsonl(part, &mut out);
                out.finish().expect("written");
            }
            "jsonl.xz" => {
                let mut out = liblzma::write::XzEncoder::new(out, 1);
                jsonl(part, &mut out);
                out.finish().expect("written");
            }
            other => panic!("{other} is no format"),
        }
    }
}

fn text(documents: &[String], mut out: impl Write) {
    documents.iter().for_each(|document| write!(out, "{document}\n\n").expect("written"));
}

fn jsonl(documents: &[String], mut out: impl Write) {
    for (id, document) in documents.iter().enumerate() {
        let line = serde_json::json!({ "id": id, "text": document, "meta": { "lang": "rust" } });
        writeln!(out, "{line}").expect("written");
    }
}

fn table(documents: &[String], delimiter: char, mut out: impl Write) {
    writeln!(out, "id{delimiter}text").expect("written");
    for (id, document) in documents.iter().enumerate() {
        writeln!(out, "{id}{delimiter}\"{}\"", document.replace('"', "\"\"")).expect("written");
    }
}

/// Batches of a table of one column of text and one of numbers.
fn batches(documents: &[String]) -> impl Iterator<Item = RecordBatch> {
    documents.chunks(ROWS).map(|rows| {
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
        let lang: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|_| "rust")));
        RecordBatch::try_from_iter([("text", text), ("lang", lang)]).expect("a batch")
    })
}

fn parquet(documents: &[String], out: impl Write + Send) {
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    let mut batches = batches(documents).peekable();
    let schema = batches.peek().expect("a batch").schema();
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).expect("a writer");
    batches.for_each(|batch| writer.write(&batch).expect("written"));
    writer.close().expect("written");
}

fn arrow(documents: &[String], out: impl Write) {
    let mut batches = batches(documents).peekable();
    let schema = batches.peek().expect("a batch").schema();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(out, &schema).expect("a writer");
    batches.for_each(|batch| writer.write(&batch).expect("written"));
    writer.finish().expect("written");
}

fn tar(documents: &[String], out: impl Write) {
    let mut archive = tar::Builder::new(out);
    for (id, document) in documents.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_size(document.len() as u64);
        archive.append_data(&mut header, format!("{id:08}.txt"), document.as_bytes()).expect("written");
    }
    archive.finish().expect("written");
}

/// The layout that MosaicML's MDS has for one column of strings.
fn mds(documents: &[String], mut out: impl Write) {
    let description = serde_json::json!({
        "column_encodings": ["str"], "column_names": ["text"], "column_sizes": [null],
        "compression": null, "format": "mds", "hashes": [], "size_limit": null, "version": 2,
    })
    .to_string();
    let mut offset = 4 * (documents.len() + 2) + description.len();
    let write = |number: usize, out: &mut dyn Write| {
        out.write_all(&u32::try_from(number).expect("less than 4 GiB").to_le_bytes()).expect("written");
    };
    write(documents.len(), &mut out);
    write(offset, &mut out);
    for document in documents {
        offset += 4 + document.len();
        write(offset, &mut out);
    }
    out.write_all(description.as_bytes()).expect("written");
    for document in documents {
        write(document.len(), &mut out);
        out.write_all(document.as_bytes()).expect("written");
    }
}
