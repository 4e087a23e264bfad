//! The laws, over generated corpora and configs, through the loader.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use millstream::batch::Piece;
use millstream::config::{ByteCount, Config, DocumentKind, Last, PackRule, Uneven};
use millstream::cursor::Digest;
use millstream::tokenizer::{ByteTokenizer, Tokenizer};
use millstream::{Batch, Error, Loader, Result};
use proptest::prelude::*;

use crate::corpus::{
    all, block_on, builder, configs, corpora, digests, lines, open, resumes, resumes_of, rules,
};
use crate::support::tokenizers::before;
use crate::support::wait::{PATIENCE, until};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn order_does_not_depend_on_what_runs_ahead(
        corpus in corpora(), config in configs(), workers in 1_usize..9, depth in 1_usize..17, memory in 300_u64..2000,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        let expected = block_on(all(&config)).expect("no errors");
        config.pipeline.workers = workers.into();
        config.pipeline.depth = depth.into();
        config.pipeline.memory = ByteCount(memory << 10);
        let batches = block_on(all(&config)).expect("no errors");
        prop_assert_eq!(digests(&batches), digests(&expected));
        let cursors = |batches: &[Batch]| batches.iter().map(|batch| batch.cursor().clone()).collect::<Vec<_>>();
        prop_assert_eq!(cursors(&batches), cursors(&expected));
    }

    #[test]
    fn resume_is_exact_at_every_batch(
        corpus in corpora(), config in configs(), (uneven, last) in rules(), endless: bool, holdout: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let config = Config { sources: vec![corpus.source(directory.path())], ..config };
        let mut config = config;
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        if holdout {
            config.pipeline.holdout = 0.4;
            prop_assume!(!matches!(block_on(all(&config)), Err(Error::Corpus { .. })), "all is held out");
        }
        if endless && !holdout && config.pipeline.lanes() == 1 {
            config.pipeline.epochs = None;
        }
        let cuts = config.pipeline.epochs.is_some() && (uneven == Uneven::Stop || last == Last::Drop);
        prop_assume!(!(cuts && matches!(block_on(all(&config)), Err(Error::Corpus { .. }))), "nothing is left");
        prop_assert_eq!(block_on(resumes(&config)), Ok(()));
    }

    #[test]
    fn a_cursor_has_the_digest_of_the_rows_before_it(
        corpus in corpora(), config in configs(), (uneven, last) in rules(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        (config.pipeline.uneven, config.pipeline.last) = (uneven, last);
        let batches = block_on(all(&config));
        prop_assume!(!matches!(batches, Err(Error::Corpus { .. })), "the rules leave no batch");
        let (mut digests, mut turn) = (vec![Digest::default(); config.pipeline.lanes()], 0);
        for batch in batches.expect("no errors") {
            // Rows that only fill up the last batch are no lane's.
            let turns = batch.cursor().turn() as usize - turn;
            for row in 0..turns {
                let digest = &mut digests[(turn + row) % config.pipeline.lanes()];
                *digest = digest.after(&batch.row(row)[..batch.lengths()[row] as usize]);
            }
            turn += turns;
            prop_assert_eq!(batch.cursor().digest(), Digest::combine(digests.iter().copied()));
        }
    }

    #[test]
    fn every_document_comes_once_an_epoch(corpus in corpora(), config in configs()) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut expected: Vec<(PathBuf, u64, String)> = corpus.write(directory.path());
        let epochs = config.pipeline.epochs.expect("a number");
        let config = Config { sources: vec![corpus.source(directory.path())], ..config };
        let batches = block_on(all(&config)).expect("no errors");
        let mut found = deliveries(&batches);
        found.sort();
        expected = expected.iter().flat_map(|document| vec![document.clone(); epochs as usize]).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn held_out_documents_and_the_others_are_the_corpus(corpus in corpora(), config in configs(), holdout in 0.0..0.9_f64) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut expected: Vec<(PathBuf, u64, String)> = corpus.write(directory.path());
        let mut config = Config { sources: vec![corpus.source(directory.path())], ..config };
        config.pipeline.epochs = Some(1);
        config.pipeline.holdout = holdout;
        let mut found = match block_on(all(&config)) {
            Err(Error::Corpus { .. }) => Vec::new(), // All is held out.
            batches => deliveries(&batches.expect("no errors")),
        };
        let held_out: Vec<Batch> = block_on(async {
            builder(&config).with_held_out(true).open().await?.try_collect().await
        }).expect("no errors");
        let held_out = deliveries(&held_out);
        let texts: Vec<&String> = found.iter().map(|(_, _, text)| text).collect();
        prop_assert!(held_out.iter().all(|(_, _, text)| !texts.contains(&text)), "copies fall on one side");
        found.extend(held_out);
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

/// The documents that the batches are made of, as path, byte and text: put together from their pieces.
pub(crate) fn deliveries(batches: &[Batch]) -> Vec<(PathBuf, u64, String)> {
    let mut documents: BTreeMap<(PathBuf, u64), Vec<Vec<u32>>> = BTreeMap::new();
    // What is further ahead than one id stands in the next row too.
    let own =
        |batch: &Batch, piece: &Piece| piece.from as usize..(piece.to as usize).min(batch.seq_len() + 1);
    let mut pieces: Vec<_> =
        batches.iter().flat_map(|batch| batch.pieces().iter().map(move |piece| (batch, piece))).collect();
    pieces.retain(|(batch, piece)| !own(batch, piece).is_empty());
    // Best-fit packing delivers a long document's rows in any order.
    pieces.sort_by_key(|(_, piece)| piece.offset);
    for (batch, piece) in pieces {
        let key = (batch.path(piece).to_owned(), piece.position.byte);
        let ids = &batch.row(piece.row as usize)[own(batch, piece)];
        let deliveries = documents.entry(key).or_default();
        // A row that goes on with a document begins with the last id of the row before.
        let so_far =
            deliveries.iter_mut().find(|so_far| piece.from == 0 && so_far.len() == piece.offset as usize + 1);
        match so_far {
            Some(so_far) => {
                assert_eq!(so_far.last(), ids.first());
                so_far.extend(&ids[1..]);
            }
            None => {
                assert_eq!(piece.offset, 0, "a document is delivered from its start");
                deliveries.push(ids.to_vec());
            }
        }
    }
    documents
        .into_iter()
        .flat_map(|((path, byte), deliveries)| {
            deliveries.into_iter().map(move |ids| {
                let ids = ids.strip_suffix(&[256]).unwrap_or(&ids);
                (path.clone(), byte, ByteTokenizer.decode(ids))
            })
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn dropping_the_loader_ends_its_tasks_and_closes_its_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 100_000);
    config.pipeline.epochs = None;
    // Each lane has a task, and so do the batches.
    (config.pipeline.lanes, config.sources[0].split) = (4.into(), Some(ByteCount(64 << 10)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    for batches in [0, 1, 2, 50] {
        runtime.block_on(async {
            let mut loader = open(&config, None).await.expect("it opens");
            for _ in 0..batches {
                loader.next().await.expect("endless").expect("no error");
            }
            drop(loader);
            let open_files = || {
                let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors");
                let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
                targets.filter(|target| target.starts_with(directory.path())).count()
            };
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            until("the end of its tasks and files", || tasks() == 0 && open_files() == 0).await;
        });
    }
}

/// A tokenizer that takes its time, or panics at a line.
fn slow(rest: Duration) -> Arc<dyn Tokenizer> {
    before("slow", move |text| {
        assert!(text != "line 777 of the corpus", "it does not like 777");
        std::thread::sleep(rest);
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_tokenizer_is_an_error_at_its_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 2000);
    config.pipeline.window = 1.into();
    let loader =
        Loader::builder(&config).with_tokenizer(slow(Duration::ZERO)).open().await.expect("it opens");
    let batches: Vec<Result<Batch>> = loader.collect().await;
    let (last, good) = batches.split_last().expect("some");
    assert!(good.iter().all(Result::is_ok));
    let error = last.as_ref().expect_err("the panic").to_string();
    let path = directory.path().join("lines.txt");
    let byte: usize = (0..777).map(|line| format!("line {line} of the corpus\n").len()).sum();
    let expected = format!(
        "{}:778 (byte {byte}): the tokenizer panicked: it does not like 777; \
         change the tokenizer, or take the document out, or let some be skipped with on_error = {{ skip = 100 }}",
        path.display()
    );
    assert_eq!(error, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_measured_and_the_stage_at_fault_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 600);
    // So that there are many jobs, and whatever the machine no more workers than these.
    config.pipeline.memory = "1MiB".parse().expect("a size");
    config.pipeline.workers = 2.into();
    let began = Instant::now();
    // Again until it is seen: a task that gets no core for as long as all rests take is rightly at fault instead.
    let meters = loop {
        let builder = Loader::builder(&config).with_tokenizer(slow(Duration::from_millis(2)));
        let mut loader = builder.open().await.expect("it opens");
        while let Some(batch) = loader.next().await {
            batch.expect("no error");
        }
        let meters = loader.meters();
        let is_seen = meters.at_fault == Some("tokenize") && meters.wait_share > 0.5;
        if is_seen || began.elapsed() > PATIENCE {
            break meters;
        }
    };
    assert_eq!(meters.at_fault, Some("tokenize"), "{meters:?}");
    assert!(meters.wait_share > 0.5, "{meters:?}");
    for name in ["shuffle", "pack", "batch", "prefetch"] {
        let stage = meters.stages.iter().find(|stage| stage.stage == name).expect("a stage");
        assert!(stage.wait_in_seconds > 0.0, "{name} waits: {meters:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_stages_resume_exactly_and_are_part_of_the_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 300);
    std::fs::write(directory.path().join("more.txt"), "another\n7\nline 7 and more\n".repeat(20))
        .expect("a file");
    config.sources[0].paths = vec![format!("{}/*.txt", directory.path().display())];
    config.pipeline.lanes = 2.into();
    let builder = |name: &str| {
        builder(&config).stage(name, |documents, _| {
            documents.try_filter(|document| std::future::ready(document.value.text().contains('7'))).boxed()
        })
    };
    assert_eq!(resumes_of(|| builder("sevens"), 60).await, Ok(()));
    let start = builder("sevens").open().await.expect("it opens").start().clone();
    match builder("eights").with_cursor(start).open().await {
        Err(Error::Fingerprint { field, saved, now }) => {
            assert_eq!([field, saved, now], ["stage.0", "sevens", "eights"])
        }
        other => panic!("expected a refusal, not {other:?}"),
    }
}

#[test]
fn a_loader_whose_runtime_is_gone_is_an_error_and_no_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut loader = runtime.block_on(open(&config, None)).expect("it opens");
    runtime.shutdown_timeout(PATIENCE);
    let outcome = futures::executor::block_on(async {
        loop {
            match loader.next().await {
                Some(Ok(_)) => {}
                end => break end,
            }
        }
    });
    // Who notices first: a task's end, or a read or a job that was called off.
    let is_told = |stage: &str| ["prefetch", "source", "tokenize"].contains(&stage);
    assert!(matches!(outcome, Some(Err(Error::Panic { stage, .. })) if is_told(stage)), "{outcome:?}");
}

#[tokio::test]
async fn a_corpus_without_documents_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 1);
    std::fs::write(directory.path().join("lines.txt"), "\n\n\n").expect("a file");
    let mut loader = open(&config, None).await.expect("it opens");
    assert!(matches!(loader.next().await, Some(Err(Error::Corpus { .. }))));
    assert!(loader.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stage_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 5000);
    let bytes: usize = (0..5000).map(|line| format!("line {line} of the corpus").len()).sum();
    let mut loader = open(&config, None).await.expect("it opens");
    let mut tokens = 0;
    while let Some(batch) = loader.next().await {
        tokens += batch.expect("no error").tokens() as u64;
    }
    let ids = (bytes + 5000) as u64;
    assert_eq!(tokens, ids - 1, "every id but the first is a target once");
    let stage = |name| loader.meters().stages.into_iter().find(|stage| stage.stage == name).expect("a stage");
    assert_eq!((stage("source").documents, stage("source").bytes), (5000, bytes as u64));
    assert_eq!((stage("tokenize").documents, stage("tokenize").tokens), (5000, ids));
    assert_eq!(stage("shuffle").documents, 5000);
    assert_eq!((stage("pack").documents, stage("pack").tokens), (5000, ids - 1));
    assert_eq!(stage("batch").tokens, ids - 1);
    assert_eq!((stage("prefetch").tokens, stage("prefetch").bytes), (ids - 1, stage("batch").bytes));
    for name in ["source", "tokenize", "shuffle", "pack", "batch", "prefetch"] {
        assert!(stage(name).busy_seconds > 0.0, "{name} works");
    }
}

#[tokio::test]
async fn a_cursor_of_another_order_is_refused_with_what_differs() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 500);
    let mut loader = open(&config, None).await.expect("it opens");
    let cursor = loader.next().await.expect("a batch").expect("no error").cursor().clone();

    let refused = async |change: fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        match open(&config, Some(&cursor)).await {
            Err(Error::Fingerprint { field, saved, now }) => (field, saved, now),
            other => panic!("expected a refusal, not {other:?}"),
        }
    };
    let expect = |field: &str, saved: &str, now: &str| (field.to_owned(), saved.to_owned(), now.to_owned());
    assert_eq!(refused(|config| config.seed = 7).await, expect("seed", "42", "7"));
    assert_eq!(
        refused(|config| config.pipeline.window = 9.into()).await,
        expect("pipeline.window", "64", "9")
    );
    assert_eq!(refused(|config| config.pipeline.seq_len = 9).await, expect("pipeline.seq_len", "64", "9"));
    assert_eq!(refused(|config| config.pipeline.lanes = 2.into()).await, expect("pipeline.lanes", "1", "2"));
    assert_eq!(
        refused(|config| config.pipeline.pack = PackRule::Pad).await,
        expect("pipeline.pack", "concat", "pad")
    );
    assert_eq!(
        refused(|config| config.tokenizer.eos = None).await,
        expect("tokenizer.eos", "<|endoftext|>", "none")
    );
    let (field, ..) = refused(|config| config.sources[0].document = DocumentKind::File).await;
    assert_eq!(field, "source.0.documents");

    std::fs::write(directory.path().join("lines.txt"), "another\n").expect("a file");
    assert_eq!(refused(|_| ()).await.0, "source.0.files");
}

#[tokio::test]
async fn a_file_that_was_edited_to_the_same_length_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 50_000);
    let (path, cursor) =
        (directory.path().join("lines.txt"), all(&config).await.expect("batches")[3].cursor().clone());
    let text = std::fs::read(&path).expect("a file");
    for at in [0, text.len() / 2, text.len() - 2] {
        let mut edited = text.clone();
        edited[at] = if edited[at] == b'x' { b'y' } else { b'x' };
        std::fs::write(&path, edited).expect("edited");
        let error = open(&config, Some(&cursor)).await.map(|_| ()).expect_err("refused");
        assert!(matches!(&error, Error::Fingerprint { field, .. } if field == "source.0.files"), "{error}");
        assert!(error.to_string().contains("the text of some files has changed"), "{error}");
    }
    // A copy, or a file that was only touched, is the same.
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, text).expect("copied");
    open(&config, Some(&cursor)).await.expect("it resumes");
}

#[tokio::test]
async fn what_runs_ahead_and_the_batch_size_may_change_at_a_resume() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 500);
    let batches = all(&config).await.expect("no errors");
    config.pipeline.batch_size = 1;
    config.pipeline.workers = 7.into();
    config.pipeline.depth = 9.into();
    let rest: Vec<Batch> = open(&config, Some(batches[3].cursor()))
        .await
        .expect("it opens")
        .try_collect()
        .await
        .expect("no errors");
    let expected: Vec<u32> = batches[4..].iter().flat_map(|batch| batch.ids().to_vec()).collect();
    assert_eq!(rest.iter().flat_map(|batch| batch.ids().to_vec()).collect::<Vec<_>>(), expected);
}
