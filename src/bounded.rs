//! Small files from others, read within bounds. Pointers of git LFS are told from the files that they stand for.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek};
use std::ops::Range;
use std::path::{Component, Path};

/// How long a pointer of git LFS may be, in bytes.
pub const POINTER: Range<u64> = 100..1024;

/// The first bytes of a git LFS pointer.
const POINTER_HEAD: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";

/// Opens a file. A pointer of git LFS is an error.
pub fn open(path: &Path) -> Result<File> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    if POINTER.contains(&len) {
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(POINTER.end).read_to_end(&mut bytes)?;
        refuse_pointer(&bytes)?;
        file.rewind()?;
    }
    Ok(file)
}

/// The error for a file that is a git LFS pointer, given all of its bytes.
pub fn refuse_pointer(bytes: &[u8]) -> Result<()> {
    // git may have given it the line ends of Windows.
    let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != b'\r').collect();
    let is_line = |begin: &[u8]| bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(begin));
    match bytes.starts_with(POINTER_HEAD) && is_line(b"oid sha256:") && is_line(b"size ") {
        true => Err(Error::new(
            ErrorKind::InvalidData,
            "it is a git LFS pointer, and the file that it stands for is not here; run git lfs pull in its repository",
        )),
        false => Ok(()),
    }
}

/// Reads a file of at most `most` bytes. Devices and pipes are refused: some never end, and others wait for ever.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    read_any(path, most)
}

/// As [`read`], for a file that a user names: it may be a pipe.
pub fn read_any(path: &Path, most: u64) -> Result<Vec<u8>> {
    let too_long = |len: u64| {
        Error::new(ErrorKind::InvalidData, format!("it has {len} bytes, more than the limit of {most}"))
    };
    let file = open(path)?;
    let len = file.metadata()?.len();
    if len > most {
        return Err(too_long(len));
    }
    // It may be longer by now, and pipes do not tell their length.
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        len if len > most => Err(too_long(len)),
        _ => Ok(bytes),
    }
}

/// Whether a path in such a file stays below the directory that it is joined to. Links are not checked.
pub fn is_within(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_limit_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "text").expect("a file");
        assert_eq!(read(&path, 4).expect("its bytes"), b"text");
        let error = read(&path, 3).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "it has 4 bytes, more than the limit of 3");
        // Nothing of it is read.
        File::create(&path).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
        let error = read(&path, 1 << 20).expect_err("refused");
        assert_eq!(error.to_string(), "it has 1073741824 bytes, more than the limit of 1048576");
        let error = read(&directory.path().join("absent"), 4).expect_err("nothing there");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (pipe, link) = (directory.path().join("pipe"), directory.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        for path in [pipe.as_path(), &link, directory.path()] {
            let error = read(path, 4).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
            assert_eq!(error.to_string(), "it is not a regular file");
        }
    }

    #[test]
    fn paths_that_lead_out_are_known() {
        for path in ["a", "a/b.txt", "./a", "a/", "data/*.jsonl", "..a", "a..b/c"] {
            assert!(is_within(path), "{path}");
        }
        for path in ["", "..", "../a", "a/..", "a/../../b", "./../a", "/", "/a", "../*.jsonl"] {
            assert!(!is_within(path), "{path}");
        }
    }
}
