//! One lane's turns in, the same turns out, copied and several at a time.
//!
//! The ids are copied here, out of their documents and into one block for several turns, and each row is hashed. So
//! this work, and that of the stages before it, is the lane's own; what is left for the batches is a `memcpy`.
//!
//! A block ends when it has enough ids, when it has taken long enough, or when the lane would wait. The first blocks are
//! short, so that no lane keeps the workers from another lane's first row. Where a lane fails, the rows before come first.
//! Held in memory: one block.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::Stream;

use super::input::poll_caught;
use super::turn::{DealtRows, DealtTurn, Turn};
use crate::batch::RowBlock;
use crate::cursor::LaneStep;
use crate::error::{Error, Result};
use crate::meter::{Meter, Sample};

/// For how long rows are gathered: whoever waits for them gets the first ones within this time. It is checked when a
/// turn is copied.
const TOGETHER: Duration = Duration::from_micros(200);

#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub(crate) struct CopyRows<S> {
    /// `None` once the lane has ended.
    turns: Option<S>,
    ahead: usize,
    /// How many ids fill this block, and any block.
    enough: usize,
    most_ids: usize,
    block: RowBlock,
    copied: Vec<CopiedTurn>,
    error: Option<Error>,
    meter: Arc<Meter>,
    sample: Sample,
}

/// A turn whose rows are in the block.
#[derive(Debug)]
struct CopiedTurn {
    rows: Range<usize>,
    step: LaneStep,
    is_own: bool,
}

impl<S> CopyRows<S>
where
    S: Stream<Item = Result<Turn>>,
{
    /// Copies `turns` for batches that have targets so many ids `ahead`. A block of `most_ids` takes no further turn.
    /// The time that copying takes is counted in `meter`.
    pub(crate) fn new(turns: S, ahead: usize, most_ids: usize, meter: Arc<Meter>) -> Self {
        Self {
            turns: Some(turns),
            ahead,
            enough: 0,
            most_ids,
            block: RowBlock::default(),
            copied: Vec::new(),
            error: None,
            meter,
            sample: Sample::seventh(),
        }
    }
}

impl<S> CopyRows<S> {
    fn copy(&mut self, Turn { rows, step, is_own }: Turn) {
        let first = self.block.rows();
        for row in rows.as_slice() {
            let began = self.sample.begin();
            self.block.push(row, self.ahead);
            self.meter.add_sample(began);
        }
        self.copied.push(CopiedTurn { rows: first..self.block.rows(), step, is_own });
    }

    /// The turns that are copied, with their rows.
    fn take(&mut self) -> Vec<DealtTurn> {
        self.enough = self.enough.max(2 * self.block.ids()).min(self.most_ids);
        let block = Arc::new(self.block.take());
        let dealt = |CopiedTurn { rows, step, is_own }| DealtTurn {
            rows: DealtRows::Copied(block.clone(), rows),
            step,
            is_own,
        };
        self.copied.drain(..).map(dealt).collect()
    }
}

impl<S> Stream for CopyRows<S>
where
    S: Stream<Item = Result<Turn>> + Unpin,
{
    type Item = Result<Vec<DealtTurn>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let began = Instant::now();
        while let Some(turns) = &mut this.turns {
            match poll_caught(Pin::new(turns), cx) {
                Poll::Ready(Some(Ok(turn))) => {
                    this.copy(turn);
                    if this.block.ids() >= this.enough || began.elapsed() >= TOGETHER {
                        break;
                    }
                }
                Poll::Ready(Some(Err(error))) => (this.turns, this.error) = (None, Some(error)),
                Poll::Ready(None) => this.turns = None,
                Poll::Pending if this.copied.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if !this.copied.is_empty() {
            return Poll::Ready(Some(Ok(this.take())));
        }
        Poll::Ready(this.error.take().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::{TryStreamExt, stream};

    use super::super::turn::Rows;
    use super::*;
    use crate::cursor::LaneCursor;
    use crate::document::{Part, Sequence, Tokens};

    const WIDTH: usize = 20;

    fn row() -> Sequence {
        Sequence::new(vec![Part::new(&Tokens::new((0..10).collect(), 9), 0..10)], WIDTH)
    }

    #[test]
    fn blocks_grow_from_the_first_row_on() {
        let turn = |number| {
            let step = LaneStep::Row { source: 0, at: LaneCursor::after(number), wrapped_after: None };
            Ok(Turn { rows: Rows::One(row()), step, is_own: true })
        };
        let turns = stream::iter((0..64).map(turn));
        let blocks = CopyRows::new(turns, 1, 160, Meter::new("batch"));
        let blocks: Vec<Vec<DealtTurn>> = block_on(blocks.try_collect()).expect("no error");
        assert_eq!(blocks[0].len(), 1);
        // Where the machine is busy, time ends some of them.
        assert!(blocks.len() < 64 && blocks.iter().all(|block| block.len() <= 16), "{}", blocks.len());
    }
}
