//! The index of a directory of shards, which lists their files.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bounded;
use crate::error::{Error, Result};

/// The longest index that is read, in bytes.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
struct Index {
    shards: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    format: String,
    raw_data: File,
    zip_data: Option<File>,
    compression: Option<String>,
}

#[derive(Deserialize)]
struct File {
    basename: String,
}

/// The shards that a directory's index lists: uncompressed if they are there, else compressed.
pub(crate) fn shards(directory: &Path) -> Result<Vec<PathBuf>> {
    let index = directory.join("index.json");
    let refuse = |what: String| Error::Corpus { problem: format!("{}: {what}", index.display()) };
    let text = bounded::read(&index, MOST_BYTES).map_err(|e| Error::io(&index, "read", e))?;
    let Index { shards } = serde_json::from_slice(&text)
        .map_err(|e| refuse(format!("it is not an index of shards: {e}; get the directory again")))?;
    let path = |Listed { format, raw_data, zip_data, compression }: Listed| {
        if format != "mds" {
            return Err(refuse(format!(
                "{} has the format {format:?}; only mds can be read",
                raw_data.basename
            )));
        }
        for File { basename } in [Some(&raw_data), zip_data.as_ref()].into_iter().flatten() {
            if !bounded::is_within(basename) {
                return Err(refuse(format!(
                    "{basename:?} is not a path within its directory; get the directory again"
                )));
            }
        }
        let raw = directory.join(&raw_data.basename);
        if raw.is_file() {
            return Ok(raw);
        }
        let missing = |name: &str| {
            refuse(format!(
                "the shard {name:?} that it lists is not there; copy it there, or get the directory again"
            ))
        };
        let Some(zip) = zip_data else { return Err(missing(&raw_data.basename)) };
        if !directory.join(&zip.basename).is_file() {
            return Err(missing(&zip.basename));
        }
        let algorithm = compression.unwrap_or_default();
        match algorithm.split(':').next() {
            Some("zstd" | "gz" | "bz2") => Ok(directory.join(zip.basename)),
            _ => Err(refuse(format!(
                "{} is compressed by {algorithm:?}; only zstd, gz and bz2 can be read: decompress the shards",
                zip.basename
            ))),
        }
    };
    shards.into_iter().map(path).collect()
}
