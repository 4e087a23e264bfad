//! The trait that every format implements, and its types.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use super::records::{Damaged, Records, small_layout};
use crate::error::Result;
use crate::source::content::{Content, packed};
use crate::source::framing::Shape;
use crate::source::layout::{Laid, Layout};
use crate::source::problem::Unread;
use crate::source::split_size::SplitSize;
use crate::store::{FileOpener, Stored};

/// How documents are stored in a file, with what the config says about it.
pub(crate) trait Format: Debug + Send + Sync {
    /// The shape of its documents, if it is framed text.
    fn shape(&self) -> Option<Shape> {
        None
    }

    /// Whether documents can be found from any byte of the file at this path on.
    fn is_sought(&self, _: &Path) -> bool {
        self.shape().is_some()
    }

    /// Whether a file has to be looked at before it can be cut. The first file of a source always is, so that a missing
    /// column is found at once.
    fn looks_at(&self, file: Candidate) -> bool {
        file.is_first || file.is_long || file.is_longest
    }

    /// Refuses settings that fit no file, once all files that have to be were looked at.
    fn looked(&self) -> Result<()> {
        Ok(())
    }

    /// How a file is cut into splits. A damaged file is not cut: the policy for bad input decides once it is opened.
    ///
    /// By default only a small file is, where reading it finds that its records begin.
    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        match packed(&*stored)? {
            Some(held) => Ok(Laid { layout: Layout::Whole, held }),
            None if split_size.is_small => match self.open(file, &Layout::Whole)? {
                Opened::Records(records) => small_layout(records, stored.len(), split_size),
                Opened::Text(..) => Ok(Layout::Whole.into()),
            },
            None => Ok(Layout::Whole.into()),
        }
    }

    /// Opens a file that is cut as `layout` says.
    fn open(&self, file: Unopened<'_>, layout: &Layout) -> Result<Opened>;

    /// The dotted names of the fields that may hold text, from a file's description or its first records.
    fn fields(&self, _: Unopened<'_>) -> Result<Vec<String>, Unread> {
        Ok(Vec::new())
    }

    /// How much memory it takes to remember what files say of themselves, whether they are open or not, in bytes.
    fn index_bytes(&self) -> u64 {
        0
    }
}

/// A file of an opener, for a format to open, if it reads any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unopened<'a> {
    opener: &'a FileOpener,
    number: u32,
}

impl<'a> Unopened<'a> {
    /// File `number` of the corpus.
    pub(crate) fn new(opener: &'a FileOpener, number: u32) -> Self {
        Self { opener, number }
    }

    /// Its bytes, as they are stored.
    pub(crate) fn stored(self) -> Result<Arc<dyn Stored>> {
        self.opener.open(self.number)
    }
}

/// Facts about a file before it is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Whether it is the first of its source.
    pub(crate) is_first: bool,
    /// Whether it is longer than a split.
    pub(crate) is_long: bool,
    /// Whether it is the longest of its source's long files.
    pub(crate) is_longest: bool,
}

#[derive(Debug)]
pub(crate) enum Opened {
    Text(Content, Shape),
    Records(Box<dyn Records>),
}

impl Opened {
    pub(super) fn records(records: impl Records + 'static) -> Self {
        Self::Records(Box::new(records))
    }

    /// An open file of records, or the stand-in for a damaged one.
    pub(super) fn found(found: Result<impl Records + 'static, Unread>) -> Result<Self> {
        let damaged = |problem| Self::records(Damaged(problem));
        Ok(Unread::split(found)?.map_or_else(damaged, Self::records))
    }
}
