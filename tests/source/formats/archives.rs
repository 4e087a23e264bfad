//! Tar archives that no tool here writes, made by hand: what a sample is, and the policies; and indexes of shards that
//! name what they may not.

use millstream::config::{OnError, Oversize, SourceConfig, SourceKind};
use millstream::{Error, LaneCursor, Meter, Source};
use proptest::prelude::*;

use super::others::bytes;
use crate::corpus::{Corpus, all, bound, drain, open, run, texts};

/// A header of the oldest kind, and the member behind it.
fn member(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; data.len().next_multiple_of(512) - data.len()];
    [&header, data, &padding].concat()
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes: Vec<u8> = members.iter().flat_map(|(name, data)| member(name, b'0', data)).collect();
    bytes.extend([0; 1024]);
    bytes
}

fn config(corpus: &Corpus, field: &str) -> SourceConfig {
    SourceConfig { kind: SourceKind::Tar, field: Some(field.to_owned()), ..corpus.lines() }
}

fn refused(corpus: &Corpus, field: &str) -> (Vec<String>, String) {
    run(async {
        let (seen, error) = drain(open(&config(corpus, field)).await.documents(&LaneCursor::default())).await;
        let seen = texts(&seen).into_iter().map(str::to_owned).collect();
        (seen, error.expect("an error").to_string())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn samples_of_any_members_come_in_order_and_every_cursor_resumes(
        samples in prop::collection::vec(prop::collection::vec((0_usize..5, "[a-zé]{0,40}"), 0..5), 0..20),
        slab in 4_usize..3000,
    ) {
        let extensions = ["txt", "jpg", "json", "txt.old", "text"];
        let mut members = Vec::new();
        let mut wanted = Vec::new();
        for (number, sample) in samples.iter().enumerate() {
            let mut is_found = false;
            for (kind, text) in sample {
                if *kind == 0 {
                    if is_found {
                        continue;
                    }
                    is_found = true;
                    wanted.extend(Some(text.as_str()).filter(|text| !text.is_empty()));
                }
                members.push((format!("a.b/{number}.{}", extensions[*kind]), text.as_bytes()));
            }
        }
        let members: Vec<(&str, &[u8])> = members.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let corpus = Corpus::new([("samples", archive(&members))]);
        run(async {
            let source = open(&config(&corpus, "txt")).await.with_slab_bytes(slab);
            let whole = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(texts(&whole), wanted);
            for (index, seen) in whole.iter().enumerate() {
                prop_assert_eq!(&all(source.documents(&seen.cursor)).await, &whole[index + 1..]);
            }
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_archive_that_is_cut_off_loses_only_what_is_not_there(
        texts in prop::collection::vec("[a-z]{1,900}", 1..5), at in any::<prop::sample::Index>(), split in prop::option::of(1_usize..3),
        slab in 4_usize..3000,
    ) {
        let (mut whole, mut ends) = (Vec::new(), Vec::new());
        for (number, text) in texts.iter().enumerate() {
            whole.extend(member(&format!("{number}.json"), b'0', b"{}"));
            ends.push(whole.len() + 512 + text.len());
            whole.extend(member(&format!("{number}.txt"), b'0', text.as_bytes()));
            whole.extend(member(&format!("{number}.jpg"), b'0', &[0xff; 1600]));
        }
        let len = 1 + at.index(whole.len());
        let wanted: Vec<&str> = texts.iter().zip(&ends).filter(|(_, end)| **end <= len).map(|(text, _)| text.as_str()).collect();
        let corpus = Corpus::new([("samples", &whole[..len])]);
        run(async {
            let config = SourceConfig { split: split.map(bound), ..config(&corpus, "txt") };
            let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
            prop_assert_eq!(crate::corpus::texts(&seen), wanted.clone());
            let Some(Error::Document { byte, problem, .. }) = error else { panic!("{error:?}") };
            prop_assert!(byte <= len.next_multiple_of(512) as u64 && byte + 2600 > len as u64, "{byte} of {len}");
            prop_assert!(problem.contains("cut off"), "{}", problem);

            let meter = Meter::new("source");
            let config = SourceConfig { on_error: OnError::Skip(9), ..config };
            let source = open(&config).await.with_meter(meter.clone()).with_slab_bytes(slab);
            let seen = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(crate::corpus::texts(&seen), wanted);
            prop_assert_eq!(meter.snapshot().skipped, 1);
            for (index, at) in seen.iter().enumerate() {
                let skipped = meter.snapshot().skipped;
                prop_assert_eq!(&all(source.documents(&at.cursor)).await, &seen[index + 1..]);
                prop_assert_eq!(meter.snapshot().skipped, skipped + 1);
            }
            Ok(())
        })?;
    }

    #[test]
    fn archives_that_follow_one_another_are_one(
        archives in prop::collection::vec(prop::collection::vec("[a-z]{1,40}", 0..4), 1..5), padding in 0_usize..4, slab in 4_usize..3000,
    ) {
        let mut wanted = Vec::new();
        let mut bytes = Vec::new();
        for archive in &archives {
            for text in archive {
                bytes.extend(member(&format!("{}.txt", wanted.len()), b'0', text.as_bytes()));
                wanted.push(text.as_str());
            }
            bytes.extend(vec![0; 1024 + padding * 512]);
        }
        let corpus = Corpus::new([("samples", bytes)]);
        run(async {
            let source = open(&config(&corpus, "txt")).await.with_slab_bytes(slab);
            let seen = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(texts(&seen), wanted);
            for (index, at) in seen.iter().enumerate() {
                prop_assert_eq!(&all(source.documents(&at.cursor)).await, &seen[index + 1..]);
            }
            Ok(())
        })?;
    }
}

#[test]
fn a_text_that_is_a_link_or_sparse_is_read_or_is_bad_input() {
    let mut header = tar::Header::new_gnu();
    header.set_path("1.txt").expect("a name");
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(3);
    let gnu = header.as_gnu_mut().expect("a header of GNU");
    gnu.sparse[0].set_offset(5);
    gnu.sparse[0].set_length(3);
    gnu.set_real_size(8);
    header.set_cksum();
    let sparse = [&header.as_bytes()[..], b"end", &[0; 509]].concat();
    let mut link = member("2.txt", b'1', b"");
    link[157..162].copy_from_slice(b"0.txt");
    let sum: u32 = link
        .iter()
        .enumerate()
        .map(|(n, &byte)| if (148..156).contains(&n) { 32 } else { u32::from(byte) })
        .sum();
    link[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let pax =
        b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.name=3.txt\n25 GNU.sparse.realsize=3\n";
    let bytes = [
        member("0.txt", b'0', b"zero"),
        sparse,
        link,
        member("pax", b'x', pax),
        member(
            "GNUSparseFile.7/3.txt",
            b'0',
            &[b"1\n0\n3\n".to_vec(), vec![0; 506], b"map".to_vec()].concat(),
        ),
        member("4.txt", b'0', b"four"),
        vec![0; 1024],
    ];
    let corpus = Corpus::new([("samples", bytes.concat())]);
    for (skip, what) in [
        (0, "samples (byte 2048): the member \"2.txt\" is a link"),
        (1, "samples (byte 2560): the member \"3.txt\" is sparse"),
    ] {
        let config = SourceConfig {
            on_error: if skip == 0 { OnError::Fail } else { OnError::Skip(skip) },
            ..config(&corpus, "txt")
        };
        let (seen, error) = run(async { drain(open(&config).await.documents(&LaneCursor::default())).await });
        assert_eq!(texts(&seen), ["zero", "\0\0\0\0\0end"]);
        let error = error.expect("an error").to_string();
        assert!(error.contains(what) && error.contains("make the archive anew"), "{error}");
    }
    let config = SourceConfig { on_error: OnError::Skip(2), ..config(&corpus, "txt") };
    let seen = run(async { all(open(&config).await.documents(&LaneCursor::default())).await });
    assert_eq!(texts(&seen[2..]), ["four"]);
}

#[test]
fn what_is_no_file_is_no_member_and_belongs_to_no_sample() {
    let bytes = [
        member("1.txt", b'0', b"one"),
        member("dir/", b'5', b""),
        member("1.json", b'0', b"{}"),
        member(".hidden.txt", b'0', b"hidden"),
        member("2.json", b'2', b""),
        member("3.txt", b'7', b"three"),
        vec![0; 1024],
    ];
    let corpus = Corpus::new([("samples", bytes.concat())]);
    run(async {
        let seen = all(open(&config(&corpus, "txt")).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one", "three"]);
    });
}

#[test]
fn a_text_that_comes_twice_is_bad_input() {
    let corpus = Corpus::new([("samples", archive(&[("0.txt", b"a"), ("1.txt", b"b"), ("1.txt", b"c")]))]);
    let (seen, error) = refused(&corpus, "txt");
    assert_eq!(seen, ["a"]);
    assert!(error.contains("samples (byte 1024): the sample has its text twice"), "{error}");
}

#[test]
fn an_archive_without_its_end_is_cut_off() {
    let mut bytes = archive(&[("0.txt", b"a"), ("1.txt", b"b")]);
    bytes.truncate(2048);
    let corpus = Corpus::new([("samples", bytes)]);
    let (seen, error) = refused(&corpus, "txt");
    assert_eq!(seen, ["a", "b"]);
    assert!(error.contains("samples (byte 2048): the archive is cut off"), "{error}");
}

#[test]
fn json_is_read_whole_or_not_at_all() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(5000));
    let members: [(&str, &[u8]); 3] =
        [("0.json", b"{\"text\": \"short\"}"), ("1.json", long.as_bytes()), ("2.json", b"{\"text\": 7}")];
    let corpus = Corpus::new([("samples", archive(&members))]);
    let (seen, error) = refused(&corpus, "json.text");
    assert_eq!(seen, ["short".to_owned(), "x".repeat(5000)]);
    assert!(error.contains("field `text` is a number and not a string"), "{error}");
    for (oversize, skipped) in [(Oversize::Skip, 2), (Oversize::Truncate, 2)] {
        let config = SourceConfig {
            oversize,
            max_document_bytes: bound(100),
            on_error: OnError::Skip(if oversize == Oversize::Skip { 1 } else { 2 }),
            ..config(&corpus, "json.text")
        };
        run(async {
            let meter = Meter::new("source");
            let source = open(&config).await.with_meter(meter.clone());
            assert_eq!(texts(&all(source.documents(&LaneCursor::default())).await), ["short"]);
            assert_eq!(meter.snapshot().skipped, skipped);
        });
    }
}

#[test]
fn a_text_that_is_a_link_is_bad_input() {
    for (kind, remedy) in [(b'1', "--hard-dereference"), (b'2', "--dereference")] {
        let bytes = [member("1.txt", kind, b""), archive(&[("2.txt", b"a")])].concat();
        let corpus = Corpus::new([("samples", bytes)]);
        let (seen, error) = refused(&corpus, "txt");
        assert!(seen.is_empty(), "{seen:?}");
        assert!(
            error.contains("the member \"1.txt\" is a link to another") && error.contains(remedy),
            "{error}"
        );
    }
}

#[test]
fn names_without_end_are_not_held() {
    let name = vec![b'a'; 3 << 20];
    let bytes = [member("././@LongLink", b'L', &name), archive(&[("0.txt", b"a")])].concat();
    let corpus = Corpus::new([("samples", bytes)]);
    let (_, error) = refused(&corpus, "txt");
    assert!(error.contains("what describes a member is longer than 1048576 bytes"), "{error}");
}

/// An index of one shard.
fn index(raw: &str, zip: Option<&str>) -> String {
    let zip = zip.map(|name| serde_json::json!({ "basename": name }));
    let shard = serde_json::json!({
        "format": "mds", "compression": "zstd:7", "raw_data": { "basename": raw }, "zip_data": zip,
    });
    serde_json::json!({ "version": 2, "shards": [shard] }).to_string()
}

fn shards(corpus: &Corpus) -> SourceConfig {
    let paths = vec![corpus.path("set")];
    SourceConfig { kind: SourceKind::Mds, field: Some("text".to_owned()), paths, ..SourceConfig::default() }
}

#[test]
fn an_index_names_only_what_is_below_its_directory() {
    let corpus = Corpus::new([
        ("x.mds", bytes("mds/shard.00000.mds")),
        ("x.mds.zstd", bytes("mds-zstd/shard.00000.mds.zstd")),
        ("set/sub/x.mds", bytes("mds/shard.00000.mds")),
    ]);
    let absolute = corpus.path("x.mds");
    for (raw, zip) in [
        ("../x.mds", None),
        ("sub/../../x.mds", None),
        (&absolute[..], None),
        ("", None),
        ("gone.mds", Some("../x.mds.zstd")),
    ] {
        corpus.write("set/index.json", index(raw, zip));
        let error = run(Source::open(&[shards(&corpus)])).expect_err("refused").to_string();
        let name = zip.unwrap_or(raw);
        let wanted = format!(
            "{}: {name:?} is not a path within its directory; get the directory again",
            corpus.path("set/index.json")
        );
        assert_eq!(error, wanted);
    }
    // Variables are in configs only.
    corpus.write("set/index.json", index("${MILLSTREAM_NOWHERE:-..}/x.mds", None));
    run(Source::open(&[shards(&corpus)])).expect_err("no such file");
    for (zip, missing) in [(None, "gone.mds"), (Some("gone.mds.zstd"), "gone.mds.zstd")] {
        corpus.write("set/index.json", index("gone.mds", zip));
        let error = run(Source::open(&[shards(&corpus)])).expect_err("no such shard").to_string();
        assert!(error.starts_with(&corpus.path("set/index.json")), "{error}");
        assert!(
            error.contains(&format!("{missing:?}")) && error.contains("get the directory again"),
            "{error}"
        );
    }
    corpus.write("set/index.json", index("sub/x.mds", None));
    assert_eq!(run(Source::open(&[shards(&corpus)])).expect("opened").files().len(), 1);
}

#[cfg(unix)]
#[test]
fn an_index_that_is_a_pipe_is_not_waited_for() {
    let corpus = Corpus::new([("set/x.mds", bytes("mds/shard.00000.mds"))]);
    crate::corpus::pipe(&corpus, "set/index.json");
    let config = shards(&corpus);
    let error = crate::corpus::in_time(move || run(Source::open(&[config]))).expect_err("refused");
    assert_eq!(error.to_string(), format!("{}: cannot read", corpus.path("set/index.json")));
}
