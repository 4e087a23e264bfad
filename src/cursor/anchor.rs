//! Bookkeeping for stages that buffer.

use super::LaneCursor;

/// The bookkeeping of a stage that buffers: its anchor, and how much it has delivered since.
///
/// Use it in stages that deliver items as they read them. A stage that reads a whole group and then delivers
/// it, as the shuffle does, knows its next anchor before the last item is out, and keeps its own counts.
///
/// A stage makes an `Anchor` from the cursor that it resumes at. Whenever the stage holds nothing, it calls
/// [`rebase`](Anchor::rebase) with the cursor of the last item that it read. Before it delivers an item, it calls
/// [`deliver`](Anchor::deliver). If that returns `None`, the item was delivered before the interruption, and the stage
/// drops it.
#[derive(Clone, Debug)]
pub struct Anchor {
    start: LaneCursor,
    at: Option<LaneCursor>,
    delivered: u64,
    replay: u64,
}

impl Anchor {
    /// Makes the bookkeeping of a stage that resumes at `start`. The default cursor begins a stream.
    pub fn resume(start: &LaneCursor) -> Self {
        Self { start: *start, at: None, delivered: 0, replay: 0 }
    }

    /// Returns the anchor. The first call learns from the item's cursor how deep in the chain the stage is.
    pub fn at(&mut self, item: &LaneCursor) -> LaneCursor {
        let (start, replay) = (&self.start, &mut self.replay);
        *self.at.get_or_insert_with(|| {
            *replay = start.skip(item.depth());
            start.upstream(item.depth())
        })
    }

    /// Notes that the stage holds nothing now. `upstream` is the cursor of the last item that it read.
    pub fn rebase(&mut self, upstream: &LaneCursor) {
        self.at(upstream);
        self.at = Some(*upstream);
        self.delivered = 0;
    }

    /// Counts one item, for which the stage has read as far as `item`. Returns the item's cursor, or `None`
    /// if it was delivered before the interruption.
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
