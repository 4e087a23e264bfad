//! URLs of files, as people write them.
//!
//! In an object store, the text after the bucket is a literal key, character by character. The path of an HTTP URL is
//! percent-encoded, and a query may follow it.

use std::borrow::Cow;

use super::hub;
use crate::error::{Error, Result};

/// The schemes of the stores that can be read.
const SCHEMES: [&str; 10] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "hf", "http", "https"];

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
                "{:?} is not in a store that can be read; those are {}",
                unsigned(url),
                SCHEMES.join(", ")
            ));
        }
        if scheme == "hf" {
            hub::check(key, url)?;
        }
        let (authority, path) = match scheme {
            "hf" => hub::split(rest),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        if authority.is_empty() || path.is_empty() {
            return refuse(format!(
                "{:?} does not name a file; write it as \"{scheme}://WHERE/PATH\"",
                unsigned(url)
            ));
        }
        let is_http = matches!(scheme, "http" | "https");
        if is_http && authority.contains('@') {
            return refuse("a URL with a password would be in every log; leave it out".to_owned());
        }
        let query = path.find('?').filter(|_| is_http).unwrap_or(path.len());
        let (path, query) = path.split_at(query);
        Ok(Self { scheme, authority, path, query })
    }

    pub(super) fn is_hub(&self) -> bool {
        self.scheme == "hf"
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

/// The parameters of a query that are its signature, in small letters.
const SIGNATURES: [&str; 5] = ["signature", "sig", "x-amz-signature", "x-goog-signature", "x-oss-signature"];

/// The parameters that a signature comes with: of S3 and Google Cloud Storage, CloudFront, and Alibaba Cloud.
const SIGNED_WITH: [&str; 8] = [
    "awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "expires", "security-token", "policy",
    "key-pair-id", "hash-algorithm",
];

/// Those of Azure.
const SIGNED_WITH_BY_AZURE: [&str; 21] = [
    "sv", "ss", "srt", "sr", "st", "se", "sp", "sip", "spr", "si", "sdd", "ses", "saoid", "suoid", "scid",
    "skoid", "sktid", "skt", "ske", "sks", "skv",
];

const SIGNED_WITH_PREFIXES: [&str; 3] = ["x-amz-", "x-goog-", "x-oss-"];

/// An HTTP URL without its signature and the parameters that change with it: the name of the file, for errors, logs and
/// fingerprints. Other URLs stay as they are.
pub(super) fn unsigned(url: &str) -> Cow<'_, str> {
    let Some((path, query)) = url.split_once('?').filter(|_| url.starts_with("http")) else {
        return url.into();
    };
    let key = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let is_signature = |parameter: &str| SIGNATURES.contains(&&*key(parameter));
    if !query.split('&').any(is_signature) {
        return url.into();
    }
    let stays = |parameter: &&str| {
        let key = key(parameter);
        let is_with = SIGNED_WITH.contains(&&*key) || SIGNED_WITH_BY_AZURE.contains(&&*key);
        !is_with && !SIGNATURES.contains(&&*key) && !SIGNED_WITH_PREFIXES.iter().any(|it| key.starts_with(it))
    };
    let rest: Vec<&str> = query.split('&').filter(stays).collect();
    if rest.is_empty() { path.into() } else { format!("{path}?{}", rest.join("&")).into() }
}

/// A text with its URLs cut short before their queries, which may hold signatures.
pub(super) fn without_queries(text: &str) -> String {
    let cut = |word: &str| match word.split_once("://").and_then(|_| word.split_once('?')) {
        Some((path, query)) => format!("{path}{}", query.trim_start_matches(|at| !" ,;)\"\n".contains(at))),
        None => word.to_owned(),
    };
    text.split_inclusive(char::is_whitespace).map(cut).collect()
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
    fn a_signature_is_no_part_of_a_name() {
        for (url, name) in [
            ("https://h/a?X-Amz-Expires=9&X-Amz-Signature=ab&versionId=3", "https://h/a?versionId=3"),
            ("https://h/a?sv=2024&sp=r&se=2026&sig=x%3D", "https://h/a"),
            ("https://h/a?Expires=1&Signature=x&Key-Pair-Id=K", "https://h/a"),
            ("https://h/a?expires=1&v=2", "https://h/a?expires=1&v=2"),
            ("s3://b/a?sig=b", "s3://b/a?sig=b"),
        ] {
            assert_eq!(unsigned(url), name);
        }
        let said = without_queries("GET https://h/a?sig=b (https://h/a?sig=b) in 1 ms? no");
        assert_eq!(said, "GET https://h/a (https://h/a) in 1 ms? no");
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
