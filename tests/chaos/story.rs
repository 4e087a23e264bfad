//! What a round has drawn and seen so far, for whoever has to find out why it failed.

use std::cell::RefCell;
use std::fmt::Debug;

thread_local! {
    static STORY: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Adds a line.
pub(crate) fn note(what: &str, of: impl Debug) {
    STORY.with_borrow_mut(|story| story.push(format!("{what}: {of:?}")));
}

/// Takes all lines.
pub(crate) fn take() -> Vec<String> {
    STORY.take()
}
