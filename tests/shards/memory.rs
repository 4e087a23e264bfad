//! What is in flight while shards are read.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ByteCount, SampleConfig, SourceConfig, SourceKind};
use millstream::document::Part;
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder, Tokenizer};
use millstream::{Budget, Error, LaneCursor, Loader, Source};

use crate::text::{Case, other, run};

/// Lines of one to forty letters.
fn lines(n: usize) -> String {
    (0..n).map(|n| "x".repeat(n % 40 + 1) + "\n").collect()
}

/// The documents of a case's shards, read within `budget`.
async fn source(case: &Case, budget: &Arc<Budget>) -> Source {
    let source = Source::open(&case.sharded().sources).await.expect("it opens");
    source.with_budget(budget.clone())
}

#[test]
fn ids_stay_in_their_file_and_are_those_of_the_text() {
    let text = lines(10_000);
    let case = Case::new(&[text], |source| source.split = Some(ByteCount(50_000)));
    case.prepare().expect("prepared");
    for around in [[false, false], [true, false], [false, true], [true, true]] {
        let mut encoder = Encoder::new(Arc::new(ByteTokenizer));
        if around[0] {
            encoder = encoder.with_bos("<|endoftext|>").expect("known");
        }
        if around[1] {
            encoder = encoder.with_eos("<|endoftext|>").expect("known");
        }
        run(async {
            let budget = Budget::new(1 << 30);
            let documents = source(&case, &budget).await.documents(&LaneCursor::default());
            let held: Vec<_> = documents.try_collect().await.expect("documents");
            assert_eq!((held.len(), budget.used()), (10_000, 0));

            let workers = Workers::new(2);
            let documents = source(&case, &budget).await.documents(&LaneCursor::default());
            let stored: Vec<_> =
                documents.tokenize(&encoder, &workers).try_collect().await.expect("the shards' tokens");
            assert_eq!((stored.len(), budget.used()), (10_000, 0));
            let text = Source::open(&case.config.sources).await.expect("it opens");
            let documents = text.documents(&LaneCursor::default());
            let made: Vec<_> =
                documents.tokenize(&encoder, &workers).try_collect().await.expect("the text's tokens");
            assert_eq!(made.len(), stored.len());
            for (stored, made) in stored.iter().zip(&made) {
                assert_eq!(stored.cursor, made.cursor);
                let (stored, made) = (&stored.value, &made.value);
                assert_eq!((stored.ids(), stored.len()), (made.ids(), made.len()));
                assert_eq!((stored.position(), stored.text_bytes()), (made.position(), made.text_bytes()));
                for cut in [0, 1, made.len() / 2, made.len() - 1, made.len()] {
                    for range in [0..cut, cut..made.len()] {
                        let part = Part::new(stored, range.clone());
                        assert_eq!(part.ids(), &made.ids()[range.clone()], "{around:?} {range:?}");
                    }
                }
            }
        });
    }
}

#[test]
fn what_is_in_flight_stays_within_the_budget() {
    let text = lines(100_000);
    for split in [1000, 64 << 20] {
        let mut case = Case::new(&[text.as_str().to_owned()], |source| source.split = Some(ByteCount(split)));
        case.config.pipeline.memory = ByteCount(400 << 10);
        case.config.pipeline.window = 64.into();
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
        let error = encoded(other()).await.expect_err("another");
        let said = error.to_string();
        assert!(matches!(error, Error::Corpus { .. }), "{said}");
        assert!(
            said.contains(".tokens: its ids were made by the tokenizer bytes, but this one is other"),
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
    assert_eq!(refused(|source| source.split = Some(ByteCount(5))), format!("source.0.split: {known}"));
    assert_eq!(refused(|source| source.field = Some("text".to_owned())), format!("source.0.field: {known}"));
    let bound = refused(|source| source.max_document_bytes = ByteCount(5));
    assert_eq!(bound, format!("source.0.max_document_bytes: {known}"));
    let oversize = refused(|source| source.oversize = millstream::config::Oversize::Skip);
    assert_eq!(oversize, format!("source.0.oversize: {known}"));
    let sampled =
        refused(|source| source.sample = Some(SampleConfig { field: "score".to_owned(), max: 1.0 }));
    assert_eq!(sampled, "source.0.sample: token shards have only ids; name the field when you prepare them");
    let subset = refused(|source| source.subset = Some("de".to_owned()));
    assert!(
        subset.starts_with("source.0.subset: a source of kind shards has no `subset`; remove it"),
        "{subset}"
    );
}
