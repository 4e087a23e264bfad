//! What a loader says of itself: each of its stages is made slow in turn, and the verdict names it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::{ByteCount, Config, SourceConfig, SourceKind};
use millstream::meter::Fault;
use millstream::tokenizer::{ByteTokenizer, Tokenizer};
use millstream::{Document, Error, LaneCursor, Loader, Meters, Tokens, Tracked};

use crate::support::tokenizers::before;
use crate::support::wait::{PATIENCE, until};

/// Bytes as ids, after a rest before each document.
fn slow(rest: Duration) -> Arc<dyn Tokenizer> {
    before("slow", move |_| {
        std::thread::sleep(rest);
        Ok(())
    })
}

/// `count` documents of `length` bytes, a line each, and a config that reads them in order.
fn lines(directory: &Path, count: usize, length: usize) -> Config {
    let text: String = (0..count).map(|line| format!("{line:0length$}\n")).collect();
    std::fs::write(directory.join("lines.txt"), text).expect("a file");
    let paths = vec![format!("{}/lines.txt", directory.display())];
    config(SourceConfig { paths, split: Some(ByteCount::mib(64)), ..SourceConfig::default() })
}

fn config(source: SourceConfig) -> Config {
    let mut config = Config { sources: vec![source], ..Config::default() };
    let pipeline = &mut config.pipeline;
    (pipeline.seq_len, pipeline.batch_size, pipeline.window) = (256, 4, 1.into());
    (pipeline.workers, pipeline.depth, pipeline.epochs) = (2.into(), 4.into(), Some(1));
    (pipeline.memory, pipeline.lanes) = (ByteCount::mib(64), 1.into());
    config
}

/// Reads a loader to its end as fast as it goes, and gives its meters.
async fn drain(mut loader: Loader) -> Meters {
    while let Some(batch) = loader.next().await {
        batch.expect("no error");
    }
    loader.meters()
}

/// Opens and reads to the end again and again until what is at fault is seen, and gives those meters; after a long time
/// the last ones. On a busy machine, a task that gets no core for as long as a stage is slow is rightly at fault instead.
async fn drain_until(fault: Fault, open: impl AsyncFn() -> Loader) -> Meters {
    let began = Instant::now();
    loop {
        let meters = drain(open().await).await;
        if meters.verdict().fault == Some(fault) || began.elapsed() > PATIENCE {
            return meters;
        }
    }
}

async fn open(config: &Config, tokenizer: Arc<dyn Tokenizer>) -> Loader {
    Loader::builder(config).with_tokenizer(tokenizer).open().await.expect("it opens")
}

#[track_caller]
fn assert_fault(meters: &Meters, fault: Fault, finding: &str) {
    let verdict = meters.verdict();
    assert_eq!(verdict.fault, Some(fault), "{verdict}\n{}", meters.table());
    assert!(verdict.finding.contains(finding), "{verdict}");
    assert_eq!(verdict.stage.as_deref(), meters.at_fault, "{verdict}");
    assert!(meters.wait_share > 0.5 && verdict.sentence.starts_with("the trainer waits "), "{verdict}");
    let waited: f64 = meters.waits.by_cause().iter().map(|(_, seconds)| seconds).sum();
    assert!((waited - meters.consumer_wait_seconds).abs() < 1e-6, "the causes add up: {:?}", meters.waits);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tokenizer_is_at_fault() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 300, 8 << 10);
    let slow = slow(Duration::from_millis(5));
    let meters = drain_until(Fault::Tokenize, async || open(&config, slow.clone()).await).await;
    assert_fault(&meters, Fault::Tokenize, "tokenize ");
    let tokenize = meters.stage("tokenize").expect("it");
    assert_eq!((tokenize.workers, tokenize.workers_busy, tokenize.capacity), (2, 0, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_source_is_at_fault() {
    let directory = tempfile::tempdir().expect("a directory");
    // What is read and parsed is a thousand times what is tokenized.
    let rest = "x".repeat(128 << 10);
    let text: String =
        (0..300).map(|line| format!("{{\"rest\": \"{rest}\", \"text\": \"line {line:0100}\"}}\n")).collect();
    std::fs::write(directory.path().join("rows.jsonl"), text).expect("a file");
    let paths = vec![format!("{}/rows.jsonl", directory.path().display())];
    let field = Some("text".to_owned());
    let config = config(SourceConfig { kind: SourceKind::Jsonl, field, paths, ..SourceConfig::default() });
    let meters = drain_until(Fault::Source, async || open(&config, Arc::new(ByteTokenizer)).await).await;
    assert_fault(&meters, Fault::Source, "source reads and decodes, on ");
    assert_eq!(meters.stage("source").expect("it").workers, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_custom_documents_are_at_fault() {
    let mut config = config(SourceConfig::default());
    config.sources.clear();
    let document = |n: u64| Tracked::new(Document::new(format!("{n:0500}")), LaneCursor::after(n + 1));
    for blocks in [false, true] {
        let open = async || {
            let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
            let loader = loader.documents("slow", move |_, start| {
                let numbers = stream::iter(start.documents..100);
                let rest = move || if blocks { (5, 0) } else { (0, 5) };
                numbers
                    .then(move |n| async move {
                        let (blocked, awaited) = rest();
                        std::thread::sleep(Duration::from_millis(blocked));
                        tokio::time::sleep(Duration::from_millis(awaited)).await;
                        Ok(document(n))
                    })
                    .boxed()
            });
            loader.open().await.expect("it opens")
        };
        let meters = drain_until(Fault::Source, open).await;
        assert_fault(&meters, Fault::Source, "the custom documents come slowly");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_custom_stage_is_at_fault_whether_it_awaits_or_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 100, 500);
    let rest = Duration::from_millis(10);
    for (name, remedy) in [("asks", "make it faster"), ("cleans", "do its work on other threads")] {
        let open = async || {
            let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
            let loader = loader.stage(name, move |documents, _| match name {
                "asks" => documents
                    .and_then(move |document| async move {
                        tokio::time::sleep(rest).await;
                        Ok(document)
                    })
                    .boxed(),
                _ => documents.inspect_ok(move |_| std::thread::sleep(rest)).boxed(),
            });
            loader.open().await.expect("it opens")
        };
        let meters = drain_until(Fault::Own, open).await;
        assert_fault(&meters, Fault::Own, &format!("custom stage \"{name}\" is slow"));
        assert!(meters.verdict().remedy.expect("one").starts_with(remedy), "{}", meters.verdict());
        let names: Vec<&str> = meters.stages.iter().map(|stage| &*stage.stage).collect();
        assert_eq!(names, ["source", name, "tokenize", "shuffle", "pack", "batch", "prefetch"]);
    }
}

/// A document of a stream that counts.
fn numbered(n: u64) -> millstream::Result<Tracked<Document>> {
    Ok(Tracked::new(Document::new(format!("{n:0500}")), LaneCursor::after(n + 1)))
}

/// Whenever it begins on a group, its input has nothing more, and has more a moment later.
#[tokio::test(flavor = "multi_thread")]
async fn a_custom_stage_that_takes_what_is_ready_is_at_fault_and_not_its_input() {
    let mut config = config(SourceConfig::default());
    config.sources.clear();
    let open = async || {
        let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
        let loader = loader.documents("pauses", |_, start| {
            let fours = stream::iter(start.documents..100).then(|n| async move {
                if n % 4 == 0 {
                    tokio::task::yield_now().await;
                }
                n
            });
            fours.map(numbered).boxed()
        });
        let loader = loader.stage("groups", |documents, _| {
            let groups = documents.ready_chunks(256).then(|group| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                stream::iter(group)
            });
            groups.flatten().boxed()
        });
        loader.open().await.expect("it opens")
    };
    let meters = drain_until(Fault::Own, open).await;
    assert_fault(&meters, Fault::Own, "custom stage \"groups\" is slow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_input_is_at_fault_though_a_task_of_a_custom_stage_asks_for_it() {
    let mut config = config(SourceConfig::default());
    config.sources.clear();
    let open = async || {
        let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
        let loader = loader.documents("pauses", |_, start| {
            let slow = stream::iter(start.documents..100).then(|n| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                n
            });
            slow.map(numbered).boxed()
        });
        let loader = loader.stage("apart", |documents, _| {
            let (sender, receiver) = futures::channel::mpsc::channel(4);
            tokio::spawn(documents.map(Ok).forward(sender));
            receiver.boxed()
        });
        loader.open().await.expect("it opens")
    };
    let meters = drain_until(Fault::Source, open).await;
    assert_fault(&meters, Fault::Source, "the custom documents");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_small_a_budget_is_at_fault() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 400, 1000);
    // More workers than there is room for documents in the least memory that a loader takes: that is some twelve.
    config.pipeline.workers = 16.into();
    config.pipeline.memory = ByteCount(1);
    let slow = slow(Duration::from_millis(5));
    let refused = Loader::builder(&config).with_tokenizer(slow.clone()).open().await.map(drop);
    let Err(Error::Config { problem, .. }) = refused else { panic!("it must be refused") };
    let least = problem.split("must be at least ").nth(1).and_then(|rest| rest.split(',').next());
    config.pipeline.memory = least.expect("a size").parse().expect("a size");
    let meters = drain_until(Fault::Memory, async || open(&config, slow.clone()).await).await;
    assert_fault(&meters, Fault::Memory, "the memory budget is full (");
    let least = (64 << 10) - 2 * size_of::<Tokens>() as u64;
    assert_eq!((meters.budget_bytes, meters.fullest_budget_bytes), (least, least));
    assert!(meters.has_ended);
}

#[tokio::test]
async fn a_runtime_of_one_thread_that_the_trainer_blocks_is_at_fault() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 100, 500);
    let open = async || {
        let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer));
        let loader = loader.stage("counts", |documents, _| {
            documents.inspect_ok(|_| std::thread::sleep(Duration::from_millis(3))).boxed()
        });
        loader.open().await.expect("it opens")
    };
    let meters = drain_until(Fault::Runtime, open).await;
    assert_fault(&meters, Fault::Runtime, "the runtime has one thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_trainer_never_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path(), 4000, 100);
    let mut loader = open(&config, Arc::new(ByteTokenizer)).await;
    let watch = loader.watch();
    for _ in 0..10 {
        loader.next().await.expect("a batch").expect("no error");
        // However long it takes here, the queue is full before the trainer is done with its step.
        until("a full queue", || watch.meters().stage("prefetch").expect("it").queued >= 4).await;
    }
    let meters = loader.meters();
    let verdict = meters.verdict();
    assert_eq!(verdict.sentence, "the trainer never waits (0.00%): the model is the bottleneck");
    assert_eq!((verdict.fault, meters.at_fault), (None, None));
    assert!(meters.batches == 10 && meters.batches_of_full >= 9, "the queue was full: {meters:?}");
    let prefetch = meters.stage("prefetch").expect("it");
    assert!(prefetch.wait_out_seconds > 0.0 && prefetch.capacity == 4, "{prefetch:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trainer_that_waits_is_seen_while_it_waits() {
    let mut config = config(SourceConfig::default());
    config.sources.clear();
    let document = |n: u64| Tracked::new(Document::new(format!("{n:01000}")), LaneCursor::after(n + 1));
    let loader = Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer)).documents(
        "ends in silence",
        move |_, start| {
            stream::iter((start.documents..20).map(move |n| Ok(document(n)))).chain(stream::pending()).boxed()
        },
    );
    let mut loader = loader.open().await.expect("it opens");
    let watch = loader.watch();
    assert_eq!(watch.meters().verdict().finding, "nobody has asked for one");
    let waits = tokio::spawn(async move { while loader.next().await.is_some() {} });
    let began = Instant::now();
    loop {
        let meters = watch.meters();
        let verdict = meters.verdict();
        if meters.wait_share > 0.9
            && verdict.fault == Some(Fault::Source)
            && meters.at_fault == Some("source")
        {
            assert_eq!(verdict.finding, "the custom documents come slowly");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{verdict}\n{}", meters.table());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    waits.abort();
}

/// Meters of the first 500 batches, and of those from the 800th on. The first half of the documents is slow to be
/// tokenized, the other slow to come.
async fn first_and_later(config: &Config) -> (Meters, Meters) {
    let half = before("half", |text| {
        if text.parse::<u32>().is_ok_and(|line| line < 600) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let loader = Loader::builder(config).with_tokenizer(half).stage("asks late", |documents, _| {
        documents
            .and_then(|document| async move {
                if document.value.text().parse::<u32>().is_ok_and(|line| line >= 700) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Ok(document)
            })
            .boxed()
    });
    let mut loader = loader.open().await.expect("it opens");
    let mut meters = Vec::new();
    let mut count = 0;
    while let Some(batch) = loader.next().await {
        batch.expect("no error");
        count += 1;
        if count == 500 || count == 800 {
            meters.push(loader.meters());
        }
    }
    let later = loader.meters().since(&meters[1]);
    (meters.swap_remove(0), later)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_interval_is_judged_by_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path(), 1200, 1000);
    // What runs ahead is less than a half.
    config.pipeline.memory = ByteCount::mib(4);
    let began = Instant::now();
    // Again until both are seen: the rests are short, and what gets no core for as long is rightly at fault instead.
    let (first, later) = loop {
        let (first, later) = first_and_later(&config).await;
        let stages = [&first, &later].map(|meters| meters.verdict().stage);
        let are_seen = stages[0].as_deref() == Some("tokenize") && stages[1].as_deref() == Some("own");
        if are_seen || began.elapsed() > PATIENCE {
            break (first, later);
        }
    };
    assert_eq!(first.verdict().stage.as_deref(), Some("tokenize"), "{}\n{}", first.verdict(), first.table());
    assert_eq!(later.verdict().stage.as_deref(), Some("own"), "{}\n{}", later.verdict(), later.table());
    assert!(later.stage("tokenize").expect("it").documents < 600, "{}", later.table());
}
