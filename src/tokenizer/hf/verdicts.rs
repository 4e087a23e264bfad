//! What the gate found, kept on disk, so that the next start need not run the slow engine again.
//!
//! An entry is a file of its own. Its name is a digest of everything that the verdict depends on: the tokenizer's
//! text, how special tokens are read, the text of the corpus that was tried, the versions of the engines, and the
//! program that runs them. So an entry holds for exactly what was compared. It carries a digest of itself: what is
//! damaged counts as missing, and then the gate runs. Nothing here is an error; without a directory, or where it
//! cannot be written, the gate runs every time.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::file::File;
use crate::atomic::write_atomically;
use crate::config::SpecialTokens;
use crate::process;

/// The variable that names another directory. If it is empty, nothing is kept.
const VARIABLE: &str = "MILLSTREAM_CACHE";

/// The crates whose ids are compared, with their versions. A test holds them against `Cargo.lock`.
const ENGINES: &[(&str, &str)] =
    &[("fastokens", "0.3.5"), ("tokenizers", "0.23.2"), ("tokenizers", "1.0.0-rc.3")];

/// How many entries are kept. Beyond that, the older half goes.
const MOST: usize = 1000;

/// The largest entry that is read, in bytes. Thousands of added tokens take some hundred thousand.
const LARGEST: u64 = 16 << 20;

/// Which engine runs, and what it takes to go on without loading the reference.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) engine: Engine,
    pub(super) vocab_size: usize,
    pub(super) added: Vec<(String, u32)>,
}

/// Where the verdict on one tokenizer and one corpus is kept.
#[derive(Debug)]
pub(super) struct Entry {
    path: PathBuf,
    key: blake3::Hash,
}

impl Entry {
    /// The entry for a file that is tried on `texts`. `None` if nothing is kept.
    pub(super) fn of(file: &File, texts: impl Iterator<Item = String>) -> Option<Self> {
        Self::within(directory()?, file, texts)
    }

    fn within(directory: PathBuf, file: &File, texts: impl Iterator<Item = String>) -> Option<Self> {
        let mut hasher = blake3::Hasher::new_derive_key("millstream gate verdict 1");
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for (name, version) in ENGINES {
            add(name.as_bytes());
            add(version.as_bytes());
        }
        add(env!("CARGO_PKG_VERSION").as_bytes());
        add(std::env::consts::ARCH.as_bytes());
        add(&[u8::from(cfg!(feature = "fastokens")), u8::from(file.special == SpecialTokens::Text)]);
        add(&program()?);
        add(file.json.as_bytes());
        texts.for_each(|text| add(text.as_bytes()));
        let key = hasher.finalize();
        Some(Self { path: directory.join(key.to_hex().as_str()), key })
    }

    /// What was found earlier, if it is there and whole.
    pub(super) fn read(&self) -> Option<Verdict> {
        let mut bytes = Vec::new();
        fs::File::open(&self.path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let (digest, said) = bytes.split_first_chunk()?;
        let verdict = (self.digest(said) == *digest).then(|| serde_json::from_slice(said).ok()).flatten();
        if verdict.is_none() {
            tracing::debug!(path = %self.path.display(), "a damaged verdict of the gate is not used");
        }
        verdict
    }

    /// Keeps a verdict, if that is possible.
    pub(super) fn write(&self, verdict: &Verdict) {
        let Ok(said) = serde_json::to_vec(verdict) else { return };
        let bytes = [self.digest(&said).as_bytes(), said.as_slice()].concat();
        match write_atomically(&self.path, &bytes) {
            Ok(()) => self.make_room(),
            Err(error) => tracing::debug!(%error, "the gate's verdict is not kept"),
        }
    }

    /// A digest of an entry's content, for this key.
    fn digest(&self, said: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(self.key.as_bytes(), said)
    }

    /// Removes the oldest entries, if there are too many. Others may do the same at the same time.
    fn make_room(&self) {
        let Some(entries) = self.path.parent().and_then(|directory| fs::read_dir(directory).ok()) else {
            return;
        };
        let mut entries: Vec<_> = entries.flatten().filter(|entry| entry.path() != self.path).collect();
        if entries.len() >= MOST {
            entries.sort_by_cached_key(|entry| entry.metadata().and_then(|about| about.modified()).ok());
            for entry in &entries[..entries.len() - MOST / 2] {
                // If it cannot go, it stays.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The size and the time of the file that this code is in: another build may hold other engines under the same versions.
fn program() -> Option<Vec<u8>> {
    let about = process::image().and_then(fs::metadata).ok()?;
    let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Some([about.len().to_le_bytes().as_slice(), &modified.to_le_bytes()].concat())
}

/// Where verdicts are kept: in the directory that the variable names, else in the user's caches.
fn directory() -> Option<PathBuf> {
    let of_user = match std::env::var_os(VARIABLE) {
        Some(named) => Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty())?,
        None => caches()?.join("millstream"),
    };
    Some(of_user.join("gate"))
}

/// The directory of the user's caches, as the system has it.
fn caches() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(absolute);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    let in_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(in_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str, special: SpecialTokens) -> File {
        File::of_json("test", json, special)
    }

    fn entry(directory: &tempfile::TempDir, file: &File, texts: &[&str]) -> Entry {
        let texts = texts.iter().map(|text| (*text).to_owned());
        Entry::within(directory.path().join("gate"), file, texts).unwrap()
    }

    fn verdict() -> Verdict {
        let engine = Engine::Reference { reason: "digits".to_owned() };
        Verdict { engine, vocab_size: 257, added: vec![("<|endoftext|>".to_owned(), 256)] }
    }

    #[test]
    fn the_versions_are_those_of_the_build() {
        let lock = include_str!("../../../Cargo.lock");
        for (name, version) in ENGINES {
            let package = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&package), "{name} is not at {version}");
        }
    }

    #[test]
    fn a_verdict_holds_for_exactly_what_was_tried() {
        let directory = tempfile::tempdir().unwrap();
        let text = SpecialTokens::Text;
        let one = entry(&directory, &file("{}", text), &["a", "b"]);
        assert_eq!(one.read(), None);
        one.write(&verdict());
        assert_eq!(entry(&directory, &file("{}", text), &["a", "b"]).read(), Some(verdict()));
        for (json, special, texts) in [
            ("{ }", text, &["a", "b"][..]),
            ("{}", SpecialTokens::Parse, &["a", "b"]),
            ("{}", text, &["ab"]),
            ("{}", text, &["a"]),
            ("{}", text, &[]),
        ] {
            let other = entry(&directory, &file(json, special), texts);
            assert_eq!(other.read(), None, "{json} {special:?} {texts:?}");
            // An entry under another's name is damaged.
            fs::copy(&one.path, &other.path).unwrap();
            assert_eq!(other.read(), None, "{json} {special:?} {texts:?}");
        }
    }

    #[test]
    fn what_is_damaged_counts_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let entry = entry(&directory, &file("{}", SpecialTokens::Text), &[]);
        entry.write(&verdict());
        let whole = fs::read(&entry.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&entry.path, &damaged).unwrap();
            assert_eq!(entry.read(), None, "byte {at}");
            fs::write(&entry.path, &whole[..at]).unwrap();
            assert_eq!(entry.read(), None, "cut at {at}");
        }
        fs::remove_file(&entry.path).unwrap();
        fs::create_dir(&entry.path).unwrap();
        assert_eq!(entry.read(), None);
        entry.write(&verdict());
        assert_eq!(entry.read(), None, "what cannot be written is not there");
    }

    #[test]
    fn many_may_write_at_once_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let shared = file("{}", SpecialTokens::Text);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (directory, shared) = (&directory, &shared);
                scope.spawn(move || {
                    for number in 0..20 {
                        let entry = entry(directory, shared, &["same"]);
                        entry.write(&verdict());
                        assert_eq!(entry.read(), Some(verdict()), "{thread} {number}");
                    }
                });
            }
        });
        let gate = directory.path().join("gate");
        for number in 0..=MOST {
            fs::write(gate.join(format!("old-{number}")), "").unwrap();
        }
        let last = entry(&directory, &shared, &["last"]);
        last.write(&verdict());
        assert_eq!(last.read(), Some(verdict()));
        assert_eq!(fs::read_dir(&gate).unwrap().count(), MOST / 2 + 1);
    }
}
