//! Directories that are a corpus by themselves: token shards, MosaicML's shards, and those of the Hugging Face
//! libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::field::{Fields, Lengths, Wish};
use super::head::Head;
use super::part::{Part, exactly, literal};
use super::{kind, plain, records};
use crate::config::{DocumentKind, SourceKind};
use crate::{Error, Result};

/// What the names of files of records end in, before the ending of compressed ones.
const DATA: [&str; 9] = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "arrow", "tar", "txt"];

/// The most bytes of a card or an index.
const SMALL: u64 = 256 << 20;

/// The directory as a part of the corpus, if it is one by itself.
pub(super) fn known(path: &Path, wish: Wish<'_>) -> Result<Option<Part>> {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches('/');
    let part = |kind| Part::new(exactly(name), path, kind);
    if is_token_shards(path) {
        let bytes = bytes(path)?;
        // An id takes two bytes or four, and stands for some four bytes of text.
        let (text, documents) = (bytes.saturating_mul(2), bytes / 1000);
        let why = "tokens of `millstream prepare`: no text is tokenized again".to_owned();
        return Ok(Some(Part { pattern: literal(name), text, documents, why, ..part(SourceKind::Shards) }));
    }
    if let Some(index) = mds_index(path)? {
        return mosaic(path, &index, wish, part(SourceKind::Mds)).map(Some);
    }
    if is_huggingface(path) {
        return hugging_face(path, wish, Part { pattern: literal(name), ..part(SourceKind::Huggingface) })
            .map(Some);
    }
    Ok(None)
}

/// Whether a directory within another one is to be read as a whole.
pub(super) fn is_shards(path: &Path) -> bool {
    is_token_shards(path) || matches!(mds_index(path), Ok(Some(_)))
}

fn is_token_shards(path: &Path) -> bool {
    let manifest = json(&path.join("manifest.json"));
    manifest.is_some_and(|manifest| manifest["tokenizer"].is_string() && manifest["files"].is_array())
}

/// How long the files of a directory are together.
fn bytes(path: &Path) -> Result<u64> {
    let read = |e| Error::io(path, "read the directory", e);
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(read)? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(read)?.len();
    }
    Ok(bytes)
}

/// A small file, if there is one. Devices and pipes may never end.
fn small(path: &Path) -> Option<Vec<u8>> {
    let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    (length <= SMALL).then(|| fs::read(path).ok())?
}

/// A JSON file, if there is one.
fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&small(path)?).ok()
}

/// `index.json` of MosaicML's shards.
#[derive(Deserialize)]
struct Index {
    shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    format: String,
    samples: u64,
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    raw_data: Data,
}

#[derive(Deserialize)]
struct Data {
    bytes: u64,
}

fn mds_index(path: &Path) -> Result<Option<Index>> {
    let index = json(&path.join("index.json")).and_then(|index| serde_json::from_value::<Index>(index).ok());
    Ok(index.filter(|index| index.shards.iter().any(|shard| shard.format == "mds")))
}

/// MosaicML's shards: their index names the columns, and not how long they are.
fn mosaic(path: &Path, index: &Index, wish: Wish<'_>, part: Part) -> Result<Part> {
    let first = &index.shards[0];
    let columns = first.column_names.iter().zip(&first.column_encodings);
    let of = |encoding: &str| {
        let columns = columns.clone().filter(|(_, of)| *of == encoding);
        columns.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let mut fields = Fields::default();
    // Strings are likelier to be text than bytes are.
    let candidates = if of("str").is_empty() { of("bytes") } else { of("str") };
    candidates.iter().for_each(|column| fields.add(column, 1));
    let Some(field) = wish.field.or_else(|| fields.text()) else {
        let problem = format!(
            "{}: none of these shards' columns is a string ({}); if they hold tokens, `millstream import --help` says how \
             to read them",
            path.display(),
            first.column_names.join(", ")
        );
        return Err(Error::Corpus { problem });
    };
    Ok(Part {
        why: fields.beside(field),
        field: Some(field.to_owned()),
        files: index.shards.len(),
        text: index.shards.iter().map(|shard| shard.raw_data.bytes).sum(),
        documents: index.shards.iter().map(|shard| shard.samples).sum(),
        ..part
    })
}

/// Whether the Hugging Face libraries left the directory: a snapshot, a saved dataset, or files named by their splits.
fn is_huggingface(path: &Path) -> bool {
    let has = |names: [&str; 2]| names.iter().all(|name| path.join(name).exists());
    let is_saved = path.join("dataset_dict.json").exists() || has(["state.json", "dataset_info.json"]);
    if is_saved || has(["snapshots", "blobs"]) || has(["snapshots", "refs"]) || !subsets(path).is_empty() {
        return true;
    }
    let names: Vec<String> = [path.to_owned(), path.join("data")]
        .iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .filter(|entry| is_data(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().to_lowercase())
        .collect();
    let is_shard =
        |name: &String| name.contains("-of-") && (name.starts_with("train") || name.starts_with("data-"));
    let begins = |words: &[&str]| names.iter().any(|name| words.iter().any(|word| name.starts_with(word)));
    names.iter().any(is_shard)
        || begins(&["train"]) && begins(&["test", "valid", "val.", "val-", "dev", "eval"])
}

/// Whether a file may hold records, by its name.
fn is_data(path: &Path) -> bool {
    let about = ["state.json", "dataset_info.json", "dataset_dict.json"];
    let extension = kind::extension(path);
    let format = extension.split('.').next().unwrap_or_default();
    DATA.contains(&format) && !about.iter().any(|name| path.ends_with(name))
}

/// The front matter of a dataset's README.
#[derive(Default, Deserialize)]
struct Card {
    #[serde(default)]
    configs: Vec<Subset>,
}

#[derive(Deserialize)]
struct Subset {
    config_name: String,
    #[serde(default)]
    default: bool,
}

/// The subsets that the README of a directory lists.
fn subsets(path: &Path) -> Vec<Subset> {
    let text =
        small(&path.join("README.md")).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let Some(rest) = text.strip_prefix("---") else { return Vec::new() };
    let matter = rest.split("\n---").next().unwrap_or_default();
    serde_saphyr::from_str::<Card>(matter).unwrap_or_default().configs
}

/// A directory of the Hugging Face libraries: its field is that of its first file for training.
fn hugging_face(path: &Path, wish: Wish<'_>, part: Part) -> Result<Part> {
    let mut files = Vec::new();
    data_files(path, &mut BTreeSet::new(), &mut files);
    files.sort_unstable();
    let wanted = wish.part.unwrap_or("train");
    let is_wanted = |path: &&PathBuf| path.to_string_lossy().contains(wanted);
    let first = files.iter().find(is_wanted).or(files.first());
    let bytes: u64 =
        files.iter().filter_map(|path| fs::metadata(path).ok()).map(|metadata| metadata.len()).sum();
    let (mut part, text) = (Part { files: files.len(), ..part }, bytes.saturating_mul(2));
    part.text = text;
    if let Some(first) = first {
        let head = Head::read(first)?;
        let kind = match kind::recognize(first, &head) {
            Some(SourceKind::Mds) | None => SourceKind::Text,
            Some(kind) => kind,
        };
        if kind == SourceKind::Text {
            // Each line of a text is a row with the column `text`.
            part.field = Some("text".to_owned());
            part.why = Fields::default().beside("text");
            part.documents = plain::count(DocumentKind::Line, &head, files.len(), text);
        } else {
            let fields = records::fields(first, kind, &head)?;
            let field = fields.chosen(first, wish)?;
            part = part.has(field, &fields, Lengths::new(first, bytes, text)?);
        }
    }
    part.part = wish.part.map(str::to_owned);
    let subsets = subsets(path);
    let is_named = subsets.iter().any(|subset| subset.default || subset.config_name == "default");
    let mut names: Vec<String> = subsets.into_iter().map(|subset| subset.config_name).collect();
    let first = names.first().filter(|_| names.len() > 1 && !is_named).cloned();
    if let Some(subset) = wish.subset.map(str::to_owned).or(first) {
        names.retain(|name| *name != subset);
        part.subset = Some((subset, names));
    }
    Ok(part)
}

/// The files below a directory that may hold records, links of a cache among them. `walked` are the directories that
/// were looked into.
fn data_files(path: &Path, walked: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) {
    if !fs::canonicalize(path).is_ok_and(|path| walked.insert(path)) {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        if kind::is_about(&path) || path.ends_with("blobs") {
            continue;
        }
        if path.is_dir() {
            data_files(&path, walked, files);
        } else if is_data(&path) {
            files.push(path);
        }
    }
}
