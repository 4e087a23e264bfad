//! Packing resumes exactly, loses nothing and repeats nothing, whatever the rule and its bounds.

use std::collections::{BTreeMap, HashSet};

use futures::{Stream, TryStreamExt, stream};
use millstream::config::{PackRule, Packing};
use millstream::conformance::{self, Stutter};
use millstream::stage::StageExt;
use millstream::{LaneCursor, Result, Sequence, Tokens, Tracked};
use proptest::prelude::*;

use crate::support::runtime::block_on_here as block_on;

/// Documents of these lengths. No two ids are alike: they count on from one document to the next.
pub(crate) fn tokens(lengths: &[usize]) -> Vec<Tokens> {
    let mut next = 0;
    let ids = lengths.iter().map(|&len| {
        next += len as u32;
        (next - len as u32..next).collect::<Vec<_>>()
    });
    ids.map(|ids| Tokens::new(ids, 10)).collect()
}

/// So many epochs of the documents, as a source would deliver them from `start`.
fn source(
    documents: &[Tokens],
    epochs: usize,
    start: &LaneCursor,
) -> impl Stream<Item = Result<Tracked<Tokens>>> + Unpin + use<> {
    let documents = vec![documents; epochs].concat();
    let from = start.documents as usize;
    stream::iter(
        (from..documents.len())
            .map(move |item| Ok(Tracked::new(documents[item].clone(), LaneCursor::after(item as u64 + 1)))),
    )
}

type Rows = Vec<(Vec<Vec<u32>>, LaneCursor)>;

/// Each row's parts, and the cursor after it.
fn pack(lengths: &[usize], epochs: usize, packing: Packing, start: &LaneCursor) -> Rows {
    let rows = source(&tokens(lengths), epochs, start).pack(packing, start);
    block_on(rows.map_ok(|row| (parts(&row.value), row.cursor)).try_collect()).expect("no errors")
}

fn parts(row: &Sequence) -> Vec<Vec<u32>> {
    row.parts().iter().map(|part| part.ids().to_vec()).collect()
}

/// How often each id is the next one of an input, in rows of `seq_len` inputs.
fn targets<'a>(
    rows: impl IntoIterator<Item = &'a (Vec<Vec<u32>>, LaneCursor)>,
    seq_len: usize,
) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (parts, _) in rows {
        for id in parts.concat().into_iter().skip(1).take(seq_len) {
            *counts.entry(id).or_default() += 1;
        }
    }
    counts
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![6 => 0_usize..12, 1 => 12_usize..60], 0..60)
}

fn packings() -> impl Strategy<Value = Packing> {
    let mode = prop_oneof![Just(PackRule::Concat), Just(PackRule::Pad), Just(PackRule::BestFit)];
    let bound = prop_oneof![Just(None), (1_usize..5).prop_map(Some)];
    (mode, 1_usize..16, 1_usize..6, bound, 1_usize..40).prop_map(
        |(mode, seq_len, ahead, max_segments, window)| Packing {
            ahead,
            max_segments,
            window,
            ..Packing::new(mode, seq_len)
        },
    )
}

const START: fn() -> LaneCursor = LaneCursor::default;

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn it_conforms(lengths in lengths(), epochs in 1_usize..3, packing in packings()) {
        let documents = tokens(&lengths);
        let open = async |start: &LaneCursor| {
            let rows = Stutter::new(source(&documents, epochs, start)).pack(packing, start);
            Ok(rows.map_ok(|row| (parts(&row.value), row.cursor)))
        };
        prop_assert_eq!(block_on(conformance::check(&START(), open, 500)), Ok(()));
    }

    #[test]
    fn every_id_is_a_target_once(lengths in lengths(), packing in packings()) {
        let rows = pack(&lengths, 1, packing, &START());
        let delivered: HashSet<u32> = rows.iter().flat_map(|(parts, _)| parts.concat()).collect();
        let targets = targets(&rows, packing.seq_len);
        let concatenated = packing.mode == PackRule::Concat && packing.max_segments.is_none();
        for document in tokens(&lengths) {
            for (index, id) in document.ids().iter().enumerate() {
                prop_assert!(delivered.contains(id), "{id} is lost");
                let times = targets.get(id).copied().unwrap_or(0);
                let expected = if concatenated { usize::from(*id > 0) } else { 1 };
                let free = index == 0 && !concatenated;
                prop_assert!(times == expected || free && times == 0, "{id} is a target {times} times");
            }
        }
    }

    #[test]
    fn every_input_has_all_its_targets(lengths in lengths(), packing in packings()) {
        let ends: Vec<u32> = tokens(&lengths).iter().filter_map(|document| document.ids().last().copied()).collect();
        let rows = pack(&lengths, 1, packing, &START());
        let begins: HashSet<u32> = rows.iter().map(|(parts, _)| parts[0][0]).collect();
        for (parts, _) in &rows {
            let row = parts.concat();
            let cuts: HashSet<u32> = parts.iter().filter_map(|part| part.last().copied()).collect();
            for (place, &id) in row.iter().enumerate().take(packing.seq_len) {
                // Where best fit cuts off a document's beginning, its last id is an input of the next row.
                if packing.mode == PackRule::BestFit && cuts.contains(&id) && begins.contains(&id) {
                    continue;
                }
                let end = ends[ends.partition_point(|&end| end < id)];
                let follow: Vec<u32> = (id + 1..=end).take(packing.ahead).collect();
                prop_assert_eq!(&row[place + 1..][..follow.len()], &follow[..], "after {}", id);
            }
        }
    }

    #[test]
    fn rows_keep_their_bounds(lengths in lengths(), packing in packings()) {
        let firsts: Vec<u32> = tokens(&lengths).iter().filter_map(|document| document.ids().first().copied()).collect();
        for (parts, _) in pack(&lengths, 1, packing, &START()) {
            prop_assert!(parts.concat().len() <= packing.seq_len + packing.ahead);
            let most = if packing.mode == PackRule::Pad { 1 } else { packing.max_segments.map_or(usize::MAX, usize::from) };
            prop_assert!((1..=most).contains(&parts.len()));
            let documents: HashSet<usize> =
                parts.iter().map(|part| firsts.partition_point(|&first| first <= part[0])).collect();
            prop_assert_eq!(documents.len(), parts.len(), "each document is one part");
        }
    }

    #[test]
    fn concat_cuts_the_concatenation(lengths in lengths(), seq_len in 1_usize..16, ahead in 1_usize..6) {
        let packing = Packing { ahead, ..Packing::new(PackRule::Concat, seq_len) };
        let rows: Vec<_> = pack(&lengths, 1, packing, &START()).iter().map(|(parts, _)| parts.concat()).collect();
        let ids: Vec<u32> = (0..lengths.iter().sum::<usize>() as u32).collect();
        prop_assert_eq!(rows, cut(&ids, &packing));
    }

    #[test]
    fn pad_cuts_each_document(lengths in lengths(), seq_len in 1_usize..16, ahead in 1_usize..6) {
        let packing = Packing { ahead, ..Packing::new(PackRule::Pad, seq_len) };
        let rows: Vec<_> = pack(&lengths, 1, packing, &START()).iter().map(|(parts, _)| parts.concat()).collect();
        let expected: Vec<_> = tokens(&lengths).iter().flat_map(|document| cut(&document.ids(), &packing)).collect();
        prop_assert_eq!(rows, expected);
    }

    #[test]
    fn best_fit_cuts_no_document_that_fits(lengths in lengths(), packing in packings()) {
        let packing = Packing { mode: PackRule::BestFit, ..packing };
        let whole: HashSet<Vec<u32>> =
            pack(&lengths, 1, packing, &START()).into_iter().flat_map(|(parts, _)| parts).collect();
        for document in tokens(&lengths) {
            let fits = (1..=packing.seq_len + 1).contains(&document.len());
            prop_assert!(!fits || whole.contains(&*document.ids()), "{:?} is cut", document.ids());
        }
    }

    #[test]
    fn more_epochs_may_follow_at_any_row(lengths in lengths(), packing in packings()) {
        let rows = pack(&lengths, 1, packing, &START());
        for (index, (_, cursor)) in rows.iter().enumerate() {
            let rest = pack(&lengths, 2, packing, cursor);
            let targets = targets(rows[..=index].iter().chain(&rest), packing.seq_len);
            for document in tokens(&lengths) {
                for id in document.ids().iter().skip(1) {
                    prop_assert_eq!(targets.get(id), Some(&2), "{} of two epochs, after row {}", id, index);
                }
            }
        }
    }
}

/// One document in each epoch. Those of epochs for which `has_ids` is true have some.
fn sparse(has_ids: fn(u64) -> bool) -> impl Stream<Item = Result<Tracked<Tokens>>> + Unpin {
    stream::iter((0_u64..).map(move |epoch| {
        let ids = if has_ids(epoch) { vec![7; 20] } else { Vec::new() };
        let mut cursor = LaneCursor::after(epoch + 1);
        cursor.epoch = epoch;
        Ok(Tracked::new(Tokens::new(ids, 1), cursor))
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn an_endless_stream_without_ids_ends_with_an_error(packing in packings()) {
        let first = block_on(sparse(|_| false).pack(packing, &START()).try_next());
        let said = first.expect_err("no row ever comes").to_string();
        prop_assert!(said.contains("1024 epochs of its lane have no ids"), "{said}");
        // One document in many epochs is enough, which is at most ten rows here.
        let packing = Packing { window: 4, seq_len: packing.seq_len + 1, ..packing };
        let mut rows = sparse(|epoch| epoch % 1000 == 999).pack(packing, &START());
        for _ in 0..21 {
            prop_assert!(block_on(rows.try_next()).expect("no error").is_some());
        }
    }
}

/// The rows of one list of ids, by the definition.
fn cut(ids: &[u32], packing: &Packing) -> Vec<Vec<u32>> {
    let begins = (0..ids.len().max(2) - 1).step_by(packing.seq_len).filter(|_| !ids.is_empty());
    begins.map(|from| ids[from..ids.len().min(from + packing.width())].to_vec()).collect()
}

#[test]
fn best_fit_carries_what_would_leave_rows_underfull() {
    // Windows of long documents and of short ones by turns: each two fill a row, but not of one window.
    let lengths = [[6; 16], [4; 16]].concat().repeat(8);
    let packing = Packing { window: 16, ..Packing::new(PackRule::BestFit, 9) };
    let rows = pack(&lengths, 1, packing, &START());
    let full = rows.iter().filter(|(parts, _)| parts.concat().len() == 10).count();
    assert_eq!((rows.len(), full), (128, 128));
}

#[test]
fn best_fit_draws_the_order_of_a_window() {
    // Every row is of one document.
    let lengths: Vec<usize> = (85..101).collect::<Vec<_>>().repeat(10);
    let packing = Packing { window: 16, ..Packing::new(PackRule::BestFit, 99) };
    let rows = pack(&lengths, 1, packing, &START());
    let sizes: Vec<usize> = rows.iter().map(|(parts, _)| parts.concat().len()).collect();
    let orders: HashSet<&[usize]> = sizes.chunks(16).collect();
    assert_eq!((sizes.len(), orders.len()), (160, 10));
}

#[test]
fn best_fit_delivers_its_first_row_soon() {
    let documents = tokens(&[10; 1000]);
    let mut read = 0;
    let counted = source(&documents, 1, &START()).inspect_ok(|_| read += 1);
    let packing = Packing { window: 1000, ..Packing::new(PackRule::BestFit, 9) };
    let first = block_on(counted.pack(packing, &START()).try_next()).expect("no error");
    assert!(first.is_some());
    assert_eq!(read, 16);
}
