//! The files of a run: what a resume says of those that have changed.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use millstream::Error;
use millstream::config::{Config, SourceConfig, TokenizerConfig};
use millstream::tokenizer::ByteTokenizer;
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};
use millstream_train::{self, RunDirectory};

use crate::small;
use crate::support::runtime::block_on;

/// A run of two steps over six files of one source and one of another.
fn config(directory: &Path) -> RunConfig {
    let text = |n: usize| "A line of text.\n".repeat(n);
    for (n, name) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        write(directory, &format!("web/{name}.txt"), &text(20 + n));
    }
    write(directory, "books/one.txt", &text(20));
    let mut config = RunConfig {
        model: ModelConfig { layers: 1, d_ff: 16, ..small::shape() },
        data: Config::default().with_tokenizer(TokenizerConfig::bytes()),
        ..RunConfig::default()
    };
    config.data.sources = ["web", "books"]
        .map(|name| {
            let paths = format!("{}/{name}/*.txt", directory.display());
            SourceConfig { name: Some(name.to_owned()), ..SourceConfig::text(paths) }
        })
        .into();
    let pipeline = &mut config.data.pipeline;
    (pipeline.seq_len, pipeline.batch_size, pipeline.lanes) = (8, 4, 4.into());
    (config.train.steps, config.train.checkpoint_every, config.train.out) = (2, 1, directory.join("run"));
    config
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

/// Adds, removes, renames and lengthens files of the source `web`.
fn change(directory: &Path) {
    let path = |name: &str| directory.join("web").join(name);
    write(directory, "web/new.txt", "new\n");
    std::fs::remove_file(path("b.txt")).expect("removed");
    std::fs::rename(path("c.txt"), path("moved.txt")).expect("renamed");
    write(directory, "web/d.txt", "another length\n");
}

/// What the error of changed files says, without the directory's name.
fn changes(directory: &Path, error: &Error) -> String {
    let said = error.to_string().replace(&format!("{}/", directory.display()), "");
    let start = "the cursor does not match this run: `source.web.files` was 6 files, 2160 bytes, BLAKE3 ";
    assert!(said.starts_with(start), "{said}");
    let (_, changes) = said.split_once("and is now 6 files, 1475 bytes, BLAKE3 ").expect("what is now");
    changes[changes.find('(').expect("what has changed")..].to_owned()
}

const CHANGES: &str = "(added: web/new.txt; removed: web/b.txt; renamed: web/c.txt to web/moved.txt; other lengths: \
                       web/d.txt (368 bytes, now 15)); set it back to resume exactly, or begin anew";

#[test]
fn a_resumed_run_names_the_files_that_have_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path());
    block_on(async {
        let tokenizer = Arc::new(ByteTokenizer);
        millstream_train::run(&config, tokenizer.clone(), None, &mut (), pending()).await.expect("a run");
        let listing = RunDirectory::open(&config.train.out).expect("a run").files();
        assert_eq!(std::fs::read_to_string(&listing).expect("a listing").lines().count(), 7);

        let longer = RunConfig { train: TrainConfig { steps: 3, ..config.train.clone() }, ..config };
        millstream_train::resume(&longer, tokenizer.clone(), &mut (), pending()).await.expect("resumed");
        change(directory.path());
        let resumed = millstream_train::resume(&longer, tokenizer.clone(), &mut (), pending()).await;
        assert_eq!(changes(directory.path(), &resumed.expect_err("refused")), CHANGES);

        // Nothing is said of the files where something else has changed.
        let other = RunConfig { data: longer.data.clone().with_seed(7), ..longer.clone() };
        let resumed = millstream_train::resume(&other, tokenizer.clone(), &mut (), pending()).await;
        let said = resumed.expect_err("refused").to_string();
        assert!(said.contains("`seed` was 42 and is now 7; set it back"), "{said}");

        // A run without a listing is refused all the same.
        std::fs::remove_file(listing).expect("removed");
        let resumed = millstream_train::resume(&longer, tokenizer, &mut (), pending()).await;
        let said = resumed.expect_err("refused").to_string();
        assert!(said.contains("`source.web.files` was 6 files, 2160 bytes"), "{said}");
    });
}
