//! Windows: one fills, while what was made of the one before is delivered in a drawn order.

use crate::error::{Error, Result};

/// How long a window is that `before` items come before: as long as all of them together, within bounds. So the first
/// windows are short, and the first items come at once.
pub(super) fn length(before: u64, first: u64, most: u64) -> u64 {
    before.max(first).min(most)
}

/// A window that fills with `T`, and one that drains: it became some `O`, which are delivered one by one. `C` is a
/// place where a window begins, for the cursors of what is delivered.
#[derive(Debug)]
pub(super) struct Windowed<T, O, C> {
    /// What is delivered, and by whom, for errors.
    what: &'static str,
    pub(super) filling: Vec<T>,
    /// Whether the filling window gets no longer.
    is_cut: bool,
    draining: Vec<Option<O>>,
    order: std::vec::IntoIter<u32>,
    /// The places before and after the draining window.
    places: [C; 2],
}

impl<T, O, C: Clone> Windowed<T, O, C> {
    pub(super) fn new(what: &'static str, start: C) -> Self {
        Self {
            what,
            filling: Vec::new(),
            is_cut: false,
            draining: Vec::new(),
            order: Vec::new().into_iter(),
            places: [start.clone(), start],
        }
    }

    /// How many items the filling window lacks, if it is to have `len`.
    pub(super) fn lacks(&self, len: u64) -> usize {
        if self.is_cut { 0 } else { (len as usize).saturating_sub(self.filling.len()) }
    }

    /// How many items to read before the next delivery. So the filling window is whole when the other is drained, and
    /// about one window is held.
    pub(super) fn room(&self, len: u64) -> usize {
        self.lacks(len).div_ceil(self.order.len().max(1))
    }

    /// Makes the filling window whole as it is.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(super) fn is_drained(&self) -> bool {
        self.order.len() == 0
    }

    /// How many items are held, if each gives one delivery.
    pub(super) fn held(&self) -> usize {
        self.filling.len() + self.order.len()
    }

    /// Takes the items of the filled window. The next one begins to fill.
    pub(super) fn take(&mut self) -> Vec<T> {
        self.is_cut = false;
        std::mem::take(&mut self.filling)
    }

    /// Begins to deliver what a window became in this `order`, without the first `delivered`. `places` are those before
    /// and after the window. Returns the memory of the window before.
    ///
    /// # Errors
    /// [`Error::Resume`] if more was delivered than there is.
    pub(super) fn drain(
        &mut self,
        mut made: Vec<Option<O>>,
        order: Vec<u32>,
        delivered: u64,
        places: [C; 2],
    ) -> Result<Vec<Option<O>>> {
        let len = made.len() as u64;
        // After a window's last delivery the cursor is the next window's start.
        if delivered > 0 && delivered >= len {
            let what = self.what;
            return Err(Error::resume(format!(
                "{delivered} {what} were delivered of a window that has {len}"
            )));
        }
        self.order = order.into_iter();
        self.order.by_ref().take(delivered as usize).for_each(|index| made[index as usize] = None);
        self.places = places;
        Ok(std::mem::replace(&mut self.draining, made))
    }

    /// The next delivery and the parts of the cursor after it: a place, and how much was delivered since.
    pub(super) fn next(&mut self) -> Option<(O, C, u64)> {
        let index = self.order.next()?;
        let made = self.draining[index as usize].take()?;
        let [before, after] = &self.places;
        Some(match self.order.len() {
            0 => (made, after.clone(), 0),
            left => (made, before.clone(), (self.draining.len() - left) as u64),
        })
    }
}
