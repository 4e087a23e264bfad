//! A corpus that every machine can make: this crate's own sources, over and over, each time with other
//! numbers in them, so that no cache of words sees only the same text.

use std::path::{Path, PathBuf};

/// About `bytes` bytes of Rust.
pub(crate) fn text(bytes: usize) -> String {
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../src")), &mut files);
    files.sort();
    let sources: String = files.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let mut text = String::with_capacity(bytes + sources.len());
    let mut round = 0;
    while text.len() < bytes {
        round += 1;
        text.push_str(&sources.replace("self", &format!("self_{}", round * 7919 % 9973)));
    }
    text
}

fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the crate's sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { sources(&path, files) } else { files.push(path) }
    }
}
