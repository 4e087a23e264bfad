//! Documents far longer than their bound are never held.

use std::io::Write;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream::config::{DocumentKind, Oversize, SourceConfig};
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::{Budget, LaneCursor};

use crate::corpus::{Corpus, all, bound, open, run, texts};

const BOUND: usize = 1 << 20;

/// A line of 100 MB between two short ones.
fn corpus() -> Corpus {
    let corpus = Corpus::new([("a", "before\n\n")]);
    let mut file = std::fs::OpenOptions::new().append(true).open(corpus.path("a")).expect("opened");
    let megabyte = vec![b'x'; 1_000_000];
    for _ in 0..100 {
        file.write_all(&megabyte).expect("written");
    }
    file.write_all(b"\n\nafter\n").expect("written");
    corpus
}

fn read(corpus: &Corpus, document: DocumentKind, oversize: Oversize) -> (Vec<String>, usize) {
    let config = SourceConfig { document, oversize, max_document_bytes: bound(BOUND), ..corpus.lines() };
    run(async {
        let budget = Budget::new(512 << 20);
        let source = open(&config).await.with_budget(budget.clone());
        let seen = all(source.documents(&LaneCursor::default())).await;
        (texts(&seen).into_iter().map(str::to_owned).collect(), budget.peak())
    })
}

#[test]
fn a_line_of_100_megabytes_is_skipped_or_cut() {
    let corpus = corpus();
    for document in [DocumentKind::Line, DocumentKind::Paragraph] {
        let (seen, peak) = read(&corpus, document, Oversize::Skip);
        assert_eq!(seen, ["before", "after"]);
        assert!(peak < 20 << 20, "{peak}");
        let (seen, peak) = read(&corpus, document, Oversize::Truncate);
        assert_eq!(seen.iter().map(String::len).collect::<Vec<_>>(), [6, BOUND, 5]);
        assert!(peak < 20 << 20, "{peak}");
    }
    let (seen, peak) = read(&corpus, DocumentKind::File, Oversize::Truncate);
    assert_eq!(seen.iter().map(String::len).collect::<Vec<_>>(), [BOUND]);
    assert!(peak < 20 << 20, "{peak}");
}

#[test]
fn a_short_document_keeps_no_long_ones_ids() {
    let long = "long ".repeat(200_000) + "x";
    let corpus = Corpus::new([("a", format!("before\n{long}\nbehind\n").as_str())]);
    run(async {
        let budget = Budget::new(1 << 30);
        // All documents are there as soon as they are asked for, so that a group takes what it may.
        let source = open(&corpus.lines()).await.with_budget(budget.clone()).with_on_demand(true);
        let documents = source.documents(&LaneCursor::default());
        let tokens = documents.tokenize(&Encoder::new(Arc::new(ByteTokenizer)), &Workers::on_demand());
        let mut tokens: Vec<_> = tokens.try_collect().await.expect("three documents");
        let lengths: Vec<usize> = tokens.iter().map(|tokens| tokens.value.len()).collect();
        assert_eq!(lengths, [6, long.len(), 6]);
        tokens.remove(1);
        assert!(budget.used() < 1000, "{} bytes for twelve ids", budget.used());
    });
}
