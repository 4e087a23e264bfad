//! A lane whose source waits for memory: what is waited for elsewhere is no lane that is stuck.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use millstream::config::SourceConfig;
use millstream::stage::StageExt;
use millstream::{Budget, Error, LaneCursor, Result, Source};
use tokio::sync::Semaphore;

use crate::support::wait::until;

/// A hundred documents of some 4 KB, in a directory that is removed with its guard.
async fn source(budget: &Arc<Budget>) -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("text.txt"), format!("{}\n", "word ".repeat(800)).repeat(100))
        .expect("written");
    let config = SourceConfig::text(directory.path().join("*.txt").display().to_string());
    let source = Source::open(&[config]).await.expect("a source");
    (directory, source.with_budget(budget.clone()).with_slab_bytes(4 << 10))
}

#[tokio::test]
async fn a_stage_that_waits_for_something_else_does_not_end_the_lane() {
    let budget = Budget::new(32 << 10);
    let (_directory, source) = source(&budget).await;
    // Documents are answered only when the stage holds as many as it may, which is more than fit.
    let (asked, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let lane = {
        let (asked, answers) = (asked.clone(), answers.clone());
        let lane = source.documents(&LaneCursor::default()).map_ok(move |document| {
            asked.fetch_add(1, Ordering::Relaxed);
            let answers = answers.clone();
            async move {
                let _answer = answers.acquire().await.expect("open");
                Ok(document)
            }
        });
        lane.try_buffered(64).bounded(budget.clone())
    };
    let lane = tokio::spawn(lane.map_ok(|_| 1).try_fold(0, |all, one| async move { Ok(all + one) }));
    until("64 documents are asked about", || asked.load(Ordering::Relaxed) == 64 || lane.is_finished()).await;
    answers.add_permits(64);
    assert_eq!(lane.await.expect("no panic").expect("no error"), 100);
}

#[tokio::test]
async fn a_stage_that_has_its_answers_and_asks_for_more_goes_on() {
    let budget = Budget::new(32 << 10);
    let (_directory, source) = source(&budget).await;
    let start = LaneCursor::default();
    // The queue of what is answered keeps the last waker, though nothing will use it.
    let answered = source.documents(&start).map_ok(|document| async { Ok(document) }).try_buffered(64);
    let lane = answered.shuffle(1000, 42, &start).bounded(budget);
    let documents: Vec<_> = lane.try_collect().await.expect("no error");
    assert_eq!(documents.len(), 100);
}

#[tokio::test]
async fn a_stage_that_keeps_what_it_gets_ends_the_lane() {
    let budget = Budget::new(32 << 10);
    let (_directory, source) = source(&budget).await;
    let start = LaneCursor::default();
    let lane = source.documents(&start).shuffle(1000, 42, &start).bounded(budget);
    let outcome: Result<Vec<_>> = lane.try_collect().await;
    assert!(matches!(outcome, Err(Error::Budget { limit: 32_768 })), "{outcome:?}");
}

#[tokio::test]
async fn a_lane_that_is_gone_waits_for_nothing() {
    let budget = Budget::new(8 << 10);
    let (_directory, source) = source(&budget).await;
    let (mut gone, mut held) = (source.documents(&LaneCursor::default()), Vec::new());
    // Its documents are held, so it soon waits for memory.
    while let Ok(next) = tokio::time::timeout(Duration::from_millis(100), gone.next()).await {
        held.push(next.expect("a document").expect("no error"));
    }
    drop(gone);
    let mut lane = stream::pending::<Result<()>>().bounded(budget);
    assert!(lane.next().now_or_never().is_none(), "the budget is full, but nobody waits for it");
    drop(held);
}
