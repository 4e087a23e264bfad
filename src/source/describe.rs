//! Describes a path before a config says how to read it: its kind of source, and the fields that may hold the text.
//!
//! For a file, its first lines or its list of columns are read; for a directory, its index and the names of its files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::Source;
use super::catalog::dataset::{is_dataset, kinds};
use super::catalog::{paths, resolved};
use super::content::Content;
use super::formats::mds::shards;
use super::formats::text::head;
use super::formats::{SourceFormat, Unopened};
use super::framing::bom_len;
use super::split_size::SplitSize;
use crate::bounded;
use crate::config::{Contents, SourceConfig, SourceKind, StoreConfig};
use crate::error::{Error, Result};
use crate::files::{Codec, is_text};
use crate::shards::{Manifest, ShardPlace};
use crate::store::{Cancellable, FileOpener, Local, Stores};
use crate::tasks::blocking;

/// How many files are looked at until one has fields.
const LOOKED_AT: usize = 5;

/// How many lines are looked at to tell whether they are JSON.
const LINES: usize = 4;

/// Returns the kind of source that a local path is: a file's kind by its first bytes and its name, or the kind of a
/// directory of token shards, MosaicML's shards or a Hugging Face dataset. `None` for another directory, or a file that
/// is neither text nor of a supported format.
///
/// A `.json` file is `jsonl` if its first lines are objects, and text if not: a source can also read one array as
/// `jsonl`, but most such files are settings.
///
/// # Errors
/// [`Error::Io`] for a path that cannot be read.
pub fn recognize(path: impl AsRef<Path>) -> Result<Option<SourceKind>> {
    let path = path.as_ref();
    let metadata = fs::metadata(path).map_err(|e| Error::io(path, "look at", e))?;
    if !metadata.is_file() {
        return Ok(if metadata.is_dir() { directory(path) } else { None });
    }
    // A pointer of git LFS is refused.
    bounded::open(path).map_err(|e| Error::io(path, "read", e))?;
    let stored = Local::open(path, metadata.len())?;
    let head = head(&mut Content::open(Arc::new(stored))?)?;
    let name = path.to_string_lossy().to_lowercase();
    let named = kinds(Path::new(&name)).last();
    let is_json = name.split('.').any(|ending| ending == "json");
    let signed = SourceKind::of_signature(&head);
    Ok(match named {
        _ if signed.is_some() => signed,
        // All Parquet files have their signature.
        Some(kind) if kind.contents() == Contents::Bytes && kind != SourceKind::Parquet => named,
        _ if head.is_empty() || !is_text(&head) => None,
        Some(kind) if kind.contents() == Contents::TextRecords => named,
        Some(SourceKind::Jsonl) if !is_json => named,
        _ if are_objects(&head[bom_len(&head)..]) => Some(SourceKind::Jsonl),
        _ => Some(SourceKind::Text),
    })
}

/// Returns the end of a file's name that tells its format, with that of its compression: `jsonl.gz` of `a.jsonl.gz`.
/// Empty if it has none.
pub fn extension(path: &Path) -> String {
    let end =
        |path: &Path| path.extension().map(|end| end.to_string_lossy().into_owned()).unwrap_or_default();
    let (last, inner) = (end(path), end(&path.with_extension("")));
    let is_packed = Codec::named(path).is_some() && !inner.is_empty();
    if is_packed { format!("{inner}.{last}") } else { last }
}

/// The kind of a directory as a whole.
fn directory(path: &Path) -> Option<SourceKind> {
    if Manifest::load(&ShardPlace::Directory(path.to_owned())).is_ok() {
        return Some(SourceKind::Shards);
    }
    match shards(path) {
        Ok(shards) if !shards.is_empty() => Some(SourceKind::Mds),
        _ => is_dataset(path).then_some(SourceKind::Huggingface),
    }
}

/// Whether each of the first lines is a JSON object.
fn are_objects(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty()).take(LINES).peekable();
    lines.peek().is_some()
        && lines.all(|line| line.starts_with(b"{") && serde_json::from_slice::<Value>(line).is_ok())
}

impl Source {
    /// Returns the dotted names of the fields that may hold the text of a source, by its first file with records. It
    /// ignores the config's `field`.
    ///
    /// # Errors
    /// As [`open`](Source::open), and [`Error::Document`] for a file that is not of `config.kind`.
    pub async fn fields(config: &SourceConfig) -> Result<Vec<String>> {
        let stores = Arc::new(Stores::new(&StoreConfig::default()));
        let sources = resolved::resolve(std::slice::from_ref(config), &stores).await?;
        let files = Arc::new(paths::files(&sources, &stores).await?);
        let opener = FileOpener::unplanned(files.clone(), stores, Cancellable::never());
        blocking("source", move || {
            let SourceFormat { format, .. } =
                SourceFormat::new(0, &sources[0].reads, SplitSize::new(&files, None), None)?;
            for number in 0..files.len().min(LOOKED_AT) as u32 {
                let names =
                    format.fields(Unopened::new(&opener, number))?.map_err(|problem| Error::Document {
                        path: files.path(number).to_owned(),
                        line: 0,
                        unit: files.unit(number),
                        byte: problem.stored.unwrap_or(problem.offset as u64),
                        problem: problem.what,
                        remedy: problem.remedy.into_owned(),
                    })?;
                if !names.is_empty() {
                    return Ok(names);
                }
            }
            Ok(Vec::new())
        })
        .await
    }
}
