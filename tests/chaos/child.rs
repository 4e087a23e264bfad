//! One rank of a loader, as a process: it delivers batches, writes about each, and saves its cursor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use millstream::process::end_with_parent;
use millstream::{Config, Cursor, Loader, Result};
use serde::{Deserialize, Serialize};

use crate::corpora::DISLIKED;
use crate::journal::{Delivered, Line, Writer};
use crate::support::runtime::block_on;
use crate::support::tokenizers::before;

/// The environment variable with the path of the orders.
pub(crate) const ORDERS: &str = "MILLSTREAM_CHAOS_ORDERS";

/// The exit code of a child that ends with an error.
pub(crate) const FAILED: i32 = 3;

/// What a child does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) config: Config,
    /// Whether the tokenizer fails on some documents.
    pub(crate) is_fussy: bool,
    pub(crate) cursor: Option<Cursor>,
    /// It ends after so many turns.
    pub(crate) until: u64,
    /// Where it saves its cursors, and after how many batches each.
    pub(crate) saves: Option<(Saves, u64)>,
    /// How long it rests after each batch, as a trainer does.
    pub(crate) step: Duration,
    pub(crate) journal: PathBuf,
    pub(crate) with_pieces: bool,
}

/// The names of a rank's cursors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Saves {
    /// One file, which is written again and again.
    Over(PathBuf),
    /// A directory with a file for each batch: ranks are at different ones when they are killed.
    Each(PathBuf),
}

impl Saves {
    pub(crate) fn path(&self, batch: u64) -> PathBuf {
        match self {
            Self::Over(path) => path.clone(),
            Self::Each(directory) => directory.join(format!("{batch}.json")),
        }
    }

    /// The batches with a cursor; any number stands for the only one that is there.
    pub(crate) fn batches(&self) -> Vec<u64> {
        let Self::Each(directory) = self else { return vec![0] };
        let names = std::fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name());
        names.filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok()).collect()
    }
}

#[test]
#[ignore = "a round starts it as its child"]
fn deliver() {
    let Some(path) = std::env::var_os(ORDERS) else { return };
    end_with_parent();
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let orders = std::fs::read(Path::new(&path)).expect("orders");
    match block_on(obey(serde_json::from_slice(&orders).expect("orders"))) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {}", error.chain());
            std::process::exit(FAILED);
        }
    }
}

async fn obey(orders: Orders) -> Result<()> {
    let mut journal = Writer::open(&orders.journal);
    let mut builder = Loader::builder(&orders.config);
    if orders.is_fussy {
        let fails = |text: &str| if text.contains(DISLIKED) { Err("an exclamation".into()) } else { Ok(()) };
        builder = builder.with_tokenizer(before("fussy bytes", fails));
    }
    let mut turn = orders.cursor.as_ref().map_or(0, Cursor::turn);
    if let Some(cursor) = orders.cursor {
        builder = builder.with_cursor(cursor);
    }
    let mut loader = builder.open().await?;
    while turn < orders.until {
        let Some(batch) = loader.next().await.transpose()? else {
            let skipped = loader.meters().stages.iter().map(|stage| stage.skipped).sum();
            journal.push(&Line::End { skipped });
            return Ok(());
        };
        journal.push(&Line::Batch(Delivered::of(&batch, turn, orders.with_pieces)));
        let cursor = batch.cursor();
        turn = cursor.turn();
        if let Some((saves, _)) =
            orders.saves.as_ref().filter(|(_, each)| cursor.batch().is_multiple_of(*each))
        {
            cursor.save(saves.path(cursor.batch()))?;
        }
        tokio::time::sleep(orders.step).await;
    }
    journal.push(&Line::Enough);
    Ok(())
}
