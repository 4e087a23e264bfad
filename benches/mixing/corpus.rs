//! The same documents in many layouts, and short lines. All of it is drawn from a fixed seed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use clap::ValueEnum;
use millstream::config::Config;
use millstream::prepare::prepare;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use crate::common::write_parquet;

/// How many files the corpora of some files have.
const FILES: usize = 24;

/// Documents of one of the many small files.
const IN_SMALL_FILE: usize = 5;

/// Row groups of the Parquet file.
const ROW_GROUPS: usize = 4;

/// Bytes of a document, or of a line where those are the documents.
const DOCUMENT: Range<usize> = 1500..3500;
const LINE: Range<usize> = 60..100;

/// A layout of a corpus.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Case {
    /// One text file of short lines.
    Lines,
    /// One JSONL file.
    Jsonl,
    /// 24 JSONL files.
    #[value(name = "jsonl-24")]
    Jsonl24,
    /// Thousands of JSONL files of a few documents.
    SmallFiles,
    /// Thousands of text files that are a document each.
    WholeFiles,
    /// One Parquet file of a few row groups.
    Parquet,
    /// 24 JSONL files, each one gzip stream.
    #[value(name = "gzip-24")]
    Gzip24,
    /// 24 JSONL files, each one zstd frame.
    #[value(name = "zstd-24")]
    Zstd24,
    /// One JSONL file in one gzip stream, which cannot be cut.
    Gzip,
    /// Token shards of the 24 JSONL files.
    Shards,
    /// Token shards of the short lines.
    LineShards,
}

impl Case {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("none is skipped").get_name().to_owned()
    }

    /// Whether its documents are short lines.
    fn is_lines(self) -> bool {
        matches!(self, Self::Lines | Self::LineShards)
    }

    /// Whether its tokens are stored: then all documents can be shuffled together.
    pub(crate) fn is_stored(self) -> bool {
        matches!(self, Self::Shards | Self::LineShards)
    }

    /// Writes the corpus of about `bytes` bytes into `directory`, and says how it is read.
    pub(crate) async fn write(self, bytes: usize, directory: &Path) -> Value {
        let documents = documents(bytes, if self.is_lines() { LINE } else { DOCUMENT });
        let (all, in_files) = (documents.len(), documents.len().div_ceil(FILES));
        let each = match self {
            Self::Lines | Self::LineShards | Self::Jsonl | Self::Parquet | Self::Gzip => all,
            Self::Jsonl24 | Self::Gzip24 | Self::Zstd24 | Self::Shards => in_files,
            Self::SmallFiles => IN_SMALL_FILE,
            Self::WholeFiles => 1,
        };
        let texts = directory.join("texts");
        std::fs::create_dir(&texts).expect("a directory");
        for (index, documents) in documents.chunks(each).enumerate() {
            let file = File::create(texts.join(format!("{index:06}"))).expect("a file");
            self.write_file(documents, BufWriter::new(file));
        }
        let paths = [texts.join("*")];
        let jsonl = json!({ "kind": "jsonl", "field": "text", "paths": paths });
        match self {
            Self::Lines => json!({ "paths": paths }),
            Self::WholeFiles => json!({ "paths": paths, "document": "file" }),
            Self::Parquet => json!({ "kind": "parquet", "field": "text", "paths": paths }),
            Self::Shards | Self::LineShards => {
                let shards = directory.join("shards");
                let text = if self.is_lines() { json!({ "paths": paths }) } else { jsonl };
                let config = config(text, json!({}));
                prepare(&config, &shards, |_| {}).await.expect("prepared");
                json!({ "kind": "shards", "paths": [shards] })
            }
            _ => jsonl,
        }
    }

    fn write_file(self, documents: &[String], mut out: impl Write + Send) {
        match self {
            Self::Lines | Self::LineShards | Self::WholeFiles => {
                documents.iter().for_each(|document| writeln!(out, "{document}").expect("written"));
            }
            Self::Jsonl | Self::Jsonl24 | Self::SmallFiles | Self::Shards => jsonl(documents, out),
            Self::Gzip | Self::Gzip24 => {
                let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
                jsonl(documents, &mut out);
                out.finish().expect("written");
            }
            Self::Zstd24 => {
                let mut out = zstd::Encoder::new(out, 1).expect("an encoder");
                jsonl(documents, &mut out);
                out.finish().expect("written");
            }
            Self::Parquet => {
                let rows = documents.len().div_ceil(ROW_GROUPS);
                let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
                write_parquet(documents, properties.build(), out).flush().expect("written");
            }
        }
    }
}

/// A config of one epoch of `source`, whose ids are bytes.
pub(crate) fn config(source: Value, pipeline: Value) -> Config {
    let mut config = json!({
        "source": [source],
        "tokenizer": { "kind": "bytes", "eos": "<|endoftext|>" },
        "pipeline": { "epochs": 1, "memory": "2GiB" },
    });
    let settings = pipeline.as_object().cloned().unwrap_or_default();
    settings.into_iter().for_each(|(key, value)| config["pipeline"][key] = value);
    serde_json::from_value(config).expect("a config")
}

/// Documents of letters and spaces, of about `bytes` bytes together.
fn documents(bytes: usize, lengths: Range<usize>) -> Vec<String> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut documents, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let length = lengths.start + random() as usize % lengths.len();
        let mut document = String::with_capacity(length + 8);
        while document.len() < length {
            let letters = random().to_le_bytes();
            document
                .extend(letters.map(|byte| b"abcdefghijklmnopqrstuvwxyz      "[byte as usize % 32] as char));
        }
        // Neither a blank line nor one that ends in blanks.
        document.truncate(length - 1);
        document.push('.');
        left = left.saturating_sub(length);
        documents.push(document);
    }
    documents
}

fn jsonl(documents: &[String], mut out: impl Write) {
    for document in documents {
        writeln!(out, "{}", json!({ "text": document })).expect("written");
    }
}
