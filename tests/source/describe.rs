//! What a path is, and which fields may hold its text, before a config says so.

use millstream::Source;
use millstream::config::{SourceConfig, SourceKind};
use millstream::source::{extension, recognize};

#[tokio::test]
async fn paths_of_every_kind_are_recognized_and_their_fields_named() {
    for (path, kind, field) in [
        ("compressed/one.gz", SourceKind::Text, "text"),
        ("formats/mds-zstd", SourceKind::Mds, "text"),
        ("formats/snappy.parquet", SourceKind::Parquet, "text"),
        ("formats/stream.arrow", SourceKind::Arrow, "text"),
        ("formats/webdataset.tar", SourceKind::Tar, "txt"),
        ("huggingface/plain", SourceKind::Huggingface, "text"),
        ("huggingface/plain/train.jsonl", SourceKind::Jsonl, "text"),
        ("huggingface/tables/rows.csv", SourceKind::Csv, "text"),
    ] {
        let path = format!("{}/tests/data/{path}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(recognize(&path).expect("it is there"), Some(kind), "{path}");
        let config = SourceConfig { kind, paths: vec![path.clone()], ..SourceConfig::default() };
        let fields = Source::fields(&config).await.expect("its fields");
        assert!(fields.iter().any(|name| name == field), "{path}: {fields:?}");
    }
    // Only the files in it are.
    assert_eq!(recognize(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).expect("it is there"), None);
}

#[test]
fn an_extension_has_that_of_the_compression() {
    for (path, end) in [
        ("a/b.jsonl", "jsonl"),
        ("a.b/c.JSONL.GZ", "JSONL.GZ"),
        ("a.b.csv.zst", "csv.zst"),
        ("a.gz", "gz"),
        ("a.jsonl.part", "part"),
        ("a.b/c", ""),
        (".hidden", ""),
    ] {
        assert_eq!(extension(path.as_ref()), end, "{path}");
    }
}

#[tokio::test]
async fn strings_in_objects_are_named_by_their_paths() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.json");
    let config = SourceConfig::jsonl(path.to_string_lossy(), "any");
    let object = r#"{"doc": {"body": "a", "": "b"}, "n": 1, "a.b": "c", "x.": "d"}"#;
    for content in [format!("{object}\n{object}\n"), format!("[\n{object},\n{object}\n]")] {
        std::fs::write(&path, content).expect("a file");
        let fields = Source::fields(&config).await.expect("its fields");
        assert_eq!(fields, ["doc.body", "a.b"]);
        assert_eq!(Source::text_field(&config, &fields).await.as_deref(), Some("doc.body"));
        assert_eq!(Source::text_field(&config, &fields[1..]).await.as_deref(), Some("a.b"));
        assert_eq!(Source::text_field(&config, &["n".to_owned()]).await, None);
    }
    std::fs::write(&path, format!("{object}\n{{\n")).expect("a file");
    let error = Source::fields(&config).await.expect_err("a broken line").to_string();
    assert!(error.contains("a.json:2 (byte 63): this line is not JSON"), "{error}");
}
