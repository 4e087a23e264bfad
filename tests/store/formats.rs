//! Tables, shards and compressed files on a server: read as those on disk are, and ahead of need.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, SourceConfig, SourceKind};
use millstream::{Budget, LaneCursor, Source};

use super::corpus::{block_on, hasty, lines, open_source, serve};
use crate::packed::Packing;
use crate::samples;
use crate::support::server::{Content, Request, Server};
use crate::support::wait::ends;

/// What is read, and how.
struct Case {
    files: Vec<(String, Vec<u8>)>,
    config: SourceConfig,
}

impl Case {
    /// The same documents in files of this format, each of several splits.
    fn new(format: &str) -> Self {
        let documents: Vec<String> = (0..60_000_u64)
            .map(|n| format!("{n}: {} {:x}", "word ".repeat((n * 7 % 5) as usize), n * n))
            .collect();
        let directory = tempfile::tempdir().expect("a directory");
        if format == "zst" {
            let text = documents.iter().map(|document| format!("{document}\n")).collect::<String>();
            for (nth, part) in [text.as_bytes(), &text.as_bytes()[..text.len() / 2]].iter().enumerate() {
                let packed = Packing::Seekable { checks: true }.pack(part, &[7000, 21_000]);
                std::fs::write(directory.path().join(format!("{nth}.zst")), packed.bytes).expect("written");
            }
        } else {
            samples::corpus(format, &documents, directory.path());
        }
        let read = |path: &Path| std::fs::read(path).expect("a file");
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory.path())
            .expect("a directory")
            .map(|entry| entry.expect("a file").path())
            .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), read(&path)))
            .collect();
        files.sort();
        let (kind, field) = match format {
            "parquet" => (SourceKind::Parquet, Some("text".to_owned())),
            "arrow" => (SourceKind::Arrow, Some("text".to_owned())),
            "mds" => (SourceKind::Mds, Some("text".to_owned())),
            _ => (SourceKind::Text, None),
        };
        let split = ByteCount(if format == "zst" { 150_000 } else { 20_000 });
        Self { files, config: SourceConfig { kind, field, split: Some(split), ..lines(Vec::new()) } }
    }

    fn at(&self, path: impl Fn(&str) -> String) -> SourceConfig {
        SourceConfig { paths: self.files.iter().map(|(name, _)| path(name)).collect(), ..self.config.clone() }
    }

    /// All documents of the files on disk.
    fn expected(&self) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        super::corpus::write(directory.path(), &self.files);
        let config = self.at(|name| directory.path().join(name).display().to_string());
        texts(&block_on(open_source(&config, &hasty())).expect("it opens"), &LaneCursor::default())
    }

    fn open(&self, server: &Server) -> Source {
        block_on(open_source(&self.at(|name| server.url(name)), &hasty())).expect("it opens")
    }

    fn len(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

fn texts(source: &Source, at: &LaneCursor) -> Vec<String> {
    let documents = source.documents(at).map_ok(|document| document.value.text().to_owned());
    block_on(ends(documents.try_collect())).expect("no error")
}

/// What was asked for since this was asked last: places in files.
fn asked(server: &Server) -> Vec<(String, std::ops::Range<u64>)> {
    let range = |request: &Request| {
        let (from, to) = request.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((request.path.clone(), from.parse().ok()?..to.parse::<u64>().ok()? + 1))
    };
    server.requests().iter().filter_map(range).collect()
}

fn bytes(asked: &[(String, std::ops::Range<u64>)]) -> u64 {
    asked.iter().map(|(_, range)| range.end - range.start).sum()
}

#[test]
fn row_groups_are_read_ahead() {
    is_read_ahead("parquet");
}

#[test]
fn record_batches_are_read_ahead() {
    is_read_ahead("arrow");
}

#[test]
fn shards_are_read_ahead() {
    is_read_ahead("mds");
}

#[test]
fn frames_are_read_ahead() {
    is_read_ahead("zst");
}

/// Many requests are under way together, nothing is asked for twice, and what comes is what is on disk.
fn is_read_ahead(format: &str) {
    let case = Case::new(format);
    let expected = case.expected();
    let server = serve(&case.files);
    let source = case.open(&server);
    server.requests();
    server.await_requests(12);
    assert!(texts(&source, &LaneCursor::default()) == expected, "{format}");
    assert!(server.most_under_way() >= 12, "{format}");
    let asked = bytes(&asked(&server));
    // How far frames are read beyond a split is known about.
    let slack = if format == "zst" { case.len() / 2 } else { 0 };
    assert!(asked <= case.len() + slack, "{format}: {asked} bytes were asked for of {}", case.len());
}

/// All splits of a shard are read with one look at its head.
#[test]
fn the_head_of_a_shard_is_asked_for_once() {
    let case = Case::new("mds");
    let server = serve(&case.files);
    let source = case.open(&server);
    assert!(source.splits() > 3 * case.files.len());
    assert_eq!(texts(&source, &LaneCursor::default()).len(), 60_000);
    let mut heads: Vec<String> =
        asked(&server).into_iter().filter(|(_, range)| range.start < 16).map(|(path, _)| path).collect();
    heads.sort();
    // The first of them is how the server says how long the file is.
    let twice = case.files.iter().flat_map(|(name, _)| [name, name]);
    assert!(
        heads.iter().map(|path| path.rsplit('/').next()).eq(twice.map(|name| Some(&**name))),
        "{heads:?}"
    );
}

#[test]
fn little_room_and_a_start_in_the_middle_change_nothing() {
    for format in ["parquet", "arrow", "mds", "zst"] {
        let case = Case::new(format);
        let expected = case.expected();
        let server = serve(&case.files);
        let source = case.open(&server);
        for kib in [150, 600] {
            let budget = Budget::new(kib << 10);
            let source = source.clone().with_budget(budget.clone());
            assert!(texts(&source, &LaneCursor::default()) == expected, "{format} in {kib} KiB");
            assert!(format == "parquet" || budget.peak() <= kib << 10, "{format}: {} bytes", budget.peak());
        }
        let middle = expected.len() / 3;
        let mut before = source.documents(&LaneCursor::default()).take(middle);
        let at = block_on(async {
            let mut at = LaneCursor::default();
            while let Some(document) = before.try_next().await.expect("no error") {
                at = document.cursor;
            }
            at
        });
        assert!(texts(&source, &at) == expected[middle..], "{format}");
    }
}

#[test]
fn of_a_table_only_the_wanted_columns_are_asked_for() {
    let case = Case::new("parquet");
    let server = serve(&case.files);
    let source = |field: &str, filter: Option<&str>| {
        let mut config = case.at(|name| server.url(name));
        (config.field, config.filter) = (Some(field.to_owned()), filter.map(str::to_owned));
        let source = block_on(open_source(&config, &hasty())).expect("it opens");
        server.requests();
        source
    };
    let lang = source("lang", None);
    assert_eq!(texts(&lang, &LaneCursor::default()).len(), 60_000);
    let few = bytes(&asked(&server));
    assert!(few < case.len() / 10, "{few} bytes were asked for of {}", case.len());
    let both = source("text", Some("lang = 'rust'"));
    assert_eq!(texts(&both, &LaneCursor::default()).len(), 60_000);
    let all = bytes(&asked(&server));
    assert!(all <= case.len(), "{all} bytes were asked for of {}", case.len());
}

#[test]
fn a_table_that_changes_after_its_footer_was_read_is_an_error() {
    let case = Case::new("parquet");
    let server = serve(&case.files);
    let source = case.open(&server);
    for (name, bytes) in &case.files {
        server.set(name, Content::new(bytes.clone()).version("two"));
    }
    let read = source.documents(&LaneCursor::default()).try_for_each(async |_| Ok(()));
    let error = block_on(ends(read)).expect_err("an error").to_string();
    assert!(error.contains(" has changed since the corpus was opened: "), "{error}");
}
