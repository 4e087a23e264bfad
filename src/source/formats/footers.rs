//! Which footers of a source's files are in memory: those that were read when the source was opened, as far as there is
//! room, and those that open splits use. Some formats have heads instead, and in Arrow the places of record batches are
//! found one after the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// How much the footers of closed files take at most, in bytes.
const ROOM: u64 = 16 << 20;

/// Parsed footers, by the paths of their files.
#[derive(Debug)]
pub(super) struct Footers<T> {
    /// Those that open splits use.
    open: HashMap<PathBuf, Weak<T>>,
    /// Those that stay, and how many bytes they take.
    kept: HashMap<PathBuf, Arc<T>>,
    bytes: u64,
    /// The footer that was read last: where splits are opened one after the other, it serves the next.
    last: Option<Arc<T>>,
}

impl<T> Default for Footers<T> {
    fn default() -> Self {
        Self { open: HashMap::new(), kept: HashMap::new(), bytes: 0, last: None }
    }
}

impl<T> Footers<T> {
    pub(super) fn get(&self, path: &Path) -> Option<Arc<T>> {
        self.kept.get(path).cloned().or_else(|| self.open.get(path).and_then(Weak::upgrade))
    }

    /// Adds the footer of a file, for as long as a split uses it or it is the last.
    pub(super) fn add(&mut self, path: &Path, footer: T) -> Arc<T> {
        let footer = Arc::new(footer);
        self.open.retain(|_, footer| footer.strong_count() > 0);
        self.open.insert(path.to_owned(), Arc::downgrade(&footer));
        self.last = Some(footer.clone());
        footer
    }

    /// Keeps the footer of a file, which takes `bytes`, in memory until the source is closed. Returns false if there is no
    /// room.
    pub(super) fn keep(&mut self, path: &Path, footer: &Arc<T>, bytes: u64) -> bool {
        let has_room = self.bytes.saturating_add(bytes) <= ROOM;
        if has_room {
            self.bytes += bytes;
            self.open.remove(path);
            self.kept.insert(path.to_owned(), footer.clone());
        }
        has_room
    }

    /// How many bytes the footers take that stay.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_stay_as_long_as_there_is_room() {
        let mut footers = Footers::default();
        let mut add = |name: &str, bytes| {
            let footer = footers.add(Path::new(name), name.to_owned());
            footers.keep(Path::new(name), &footer, bytes)
        };
        assert!(add("a", ROOM - 9) && !add("b", 10) && add("c", 9) && !add("d", 1));
        assert_eq!(footers.bytes(), ROOM);
        let open = footers.add(Path::new("e"), "e".to_owned());
        footers.add(Path::new("f"), "f".to_owned());
        let found = ["a", "b", "c", "d", "e", "f"].map(|name| footers.get(Path::new(name)).is_some());
        assert_eq!(found, [true, false, true, false, true, true]);
        drop(open);
        assert_eq!(footers.get(Path::new("e")), None);
    }
}
