//! Token columns of MosaicML's shards, written here byte for byte as its library writes them.

use std::fs;
use std::path::Path;

use millstream::prepare::{Import, import_mds};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Error, Result};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use crate::exchange::documents;

const EOS: u32 = 256;

fn texts() -> Vec<String> {
    (0..20).map(|i| format!("document {i:02}, {}", "of words ".repeat(i % 4))).collect()
}

/// The ids of a text, each in some bytes.
fn ids(text: &str, width: usize) -> Vec<u8> {
    let ids = text.bytes().map(u64::from).chain([u64::from(EOS)]);
    ids.flat_map(|id| id.to_le_bytes()[..width].to_vec()).collect()
}

/// What a text is in a column.
type Column = fn(&str) -> Vec<u8>;

/// What is before an array of one axis.
fn shape(text: &str) -> Vec<u8> {
    let len = text.len() + 1;
    match u8::try_from(len) {
        Ok(len) => vec![1 << 2, len],
        Err(_) => [vec![1 << 2 | 1], (len as u16).to_le_bytes().to_vec()].concat(),
    }
}

/// One shard: a column of numbers, and one of tokens.
fn shard(encoding: &str, size: Option<usize>, values: &[Vec<u8>]) -> Vec<u8> {
    let description = json!({
        "column_encodings": ["int", encoding], "column_names": ["id", "tokens"], "column_sizes": [8, size],
        "compression": null, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2,
    });
    let description = description.to_string().into_bytes();
    let sample = |(number, value): (usize, &Vec<u8>)| {
        let len = if size.is_none() { (value.len() as u32).to_le_bytes().to_vec() } else { Vec::new() };
        [len, (number as u64).to_le_bytes().to_vec(), value.clone()].concat()
    };
    let samples: Vec<Vec<u8>> = values.iter().enumerate().map(sample).collect();
    let mut at = 4 * (values.len() + 2) + description.len();
    let mut bytes = (values.len() as u32).to_le_bytes().to_vec();
    bytes.extend((at as u32).to_le_bytes());
    for sample in &samples {
        at += sample.len();
        bytes.extend((at as u32).to_le_bytes());
    }
    [bytes, description, samples.concat()].concat()
}

/// A directory of two shards, and its index.
fn directory(encoding: &str, size: Option<usize>, values: &[Vec<u8>], packs: bool) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let mut listed = Vec::new();
    for (number, values) in values.chunks(12).enumerate() {
        let (name, bytes) = (format!("shard.{number:05}.mds"), shard(encoding, size, values));
        let (zip, compression) = match packs {
            true => {
                let zip = format!("{name}.zstd");
                let packed = zstd::encode_all(&bytes[..], 3).expect("packed");
                fs::write(directory.path().join(&zip), packed).expect("written");
                (json!({ "basename": zip }), json!("zstd:3"))
            }
            _ => {
                fs::write(directory.path().join(&name), &bytes).expect("written");
                (json!(null), json!(null))
            }
        };
        let raw = json!({ "basename": name });
        listed.push(json!({ "format": "mds", "raw_data": raw, "zip_data": zip, "compression": compression }));
    }
    let index = json!({ "shards": listed, "version": 2 }).to_string();
    fs::write(directory.path().join("index.json"), index).expect("written");
    directory
}

/// Imports into a directory beside the shards.
fn imported(shards: &Path, field: &str, width: usize) -> Result<Vec<String>> {
    let out = shards.join("out");
    let how = Import { eos: Some(EOS), width };
    let done = import_mds(shards, field, how, &ByteTokenizer, &out)?;
    let documents = documents(&out)?;
    assert_eq!(done.documents, documents.len() as u64);
    let tokens: usize = documents.iter().map(|text| text.chars().count()).sum();
    assert_eq!(done.tokens, tokens as u64);
    Ok(documents)
}

#[test]
fn columns_of_any_encoding_are_read() {
    let long = [texts(), vec!["long ".repeat(100)]].concat();
    let values = |of: &dyn Fn(&str) -> Vec<u8>| long.iter().map(|text| of(text)).collect::<Vec<_>>();
    for (packs, width) in [(false, 2), (false, 4), (true, 8)] {
        let shards = directory("bytes", None, &values(&|text| ids(text, width)), packs);
        assert_eq!(imported(shards.path(), "tokens", width).expect("imported"), long, "{width}");
    }
    assert_eq!(Import::new(None, &ByteTokenizer).width, 2);
    let arrays: [(&str, Column); 3] = [
        ("ndarray:uint16", |text| [shape(text), ids(text, 2)].concat()),
        ("ndarray:int32", |text| [shape(text), ids(text, 4)].concat()),
        ("ndarray", |text| [vec![65], shape(text), ids(text, 8)].concat()),
    ];
    for (encoding, of) in arrays {
        let shards = directory(encoding, None, &values(&of), false);
        // What the shards say of the width counts.
        assert_eq!(imported(shards.path(), "tokens", 2).expect("imported"), long, "{encoding}");
    }
    let even: Vec<String> = (0..20).map(|n| format!("as long as all {n:02}")).collect();
    let values: Vec<Vec<u8>> = even.iter().map(|text| ids(text, 4)).collect();
    let shards = directory("ndarray:uint32:18", Some(72), &values, false);
    assert_eq!(imported(shards.path(), "tokens", 2).expect("imported"), even);
}

#[test]
fn what_cannot_be_is_said() {
    let values: Vec<Vec<u8>> = texts().iter().map(|text| ids(text, 2)).collect();
    let shards = directory("bytes", None, &values, false);
    let refused =
        |field: &str, width: usize| imported(shards.path(), field, width).expect_err("a refusal").to_string();
    assert!(refused("text", 2).contains("there is no column \"text\"; it has id, tokens"));
    assert!(refused("id", 2).contains("column \"id\" is int and not ids"));
    let wide = refused("tokens", 4);
    assert!(
        wide.contains("shard.00000.mds (row 0): id 0 is 7274596, beyond the tokenizer's vocabulary of 257"),
        "{wide}"
    );
    assert!(refused("tokens", 3).starts_with("width: 3 must be"));
    let odd = directory("bytes", None, &[vec![1, 0, 2]], false);
    let error = imported(odd.path(), "tokens", 2).expect_err("a refusal");
    assert!(
        matches!(&error, Error::Corpus { problem } if problem.contains("not a whole number of ids")),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_damage_panics(index: prop::sample::Index, value: u8, cut: prop::sample::Index) {
        let values: Vec<Vec<u8>> = texts().iter().map(|text| [vec![17], shape(text), ids(text, 2)].concat()).collect();
        let shards = directory("ndarray", None, &values, false);
        let path = shards.path().join("shard.00000.mds");
        let mut bytes = fs::read(&path).expect("read");
        let at = index.index(bytes.len());
        bytes[at] = value;
        bytes.truncate(bytes.len() - cut.index(4) * cut.index(bytes.len()) / 4);
        fs::write(&path, bytes).expect("written");
        if let Err(error) = imported(shards.path(), "tokens", 2) {
            prop_assert!(!error.to_string().contains("panicked"), "{error}");
        }
    }
}
