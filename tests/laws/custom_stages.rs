//! Custom stages behind the tokenizer and behind packing: they keep the laws, count, and fail in words.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{
    ByteCount, Config, PackRule, Packing, SourceConfig, SourceKind, TokenCacheConfig, TokenizerKind,
};
use millstream::conformance::{self, Stutter};
use millstream::cursor::Anchor;
use millstream::document::Part;
use millstream::loader::{DocumentStream, LoaderBuilder, SequenceStream, TokenStream};
use millstream::meter::Fault;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::verify::Plan;
use millstream::{Batch, Error, LaneCursor, Meters, Sequence, Source, Tokens, Tracked};

use crate::corpus::{all_of, builder, resumes_of, worlds_agree};
use crate::support::wait::wait_for;

fn source() -> SourceConfig {
    SourceConfig { paths: vec!["src/meter/*.rs".to_owned()], ..SourceConfig::default() }
}

/// Lines of this crate, read once.
fn config() -> Config {
    let mut config = Config { sources: vec![source()], ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    let pipeline = &mut config.pipeline;
    (pipeline.seq_len, pipeline.batch_size, pipeline.epochs) = (96, 8, Some(1));
    (pipeline.lanes, pipeline.window) = (4.into(), 24.into());
    config
}

/// Keeps documents of at least ten tokens.
fn longer(documents: TokenStream, _: &LaneCursor) -> TokenStream {
    documents.try_filter(|document| ready(document.value.len() >= 10)).boxed()
}

/// Drops documents whose ids stood before among the same seven.
fn distinct(documents: TokenStream, start: &LaneCursor) -> TokenStream {
    let (mut anchor, mut last, mut read, mut seen) = (Anchor::resume(start), *start, 0, HashSet::new());
    let next = move |document: Tracked<Tokens>| {
        if read == 7 {
            anchor.rebase(&last);
            seen.clear();
            read = 0;
        }
        read += 1;
        last = document.cursor;
        let is_new = seen.insert(document.value.ids().into_owned());
        let cursor = if is_new { anchor.deliver(&document.cursor) } else { None };
        ready(Ok(cursor.map(|cursor| Tracked::new(document.value, cursor))))
    };
    documents.try_filter_map(next).boxed()
}

/// Gives each document twice, the second time backwards.
fn doubled(documents: TokenStream, start: &LaneCursor) -> TokenStream {
    let mut anchor = Anchor::resume(start);
    let both = move |Tracked { value, cursor }: Tracked<Tokens>| {
        let backwards = value.with_ids(value.ids().iter().rev().copied().collect());
        let given = [value, backwards]
            .map(|value| anchor.deliver(&cursor).map(|cursor| Ok(Tracked::new(value, cursor))));
        anchor.rebase(&cursor);
        futures::stream::iter(given.into_iter().flatten())
    };
    documents.map_ok(both).try_flatten().boxed()
}

/// Masks a third of the ids, by their places.
fn masked(rows: SequenceStream, _: &LaneCursor) -> SequenceStream {
    let mask = |epoch: u64, row: Sequence| {
        row.map_ids(|place, id| match (place.position.byte + place.offset as u64 + epoch) % 3 {
            0 => 0,
            _ => id,
        })
    };
    rows.map_ok(move |row| {
        let epoch = row.cursor.epoch;
        row.map(|row| mask(epoch, row))
    })
    .boxed()
}

/// Lets two rows of three pass, and counts from where it held nothing.
fn two_of_three(rows: SequenceStream, start: &LaneCursor) -> SequenceStream {
    let (mut anchor, mut last, mut read) = (Anchor::resume(start), *start, 0);
    rows.try_filter_map(move |row| {
        if read == 3 {
            anchor.rebase(&last);
            read = 0;
        }
        read += 1;
        last = row.cursor;
        let cursor = if read < 3 { anchor.deliver(&row.cursor) } else { None };
        ready(Ok(cursor.map(|cursor| Tracked::new(row.value, cursor))))
    })
    .boxed()
}

fn staged(builder: LoaderBuilder) -> LoaderBuilder {
    builder
        .token_stage("longer", longer)
        .token_stage("distinct", distinct)
        .row_stage("masked", masked)
        .row_stage("two of three", two_of_three)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cursor_resumes_exactly_whatever_the_packing() {
    let plain = config();
    let mut best_fit = config();
    (best_fit.pipeline.pack, best_fit.pipeline.pack_window) = (PackRule::BestFit, 30);
    let mut twice = config();
    (twice.pipeline.epochs, twice.pipeline.ahead) = (Some(2), 3);
    let mut tokens = config();
    (tokens.pipeline.pack, tokens.pipeline.batch_tokens) = (PackRule::Pad, Some(1000));
    for config in [plain, best_fit, twice, tokens] {
        let builder = || staged(builder(&config));
        let batches = all_of(builder()).await.expect("no error").len();
        assert!(batches > 20, "{batches}");
        assert_eq!(resumes_of(builder, usize::MAX).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rank_has_its_rows_of_every_batch() {
    let config = config();
    let builder = |config: &Config| staged(builder(config));
    let one = all_of(builder(&config)).await.expect("no error");
    for worlds in [[2, 4], [4, 2]] {
        worlds_agree(&config, builder, &one, &worlds, 7).await.expect("ranks have the rows of one process");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lanes_make_their_rows_at_the_same_time() {
    let mut config = config();
    config.pipeline.lanes = 2.into();
    let arrived = Arc::new(AtomicUsize::new(0));
    let meets = builder(&config).row_stage("meets", move |rows, _| {
        let (arrived, mut is_first) = (arrived.clone(), true);
        let meet = move |_: &Tracked<Sequence>| {
            if std::mem::take(&mut is_first) {
                arrived.fetch_add(1, Ordering::SeqCst);
                // It keeps its thread until the other lane is here too.
                wait_for("the other lane", || (arrived.load(Ordering::SeqCst) == 2).then_some(()));
            }
        };
        rows.inspect_ok(meet).boxed()
    });
    let batches = all_of(meets).await.expect("no error");
    assert_eq!(ids(&batches), ids(&all_of(builder(&config)).await.expect("no error")));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stage_does_what_it_says() {
    let mut config = config();
    (config.pipeline.lanes, config.pipeline.window) = (1.into(), 1.into());
    (config.pipeline.pack, config.pipeline.shuffle_splits) = (PackRule::Pad, false);
    let texts = ["a line", "another line, a longer one", "another line, a longer one", "the last of these"];
    config.sources = vec![SourceConfig::texts(texts)];
    let rows = |batches: Vec<Batch>| -> Vec<Vec<u32>> {
        let row = |(batch, row): (&Batch, usize)| batch.row(row)[..batch.lengths()[row] as usize].to_vec();
        let rows = batches.iter().flat_map(|batch| (0..batch.rows()).map(move |number| (batch, number)));
        rows.map(row).filter(|row| !row.is_empty()).collect()
    };
    let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
    let longer = all_of(builder(&config).token_stage("longer", longer)).await.expect("no error");
    assert_eq!(rows(longer), texts[1..].iter().map(|text| ids(text)).collect::<Vec<_>>());
    let distinct = all_of(builder(&config).token_stage("distinct", distinct)).await.expect("no error");
    assert_eq!(rows(distinct), [texts[0], texts[1], texts[3]].map(ids));
    let doubled = all_of(builder(&config).token_stage("doubled", doubled)).await.expect("no error");
    let backwards: Vec<u32> = ids(texts[0]).into_iter().rev().collect();
    assert_eq!(rows(doubled)[..2], [ids(texts[0]), backwards]);
    let masked = all_of(builder(&config).row_stage("masked", masked)).await.expect("no error");
    let first: Vec<u32> = (0..).zip(ids(texts[0])).map(|(at, id)| if at % 3 == 0 { 0 } else { id }).collect();
    assert_eq!(rows(masked)[0], first);
    let fewer = builder(&config).row_stage("two of three", two_of_three);
    assert_eq!(rows(all_of(fewer).await.expect("no error")), [texts[0], texts[1], texts[3]].map(ids));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_and_the_stutter_take_their_streams() {
    let source = Source::open(&[source()]).await.expect("files");
    let encoder = Encoder::new(Arc::new(ByteTokenizer));
    type Stage = fn(TokenStream, &LaneCursor) -> TokenStream;
    let tokens = |start: &LaneCursor, stage: Stage| {
        let tokens = source.documents(start).tokenize(&encoder, &Workers::new(2));
        stage(Stutter::new(tokens).boxed(), start)
    };
    for stage in [longer, distinct, doubled] {
        let open = async |start: &LaneCursor| {
            Ok(tokens(start, stage).map_ok(|it| (it.value.ids().into_owned(), it.cursor)))
        };
        assert_eq!(conformance::check(&LaneCursor::default(), open, 60).await, Ok(()));
    }
    // One that forgets its skip is found out.
    let open = async |start: &LaneCursor| {
        let start = start.upstream(0);
        Ok(tokens(&start, distinct).map_ok(|it| (it.value.ids().into_owned(), it.cursor)))
    };
    assert!(conformance::check(&LaneCursor::default(), open, 60).await.is_err());

    for stage in [masked, two_of_three] {
        let open = async |start: &LaneCursor| {
            let packing = Packing::new(PackRule::Concat, 96);
            let rows = tokens(start, distinct).shuffle(16, 7, start).pack(packing, start);
            let rows = stage(Stutter::new(rows).boxed(), start);
            Ok(rows.map_ok(|row| (row.value.ids().collect::<Vec<_>>(), row.cursor)))
        };
        assert_eq!(conformance::check(&LaneCursor::default(), open, 60).await, Ok(()));
    }
}

/// The law of resume over real processes that are killed, and those of order and world beside it.
#[test]
fn verify_proves_a_program_with_a_row_stage() {
    let mut program = std::env::current_exe().expect("this test's path");
    program.pop();
    program.pop();
    program.extend(["examples", "mask_tokens"]);
    let mut plan = Plan::new(config(), program);
    (plan.batches, plan.points, plan.seed) = (25, 3, 7);
    let report = plan.run(&AtomicBool::new(false)).expect("it runs");
    assert_eq!(report.first_difference().map(|_| ()), None, "{report:?}");
    assert_eq!((report.mismatches, report.resume_points), (0, 3));
}

async fn problem(builder: LoaderBuilder) -> (String, String) {
    match all_of(builder).await.expect_err("an error") {
        Error::Stage { name, problem } => (name, problem),
        error => panic!("{error:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_loader_cannot_use_is_an_error_that_names_the_stage() {
    let config = config();
    let (name, problem_of_ids) = problem(builder(&config).token_stage("too high", |documents, _| {
        documents.map_ok(|document| document.map(|it| it.with_ids(vec![1, 300, 2]))).boxed()
    }))
    .await;
    assert_eq!(name, "too high");
    assert!(problem_of_ids.starts_with("it gave the id 300 in the document at byte "), "{problem_of_ids}");
    assert!(problem_of_ids.ends_with("the vocabulary has 257 ids; ids must be less than that"));

    let (_, of_rows) =
        problem(builder(&config).row_stage("too high", |rows, _| {
            rows.map_ok(|row| row.map(|row| row.map_ids(|_, _| 257))).boxed()
        }))
        .await;
    assert!(of_rows.starts_with("it gave the id 257 in the document at byte "), "{of_rows}");

    let (_, of_width) = problem(builder(&config).row_stage("wide", |rows, _| {
        let wider = |row: Sequence| Sequence::new(row.parts().to_vec(), row.width() + 1);
        rows.map_ok(move |row| row.map(wider)).boxed()
    }))
    .await;
    assert!(of_width.starts_with("it gave a row that is 98 ids wide, and rows of this config are 97"));

    let (name, of_panic) = problem(builder(&config).row_stage("long", |rows, _| {
        let tokens = Tokens::new(vec![1; 98], 98);
        let long = move |row: Sequence| Sequence::new(vec![Part::new(&tokens, 0..98)], row.width());
        rows.map_ok(move |row| row.map(&long)).boxed()
    }))
    .await;
    assert_eq!(name, "long");
    assert_eq!(of_panic, "it panicked: the parts of a sequence are 98 ids long, and it holds 97");

    // Five and the loader's own two are more than a cursor has room for.
    let deep = (0..5).fold(builder(&config), |builder, _| builder.token_stage("distinct", distinct));
    let (_, of_depth) = problem(deep).await;
    assert!(
        of_depth.starts_with("5 custom stages hold items back up to here, and at most 4 can"),
        "{of_depth}"
    );
    let deep = (0..4).fold(builder(&config), |builder, _| builder.token_stage("distinct", distinct));
    assert!(all_of(deep).await.is_ok());
}

/// A filter that leaves nothing, and a stage that empties each text: an endless stream would never have a batch.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_gives_nothing_is_an_error_that_names_it() {
    let mut endless = config();
    endless.pipeline.epochs = None;
    let none = |documents: DocumentStream, _: &LaneCursor| documents.try_filter(|_| ready(false)).boxed();
    let empty = |documents: DocumentStream, _: &LaneCursor| {
        documents.map_ok(|document| document.map(|document| document.with_text(String::new()))).boxed()
    };
    let stages = [builder(&endless).stage("none", none), builder(&endless).stage("empty", empty)];
    for (builder, expected) in stages.into_iter().zip(["none", "empty"]) {
        let (name, problem) = problem(builder).await;
        assert_eq!(name, expected);
        assert!(problem.starts_with("it gave nothing of 1024 whole epochs"), "{problem}");
    }
    let error = all_of(builder(&config()).stage("none", none)).await.expect_err("no batch").to_string();
    assert!(error.contains("left out by where or a custom stage"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_are_part_of_the_order_and_nothing_else_changes() {
    let config = config();
    let fields = async |builder: LoaderBuilder| {
        let loader = builder.open().await.expect("it opens");
        loader.start().fingerprint().clone()
    };
    let plain = fields(builder(&config)).await;
    assert!(!plain.0.keys().any(|field| field.contains("stage")), "{plain:?}");
    let mut expected = plain.0.clone();
    for (field, name) in [
        ("stage.0", "d"),
        ("token_stage.0", "longer"),
        ("token_stage.1", "distinct"),
        ("row_stage.0", "masked"),
        ("row_stage.1", "two of three"),
    ] {
        expected.insert(field.to_owned(), name.to_owned());
    }
    assert_eq!(fields(staged(builder(&config).stage("d", |documents, _| documents))).await.0, expected);

    let batches = all_of(staged(builder(&config))).await.expect("no error");
    let resumed = builder(&config).token_stage("longer", longer).with_cursor(batches[3].cursor().clone());
    assert!(
        matches!(all_of(resumed).await, Err(Error::Fingerprint { field, .. }) if field.contains("stage"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn they_work_on_token_shards_and_beside_a_cache() {
    let directory = tempfile::tempdir().expect("a directory");
    let texts = config();
    let expected: Vec<_> = ids(&all_of(staged(builder(&texts))).await.expect("no error"));

    let mut cached = config();
    cached.sources[0].cache =
        Some(TokenCacheConfig { path: directory.path().join("cache"), limit: ByteCount::mib(64) });
    for _ in 0..2 {
        assert_eq!(ids(&all_of(staged(builder(&cached))).await.expect("no error")), expected);
    }
    let refused = all_of(builder(&cached).stage("documents", |documents, _| documents)).await;
    assert!(matches!(refused, Err(Error::Config { key, .. }) if key == "source.0.cache"));

    let shards = directory.path().join("shards");
    millstream::prepare::prepare(&texts, &shards, |_| ()).await.expect("prepared");
    let mut prepared = config();
    let paths = vec![shards.display().to_string()];
    prepared.sources = vec![SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() }];
    assert_eq!(ids(&all_of(staged(builder(&prepared))).await.expect("no error")), expected);
    let refused = all_of(builder(&prepared).stage("documents", |documents, _| documents)).await;
    assert!(matches!(refused, Err(Error::Config { key, .. }) if key == "source.0.kind"));
}

fn ids(batches: &[Batch]) -> Vec<Vec<u32>> {
    batches.iter().map(|batch| batch.ids().to_vec()).collect()
}

async fn drain(builder: LoaderBuilder) -> Meters {
    let mut loader = builder.open().await.expect("it opens");
    while let Some(batch) = loader.next().await {
        batch.expect("no error");
    }
    loader.meters()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_one_is_named_whether_it_awaits_or_works() {
    let mut config = config();
    (config.pipeline.lanes, config.pipeline.window) = (1.into(), 1.into());
    let rest = Duration::from_millis(4);
    let asks = builder(&config)
        .token_stage("longer", longer)
        .token_stage("asks", move |documents, _| {
            let asked = documents.and_then(move |document| async move {
                tokio::time::sleep(rest).await;
                Ok(document)
            });
            asked.take(60).boxed()
        })
        .row_stage("masked", masked);
    let works = builder(&config)
        .token_stage("longer", longer)
        .row_stage("works", move |rows, _| rows.inspect_ok(move |_| std::thread::sleep(rest)).boxed());
    let awaits = builder(&config).token_stage("longer", longer).row_stage("awaits", move |rows, _| {
        let asked = rows.and_then(move |row| async move {
            tokio::time::sleep(rest).await;
            Ok(row)
        });
        asked.boxed()
    });
    for (name, builder) in [("asks", asks), ("works", works), ("awaits", awaits)] {
        let meters = drain(builder).await;
        let verdict = meters.verdict();
        assert_eq!(verdict.fault, Some(Fault::Own), "{verdict}\n{}", meters.table());
        assert_eq!(verdict.finding, format!("custom stage {name:?} is slow"), "{}", meters.table());
        let stage = meters.stage(name).expect("it has its meter");
        assert!(stage.is_custom && stage.tokens > 0, "{stage:?}");
        assert!(stage.busy_seconds + stage.awaited_seconds > 0.1, "{stage:?}");
        let longer = meters.stage("longer").expect("it has its meter");
        assert!(longer.documents > 0 && longer.awaited_seconds == 0.0, "{longer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_is_counted_by_name() {
    let meters = drain(staged(builder(&config()))).await;
    let names: Vec<&str> = meters.stages.iter().map(|stage| &*stage.stage).collect();
    let expected = [
        "source", "tokenize", "longer", "distinct", "shuffle", "pack", "masked", "two of three", "batch",
        "prefetch",
    ];
    assert_eq!(names, expected);
    let documents = |name| meters.stage(name).expect("it").documents;
    let kept = drain(builder(&config()).token_stage("longer", longer)).await;
    assert_eq!(kept.stage("pack").expect("it").documents, documents("longer"));
    assert!(documents("tokenize") > documents("longer") && documents("longer") >= documents("distinct"));
    let tokens = |name| meters.stage(name).expect("it").tokens;
    assert!(tokens("masked") > tokens("two of three") && tokens("two of three") > 0);
    assert_eq!(documents("distinct"), documents("pack"));
    let table = meters.table().to_string();
    assert!(table.lines().any(|line| line.starts_with("two of three ")), "{table}");
}
