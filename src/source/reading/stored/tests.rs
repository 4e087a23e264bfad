//! Stored documents come with their masks, in whatever order they are read.

use std::collections::HashMap;
use std::path::Path;

use futures::TryStreamExt;
use proptest::prelude::*;

use super::*;
use crate::config::{SourceConfig, Task};
use crate::cursor::Tracked;
use crate::document::Document;
use crate::error::{Result, Unit};
use crate::segment::{self, Boundary, SegmentWriter, StoredText, Width};
use crate::shards::{Cut, Manifest, ShardPlace, ShardedFile, seal};
use crate::source::{Lane, Source};

/// How far apart the splits and the documents of a split begin.
const SPLIT: u64 = 10_000;
const APART: u64 = 10;

/// The ids of a document, each with whether it is masked.
type Ids = Vec<(u32, bool)>;

/// What is known of a document: its ids, its mask, and whether its text was rendered.
type Known = (Vec<u32>, Mask, bool);

fn known(ids: &Ids, task: Task) -> Known {
    let mut mask = Mask::default();
    if task == Task::Chat {
        (0..).zip(ids).filter(|(_, (_, is_masked))| *is_masked).for_each(|(at, _)| mask.mask(at..at + 1));
    }
    (ids.iter().map(|(id, _)| *id).collect(), mask, task == Task::Chat)
}

/// Writes shards of one file, and adds what is known of each document, by where it begins.
fn write(directory: &Path, task: Task, splits: &[Vec<Ids>], all: &mut HashMap<(u32, u64), Known>) {
    std::fs::create_dir(directory).expect("a directory");
    let (path, len, cut) = (directory.join("text"), splits.len() as u64 * SPLIT, Cut::Even(SPLIT));
    let file = ShardedFile { path, len, unit: Unit::Byte, etag: None, cut, held: 0, root: 0 };
    let source = SourceConfig { task, ..SourceConfig::text("text") };
    let manifest = Manifest::new("bytes".to_owned(), 257, source, vec![file]);
    let mut writer = SegmentWriter::new(directory, Width::Two, &manifest.identity()).expect("begun");
    for (number, documents) in (0..).zip(splits) {
        for (nth, ids) in (0..).zip(documents) {
            let (ids, mask, is_rendered) = known(ids, task);
            let byte = u64::from(number) * SPLIT + nth * APART;
            let (start, text) = (Boundary { byte, line: nth }, StoredText::Bytes(ids.len() as u32));
            let stored = segment::StoredDocument::without_ids(start, text);
            let stored = segment::StoredDocument { ids: &ids, masked: mask.masked(), digest: byte, ..stored };
            writer.document(stored).expect("written");
            // The directories are read in the order of their names.
            all.insert((u32::from(is_rendered), byte), (ids, mask, is_rendered));
        }
        writer.split(number).expect("written");
    }
    writer.finish().expect("written");
    let place = ShardPlace::Directory(directory.to_owned());
    manifest.create(&place).expect("written");
    seal(&place, &manifest).expect("sealed");
}

fn read(document: &Document) -> Known {
    let (stored, range) = document.stored_ids().expect("it comes with its ids");
    let (mut ids, mut mask) = (Vec::new(), Mask::default());
    stored.append(range.clone(), &mut ids);
    match document.marks() {
        Marks::None => {}
        Marks::Rendered(marks) => mask.append(&marks.mask, range, 0),
        Marks::Lost => panic!("nothing was done to it"),
    }
    (ids, mask, stored.is_rendered())
}

async fn documents(source: &Source, lane: Lane, start: &LaneCursor) -> Result<Vec<Tracked<Document>>> {
    source.lane(lane, start).try_collect().await
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn documents_have_their_masks_in_any_order(
        [texts, chats] in [(); 2].map(|()| prop::collection::vec(
            prop::collection::vec(prop::collection::vec((0_u32..257, any::<bool>()), 1..30), 0..6),
            1..5,
        )),
        times in prop::sample::select(vec![1, 40]),
        shuffle_splits: bool,
        shuffle_global: bool,
        interleave in 1_usize..4,
        resumed: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all = HashMap::new();
        for (name, task, splits) in [("a-texts", Task::Text, texts), ("b-chats", Task::Chat, chats)] {
            let repeat = |documents: Vec<Ids>| vec![documents; times].concat();
            let splits: Vec<Vec<Ids>> = splits.into_iter().map(repeat).collect();
            write(&directory.path().join(name), task, &splits, &mut all);
        }
        let source = SourceConfig::shards(directory.path().display().to_string());
        let lane = Lane { shuffle_splits, shuffle_global, interleave, epochs: Some(2), ..Lane::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (read_all, rest, at) = runtime.block_on(async {
            let source = Source::open(&[source]).await.expect("it opens");
            let read_all = documents(&source, lane, &LaneCursor::default()).await.expect("documents");
            let at = if read_all.is_empty() { 0 } else { resumed.index(read_all.len()) };
            let start = read_all.get(at).map_or_else(LaneCursor::default, |document| document.cursor);
            let rest = documents(&source, lane, &start).await.expect("the rest");
            (read_all, rest, at)
        });
        prop_assert_eq!(read_all.len(), 2 * all.len());
        for Tracked { value: document, .. } in read_all.iter().chain(&rest) {
            let position = document.position();
            prop_assert_eq!(&read(document), &all[&(position.file, position.byte)]);
        }
        let places = |documents: &[Tracked<Document>]| {
            documents.iter().map(|document| document.value.position()).collect::<Vec<_>>()
        };
        prop_assert_eq!(places(&rest), places(&read_all[read_all.len().min(at + 1)..]));
    }
}

#[test]
fn a_step_of_tiny_documents_ends() {
    let each = |ids: usize, notes: usize| LEAST_STEP / (PLACE_IDS + ids + NOTE_IDS * notes);
    for (ids, notes, most) in
        [(0, 0, each(0, 0)), (1, 0, each(1, 0)), (9, 4, each(9, 4)), (LEAST_STEP, 0, 1), (1, LEAST_STEP, 1)]
    {
        let mut rest = StepRoom::new(1);
        let admitted = (0..LEAST_STEP).take_while(|_| rest.admits((ids, notes))).count();
        assert_eq!(admitted, most, "of {ids} ids and {notes} notes");
    }
}
