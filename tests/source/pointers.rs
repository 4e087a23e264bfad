//! Pointers that git LFS leaves where it has not fetched the files: named as such, and never read as text.

use millstream::config::{DocumentKind, OnError, SourceConfig, SourceKind};
use millstream::{LaneCursor, Source};

use crate::corpus::{Corpus, all, drain, open, run, texts};
use crate::support::pointer::{POINTER, assert_named};

/// Asserts that the source is refused with the path of the file and the remedy.
fn assert_refused(corpus: &Corpus, config: &SourceConfig, name: &str) {
    let error = run(async {
        match Source::open(std::slice::from_ref(config)).await {
            Err(error) => error,
            Ok(source) => drain(source.documents(&LaneCursor::default()))
                .await
                .1
                .unwrap_or_else(|| panic!("{name} is read")),
        }
    });
    assert_named(&error, &corpus.path(name));
}

#[test]
fn in_every_format() {
    for (name, kind) in [
        ("a.txt", SourceKind::Text),
        ("a.jsonl", SourceKind::Jsonl),
        ("a.jsonl.gz", SourceKind::Jsonl),
        ("a.csv", SourceKind::Csv),
        ("a.tsv", SourceKind::Tsv),
        ("a.tar", SourceKind::Tar),
        ("a.mds", SourceKind::Mds),
        ("a.parquet", SourceKind::Parquet),
        ("a.arrow", SourceKind::Arrow),
    ] {
        let corpus = Corpus::new([(name, POINTER)]);
        let field = (kind != SourceKind::Text).then(|| "text".to_owned());
        for on_error in [OnError::default(), OnError::Skip(10)] {
            let config = SourceConfig { kind, field: field.clone(), on_error, ..corpus.lines() };
            assert_refused(&corpus, &config, name);
        }
    }
}

#[test]
fn with_the_line_ends_of_windows() {
    let corpus = Corpus::new([("a.txt", POINTER.replace('\n', "\r\n"))]);
    assert_refused(&corpus, &corpus.lines(), "a.txt");
}

#[test]
fn among_other_files() {
    let corpus = Corpus::new([("a.txt", "one\n"), ("b.txt", POINTER), ("c.txt", "two\n")]);
    for document in [DocumentKind::Line, DocumentKind::Paragraph, DocumentKind::File] {
        assert_refused(&corpus, &SourceConfig { document, ..corpus.lines() }, "b.txt");
    }
}

#[test]
fn text_about_pointers_is_text() {
    let about = format!("A pointer looks so:\n{POINTER}");
    let begin =
        format!("version https://git-lfs.github.com/spec/v1\nis how a pointer begins.\n{}", " \n".repeat(50));
    let long = format!("{POINTER}{}", "more\n".repeat(200));
    for text in [about, begin, long] {
        let corpus = Corpus::new([("a.txt", &text)]);
        let config = SourceConfig { document: DocumentKind::File, ..corpus.lines() };
        let seen = run(async { all(open(&config).await.documents(&LaneCursor::default())).await });
        assert_eq!(texts(&seen), [text.as_str()]);
    }
}
