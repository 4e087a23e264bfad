//! Answers of the system that have a remedy: a full disk, and limits of the process.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use bytesize::ByteSize;

use crate::disk;

/// The process has as many files open as it may; and so has the system. (POSIX's EMFILE and ENFILE, on Linux and macOS.)
const PROCESS_HAS_TOO_MANY: i32 = 24;
const SYSTEM_HAS_TOO_MANY: i32 = 23;

/// An answer of the system in other words.
#[derive(Debug)]
struct Answer {
    said: String,
    code: Option<i32>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Answer {}

/// The same answer about `path`: without what libraries have put around it, and with a remedy if there is one.
pub(super) fn explain(path: &Path, answer: io::Error) -> io::Error {
    let code = code(&answer);
    let answer = code.map_or(answer, io::Error::from_raw_os_error);
    match remedy(path, answer.kind(), code) {
        Some(said) => io::Error::new(answer.kind(), Answer { said, code }),
        None => answer,
    }
}

/// The number of the system's answer, if the system's is the error or one of its causes.
pub(super) fn code(error: &(dyn Error + 'static)) -> Option<i32> {
    if let Some(explained) = error.downcast_ref::<Answer>() {
        return explained.code;
    }
    match error.downcast_ref::<io::Error>() {
        // Its own cause is that of the error within it.
        Some(answer) => {
            // Some libraries hide the answer within an error of its kind and keep only its text.
            let is_of_kind = |code: &i32| io::Error::from_raw_os_error(*code).kind() == answer.kind();
            let within = answer.raw_os_error().or_else(|| code(answer.get_ref()?));
            within.or_else(|| code_in(&answer.to_string()).filter(is_of_kind))
        }
        None => code(error.source()?),
    }
}

/// The number of the system's answer in the message of a library whose errors are only text.
pub fn code_in(said: &str) -> Option<i32> {
    let (_, code) = said.rsplit_once("(os error ")?;
    code.split_once(')')?.0.parse().ok()
}

fn remedy(path: &Path, kind: ErrorKind, code: Option<i32>) -> Option<String> {
    Some(match (kind, code) {
        (ErrorKind::StorageFull, _) if disk::lacks_inodes(path) => {
            "no more files can be made on this disk, which has space but no inodes left; remove files there, then \
             resume or run it again"
                .to_owned()
        }
        (ErrorKind::StorageFull, _) => {
            let left =
                disk::free(path).map_or_else(String::new, |free| format!(" ({} left)", ByteSize(free)));
            format!("the disk is full{left}; make room there, then resume or run it again")
        }
        (ErrorKind::QuotaExceeded, _) => {
            "your quota on this disk is used up; make room there, then resume or run it again".to_owned()
        }
        (ErrorKind::FileTooLarge, _) => match limit::file_length() {
            Some(most) => {
                let most = ByteSize(most);
                format!("no file of this process may be longer than {most} (`ulimit -f`); raise that limit")
            }
            None => "the file is longer than this disk's file system allows; use another one".to_owned(),
        },
        (_, Some(PROCESS_HAS_TOO_MANY)) if cfg!(unix) => {
            let most = limit::open_files().map_or_else(String::new, |most| format!(", {most}"));
            format!(
                "this process has as many files open as it may{most} (`ulimit -n`); raise that, or lower pipeline.lanes"
            )
        }
        (_, Some(SYSTEM_HAS_TOO_MANY)) if cfg!(unix) => {
            "the whole system has as many files open as it may; end other programs".to_owned()
        }
        (ErrorKind::AlreadyExists | ErrorKind::NotFound, _) => {
            let target = disk::dangling(path)?;
            format!("it is a link to {}, where nothing is; make that, or remove the link", target.display())
        }
        _ => return None,
    })
}

/// The limits of this process on open files and on the length of a file.
#[cfg(unix)]
mod limit {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

    pub(super) fn open_files() -> Option<u64> {
        soft(Resource::RLIMIT_NOFILE)
    }

    pub(super) fn file_length() -> Option<u64> {
        soft(Resource::RLIMIT_FSIZE)
    }

    fn soft(resource: Resource) -> Option<u64> {
        let (soft, _) = getrlimit(resource).ok()?;
        (soft != RLIM_INFINITY).then_some(soft)
    }
}

#[cfg(not(unix))]
mod limit {
    pub(super) fn open_files() -> Option<u64> {
        None
    }

    pub(super) fn file_length() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: io::Error) -> String {
        explain(Path::new("/"), answer).to_string()
    }

    #[test]
    fn only_the_systems_own_answer_is_left_of_what_libraries_put_around_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = tempfile::Builder::new().tempfile_in(directory.path().join("missing"));
        let around = missing.expect_err("no directory");
        assert!(around.raw_os_error().is_none() && around.to_string().contains("at path"));
        let answer = explain(directory.path(), around);
        assert_eq!((answer.kind(), answer.raw_os_error()), (ErrorKind::NotFound, Some(2)));
        let again = explain(directory.path(), io::Error::other(io::Error::other(answer)));
        assert_eq!(again.raw_os_error(), Some(2));
        for text in ["a line is odd", "no answer (os error 111); give credentials"] {
            assert_eq!(said(io::Error::other(text)), text);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn limits_are_named_with_what_raises_them() {
        let full = explain(Path::new("/"), io::Error::from_raw_os_error(28));
        assert_eq!((full.kind(), code(&full)), (ErrorKind::StorageFull, Some(28)));
        assert!(full.to_string().starts_with("the disk is full ("), "{full}");
        // Explaining an error again changes nothing.
        assert_eq!(
            explain(Path::new("/nowhere"), explain(Path::new("/"), full)).kind(),
            ErrorKind::StorageFull
        );
        assert!(
            said(io::Error::from_raw_os_error(24))
                .contains("(`ulimit -n`); raise that, or lower pipeline.lanes")
        );
        assert_eq!(code_in("burn: cannot write: odd (os error 27) at path \"a\""), Some(27));
        assert_eq!(code_in("an odd (os error"), None);
    }
}
