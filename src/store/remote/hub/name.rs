//! The names of repositories and files on the Hub: `hf://datasets/OWNER/NAME@REVISION/PATH`.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, Result};

/// What a name begins with.
pub(crate) const PREFIX: &str = "hf://";

/// The revision of a name without one.
const MAIN: &str = "main";

/// The characters of a path that its URL escapes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RepoKind {
    Dataset,
    Model,
    Space,
}

impl RepoKind {
    pub(super) const ALL: [Self; 3] = [Self::Dataset, Self::Model, Self::Space];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Dataset => "dataset",
            Self::Model => "model",
            Self::Space => "space",
        }
    }

    /// Its name in the API, and at the beginning of the cache's folders.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Dataset => "datasets",
            Self::Model => "models",
            Self::Space => "spaces",
        }
    }

    /// What stands before the owner in names and in the URLs of pages and files.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Dataset => "datasets/",
            Self::Model => "",
            Self::Space => "spaces/",
        }
    }
}

/// A repository at a revision: a branch, a tag or a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Repo {
    pub(super) kind: RepoKind,
    /// `OWNER/NAME`.
    pub(super) id: String,
    pub(super) revision: String,
}

impl fmt::Display for Repo {
    /// Writes the name, as the beginning of its files' names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{}@{}", self.kind.prefix(), self.id, in_name(&self.revision))
    }
}

impl Repo {
    /// The repository that a name begins with, and the path in it. Setting `key` names it.
    pub(super) fn parse<'n>(key: &str, name: &'n str) -> Result<(Self, &'n str)> {
        let rest = name.strip_prefix(PREFIX).unwrap_or(name);
        let (repo, path) = split(rest);
        let kind = RepoKind::ALL.into_iter().find(|kind| repo.starts_with(&format!("{}/", kind.plural())));
        let named = kind.map_or(repo, |kind| &repo[kind.plural().len() + 1..]);
        let (id, revision) = named.split_once('@').unwrap_or((named, MAIN));
        let revision = percent_decode_str(revision).decode_utf8_lossy().into_owned();
        let is_part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let is_id = id.split_once('/').is_some_and(|(owner, name)| is_part(owner) && is_part(name));
        let is_revision = !revision.is_empty()
            && revision.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        if !is_id || !is_revision {
            let problem = format!(
                "{name:?} is not a name on the Hub; write a repo as \"OWNER/NAME\", and a path as \"hf://datasets/OWNER/NAME/PATH\" or, for a model, \
                 \"hf://OWNER/NAME/PATH\", with @REVISION after NAME for another branch, tag or commit than main"
            );
            return Err(Error::config(key, problem));
        }
        Ok((Self { kind: kind.unwrap_or(RepoKind::Model), id: id.to_owned(), revision }, path))
    }

    /// The same repository at a commit.
    pub(super) fn at(&self, commit: &str) -> Self {
        Self { revision: commit.to_owned(), ..self.clone() }
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.revision.len() == 40
            && self.revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// Its page on the server at `endpoint`.
    pub(super) fn page(&self, endpoint: &str) -> String {
        format!("{endpoint}/{}{}", self.kind.prefix(), self.id)
    }

    /// What the API at `endpoint` says of it.
    pub(super) fn api(&self, endpoint: &str) -> String {
        format!("{endpoint}/api/{}/{}", self.kind.plural(), self.id)
    }

    /// The revision within a URL: one part of its path.
    pub(super) fn encoded_revision(&self) -> String {
        encoded(&self.revision).replace('/', "%2F")
    }
}

/// A revision as names write it: slashes are escaped, as they would end it, except in `refs/…`.
pub(crate) fn in_name(revision: &str) -> String {
    if revision.starts_with("refs/") { revision.to_owned() } else { revision.replace('/', "%2F") }
}

/// A path as URLs write it.
pub(super) fn encoded(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED).to_string()
}

/// Splits a name without its prefix into the repository with its revision, and the path in it.
pub(in crate::store::remote) fn split(rest: &str) -> (&str, &str) {
    let has_kind = RepoKind::ALL.iter().any(|kind| rest.starts_with(&format!("{}/", kind.plural())));
    let parts = if has_kind { 3 } else { 2 };
    let end = |parts: usize| rest.match_indices('/').nth(parts - 1).map_or(rest.len(), |(at, _)| at);
    // The names of these have slashes: `refs/pr/1`, `refs/convert/parquet`.
    let end = if rest[..end(parts)].ends_with("@refs") { end(parts + 2) } else { end(parts) };
    (&rest[..end], rest[end..].trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (name, whole, path) in [
            ("hf://datasets/o/n/a/*.parquet", "hf://datasets/o/n@main", "a/*.parquet"),
            ("hf://datasets/o/n@v1/a", "hf://datasets/o/n@v1", "a"),
            ("hf://o/n", "hf://o/n@main", ""),
            ("hf://models/o/n@x/", "hf://o/n@x", ""),
            ("hf://datasets/o/n@refs/convert/parquet/a/b", "hf://datasets/o/n@refs/convert/parquet", "a/b"),
            ("hf://spaces/o/n@refs%2Fpr%2F1/a", "hf://spaces/o/n@refs/pr/1", "a"),
        ] {
            let (repo, rest) = Repo::parse("key", name).expect("a name");
            assert_eq!((repo.to_string(), rest), (whole.to_owned(), path), "{name}");
            assert_eq!(Repo::parse("key", &format!("{repo}/{rest}")).expect("a name").0, repo);
        }
        for name in
            ["hf://", "hf://datasets/o", "hf://o", "hf://o/n@", "hf://../n/a", "hf://o/n@../x", "hf://o//n"]
        {
            let error = Repo::parse("source.0.paths", name).expect_err("not a name").to_string();
            assert!(error.contains("source.0.paths") && error.contains("OWNER/NAME"), "{error}");
        }
    }

    #[test]
    fn parts_of_urls_are_encoded() {
        assert_eq!(encoded("a b/ü%#?.txt"), "a%20b/%C3%BC%25%23%3F.txt");
        let (repo, _) = Repo::parse("key", "hf://o/n@refs/pr/1").expect("a name");
        assert_eq!(repo.encoded_revision(), "refs%2Fpr%2F1");
    }
}
