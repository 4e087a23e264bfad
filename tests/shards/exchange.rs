//! Tokens of other programs: in, and out again.

use std::fs;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use millstream::config::{Config, SourceConfig, SourceKind, TokenizerKind};
use millstream::prepare::{Import, TokenFormat, export, import};
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Loader, Result};
use proptest::prelude::*;

use crate::text::{Case, run};

const EOS: u32 = 256;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokens").join(name)
}

const NANOGPT: TokenFormat = TokenFormat::NanoGpt;
const MEGATRON: TokenFormat = TokenFormat::Megatron;

fn how(width: usize) -> Import {
    Import { eos: Some(EOS), width }
}

/// All documents of a shard directory, each in rows of its own.
pub(crate) fn documents(directory: &Path) -> Result<Vec<String>> {
    let paths = vec![directory.display().to_string()];
    let source = SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() };
    let mut config = Config { sources: vec![source], ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    config.pipeline.pack = millstream::config::PackRule::Pad;
    (config.pipeline.lanes, config.pipeline.window) = (1.into(), 1.into());
    config.pipeline.seq_len = 1000;
    config.pipeline.shuffle_splits = false;
    config.pipeline.epochs = Some(1);
    let batches: Vec<Batch> = run(async { Loader::open(&config).await?.try_collect().await })?;
    let piece = |batch: &Batch| {
        let text = |piece: &millstream::batch::Piece| {
            let ids = &batch.row(piece.row as usize)[piece.from as usize..piece.to as usize];
            ids.iter().map(|id| char::from(*id as u8)).collect::<String>()
        };
        batch.pieces().iter().map(text).collect::<Vec<String>>()
    };
    Ok(batches.iter().flat_map(piece).collect())
}

fn written() -> Vec<String> {
    (0..20).map(|i| format!("document {i}, {}", "of words ".repeat(i % 4))).collect()
}

#[test]
fn what_others_wrote_is_read() {
    let cases = [("nanogpt.bin", NANOGPT, 2), ("wide.bin", NANOGPT, 4), ("megatron.bin", MEGATRON, 2)];
    for (name, format, width) in cases {
        let how = how(width);
        let directory = tempfile::tempdir().expect("a directory");
        let done = import(&data(name), format, how, &ByteTokenizer, directory.path()).expect("imported");
        assert_eq!(done.documents, 20, "{name}");
        assert_eq!(documents(directory.path()).expect("no error"), written(), "{name}");
        let again =
            import(&data(name), format, how, &ByteTokenizer, directory.path()).expect_err("it is full");
        assert!(again.to_string().contains("there are token shards already"), "{again}");
    }
}

#[test]
fn what_is_written_is_what_others_wrote() {
    let directory = tempfile::tempdir().expect("a directory");
    import(&data("nanogpt.bin"), NANOGPT, how(2), &ByteTokenizer, directory.path()).expect("imported");
    let out = directory.path().join("out.bin");
    export(directory.path(), TokenFormat::NanoGpt, &out, Some(EOS)).expect("exported");
    assert_eq!(fs::read(&out).expect("read"), fs::read(data("nanogpt.bin")).expect("read"));
    export(directory.path(), TokenFormat::Megatron, &out, Some(EOS)).expect("exported");
    assert_eq!(fs::read(&out).expect("read"), fs::read(data("megatron.bin")).expect("read"));
    let again = tempfile::tempdir().expect("a directory");
    let done = import(&out, MEGATRON, how(2), &ByteTokenizer, again.path()).expect("imported");
    assert_eq!((done.documents, documents(again.path()).expect("no error")), (20, written()));
}

#[test]
fn what_cannot_be_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |name: &str, format: TokenFormat, how: Import| {
        import(&data(name), format, how, &ByteTokenizer, &directory.path().join("new"))
            .expect_err("a refusal")
            .to_string()
    };
    let without = Import { eos: None, ..how(2) };
    assert!(refused("nanogpt.bin", NANOGPT, without).starts_with("eos: in such files only an id marks"));
    let wide = refused("nanogpt.bin", NANOGPT, how(4));
    assert!(
        wide.contains("beyond the tokenizer's vocabulary of 257") || wide.contains("not a whole number"),
        "{wide}"
    );
    let index = refused("nanogpt.bin", MEGATRON, how(2));
    assert!(index.contains("nanogpt.idx: cannot map"), "{index}");
    let width = refused("nanogpt.bin", NANOGPT, how(3));
    assert_eq!(width, "width: 3 must be 2, 4 or 8, the bytes of an id");
    let missing = export(directory.path(), TokenFormat::NanoGpt, &directory.path().join("x"), Some(EOS));
    let missing = missing.expect_err("nothing is there").to_string();
    assert!(missing.contains("there is no manifest of token shards; name a directory"), "{missing}");
}

#[test]
fn a_document_with_the_token_that_ends_documents_is_not_cut() {
    let mut case = Case::new(&["one\ntwo a b\nthree\na\n".to_owned()], |_| {});
    case.config.pipeline.epochs = Some(1);
    case.prepare().expect("prepared");
    let (shards, out) = (case.shards(), case.directory.path().join("ids.bin"));
    // The letter a is in two documents.
    let eos = Some(u32::from(b'a'));
    let error = export(&shards, NANOGPT, &out, eos).expect_err("it would cut them").to_string();
    let place = format!("{} (byte 4)", case.directory.path().join("0.txt").display());
    assert_eq!(
        error,
        format!(
            "2 documents contain the token that ends documents, the first at {place}, which would cut them in such a \
             file; name another token, or export to megatron, whose index keeps them whole"
        )
    );
    assert!(!out.exists(), "nothing is written");
    assert_eq!(export(&shards, NANOGPT, &out, Some(EOS)).expect("no document has it").documents, 4);
    // The index says where documents end.
    assert_eq!(export(&shards, MEGATRON, &out, eos).expect("exported").documents, 4);
    let again = case.directory.path().join("again");
    let done = import(&out, MEGATRON, Import { eos, width: 2 }, &ByteTokenizer, &again).expect("imported");
    assert_eq!(done.documents, 4);
    assert_eq!(documents(&again).expect("read"), documents(&shards).expect("read"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_damage_panics(index: prop::sample::Index, value: u8, cut: prop::sample::Index, of_index: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["megatron.bin", "megatron.idx"] {
            let mut bytes = fs::read(data(name)).expect("read");
            if of_index == name.ends_with("idx") {
                let at = index.index(bytes.len());
                bytes[at] = value;
                bytes.truncate(bytes.len() - cut.index(4) * cut.index(bytes.len()) / 4);
            }
            fs::write(directory.path().join(name), bytes).expect("written");
        }
        let shards = directory.path().join("shards");
        if import(&directory.path().join("megatron.bin"), MEGATRON, how(2), &ByteTokenizer, &shards).is_ok() {
            documents(&shards).expect("what was imported can be read");
        }
    }
}
