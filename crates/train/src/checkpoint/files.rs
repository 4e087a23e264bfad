//! The files of one checkpoint on disk, checked against their digests before they are used.
//!
//! The digests are saved last, so a checkpoint without them is unfinished. Their lines are those of `b3sum`: `b3sum --check
//! blake3.txt`, run in the checkpoint's directory, checks them too.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::folder::{self, DIGESTS};
use millstream::atomic::write_synced;
use millstream::bounded;
use millstream::error::{Error, Result, ResumeFrom};

/// Between a digest and the name of its file.
const SEPARATOR: &str = "  ";

/// A checkpoint's directory.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) directory: PathBuf,
    digests: Digests,
}

/// The BLAKE3 digest of each file, by its name.
type Digests = BTreeMap<String, String>;

/// Writes the digests of these files of `directory`.
pub(super) fn seal(directory: &Path, names: &[&str]) -> Result<()> {
    let digest = |name: &&str| Ok(((*name).to_owned(), digest(&directory.join(name))?));
    let digests: io::Result<Digests> = names.iter().map(digest).collect();
    let digests = digests.map_err(|e| Error::io(directory, "read back", e))?;
    write_synced(&directory.join(DIGESTS), text(&digests).as_bytes())
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(bounded::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// A line for each file.
fn text(digests: &Digests) -> String {
    digests.iter().flat_map(|(name, digest)| [digest, SEPARATOR, name, "\n"]).collect()
}

/// Reads what [`text`] wrote; `None` if it is anything else.
fn read(bytes: Vec<u8>) -> Option<Digests> {
    let found = String::from_utf8(bytes).ok()?;
    let one =
        |line: &str| line.split_once(SEPARATOR).map(|(digest, name)| (name.to_owned(), digest.to_owned()));
    let digests: Digests = found.lines().map(one).collect::<Option<_>>()?;
    (text(&digests) == found).then_some(digests)
}

impl Files {
    /// Reads the digests of the checkpoint in `directory`.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(DIGESTS);
        let bytes = std::fs::read(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                damaged(directory, DIGESTS, "it is missing, so the checkpoint is unfinished")
            }
            _ => Error::io(&path, "read the digests", e),
        })?;
        let digests = read(bytes).ok_or_else(|| damaged(directory, DIGESTS, "it is damaged"))?;
        Ok(Self { directory: directory.to_owned(), digests })
    }

    /// The path of a file, if the file is unchanged.
    pub(super) fn checked(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        match digest(&path) {
            Ok(digest) if self.digests.get(name) == Some(&digest) => Ok(path),
            Ok(_) => {
                let problem = format!("it is damaged: its digest is not the one in {DIGESTS}");
                Err(self.damaged(name, &problem))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Err(self.damaged(name, "it is missing")),
            Err(e) => Err(Error::io(&path, "read the checkpoint", e)),
        }
    }

    /// The path of a file that not every checkpoint has, if this one has it.
    pub(super) fn checked_if_any(&self, name: &str) -> Result<Option<PathBuf>> {
        let exists = self.directory.join(name).exists();
        (exists || self.digests.contains_key(name)).then(|| self.checked(name)).transpose()
    }

    /// The error for the file `name` that cannot be used, with the checkpoint that can be used instead.
    pub(super) fn damaged(&self, name: &str, problem: &str) -> Error {
        damaged(&self.directory, name, problem)
    }
}

fn damaged(directory: &Path, name: &str, problem: &str) -> Error {
    let (remedy, resume) = remedy(directory);
    Error::Checkpoint { path: directory.join(name), problem: format!("{problem}; {remedy}"), resume }
}

fn remedy(directory: &Path) -> (String, Option<Box<ResumeFrom>>) {
    let before = || {
        let step = folder::step(directory)?;
        let parent = directory.parent()?;
        let before = folder::complete(parent).ok()?.into_iter().rfind(|&before| before < step)?;
        Some((parent, before))
    };
    let Some((parent, before)) = before() else {
        let none = "there is no checkpoint before it, so start the run again in another train.out";
        return (none.to_owned(), None);
    };
    match folder::run(parent) {
        Some(root) => {
            let resume = ResumeFrom { run: root.to_owned(), step: Some(before), settings: Vec::new() };
            (format!("the checkpoint before it is of step {before}"), Some(Box::new(resume)))
        }
        None => (format!("the checkpoint before it is {}", folder::path(parent, before).display()), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_the_list_is_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).expect("written");
        write("a", b"1");
        write("b", b"2");
        seal(directory, &["a", "b"]).expect("sealed");
        let check = || {
            let files = Files::open(directory)?;
            files.checked("a").and(files.checked("b"))
        };
        check().expect("whole");
        let list = std::fs::read(directory.join(DIGESTS)).expect("a list");
        for bit in 0..list.len() * 8 {
            let mut list = list.clone();
            list[bit / 8] ^= 1 << (bit % 8);
            write(DIGESTS, &list);
            assert!(check().is_err(), "bit {bit}");
        }
    }
}
