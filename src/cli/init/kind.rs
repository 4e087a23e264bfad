//! The format of a file, by its name and its first bytes.

use std::path::Path;

use crate::config::SourceKind;

use super::head::Head;

/// What the names of compressed files end in.
const PACKED: [&str; 6] = ["gz", "zst", "zstd", "bz2", "xz", "lz4"];

/// Names of files that are about a corpus and not part of it.
const ABOUT: [&str; 6] = ["readme", "license", "licence", "changelog", "requirements", "dataset_infos"];

/// Extensions of files that are text and no corpus: settings, lists of checksums, indexes.
const SETTINGS: [&str; 14] = [
    "toml",
    "yaml",
    "yml",
    "lock",
    "cfg",
    "ini",
    "crc",
    "sha256",
    "md5",
    "idx",
    "svg",
    "log",
    "gitignore",
    "json",
];

/// Everything of a file's name behind its first dot that tells its format: `jsonl.gz`.
pub(super) fn extension(path: &Path) -> String {
    let extension =
        |path: &Path| path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
    let last = extension(path);
    match PACKED.contains(&last.as_str()) {
        true => {
            let inner = extension(&path.with_extension(""));
            if inner.is_empty() { last } else { format!("{inner}.{last}") }
        }
        false => last,
    }
}

/// Whether a file in a directory is likely no part of the corpus.
pub(super) fn is_about(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    name.starts_with(['.', '_']) || ABOUT.contains(&stem)
}

/// Whether an extension is one of settings.
pub(super) fn is_settings(extension: &str) -> bool {
    SETTINGS.contains(&extension)
}

/// The format of a file; none if it is no text and no table that can be read.
pub(super) fn recognize(path: &Path, head: &Head) -> Option<SourceKind> {
    let bytes = &head.bytes[..];
    if bytes.starts_with(b"PAR1") {
        return Some(SourceKind::Parquet);
    }
    if bytes.starts_with(b"ARROW1") {
        return Some(SourceKind::Arrow);
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some(SourceKind::Tar);
    }
    let extension = extension(path).to_lowercase();
    let format = extension.split('.').next().unwrap_or_default();
    let by_name = match format {
        "arrow" | "arrows" | "feather" => return Some(SourceKind::Arrow),
        "mds" => return Some(SourceKind::Mds),
        "tar" | "tgz" => return Some(SourceKind::Tar),
        "jsonl" | "ndjson" => Some(SourceKind::Jsonl),
        "csv" => Some(SourceKind::Csv),
        "tsv" => Some(SourceKind::Tsv),
        _ => None,
    };
    // A zero byte is in no text.
    if head.text().is_none() || bytes.contains(&0) {
        return None;
    }
    match by_name {
        Some(kind) => Some(kind),
        None if is_json_lines(head) => Some(SourceKind::Jsonl),
        None => Some(SourceKind::Text),
    }
}

/// Whether each of the first lines is a JSON object.
fn is_json_lines(head: &Head) -> bool {
    let mut lines = head.lines().filter(|line| !line.trim().is_empty()).take(4).peekable();
    let is_object = |line: &str| {
        line.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(line).is_ok()
    };
    lines.peek().is_some() && lines.all(is_object)
}
