//! The memory budget: how many bytes of text and ids may be in flight.
//!
//! Only the source waits for it. Before it reads, it takes a lease on the slab and on the most
//! ids that the slab's text can become, four bytes for each byte; tokenizing moves the ids' share
//! from the slab to the arena and gives back what was not needed. So nothing downstream ever has to
//! wait for memory, and what is in flight passes the budget by one document at most: the one that is
//! longer than what was left. (A normalizer that makes more than one id of a byte passes it too. The places
//! of documents, some 160 bytes each, are not counted, nor what arenas are larger than their ids, an eighth at most.)
//! Stored ids stay in their file, in the system's memory, and take nothing.
//!
//! If the source waits while nothing moves and nobody downstream can go on, the budget is too small
//! for the window. This is seen, so that it is an error and not a hang.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes of ids that one byte of text can become: one u32 for each.
pub(crate) const IDS_PER_BYTE: usize = size_of::<u32>();

/// A bound on bytes in flight. A loader has one a lane, so that no lane can starve another.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// What of it is set aside.
    reserved: usize,
    peak: usize,
    moving: usize,
    waiting: Vec<Waker>,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// The bound, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in flight now.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// The most bytes that were ever in flight.
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// Takes `bytes`, waiting until they fit.
    pub(crate) fn poll_lease(self: &Arc<Self>, cx: &mut Context<'_>, bytes: usize) -> Poll<Lease> {
        let mut state = self.state();
        if state.used > state.reserved && state.used + bytes > self.limit {
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(self.lease(&mut state, bytes))
    }

    /// Takes `bytes` whether they fit or not: for ids, whose room was taken with their text, and for
    /// the rest of a document that was begun.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Lease {
        self.lease(&mut self.state(), bytes)
    }

    /// Sets `bytes` aside for as long as the guard lives: nobody who waits for memory waits for them.
    #[cfg(feature = "stores")]
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Reserve {
        let mut state = self.state();
        state.reserved += bytes;
        Reserve { lease: self.lease(&mut state, bytes), bytes }
    }

    fn lease(self: &Arc<Self>, state: &mut State, bytes: usize) -> Lease {
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        Lease { budget: Some(self.clone()), bytes: AtomicUsize::new(bytes) }
    }

    /// A lease on `bytes` in place of `reserved`, which were taken before and belong to nobody now.
    pub(crate) fn resize(self: &Arc<Self>, reserved: usize, bytes: usize) -> Lease {
        let lease = Lease { budget: Some(self.clone()), bytes: AtomicUsize::new(reserved) };
        if bytes <= reserved {
            lease.release(reserved - bytes);
        } else {
            lease.bytes.fetch_add(self.charge(bytes - reserved).take(usize::MAX), Ordering::Relaxed);
        }
        lease
    }

    /// Notes that something moves by itself until the guard is dropped: a read, a blocking job.
    pub(crate) fn moving(self: &Arc<Self>) -> Moving {
        self.state().moving += 1;
        Moving(self.clone())
    }

    /// Whether the source waits for memory that nothing under way will give back.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.state();
        state.moving == 0 && !state.waiting.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bytes: usize) {
        let mut state = self.state();
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
    /// No bytes of no budget.
    pub(crate) fn none() -> Self {
        Self { budget: None, bytes: AtomicUsize::new(0) }
    }

    /// The budget that the bytes were taken from.
    pub(crate) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// Takes `bytes`, or all that is left if that is less, out of the lease; they stay in flight. Says how many.
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

/// Bytes of a budget that are set aside, until it is dropped.
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
            budget.state().reserved -= self.bytes;
        }
    }
}

/// What the source does while a document grows.
impl Lease {
    /// A lease on `bytes` of it, and on more of the budget if it has fewer.
    pub(crate) fn part(&self, bytes: usize) -> Self {
        self.budget.as_ref().map_or_else(Self::none, |budget| budget.resize(self.take(bytes), bytes))
    }

    /// Takes over the bytes of `other`, a lease on the same budget.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        *self.bytes.get_mut() += std::mem::take(other.bytes.get_mut());
        self.budget = self.budget.take().or_else(|| other.budget.clone());
    }

    /// Makes it a lease on `bytes`, more of them or fewer.
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

/// Says that something moves by itself, until it is dropped.
#[derive(Debug)]
pub(crate) struct Moving(Arc<Budget>);

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.state().moving -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures::future::poll_fn;
    use futures::{FutureExt, pin_mut};

    use super::*;

    #[tokio::test]
    async fn waits_until_what_it_asks_for_fits() {
        let budget = Budget::new(100);
        let first = poll_fn(|cx| budget.poll_lease(cx, 60)).await;
        let second = poll_fn(|cx| budget.poll_lease(cx, 60));
        pin_mut!(second);
        assert!(second.as_mut().now_or_never().is_none());
        assert!(budget.is_stuck());
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
    async fn one_that_can_never_fit_goes_alone() {
        let budget = Budget::new(10);
        let lease = poll_fn(|cx| budget.poll_lease(cx, 1000)).await;
        assert_eq!(budget.used(), 1000);
        drop(lease);
    }
}
