//! What a batch says about its rows, against a slow and simple reading of them.

use millstream::batch::BatchBuilder;
use millstream::document::{Mask, Part};
use millstream::{Batch, Cursor, Sequence, Tokens};
use proptest::prelude::*;

const PAD: u32 = 999;

/// Rows by the lengths of their documents' runs, each of which begins `offset` ids into its document. Which of a document's
/// ids are learned from, one bit each.
#[derive(Clone, Debug)]
struct Rows {
    seq_len: usize,
    ahead: usize,
    /// For each row, each run's length, offset and mask.
    runs: Vec<Vec<(usize, usize, u8)>>,
}

fn rows() -> impl Strategy<Value = Rows> {
    (1usize..12, 1usize..4).prop_flat_map(|(seq_len, ahead)| {
        let width = seq_len + ahead;
        let mask = prop_oneof![Just(u8::MAX), any::<u8>()];
        let row = prop::collection::vec((0usize..6, 0usize..3, mask), 0..6).prop_map(move |mut runs| {
            let mut left = width;
            for (len, ..) in &mut runs {
                *len = (*len).min(left);
                left -= *len;
            }
            runs
        });
        prop::collection::vec(row, 0..6).prop_map(move |runs| Rows { seq_len, ahead, runs })
    })
}

/// One id of a row: itself, its segment and its place in it, and whether it is learned from.
type Id = (u32, u32, u32, bool);

impl Rows {
    fn width(&self) -> usize {
        self.seq_len + self.ahead
    }

    /// Documents whose ids have two bytes of text each.
    fn batch(&self) -> Batch {
        let ahead = self.ahead;
        let mut builder = BatchBuilder::new(self.runs.len(), PAD).with_ahead(ahead);
        for (row, runs) in self.runs.iter().enumerate() {
            let parts = runs.iter().enumerate().map(|(run, &(len, offset, mask))| {
                let ids: Vec<u32> = (0..offset + len).map(|at| id(row, run, at)).collect();
                let learned = (0..ids.len()).filter(|at| is_learned(mask, *at)).map(|at| at..at + 1);
                let mask = Mask::learning(learned, ids.len());
                let tokens = Tokens::new(ids, 2 * (offset + len)).with_mask(mask);
                Part::new(&tokens, offset..offset + len)
            });
            builder.push(&Sequence::new(parts.collect(), self.width()));
        }
        builder.finish(Cursor::default())
    }

    /// Each row's ids, padding aside, one by one.
    fn ids(&self) -> Vec<Vec<Id>> {
        let row = |(row, runs): (usize, &Vec<(usize, usize, u8)>)| {
            let (mut ids, mut segment) = (Vec::new(), 0);
            for (run, &(len, offset, mask)) in runs.iter().enumerate() {
                segment += u32::from(len > 0);
                ids.extend((0..len).map(|at| {
                    (id(row, run, offset + at), segment, at as u32, is_learned(mask, offset + at))
                }));
            }
            ids
        };
        self.runs.iter().enumerate().map(row).collect()
    }
}

fn is_learned(mask: u8, at: usize) -> bool {
    mask >> at & 1 == 1
}

fn id(row: usize, run: usize, at: usize) -> u32 {
    (100 * row + 10 * run + at) as u32
}

proptest! {
    #[test]
    fn every_id_has_its_segment_and_its_place_in_it(rows in rows()) {
        let batch = rows.batch();
        let padded = |of: fn(&Id) -> u32, pad: u32| -> Vec<u32> {
            let row = |ids: Vec<Id>| {
                let mut row: Vec<u32> = ids.iter().map(of).collect();
                row.resize(rows.width(), pad);
                row
            };
            rows.ids().into_iter().flat_map(row).collect()
        };
        prop_assert_eq!(batch.ids(), padded(|id| id.0, PAD));
        prop_assert_eq!(batch.segment_ids(), padded(|id| id.1, 0));
        prop_assert_eq!(batch.position_ids(), padded(|id| id.2, 0));
        let lengths: Vec<u32> = rows.ids().iter().map(|ids| ids.len() as u32).collect();
        prop_assert_eq!(batch.lengths(), lengths);
        prop_assert!(batch.pieces().iter().all(|piece| piece.from < piece.to));
    }

    #[test]
    fn cumulative_lengths_are_the_segments_of_the_inputs(rows in rows()) {
        let batch = rows.batch();
        let (segments, seq_len, width) = (batch.segment_ids(), rows.seq_len, rows.width());
        let inputs: Vec<(usize, u32)> = (0..batch.rows())
            .flat_map(|row| (0..seq_len).map(move |at| (row, row * width + at)))
            .map(|(row, at)| (row, segments[at]))
            .collect();
        let lengths: Vec<usize> = inputs.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
        let mut expected = vec![0];
        expected.extend(lengths.iter().scan(0, |end, length| {
            *end += *length as i32;
            Some(*end)
        }));
        prop_assert_eq!(batch.cu_seqlens(), (expected, lengths.iter().copied().max().unwrap_or(0)));
    }

    #[test]
    fn a_target_lies_ahead_in_the_same_document(rows in rows()) {
        let batch = rows.batch();
        for ahead in 1..=rows.ahead {
            let targets = batch.targets(ahead);
            let expected = |ids: Vec<Id>| {
                (0..rows.seq_len).map(move |at| match (ids.get(at), ids.get(at + ahead)) {
                    (Some(input), Some(target)) => (target.0, input.1 == target.1 && target.3),
                    _ => (PAD, false),
                })
            };
            let expected: (Vec<u32>, Vec<bool>) = rows.ids().into_iter().flat_map(expected).unzip();
            prop_assert_eq!(&targets.ids, &expected.0);
            prop_assert_eq!(&targets.mask, &expected.1);
            if ahead == 1 {
                prop_assert_eq!(batch.loss_mask(), targets.mask);
            }
        }
    }

    #[test]
    fn counts_are_of_the_targets_one_id_ahead(rows in rows()) {
        let batch = rows.batch();
        let count = |ids: &Vec<Id>| ids.iter().skip(1).take(rows.seq_len).filter(|id| id.3).count();
        let targets: usize = rows.ids().iter().map(count).sum();
        prop_assert_eq!(batch.tokens(), targets);
        prop_assert_eq!(batch.text_bytes(), 2 * targets as u64);
        let within = batch.loss_mask().into_iter().filter(|&counts| counts).count();
        prop_assert_eq!(batch.targets_within_documents().map(|(_, ids)| ids.len()).sum::<usize>(), within);
        prop_assert_eq!(batch.text_bytes_within_documents(), 2 * within as u64);
        prop_assert_eq!(batch.rows(), rows.runs.len());
        prop_assert_eq!(batch.ahead(), rows.ahead);
        if batch.rows() > 0 {
            prop_assert_eq!((batch.width(), batch.seq_len()), (rows.width(), rows.seq_len));
        }
        let masked = batch.masked().flat_map(|(row, places)| places.map(move |place| (row, place)));
        let expected = rows.ids().into_iter().enumerate().flat_map(|(row, ids)| {
            ids.into_iter().enumerate().filter(|(_, id)| !id.3).map(move |(place, _)| (row, place)).collect::<Vec<_>>()
        });
        prop_assert_eq!(masked.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let padded = rows.ids().iter().any(|ids| ids.len() < rows.width());
        prop_assert_eq!(batch.is_padded(), padded);
        prop_assert_eq!(batch.digest(), rows.batch().digest());
    }

    #[test]
    fn rows_of_plain_ids_are_one_document_each(count in 0usize..4, width in 1usize..6) {
        let batch = Batch::from_ids((0..(count * width) as u32).collect(), width);
        prop_assert_eq!(batch.segment_ids(), vec![1; count * width]);
        let starts: Vec<i32> = (0..=count).map(|row| (row * (width - 1)) as i32).collect();
        let rows_alone = if width == 1 { vec![0] } else { starts };
        prop_assert_eq!(batch.cu_seqlens(), (rows_alone, if count == 0 { 0 } else { width - 1 }));
        prop_assert_eq!(batch.loss_mask(), vec![true; count * (width - 1)]);
        prop_assert_eq!(batch.tokens(), count * (width - 1));
        prop_assert!(batch.pieces().iter().all(|piece| batch.path(piece).as_os_str().is_empty()));
    }
}

#[test]
#[should_panic(expected = "1 to 2 ids ahead, not 3")]
fn targets_beyond_a_row_are_refused() {
    let rows = Rows { seq_len: 4, ahead: 2, runs: vec![vec![(3, 0, 0)]] };
    rows.batch().targets(3);
}

#[test]
fn a_builder_keeps_its_overlap_from_batch_to_batch() {
    let mut builder = BatchBuilder::new(1, PAD).with_ahead(3);
    for _ in 0..2 {
        builder.push(&Sequence::new(Vec::new(), 8));
        let batch = builder.finish(Cursor::default());
        assert_eq!((batch.ahead(), batch.seq_len(), batch.tokens()), (3, 5, 0));
        assert_eq!(batch.lengths(), [0]);
    }
}
