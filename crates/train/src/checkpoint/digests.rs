//! The digests of a checkpoint's files. They are saved last, so a checkpoint without them is unfinished.
//!
//! The lines are those of `b3sum`: `b3sum --check blake3.txt`, run in the checkpoint's directory, checks it too.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use millstream::bounded;

/// The file that holds them.
pub(super) const DIGESTS: &str = "blake3.txt";

/// Between a digest and the name of its file.
const SEPARATOR: &str = "  ";

/// The BLAKE3 digest of each file, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digests(BTreeMap<String, String>);

impl Digests {
    /// Reads the files of `directory` and computes their digests.
    pub(super) fn compute(directory: &Path, names: &[&str]) -> io::Result<Self> {
        let one = |name: &&str| Ok(((*name).to_owned(), digest(&directory.join(name))?));
        names.iter().map(one).collect::<io::Result<_>>().map(Self)
    }

    /// A line for each file.
    pub(super) fn to_text(&self) -> String {
        self.0.iter().flat_map(|(name, digest)| [digest, SEPARATOR, name, "\n"]).collect()
    }

    /// Reads what [`to_text`](Self::to_text) wrote; `None` if it is anything else.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let one = |line: &str| {
            line.split_once(SEPARATOR).map(|(digest, name)| (name.to_owned(), digest.to_owned()))
        };
        let digests = Self(text.lines().map(one).collect::<Option<_>>()?);
        (digests.to_text() == text).then_some(digests)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the file `name` of `directory` has the digest that it had when it was saved.
    pub(super) fn matches(&self, directory: &Path, name: &str) -> io::Result<bool> {
        Ok(self.0.get(name) == Some(&digest(&directory.join(name))?))
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(bounded::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_the_list_is_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("a"), "1").expect("written");
        std::fs::write(directory.path().join("b"), "2").expect("written");
        let digests = Digests::compute(directory.path(), &["a", "b"]).expect("digests");
        let text = digests.to_text();
        assert_eq!(Digests::from_text(&text), Some(digests.clone()));
        assert!(digests.matches(directory.path(), "a").expect("read"));
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = String::from_utf8(bytes).ok().and_then(|text| Digests::from_text(&text));
            let fits = |found: &Digests, name| found.matches(directory.path(), name).expect("read");
            assert!(!found.is_some_and(|found| fits(&found, "a") && fits(&found, "b")), "bit {bit}");
        }
    }
}
