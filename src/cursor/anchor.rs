//! The books of a stage that holds things back.

use super::LaneCursor;

/// The bookkeeping of a stage that holds things back: its anchor, and how much it delivered since.
///
/// It is for stages that deliver items as they read them. One that delivers a whole group when it is read, as
/// the shuffle does, knows the next anchor before the last item is out, and keeps its own books.
///
/// A stage makes one from the cursor that it is to resume at. Whenever it holds nothing it calls
/// [`rebase`](Anchor::rebase) with the cursor of what it read last; for each item that it is about to
/// deliver it calls [`deliver`](Anchor::deliver) and drops the item if that says `None`, because the
/// item was delivered before the interruption.
#[derive(Clone, Debug)]
pub struct Anchor {
    start: LaneCursor,
    at: Option<LaneCursor>,
    delivered: u64,
    replay: u64,
}

impl Anchor {
    /// The bookkeeping of a stage that resumes at `start`; the default cursor begins a stream.
    pub fn resume(start: &LaneCursor) -> Self {
        Self { start: *start, at: None, delivered: 0, replay: 0 }
    }

    /// Learns from the first item's cursor how deep in the chain the stage stands, and gives the anchor.
    pub fn at(&mut self, item: &LaneCursor) -> LaneCursor {
        let (start, replay) = (&self.start, &mut self.replay);
        *self.at.get_or_insert_with(|| {
            *replay = start.skip(item.depth());
            start.upstream(item.depth())
        })
    }

    /// The stage holds nothing now: `upstream` is the cursor of what it read last.
    pub fn rebase(&mut self, upstream: &LaneCursor) {
        self.at(upstream);
        self.at = Some(*upstream);
        self.delivered = 0;
    }

    /// Counts one item, read as late as `item`; its cursor, or `None` if it was delivered before.
    pub fn deliver(&mut self, item: &LaneCursor) -> Option<LaneCursor> {
        let anchor = self.at(item);
        self.delivered += 1;
        if self.replay > 0 {
            self.replay -= 1;
            return None;
        }
        Some(anchor.anchored(self.delivered))
    }
}
