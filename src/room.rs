//! Room on disk: bounds a cache directory that several processes fill.
//!
//! A process reserves a share of the limit at a time. When the share is used up, the process scans the whole directory
//! and removes the least recently used entries until there is room again. Processes do not communicate, so each of them
//! may exceed the limit by one share.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::threads::lock;

/// A bound on a directory, in one process.
#[derive(Debug)]
pub(crate) struct Room {
    limit: u64,
    share: u64,
    spare: u64,
    /// How many bytes may be written before the next scan of the directory.
    left: Mutex<u64>,
}

/// Something in the directory that can be removed as a whole.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

impl Room {
    /// Allows at most `limit` bytes, of which a process reserves `share` at a time. A scan of the directory leaves
    /// `spare` bytes free.
    pub(crate) fn new(limit: u64, share: u64, spare: u64) -> Self {
        Self { limit, share, spare, left: Mutex::default() }
    }

    /// The most bytes that a scan leaves in the directory.
    pub(crate) fn bound(&self) -> u64 {
        self.limit - self.spare
    }

    /// Makes the next [`take`](Self::take) scan the directory.
    pub(crate) fn forget(&self) {
        *lock(&self.left) = 0;
    }

    /// Reserves `bytes` more, and returns whether there is room. `look` lists the directory's entries. `remove` removes
    /// one of them, unless it is in use.
    pub(crate) fn take(
        &self,
        bytes: u64,
        look: impl FnOnce() -> io::Result<Vec<Held>>,
        remove: impl FnMut(&Held) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let Some(bound) = self.bound().checked_sub(bytes) else { return Ok(false) };
        // One thread at a time scans the directory.
        let mut left = lock(&self.left);
        if *left < bytes {
            let held = make_room(look()?, bound, remove)?;
            *left = self.limit.saturating_sub(held).min(self.share.max(bytes));
        }
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(*left);
        Ok(rest.is_some())
    }
}

/// Removes the least recently used entries until at most `bound` bytes are left, and returns how many bytes are left.
/// `remove` returns whether the entry is gone.
pub(crate) fn make_room(
    mut held: Vec<Held>,
    bound: u64,
    mut remove: impl FnMut(&Held) -> io::Result<bool>,
) -> io::Result<u64> {
    held.sort_unstable_by_key(|held| held.used);
    let mut sum: u64 = held.iter().map(|held| held.bytes).sum();
    for oldest in &held {
        if sum <= bound {
            break;
        }
        if remove(oldest)? {
            sum -= oldest.bytes;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn held(name: u64, bytes: u64) -> Held {
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(name);
        Held { path: name.to_string().into(), bytes, used }
    }

    #[test]
    fn the_oldest_goes_first_and_what_is_in_use_stays() {
        let mut gone = Vec::new();
        let all = vec![held(3, 30), held(1, 10), held(2, 20), held(4, 40)];
        let left = make_room(all, 60, |held| {
            let is_free = held.path.as_os_str() != "2";
            gone.extend(is_free.then(|| held.path.clone()));
            Ok(is_free)
        });
        assert_eq!(left.expect("nothing fails"), 20 + 40);
        assert_eq!(gone, [PathBuf::from("1"), PathBuf::from("3")]);
    }

    proptest! {
        /// However much each write takes, what the directory holds stays within the limit.
        #[test]
        fn what_is_written_stays_within_the_limit(
            limit in 100_u64..10_000,
            writes in prop::collection::vec(1_u64..500, 1..100),
        ) {
            let share = limit / 32;
            let room = Room::new(limit, share, 4 * share);
            let directory = RefCell::new(Vec::new());
            for (name, bytes) in (0..).zip(writes) {
                let look = || Ok(directory.borrow().iter().map(|&(name, bytes)| held(name, bytes)).collect());
                let remove = |gone: &Held| {
                    directory.borrow_mut().retain(|(name, _)| gone.path.as_os_str() != name.to_string().as_str());
                    Ok(true)
                };
                let has_room = room.take(bytes, look, remove).expect("nothing fails");
                prop_assert_eq!(has_room, bytes <= room.bound());
                if has_room {
                    directory.borrow_mut().push((name, bytes));
                }
                let sum: u64 = directory.borrow().iter().map(|(_, bytes)| bytes).sum();
                prop_assert!(sum <= limit, "{sum} of {limit}");
            }
        }
    }
}
