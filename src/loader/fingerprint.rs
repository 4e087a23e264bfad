//! What a cursor depends on, by name and value.
//!
//! Everything else may change between a run and its resumption. `batch_size`, `epochs`, the rank and the world may
//! change because lanes do not depend on them (except `epochs` where batches have a token budget). `on_error` may
//! change because a bad document is often what ended the run. So may settings that only prefetch. Weights are in the
//! cursor's history instead, because they may change during a run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::resolve::Resolved;
use crate::config::{Config, CsvConfig, PackRule, SampleConfig, SourceConfig, SourceKind, names};
use crate::cursor::Fingerprint;
use crate::error::{Error, Result};
use crate::files::Listing;
use crate::source::{Source, hub_names};
use crate::store::hub_commit;
use crate::tasks::blocking;

/// The version of the order that this build makes. Raise it whenever the order changes.
const ORDER: u32 = 1;

/// The state of each source's files, as cursors record it.
pub(super) async fn files(config: &Config, source: &Source) -> Result<Vec<String>> {
    let sources: Vec<Source> = (0..config.sources.len()).map(|index| source.only(index)).collect();
    blocking("source", move || sources.iter().map(Source::identity).collect()).await
}

pub(super) fn fingerprint(resolved: &Resolved, files: &[String]) -> Fingerprint {
    let Resolved { config, source, documents, tokenizer, side, stages, .. } = resolved;
    let Config { seed, sources, tokenizer: ids, pipeline, .. } = config;
    let none = || "none".to_owned();
    let pack_window = (pipeline.pack == PackRule::BestFit).then_some(pipeline.pack_window);
    let mut fields = BTreeMap::from([
        ("order".to_owned(), ORDER.to_string()),
        ("seed".to_owned(), seed.to_string()),
        ("tokenizer".to_owned(), tokenizer.fingerprint()),
        ("tokenizer.bos".to_owned(), ids.bos.clone().unwrap_or_else(none)),
        ("tokenizer.eos".to_owned(), ids.eos.clone().unwrap_or_else(none)),
        ("pipeline.lanes".to_owned(), pipeline.lanes().to_string()),
        ("pipeline.shuffle_splits".to_owned(), pipeline.shuffle_splits.to_string()),
        ("pipeline.shuffle".to_owned(), pipeline.shuffle.to_string()),
        ("pipeline.seq_len".to_owned(), pipeline.seq_len.to_string()),
        ("pipeline.pack".to_owned(), pipeline.pack.to_string()),
        ("pipeline.ahead".to_owned(), pipeline.ahead.to_string()),
        (
            "pipeline.max_segments".to_owned(),
            pipeline.max_segments.map_or_else(none, |most| most.to_string()),
        ),
        ("pipeline.pack_window".to_owned(), pack_window.map_or_else(none, |window| window.to_string())),
        ("pipeline.holdout".to_owned(), pipeline.holdout.to_string()),
        ("side".to_owned(), side.name().to_owned()),
    ]);
    if let Some(window) = pipeline.window() {
        fields.insert("pipeline.window".to_owned(), window.to_string());
    }
    if let Some(pad) = &ids.pad {
        fields.insert("tokenizer.pad".to_owned(), pad.clone());
    }
    if let Some(tokens) = pipeline.batch_tokens {
        fields.insert("pipeline.batch_tokens".to_owned(), tokens.to_string());
        fields.insert("pipeline.buckets".to_owned(), word(&pipeline.bucket_lengths()));
        fields.insert("pipeline.bucket_window".to_owned(), pipeline.bucket_window.to_string());
    }
    for (index, (name, settings)) in names(sources).into_iter().zip(sources).enumerate() {
        let settings = source.settings(index).unwrap_or(settings);
        if documents.is_some() {
            fields.insert(of_source(&name, "documents"), "the program's own".to_owned());
            continue;
        }
        insert_documents(&mut fields, &name, settings);
        insert_rendering(&mut fields, &name, source.rendered(index));
        // The first directory's settings are those of the source.
        let of_it = source.shards().filter(|(of, _)| *of == index).enumerate().skip(1);
        for (nth, (_, shards)) in of_it {
            let (name, manifest) = (format!("{name}.{nth}"), shards.manifest());
            insert_documents(&mut fields, &name, &manifest.source);
            insert_rendering(&mut fields, &name, manifest.rendering.clone());
        }
        insert_epochs(&mut fields, config, index, &name);
        fields.insert(of_source(&name, "files"), files[index].clone());
    }
    fields.extend(stages.fingerprint());
    let mut fingerprint = Fingerprint(fields);
    fingerprint.insert_commits(commits(config));
    fingerprint
}

/// The commits that branches and tags of the Hub stand for, by the names of their repositories.
pub(super) fn commits(Config { sources, tokenizer, .. }: &Config) -> BTreeMap<String, String> {
    let files = sources.iter().map(|source| &source.chat.template).chain([&tokenizer.path]).flatten();
    let files = files.map(|path| path.to_string_lossy().into_owned());
    sources.iter().flat_map(hub_names).chain(files).filter_map(|name| hub_commit(&name)).collect()
}

/// Inserts what the records of a source are rendered with, if they are.
fn insert_rendering(fields: &mut BTreeMap<String, String>, name: &str, rendering: Option<String>) {
    fields.extend(rendering.map(|rendering| (of_source(name, "rendering"), rendering)));
}

/// Inserts the fields that decide which documents a source's files have.
fn insert_documents(fields: &mut BTreeMap<String, String>, name: &str, settings: &SourceConfig) {
    let kind = settings.kind;
    let documents = match (&settings.field, &settings.format) {
        (_, Some(format)) => format!("{kind} {}", format.name()),
        // What renders the records says where in them it looks.
        _ if settings.task.reads_records() => kind.to_string(),
        (Some(field), None) => format!("{kind} {field}"),
        (None, None) if kind == SourceKind::Synthetic => kind.to_string(),
        (None, None) => format!("text {}", word(&settings.document)),
    };
    let bound = format!("{} {}", settings.max_document_bytes, word(&settings.oversize)).to_lowercase();
    fields.insert(of_source(name, "documents"), format!("{documents}, at most {bound}"));
    let split = settings.split.map_or_else(|| "auto".to_owned(), |split| split.to_string());
    fields.insert(of_source(name, "split"), split);
    for (key, value) in [("where", &settings.filter), ("subset", &settings.subset), ("part", &settings.part)]
    {
        if let Some(value) = value {
            fields.insert(of_source(name, key), value.clone());
        }
    }
    if settings.csv != CsvConfig::default() {
        fields.insert(of_source(name, "csv"), word(&settings.csv));
    }
    if let Some(SampleConfig { field, max }) = &settings.sample {
        fields.insert(of_source(name, "sample"), format!("{field} of {max}"));
    }
}

/// Inserts how often a source is read, if that is part of the order: with a token budget, the grouping of a window
/// depends on where the stream ends.
fn insert_epochs(fields: &mut BTreeMap<String, String>, config: &Config, index: usize, name: &str) {
    if config.pipeline.batch_tokens.is_some() {
        fields.insert(of_source(name, "epochs"), word(&config.epochs(index)));
    }
}

/// A value as a config spells it.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Null) | Err(_) => "none".to_owned(),
        Ok(value) => value.to_string(),
    }
}

fn of_source(name: &str, what: &str) -> String {
    format!("source.{name}.{what}")
}

/// All fields except those of the sources `names`.
pub(super) fn without(fingerprint: &Fingerprint, names: &[&String]) -> Fingerprint {
    let of_them = |field: &String| names.iter().any(|name| field.starts_with(&of_source(name, "")));
    let fields = fingerprint.0.iter().filter(|(field, _)| !of_them(field));
    Fingerprint(fields.map(|(field, value)| (field.clone(), value.clone())).collect())
}

/// Returns the same error. If `config` cannot continue from a cursor because its files have changed, the error names
/// the first changed file. `was` is the earlier [listing](crate::Loader::listing); the files are listed again.
pub async fn explain(error: Error, was: &Listing, config: &Config) -> Error {
    if !is_of_files(&error) {
        return error;
    }
    match Source::from_config(config).await {
        Ok(source) => was.explain(error, &listing(config, &source).await),
        Err(_) => error,
    }
}

/// Whether a cursor was refused because a source has other files.
pub(crate) fn is_of_files(error: &Error) -> bool {
    matches!(error, Error::Fingerprint { field, .. } if field.ends_with(".files"))
}

/// The listing of the files of a config's sources, with samples of those that can be read.
pub(crate) async fn listing(config: &Config, source: &Source) -> Listing {
    // What cannot be read has no samples.
    let _ = files(config, source).await;
    source.listing(&names(&config.sources))
}
