//! The files of one checkpoint on disk, checked against their digests before they are used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::digests::{DIGESTS, Digests};
use super::shelf;
use crate::error::{Error, Result};
use crate::train::advice;

/// A checkpoint's directory.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
    /// `None` if an older version saved the checkpoint, or if it is unfinished.
    digests: Option<Digests>,
}

impl Files {
    /// Reads the digests of the checkpoint in `directory`.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let mut files = Self { directory: directory.to_owned(), digests: None };
        let path = directory.join(DIGESTS);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).ok();
                let digests = text.and_then(|text| Digests::from_text(&text));
                let digests = digests.ok_or_else(|| files.damaged(DIGESTS, "it is damaged"))?;
                files.digests = Some(digests);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(&path, "read the digests", e)),
        }
        Ok(files)
    }

    pub(super) fn has_digests(&self) -> bool {
        self.digests.is_some()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a file, which is as it was saved.
    pub(super) fn whole(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        let matches = match &self.digests {
            Some(digests) => digests.matches(&self.directory, name),
            None => path.metadata().map(|_| true),
        };
        match matches {
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
    pub(super) fn whole_if_any(&self, name: &str) -> Result<Option<PathBuf>> {
        let exists = self.directory.join(name).exists();
        let listed = self.digests.as_ref().map_or(exists, |digests| digests.has(name));
        (exists || listed).then(|| self.whole(name)).transpose()
    }

    /// What an error in reading a file means: damage if there is no digest that says otherwise.
    pub(super) fn unreadable(&self, name: &str, error: Error) -> Error {
        match error {
            Error::Cursor { problem, .. } if self.digests.is_none() => self.damaged(name, &problem),
            error => error,
        }
    }

    /// The error that the file `name` cannot be used, with the checkpoint that can be used instead.
    pub(super) fn damaged(&self, name: &str, problem: &str) -> Error {
        let remedy = self.remedy();
        Error::Cursor { path: self.directory.join(name), problem: format!("{problem}; {remedy}") }
    }

    fn remedy(&self) -> String {
        let before = || {
            let step = shelf::step(&self.directory)?;
            let parent = self.directory.parent()?;
            let before = shelf::complete(parent).ok()?.into_iter().rfind(|&before| before < step)?;
            Some((parent, before))
        };
        let Some((parent, before)) = before() else {
            return "there is no checkpoint before it, so start the run again in another train.out"
                .to_owned();
        };
        match shelf::run(parent) {
            Some(root) => {
                let command = advice::resume(root, &["--at", &before.to_string()]);
                format!("--at {before} takes the checkpoint before it: {command}")
            }
            None => format!("the checkpoint before it is {}", shelf::path(parent, before).display()),
        }
    }
}
