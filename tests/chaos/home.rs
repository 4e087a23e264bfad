//! Where the corpora of a round lie: where those of all rounds do, or in a directory of its own, which moves.

use std::path::{Path, PathBuf};

use crate::corpora::Corpora;
use crate::dice::Dice;
use crate::trouble::Trouble;
use crate::weather::files;

/// A round's corpora.
pub(crate) struct Home<'a> {
    corpora: &'a Corpora,
    scratch: &'a Path,
    /// The directory of its own, if it has one.
    own: Option<PathBuf>,
    moves: usize,
}

impl<'a> Home<'a> {
    /// Draws whether the round has its own, in `scratch`.
    pub(crate) fn draw(dice: &mut Dice, corpora: &'a Corpora, scratch: &'a Path) -> Self {
        let own = dice.brings(Trouble::Moved, 25).then(|| scratch.join("home"));
        Self { corpora, scratch, own, moves: 0 }
    }

    /// The directory of the corpus in this format.
    pub(crate) fn directory(&self, format: &str) -> PathBuf {
        let shared = self.corpora.directory(format);
        let Some(own) = &self.own else { return shared };
        let directory = own.join(format);
        if !directory.exists() {
            for file in files(&shared) {
                let to = directory.join(file.strip_prefix(&shared).expect("it is below"));
                std::fs::create_dir_all(to.parent().expect("a directory")).expect("made");
                std::fs::copy(file, to).expect("copied");
            }
        }
        directory
    }

    /// Moves the corpora, perhaps. Returns whether they moved.
    pub(crate) fn moves(&mut self, dice: &mut Dice) -> bool {
        let Some(own) = self.own.as_mut().filter(|_| dice.brings(Trouble::Moved, 50)) else { return false };
        self.moves += 1;
        let mount = self.scratch.join(format!("mount {}", self.moves));
        std::fs::create_dir(&mount).expect("made");
        let from = std::mem::replace(own, mount.join("home"));
        std::fs::rename(from, own).expect("moved");
        true
    }
}
