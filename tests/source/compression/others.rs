//! Files as other programs write them: `tests/data/make_compressed.py` says which.

use std::path::PathBuf;

use millstream::LaneCursor;
use millstream::config::SourceConfig;

use crate::corpus::{all, bound, open, run, texts};

const FILES: [&str; 13] = [
    "one.gz", "members.gz", "program.gz", "streams.bz2", "program.bz2", "streams.xz", "program.xz",
    "sized.zst", "sized_parts.zst", "streamed.zst", "seekable.zst", "program.zst", "pzstd.zst",
];

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/compressed", name].iter().collect()
}

/// The file's texts and the number of its splits, which are of about `split` bytes.
fn read(name: &str, split: usize) -> (Vec<String>, usize) {
    run(async {
        let paths = vec![file(name).display().to_string()];
        let config = SourceConfig { paths, split: Some(bound(split)), ..SourceConfig::default() };
        let source = open(&config).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        for index in [0, seen.len() / 2, seen.len() - 1] {
            let rest = all(source.documents(&seen[index].cursor)).await;
            assert_eq!(rest, seen[index + 1..], "{name}, after document {index}");
        }
        (texts(&seen).into_iter().map(str::to_owned).collect(), source.splits())
    })
}

#[test]
fn each_file_is_the_text() {
    let text = std::fs::read_to_string(file("text.txt")).expect("the text");
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    for name in FILES {
        for split in [400, 1 << 20] {
            let (seen, splits) = read(name, split);
            assert_eq!(seen, lines, "{name}");
            let is_cut = split == 400 && ["sized.zst", "sized_parts.zst", "seekable.zst"].contains(&name);
            assert_eq!(splits > 1, is_cut, "{name} has {splits} splits");
        }
    }
}
