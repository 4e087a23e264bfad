//! The files that one lane reads: local ones, and remote ones with the parts that were fetched.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::ahead::Ahead;
use super::object::Object;
use super::stores::Stores;
use crate::budget::{Budget, Reserve};
use crate::error::Result;
use crate::files::Files;
use crate::store::{Cancellable, Local, Plan, ReadTurn, Stored, checked, past_the_end};
use crate::threads::lock;

/// One part in this many of a lane's budget is for remote files.
const BUDGET_SHARE: usize = 2;

/// The fewest blocks that a lane has room for, for each place of a split that it reads at once: one is being read, one
/// was not planned, and the others are on their way.
const LEAST_BLOCKS: u64 = 8;

/// The length of the smallest block, in bytes, however small the budget.
const LEAST_BLOCK: u64 = 4 << 10;

/// The room of a lane without a budget, in blocks.
const DEFAULT_BLOCKS: u64 = 16;

/// Opens the files that a lane reads, and requests the planned parts of remote ones.
#[derive(Debug)]
pub(crate) struct FileOpener {
    files: Arc<Files>,
    ahead: Arc<Mutex<Ahead>>,
    is_planned: bool,
    _reserve: Option<Reserve>,
}

impl FileOpener {
    /// The files of a lane that reads remote ones, each split at so many `places` at once. Half of its budget is
    /// reserved for fetched parts.
    pub(crate) fn new(
        files: Arc<Files>,
        stores: Arc<Stores>,
        budget: Option<&Arc<Budget>>,
        cancellable: Cancellable,
        places: u64,
    ) -> Self {
        let longest = stores.config().block.0;
        let room = budget.map_or(DEFAULT_BLOCKS * longest, |budget| (budget.limit() / BUDGET_SHARE) as u64);
        let block = longest.min((room / (LEAST_BLOCKS * places)).max(LEAST_BLOCK));
        let reserve = budget.map(|budget| budget.reserve(room as usize));
        let planned = room.saturating_sub(block);
        let ahead = Ahead::new(stores, files.clone(), cancellable, block, planned);
        Self { files, ahead: Arc::new(Mutex::new(ahead)), is_planned: true, _reserve: reserve }
    }

    /// For files that are read in random order without a plan, or that are all local.
    pub(crate) fn unplanned(files: Arc<Files>, stores: Arc<Stores>, cancellable: Cancellable) -> Self {
        Self { is_planned: false, ..Self::new(files, stores, None, cancellable, 1) }
    }

    /// Whether a plan of the reads helps.
    pub(crate) fn is_planned(&self) -> bool {
        self.is_planned
    }

    pub(crate) fn open(&self, number: u32) -> Result<Arc<dyn Stored>> {
        let file = &self.files[number as usize];
        if !file.location.is_remote() {
            return checked(Local::open(file.path(), file.len)?);
        }
        let object = lock(&self.ahead).object(number)?;
        checked(Remote { number, object, ahead: self.ahead.clone() })
    }

    /// How many bytes of fetched parts may be held at once.
    pub(crate) fn room(&self) -> u64 {
        lock(&self.ahead).room()
    }

    /// Reads ranges of remote files, many at a time, and waits for all of them.
    pub(crate) fn fetch(&self, ranges: impl Iterator<Item = (u32, Range<u64>)>) -> Result<Vec<Bytes>> {
        lock(&self.ahead).fetch(ranges)
    }

    /// Sets the plan of reads, in order. Reading ahead begins at once.
    pub(crate) fn plan(&mut self, plan: impl Plan) -> Result<()> {
        lock(&self.ahead).plan(Box::new(plan))
    }

    /// Notes that nothing before this turn is read any more.
    pub(crate) fn reach(&mut self, turn: ReadTurn) {
        lock(&self.ahead).reach(turn);
    }
}

/// A remote file. Of all those that a lane has open, one is read at a time.
#[derive(Debug)]
struct Remote {
    number: u32,
    object: Arc<Object>,
    ahead: Arc<Mutex<Ahead>>,
}

impl Stored for Remote {
    fn path(&self) -> &Path {
        &self.object.url
    }

    fn len(&self) -> u64 {
        self.object.len
    }

    fn read_at(&self, from: u64, into: &mut [u8]) -> Result<()> {
        self.check_end(from, into)?;
        lock(&self.ahead).read(self.number, &self.object, from, into)
    }

    fn look_at(&self, from: u64, into: &mut [u8]) -> Result<()> {
        self.check_end(from, into)?;
        lock(&self.ahead).look(self.number, &self.object, from, into)
    }
}

impl Remote {
    /// Refuses to read beyond the file's end.
    fn check_end(&self, from: u64, into: &[u8]) -> Result<()> {
        let end = from.saturating_add(into.len() as u64);
        match end > self.object.len {
            true => Err(past_the_end(&self.object.url, self.object.len, end)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::config::StoreConfig;
    use crate::error::Unit;
    use crate::files::{File, Location};

    const LEN: u64 = 2000;

    #[tokio::test]
    async fn reading_past_the_end_is_an_error_wherever_the_file_is() {
        let local = tempfile::NamedTempFile::new().unwrap();
        local.as_file().set_len(LEN).unwrap();
        // Nothing is asked of this server.
        let url = "http://localhost:1/file".to_owned();
        let files = [Location::Path(local.path().to_owned()), Location::Url(url)].map(|location| File {
            location,
            len: LEN,
            etag: None,
            source: 0,
            unit: Unit::Byte,
        });
        let stores = Arc::new(Stores::new(&StoreConfig::default()));
        let opener = FileOpener::unplanned(Arc::new(Files::new(files.into())), stores, Cancellable::never());
        for number in 0..2 {
            let stored = opener.open(number).unwrap();
            for (from, n) in [(LEN, 1), (LEN + 9, 1), (LEN - 1, 2), (0, LEN as usize + 1)] {
                let mut into = vec![0; n];
                for read in [stored.read_at(from, &mut into), stored.look_at(from, &mut into)] {
                    let error = read.unwrap_err();
                    let end = from + n as u64;
                    let said = format!("it has {LEN} bytes, and those up to {end} were asked for");
                    assert_eq!(error.source().unwrap().to_string(), said, "{error}");
                }
            }
        }
    }
}
