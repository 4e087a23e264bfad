//! Assigns the files of a directory to parts by their names alone.
//!
//! The rules are those of the `datasets` library, version 5.2. The first rule that any file follows holds for the whole
//! directory; files that do not follow it are left out:
//!
//! 1. `data/NAME-00000-of-00001.jsonl` belongs to the part `NAME`.
//! 2. A directory's name has a [keyword](KEYWORDS): `train/`, `my-test_2/`.
//! 3. A file's name has one: `train.jsonl`, `my-test_2.jsonl`.
//! 4. Every file belongs to `train`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The part of all files, where nothing says otherwise.
pub(super) const TRAIN: &str = "train";

/// The words that stand for a part.
const KEYWORDS: [(&str, &[&str]); 3] = [
    (TRAIN, &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The files of each part. `paths` lie below `directory`.
pub(super) fn by_name(directory: &Path, paths: &[PathBuf]) -> BTreeMap<String, Vec<PathBuf>> {
    let rules: [fn(&str) -> Vec<String>; 3] = [by_shard, by_directory, by_file];
    for rule in rules {
        let mut parts: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for path in paths {
            let below = path.strip_prefix(directory).unwrap_or(path);
            for part in rule(&below.to_string_lossy()) {
                parts.entry(part).or_default().push(path.clone());
            }
        }
        if !parts.is_empty() {
            return parts;
        }
    }
    BTreeMap::from([(TRAIN.to_owned(), paths.to_vec())])
}

/// The part that a keyword stands for.
pub(super) fn by_keyword(keyword: &str) -> Option<&'static str> {
    KEYWORDS.iter().find(|(_, keywords)| keywords.contains(&keyword)).map(|(part, _)| *part)
}

/// `data/some_part-00000-of-00002.parquet` belongs to `some_part`.
fn by_shard(path: &str) -> Vec<String> {
    const DIGITS: usize = 5;
    let number = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let Some(name) = path.strip_prefix("data/").filter(|name| !name.contains('/')) else { return Vec::new() };
    let shard = name.rmatch_indices("-of-").find_map(|(at, of)| {
        let (part, index) = name[..at].rsplit_once('-')?;
        let end = &name[at + of.len()..];
        let is_shard =
            index.len() == DIGITS && number(index) == DIGITS && number(end) >= DIGITS && end.contains('.');
        (is_shard && !part.is_empty()).then(|| part.to_owned())
    });
    shard.into_iter().collect()
}

/// The parts that the directories on a path name.
fn by_directory(path: &str) -> Vec<String> {
    let names = || path.split('/').rev().skip(1);
    with_keyword(|keyword| {
        names()
            .any(|name| ends_of(name, keyword).any(|(before, after)| separates(before) && separates(after)))
    })
}

/// The parts that the name of a file names. Something has to follow the keyword.
fn by_file(path: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    with_keyword(|keyword| {
        ends_of(name, keyword).any(|(before, after)| separates(before) && after.is_some() && separates(after))
    })
}

/// The parts with a keyword that `found` accepts.
fn with_keyword(found: impl Fn(&str) -> bool) -> Vec<String> {
    let parts = KEYWORDS.iter().filter(|(_, keywords)| keywords.iter().any(|keyword| found(keyword)));
    parts.map(|(part, _)| (*part).to_owned()).collect()
}

/// The characters just before and after a keyword, wherever a name has it.
fn ends_of(name: &str, keyword: &str) -> impl Iterator<Item = (Option<char>, Option<char>)> {
    name.match_indices(keyword)
        .map(move |(at, _)| (name[..at].chars().next_back(), name[at + keyword.len()..].chars().next()))
}

/// Whether a keyword may begin or end here: at an end of the name, or at a character that belongs to no word.
fn separates(character: Option<char>) -> bool {
    character.is_none_or(|character| "-._ ".contains(character) || character.is_ascii_digit())
}
