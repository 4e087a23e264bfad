//! What git LFS leaves where it has not fetched a file.

/// A pointer, as git LFS writes it.
pub(crate) const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
                                  oid sha256:4665a5ea423c2713d436b5ee50593a9640e0018c1550b5a0002f74190d6caea8\n\
                                  size 13147\n";

/// Asserts that an error names the file, says that it is a pointer, and what to do.
pub(crate) fn assert_named(error: &millstream::Error, path: &str) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    assert!(error.to_string().contains(path), "{path}: {error}");
    assert!(cause.contains("git LFS pointer") && cause.contains("git lfs pull"), "{error}: {cause}");
}
