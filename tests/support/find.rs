//! The files below a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// Appends the files below a directory whose names have this extension.
pub(crate) fn find(directory: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory that can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find(&path, extension, files);
        } else if path.extension().is_some_and(|of| of == extension) {
            files.push(path);
        }
    }
}
