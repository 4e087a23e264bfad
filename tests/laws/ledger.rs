//! The ledger: each document and each id of a source is in exactly one of its numbers, at every batch and at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millstream::config::{Config, ExcludedDocument, Last, OnError, PackRule, SourceKind, Uneven};
use millstream::cursor::{Ledger, LeftOut, SourceLedger};
use millstream::loader::LoaderBuilder;
use millstream::{Batch, Cursor, Loader};
use proptest::prelude::*;

use crate::corpus::{Corpus, block_on, corpora, goes_on, read, reread, rules};
use crate::masks::{mask_of, masked_configs, with_masks};
use crate::support::tokenizers::before;

fn is_refused(text: &str) -> bool {
    text.len() % 7 == 3
}

/// The records of all sources, and a config that reads them.
struct Run {
    config: Config,
    has_masks: bool,
    sources: Vec<BTreeMap<(PathBuf, u64), Record>>,
    /// Records that no reader can read, by source.
    broken: Vec<u64>,
}

struct Record {
    ids: u64,
    /// What becomes of it in one epoch, if it is in no row.
    left_out: Option<SourceLedger>,
}

impl Run {
    fn new(directory: &Path, corpora: &[Corpus], mut config: Config, has_masks: bool, breaks: bool) -> Self {
        let (mut sources, mut all_broken) = (Vec::new(), Vec::new());
        for (number, corpus) in corpora.iter().enumerate() {
            let home = directory.join(number.to_string());
            let mut documents = corpus.write(&home);
            let mut source = corpus.source(&home);
            (source.weight, source.on_error) = (Some(1.0 + number as f64), OnError::Skip(1000));
            config.sources.push(source);
            let mut broken = 0;
            if breaks && corpus.kind == SourceKind::Jsonl {
                for (name, _) in corpus.files.iter().filter(|(_, documents)| !documents.is_empty()) {
                    let path = home.join(name);
                    let text = std::fs::read_to_string(&path).expect("it was written");
                    std::fs::write(&path, format!("{{broken\n{}\n{{broken\n", text.trim_end()))
                        .expect("it can be written");
                    let moved = documents.iter_mut().filter(|(of, ..)| *of == path);
                    moved.for_each(|(_, byte, _)| *byte += "{broken\n".len() as u64);
                    broken += 2;
                }
            }
            all_broken.push(broken);
            let record = |(path, byte, text): (PathBuf, u64, String)| {
                let record = Record::new(&text, has_masks.then_some(byte), &config);
                ((path, byte), record)
            };
            sources.push(documents.into_iter().map(record).collect());
        }
        Self { config, has_masks, sources, broken: all_broken }
    }

    fn builder(&self) -> LoaderBuilder {
        let picky = before("picky", |text| match is_refused(text) {
            true => Err("its length is not to my taste".into()),
            false => Ok(()),
        });
        let builder = Loader::builder(&self.config).with_tokenizer(picky);
        if self.has_masks { with_masks(builder) } else { builder }
    }

    fn epochs(&self) -> u64 {
        self.config.pipeline.epochs.expect("some epochs")
    }

    /// The document of a place in a row: its source, its record and the index of the id.
    fn at(&self, batch: &Batch, row: usize, place: usize) -> Option<(usize, (PathBuf, u64), u64)> {
        let piece = batch.pieces().iter().find(|piece| {
            piece.row as usize == row && (piece.from as usize..piece.to as usize).contains(&place)
        })?;
        let source = batch.source(piece).expect("it is of a file");
        let key = (batch.path(piece).to_owned(), piece.position.byte);
        Some((source, key, u64::from(piece.offset) + place as u64 - u64::from(piece.from)))
    }
}

impl Record {
    fn new(text: &str, masked_at: Option<u64>, config: &Config) -> Self {
        let mask = masked_at.and_then(|byte| mask_of(text, byte));
        let eos = u64::from(mask.is_none() && config.tokenizer.eos.is_some());
        let ids = text.len() as u64 + eos;
        let masked = mask.map_or(0, |mask| mask.masked().iter().map(|range| range.len() as u64).sum());
        let pipeline = &config.pipeline;
        let is_too_long =
            pipeline.pack != PackRule::Concat && masked > 0 && ids > pipeline.seq_len as u64 + 1;
        let none = SourceLedger::default();
        let left_out = match () {
            () if is_refused(text) || masked == ids => Some(SourceLedger { skipped: 1, ..none }),
            () if is_too_long => Some(SourceLedger { cut: LeftOut { documents: 1, ids }, ..none }),
            () => None,
        };
        Self { ids, left_out }
    }
}

/// How often the ids of each document were targets.
type Targets = BTreeMap<((usize, (PathBuf, u64)), u64), u64>;

/// That a batch adds to the ledger what it holds; counts its targets.
fn check_batch(
    run: &Run,
    before: &Ledger,
    batch: &Batch,
    targets: &mut Targets,
) -> Result<(), TestCaseError> {
    let ledger = batch.cursor().ledger();
    let mut added = vec![[0; 2]; run.sources.len()];
    for row in 0..batch.rows() {
        for place in 1..=batch.seq_len().min((batch.lengths()[row] as usize).saturating_sub(1)) {
            let (source, key, offset) = run.at(batch, row, place).expect("no padding");
            let is_learned = batch.learned_in(row, place..place + 1).next().is_some();
            added[source][usize::from(!is_learned)] += 1;
            *targets.entry(((source, key), offset)).or_default() += 1;
        }
    }
    let mut padding = ledger.padding - before.padding;
    for (((_, now), (_, before)), added) in ledger.sources.iter().zip(&before.sources).zip(&added) {
        prop_assert_eq!([now.learned - before.learned, now.masked - before.masked], *added);
        padding += now.padding - before.padding;
    }
    let of_padding = (batch.rows() * batch.seq_len()) as u64 - added.iter().flatten().sum::<u64>();
    prop_assert_eq!(padding, of_padding);
    Ok(())
}

/// Whether no number is greater than its fellow.
fn at_most<const N: usize>(numbers: [u64; N], others: [u64; N]) -> bool {
    numbers.iter().zip(&others).all(|(number, other)| number <= other)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn each_document_and_each_id_is_in_one_number(
        corpora in prop::collection::vec(corpora(), 1..3), config in masked_configs(),
        (has_masks, breaks, fills) in any::<(bool, bool, bool)>(), excluded in prop::option::of(any::<prop::sample::Index>()),
        excluded_batches in prop::option::of((0_u64..12, prop_oneof![1_u64..4, Just(1000)])), at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut run = Run::new(directory.path(), &corpora, config, has_masks, breaks);
        let pipeline = &mut run.config.pipeline;
        pipeline.last = if fills { Last::Pad } else { Last::Short };
        // With targets further ahead, rows share documents, and later ones move up where one is taken out.
        let excluded = excluded.filter(|_| pipeline.ahead == 1).and_then(|excluded| {
            let all: Vec<_> = run.sources.iter().flat_map(BTreeMap::keys).collect();
            (!all.is_empty()).then(|| all[excluded.index(all.len())].clone())
        });
        if let Some((path, byte)) = excluded.clone() {
            run.config.exclude.documents = vec![ExcludedDocument { path, byte }];
        }
        if let Some((from, batches)) = excluded_batches {
            run.config.exclude.batches = vec![(from, from + batches)];
        }
        let Some((batches, end)) = read(run.builder()) else { return Ok(()) };

        // Each batch adds what it holds.
        let mut targets = Targets::new();
        let mut before = block_on(run.builder().open()).expect("it opens").ledger();
        for batch in &batches {
            // Batches that are left out may have gone before, with rows of padding.
            if run.config.exclude.batches.is_empty() {
                check_batch(&run, &before, batch, &mut targets)?;
            }
            before = batch.cursor().ledger();
        }

        // At the end, all is accounted for.
        let epochs = run.epochs();
        for (number, ((_, ledger), records)) in end.sources.iter().zip(&run.sources).enumerate() {
            let mut expected = SourceLedger { skipped: epochs * run.broken[number], ..SourceLedger::default() };
            for (place, record) in records {
                for _ in 0..epochs {
                    match record.left_out {
                        Some(left_out) => expected += left_out,
                        None if excluded.as_ref() == Some(place) => {
                            expected.excluded += LeftOut { documents: 1, ids: record.ids };
                        }
                        None => {
                            expected.documents += 1;
                            expected.first += record.ids;
                        }
                    }
                }
            }
            prop_assert_eq!(ledger.ids(), expected.ids(), "{:?} {:?}", ledger, expected);
            prop_assert_eq!(ledger.all_documents(), expected.all_documents(), "{:?} {:?}", ledger, expected);
            prop_assert_eq!((ledger.cut, ledger.skipped), (expected.cut, expected.skipped));
            if run.config.exclude.batches.is_empty() {
                let is_own = |((source, _), _): &&((usize, _), _)| *source == number;
                let delivered: u64 = targets.iter().filter(|(key, _)| is_own(key)).map(|(_, times)| times).sum();
                prop_assert_eq!(ledger.learned + ledger.masked, delivered);
                prop_assert!(targets.values().all(|times| *times <= epochs));
                prop_assert_eq!((ledger.documents, ledger.excluded), (expected.documents, expected.excluded));
            }
        }

        // Who resumes goes on counting.
        if !batches.is_empty() {
            let at = at.index(batches.len());
            let builder = run.builder().with_cursor(reread(batches[at].cursor()));
            goes_on(builder, &batches[at + 1..], &end)?;
        }
    }

    #[test]
    fn however_a_stream_ends_it_counts_what_it_has_delivered(
        corpora in prop::collection::vec(corpora(), 1..3), config in masked_configs(), rules in rules(),
        (has_masks, breaks) in any::<(bool, bool)>(), excluded in prop::option::of((0_u64..12, prop_oneof![1_u64..4, Just(1000)])),
        at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut run = Run::new(directory.path(), &corpora, config, has_masks, breaks);
        let (uneven, last) = rules;
        (run.config.pipeline.uneven, run.config.pipeline.last) = (Uneven::Pad, Last::Short);
        let Some((_, all)) = read(run.builder()) else { return Ok(()) };
        (run.config.pipeline.uneven, run.config.pipeline.last) = rules;
        run.config.exclude.batches = excluded.map(|(from, batches)| (from, from + batches)).into_iter().collect();
        let Some((batches, end)) = read(run.builder()) else { return Ok(()) };

        for ((_, end), (_, all)) in end.sources.iter().zip(&all.sources) {
            let delivered = |it: &SourceLedger| [it.documents + it.excluded.documents, it.delivered() + it.excluded.ids];
            let numbers = |it: &SourceLedger| [it.skipped, it.all_documents(), it.ids()];
            match (uneven, last) {
                // Who begins again counts what is left out behind its last row with what follows.
                (Uneven::Wrap, Last::Drop) => {}
                (Uneven::Wrap, _) => prop_assert!(at_most(delivered(all), delivered(end))),
                (Uneven::Stop, _) | (_, Last::Drop) => prop_assert!(at_most(numbers(end), numbers(all))),
                _ => prop_assert_eq!(numbers(end), numbers(all)),
            }
        }

        // Whatever is read ahead, and wherever the stream was resumed.
        let (_, on_demand) = read(run.builder().with_on_demand(true)).expect("it has batches");
        prop_assert_eq!(&on_demand, &end);
        if !batches.is_empty() {
            let at = at.index(batches.len());
            let builder = run.builder().with_cursor(reread(batches[at].cursor()));
            goes_on(builder, &batches[at + 1..], &end)?;
        }
    }

    #[test]
    fn ranks_count_what_one_process_counts(
        corpora in prop::collection::vec(corpora(), 1..3), mut config in masked_configs(),
        (has_masks, breaks) in any::<(bool, bool)>(), rules in rules(), at: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        (config.pipeline.lanes, config.pipeline.batch_size) = (4.into(), 4 * config.pipeline.batch_size);
        let mut run = Run::new(directory.path(), &corpora, config, has_masks, breaks);
        (run.config.pipeline.uneven, run.config.pipeline.last) = rules;
        let Some((whole, end)) = read(run.builder()) else { return Ok(()) };
        let mut ranks = Vec::new();
        let mut sum = Ledger::default();
        for rank in 0..2 {
            (run.config.pipeline.rank, run.config.pipeline.world) = (Some(rank), Some(2));
            let (batches, ledger) = read(run.builder()).expect("it has batches");
            let at = at.index(batches.len());
            goes_on(run.builder().with_cursor(reread(batches[at].cursor())), &batches[at + 1..], &ledger)?;
            sum.padding += ledger.padding;
            match sum.sources.is_empty() {
                true => sum.sources = ledger.sources,
                false => sum.sources.iter_mut().zip(ledger.sources).for_each(|((_, sum), (_, own))| *sum += own),
            }
            ranks.push(batches);
        }
        prop_assert_eq!(sum, end);
        if run.config.pipeline.batch_tokens.is_none() {
            for (nth, batch) in whole.iter().enumerate() {
                let merged = Cursor::merge(&[ranks[0][nth].cursor().clone(), ranks[1][nth].cursor().clone()]);
                prop_assert_eq!(merged.expect("of one batch").ledger(), batch.cursor().ledger());
            }
        }
    }
}
