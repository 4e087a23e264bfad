//! The files of one checkpoint on disk, checked against their digests before they are used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::digests::{DIGESTS, Digests};
use super::folder;
use millstream::error::{Error, Result, ResumeFrom};

/// A checkpoint's directory.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
    digests: Digests,
}

impl Files {
    /// Reads the digests of the checkpoint in `directory`.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(DIGESTS);
        let bytes = std::fs::read(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                damaged(directory, DIGESTS, "it is missing, so the checkpoint is unfinished")
            }
            _ => Error::io(&path, "read the digests", e),
        })?;
        let digests = String::from_utf8(bytes).ok().and_then(|text| Digests::from_text(&text));
        let digests = digests.ok_or_else(|| damaged(directory, DIGESTS, "it is damaged"))?;
        Ok(Self { directory: directory.to_owned(), digests })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a file, if the file is unchanged.
    pub(super) fn checked(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        match self.digests.matches(&self.directory, name) {
            Ok(true) => Ok(path),
            Ok(false) => {
                let problem = format!("it is damaged: its digest is not the one in {DIGESTS}");
                Err(self.damaged(name, &problem))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Err(self.damaged(name, "it is missing")),
            Err(e) => Err(Error::io(&path, "read the checkpoint", e)),
        }
    }

    /// The path of a file that not every checkpoint has, if this one has it.
    pub(super) fn checked_if_any(&self, name: &str) -> Result<Option<PathBuf>> {
        let exists = self.directory.join(name).exists();
        (exists || self.digests.has(name)).then(|| self.checked(name)).transpose()
    }

    /// The error for the file `name` that cannot be used, with the checkpoint that can be used instead.
    pub(super) fn damaged(&self, name: &str, problem: &str) -> Error {
        damaged(&self.directory, name, problem)
    }
}

fn damaged(directory: &Path, name: &str, problem: &str) -> Error {
    let (remedy, resume) = remedy(directory);
    Error::Checkpoint { path: directory.join(name), problem: format!("{problem}; {remedy}"), resume }
}

fn remedy(directory: &Path) -> (String, Option<Box<ResumeFrom>>) {
    let before = || {
        let step = folder::step(directory)?;
        let parent = directory.parent()?;
        let before = folder::complete(parent).ok()?.into_iter().rfind(|&before| before < step)?;
        Some((parent, before))
    };
    let Some((parent, before)) = before() else {
        let none = "there is no checkpoint before it, so start the run again in another train.out";
        return (none.to_owned(), None);
    };
    match folder::run(parent) {
        Some(root) => {
            let resume = ResumeFrom { run: root.to_owned(), step: Some(before), settings: Vec::new() };
            (format!("the checkpoint before it is of step {before}"), Some(Box::new(resume)))
        }
        None => (format!("the checkpoint before it is {}", folder::path(parent, before).display()), None),
    }
}
