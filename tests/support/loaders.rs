//! Loaders with bytes as ids, and the law of resume over all that a batch says.

use std::sync::Arc;

use futures::TryStreamExt;
use millstream::conformance::{self, Violation};
use millstream::document::ColumnValue;
use millstream::loader::LoaderBuilder;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Config, Cursor, Loader, Result};

/// A loader with bytes as ids.
pub(crate) fn builder(config: &Config) -> LoaderBuilder {
    Loader::builder(config).with_tokenizer(Arc::new(ByteTokenizer))
}

/// Opens one.
pub(crate) async fn open(config: &Config, cursor: Option<&Cursor>) -> Result<Loader> {
    cursor.cloned().into_iter().fold(builder(config), LoaderBuilder::with_cursor).open().await
}

/// All batches of a finite stream.
pub(crate) async fn all_of(builder: LoaderBuilder) -> Result<Vec<Batch>> {
    builder.open().await?.try_collect().await
}

/// A cursor as it comes back from a file.
pub(crate) fn reread(cursor: &Cursor) -> Cursor {
    let json = serde_json::to_string(cursor).expect("it serializes");
    serde_json::from_str(&json).expect("it deserializes")
}

/// The names and values of the columns of each piece.
pub(crate) fn values(batch: &Batch) -> Vec<Vec<(String, ColumnValue)>> {
    let of = |piece| batch.columns(piece).map(|(name, value)| (name.to_owned(), value.clone())).collect();
    batch.pieces().iter().map(of).collect()
}

/// That resuming from any of the first `most` cursors gives the batches that follow.
pub(crate) async fn resumes_of(
    builder: impl Fn() -> LoaderBuilder,
    most: usize,
) -> std::result::Result<(), Violation> {
    let start = builder().open().await.expect("it opens").start().clone();
    let reopen = async |cursor: &Cursor| {
        let batches = builder().with_cursor(reread(cursor)).open().await?;
        let item = |batch: &Batch| {
            let ids = (batch.ids().to_vec(), batch.lengths().to_vec());
            let masked: Vec<_> = batch.masked().collect();
            (ids, masked, batch.loss_mask(), batch.pieces().to_vec(), values(batch))
        };
        Ok(batches.map_ok(move |batch| (item(&batch), batch.cursor().clone())))
    };
    conformance::check(&start, reopen, most).await
}
