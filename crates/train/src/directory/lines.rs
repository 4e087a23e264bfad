//! Files of JSON, one object on a line, which a run appends to and a resume cuts.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use millstream::atomic::write_atomically;
use millstream::error::{Error, Result};

/// The text of a file; empty if there is none.
pub(super) fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|e| Error::io(path, "read", e)),
    }
}

/// What the lines of a file say, but for a last one that a kill cut off.
pub(super) fn whole<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = read(path)?;
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).map_err(|e| Error::io(path, "read", e.into()))).collect()
}

/// Keeps the lines of a file that `is_kept` accepts, and returns them. A line that a kill cut off goes too.
pub(super) fn cut<T: DeserializeOwned>(path: &Path, is_kept: impl Fn(&T) -> bool) -> Result<String> {
    let text = read(path)?;
    let is_kept =
        |line: &&str| line.ends_with('\n') && serde_json::from_str(line).is_ok_and(|line: T| is_kept(&line));
    let kept: String = text.split_inclusive('\n').filter(is_kept).collect();
    if kept != text {
        write_atomically(path, kept.as_bytes())?;
    }
    Ok(kept)
}

/// Opens a file to append to it, and makes it if there is none.
pub(super) fn open(path: &Path) -> Result<File> {
    OpenOptions::new().append(true).create(true).open(path).map_err(|e| Error::io(path, "open", e))
}

/// Appends one line to a file, in one call, so a kill leaves whole lines and at most one incomplete line.
pub(super) fn append(path: &Path, value: &impl Serialize) -> Result<()> {
    let failed = |e| Error::io(path, "write", e);
    let line = serde_json::to_string(value).map_err(|e| failed(e.into()))? + "\n";
    open(path)?.write_all(line.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_past_the_step_and_torn_ones_are_cut_off() {
        #[derive(serde::Deserialize)]
        struct Line {
            step: u64,
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines.jsonl");
        let up_to = |step| cut(&path, |line: &Line| line.step <= step).expect("cut");
        assert_eq!(up_to(1), "");
        let kept = "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"loss\":1.0}\n";
        std::fs::write(&path, format!("{kept}{{\"step\":3}}\n{{\"st")).expect("written");
        assert_eq!((up_to(2), read(&path).expect("text")), (kept.to_owned(), kept.to_owned()));
        assert_eq!((up_to(0), read(&path).expect("text")), (String::new(), String::new()));
    }
}
