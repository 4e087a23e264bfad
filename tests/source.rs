//! The source through its public face, over real files.

use std::fs;

use futures::StreamExt;
use millstream::config::SourceConfig;
use millstream::{LaneCursor, Source};

#[tokio::test]
async fn lines_of_files_in_byte_order() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("b.txt"), "three\n").expect("written");
    fs::write(directory.path().join("a.txt"), "one\r\n\ntwo").expect("written");
    let config = SourceConfig {
        paths: vec![directory.path().join("*.txt").display().to_string()],
        ..SourceConfig::default()
    };
    let source = Source::open(&[config]).await.expect("opened");
    let documents: Vec<_> = source.documents(&LaneCursor::default()).collect().await;
    let texts: Vec<_> =
        documents.iter().map(|d| d.as_ref().expect("a document").value.text().to_owned()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}
