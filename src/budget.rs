//! The memory budget: how many bytes of text and ids may be in flight.
//!
//! Only the source waits for it. Before the source reads, it takes a lease on the slab and on the most ids that the
//! slab's text can become: four bytes of ids for each byte of text. Tokenizing moves the ids' share from the slab to
//! the arena and gives back the rest. So nothing downstream ever waits for memory. Bytes in flight exceed the budget by
//! one document at most, the one that is longer than the remaining room, unless a window is longer than the budget.
//!
//! Some bytes are not covered. A normalizer that makes more than one id from a byte can exceed the budget. Not counted
//! are the positions of documents in windows and the rows that lanes have copied (the loader reserves memory for both),
//! the part of a slab that is larger than its text (at most half), and that of an arena (at most an eighth). Stored ids
//! stay in their file, in the system's memory, and take nothing.
//!
//! If the source waits while nothing moves and nothing downstream can go on, the window's documents do not fit
//! the budget. This is noticed, and the source may go on by one slab beyond it (`Budget::lend`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::threads::lock;

/// The bytes of ids that one byte of text can become: one `u32`.
pub(crate) const IDS_PER_BYTE: usize = size_of::<u32>();

/// A bound on bytes in flight. A loader has one per lane, so that no lane starves another.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    state: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    used: usize,
    /// The reserved part of `used`.
    reserved: usize,
    peak: usize,
    moving: usize,
    /// Whether the next lease is given though there is no room for it.
    lends: bool,
    waiting: Vec<Waker>,
}

impl Budget {
    /// Makes a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// The bound, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in flight now.
    pub fn used(&self) -> usize {
        lock(&self.state).used
    }

    /// The most bytes that were ever in flight.
    pub fn peak(&self) -> usize {
        lock(&self.state).peak
    }

    /// Takes `bytes`, waiting until they fit.
    pub(crate) fn poll_lease(self: &Arc<Self>, cx: &mut Context<'_>, bytes: usize) -> Poll<Lease> {
        let mut state = lock(&self.state);
        let fits = state.used <= state.reserved || state.used + bytes <= self.limit;
        if !fits && !std::mem::take(&mut state.lends) {
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(self.lease(&mut state, bytes))
    }

    /// Takes `bytes`, whether they fit or not. This is for ids, whose room was taken with their text, and for
    /// the rest of a document that has begun.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Lease {
        self.lease(&mut lock(&self.state), bytes)
    }

    /// Reserves `bytes` for as long as the guard lives. They count as used, but no lease waits for them to come back.
    #[cfg(feature = "stores")]
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Reserve {
        let mut state = lock(&self.state);
        state.reserved += bytes;
        Reserve { lease: self.lease(&mut state, bytes), bytes }
    }

    fn lease(self: &Arc<Self>, state: &mut Ledger, bytes: usize) -> Lease {
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        Lease { budget: Some(self.clone()), bytes: AtomicUsize::new(bytes) }
    }

    /// Makes a lease on `bytes` out of `reserved` bytes that were taken before and belong to no lease now.
    pub(crate) fn resize(self: &Arc<Self>, reserved: usize, bytes: usize) -> Lease {
        let lease = Lease { budget: Some(self.clone()), bytes: AtomicUsize::new(reserved) };
        if bytes <= reserved {
            lease.release(reserved - bytes);
        } else {
            lease.bytes.fetch_add(self.charge(bytes - reserved).take(usize::MAX), Ordering::Relaxed);
        }
        lease
    }

    /// Notes that something runs by itself until the guard is dropped: a read, a blocking job.
    pub(crate) fn moving(self: &Arc<Self>) -> Moving {
        lock(&self.state).moving += 1;
        Moving(self.clone())
    }

    /// If sources wait for memory that nothing under way will give back: how many of them would wake `waker`.
    pub(crate) fn stuck(&self, waker: &Waker) -> Option<usize> {
        let state = lock(&self.state);
        let is_stuck = state.moving == 0 && !state.waiting.is_empty();
        is_stuck.then(|| state.waiting.iter().filter(|waiting| waiting.will_wake(waker)).count())
    }

    /// Wakes all waiters, which then check again, because one of them is gone.
    pub(crate) fn ask_again(&self) {
        self.release(0);
    }

    /// Lets the source have one more lease than there is room for. A window is part of the order: if its documents
    /// do not fit the budget, reading on is the only way to ever give their memory back.
    pub(crate) fn lend(&self) {
        let mut state = lock(&self.state);
        state.lends = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn release(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.used -= bytes;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Bytes taken from a budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Option<Arc<Budget>>,
    bytes: AtomicUsize,
}

impl Lease {
    /// Makes an empty lease, without a budget.
    pub(crate) fn none() -> Self {
        Self { budget: None, bytes: AtomicUsize::new(0) }
    }

    /// The budget that the bytes were taken from.
    pub(crate) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// Takes `bytes` out of the lease, or all that is left if that is less. They stay in flight. Returns how
    /// many were taken.
    pub(crate) fn take(&self, bytes: usize) -> usize {
        let rest = |left: usize| Some(left.saturating_sub(bytes));
        let left = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        left.unwrap_or_else(|left| left).min(bytes)
    }

    /// Gives back `bytes`, or all that is left if that is less.
    pub(crate) fn release(&self, bytes: usize) {
        let bytes = self.take(bytes);
        if let (Some(budget), 1..) = (&self.budget, bytes) {
            budget.release(bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.release(usize::MAX);
    }
}

/// Bytes of a budget that are reserved until this is dropped.
#[cfg(feature = "stores")]
#[derive(Debug)]
pub(crate) struct Reserve {
    lease: Lease,
    bytes: usize,
}

#[cfg(feature = "stores")]
impl Drop for Reserve {
    fn drop(&mut self) {
        if let Some(budget) = &self.lease.budget {
            lock(&budget.state).reserved -= self.bytes;
        }
    }
}

/// The source uses these while a document grows.
impl Lease {
    /// Splits off a lease on `bytes`. If this lease has fewer, the budget adds the rest.
    pub(crate) fn part(&self, bytes: usize) -> Self {
        self.budget.as_ref().map_or_else(Self::none, |budget| budget.resize(self.take(bytes), bytes))
    }

    /// Takes over the bytes of `other`, a lease on the same budget.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        *self.bytes.get_mut() += std::mem::take(other.bytes.get_mut());
        self.budget = self.budget.take().or_else(|| other.budget.clone());
    }

    /// Grows or shrinks the lease to `bytes`.
    pub(crate) fn cover(&mut self, bytes: usize) {
        let held = *self.bytes.get_mut();
        if let (Some(budget), true) = (&self.budget, bytes > held) {
            self.absorb(budget.charge(bytes - held));
        }
        self.keep(bytes);
    }

    /// Gives back all but `bytes`.
    pub(crate) fn keep(&self, bytes: usize) {
        self.release(self.bytes.load(Ordering::Relaxed).saturating_sub(bytes));
    }
}

/// Notes that something runs by itself, until this is dropped.
#[derive(Debug)]
pub(crate) struct Moving(Arc<Budget>);

impl Drop for Moving {
    fn drop(&mut self) {
        lock(&self.0.state).moving -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures::future::poll_fn;
    use futures::{FutureExt, pin_mut};

    use super::*;

    fn is_stuck(budget: &Budget) -> bool {
        budget.stuck(Waker::noop()).is_some()
    }

    #[tokio::test]
    async fn waits_until_what_it_asks_for_fits() {
        let budget = Budget::new(100);
        let first = poll_fn(|cx| budget.poll_lease(cx, 60)).await;
        let second = poll_fn(|cx| budget.poll_lease(cx, 60));
        pin_mut!(second);
        assert!(second.as_mut().now_or_never().is_none());
        assert!(is_stuck(&budget));
        first.release(10);
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.await;
        assert_eq!((budget.used(), budget.peak()), (60, 60));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn leases_join_and_shrink() {
        let budget = Budget::new(100);
        let mut lease = Lease::none();
        lease.absorb(budget.charge(30));
        lease.absorb(budget.charge(50));
        assert_eq!(budget.used(), 80);
        lease.keep(90);
        assert_eq!(budget.used(), 80);
        lease.keep(20);
        assert_eq!(budget.used(), 20);
        drop(lease);
        assert_eq!((budget.used(), budget.peak()), (0, 80));
    }

    #[cfg(feature = "stores")]
    #[tokio::test]
    async fn what_is_set_aside_is_used_and_nobody_waits_for_it() {
        let budget = Budget::new(100);
        let reserve = budget.reserve(30);
        let lease = poll_fn(|cx| budget.poll_lease(cx, 90)).await;
        assert_eq!((budget.used(), budget.peak()), (120, 120));
        assert!(poll_fn(|cx| budget.poll_lease(cx, 1)).now_or_never().is_none());
        drop(lease);
        assert_eq!(budget.used(), 30);
        drop(reserve);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_budget_lends_one_lease_at_a_time() {
        let budget = Budget::new(100);
        let window = budget.charge(300);
        let ask = || poll_fn(|cx| budget.poll_lease(cx, 10)).now_or_never();
        assert!(ask().is_none() && is_stuck(&budget));
        budget.lend();
        assert!(!is_stuck(&budget));
        let lease = ask();
        assert_eq!(budget.used(), 310);
        assert!(ask().is_none() && is_stuck(&budget));
        drop((window, lease));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn one_that_can_never_fit_goes_alone() {
        let budget = Budget::new(10);
        let lease = poll_fn(|cx| budget.poll_lease(cx, 1000)).await;
        assert_eq!(budget.used(), 1000);
        drop(lease);
    }
}
