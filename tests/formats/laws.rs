//! What other programs wrote is delivered, in order, once, and from every cursor on.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use millstream::LaneCursor;
use millstream::config::{ByteCount, SourceConfig, SourceKind};
use millstream::source::Lane;

use crate::rows::{FILES, TABLES, config, directory, drain, open, run, texts, texts_of, wanted, written};

#[test]
fn every_file_has_the_texts_that_were_written() {
    for file in FILES {
        assert_eq!(texts(&config(file)).as_deref(), Ok(&wanted(file)[..]), "{file}");
    }
}

#[test]
fn every_cursor_resumes_exactly_whatever_is_read_at_once() {
    for file in FILES {
        run(async {
            let source =
                open(&SourceConfig { split: ByteCount(1500), ..config(file) }).await.expect("it opens");
            for slab in [4, 90, 1 << 18] {
                let source = source.clone().with_slab_bytes(slab);
                let (whole, error) = drain(&source, Lane::default(), &LaneCursor::default()).await;
                assert_eq!(error, None);
                for (index, seen) in whole.iter().enumerate() {
                    let (rest, error) = drain(&source, Lane::default(), &seen.cursor).await;
                    assert_eq!(
                        (&rest[..], error),
                        (&whole[index + 1..], None),
                        "{file} after document {index}"
                    );
                }
            }
        });
    }
}

#[test]
fn lanes_share_the_splits_and_nothing_comes_twice() {
    for file in FILES {
        run(async {
            let source =
                open(&SourceConfig { split: ByteCount(1500), ..config(file) }).await.expect("it opens");
            let lanes = NonZeroUsize::new(3).expect("three");
            let mut texts = Vec::new();
            let mut places = BTreeSet::new();
            for lane in 0..3 {
                let lane = Lane { lane, lanes, shuffle_splits: true, seed: 7, ..Lane::default() };
                let (seen, error) = drain(&source, lane, &LaneCursor::default()).await;
                assert_eq!(error, None);
                for seen in seen {
                    assert!(places.insert((seen.position.file, seen.position.byte)), "{file}: {seen:?}");
                    texts.push(seen.text);
                }
            }
            let mut wanted = wanted(file);
            texts.sort();
            wanted.sort();
            assert_eq!(texts, wanted, "{file}");
        });
    }
}

#[test]
fn row_groups_and_long_files_of_batches_are_splits() {
    let splits = |file: &str, split: u64| {
        run(async {
            open(&SourceConfig { split: ByteCount(split), ..config(file) }).await.expect("it opens").splits()
        })
    };
    assert_eq!(splits("snappy.parquet", 64 << 20), 3);
    assert_eq!(splits("gzip.parquet", 64 << 20), 9);
    assert_eq!(splits("zstd.parquet", 4), 1);
    assert_eq!(splits("stream.arrow", 64 << 20), 1);
    assert_eq!(splits("stream.arrow", 4), 5);
    assert_eq!(splits("file.arrow", 4000), 3);
    assert_eq!(splits("gnu.tar", 4), 1);
    assert_eq!(splits("mds/shard.00000.mds", 500), 3);
}

#[test]
fn a_position_is_a_row_or_a_byte() {
    run(async {
        for file in TABLES {
            let source = open(&config(file)).await.expect("it opens");
            let (seen, _) = drain(&source, Lane::default(), &LaneCursor::default()).await;
            for seen in seen {
                let row = &written()[seen.position.byte as usize];
                assert_eq!(
                    (row["text"].as_str(), seen.position.line),
                    (Some(seen.text.as_str()), 0),
                    "{file}"
                );
            }
        }
        for file in ["gnu.tar", "pax.tar"] {
            let archive = std::fs::read(directory().join(file)).expect("the archive");
            let source = open(&config(file)).await.expect("it opens");
            let (seen, _) = drain(&source, Lane::default(), &LaneCursor::default()).await;
            for seen in seen {
                let header = &archive[seen.position.byte as usize..][..512];
                assert_eq!(&header[257..262], b"ustar", "a sample begins with a header");
            }
        }
    });
}

#[test]
fn columns_lie_in_structs_and_members_in_json() {
    let with_field = |file: &str, field: &str| SourceConfig { field: Some(field.to_owned()), ..config(file) };
    for file in TABLES {
        assert_eq!(
            texts(&with_field(file, "doc.body.text")),
            Ok(texts_of(&written(), "/doc/body/text")),
            "{file}"
        );
        let error = texts(&with_field(file, "doc.body.no")).expect_err("a refusal");
        assert!(
            error.contains(&format!("{file}: there is no column \"doc.body.no\"; it has text")),
            "{error}"
        );
        let error = texts(&with_field(file, "score")).expect_err("a refusal");
        assert!(error.contains("column \"score\" is Float64 and not text"), "{error}");
    }
    for file in ["gnu.tar", "pax.tar"] {
        let titles = texts_of(&written()[..12], "/doc/title");
        assert_eq!(texts(&with_field(file, "json.doc.title")), Ok(titles), "{file}");
        assert_eq!(texts(&with_field(file, "nothing")), Ok(Vec::new()));
        let error = texts(&with_field(file, "json.text")).expect_err("row 7 has none");
        assert!(error.contains("field `text` is null and not a string"), "{error}");
    }
    for file in ["mds/*.mds", "mds-zstd/*.mds.zstd"] {
        let titles = texts_of(&written()[..30], "/doc/title");
        assert_eq!(texts(&with_field(file, "meta.doc.title")), Ok(titles), "{file}");
        assert_eq!(texts(&with_field(file, "raw")), Ok(wanted(file)));
        let error = texts(&with_field(file, "id")).expect_err("a refusal");
        assert!(error.contains("column \"id\" is int and not text"), "{error}");
        let error = texts(&with_field(file, "none")).expect_err("a refusal");
        assert!(error.contains("there is no column \"none\"; it has id, meta, raw, text"), "{error}");
    }
}

#[test]
fn a_document_beyond_the_bound_follows_the_policy() {
    use millstream::config::Oversize;
    for file in FILES {
        let bounded = |oversize| SourceConfig { max_document_bytes: ByteCount(40), oversize, ..config(file) };
        let whole = wanted(file);
        let short: Vec<_> = whole.iter().filter(|text| text.len() <= 40).cloned().collect();
        assert!(short.len() < whole.len() && !short.is_empty());
        assert_eq!(texts(&bounded(Oversize::Skip)), Ok(short), "{file}");
        let cut = |text: &String| text[..text.floor_char_boundary(40)].to_owned();
        assert_eq!(texts(&bounded(Oversize::Truncate)), Ok(whole.iter().map(cut).collect()), "{file}");
        let error = texts(&bounded(Oversize::Error)).expect_err("an error");
        let unit = if config(file).kind == SourceKind::Tar { "byte" } else { "row" };
        assert!(error.contains(&format!("({unit} ")) && error.contains("max_document_bytes = 40"), "{error}");
    }
}
