//! URLs of files, as people write them.
//!
//! In an object store, what follows the bucket is a literal key, character by character. The path of an HTTP
//! URL is percent-encoded, and a query may follow it.

use crate::error::{Error, Result};

/// The schemes of the stores that can be read.
const SCHEMES: [&str; 9] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "http", "https"];

/// A URL, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) scheme: &'a str,
    /// The bucket, the container or the server.
    pub(super) authority: &'a str,
    /// What follows the authority, without its leading slash.
    pub(super) path: &'a str,
    /// An HTTP URL's query, with its question mark; empty if there is none.
    pub(super) query: &'a str,
}

impl<'a> Url<'a> {
    /// Takes `url` apart. Setting `key` names it.
    pub(super) fn parse(key: &str, url: &'a str) -> Result<Self> {
        let refuse = |problem: String| Err(Error::config(key, problem));
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !SCHEMES.contains(&scheme) {
            return refuse(format!(
                "{url:?} is not in a store that can be read; those are {}",
                SCHEMES.join(", ")
            ));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || path.is_empty() {
            return refuse(format!("{url:?} does not name a file; write it as \"{scheme}://WHERE/PATH\""));
        }
        let is_http = matches!(scheme, "http" | "https");
        if is_http && authority.contains('@') {
            return refuse("a URL with a password would be in every log; leave it out".to_owned());
        }
        let query = path.find('?').filter(|_| is_http).unwrap_or(path.len());
        let (path, query) = path.split_at(query);
        Ok(Self { scheme, authority, path, query })
    }

    /// Whether it is on a plain HTTP server, which cannot be listed.
    pub(super) fn is_http(&self) -> bool {
        matches!(self.scheme, "http" | "https")
    }

    /// The URL up to its path.
    pub(super) fn root(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, &str, &str) {
        let url = Url::parse("source.0.paths", url).expect("a URL");
        (url.root(), url.path, url.query)
    }

    #[test]
    fn takes_urls_apart() {
        assert_eq!(parts("s3://b/a/**/x?.txt"), ("s3://b".to_owned(), "a/**/x?.txt", ""));
        assert_eq!(parts("https://h:8/a%20b?c=/d"), ("https://h:8".to_owned(), "a%20b", "?c=/d"));
        assert_eq!(parts("abfss://c@a.example/k"), ("abfss://c@a.example".to_owned(), "k", ""));
    }

    #[test]
    fn refuses_what_cannot_be_read() {
        let said = |url| Url::parse("k", url).expect_err("refused").to_string();
        let schemes = SCHEMES.join(", ");
        assert_eq!(
            said("ftp://h/x"),
            format!("k: \"ftp://h/x\" is not in a store that can be read; those are {schemes}")
        );
        assert_eq!(said("s3://b/"), "k: \"s3://b/\" does not name a file; write it as \"s3://WHERE/PATH\"");
        assert!(said("http://u:p@h/x").ends_with("would be in every log; leave it out"));
    }
}
