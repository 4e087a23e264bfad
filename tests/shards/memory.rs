//! What is in flight while shards are read.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, SourceConfig, SourceKind};
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder, Tokenizer};
use millstream::{Budget, Error, LaneCursor, Loader, Source};

use crate::{Case, Other, run};

/// Lines of one to forty letters, and how many lines and letters there are.
fn lines(n: usize) -> (String, usize) {
    let text: String = (0..n).map(|n| "x".repeat(n % 40 + 1) + "\n").collect();
    let letters = text.len() - n;
    (text, letters)
}

/// The documents of a case's shards, whose room is taken from `budget`.
async fn source(case: &Case, budget: &Arc<Budget>) -> Source {
    let source = Source::open(&case.sharded().sources).await.expect("it opens");
    source.with_budget(budget.clone())
}

#[test]
fn each_id_takes_its_bytes_and_each_document_those_of_what_is_around_it() {
    let (text, letters) = lines(10_000);
    let case = Case::new(&[text], |source| source.split = ByteCount(50_000));
    case.prepare().expect("prepared");
    run(async {
        let room = 4 * (letters + 2 * 10_000);
        let budget = Budget::new(1 << 30);
        let documents = source(&case, &budget).await.documents(&LaneCursor::default());
        let held: Vec<_> = documents.try_collect().await.expect("documents");
        assert_eq!((held.len(), budget.used()), (10_000, room));
        drop(held);
        assert_eq!(budget.used(), 0);

        let encoder = Encoder::new(Arc::new(ByteTokenizer));
        let encoder = encoder.with_bos("<|endoftext|>").and_then(|encoder| encoder.with_eos("<|endoftext|>"));
        let documents = source(&case, &budget).await.documents(&LaneCursor::default());
        let tokens = documents.tokenize(&encoder.expect("tokens"), &Workers::new(2));
        let held: Vec<_> = tokens.try_collect().await.expect("tokens");
        assert_eq!((held.len(), budget.used()), (10_000, room));
        drop(held);
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn no_step_takes_more_than_was_waited_for() {
    let (text, _) = lines(40_000);
    for split in [2000, 64 << 20] {
        let case = Case::new(std::slice::from_ref(&text), |source| source.split = ByteCount(split));
        case.prepare().expect("prepared");
        run(async {
            let budget = Budget::new(256 << 10);
            // Steps that do not fill the budget by chance.
            let source = source(&case, &budget).await.with_slab_bytes(1000);
            let documents = source.documents(&LaneCursor::default());
            let mut documents = documents.bounded(budget.clone());
            let mut held = Vec::new();
            let full = loop {
                match documents.next().await.expect("more than the budget holds") {
                    Ok(document) => held.push(document),
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, Error::Budget { .. }), "{full}");
            assert!((200 << 10..=256 << 10).contains(&budget.peak()), "{}", budget.peak());
        });
    }
}

#[test]
fn what_is_in_flight_stays_within_the_budget() {
    let (text, _) = lines(100_000);
    for split in [1000, 64 << 20] {
        let mut case = Case::new(&[text.as_str().to_owned()], |source| source.split = ByteCount(split));
        case.config.pipeline.memory = ByteCount(400 << 10);
        case.config.pipeline.window = std::num::NonZeroUsize::new(64).expect("a number");
        case.prepare().expect("prepared");
        let meters = run(async {
            let mut loader = Loader::open(&case.sharded()).await.expect("it opens");
            while let Some(batch) = loader.next().await {
                batch.expect("no error");
            }
            loader.meters()
        });
        assert!(meters.peak_bytes_in_flight > 16 << 10, "{meters:?}");
        assert!(meters.peak_bytes_in_flight <= meters.budget_bytes, "{meters:?}");
        assert_eq!(meters.bytes_in_flight, 0, "what was lent is given back");
    }
}

#[test]
fn a_stage_with_another_tokenizer_is_refused() {
    let case = Case::new(&["a line of text\n".repeat(40)], |_| {});
    case.prepare().expect("prepared");
    run(async {
        let source = source(&case, &Budget::new(1 << 20)).await;
        let encoded = |tokenizer: Arc<dyn Tokenizer>| {
            let documents = source.documents(&LaneCursor::default());
            let on_error = millstream::config::OnError::Skip(1000);
            let tokens =
                documents.tokenize(&Encoder::new(tokenizer), &Workers::new(1)).with_on_error(on_error);
            tokens.try_collect::<Vec<_>>()
        };
        assert_eq!(encoded(Arc::new(ByteTokenizer)).await.expect("tokens").len(), 40);
        let error = encoded(Arc::new(Other)).await.expect_err("another");
        let said = error.to_string();
        assert!(matches!(error, Error::Corpus { .. }), "{said}");
        assert!(
            said.contains(".tokens: its ids were made by the tokenizer bytes, and this one is other"),
            "{said}"
        );
    });
}

#[test]
fn what_shards_were_made_with_cannot_be_chosen_anew() {
    let refused = |change: fn(&mut SourceConfig)| {
        let paths = vec!["shards".to_owned()];
        let mut source = SourceConfig { kind: SourceKind::Shards, paths, ..SourceConfig::default() };
        change(&mut source);
        run(Source::open(&[source])).expect_err("a refusal").to_string()
    };
    let known = "token shards know what they were made of; remove it";
    assert_eq!(refused(|source| source.split = ByteCount(5)), format!("source.0.split: {known}"));
    assert_eq!(refused(|source| source.field = Some("text".to_owned())), format!("source.0.field: {known}"));
    let bound = refused(|source| source.max_document_bytes = ByteCount(5));
    assert_eq!(bound, format!("source.0.max_document_bytes: {known}"));
    let oversize = refused(|source| source.oversize = millstream::config::Oversize::Skip);
    assert_eq!(oversize, format!("source.0.oversize: {known}"));
    let several = refused(|source| source.paths.push("more".to_owned()));
    assert!(several.starts_with("source.0.paths: a source of kind shards is one directory"), "{several}");
}
