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
    use std::collections::VecDeque;

    use futures::executor::block_on;
    use futures::{StreamExt, TryStreamExt, stream};
    use proptest::prelude::*;

    use super::super::turn::Rows;
    use super::*;
    use crate::batch::BatchBuilder;
    use crate::cursor::{Cursor, Digest, LaneCursor};
    use crate::document::{Mask, Part, Sequence, Tokens};

    const WIDTH: usize = 20;

    /// A row of runs of these lengths, each the end of a document of one id more. Every second document is learned from
    /// only in part.
    fn row(lengths: &[usize]) -> Sequence {
        let part = |(nth, len): (usize, &usize)| {
            let ids = (0..=*len).map(|id| (100 * nth + id) as u32).collect();
            let learned = (nth % 2 == 1).then_some(len / 2..len.div_ceil(2));
            let mask = learned.map_or_else(Mask::default, |learned| Mask::learning(Some(learned), len + 1));
            Part::new(&Tokens::new(ids, 3 * len + 1).with_mask(mask), 1..len + 1)
        };
        Sequence::new(lengths.iter().enumerate().map(part).collect(), WIDTH)
    }

    fn turn(number: usize, mut rows: Vec<Sequence>) -> Turn {
        let step = LaneStep::Row { source: 0, at: LaneCursor::after(number as u64), has_wrapped: false };
        let rows = if rows.len() == 1 { Rows::One(rows.remove(0)) } else { Rows::Many(rows) };
        Turn { rows, step, is_own: true }
    }

    /// A lane that waits before some of its turns.
    fn lane(turns: Vec<(Turn, bool)>) -> impl Stream<Item = Result<Turn>> + Unpin {
        let (mut turns, mut has_waited) = (VecDeque::from(turns), false);
        stream::poll_fn(move |cx| {
            if !has_waited && turns.front().is_some_and(|(_, waits)| *waits) {
                has_waited = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            has_waited = false;
            Poll::Ready(turns.pop_front().map(|(turn, _)| Ok(turn)))
        })
    }

    proptest! {
        #[test]
        fn copied_rows_make_the_same_batch_as_the_rows_themselves(
            turns in prop::collection::vec(
                (prop::collection::vec(prop::collection::vec(0_usize..6, 0..4), 1..4), any::<bool>()), 1..20,
            ),
            ahead in 1_usize..4,
            most_ids in 0_usize..60,
        ) {
            let builder = || BatchBuilder::new(1, 9).with_ahead(ahead);
            let (mut straight, mut copied) = (builder(), builder());
            let turns = turns.into_iter().enumerate().map(|(number, (rows, waits))| {
                let rows: Vec<Sequence> = rows.iter().map(|lengths| row(lengths)).collect();
                rows.iter().for_each(|row| straight.push(row));
                (turn(number, rows), waits)
            });
            let turns = lane(turns.collect());
            let blocks = CopyRows::new(turns, ahead, most_ids, Meter::new("batch"));
            let blocks: Vec<Vec<DealtTurn>> = block_on(blocks.try_collect()).expect("no error");
            let (mut hashes, mut shapes, mut number) = (Vec::new(), Vec::new(), 0);
            for block in blocks {
                let mut shape = Vec::new();
                for DealtTurn { rows, step, .. } in block {
                    let is_next = matches!(step, LaneStep::Row { at, .. } if at.documents == number);
                    prop_assert!(is_next);
                    number += 1;
                    let DealtRows::Copied(block, rows) = rows else { panic!("they are not copied") };
                    shape.push(rows.len());
                    hashes.extend(rows.map(|nth| copied.append(&block, nth).0));
                }
                shapes.push(shape);
            }
            let [straight, copied] = [straight, copied].map(|mut builder| builder.finish(Cursor::default()));
            prop_assert_eq!(copied.ids(), straight.ids());
            prop_assert_eq!(copied.lengths(), straight.lengths());
            prop_assert_eq!(copied.pieces(), straight.pieces());
            prop_assert!(copied.masked().eq(straight.masked()));
            prop_assert_eq!(copied.text_bytes(), straight.text_bytes());
            prop_assert_eq!(copied.text_bytes_within_documents(), straight.text_bytes_within_documents());
            let hash = |row: usize| {
                let masked = copied.masked().filter(|(of, _)| *of == row);
                Digest::of_row(&copied.row(row)[..copied.lengths()[row] as usize])
                    .masking(masked.map(|(_, places)| places.start as u32..places.end as u32))
            };
            prop_assert_eq!(hashes, (0..copied.rows()).map(hash).collect::<Vec<_>>());
            // A block that has enough takes no further turn.
            let mut lengths = copied.lengths().iter();
            for shape in shapes {
                let (last, before) = shape.split_last().expect("a block has a turn");
                let ids: u32 = lengths.by_ref().take(before.iter().sum()).sum();
                prop_assert!(before.is_empty() || (ids as usize) < most_ids, "{} ids and more", ids);
                lengths.by_ref().take(*last).for_each(drop);
            }
        }
    }

    #[test]
    fn blocks_grow_from_the_first_row_on() {
        let turns = (0..64).map(|number| (turn(number, vec![row(&[10])]), false)).collect();
        let blocks = CopyRows::new(lane(turns), 1, 160, Meter::new("batch"));
        let blocks: Vec<Vec<DealtTurn>> = block_on(blocks.try_collect()).expect("no error");
        assert_eq!(blocks[0].len(), 1);
        // Where the machine is busy, time ends some of them.
        assert!(blocks.len() < 64 && blocks.iter().all(|block| block.len() <= 16), "{}", blocks.len());
    }

    #[test]
    fn rows_before_an_error_or_a_panic_come_first() {
        for panics in [false, true] {
            let turns = stream::iter(0..4).map(move |number| match number {
                3 if panics => panic!("a defect"),
                3 => Err(Error::config("x", "broken")),
                _ => Ok(turn(number, vec![row(&[2])])),
            });
            let blocks = CopyRows::new(turns, 1, 1000, Meter::new("batch"));
            let mut blocks: Vec<Result<Vec<DealtTurn>>> = block_on(blocks.collect());
            match blocks.pop() {
                Some(Err(Error::Panic { stage: "pipeline", message })) if panics => {
                    assert_eq!(message, "a defect");
                }
                Some(Err(Error::Config { .. })) if !panics => {}
                end => panic!("not the error: {end:?}"),
            }
            let rows: usize = blocks.iter().map(|block| block.as_ref().expect("no error").len()).sum();
            assert_eq!(rows, 3);
        }
    }
}
