//! Where a file is: on this machine, or in a store.

/// Whether a path in a config is a URL and no path of this machine.
pub(crate) fn is_url(path: &str) -> bool {
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
        let paths = ["corpus/*.txt", "://x", "a b://c", "1a://b", "c:\\x", "a/b://c", "s3:/b"];
        assert!(urls.iter().all(|url| is_url(url)));
        assert!(!paths.iter().any(|path| is_url(path)));
    }
}
