//! The same documents in each format, and a tokenizer that is learned from them.

use std::path::{Path, PathBuf};

use millstream::Config;
use millstream::prepare::prepare;

use super::{kept, one_epoch, runtime};
use crate::samples;
pub(crate) use crate::samples::FORMATS;

/// About the length of a document, in bytes.
const DOCUMENT: usize = 2 << 10;

/// Writes about `bytes` bytes of text in each format, unless they are there: the documents, and where they lie.
pub(crate) fn make(bytes: usize) -> (Vec<String>, PathBuf) {
    // Without blank lines each is a paragraph.
    let paragraph = |document: String| {
        let lines: Vec<&str> = document.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.join("\n")
    };
    let documents = super::documents(&super::text(bytes), DOCUMENT);
    let documents: Vec<String> = documents.into_iter().map(paragraph).collect();
    // The text is what the library's sources are now.
    let of = format!("{} {}", documents.len(), documents.iter().map(String::len).sum::<usize>());
    let directory = kept(&format!("formats-{}", bytes >> 20), &of, |directory| {
        let sample = documents[..documents.len().min(4000)].join("\n");
        super::learned(&sample, 4096).save(tokenizer(directory)).expect("written");
        for format in FORMATS {
            let folder = directory.join(format);
            std::fs::create_dir_all(&folder).expect("a directory");
            if format == "shards" {
                let lines = config("jsonl", directory);
                runtime().block_on(prepare(&lines, &folder, |_| {})).expect("prepared");
            } else {
                samples::corpus(format, &documents, &folder);
            }
        }
    });
    (documents, directory)
}

/// Where the tokenizer lies.
pub(crate) fn tokenizer(directory: &Path) -> PathBuf {
    directory.join("tokenizer.json")
}

/// One epoch of a format.
pub(crate) fn config(format: &str, directory: &Path) -> Config {
    let mut config = one_epoch(samples::source(format, &directory.join(format)));
    config.tokenizer.path = Some(tokenizer(directory));
    config
}
