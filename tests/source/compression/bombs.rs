//! Small files of enormous texts: never held, and passed over at full speed.

use std::io::{Read, Write};

use millstream::config::{DocumentKind, Oversize, SourceConfig};
use millstream::{Budget, LaneCursor};

use crate::corpus::{Corpus, all, bound, open, run, texts};

const BOUND: usize = 1 << 20;

/// Writes a line of `len` zeros between two short ones.
fn bomb(len: u64, mut packer: impl Write) {
    let all = "written to memory";
    packer.write_all(b"before\n\n").expect(all);
    std::io::copy(&mut std::io::repeat(b'0').take(len), &mut packer).expect(all);
    packer.write_all(b"\n\nafter\n").expect(all);
}

#[test]
fn a_line_of_300_megabytes_is_skipped_or_cut_within_the_budget() {
    let len = 300_000_000;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    bomb(len, &mut gzip);
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
    bomb(len, &mut zstd);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bomb(len, &mut bzip2);
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    bomb(len, &mut xz);
    let files =
        [gzip.finish(), zstd.finish(), bzip2.finish(), xz.finish()].map(|file| file.expect("written"));
    for file in files {
        let corpus = Corpus::new([("bomb", file)]);
        let read = |document, oversize| {
            let config =
                SourceConfig { document, oversize, max_document_bytes: bound(BOUND), ..corpus.lines() };
            run(async {
                let budget = Budget::new(64 << 20);
                let source = open(&config).await.with_budget(budget.clone());
                let seen = all(source.documents(&LaneCursor::default())).await;
                assert!(budget.peak() < 16 << 20, "{}", budget.peak());
                texts(&seen).into_iter().map(str::to_owned).collect::<Vec<_>>()
            })
        };
        assert_eq!(read(DocumentKind::Line, Oversize::Skip), ["before", "after"]);
        let cut = read(DocumentKind::Paragraph, Oversize::Truncate);
        assert_eq!(cut.iter().map(String::len).collect::<Vec<_>>(), [6, BOUND, 5]);
        let cut = read(DocumentKind::File, Oversize::Truncate);
        assert_eq!(cut.iter().map(String::len).collect::<Vec<_>>(), [BOUND]);
    }
}
