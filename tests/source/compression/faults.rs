//! Files that are cut off, damaged or not what they are named as.

use millstream::config::{DocumentKind, OnError, SourceConfig, SourceKind};
use millstream::source::Lane;
use millstream::{Error, LaneCursor, Meter};
use proptest::prelude::*;

use crate::corpus::{Corpus, all, bound, drain, open, run, texts};
use crate::packed::{Packing, cuts, packing};

/// A text of some hundred lines that no compressor makes short.
fn lines() -> String {
    (0_u64..400).map(|n| format!("{n} {:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

/// The stored byte and the problem that an error of file `name` tells.
fn told(error: &Error, name: &str) -> (u64, String) {
    let Error::Document { path, byte, problem, .. } = error else { panic!("{error:?}") };
    assert!(path.ends_with(name), "{error}");
    (*byte, problem.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_file_that_is_cut_off_is_never_read_as_a_whole_one(
        packing in packing(), cuts in cuts(), at in any::<prop::sample::Index>(), split in 40_usize..4000, slab in 20_usize..5000,
    ) {
        let packed = packing.pack(lines().as_bytes(), &cuts);
        let len = 1 + at.index(packed.bytes.len() - 1);
        let name = format!("a.{}", packing.extension());
        let corpus = Corpus::new([(name.as_str(), &packed.bytes[..len]), ("b", b"behind\n")]);
        let is_whole = packed.ends.contains(&len) || packing.extension() != "zst" && len >= packed.ends[packed.ends.len() - 1];
        run(async {
            let config = SourceConfig { split: Some(bound(split)), ..corpus.lines() };
            let (seen, error) = drain(open(&config).await.with_slab_bytes(slab).documents(&LaneCursor::default())).await;
            let whole = lines();
            let before: Vec<_> = whole.lines().take(seen.len()).collect();
            if is_whole {
                prop_assert!(error.is_none(), "{error:?}");
                return Ok(());
            }
            prop_assert_eq!(texts(&seen), before, "what lies before is delivered");
            let (byte, problem) = told(&error.expect("an error"), &name);
            prop_assert_eq!(byte, len as u64, "{}", problem);

            let meter = Meter::new("source");
            let skipping = SourceConfig { on_error: OnError::Skip(1000), ..config };
            let source = open(&skipping).await.with_meter(meter.clone()).with_slab_bytes(slab);
            let rest = all(source.documents(&LaneCursor::default())).await;
            prop_assert_eq!(rest.len(), seen.len() + 1);
            prop_assert_eq!(&rest[seen.len()].text, "behind");
            prop_assert_eq!(meter.snapshot().skipped, 1);
            for (index, at) in rest.iter().enumerate().step_by(37) {
                let again = all(source.documents(&at.cursor)).await;
                prop_assert_eq!(&again, &rest[index + 1..]);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_flipped_bit_is_an_error_or_changes_nothing(
        packing in packing(), cuts in cuts(), text in "[a-zé\n]{1,300}", at in any::<prop::sample::Index>(), bit in 0_u8..8,
        split in 10_usize..400, slab in 4_usize..400,
    ) {
        let mut packed = packing.pack(text.as_bytes(), &cuts).bytes;
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        let name = format!("a.{}", packing.extension());
        let (plain, corpus) = (Corpus::new([(&name, &text)]), Corpus::new([(&name, &packed)]));
        run(async {
            let config = SourceConfig { split: Some(bound(split)), ..corpus.lines() };
            let (seen, error) = drain(open(&config).await.with_slab_bytes(slab).documents(&LaneCursor::default())).await;
            if error.is_none() {
                let whole = all(open(&plain.lines()).await.documents(&LaneCursor::default())).await;
                prop_assert_eq!(texts(&seen), texts(&whole));
            }
            // Whatever is skipped, it comes to an end.
            let skipping = SourceConfig { on_error: OnError::Skip(u64::MAX), ..config };
            all(open(&skipping).await.documents(&LaneCursor::default())).await;
            Ok(())
        })?;
    }
}

#[test]
fn a_frame_that_is_damaged_takes_nothing_with_it_unsaid() {
    let text = lines();
    let packed = Packing::Sized.pack(text.as_bytes(), &[700]);
    for frame in 1..packed.ends.len() - 1 {
        let mut bytes = packed.bytes.clone();
        bytes[packed.ends[frame] - 2] ^= 1;
        let corpus = Corpus::new([("a.zst", bytes)]);
        run(async {
            let config = SourceConfig { split: Some(bound(1)), on_error: OnError::Skip(9), ..corpus.lines() };
            let meter = Meter::new("source");
            let source = open(&config).await.with_meter(meter.clone());
            assert_eq!(source.splits(), packed.ends.len());
            let seen = all(source.documents(&LaneCursor::default())).await;
            // Not to be had are lines that reach into the frame, and the next split, whose beginning is not known.
            let lost = (frame * 700, (frame + 2) * 700);
            let mut byte = 0;
            for line in text.lines() {
                let is_seen = seen.iter().any(|seen| seen.position.byte == byte as u64 && seen.text == line);
                assert!(is_seen || (byte + line.len() >= lost.0 && byte < lost.1), "{line}");
                byte += line.len() + 1;
            }
            assert_eq!(meter.snapshot().skipped, 3);
            // Whoever needs the frame is told, and nobody else.
            let lanes = source.splits();
            let config = SourceConfig { on_error: OnError::Fail, ..config };
            for lane in 0..lanes {
                let lane = Lane { lane, lanes, ..Lane::default() };
                let (_, error) = drain(open(&config).await.lane(lane, &LaneCursor::default())).await;
                assert_eq!(error.is_some(), (frame - 1..=frame + 1).contains(&lane.lane), "{lane:?}");
            }
        });
    }
}

#[test]
fn what_cannot_be_read_says_where_and_why() {
    let junk = |mut bytes: Vec<u8>| {
        bytes.extend(b"no member, stream or frame");
        bytes
    };
    let text = lines();
    let cases = [
        (Packing::Gzip, "the gzip data is corrupt: incorrect header check"),
        (Packing::Bzip2, "the bzip2 data is corrupt: bzip2: bz2 header missing"),
        (Packing::Xz, "the xz data is corrupt: stream/file format not recognized"),
        (Packing::Streamed, "the zstd data is corrupt: Unknown frame descriptor"),
    ];
    for (packing, what) in cases {
        let bytes = packing.pack(text.as_bytes(), &[1000]).bytes;
        let len = bytes.len() as u64;
        let name = format!("a.{}", packing.extension());
        let corpus = Corpus::new([(&name, junk(bytes))]);
        run(async {
            let (seen, error) = drain(open(&corpus.lines()).await.documents(&LaneCursor::default())).await;
            assert_eq!(seen.len(), 400, "{name}");
            let error = error.expect("an error");
            let (byte, problem) = told(&error, &name);
            assert_eq!(problem, what);
            assert!((len..len + 13).contains(&byte), "{name}: {byte} of {len}");
            assert!(error.to_string().contains("get the file again, or let some be skipped"), "{error}");
        });
    }
}

#[test]
fn a_window_that_is_too_large_says_so() {
    // A frame's header with a window of 2^28 bytes, and a block of text.
    let zstd = b"\x28\xb5\x2f\xfd\x00\x90\x29\x00\x00text\n";
    let mut options = liblzma::stream::LzmaOptions::new_preset(0).expect("a preset");
    options.dict_size(1 << 29);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let stream = liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32);
    let mut xz = Vec::with_capacity(4096);
    let mut stream = stream.expect("an encoder");
    stream.process_vec(b"text\n", &mut xz, liblzma::stream::Action::Finish).expect("written");
    let cases = [
        (
            "a.zst",
            zstd.to_vec(),
            "the zstd data cannot be decompressed: its window is larger than 2^27 bytes",
        ),
        ("a.xz", xz, "the xz data cannot be decompressed: it needs 513 MiB of memory, and may have 136"),
    ];
    for (name, bytes, what) in cases {
        let corpus = Corpus::new([(name, bytes)]);
        run(async {
            let (seen, error) = drain(open(&corpus.lines()).await.documents(&LaneCursor::default())).await;
            assert!(seen.is_empty());
            let error = error.expect("an error");
            assert_eq!(told(&error, name).1, what);
            assert!(error.to_string().contains("compress the file again with a smaller window"), "{error}");
            assert_eq!(error.to_string().contains("zstd_window"), name == "a.zst", "{error}");
            if name == "a.zst" {
                let config = SourceConfig { zstd_window: Some(bound(1 << 31)), ..corpus.lines() };
                let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
                assert_eq!(texts(&seen), ["text"]);
            }
        });
    }
    // A shard of MDS has the same bound, and what is no shard is told only once the bound is raised.
    let corpus = Corpus::new([("a.mds.zstd", zstd)]);
    let shard = SourceConfig { kind: SourceKind::Mds, field: Some("text".to_owned()), ..corpus.lines() };
    for (zstd_window, what) in
        [(None, "larger than 2^27 bytes"), (Some(bound(1 << 31)), "samples, more than")]
    {
        run(async {
            let config = SourceConfig { zstd_window, ..shard.clone() };
            let (_, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
            let error = error.expect("an error").to_string();
            assert!(error.contains(what), "{error}");
        });
    }
}

#[test]
fn a_fault_before_a_long_document_is_not_passed_over() {
    let long = "long ".repeat(1000);
    // Its few stored bytes are read together with the file before.
    let behind = Packing::Streamed.pack(format!("{long}\nend\n").as_bytes(), &[usize::MAX]).bytes;
    assert!(behind.len() < 98);
    let corpus = Corpus::new([("a.gz", b"\x1f\x8b".to_vec()), ("b", behind)]);
    run(async {
        let source = open(&corpus.lines()).await.with_slab_bytes(100);
        let (_, error) = drain(source.documents(&LaneCursor::default())).await;
        assert_eq!(told(&error.expect("an error"), "a.gz"), (2, "the gzip data is cut off".to_owned()));
        let config = SourceConfig { on_error: OnError::Skip(1), ..corpus.lines() };
        let seen = all(open(&config).await.with_slab_bytes(100).documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), [&long, "end"]);
        assert_eq!(seen[0].cursor.skipped, 1);
    });
}

#[test]
fn a_table_that_is_cut_off_is_one_too() {
    let text = format!("n,hash\n{}", lines().replace(' ', ","));
    let whole = Packing::Gzip.pack(text.as_bytes(), &[usize::MAX]).bytes;
    for len in [5, 12, 1000, 3000] {
        let corpus = Corpus::new([("a.gz", &whole[..len])]);
        run(async {
            let config =
                SourceConfig { kind: SourceKind::Csv, field: Some("hash".to_owned()), ..corpus.lines() };
            let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
            assert!(seen.len() < 400 && (seen.len() > 10) == (len >= 1000));
            assert_eq!(
                told(&error.expect("an error"), "a.gz"),
                (len as u64, "the gzip data is cut off".to_owned())
            );
            let config = SourceConfig { on_error: OnError::Skip(1), ..config };
            assert_eq!(all(open(&config).await.documents(&LaneCursor::default())).await.len(), seen.len());
        });
    }
}

#[test]
fn text_is_text_whatever_its_name() {
    let corpus =
        Corpus::new([("a.gz", "one\n"), ("b.zst", "two\n"), ("c.bz2", "BZh9 three\n"), ("d.xz", "")]);
    run(async {
        let seen = all(open(&corpus.lines()).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one", "two", "BZh9 three"]);
    });
}

#[test]
fn members_and_files_of_nothing_are_nothing() {
    for packing in Packing::ALL {
        let corpus = Corpus::new([
            ("a", packing.pack(b"", &[1]).bytes),
            ("b", packing.pack(b"one\ntwo", &[0, 5, 0]).bytes),
            ("c", packing.pack(b"", &[1]).bytes),
        ]);
        run(async {
            for document in [DocumentKind::Line, DocumentKind::Paragraph, DocumentKind::File] {
                let config = SourceConfig { document, ..corpus.lines() };
                let seen = all(open(&config).await.documents(&LaneCursor::default())).await;
                let expected: &[&str] =
                    if document == DocumentKind::Line { &["one", "two"] } else { &["one\ntwo"] };
                assert_eq!(texts(&seen), expected);
                let rest = all(open(&config).await.documents(&seen[seen.len() - 1].cursor)).await;
                assert!(rest.is_empty());
            }
        });
    }
}

#[test]
fn a_cursor_beyond_the_text_is_refused() {
    let corpus = Corpus::new([("a.gz", Packing::Gzip.pack(b"one\ntwo\n", &[100]).bytes)]);
    run(async {
        let source = open(&corpus.lines()).await;
        for byte in [9, 5] {
            let mut cursor = LaneCursor::after(1);
            cursor.byte = byte;
            let (_, error) = drain(source.documents(&cursor)).await;
            let error = error.expect("an error").to_string();
            assert!(error.contains(&format!("a.gz (byte {byte}): no document begins there")), "{error}");
        }
    });
}

#[test]
fn a_bad_line_names_its_line_and_its_byte_in_the_text() {
    let text = "{\"text\": \"one\"}\n{\"txt\": 2}\n";
    for packing in Packing::ALL {
        let corpus = Corpus::new([("a", packing.pack(text.as_bytes(), &[7]).bytes)]);
        run(async {
            let source = open(&corpus.jsonl()).await;
            let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), ["one"]);
            let error = error.expect("an error").to_string();
            assert!(error.contains("a:2 (byte 16): there is no field `text`"), "{error}");
        });
    }
}
