//! Documents that are made from a seed, as a source like every other.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use millstream::batch::Piece;
use millstream::config::{
    ByteCount, Config, SampleConfig, SourceConfig, SourceKind, TokenCacheConfig, TokenizerKind,
};
use millstream::prepare::prepare;
use millstream::{Batch, LaneCursor, Source};

use crate::corpus::{all, all_of, block_on as run, builder, digests, open, resumes_of, worlds_agree};

fn source(documents: usize, bytes: u64) -> SourceConfig {
    SourceConfig { document_bytes: Some(ByteCount(bytes)), ..SourceConfig::synthetic(documents) }
}

/// Two epochs of 60 short documents in four lanes, with bytes as ids.
fn config() -> Config {
    let mut config = Config { sources: vec![source(60, 100)], ..Config::default() };
    config.tokenizer.kind = TokenizerKind::Bytes;
    config.tokenizer.eos = Some("<|endoftext|>".to_owned());
    config.pipeline.seq_len = 48;
    config.pipeline.batch_size = 4;
    config.pipeline.lanes = 4.into();
    config.pipeline.window = 16.into();
    config.pipeline.epochs = Some(2);
    config
}

fn batches(config: &Config) -> Vec<Batch> {
    run(all(config)).expect("no errors")
}

/// The texts of a source in file order.
fn texts(source: &SourceConfig) -> Vec<String> {
    run(async {
        let source = Source::open(std::slice::from_ref(source)).await?;
        let documents = source.documents(&LaneCursor::default());
        documents.map_ok(|document| document.value.text().to_owned()).try_collect::<Vec<_>>().await
    })
    .expect("no errors")
}

/// How often each document of some batches begins in them, by its file and its number there.
fn begun(batches: &[Batch]) -> BTreeMap<(String, u64), usize> {
    let mut begun = BTreeMap::new();
    for batch in batches {
        // What stands in a row's last place stands in the next row's first one too.
        let is_begin = |piece: &&Piece| piece.offset == 0 && (piece.from as usize) < batch.seq_len();
        for piece in batch.pieces().iter().filter(is_begin) {
            let path = batch.path(piece).display().to_string();
            *begun.entry((path, piece.position.byte)).or_default() += 1;
        }
    }
    begun
}

#[test]
fn the_seed_decides_every_document_and_nothing_else_does() {
    let with_seed = |seed| SourceConfig { seed: Some(seed), ..source(200, 300) };
    let documents = texts(&with_seed(7));
    assert_eq!(documents.len(), 200);
    assert_eq!(documents, texts(&with_seed(7)));
    assert_eq!(documents.iter().chain(&texts(&with_seed(8))).collect::<BTreeSet<_>>().len(), 400);
    // More documents, cut elsewhere, begin with the same ones.
    let more = SourceConfig { documents: Some(5000), split: Some(ByteCount(1000)), ..with_seed(7) };
    assert_eq!(texts(&more)[..200], documents);
}

#[test]
fn lengths_vary_around_their_mean() {
    for bytes in [64, 2 << 10, 20 << 10] {
        let documents = texts(&source(2000, bytes));
        let lens: Vec<u64> = documents.iter().map(|text| text.len() as u64).collect();
        let mean = lens.iter().sum::<u64>() as f64 / 2000.0;
        assert!((mean / bytes as f64 - 1.0).abs() < 0.05, "{mean} and not {bytes}");
        assert!(lens.iter().any(|&len| len < bytes / 2) && lens.iter().any(|&len| len > bytes * 3 / 2));
        assert!(documents.iter().all(|text| text.is_ascii() && !text.is_empty()));
    }
}

#[test]
fn without_a_seed_of_its_own_a_source_has_the_configs_on_both_sides() {
    let seeded = |run: u64, of_source: Option<u64>| {
        let mut config = Config { seed: run, ..config() };
        config.sources[0].seed = of_source;
        config.pipeline.holdout = 0.3;
        config
    };
    let sides = |config: &Config| {
        let trained = begun(&batches(config)).into_keys();
        let held_out = run(all_of(builder(config).with_held_out(true)));
        (trained.collect::<Vec<_>>(), begun(&held_out.expect("no errors")).into_keys().collect::<Vec<_>>())
    };
    let (trained, held_out) = sides(&seeded(5, None));
    assert!(!held_out.is_empty());
    assert_eq!(trained.len() + held_out.len(), 60);
    assert_eq!(trained.iter().chain(&held_out).collect::<BTreeSet<_>>().len(), 60);
    assert_eq!(sides(&seeded(5, Some(5))), (trained.clone(), held_out.clone()));
    // The run's seed shuffles; it is the source's that makes other documents.
    assert_eq!(sides(&seeded(6, Some(5))), (trained, held_out.clone()));
    assert_ne!(sides(&seeded(6, None)).1, held_out);
}

#[test]
fn every_document_comes_once_an_epoch() {
    let begun = begun(&batches(&config()));
    assert_eq!(begun.len(), 60);
    assert!(begun.values().all(|&times| times == 2), "{begun:?}");
    let name = "synthetic://seed=42,documents=60,bytes=100".to_owned();
    assert!((0..60).all(|number| begun.contains_key(&(name.clone(), number))));
}

#[test]
fn a_source_is_cut_as_finely_as_others() {
    let splits = |source: SourceConfig| run(Source::open(&[source])).expect("it opens").splits();
    assert_eq!(splits(source(1, 100)), 1);
    assert_eq!(splits(source(100, 100)), 100);
    assert!((1000..2000).contains(&splits(source(10_000, 2048))));
    assert!((100_000..400_000).contains(&splits(source(1_000_000_000, 1 << 20))));
    assert_eq!(splits(SourceConfig { split: Some(ByteCount(1000)), ..source(100, 100) }), 10);
}

#[test]
fn order_does_not_depend_on_what_runs_ahead() {
    let expected = digests(&batches(&config()));
    assert!(expected.len() > 20);
    for (workers, depth) in [(1, 1), (3, 2), (8, 16)] {
        let mut config = config();
        config.pipeline.workers = workers.into();
        config.pipeline.depth = depth.into();
        config.pipeline.memory = ByteCount(700 << 10);
        assert_eq!(digests(&batches(&config)), expected);
    }
}

#[test]
fn resume_is_exact_at_every_batch() {
    let mut long = config();
    // Documents longer than rows and than what is read at once, and read side by side.
    long.sources = vec![source(30, 2 << 10)];
    (long.pipeline.window, long.pipeline.lanes) = (4.into(), 2.into());
    for config in [config(), long] {
        assert_eq!(run(resumes_of(|| builder(&config), 60)), Ok(()));
    }
}

#[test]
fn a_cursor_of_other_documents_is_refused() {
    let cursor = batches(&config())[3].cursor().clone();
    type Change = fn(&mut SourceConfig);
    let changes: [Change; 3] = [
        |source| source.seed = Some(1),
        |source| source.documents = Some(61),
        |source| source.document_bytes = Some(ByteCount(101)),
    ];
    for change in changes {
        let mut config = config();
        change(&mut config.sources[0]);
        let error = run(open(&config, Some(&cursor))).expect_err("refused").to_string();
        assert!(error.contains("source.0.files"), "{error}");
    }
    // A default that is written down changes nothing.
    let mut same = config();
    same.sources[0].seed = Some(42);
    run(open(&same, Some(&cursor))).expect("it resumes");
}

#[test]
fn any_number_of_ranks_makes_the_rows_of_one_process() {
    let mut config = config();
    config.pipeline.epochs = None;
    run(async {
        let one = open(&config, None).await.expect("it opens").take(20).try_collect::<Vec<Batch>>().await;
        let one = one.expect("no errors");
        for worlds in [[2, 4], [4, 2]] {
            worlds_agree(&config, builder, &one, &worlds, 7)
                .await
                .expect("ranks have the rows of one process");
        }
    });
}

#[test]
fn what_is_prepared_gives_the_same_batches() {
    let directory = tempfile::tempdir().expect("a directory");
    let shards = directory.path().join("shards");
    let direct = batches(&config());
    run(prepare(&config(), &shards, |_| {})).expect("prepared");
    // It goes on where it ended: there is nothing left to do.
    run(prepare(&config(), &shards, |_| {})).expect("prepared");
    let source = SourceConfig {
        kind: SourceKind::Shards,
        paths: vec![shards.display().to_string()],
        ..SourceConfig::default()
    };
    let prepared = Config { sources: vec![source], ..config() };
    let read = batches(&prepared);
    assert_eq!(digests(&read), digests(&direct));
    assert_eq!(begun(&read), begun(&direct));
    let resumed =
        run(async { open(&prepared, Some(direct[4].cursor())).await?.try_collect::<Vec<_>>().await });
    assert_eq!(digests(&resumed.expect("no errors")), digests(&direct)[5..]);
}

#[test]
fn it_mixes_with_files_and_its_tokens_can_be_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines: String = (0..200).map(|line| format!("line {line} of a file\n")).collect();
    std::fs::write(directory.path().join("lines.txt"), lines).expect("written");
    let mut config = config();
    config.sources[0].name = Some("made".to_owned());
    config.sources.push(SourceConfig {
        name: Some("lines".to_owned()),
        paths: vec![directory.path().join("*.txt").display().to_string()],
        ..SourceConfig::default()
    });
    let expected = batches(&config);
    let begun = begun(&expected);
    assert_eq!((begun.len(), begun.values().all(|&times| times == 2)), (260, true));
    let path = directory.path().join("tokens");
    config.sources[0].cache = Some(TokenCacheConfig { path: path.clone(), limit: ByteCount::mib(64) });
    assert_eq!(digests(&batches(&config)), digests(&expected));
    assert!(path.is_dir());
    assert_eq!(digests(&batches(&config)), digests(&expected));
}

#[test]
fn keys_that_make_no_sense_are_refused() {
    let refused = |source: SourceConfig| run(Source::open(&[source])).expect_err("refused").to_string();
    let made = || SourceConfig::synthetic(10);
    let files = || SourceConfig { paths: vec!["*.txt".to_owned()], ..SourceConfig::default() };
    let sample = Some(SampleConfig { field: "weight".to_owned(), max: 1.0 });
    let cases = [
        (
            SourceConfig { paths: vec!["a.txt".to_owned()], ..made() },
            "source.0.paths: a source of kind synthetic has no `paths`",
        ),
        (
            SourceConfig { field: Some("text".to_owned()), ..made() },
            "source.0.field: a source of kind synthetic has no `field`",
        ),
        (
            SourceConfig { filter: Some("a > 1".to_owned()), ..made() },
            "source.0.where: a source of kind synthetic has no `where`",
        ),
        (SourceConfig { sample, ..made() }, "source.0.sample: a source of kind synthetic has no `sample`"),
        (made_with(0, 100), "`source.0.documents` must be from 1 to"),
        (made_with(1, 15), "`source.0.document_bytes` must be from 16 bytes to 1MiB, not 15B"),
        (made_with(1, (1 << 20) + 1), "must be from 16 bytes to 1MiB"),
        (
            SourceConfig { documents: Some(1), ..files() },
            "source.0.documents: a source of kind text has no `documents`",
        ),
        (
            SourceConfig { document_bytes: Some(ByteCount(99)), ..files() },
            "source.0.document_bytes: a source of kind text has no `document_bytes`",
        ),
        (
            SourceConfig { seed: Some(1), ..files() },
            "source.0.seed: nothing is drawn from it; set kind = \"synthetic\" or task = \"fim\", or remove it",
        ),
        (
            SourceConfig { paths: vec!["synthetic://seed=1".to_owned()], ..files() },
            "source.0.paths: \"synthetic://seed=1\" names documents that are made",
        ),
    ];
    for (source, expected) in cases {
        let error = refused(source);
        assert!(error.contains(expected), "{error:?} and not {expected:?}");
    }
}

fn made_with(documents: usize, bytes: u64) -> SourceConfig {
    source(documents, bytes)
}

#[test]
fn other_sources_are_written_as_ever() {
    let written = serde_json::to_string(&SourceConfig::default()).expect("JSON");
    assert!(
        ["documents", "document_bytes", "seed"].iter().all(|key| !written.contains(&format!("\"{key}\"")))
    );
    let made = serde_json::to_value(SourceConfig::synthetic(3)).expect("JSON");
    assert_eq!((&made["kind"], &made["documents"]), (&"synthetic".into(), &3.into()));
}
