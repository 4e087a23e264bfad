//! Finds the finished splits of shards in the making, and completes the shards when all are there.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;

use super::list::{LIST, ListedSegment, SegmentList};
use super::{Manifest, SegmentPlan, ShardPlace, Shards, parts};
use crate::error::{Error, Result};
use crate::files::File;
use crate::segment::{HEADER, SplitRow, Table, Width, check_header, incomplete, parse_table};

/// How much of the end of a segment is read first, in bytes: most tables are not as long.
const END_BYTES: u64 = 16 << 10;

/// Finds the splits at a place that are not finished. On this machine each segment is opened. In a store, where only
/// whole segments appear, a segment's name is enough until there is a list; then its length must match the list. It
/// blocks.
pub(crate) fn unfinished(place: &ShardPlace, manifest: &Manifest) -> Result<HashSet<u32>> {
    let mut unfinished: HashSet<u32> = (0..manifest.splits() as u32).collect();
    if place.directory().is_some() {
        let shards = Shards::open(place)?;
        unfinished.retain(|split| !shards.splits.contains_key(split));
        return Ok(unfinished);
    }
    let (plan, (files, _)) = (SegmentPlan::new(manifest), place.look()?);
    let listed = listed(place, manifest, &files)?.map(SegmentList::lengths).unwrap_or_default();
    let is_there = |segment: &usize| {
        let name = plan.name(*segment);
        files.get(&name).is_some_and(|file| listed.get(&name).is_none_or(|len| *len == file.len))
    };
    for segment in (0..plan.len()).filter(is_there) {
        for split in plan.splits(segment) {
            unfinished.remove(&split);
        }
    }
    Ok(unfinished)
}

/// The list of the segments, if it is there and complete.
fn listed(
    place: &ShardPlace,
    manifest: &Manifest,
    files: &BTreeMap<String, File>,
) -> Result<Option<SegmentList>> {
    match files.contains_key(LIST) {
        true => SegmentList::find(place, &manifest.identity(), Width::for_vocab(manifest.vocab_size)),
        false => Ok(None),
    }
}

/// Completes shards that have all splits: writes the list of their segments, and removes the files that say which parts
/// were begun. It blocks.
pub(crate) fn seal(place: &ShardPlace, manifest: &Manifest) -> Result<()> {
    let (files, _) = place.look()?;
    match (place.directory(), listed(place, manifest, &files)?) {
        (Some(_), known) => {
            let list = SegmentList::of(&Shards::open(place)?);
            if known.as_ref() != Some(&list) {
                list.write(place)?;
            }
        }
        (None, Some(_)) => {}
        (None, None) => read(place, manifest, &files)?.write(place)?,
    }
    // Another process may have removed them first.
    files
        .keys()
        .filter(|name| parts::marked(OsStr::new(name)).is_some())
        .try_for_each(|name| place.remove(name))
}

/// The list of a store's segments, from their ends.
fn read(place: &ShardPlace, manifest: &Manifest, files: &BTreeMap<String, File>) -> Result<SegmentList> {
    let (plan, width) = (SegmentPlan::new(manifest), Width::for_vocab(manifest.vocab_size));
    let gone = |name: &String| Error::prepare_again(place.of(name).display(), "it is gone");
    let names: Vec<String> = (0..plan.len()).map(|segment| plan.name(segment)).collect();
    let found: Vec<&File> =
        names.iter().map(|name| files.get(name).ok_or_else(|| gone(name))).collect::<Result<_>>()?;
    let mut segments = Vec::new();
    let tables = tables(place, &found, &manifest.identity(), width)?;
    for (number, ((name, file), rows)) in names.into_iter().zip(found).zip(tables).enumerate() {
        if !rows.iter().map(|row| row.split).eq(plan.splits(number).map(u64::from)) {
            return Err(incomplete(file.path(), "it has other splits than its name says"));
        }
        segments.push(ListedSegment::new(name, file.len, &rows));
    }
    Ok(SegmentList::new(&manifest.identity(), segments))
}

/// The tables of segments in a store, from their ends. It blocks.
fn tables(
    place: &ShardPlace,
    files: &[&File],
    identity: &[u8; 32],
    width: Width,
) -> Result<Vec<Vec<SplitRow>>> {
    // Another run may have written them for another source.
    let heads = place.ranges(files.iter().map(|file| (*file, 0..HEADER as u64)))?;
    for (file, head) in files.iter().zip(heads) {
        check_header(&head, identity, file.path())?;
    }
    let end_of = |file: &File, most: u64| file.len.saturating_sub(most)..file.len;
    let ends = place.ranges(files.iter().map(|file| (*file, end_of(file, END_BYTES))))?;
    let table = |(file, mut end): (&&File, Vec<u8>)| {
        let refuse = |what: &str| incomplete(file.path(), what);
        let mut table = parse_table(&end, file.len, width).map_err(refuse)?;
        if let Table::Longer(bytes) = table {
            end = place.ranges([(*file, end_of(file, bytes))])?.concat();
            table = parse_table(&end, file.len, width).map_err(refuse)?;
        }
        match table {
            Table::Rows(rows) => Ok(rows),
            Table::Longer(_) => Err(refuse("its table is wrong")),
        }
    };
    files.iter().zip(ends).map(table).collect()
}
