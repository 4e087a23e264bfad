//! Checks whether a directory can be written to, without leaving anything there.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result, lacks_room, refuses_writing};

/// Refuses a directory, named by the config's `key`, that cannot be written to or made.
///
/// A file without a name is made in the directory, or in the nearest one above it that exists, and is gone at once.
pub fn check(key: &str, directory: &Path) -> Result<()> {
    look(key, directory, |_| false)
}

/// The same for the directory of a cache. A cache that is read-only, another user's or on a full disk is fine: it is
/// only read.
pub fn check_cache(key: &str, directory: &Path) -> Result<()> {
    look(key, directory, |kind| refuses_writing(kind) || lacks_room(kind))
}

fn look(key: &str, directory: &Path, is_fine: impl Fn(ErrorKind) -> bool) -> Result<()> {
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
                    Err(e) if is_fine(e.kind()) => Ok(()),
                    Err(e) if lacks_room(e.kind()) => Err(Error::io(place, "make a file", e)),
                    // The error's message would name the temporary file.
                    Err(e) => wrong(format!("in {}: {}", place.display(), e.kind())),
                };
            }
            // Its parent may exist, and is reported if it is a file.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(e) if is_fine(e.kind()) => return Ok(()),
            Err(e) => return wrong(e.to_string()),
        }
    }
    Ok(())
}
