//! Finished rows that lie on a server: the batches are those of the rows on disk.

use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::Cursor;
use millstream::config::{ByteCount, Config, SourceConfig, TokenizerKind};
use millstream::prepare::prepare_rows;
use proptest::prelude::*;

use super::corpus::{assert_resumes, batches, block_on, chain, config, fault, files, lines, rows, write};
use crate::support::server::{Content, Fault, Server};

/// Rows on disk, and a server that has them too.
struct Case {
    directory: tempfile::TempDir,
    near: Config,
    server: Server,
}

impl Case {
    fn of(counts: &[usize], change: impl Fn(&mut Config)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &files(counts));
        let mut text = config(lines(vec![format!("{}/**/*.txt", directory.path().display())]));
        text.tokenizer.kind = TokenizerKind::Bytes;
        change(&mut text);
        let path = directory.path().join("rows");
        block_on(prepare_rows(&text, &path, |_| {})).expect("prepared");
        let entries = std::fs::read_dir(&path).expect("rows").flatten();
        let served = entries.map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (format!("far/{name}"), Content::new(std::fs::read(entry.path()).expect("a file")))
        });
        let server = Server::new(served.collect::<Vec<_>>());
        let near = Config { sources: vec![SourceConfig::rows(path.display().to_string())], ..text };
        Self { directory, near, server }
    }

    fn far(&self) -> Config {
        Config { sources: vec![SourceConfig::rows(self.server.url("far"))], ..self.near.clone() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn batches_are_those_of_the_rows_on_disk(
        counts in prop::collection::vec(1_usize..150, 1..4),
        faults in prop::collection::vec(fault(), 1..12),
        memory in 500_u64..4000,
        seq_len in prop::sample::select(vec![30_usize, 96, 700]),
        holdout in prop::sample::select(vec![0.0, 0.3]),
    ) {
        let case = Case::of(&counts, |text| {
            (text.pipeline.seq_len, text.pipeline.holdout) = (seq_len, holdout);
        });
        let near = block_on(batches(&case.near)).expect("no errors");
        let mut far = case.far();
        far.pipeline.memory = ByteCount(memory << 10);
        let nth = AtomicUsize::new(0);
        let faults = [faults, vec![Fault::Nothing]].concat();
        case.server.with_faults(move |_| faults[nth.fetch_add(1, Ordering::SeqCst) % faults.len()]);
        let found = block_on(batches(&far)).expect("no errors");
        prop_assert_eq!(rows(&found), rows(&near));
        let cursors = |batches: &[millstream::Batch]| -> Vec<Cursor> {
            batches.iter().map(|batch| batch.cursor().clone()).collect()
        };
        prop_assert_eq!(cursors(&found), cursors(&near));
    }
}

#[test]
fn they_resume_and_damage_is_found() {
    let case = Case::of(&[700, 40, 900, 3], |text| text.pipeline.batch_size = 40);
    assert_resumes(&case.far(), 40);
    let segment = std::fs::read(case.directory.path().join("rows/00000-00000.rows")).expect("a segment");
    for byte in [100, segment.len() / 2] {
        let mut damaged = segment.clone();
        damaged[byte] ^= 1;
        case.server.set("far/00000-00000.rows", Content::new(damaged));
        let said = chain(&block_on(batches(&case.far())).map(drop).expect_err("an error"));
        assert!(said.contains("far/00000-00000.rows (byte "), "byte {byte}: {said}");
    }
    case.server.set("far/00000-00000.rows", Content::new(segment[8..].to_vec()));
    let said = chain(&block_on(batches(&case.far())).map(drop).expect_err("an error"));
    assert!(said.contains("the list of segments says"), "{said}");
}
