//! The gate's verdicts, cached on disk, so that the next start need not run the slow engine again.
//!
//! A verdict depends on the tokenizer's text, how special tokens are read, the corpus text that was tried, the versions
//! of the engines, and the program that runs them. So it holds for exactly the ids that were compared. Without a cache
//! directory the gate runs every time.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::file::File;
use crate::config::SpecialTokens;
use crate::process;
use crate::user_cache::{Entry, Key};

/// The crates whose ids are compared, with their versions. A test compares them with `Cargo.lock`.
const ENGINES: &[(&str, &str)] =
    &[("fastokens", "0.3.5"), ("tokenizers", "0.23.2"), ("tokenizers", "1.0.0-rc.3")];

/// Which engine runs, and the data that replaces loading the reference.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) engine: Engine,
    pub(super) vocab_size: usize,
    pub(super) added: Vec<(String, u32)>,
}

/// Where the verdict on a file that is tried on `texts` is cached. `None` without a cache.
pub(super) fn entry(file: &File, texts: impl Iterator<Item = String>) -> Option<Entry> {
    Entry::of("gate", &key(file, texts)?)
}

fn key(file: &File, texts: impl Iterator<Item = String>) -> Option<Key> {
    let mut key = Key::new("millstream gate verdict 1");
    for (name, version) in ENGINES {
        key.add(name.as_bytes());
        key.add(version.as_bytes());
    }
    key.add(env!("CARGO_PKG_VERSION").as_bytes());
    key.add(std::env::consts::ARCH.as_bytes());
    key.add(&[u8::from(cfg!(feature = "fastokens")), u8::from(file.special == SpecialTokens::Text)]);
    key.add(&program()?);
    key.add(file.json.as_bytes());
    texts.for_each(|text| key.add(text.as_bytes()));
    Some(key)
}

/// The size and the time of the file that this code is in: another build may hold other engines under the same versions.
fn program() -> Option<Vec<u8>> {
    let about = process::image().and_then(fs::metadata).ok()?;
    let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Some([about.len().to_le_bytes().as_slice(), &modified.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let of = |json: &str, special, texts: &[&str]| {
            let texts = texts.iter().map(|text| (*text).to_owned());
            key(&File::of_json("test", json, special), texts).unwrap().finish()
        };
        let text = SpecialTokens::Text;
        let one = of("{}", text, &["a", "b"]);
        assert_eq!(of("{}", text, &["a", "b"]), one);
        for (json, special, texts) in [
            ("{ }", text, &["a", "b"][..]),
            ("{}", SpecialTokens::Parse, &["a", "b"]),
            ("{}", text, &["ab"]),
            ("{}", text, &["a"]),
            ("{}", text, &[]),
        ] {
            assert_ne!(of(json, special, texts), one, "{json} {special:?} {texts:?}");
        }
    }
}
