//! Masks come back as they were written, wherever the segment is, and damage is found.

use std::cell::RefCell;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::document::ColumnValue;
use crate::segment::{Boundary, SegmentWriter, StoredDocument, StoredText};
use crate::shards::{Piece, ScatteredSums, SegmentRange};
use crate::store::Local;

const IDENTITY: [u8; 32] = [7; 32];

/// The ids of a document, each with whether it is masked.
type Ids = Vec<(u32, bool)>;

fn origin() -> IdsOrigin {
    IdsOrigin { tokenizer: "t".into(), is_rendered: true, columns: ["n".to_owned(), "url".to_owned()].into() }
}

fn mask(ids: &Ids) -> Mask {
    let mut mask = Mask::default();
    (0..).zip(ids).filter(|(_, (_, is_masked))| *is_masked).for_each(|(at, _)| mask.mask(at..at + 1));
    mask
}

fn write(writer: &mut SegmentWriter, start: u64, ids: &[u32], masked: &[Range<usize>]) {
    let document = StoredDocument::without_ids(Boundary::record(start), StoredText::Bytes(1));
    writer.document(StoredDocument { ids, masked, ..document }).expect("written");
}

/// A segment in a directory of its own.
struct Written {
    _directory: TempDir,
    path: PathBuf,
    segment: Arc<Segment>,
}

impl Written {
    fn new(width: Width, splits: impl FnOnce(&mut SegmentWriter)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut writer = SegmentWriter::new(directory.path(), width, &IDENTITY).expect("begun");
        splits(&mut writer);
        let path = writer.finish().expect("written").expect("a split");
        let segment = Arc::new(Segment::open(&path, &IDENTITY, origin()).expect("it opens"));
        Self { _directory: directory, path, segment }
    }

    /// Each split, mapped and as one in a store.
    fn splits(&self) -> Vec<[StoredSplit; 2]> {
        let remote = Arc::new(RemoteSegment { number: 0, path: self.path.clone(), origin: origin() });
        let rows = self.segment.rows().iter().enumerate();
        let both = rows.map(|(number, row)| {
            let mapped = StoredSplit::mapped(self.segment.clone(), number);
            let remote = StoredSplit::remote(remote.clone(), *row, self.segment.width());
            let open =
                |_| -> Result<Arc<dyn Stored>> { Ok(Arc::new(Local::open(&self.path, self.segment.len())?)) };
            [mapped, remote.opened(open).expect("it opens")]
        });
        both.collect()
    }
}

/// Where what is stored of each document lies.
fn stored(split: &StoredSplit) -> Vec<Range<EntryEnd>> {
    let mut end = EntryEnd::default();
    let entries = (0..split.documents()).map(|nth| split.entry(nth).expect("an entry").end);
    entries.map(|next| std::mem::replace(&mut end, next)..next).collect()
}

/// All documents of a split, in order.
fn read(split: &StoredSplit) -> Vec<(Vec<u32>, Mask)> {
    let stored = stored(split);
    let place = |stored: &Range<EntryEnd>| split.place(stored.start.ids..stored.end.ids).expect("ids");
    let places: Vec<Range<usize>> = stored.iter().map(place).collect();
    let all = split.stored_ids(&Lease::none());
    assert!(all.is_rendered() && all.tokenizer() == "t");
    let documents = places.into_iter().zip(&stored).enumerate().map(|(nth, (place, stored))| {
        let mut ids = Vec::new();
        all.append(place, &mut ids);
        (ids, split.notes_on(stored, nth).expect("notes").mask)
    });
    documents.collect()
}

/// The masks of some documents, read in any order.
fn scattered(written: &Written, split: &StoredSplit, order: &[usize]) -> Vec<Mask> {
    let stored = stored(split);
    let at = |nth: usize| split.notes_at(&stored[nth], nth).expect("a place");
    let pieces: Vec<_> = order.iter().map(|&nth| Piece { tokens: split, bytes: at(nth) }).collect();
    let file = std::fs::read(&written.path).expect("read");
    let fetch = |ranges: Vec<SegmentRange>| {
        let bytes = |(_, range): SegmentRange| file[range.start as usize..range.end as usize].to_vec();
        Ok(ranges.into_iter().map(bytes).collect())
    };
    let masks = RefCell::new(Vec::new());
    let each = |number: usize, bytes: &[u8]| {
        let nth = order[number];
        masks.borrow_mut().push(split.notes_in(bytes, &stored[nth], nth, None)?.mask);
        Ok(())
    };
    ScatteredSums::default().read(&pieces, fetch, each).expect("read");
    masks.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn masks_are_read_as_they_were_written(
        splits in prop::collection::vec(
            prop::collection::vec(prop::collection::vec((0_u32..1 << 16, any::<bool>()), 0..20), 0..6),
            1..4,
        ),
        // So many that each part of a split has several blocks.
        times in prop::sample::select(vec![1, 2, 400]),
        is_wide: bool,
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (width, add) = if is_wide { (Width::Four, 1 << 16) } else { (Width::Two, 0) };
        let of_split = |documents: &Vec<Ids>| -> Vec<(Vec<u32>, Mask)> {
            let document = |ids: &Ids| (ids.iter().map(|(id, _)| id + add).collect(), mask(ids));
            documents.iter().map(document).cycle().take(documents.len() * times).collect()
        };
        let splits: Vec<_> = splits.iter().map(of_split).collect();
        let written = Written::new(width, |writer| {
            for (number, documents) in (0..).zip(&splits) {
                for (start, (ids, mask)) in (0..).zip(documents) {
                    write(writer, start, ids, mask.masked());
                    let skipped = StoredDocument::without_ids(Boundary::record(start), StoredText::Skipped);
                    writer.document(skipped).expect("written");
                }
                writer.split(number).expect("written");
            }
        });
        for (both, documents) in written.splits().iter().zip(&splits) {
            let nothing = (Vec::new(), Mask::default());
            let expected: Vec<_> = documents.iter().flat_map(|document| [document, &nothing]).cloned().collect();
            for split in both {
                prop_assert_eq!(&read(split), &expected);
                split.verify().expect("whole");
                if expected.is_empty() {
                    continue;
                }
                let order: Vec<usize> = order.iter().map(|index| index.index(expected.len())).collect();
                let masks: Vec<Mask> = order.iter().map(|&nth| expected[nth].1.clone()).collect();
                prop_assert_eq!(scattered(&written, split, &order), masks);
            }
        }
    }

    #[test]
    fn columns_are_read_as_they_were_written(
        documents in prop::collection::vec((prop::collection::vec(any::<bool>(), 0..6), any::<i64>(), ".{0,40}"), 1..6),
        times in prop::sample::select(vec![1, 2, 400]),
        wants in prop::sample::subsequence(vec!["n", "url"], 0..=2).prop_shuffle(),
    ) {
        let all = origin().columns;
        let documents: Vec<_> = documents.iter().cycle().take(documents.len() * times).collect();
        let of = |masks: &[bool]| mask(&masks.iter().map(|is_masked| (7, *is_masked)).collect());
        let written = Written::new(Width::Two, |writer| {
            for (start, (masks, number, url)) in (0..).zip(&documents) {
                let values = vec![ColumnValue::Integer((*number).into()), ColumnValue::Text(url.as_str().into())];
                let (mask, columns) = (of(masks), Columns::new(&all, values).store());
                let (ids, masked, columns) = (&vec![7; masks.len()][..], mask.masked(), Some(&columns[..]));
                let document = StoredDocument::without_ids(Boundary::record(start), StoredText::Bytes(1));
                writer.document(StoredDocument { ids, masked, columns, ..document }).expect("written");
            }
            writer.split(0).expect("written");
        });
        let wanted: Arc<[String]> = wants.iter().map(|name| (*name).to_owned()).collect();
        for split in written.splits().concat() {
            let split = split.with_columns(Some(wanted.clone()));
            prop_assert_eq!(split.is_masked().expect("read"), documents.iter().any(|(masks, ..)| masks.contains(&true)));
            for (nth, stored) in stored(&split).iter().enumerate() {
                let (masks, number, url) = documents[nth];
                let notes = split.notes_on(stored, nth).expect("notes");
                prop_assert_eq!(notes.mask, of(masks));
                let columns = notes.columns.expect("columns");
                let found: Vec<_> = columns.iter().map(|(name, value)| (name, value.to_string())).collect();
                let value = |name: &str| if name == "n" { number.to_string() } else { url.clone() };
                prop_assert_eq!(found, wants.iter().map(|name| (*name, value(name))).collect::<Vec<_>>());
            }
            let other = split.with_columns(Some(["other".to_owned()].into()));
            prop_assert!(other.notes_on(&stored(&other)[0], 0).is_err());
        }
    }

    #[test]
    fn what_is_read_side_by_side_of_a_split_is_requested_as_one_range_each(
        documents in 0_usize..9000,
        ids in 0_usize..40,
        ranges in 0_usize..3,
    ) {
        let (ids, masked) = (vec![5; 40 + ids], [0..1, 30..32]);
        let written = Written::new(Width::Two, |writer| {
            (0..documents as u64).for_each(|start| write(writer, start, &ids, &masked[..ranges]));
            writer.split(0).expect("written");
        });
        let row = written.segment.rows()[0];
        let (_, planned) = written.splits()[0][1].remote_ranges().expect("it is in a store");
        prop_assert!(planned.iter().all(|range| row.at <= range.start && range.end <= row.end(Width::Two)));
        let parts = [row.at, row.index_at(Width::Two), row.notes_at(Width::Two), row.sums_at(Width::Two)];
        let block = BLOCK as u64;
        for part in parts.windows(2).filter(|part| part[0] < part[1]) {
            // Whole blocks are read.
            let begin = row.at + (part[0] - row.at) / block * block;
            let end = (row.at + (part[1] - row.at).next_multiple_of(block)).min(parts[3]);
            prop_assert!(planned.iter().any(|range| range.start <= begin && end <= range.end), "{part:?} {planned:?}");
        }
        prop_assert!(planned.iter().any(|range| range.start <= parts[3] && range.end == row.end(Width::Two)));
    }

    #[test]
    fn a_damaged_mask_is_found(at: prop::sample::Index, value: u8) {
        let written = Written::new(Width::Two, |writer| {
            (0..99).for_each(|start| write(writer, start, &[5; 9], &[0..2, 7..9]));
            writer.split(0).expect("written");
        });
        let row = written.segment.rows()[0];
        let [begin, end] = [row.notes_at(Width::Two), row.sums_at(Width::Two)].map(|at| at as usize);
        let mut bytes = std::fs::read(&written.path).expect("read");
        let at = begin + at.index(end - begin);
        prop_assume!(bytes[at] != value);
        bytes[at] = value;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("damaged");
        std::fs::write(&path, bytes).expect("written");
        let segment = Arc::new(Segment::open(&path, &IDENTITY, origin()).expect("its table is whole"));
        let damaged = Written { _directory: directory, path, segment };
        for split in damaged.splits().concat() {
            // The index may be in the same block.
            let stored = EntryEnd { ids: 450, notes: 100 }..EntryEnd { ids: 459, notes: 102 };
            let error = split.notes_on(&stored, 50).expect_err("damage").to_string();
            prop_assert!(error.contains("does not have its checksum"), "{error}");
            prop_assert!(split.verify().is_err());
        }
    }
}

#[test]
fn ranges_that_are_not_of_their_document_are_refused() {
    let masks: [&[Range<usize>]; 4] = [&[3..5, 1..2], &[0..3, 2..4], &[1..2, 4..11], &[0..1, 2..2]];
    let written = Written::new(Width::Two, |writer| {
        (0..).zip(masks).for_each(|(start, masked)| write(writer, start, &[5; 10], masked));
        writer.split(0).expect("written");
    });
    for split in written.splits().concat() {
        split.verify().expect("its blocks are as they were written");
        for (nth, stored) in stored(&split).iter().enumerate() {
            let error = split.notes_on(stored, nth).expect_err("no ranges of it").to_string();
            let expected = format!("what is stored of document {nth} of a split beside its ids is wrong");
            assert!(error.contains(&expected), "{error}");
            assert!(error.contains(&written.path.display().to_string()), "{error}");
        }
        let beyond = EntryEnd { ids: 40, notes: 8 }..EntryEnd { ids: 40, notes: 9 };
        assert!(
            split.notes_on(&beyond, 4).is_err() && split.notes_at(&(beyond.end..beyond.start), 4).is_err()
        );
    }
}

#[test]
fn texts_without_masks_have_no_more_bytes() {
    let ids = vec![5; 100];
    let written = Written::new(Width::Two, |writer| {
        (0..50).for_each(|start| write(writer, start, &ids, &[]));
        writer.split(0).expect("written");
    });
    let row = written.segment.rows()[0];
    assert_eq!((row.notes, row.notes_at(Width::Two)), (0, row.sums_at(Width::Two)));
    assert_eq!(row.sums_at(Width::Two) - row.at, 50 * (2 * 100 + 48));
    assert_eq!(Entry::BYTES, 48);
}

#[test]
fn a_split_that_is_given_up_leaves_no_mask_behind() {
    let written = Written::new(Width::Two, |writer| {
        write(writer, 0, &[1, 2, 3], &[0..1, 2..3]);
        writer.give_up().expect("given up");
        write(writer, 0, &[4, 5], &[]);
        writer.split(0).expect("written");
    });
    for split in written.splits().concat() {
        assert_eq!(read(&split), [(vec![4, 5], Mask::default())]);
        assert_eq!(split.notes(), 0);
    }
}
