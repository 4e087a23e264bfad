//! Each stage keeps order and resumes exactly, over generated streams, and does what it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use millstream::config::{PackRule, Packing};
use millstream::conformance::{self, Stutter};
use millstream::document::Part;
use millstream::meter::Meter;
use millstream::stage::{Lanes, StageExt, Workers};
use millstream::tokenizer::{Encoder, Tokenizer};
use millstream::{Cursor, Document, Error, LaneCursor, Result, Sequence, Tokens, Tracked};
use proptest::prelude::*;

use crate::pack::tokens;
use crate::support::tokenizers::before;
use crate::support::wait::{ends, until, wait_for};

/// The values of `epochs` epochs, as a source would deliver them from `start`.
fn source<T: Clone>(
    values: &[T],
    epochs: u64,
    start: &LaneCursor,
) -> impl Stream<Item = Result<Tracked<T>>> + Unpin + use<T> {
    let len = values.len() as u64;
    let values = values.to_vec();
    let from = start.epoch * len + start.split;
    stream::iter((from..epochs * len).map(move |item| {
        let mut cursor = LaneCursor::after(item + 1);
        cursor.epoch = item / len;
        cursor.split = item % len + 1;
        Ok(Tracked::new(values[(item % len) as usize].clone(), cursor))
    }))
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn packs() -> impl Strategy<Value = PackRule> {
    prop_oneof![Just(PackRule::Concat), Just(PackRule::Pad), Just(PackRule::BestFit)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn shuffle_conforms(len in 0_usize..70, epochs in 1_u64..4, window in 1_usize..60, seed: u64) {
        let values: Vec<usize> = (0..len).collect();
        let open = async |start: &LaneCursor| {
            let items = Stutter::new(source(&values, epochs, start));
            Ok(items.shuffle(window, seed, start).map_ok(|item| (item.value, item.cursor)))
        };
        prop_assert_eq!(block_on(conformance::check(&LaneCursor::default(), open, 250)), Ok(()));
    }

    #[test]
    fn shuffle_delivers_each_item_of_an_epoch_once_and_near_its_place(
        len in 1_usize..300, epochs in 1_u64..4, window in 1_usize..80, seed: u64,
    ) {
        let values: Vec<usize> = (0..len).collect();
        let items = source(&values, epochs, &LaneCursor::default()).shuffle(window, seed, &LaneCursor::default());
        let shuffled: Vec<usize> = block_on(items.map_ok(|item| item.value).try_collect()).expect("no errors");
        prop_assert_eq!(shuffled.len(), len * epochs as usize);
        for epoch in shuffled.chunks(len) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &values);
            for (place, value) in epoch.iter().enumerate() {
                prop_assert!(place.abs_diff(*value) < window);
            }
        }
    }

    #[test]
    fn a_whole_chain_conforms(
        lengths in prop::collection::vec(0_usize..20, 1..20),
        epochs in 1_u64..3,
        window in 1_usize..24,
        seq_len in 1_usize..12,
        batch_size in 1_usize..4,
        lanes in 1_usize..4,
        mode in packs(),
    ) {
        let documents = tokens(&lengths);
        let open = async |start: &Cursor| {
            let lane = |lane: usize| {
                let at = start.at(lane, 0);
                let items = Stutter::new(source(&documents, epochs, at));
                items.shuffle(window, 42, at).with_lane(lane).pack(Packing::new(mode, seq_len), at)
            };
            let rows = Lanes::new((0..lanes).map(|number| (number, lane(number))), seq_len + 1, start);
            let batches = rows.batch(batch_size, 0, start).prefetch(2);
            Ok(batches.map_ok(|batch| (batch.ids().to_vec(), batch.cursor().clone())))
        };
        let start = Cursor::start(lanes, ["numbers".to_owned()], Arc::default());
        prop_assert_eq!(block_on(conformance::check(&start, open, 60)), Ok(()));
    }
}

#[test]
fn conformance_sees_a_stage_that_forgets_its_skip() {
    let values: Vec<usize> = (0..40).collect();
    let open = async |start: &LaneCursor| {
        let forgotten = start.upstream(0);
        let items = source(&values, 1, start).shuffle(20, 42, &forgotten);
        Ok(items.map_ok(|item| (item.value, item.cursor)))
    };
    let problem =
        block_on(conformance::check(&LaneCursor::default(), open, 100)).expect_err("it does not resume");
    assert!(problem.to_string().starts_with("resumed after item 0"), "{problem}");
}

#[test]
fn conformance_sees_a_stage_that_keeps_no_order() {
    let runs = AtomicUsize::new(0);
    let open = async |start: &LaneCursor| {
        let mut values: Vec<usize> = (0..10).collect();
        values.rotate_left(runs.fetch_add(1, Ordering::Relaxed) % 2);
        Ok(source(&values, 1, start).map_ok(|item| (item.value, item.cursor)))
    };
    let problem =
        block_on(conformance::check(&LaneCursor::default(), open, 100)).expect_err("it has no order");
    assert!(problem.to_string().starts_with("opened again, item 0"), "{problem}");
}

/// Takes longer for some documents than for others, fails at "bad" and panics at "worse".
fn moody() -> Arc<dyn Tokenizer> {
    before("moody", |text| {
        match text {
            "bad" => return Err("it is bad".into()),
            "worse" => panic!("it is worse"),
            _ => std::thread::sleep(Duration::from_micros(text.len() as u64 % 7 * 300)),
        }
        Ok(())
    })
}

fn documents(texts: &[String]) -> impl Stream<Item = Result<Tracked<Document>>> + Unpin + use<> {
    let documents: Vec<_> = texts.iter().map(Document::new).collect();
    source(&documents, 1, &LaneCursor::default())
}

#[tokio::test]
async fn tokenize_keeps_order_whatever_the_workers() {
    // Documents of some 50 KB, so that a few make a group.
    let texts: Vec<String> =
        (0..60).map(|i| char::from(b'a' + i % 26).to_string().repeat(50_000 + i as usize)).collect();
    let encoder = Encoder::new(moody()).with_eos("<|endoftext|>").expect("known");
    for workers in [1, 2, 8] {
        let tokens: Vec<Tracked<Tokens>> = documents(&texts)
            .tokenize(&encoder, &Workers::new(workers))
            .try_collect()
            .await
            .expect("no errors");
        assert_eq!(tokens.len(), texts.len());
        for (index, (tokens, text)) in tokens.iter().zip(&texts).enumerate() {
            let expected: Vec<u32> = text.bytes().map(u32::from).chain([256]).collect();
            assert_eq!(tokens.value.ids(), expected);
            assert_eq!(tokens.value.text_bytes(), text.len());
            assert_eq!(tokens.cursor.documents, index as u64 + 1);
        }
    }
}

#[tokio::test]
async fn a_tokenizer_that_fails_or_panics_is_an_error_at_its_document() {
    for (text, problem) in [("bad", "it is bad"), ("worse", "the tokenizer panicked: it is worse")] {
        let texts = ["a", "b", text, "c"].map(str::to_owned);
        let mut tokens = documents(&texts).tokenize(&Encoder::new(moody()), &Workers::new(2));
        assert_eq!(tokens.next().await.expect("one").expect("good").value.ids().as_ref(), [97]);
        assert_eq!(tokens.next().await.expect("two").expect("good").value.ids().as_ref(), [98]);
        match tokens.next().await {
            Some(Err(Error::Document { problem: found, .. })) => assert_eq!(found, problem),
            other => panic!("expected the document's error, not {other:?}"),
        }
        assert!(tokens.next().await.is_none());
        assert!(tokens.next().await.is_none());
    }
}

#[tokio::test]
async fn workers_bound_what_is_encoded_at_once_over_all_streams() {
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    let counting = before("counting", |_| {
        MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // None goes on before all workers were at work together once.
        wait_for("three at once", || (MOST.load(Ordering::SeqCst) >= 3).then_some(()));
        std::thread::sleep(Duration::from_millis(2));
        NOW.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });

    let texts = vec!["x".repeat(200_000); 12];
    let workers = Workers::new(3);
    let encoder = Encoder::new(counting);
    let streams = (0..4).map(|_| documents(&texts).tokenize(&encoder, &workers));
    let all: Vec<_> = stream::select_all(streams).try_collect().await.expect("no errors");
    assert_eq!(all.len(), 48);
    assert_eq!(MOST.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn errors_come_after_all_that_is_whole_and_end_the_stream() {
    let failing = || {
        let good = source(&tokens(&[3; 40]), 1, &LaneCursor::default());
        good.chain(stream::iter([Err(Error::config("x", "broken"))])).chain(source(
            &tokens(&[3]),
            1,
            &LaneCursor::default(),
        ))
    };
    let start = LaneCursor::default();
    let shuffled: Vec<_> = failing().shuffle(16, 1, &start).collect().await;
    assert_eq!(shuffled.len(), 33, "two windows of 16, then the error");
    assert!(shuffled[..32].iter().all(Result::is_ok) && shuffled[32].is_err());

    let packed: Vec<_> = failing().pack(Packing::new(PackRule::Concat, 50), &start).collect().await;
    assert_eq!(packed.len(), 3, "two rows of 50, then the error");
    assert!(packed[2].is_err());

    let cursor = Cursor::default();
    let batches: Vec<_> =
        failing().pack(Packing::new(PackRule::Concat, 10), &start).batch(4, 0, &cursor).collect().await;
    assert_eq!(batches.len(), 3, "two batches of 4 rows of 10, then the error");
    assert!(batches[2].is_err());

    let ahead: Vec<_> = failing().prefetch(3).collect().await;
    assert_eq!(ahead.len(), 41);
    assert!(ahead[40].is_err());
}

#[tokio::test]
async fn a_panic_before_prefetch_is_an_error() {
    let mut ahead = stream::iter(0..9).map(|i| if i < 3 { Ok(i) } else { panic!("at {i}") }).prefetch(2);
    for expected in 0..3 {
        assert_eq!(ahead.next().await.expect("an item").expect("no error"), expected);
    }
    match ahead.next().await {
        Some(Err(Error::Panic { message, .. })) => assert_eq!(message, "at 3"),
        other => panic!("expected the panic, not {other:?}"),
    }
    assert!(ahead.next().await.is_none());
}

#[tokio::test]
async fn prefetch_runs_ahead_by_its_depth_and_stops_when_dropped() {
    let made = Arc::new(AtomicUsize::new(0));
    let alive = Arc::new(());
    let (counter, guard) = (made.clone(), alive.clone());
    let endless = stream::repeat_with(move || {
        let _held = &guard;
        Ok(counter.fetch_add(1, Ordering::SeqCst))
    });
    let mut ahead = endless.prefetch(4);
    assert_eq!(ahead.next().await.expect("an item").expect("no error"), 0);
    // Four wait, one is in hand, one was taken.
    until("six items", || made.load(Ordering::SeqCst) >= 6).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(made.load(Ordering::SeqCst), 6);
    drop(ahead);
    until("the task's end", || Arc::strong_count(&alive) == 1).await;
}

#[tokio::test]
async fn prefetch_stops_when_dropped_even_if_nothing_ever_comes() {
    let alive = Arc::new(());
    let guard = alive.clone();
    let never = stream::once(async move {
        let _held = guard;
        std::future::pending::<Result<u32>>().await
    });
    let mut ahead = never.prefetch(1);
    assert!(ahead.next().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(ahead);
    until("the task's end", || Arc::strong_count(&alive) == 1).await;
}

#[tokio::test]
async fn what_is_made_does_not_wait_for_what_is_not() {
    // Items that come close together are handed on together, and no item that never comes is among them.
    let some = stream::iter(0..3).map(Ok).chain(stream::pending());
    let ahead = some.prefetch(8).take(3).try_collect::<Vec<_>>();
    assert_eq!(ends(ahead).await.expect("no error"), [0, 1, 2]);
}

#[tokio::test]
async fn a_cancelled_next_loses_nothing() {
    let slow = stream::iter(0..20).then(async |i| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(i)
    });
    let mut ahead = slow.boxed().prefetch(2);
    let mut seen = Vec::new();
    while seen.len() < 20 {
        match ahead.next().now_or_never() {
            Some(Some(item)) => seen.push(item.expect("no error")),
            Some(None) => break,
            None => tokio::task::yield_now().await,
        }
    }
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_the_shuffle_delivered_is_counted_within_some_documents() {
    let (values, start) = ((0..3000).collect::<Vec<_>>(), LaneCursor::default());
    let meter = Meter::new("shuffle");
    let mut shuffled = source(&values, 1, &start).shuffle(1000, 1, &start).with_meter(meter.clone());
    for delivered in 0..=3000 {
        let counted = meter.snapshot().documents;
        assert!(counted <= delivered && delivered - counted <= 64, "{counted} of {delivered}");
        shuffled.next().await.transpose().expect("no error");
    }
    assert_eq!(meter.snapshot().documents, 3000);
}

#[tokio::test]
async fn lanes_go_on_while_one_is_waited_for_and_what_came_before_an_error_comes_first() {
    use futures::channel::mpsc;

    let row = |number: u32| {
        let tokens = Tokens::new(vec![number; 2], 2);
        Tracked::new(Sequence::new(vec![Part::new(&tokens, 0..2)], 2), LaneCursor::after(1))
    };
    let start = Cursor::start(3, ["numbers".to_owned()], Arc::default());
    let (send, wait): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::unbounded()).unzip();
    let asked: Vec<_> = (0..3).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let lanes = wait.into_iter().zip(asked.clone()).map(|(wait, asked)| {
        wait.inspect(move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
        })
    });
    let mut batches = Lanes::new(lanes.enumerate(), 2, &start).batch(1, 0, &start);
    send[1].unbounded_send(Ok(row(1))).unwrap();
    send[2].unbounded_send(Err(Error::Corpus { problem: "a test".to_owned() })).unwrap();
    assert!(batches.next().now_or_never().is_none(), "the first lane has nothing yet");
    let asked: Vec<_> = asked.iter().map(|asked| asked.load(Ordering::Relaxed)).collect();
    assert_eq!(asked, [0, 1, 1], "the others went on");
    send[0].unbounded_send(Ok(row(0))).unwrap();
    for expected in [0, 1] {
        let batch = batches.next().await.expect("a batch").expect("no error");
        assert_eq!(batch.ids(), [expected; 2]);
    }
    batches.next().await.expect("an item").expect_err("the error comes last");
    assert!(batches.next().await.is_none());
}
