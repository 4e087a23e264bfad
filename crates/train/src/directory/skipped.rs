//! The documents that a run skipped, and why: `skipped.jsonl`, one JSON object a line. Held in memory: all of them.

use std::collections::HashSet;
use std::path::PathBuf;

use super::RunDirectory;
use super::lines;
#[cfg(doc)]
use millstream::error::Error;
use millstream::error::Result;
use millstream::meter::Skipped;

/// How many documents are written. The ledger counts all.
const MOST: usize = 10_000;

/// The file of a session.
#[derive(Debug)]
pub(super) struct SkipLog {
    /// Those in the file. A resume, a kill and each epoch read documents again.
    known: HashSet<Skipped>,
    path: PathBuf,
}

impl SkipLog {
    /// Opens the file of a session that continues after `step`. A run that begins has skipped nothing.
    pub(super) fn open(directory: &RunDirectory, step: u64) -> Result<Self> {
        let path = directory.skipped();
        let kept = lines::cut(&path, |_: &Skipped| step > 0)?;
        let known = kept.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { known, path })
    }

    /// Writes those of these documents that are new.
    pub(super) fn write(&mut self, skipped: Vec<Skipped>) -> Result<()> {
        for document in skipped {
            if self.known.len() >= MOST || self.known.contains(&document) {
                continue;
            }
            lines::append(&self.path, &document)?;
            self.known.insert(document);
        }
        Ok(())
    }
}

impl RunDirectory {
    /// The documents that the first rank of the run skipped while it read, each once: the first 10,000. Some were read
    /// ahead, and no batch came after them. A last line that a kill cut off is left out.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, or are damaged.
    pub fn skipped_documents(&self) -> Result<Vec<Skipped>> {
        lines::whole(&self.skipped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_written_once_and_a_new_run_begins_without() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = RunDirectory { root: root.path().to_owned(), lock: None };
        let skipped = |line: u64| Skipped {
            path: "a.jsonl".into(),
            line,
            unit: millstream::error::Unit::Byte,
            byte: 10 * line,
            reason: "broken JSON".to_owned(),
        };
        let all = || directory.skipped_documents().expect("read");
        let write = |step, lines: &[u64]| {
            let mut log = SkipLog::open(&directory, step).expect("opened");
            log.write(lines.iter().map(|line| skipped(*line)).collect()).expect("written");
        };
        write(0, &[]);
        assert!(!directory.skipped().exists());
        write(0, &[1, 2, 1]);
        // A kill cut a line off; the session after it reads the second document again.
        let torn = std::fs::read_to_string(directory.skipped()).expect("text") + "{\"pa";
        std::fs::write(directory.skipped(), torn).expect("written");
        assert_eq!(all(), [skipped(1), skipped(2)]);
        write(10, &[2, 3]);
        assert_eq!(all(), [skipped(1), skipped(2), skipped(3)]);
        write(0, &[4]);
        assert_eq!(all(), [skipped(4)]);
        let many: Vec<u64> = (0..2 * MOST as u64).collect();
        write(10, &many);
        assert_eq!(all().len(), MOST);
    }
}
