//! What each fault says, word for word.

use std::error::Error as _;
use std::fs;

use futures::StreamExt;
use millstream::config::{DocumentKind, OnError, Oversize, SampleConfig, SourceConfig, SourceKind};
use millstream::source::{Holdout, Lane, Side};
use millstream::{Document, Error, LaneCursor, Meter, Source};

use crate::corpus::{Corpus, all, bound, drain, open, run, texts};

/// The documents of the corpus's files as `config` reads them, and what the error says, the directory left out.
fn fails(corpus: &Corpus, config: &SourceConfig) -> (Vec<String>, String) {
    run(async {
        let source = open(config).await;
        let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
        let texts = texts(&seen).into_iter().map(str::to_owned).collect();
        (texts, said_of(corpus, &error.expect("an error")))
    })
}

fn said_of(corpus: &Corpus, error: &Error) -> String {
    error.to_string().replace(&corpus.path(""), "")
}

fn refused(corpus: &Corpus, config: &SourceConfig) -> String {
    run(async { said_of(corpus, &Source::open(std::slice::from_ref(config)).await.expect_err("refused")) })
}

#[test]
fn bytes_that_are_no_utf8() {
    let corpus = Corpus::new([("a.txt", b"good\n\nb\xc3\xa9d \xff\nmore\n")]);
    assert_eq!(
        fails(&corpus, &corpus.lines()),
        (
            vec!["good".to_owned()],
            "a.txt:3 (byte 11): byte 0xff is not UTF-8; convert the file to UTF-8, or let some be skipped with \
             on_error = { skip = 100 }"
                .to_owned()
        )
    );
}

#[test]
fn a_character_that_two_files_share_is_in_neither() {
    let corpus = Corpus::new([("a", b"x\xc3"), ("b", b"\xa9y")]);
    let (seen, said) = fails(&corpus, &corpus.lines());
    assert_eq!((seen.len(), said.split(';').next()), (0, Some("a:1 (byte 1): byte 0xc3 is not UTF-8")));
}

#[test]
fn json_that_is_broken_or_says_something_else() {
    let cases = [
        (r#"{"text": tru}"#, "a:2 (byte 28): broken JSON: expected ident; mend it"),
        (r#"{"txt": "x"}"#, "a:2 (byte 16): there is no field `text`; mend it, or name another field"),
        (
            r#"{"text": ["x"]}"#,
            "a:2 (byte 16): field `text` is a list and not a string; mend it, or name another field",
        ),
        (
            r#"[{"text": "x"}]"#,
            "a:2 (byte 16): the document is a list and not an object; mend it, or, if the file is one array of records, \
             name it .json",
        ),
        (
            r#"{"text": "é"},"#,
            "a:2 (byte 30): broken JSON: trailing characters; mend it, or, if the file is one array of records, name it .json",
        ),
        ("7", "a:2 (byte 16): the document is a number and not an object; mend it, or name another field"),
    ];
    for (line, what) in cases {
        let corpus = Corpus::new([("a", format!("{{\"text\": \"one\"}}\n{line}\n"))]);
        let skip = ", or let some be skipped with on_error = { skip = 100 }";
        assert_eq!(fails(&corpus, &corpus.jsonl()), (vec!["one".to_owned()], format!("{what}{skip}")));
    }
}

#[test]
fn half_of_a_character_is_named_where_it_is() {
    let cases = ["\\udc00", "\\ud83dx", "\\ud83d\"", "\\ud83d\\n", "\\uD83D\\u0041", "\\ud83d\\ud83d\\ude00"];
    for half in cases {
        let corpus = Corpus::new([("a", format!(r#"{{"text": "\ud83d\ude00é{half}"}}"#))]);
        let (_, said) = fails(&corpus, &corpus.jsonl());
        assert!(
            said.starts_with(&format!("a:1 (byte 24): `{}` is half of a character", &half[..6])),
            "{said}"
        );
        assert!(said.contains("write the whole character"), "{said}");
    }
    // Where it is not read it does not matter.
    let corpus = Corpus::new([("a", r#"{"text": "x", "b": "\ud83d"}"#)]);
    let seen = run(async { all(open(&corpus.jsonl()).await.documents(&LaneCursor::default())).await });
    assert_eq!(texts(&seen), ["x"]);
}

#[test]
fn what_is_not_read_is_named_as_what_it_is() {
    let utf16 = |mark: &str| {
        format!("{mark}one\ntwo\n").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()
    };
    let cases = [
        ("a.txt", utf16("\u{feff}"), "UTF-16", "convert it to UTF-8"),
        ("a.txt", utf16(""), "UTF-16", "convert it to UTF-8"),
        ("a.zip", b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(), "zip", "unpack it"),
        ("a.txt", b"\x04\x22\x4d\x18\x64\x40\xa7".to_vec(), "lz4", "unpack it"),
        ("a.jsonl", b"PAR1\n\x15\0".to_vec(), "looks like parquet", "kind = \"parquet\""),
        ("a", b"ARROW1\0\0\xff\n".to_vec(), "looks like arrow", "kind = \"arrow\""),
        ("a.txt", [&[b'\n'; 257][..], b"ustar\0"].concat(), "looks like tar", "kind = \"tar\""),
        ("a.tar.gz", b"\x1f\x8b\x08\0".to_vec(), "looks like tar", "kind = \"tar\""),
        ("a.lzma", b"\x5d\0\0\x80\0\xff\xff".to_vec(), "lzma", "unpack it"),
    ];
    for (name, bytes, what, remedy) in cases {
        let corpus = Corpus::new([(name, bytes.repeat(600)), ("b", b"{\"text\": \"good\"}\n".to_vec())]);
        for config in
            [corpus.lines(), corpus.jsonl(), SourceConfig { split: Some(bound(100)), ..corpus.lines() }]
        {
            let (seen, said) = fails(&corpus, &config);
            assert!(seen.is_empty() && said.starts_with(name) && said.contains(" (byte 0): "), "{said}");
            assert!(said.contains(what) && said.contains(remedy), "{said}");
            // All of it is one bad document.
            let config = SourceConfig { on_error: OnError::Skip(1), ..config };
            run(async {
                let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
                assert!(error.is_none() && seen.len() == 1, "{error:?}");
            });
        }
        let table = SourceConfig {
            kind: SourceKind::Csv,
            paths: vec![corpus.path(name)],
            field: Some("text".to_owned()),
            ..corpus.lines()
        };
        assert!(fails(&corpus, &table).1.contains(what));
    }
}

#[test]
fn text_that_begins_as_a_table_does_is_text() {
    let corpus = Corpus::new([("a.txt", "PAR1 is a receptor\nARROW1\n")]);
    run(async {
        let seen = all(open(&corpus.lines()).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["PAR1 is a receptor", "ARROW1"]);
    });
}

#[test]
fn numbers_that_only_python_writes_are_no_text() {
    for (line, what) in [
        (r#"{"a": 1, "text": NaN}"#, "field `text` is NaN or infinite and not a string"),
        (r#"{"a": 1, "text": -NaN}"#, "broken JSON"),
        (r#"{"a": 1, NaN: 2, "text": "x"}"#, "broken JSON"),
    ] {
        let corpus = Corpus::new([("a", line)]);
        let (seen, said) = fails(&corpus, &corpus.jsonl());
        assert!(seen.is_empty() && said.starts_with("a:1 (byte ") && said.contains(what), "{said}");
    }
}

#[test]
fn a_fault_far_in_a_long_file_names_the_files_line() {
    let corpus = Corpus::new([("a", [b"good\n".repeat(100), b"bad \xff\n".to_vec()].concat())]);
    let config = SourceConfig { split: Some(bound(64)), ..corpus.lines() };
    let (seen, said) = fails(&corpus, &config);
    assert_eq!(seen.len(), 100);
    assert!(said.starts_with("a:101 (byte 504): byte 0xff is not UTF-8"), "{said}");
    run(async {
        let source = open(&config).await;
        let lane = Lane { lanes: 7, lane: 6, ..Lane::default() };
        let mut documents = source.lane(lane, &LaneCursor::default());
        let document = documents.next().await.expect("more").expect("a document").value;
        let says = |document: &Document| said_of(&corpus, &document.error("it is odd", "mend it"));
        assert_eq!(document.position().from, 384);
        fs::rename(corpus.path("a"), corpus.path("b")).expect("renamed");
        assert_eq!(says(&document), "a (byte 385): it is odd; mend it", "nobody can count any more");
        fs::rename(corpus.path("b"), corpus.path("a")).expect("renamed");
        assert_eq!(says(&document), "a:78 (byte 385): it is odd; mend it");
    });
}

#[test]
fn a_document_beyond_the_bound() {
    let corpus = Corpus::new([("a", r#"{"text": "12345678"}"#)]);
    let bounded = |config| SourceConfig { max_document_bytes: bound(10), ..config };
    let skip = "or let some be skipped with on_error = { skip = 100 }";
    assert_eq!(
        fails(&corpus, &bounded(corpus.lines())).1,
        format!(
            "a:1 (byte 0): the document is longer than max_document_bytes = 10B; raise it, or set oversize = \
             \"skip\" or \"truncate\", {skip}"
        )
    );
    let truncate = SourceConfig { oversize: Oversize::Truncate, ..bounded(corpus.jsonl()) };
    assert_eq!(
        fails(&corpus, &truncate).1,
        format!(
            "a:1 (byte 0): the document is longer than max_document_bytes = 10B; raise it, or set oversize = \
             \"skip\", {skip}"
        )
    );
}

#[test]
fn skipping_has_a_budget_for_each_epoch() {
    let corpus = Corpus::new([("a", b"\xff\n1\n\xff\n2\n")]);
    let config = |n| SourceConfig { on_error: OnError::Skip(n), ..corpus.lines() };
    assert_eq!(
        fails(&corpus, &config(1)),
        (
            vec!["1".to_owned()],
            "a:3 (byte 4): byte 0xff is not UTF-8, and the 1 documents that on_error lets this epoch skip are \
             used up; convert the file to UTF-8, or raise on_error"
                .to_owned()
        )
    );
    run(async {
        let meter = Meter::new("source");
        let source = open(&config(2)).await.with_meter(meter.clone());
        let lane = Lane { epochs: Some(3), ..Lane::default() };
        let (seen, error) = drain(source.lane(lane, &LaneCursor::default())).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(&seen), ["1", "2", "1", "2", "1", "2"]);
        let counts: Vec<_> = seen.iter().map(|seen| seen.cursor.skipped).collect();
        assert_eq!(counts, [1, 2, 1, 2, 1, 2]);
        assert_eq!(meter.snapshot().skipped, 6);
    });
}

#[test]
fn a_resumed_epoch_goes_on_with_its_budget() {
    let corpus = Corpus::new([("a", b"\xff\n1\n\xff\n2\n")]);
    let config = SourceConfig { on_error: OnError::Skip(1), ..corpus.lines() };
    run(async {
        let source = open(&config).await;
        let (whole, error) = drain(source.documents(&LaneCursor::default())).await;
        let (rest, again) = drain(source.documents(&whole[0].cursor)).await;
        assert!(rest.is_empty());
        assert_eq!(error.expect("an error").to_string(), again.expect("an error").to_string());
    });
}

#[test]
fn what_is_longer_and_skipped_needs_no_budget() {
    let corpus = Corpus::new([("a", "short\nlonger than ten\nend\n")]);
    let config = SourceConfig { max_document_bytes: bound(10), oversize: Oversize::Skip, ..corpus.lines() };
    run(async {
        let meter = Meter::new("source");
        let source = open(&config).await.with_meter(meter.clone());
        let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(&seen), ["short", "end"]);
        assert_eq!((meter.snapshot().skipped, seen[1].cursor.skipped), (1, 0));
    });
}

#[test]
fn files_that_change_under_the_reader() {
    let bytes = "line\n".repeat(4);
    let changes = [
        (
            "b was 20 bytes long when the corpus was opened and is 3 bytes long now; leave the files alone while \
             they are read, and open the corpus again",
            "li\n".to_owned(),
        ),
        (
            "b was 20 bytes long when the corpus was opened and is 21 bytes long now; leave the files alone while \
             they are read, and open the corpus again",
            format!("{bytes}x"),
        ),
    ];
    for (what, changed) in changes {
        let corpus = Corpus::new([("a", &bytes), ("b", &bytes)]);
        run(async {
            let source = open(&SourceConfig { on_error: OnError::Skip(9), ..corpus.lines() }).await;
            corpus.write("b", changed);
            let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
            assert_eq!(seen.len(), 4, "what lies before is delivered");
            let error = error.expect("an error");
            assert!(matches!(error, Error::Corpus { .. }));
            assert_eq!(said_of(&corpus, &error), what);
        });
    }
}

#[test]
fn a_file_that_is_gone() {
    let corpus = Corpus::new([("a", "one\n"), ("b", "two\n")]);
    run(async {
        let source = open(&SourceConfig { on_error: OnError::Skip(9), ..corpus.lines() }).await;
        fs::remove_file(corpus.path("b")).expect("removed");
        let (seen, error) = drain(source.documents(&LaneCursor::default())).await;
        let error = error.expect("an error");
        assert_eq!((texts(&seen), said_of(&corpus, &error)), (vec!["one"], "b: cannot open".to_owned()));
        assert!(error.source().is_some());
    });
}

#[test]
fn paths_that_lead_nowhere() {
    let corpus = Corpus::new([("a/empty.txt", "")]);
    let config = |path: &str| SourceConfig { paths: vec![path.to_owned()], ..SourceConfig::default() };
    let nothing = config(&corpus.path("*.json"));
    assert_eq!(
        refused(&corpus, &nothing),
        "no file matches \"*.json\"; set source.0.paths to the corpus's files, such as \"corpus/**/*.txt\""
    );
    assert_eq!(
        refused(&corpus, &config(&corpus.path("a"))),
        "\"a\" is a directory; set source.0.paths to the files in it, such as \"a/**/*.txt\""
    );
    assert_eq!(
        refused(&corpus, &corpus.lines()),
        "the source's files are all empty (1 of them); set source.0.paths to files with text"
    );
    assert_eq!(
        refused(&corpus, &config("${MILLSTREAM_UNSET}/*.txt")),
        "source.0.paths: the variable MILLSTREAM_UNSET in \"${MILLSTREAM_UNSET}/*.txt\" is not set; set it, or \
         write ${MILLSTREAM_UNSET:-default}"
    );
    assert_eq!(
        refused(&corpus, &config("a***")),
        "source.0.paths: \"a***\" is not a valid pattern: wildcards are either regular `*` or recursive `**` at \
         character 4"
    );
    assert_eq!(
        refused(&corpus, &SourceConfig { field: Some("x".to_owned()), ..corpus.lines() }),
        "source.0.field: a source of kind text has no `field`; remove it, or set kind = \"jsonl\" or \"csv\" or \
         \"tsv\" or \"parquet\" or \"arrow\" or \"tar\" or \"mds\" or \"huggingface\""
    );
    corpus.write("text", "some");
    let sources = [config(&corpus.path("text")), config(&corpus.path("a/*"))];
    assert_eq!(
        run(Source::open(&sources)).expect_err("refused").to_string(),
        "the source's files are all empty (1 of them); set source.1.paths to files with text"
    );
    let none = run(Source::open(&[])).expect_err("refused");
    assert_eq!(none.to_string(), "there is no source; add a [[source]] with the paths of the corpus");
}

#[test]
fn settings_of_splits_and_samples_that_mean_nothing() {
    let corpus = Corpus::new([("a", "{}")]);
    let sample = |field: &str, max| Some(SampleConfig { field: field.to_owned(), max });
    let jsonl = |field, max| SourceConfig { sample: sample(field, max), ..corpus.jsonl() };
    let cases = [
        (SourceConfig { split: Some(bound(0)), ..corpus.lines() }, "split` must be at least 1 byte, not 0B"),
        (
            SourceConfig { sample: sample("w", 1.0), ..corpus.lines() },
            "sample: a source of kind text has no `sample`; remove it, or set kind = \"jsonl\" or \"csv\" or \"tsv\" or \
             \"parquet\" or \"arrow\" or \"huggingface\"",
        ),
        (jsonl("a..w", 1.0), "sample.field: \"a..w\" has an empty part; write it as \"doc.text\""),
        (jsonl("text", 1.0), "sample.field: \"text\" is the text's field; name that of a number"),
        (jsonl("w", 0.0), "sample.max` must be above 0, not 0"),
        (jsonl("w", f64::NAN), "sample.max` must be above 0, not NaN"),
        (jsonl("w", f64::INFINITY), "sample.max` must be above 0, not inf"),
    ];
    for (config, what) in cases {
        assert_eq!(refused(&corpus, &config).trim_start_matches('`'), format!("source.0.{what}"));
    }
}

#[test]
fn a_filter_by_a_field_that_no_record_has_names_it() {
    let corpus = Corpus::new([("a.jsonl", "{\"text\": \"one\", \"lang\": \"en\"}\n{\"text\": \"two\"}\n")]);
    let filtered = |filter: &str| SourceConfig {
        filter: Some(filter.to_owned()),
        ..SourceConfig::jsonl(corpus.path("a.jsonl"), "text")
    };
    let endless = Lane { epochs: None, ..Lane::default() };
    run(async {
        for (filter, words) in [
            ("lang = \"en\"", &["no record of source 0", "the field \"en\"", "where", "single quotes"][..]),
            ("langg = 'en'", &["the field \"langg\""]),
            // A field that some record has.
            ("lang = 'de'", &["64 whole epochs"]),
        ] {
            let source = open(&filtered(filter)).await;
            let (seen, error) = drain(source.lane(endless, &LaneCursor::default())).await;
            assert!(seen.is_empty());
            let error = error.expect("an error").to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    });
}

#[test]
fn an_endless_stream_of_nothing_ends() {
    let corpus = Corpus::new([("a", "\n\n\n"), ("b", "x")]);
    let only_a = SourceConfig { paths: vec![corpus.path("a")], ..corpus.lines() };
    let endless = Lane { epochs: None, ..Lane::default() };
    run(async {
        let source = open(&only_a).await;
        let (seen, error) = drain(source.lane(endless, &LaneCursor::default())).await;
        assert!(seen.is_empty());
        assert_eq!(
            error.expect("an error").to_string(),
            "64 whole epochs of lane 0 of 1 (1 splits) of source 0 gave no document; look at the files, source.where, \
             mixture.weights, pipeline.holdout and what was skipped, or set fewer pipeline.lanes"
        );
        let source = open(&SourceConfig { document: DocumentKind::File, ..corpus.lines() }).await;
        let holdout = Holdout { fraction: 1e-12, side: Side::HeldOut };
        let (_, error) = drain(source.lane(Lane { holdout, ..endless }, &LaneCursor::default())).await;
        assert!(matches!(error, Some(Error::Corpus { .. })), "{error:?}");
    });
}
