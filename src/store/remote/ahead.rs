//! Reads remote files ahead of need: holds pieces that have arrived or are on their way, in the order in
//! which a lane reads.
//!
//! A lane plans its reads ([`Planned`]), and as many pieces of the plan as there is room for are requested at once. A
//! piece stays until reading has gone beyond it in its planned range: the rest of a slab's last document is read again,
//! and the columns of a table are read side by side, each of them forward. An unplanned range is requested when it is
//! read: a little at first, then twice as much each time that reading continues there. Held in memory: `room` bytes of
//! planned pieces, and one unplanned piece.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Handle;

use super::object::Object;
use super::pieces;
use super::stores::Stores;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::meter::stage_span;
use crate::store::{Cancellable, Plan, Planned, ReadTurn};
use crate::tasks::Task;

/// How much is first requested of an unplanned range, in bytes.
const LEAST_LOOSE: u64 = 64 << 10;

/// How many planned ranges are examined in one go. Those of local files are skipped.
const MOST_PASSED: usize = 1024;

/// How many epochs ahead are requested: of a small corpus, there would be room for hundreds.
const MOST_EPOCHS: u64 = 16;

/// The most pieces that wait, for each request that may be under way.
const STOCK: usize = 4;

/// The parts of remote files that a lane has at hand.
#[derive(Debug)]
pub(super) struct Ahead {
    stores: Arc<Stores>,
    files: Arc<Files>,
    cancellable: Cancellable,
    /// The approximate length of a piece, in bytes.
    block: u64,
    /// The most bytes of pieces that are held or under way.
    room: u64,
    plan: Option<Box<dyn Plan>>,
    /// The next range of the plan, if it has been looked at.
    peeked: Option<Planned>,
    /// The rest of each range of the turn that is being requested. They are read side by side.
    rests: VecDeque<FetchRest>,
    /// Pieces in the order of the plan.
    queue: VecDeque<FetchPiece>,
    held: u64,
    loose: Option<FetchPiece>,
    /// The turn that is being read.
    at: ReadTurn,
    /// Whether a piece has arrived. Until then only the first turn is requested: the other lanes need their
    /// first turns as soon.
    is_begun: bool,
}

/// The rest of the planned range that is being cut.
#[derive(Debug)]
struct FetchRest {
    of: Planned,
    object: Arc<Object>,
    left: Range<u64>,
}

/// A requested range of a file.
#[derive(Debug)]
struct FetchPiece {
    /// The planned range that it is part of.
    of: Planned,
    range: Range<u64>,
    /// Whether it was read, and not only looked at.
    is_used: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Coming(Task<Bytes>),
    /// In the cache on disk, at least when the piece was planned. The thread that needs it reads it: that takes less
    /// time than handing it over, and the bytes are then near that thread's core.
    Cached(Arc<Object>),
    Here(Bytes),
    /// It did not arrive, and the error was reported.
    Lost,
}

impl FetchPiece {
    fn ask(on: &Handle, object: Arc<Object>, of: Planned, range: Range<u64>) -> Self {
        let body = match object.is_cached(&range) {
            true => Body::Cached(object),
            false => Body::Coming(Task::spawn("store", on, object.get(range.clone()))),
        };
        Self { of, range, is_used: false, body }
    }

    fn has(&self, file: u32, byte: u64) -> bool {
        self.of.file == file && self.range.contains(&byte)
    }

    /// Whether a byte comes after this piece in its planned range.
    fn is_before(&self, file: u32, byte: u64) -> bool {
        self.of.file == file && self.of.range.contains(&byte) && self.range.end <= byte
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn is_under_way(&self) -> bool {
        matches!(&self.body, Body::Coming(task) if !task.is_finished())
    }

    /// Waits for the bytes. Returns `None` if they are cancelled first.
    fn wait(&mut self, on: &Handle, stores: &Stores, cancellable: &Cancellable) -> Option<Result<&Bytes>> {
        if let Body::Cached(object) = &self.body {
            self.body = match object.cached(&self.range) {
                Some(bytes) => Body::Here(bytes),
                None => Body::Coming(Task::spawn("store", on, object.clone().get(self.range.clone()))),
            };
        }
        if let Body::Coming(task) = &mut self.body {
            let (began, requests) = (Instant::now(), stores.under_way());
            let span = stage_span!("source", "store", requests);
            let come = on.block_on(async {
                match select(task, pin!(cancellable.cancelled())).await {
                    Either::Left((come, _)) => Some(come),
                    Either::Right(_) => None,
                }
            });
            drop(span);
            stores.waited(began.elapsed(), requests);
            self.body = Body::Lost;
            match come? {
                Ok(bytes) => self.body = Body::Here(bytes),
                Err(error) => return Some(Err(error)),
            }
        }
        match &self.body {
            Body::Here(bytes) => Some(Ok(bytes)),
            Body::Coming(_) | Body::Cached(_) | Body::Lost => None,
        }
    }
}

impl Ahead {
    /// Starts with no pieces. Pieces have about `block` bytes, and at most `room` bytes of them are held.
    pub(super) fn new(
        stores: Arc<Stores>,
        files: Arc<Files>,
        cancellable: Cancellable,
        block: u64,
        room: u64,
    ) -> Self {
        Self {
            stores,
            files,
            cancellable,
            block,
            room,
            plan: None,
            peeked: None,
            rests: VecDeque::new(),
            queue: VecDeque::new(),
            held: 0,
            loose: None,
            at: ReadTurn::default(),
            is_begun: false,
        }
    }

    /// A remote file as it was when the corpus was opened.
    pub(super) fn object(&self, number: u32) -> Result<Arc<Object>> {
        self.stores.object(&self.files[number as usize]).map(Arc::new)
    }

    /// The most bytes of pieces that are held or under way.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// Reads ranges of files, many at a time, and waits for all of them.
    pub(super) fn fetch(&self, ranges: impl Iterator<Item = (u32, Range<u64>)>) -> Result<Vec<Bytes>> {
        let asked: Vec<(Arc<Object>, Range<u64>)> =
            ranges.map(|(file, range)| Ok((self.object(file)?, range))).collect::<Result<_>>()?;
        let Some((first, _)) = asked.first() else { return Ok(Vec::new()) };
        let url = first.url.clone();
        let (began, requests) = (Instant::now(), self.stores.under_way());
        let span = stage_span!("source", "store", requests);
        let most = self.stores.config().concurrency;
        let runtime = runtime()?;
        let come = runtime.block_on(async {
            // As tasks: a thread that waits here must not drive timers of a runtime that shuts down.
            let asked =
                stream::iter(asked).map(|(object, range)| Task::spawn("store", &runtime, object.get(range)));
            match select(asked.buffered(most).try_collect(), pin!(self.cancellable.cancelled())).await {
                Either::Left((come, _)) => come,
                Either::Right(_) => Err(Error::io(&url, "read", std::io::ErrorKind::Interrupted.into())),
            }
        });
        drop(span);
        self.stores.waited(began.elapsed(), requests);
        come
    }

    /// Takes a plan, and starts to request it.
    pub(super) fn plan(&mut self, plan: Box<dyn Plan>) -> Result<()> {
        self.plan = Some(plan);
        self.begin_more(&runtime()?)
    }

    /// Drops everything that is for turns before this one.
    pub(super) fn reach(&mut self, turn: ReadTurn) {
        self.at = turn;
        self.let_go(|piece| piece.of.turn < turn);
        self.rests.retain(|rest| rest.of.turn >= turn);
    }

    /// Fills `into` with the bytes of a file from `from` on, which must be within the file.
    pub(super) fn read(&mut self, file: u32, object: &Arc<Object>, from: u64, into: &mut [u8]) -> Result<()> {
        self.let_go(|piece| piece.is_used && piece.is_before(file, from));
        self.fill(file, object, from, into, true)?;
        // Reading may go back a little, to a document that was not whole, but not as far as this.
        let done = (from + into.len() as u64).saturating_sub(self.block);
        let is_read = |piece: &FetchPiece| piece.is_used && piece.of.range.contains(&from);
        self.let_go(|piece| is_read(piece) && piece.is_before(file, done));
        self.begin_more(&runtime()?)
    }

    /// The same, but drops nothing: reading does not go on there.
    pub(super) fn look(&mut self, file: u32, object: &Arc<Object>, from: u64, into: &mut [u8]) -> Result<()> {
        self.fill(file, object, from, into, false)?;
        self.begin_more(&runtime()?)
    }

    fn fill(
        &mut self,
        file: u32,
        object: &Arc<Object>,
        from: u64,
        into: &mut [u8],
        is_use: bool,
    ) -> Result<()> {
        let runtime = runtime()?;
        self.begin_more(&runtime)?;
        let mut done = 0;
        while done < into.len() {
            let at = from + done as u64;
            let mut planned = self.find(file, at);
            if planned.is_none() && (done > 0 || self.goes_on(file, at)) {
                self.pass_over(file, at);
                self.begin_more(&runtime)?;
                planned = self.find(file, at);
            }
            let piece = match planned {
                Some(index) => &mut self.queue[index],
                None => {
                    let loose = self.loose(&runtime, file, object, at, (into.len() - done) as u64);
                    self.loose.insert(loose)
                }
            };
            piece.is_used |= is_use;
            let skipped = (at - piece.range.start) as usize;
            let Some(bytes) = piece.wait(&runtime, &self.stores, &self.cancellable) else {
                return Err(Error::io(&object.url, "read", std::io::ErrorKind::Interrupted.into()));
            };
            self.is_begun = true;
            let bytes = &bytes?[skipped..];
            let n = bytes.len().min(into.len() - done);
            into[done..][..n].copy_from_slice(&bytes[..n]);
            done += n;
        }
        Ok(())
    }

    /// Requests as much of the plan as there is room for.
    fn begin_more(&mut self, runtime: &Handle) -> Result<()> {
        let most = self.stores.config().concurrency;
        // Mostly there is no room for another piece, so those under way are counted only if there is.
        let mut under_way = None;
        while self.queue.len() < STOCK * most && self.find_rest()? {
            let Some(mut rest) = self.rests.pop_front() else { break };
            let mut left = rest.left.clone();
            let range = pieces::first(&mut left, self.block);
            let len = range.end - range.start;
            let has_room = self.held + len <= self.room || self.queue.is_empty();
            let count = || self.queue.iter().filter(|piece| piece.is_under_way()).count();
            if !has_room || *under_way.get_or_insert_with(count) >= most {
                self.rests.push_front(rest);
                break;
            }
            rest.left = left;
            self.queue.push_back(FetchPiece::ask(runtime, rest.object.clone(), rest.of.clone(), range));
            self.held += len;
            under_way = under_way.map(|under_way| under_way + 1);
            // The next pieces of the other ranges are needed as soon.
            if !rest.left.is_empty() {
                self.rests.push_back(rest);
            }
        }
        Ok(())
    }

    /// Makes sure that there are ranges of one turn to cut. Returns false if the plan has none for now.
    fn find_rest(&mut self) -> Result<bool> {
        self.rests.retain(|rest| !rest.left.is_empty());
        let mut passed = 0;
        while self.rests.is_empty() || self.peeked.is_none() {
            let next = match self.peeked.take() {
                Some(planned) => Some(planned),
                None => self.plan.as_mut().and_then(Iterator::next),
            };
            let Some(of) = next else { break };
            let is_of_turn = self.rests.front().is_none_or(|rest| rest.of.turn == of.turn);
            let is_too_early =
                !self.is_begun && self.queue.front().is_some_and(|piece| piece.of.turn != of.turn);
            let is_too_far = self.is_begun && of.turn.epoch > self.at.epoch + MOST_EPOCHS;
            if !is_of_turn || is_too_early || is_too_far {
                self.peeked = Some(of);
                break;
            }
            passed += 1;
            let is_remote = self.files[of.file as usize].location.is_remote();
            if is_remote && !of.range.is_empty() && of.turn >= self.at {
                let (object, left) = (self.object(of.file)?, of.range.clone());
                self.rests.push_back(FetchRest { of, object, left });
            }
            if passed == MOST_PASSED {
                break;
            }
        }
        Ok(!self.rests.is_empty())
    }

    fn find(&self, file: u32, at: u64) -> Option<usize> {
        self.queue.iter().position(|piece| piece.has(file, at))
    }

    /// Whether reading goes on after the unplanned piece, so that it is more than a look at a file's head or
    /// foot.
    fn goes_on(&self, file: u32, at: u64) -> bool {
        self.loose.as_ref().is_some_and(|loose| loose.of.file == file && loose.range.end == at)
    }

    /// Skips the planned ranges of this turn before `at`: reading began in the middle, as when a lane resumes, or it
    /// reads more at once than there is room for.
    fn pass_over(&mut self, file: u32, at: u64) {
        let turn = self.at;
        self.let_go(|piece| piece.is_before(file, at));
        let mut rests = self.rests.iter_mut().filter(|rest| rest.of.turn == turn && rest.of.file == file);
        if let Some(rest) = rests.find(|rest| rest.left.contains(&at)) {
            rest.left.start = at;
        }
    }

    /// Returns the unplanned piece if it has the byte `at`, and otherwise requests another in its place. At the end of a
    /// file it begins earlier: what is there says where the rest is, and that is mostly nearby.
    fn loose(&mut self, runtime: &Handle, file: u32, object: &Arc<Object>, at: u64, n: u64) -> FetchPiece {
        let before = match self.loose.take() {
            Some(loose) if loose.has(file, at) => return loose,
            before => before.filter(|before| before.of.file == file && before.range.end == at),
        };
        let is_first = before.is_none();
        let len = before.map_or(LEAST_LOOSE, |before| 2 * before.len()).max(n).min(self.block);
        let begin = if is_first { at.min(object.len.saturating_sub(len)) } else { at };
        let range = begin..object.len.min(begin + len);
        FetchPiece::ask(runtime, object.clone(), Planned { turn: self.at, file, range: range.clone() }, range)
    }

    /// Drops the pieces that are done, of this turn and those before it.
    fn let_go(&mut self, is_done: impl Fn(&FetchPiece) -> bool) {
        let mut next = 0;
        while let Some(piece) = self.queue.get(next).filter(|piece| piece.of.turn <= self.at) {
            if is_done(piece) {
                self.held -= piece.len();
                self.queue.remove(next);
            } else {
                next += 1;
            }
        }
    }
}

/// Where tasks run.
fn runtime() -> Result<Handle> {
    let problem =
        |e: tokio::runtime::TryCurrentError| Error::Corpus { problem: format!("remote files: {e}") };
    Handle::try_current().map_err(problem)
}
