//! Whether a directory can be written to, found out without leaving anything there.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result};

/// Refuses a directory, named by the config's `key`, that cannot be written to or made.
///
/// A file without a name is made in the directory, or in the nearest one above it that exists, and is gone at once.
pub(crate) fn check(key: &str, directory: &Path) -> Result<()> {
    let shown = directory.display();
    let wrong = |problem: String| {
        Err(Error::config(
            key,
            format!("cannot write to {shown}: {problem}; name another directory, or mend this one"),
        ))
    };
    for place in directory.ancestors() {
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        match place.metadata() {
            Ok(found) if !found.is_dir() => return wrong(format!("{} is not a directory", place.display())),
            Ok(_) => {
                return match tempfile::tempfile_in(place) {
                    Ok(_) => Ok(()),
                    // Its message would name the file that was tried.
                    Err(e) => wrong(format!("in {}: {}", place.display(), e.kind())),
                };
            }
            // What is above may exist, and says what is wrong if it is a file.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(e) => return wrong(e.to_string()),
        }
    }
    Ok(())
}
