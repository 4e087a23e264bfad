//! The ledger by the values of a column: those of a source add up to its own numbers at every batch, and each is what the
//! batches and the records say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::config::{
    ByteCount, Config, ExcludedDocument, OrAuto, PackRule, ShuffleRule, SourceConfig, SourceKind,
    TokenCacheConfig, TokenizerKind,
};
use millstream::cursor::{Ledger, LeftOut, SourceLedger};
use millstream::loader::LoaderBuilder;
use millstream::prepare::prepare;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Loader};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::corpus::{block_on, goes_on, read, reread};
use crate::masks::{mask_of, masked_configs, with_masks};

/// A record: its text, and its language if it says one.
type Record = (String, Option<Value>);

/// The files of a source, by name.
type Files = BTreeMap<String, Vec<Record>>;

fn files() -> impl Strategy<Value = Files> {
    let text = prop_oneof![8 => "[a-zé€😀]{2,12}( [a-z]{1,9}){0,4}", 1 => "[a-z]{200,400}"];
    let values = ["en", "de", "none", "other", "null", "\"en\"", ""].map(Value::from);
    let values = values.into_iter().chain([Value::Null, json!(5), json!(true), json!(0.5)]).map(Some);
    let lang = prop::sample::select(values.chain([None]).collect::<Vec<_>>());
    let records = prop::collection::vec((text, lang), 0..14);
    prop::collection::btree_map("[a-z]{1,3}\\.jsonl", records, 1..6)
        .prop_filter("a corpus has documents", |files| files.values().any(|file| !file.is_empty()))
}

/// What the ledger calls a value.
fn called(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if ["none", "other", "null", "\"en\""].contains(&&**text) => {
            format!("{text:?}")
        }
        Some(Value::String(text)) => text.clone(),
        value => value.unwrap_or(&Value::Null).to_string(),
    }
}

/// What gives the documents' ids.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Files,
    Masks,
    Cache,
    Shards,
    Global,
}

/// The records of all sources, and a config that reads them.
struct Run {
    config: Config,
    way: Way,
    on_demand: bool,
    documents: BTreeMap<(PathBuf, u64), Known>,
}

/// A document: its source, what its value is called, its ids, and what becomes of it in an epoch if it is in no row.
struct Known {
    source: usize,
    value: String,
    ids: u64,
    left_out: Option<SourceLedger>,
}

impl Known {
    fn new((source, value): (usize, String), text: &str, masked_at: Option<u64>, config: &Config) -> Self {
        let mask = masked_at.and_then(|byte| mask_of(text, byte));
        let ids = text.len() as u64 + u64::from(mask.is_none() && config.tokenizer.eos.is_some());
        let masked = mask.map_or(0, |mask| mask.masked().iter().map(|range| range.len() as u64).sum());
        let pipeline = &config.pipeline;
        let is_cut = pipeline.pack != PackRule::Concat && masked > 0 && ids > pipeline.seq_len as u64 + 1;
        let cut = LeftOut { documents: 1, ids };
        let left_out = match masked == ids {
            true => Some(SourceLedger::default()),
            false => is_cut.then(|| SourceLedger { cut, ..SourceLedger::default() }),
        };
        Self { source, value, ids, left_out }
    }
}

impl Run {
    /// Writes the files. Only the first source has the column.
    fn new(directory: &Path, sources: &[Files], mut config: Config, way: Way, on_demand: bool) -> Self {
        config.tokenizer.kind = TokenizerKind::Bytes;
        let mut documents = BTreeMap::new();
        for (number, files) in sources.iter().enumerate() {
            let home = directory.join(number.to_string());
            std::fs::create_dir(&home).expect("a directory");
            for (name, records) in files {
                let (path, mut file) = (home.join(name), String::new());
                for (text, lang) in records {
                    let byte = file.len() as u64;
                    let mut record = json!({ "text": text });
                    lang.iter().for_each(|lang| record["lang"] = lang.clone());
                    let value = if number == 0 { called(lang.as_ref()) } else { "none".to_owned() };
                    let masked_at = (way == Way::Masks).then_some(byte);
                    let known = Known::new((number, value), text, masked_at, &config);
                    documents.insert((path.clone(), byte), known);
                    file.push_str(&format!("{record}\n"));
                }
                std::fs::write(path, file).expect("a file");
            }
            let columns = if number == 0 { vec!["lang".to_owned()] } else { Vec::new() };
            let source = SourceConfig {
                kind: SourceKind::Jsonl,
                field: Some("text".to_owned()),
                paths: vec![format!("{}/*.jsonl", home.display())],
                split: Some(ByteCount(300)),
                weight: Some(1.0 + number as f64),
                columns,
                ..SourceConfig::default()
            };
            config.sources.push(stored(source, &home, way, &config));
        }
        config.pipeline.ledger_by = Some("lang".to_owned());
        if way == Way::Global {
            (config.pipeline.shuffle, config.pipeline.window) = (ShuffleRule::Global, OrAuto::Auto);
            config.pipeline.shuffle_splits = true;
        }
        Self { config, way, on_demand, documents }
    }

    fn builder(&self) -> LoaderBuilder {
        let builder = Loader::builder(&self.config).with_tokenizer(Arc::new(ByteTokenizer));
        let builder = builder.with_on_demand(self.on_demand);
        if self.way == Way::Masks { with_masks(builder) } else { builder }
    }

    /// What a batch delivers of each source and value: ids that are learned, and masked ones.
    fn delivered(&self, batch: &Batch) -> BTreeMap<(usize, &str), [u64; 2]> {
        let mut delivered = BTreeMap::new();
        for piece in batch.pieces() {
            let known = &self.documents[&(batch.path(piece).to_owned(), piece.position.byte)];
            let counts: &mut [u64; 2] = delivered.entry((known.source, &*known.value)).or_default();
            for place in (piece.from as usize).max(1)..(piece.to as usize).min(batch.seq_len() + 1) {
                let is_learned = batch.learned_in(piece.row as usize, place..place + 1).next().is_some();
                counts[usize::from(!is_learned)] += 1;
            }
        }
        delivered
    }
}

/// The source with a token cache, or as token shards.
fn stored(source: SourceConfig, home: &Path, way: Way, config: &Config) -> SourceConfig {
    let shards = home.join("shards");
    match way {
        Way::Files | Way::Masks => source,
        Way::Cache => {
            let cache = TokenCacheConfig { path: home.join("cache"), limit: ByteCount::mib(64) };
            SourceConfig { cache: Some(cache), ..source }
        }
        Way::Shards | Way::Global => {
            let of_source = Config { sources: vec![source.clone()], ..config.clone() };
            block_on(prepare(&of_source, &shards, |_| ())).expect("prepared");
            SourceConfig {
                kind: SourceKind::Shards,
                paths: vec![shards.display().to_string()],
                weight: source.weight,
                columns: source.columns,
                ..SourceConfig::default()
            }
        }
    }
}

/// What a value of a source has; nothing if the ledger does not tell it apart.
fn of(ledger: &Ledger, source: usize, value: &str) -> SourceLedger {
    let values = ledger.values.get(&ledger.sources[source].0);
    values.and_then(|values| values.get(value)).copied().unwrap_or_default()
}

/// That the values of each source add up to its own numbers.
fn check_sums(ledger: &Ledger) -> Result<(), TestCaseError> {
    for (name, source) in &ledger.sources {
        let mut sum =
            SourceLedger { skipped: source.skipped, padding: source.padding, ..SourceLedger::default() };
        ledger.values.get(name).into_iter().flatten().for_each(|(_, value)| sum += *value);
        prop_assert_eq!(&sum, source, "{:?}", ledger);
    }
    Ok(())
}

fn ways() -> impl Strategy<Value = Way> {
    prop::sample::select(vec![Way::Files, Way::Masks, Way::Masks, Way::Cache, Way::Shards, Way::Global])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn each_value_has_its_part_of_its_source(
        sources in prop::collection::vec(files(), 1..3), config in masked_configs(), way in ways(), on_demand: bool,
        excluded in prop::option::of(any::<prop::sample::Index>()),
        excluded_batches in prop::option::of((0_u64..4, 1_u64..4)), at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut run = Run::new(directory.path(), &sources, config, way, on_demand);
        let excluded = excluded.map(|excluded| excluded.index(run.documents.len()));
        let excluded = excluded.and_then(|nth| run.documents.keys().nth(nth)).cloned();
        if let Some((path, byte)) = excluded.clone() {
            run.config.exclude.documents = vec![ExcludedDocument { path, byte }];
        }
        run.config.exclude.batches = excluded_batches.map(|(from, batches)| (from, from + batches)).into_iter().collect();
        let Some((batches, end)) = read(run.builder()) else { return Ok(()) };

        // Each batch adds what it holds.
        let mut before = block_on(run.builder().open()).expect("it opens").ledger();
        for batch in &batches {
            let ledger = batch.cursor().ledger();
            check_sums(&ledger)?;
            if excluded_batches.is_none() {
                let delivered = run.delivered(batch);
                for known in run.documents.values() {
                    let (now, was) = (of(&ledger, known.source, &known.value), of(&before, known.source, &known.value));
                    let added = delivered.get(&(known.source, &*known.value)).copied().unwrap_or_default();
                    prop_assert_eq!([now.learned - was.learned, now.masked - was.masked], added, "{}", known.value);
                }
            }
            before = ledger;
        }
        check_sums(&end)?;

        // At the end, each document is in the numbers of its value. With targets further ahead, those behind an excluded one
        // move up into rows of which they are not.
        let behind = batches.last().map_or(0, |batch| batch.number() + 1);
        let is_cut_short = excluded_batches.is_some_and(|(from, batches)| from + batches > behind);
        if !is_cut_short && (excluded.is_none() || run.config.pipeline.ahead == 1) {
            let mut expected: BTreeMap<(usize, &str), SourceLedger> = BTreeMap::new();
            for (place, known) in &run.documents {
                let own = expected.entry((known.source, &known.value)).or_default();
                let whole = LeftOut { documents: 1, ids: known.ids };
                for _ in 0..run.config.pipeline.epochs.expect("some epochs") {
                    match known.left_out {
                        Some(left_out) => *own += left_out,
                        None if excluded.as_ref() == Some(place) => own.excluded += whole,
                        None => (own.documents, own.first) = (own.documents + 1, own.first + known.ids),
                    }
                }
            }
            for ((source, value), expected) in expected {
                let own = of(&end, source, value);
                let sums = |ledger: SourceLedger| (ledger.ids(), ledger.all_documents(), ledger.cut);
                prop_assert_eq!(sums(own), sums(expected), "{} {:?} {:?}", value, own, expected);
                if excluded_batches.is_none() {
                    prop_assert_eq!((own.documents, own.excluded), (expected.documents, expected.excluded));
                }
            }
        }

        // Who resumes goes on counting.
        if !batches.is_empty() {
            let at = at.index(batches.len());
            run.on_demand = !on_demand;
            let builder = run.builder().with_cursor(reread(batches[at].cursor()));
            goes_on(builder, &batches[at + 1..], &end)?;
        }
    }

    #[test]
    fn ranks_count_values_as_one_process_does(
        sources in prop::collection::vec(files(), 1..3), mut config in masked_configs(), way in ways(),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        (config.pipeline.lanes, config.pipeline.batch_size) = (4.into(), 4 * config.pipeline.batch_size);
        config.pipeline.batch_tokens = None;
        let mut run = Run::new(directory.path(), &sources, config, way, false);
        let Some((whole, _)) = read(run.builder()) else { return Ok(()) };
        let mut ranks = Vec::new();
        for rank in 0..2 {
            (run.config.pipeline.rank, run.config.pipeline.world) = (Some(rank), Some(2));
            ranks.push(read(run.builder()).expect("it has batches").0);
        }
        for (nth, batch) in whole.iter().enumerate() {
            let merged = Cursor::merge(&[ranks[0][nth].cursor().clone(), ranks[1][nth].cursor().clone()]);
            prop_assert_eq!(merged.expect("of one batch").ledger(), batch.cursor().ledger());
        }
    }
}

/// One lane that reads 100 documents in order, the language of each its number; the last ones have none.
fn numbered(directory: &Path) -> Run {
    let record = |number: u64| ("abc".to_owned(), (number < 90).then(|| number.into()));
    let files = Files::from([("a.jsonl".to_owned(), (0..100).map(record).collect())]);
    let mut config = Config::default();
    let pipeline = &mut config.pipeline;
    (pipeline.lanes, pipeline.window, pipeline.shuffle_splits) = (1.into(), 1.into(), false);
    (pipeline.seq_len, pipeline.batch_size, pipeline.epochs) = (2, 4, Some(2));
    pipeline.pack = PackRule::Pad;
    Run::new(directory, &[files], config, Way::Files, false)
}

#[test]
fn a_lane_tells_its_first_values_apart_and_the_others_are_counted_together() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = numbered(directory.path());
    let (_, end) = read(run.builder()).expect("it has batches");
    let values = end.values.values().next().expect("the source");
    assert_eq!(values.len(), 65, "{values:?}");
    for (value, ledger) in values {
        let documents = if value == "other" { 36 } else { 1 };
        assert_eq!((ledger.documents, ledger.delivered()), (2 * documents, 6 * documents), "{value}");
    }
}

#[test]
fn without_the_key_nothing_is_kept_and_a_cursor_keeps_its_column() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = numbered(directory.path());
    let (counted, _) = read(run.builder()).expect("it has batches");
    run.config.pipeline.ledger_by = None;
    let (plain, _) = read(run.builder()).expect("it has batches");
    let json = serde_json::to_string(plain[0].cursor()).expect("it serializes");
    assert!(!json.contains("ledger_by") && !json.contains("values"), "{json}");
    assert!(plain[0].cursor().ledger().values.is_empty());

    let refused = |cursor: &Cursor, column: Option<&str>| {
        let mut config = run.config.clone();
        config.pipeline.ledger_by = column.map(str::to_owned);
        block_on(Loader::resume(&config, cursor)).expect_err("another column").to_string()
    };
    let [from, to] = [refused(plain[0].cursor(), Some("lang")), refused(counted[0].cursor(), None)];
    assert!(from.contains("it is \"lang\", and the cursor's ledger counts by none"), "{from}");
    assert!(to.contains("it is none, and the cursor's ledger counts by \"lang\""), "{to}");

    let no_column = json.replacen("\"sources\":[{", "\"sources\":[{\"values\":{},", 1);
    let no_column = no_column.split(",\"checksum\"").next().expect("a cursor").to_owned() + "}";
    let error = serde_json::from_str::<Cursor>(&no_column).expect_err("of no column").to_string();
    assert!(error.contains("does not say of which"), "{error}");
}
