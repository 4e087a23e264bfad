//! The location of a file, decided once where a path enters: in the config, or in the manifest of token shards.

use std::fmt;
use std::path::{Path, PathBuf};

use glob::MatchOptions;

/// What errors and positions call texts in memory.
const TEXTS: &str = "texts";

/// How patterns match, on disk and in stores: `*` within one name, `**` through directories, and neither matches hidden
/// names.
pub const GLOB_RULES: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Standard input, as a config names it.
pub const STDIN: &str = "-";

/// The prefix of the names of synthetic documents: a scheme that no store has.
const SYNTHETIC: &str = "synthetic://";

/// A hint for the error that a path of a config leads nowhere, if it was written as in a shell.
pub fn unexpanded(path: &Path) -> &'static str {
    match path.to_str() {
        Some(text) if text.starts_with('~') || text.contains('$') => {
            ", and write its whole path: ~ and variables are replaced only in the paths of sources"
        }
        _ => "",
    }
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// On this machine.
    Path(PathBuf),
    /// In an object store or on an HTTP server.
    Url(String),
    /// Standard input.
    Stdin,
    /// Nowhere: its documents are synthetic. The name has their settings.
    Synthetic(String),
    /// Nowhere: its documents are texts in memory.
    Texts,
}

impl Location {
    /// The location that this name stands for in a config or a manifest.
    pub fn named(name: impl Into<PathBuf>) -> Self {
        let path = name.into();
        match path.to_str() {
            Some(STDIN) => Self::Stdin,
            Some(made) if made.starts_with(SYNTHETIC) => Self::Synthetic(made.to_owned()),
            Some(url) if is_url(url) => Self::Url(url.to_owned()),
            _ => Self::Path(path),
        }
    }

    /// The location of the synthetic documents with these settings.
    pub fn synthetic(seed: u64, documents: u64, document_bytes: u64) -> Self {
        Self::Synthetic(format!("{SYNTHETIC}seed={seed},documents={documents},bytes={document_bytes}"))
    }

    /// The path, the URL, `-`, `texts`, or the name of synthetic documents: the form in errors and positions.
    pub fn as_path(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Url(name) | Self::Synthetic(name) => Path::new(name),
            Self::Stdin => Path::new(STDIN),
            Self::Texts => Path::new(TEXTS),
        }
    }

    /// Whether it is read from a store.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Url(_))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().display().fmt(f)
    }
}

/// Whether it has a scheme, as URLs do.
fn is_url(path: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    };
    path.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_urls_from_paths() {
        let urls = ["s3://b/k", "http://h/p", "x+y.z-1://a"];
        let paths = ["corpus/*.txt", "://x", "a b://c", "1a://b", "c:\\x", "a/b://c", "s3:/b", "./-"];
        assert!(urls.iter().all(|url| Location::named(*url) == Location::Url((*url).to_owned())));
        assert!(paths.iter().all(|path| Location::named(*path) == Location::Path(path.into())));
        assert_eq!(Location::named("-"), Location::Stdin);
        let made = Location::synthetic(1, 2, 3);
        assert_eq!((Location::named(made.as_path()), made.is_remote()), (made, false));
        assert!(
            urls.iter().chain(&paths).chain(&["-"]).all(|name| Location::named(*name).to_string() == *name)
        );
    }
}
