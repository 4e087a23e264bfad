//! What a cursor depends on, by name and value.
//!
//! What is left out may change between a run and its resumption: `batch_size` and `epochs`, because
//! the lanes do not know them; `on_error`, because a bad document is often what ended the run; and
//! all that runs ahead.

use std::collections::BTreeMap;

use crate::config::{Config, Pack};
use crate::cursor::Fingerprint;
use crate::source::{Side, Source};
use crate::tokenizer::Tokenizer;

/// The order that this version makes; one that changes it counts up.
const ORDER: u32 = 1;

pub(super) fn of<'a>(
    config: &Config,
    source: &Source,
    tokenizer: &dyn Tokenizer,
    side: Side,
    stages: impl Iterator<Item = &'a String>,
) -> Fingerprint {
    let Config { seed, sources, tokenizer: ids, pipeline, .. } = config;
    let none = || "none".to_owned();
    let pack_window = (pipeline.pack == Pack::BestFit).then_some(pipeline.pack_window);
    let mut fields = BTreeMap::from([
        ("order".to_owned(), ORDER.to_string()),
        ("seed".to_owned(), seed.to_string()),
        ("files".to_owned(), source.summary().to_string()),
        ("tokenizer".to_owned(), tokenizer.fingerprint()),
        ("tokenizer.bos".to_owned(), ids.bos.clone().unwrap_or_else(none)),
        ("tokenizer.eos".to_owned(), ids.eos.clone().unwrap_or_else(none)),
        ("pipeline.lanes".to_owned(), pipeline.lanes.to_string()),
        ("pipeline.shuffle_splits".to_owned(), pipeline.shuffle_splits.to_string()),
        ("pipeline.window".to_owned(), pipeline.window.to_string()),
        ("pipeline.seq_len".to_owned(), pipeline.seq_len.to_string()),
        ("pipeline.pack".to_owned(), pipeline.pack.to_string()),
        ("pipeline.ahead".to_owned(), pipeline.ahead.to_string()),
        (
            "pipeline.max_segments".to_owned(),
            pipeline.max_segments.map_or_else(none, |most| most.to_string()),
        ),
        ("pipeline.pack_window".to_owned(), pack_window.map_or_else(none, |window| window.to_string())),
        ("pipeline.holdout".to_owned(), pipeline.holdout.to_string()),
        ("side".to_owned(), format!("{side:?}").to_lowercase()),
    ]);
    for (index, source) in sources.iter().enumerate() {
        let documents = match &source.field {
            Some(field) => format!("jsonl {field}"),
            None => format!("text {:?}", source.document).to_lowercase(),
        };
        let bound = format!("{} {:?}", source.max_document_bytes, source.oversize).to_lowercase();
        fields.insert(format!("source.{index}"), format!("{documents}, at most {bound}"));
    }
    fields.extend(stages.enumerate().map(|(index, name)| (format!("stage.{index}"), name.clone())));
    Fingerprint(fields)
}
