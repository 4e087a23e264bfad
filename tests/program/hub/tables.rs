//! Parquet files on the Hub: how many requests a run over them makes.

use std::collections::BTreeMap;

use super::{STORIES, World};
use crate::hub_server::Request;
use crate::samples;

/// How many files the tables have.
const FILES: usize = 4;

/// A Hub with tables that have so many rows together, ten thousand in a row group.
fn world(rows: u64) -> World {
    let rows: Vec<String> =
        (0..rows).map(|n| format!("{n:x} {:x} {}", n * n * 7919, "word ".repeat(n as usize % 7))).collect();
    let directory = tempfile::tempdir().expect("a directory");
    samples::corpus("parquet", &rows, directory.path());
    let read = |file| std::fs::read(directory.path().join(format!("{file}.parquet"))).expect("a file");
    let files: Vec<(String, Vec<u8>)> =
        (0..FILES).map(|file| (format!("data/{file}.parquet"), read(file))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (&**path, &**bytes)).collect();
    let world = World::new();
    world.hub.commit(STORIES, "main", &files);
    world
}

/// A run over the tables in sixteen lanes, and so many epochs.
fn shuffled(epochs: usize) -> String {
    format!(
        "[[source]]\nkind = \"parquet\"\nfield = \"text\"\npaths = [\"hf://{STORIES}/data/*.parquet\"]\n\
         [tokenizer]\nkind = \"bytes\"\n\
         [pipeline]\nseq_len = 512\nbatch_size = 16\nepochs = {epochs}\nlanes = 16\n"
    )
}

/// How often each range of a file was asked for, by the names of the files on the CDN.
fn ranges(requests: &[Request]) -> BTreeMap<(&str, u64, u64), usize> {
    let mut ranges = BTreeMap::new();
    for request in requests.iter().filter(|request| request.is_cdn) {
        let range = request.headers["range"].strip_prefix("bytes=").and_then(|range| range.split_once('-'));
        let (from, to) = range.expect("a range");
        let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
        *ranges.entry((request.path.as_str(), from, to + 1)).or_default() += 1;
    }
    ranges
}

#[test]
fn an_epoch_asks_for_each_row_group_once() {
    const EPOCHS: usize = 3;
    // Files of one row group, whose last page is near the footer, and of several.
    for (rows, groups, most) in [(20_000, FILES, 2), (240_000, 24, 2)] {
        let world = world(rows);
        world.digest(&shuffled(EPOCHS), &[]);
        let requests = world.hub.requests();
        let ranges = ranges(&requests);
        let (of_rows, of_opening): (Vec<_>, Vec<_>) = ranges.iter().partition(|(_, count)| **count == EPOCHS);
        assert_eq!(of_rows.len(), groups, "{ranges:?}");
        // The footer, and together the first page of a column and its dictionary.
        let opening: usize = of_opening.iter().map(|(_, count)| **count).sum();
        assert!(opening <= most * FILES, "{opening}: {ranges:?}");
    }
}

/// Blocks are shorter than row groups, and splits that are read side by side go back a little.
#[test]
fn an_epoch_asks_for_each_block_once() {
    let world = world(240_000);
    let config = shuffled(1).replace("lanes = 16", "lanes = 2");
    world.digest(&config, &["--set", "store.block=16KiB"]);
    let requests = world.hub.requests();
    let ranges = ranges(&requests);
    let asked: u64 = ranges.iter().map(|((_, from, to), count)| (to - from) * *count as u64).sum();
    let (mut all, mut end) = (0, ("", 0));
    for (file, from, to) in ranges.into_keys() {
        let from = if end.0 == file { from.max(end.1) } else { from };
        all += to.saturating_sub(from);
        end = (file, from.max(to));
    }
    // Of each file also the footer, and the dictionary of a row group.
    assert!(asked <= all + FILES as u64 * (256 << 10), "{asked} bytes were asked for of {all}");
}
