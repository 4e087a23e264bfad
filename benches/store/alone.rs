//! `object_store` alone: the ranges that an epoch requested, requested again in their order, as many at once.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};

use crate::server::{Request, Server};

/// The ranges of more than a byte that were requested, in order. A byte is asked for to see what a file is.
pub(super) fn ranges(server: &Server) -> Vec<(String, Range<u64>)> {
    let of = |request: Request| {
        let (from, to) = request.range(usize::MAX)?;
        Some((request.path, from as u64..to as u64))
    };
    server.requests().into_iter().filter_map(of).filter(|(_, range)| range.end - range.start > 1).collect()
}

/// How long `object_store` alone takes for the same ranges.
pub(super) async fn replayed(
    server: &Server,
    ranges: &[(String, Range<u64>)],
    concurrency: usize,
) -> Duration {
    let options = ClientOptions::new().with_allow_http(true);
    let builder = HttpBuilder::new().with_url(server.url("")).with_client_options(options);
    let store: Arc<dyn ObjectStore> = Arc::new(builder.build().expect("a client"));
    let began = Instant::now();
    let gets = ranges.iter().map(|(path, range)| {
        let (store, path, range) = (store.clone(), path.trim_start_matches('/').to_owned(), range.clone());
        tokio::spawn(async move { store.get_range(&path.into(), range).await.expect("bytes").len() })
    });
    let got =
        stream::iter(gets).buffer_unordered(concurrency).try_fold(0, async |sum, len| Ok(sum + len)).await;
    assert!(got.expect("no panic") > 0);
    began.elapsed()
}
