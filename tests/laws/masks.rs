//! Masks: each id of each batch is learned from if its document says so, however it was shuffled, packed, dealt and
//! resumed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use millstream::batch::Piece;
use millstream::config::{Config, ExcludedDocument, PackRule};
use millstream::document::Mask;
use millstream::loader::{LoaderBuilder, TokenStream};
use millstream::{Batch, Document, Error, Sequence, Tokens};
use proptest::prelude::*;

use crate::corpus::{Corpus, all_of, block_on, builder as bytes, configs, corpora, resumes_of, worlds_agree};

/// The mask of the document that begins at a byte, if it has one: a mask for each kind of document, drawn from its place.
pub(crate) fn mask_of(text: &str, byte: u64) -> Option<Mask> {
    let mut state = (byte << 32 | text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut mask = Mask::default();
    match draw(8) {
        0 | 1 => return None,
        2 => mask.mask(0..text.len()),
        3 => {}
        _ => {
            let mut at = 0;
            while at < text.len() {
                let (learned, masked) = (draw(7) as usize, 1 + draw(9) as usize);
                mask.mask((at + learned).min(text.len())..(at + learned + masked).min(text.len()));
                at += learned + masked;
            }
        }
    }
    Some(mask)
}

pub(crate) fn with_masks(builder: LoaderBuilder) -> LoaderBuilder {
    let masked = |document: Document| match mask_of(document.text(), document.position().byte) {
        Some(mask) => document.with_mask(mask),
        None => document,
    };
    builder.stage("masks", move |documents, _| documents.map_ok(move |it| it.map(masked)).boxed())
}

fn builder(config: &Config) -> LoaderBuilder {
    with_masks(bytes(config))
}

/// A document as the slow model has it: its ids, and whether each is learned from.
#[derive(Debug)]
struct Known {
    ids: Vec<(u32, bool)>,
    text_bytes: usize,
    /// Whether rows have it. Otherwise nothing of it is learned from, or it is too long.
    is_packed: bool,
}

impl Known {
    /// The bytes of text that one of its ids stands for.
    fn bytes(&self, offset: usize) -> u64 {
        let before = |id: usize| id * self.text_bytes / self.ids.len();
        (before(offset + 1) - before(offset)) as u64
    }
}

/// All documents, by file and byte.
struct Model(BTreeMap<(PathBuf, u64), Known>);

impl Model {
    fn new(documents: &[(PathBuf, u64, String)], config: &Config) -> Self {
        let pipeline = &config.pipeline;
        let known = |(path, byte, text): &(PathBuf, u64, String)| {
            let mask = mask_of(text, *byte);
            let flags = mask.as_ref().map(|mask| {
                let is_masked = |at: usize| mask.masked().iter().any(|range| range.contains(&at));
                (0..text.len()).map(|at| !is_masked(at)).collect::<Vec<_>>()
            });
            let mut ids: Vec<(u32, bool)> = text.bytes().map(|byte| (u32::from(byte), true)).collect();
            match &flags {
                Some(flags) => ids.iter_mut().zip(flags).for_each(|(id, flag)| id.1 = *flag),
                None => ids.extend(config.tokenizer.eos.as_ref().map(|_| (256, true))),
            }
            let is_partly = ids.iter().any(|id| !id.1);
            let fits = pipeline.pack == PackRule::Concat || ids.len() <= pipeline.seq_len + 1;
            let is_packed = ids.iter().any(|id| id.1) && (fits || !is_partly);
            ((path.clone(), *byte), Known { ids, text_bytes: text.len(), is_packed })
        };
        Self(documents.iter().map(known).collect())
    }

    /// All batches of a stream. Without a document that rows have it is refused.
    fn read(&self, builder: LoaderBuilder) -> Vec<Batch> {
        self.read_counted(builder).0
    }

    /// The same, and how many documents the tokenizer and packing have left out, if the stream is not refused.
    fn read_counted(&self, builder: LoaderBuilder) -> (Vec<Batch>, Option<[u64; 2]>) {
        let read = block_on(async {
            let mut loader = builder.open().await?;
            let batches = loader.by_ref().try_collect().await?;
            let meters = loader.meters();
            let skipped = ["tokenize", "pack"].map(|stage| meters.stage(stage).expect("a stage").skipped);
            Ok((batches, Some(skipped)))
        });
        match read {
            Err(Error::Corpus { .. }) if self.0.values().all(|known| !known.is_packed) => (Vec::new(), None),
            read => read.expect("no error"),
        }
    }

    /// How many documents are left out because nothing of them is learned from, and because they are too long.
    fn left_out(&self) -> [u64; 2] {
        let left_out = || self.0.values().filter(|known| !known.is_packed);
        let all = left_out().count();
        let empty = left_out().filter(|known| known.ids.iter().all(|id| !id.1)).count();
        [empty as u64, (all - empty) as u64]
    }

    /// The document that a place of a row is of, and its index there.
    fn at<'a>(&'a self, batch: &Batch, row: usize, place: usize) -> Option<(Piece, &'a Known, usize)> {
        let is_here = |piece: &&Piece| {
            piece.row as usize == row && (piece.from as usize..piece.to as usize).contains(&place)
        };
        let piece = *batch.pieces().iter().find(is_here)?;
        let known = &self.0[&(batch.path(&piece).to_owned(), piece.position.byte)];
        Some((piece, known, piece.offset as usize + place - piece.from as usize))
    }

    /// Compares all that a batch says of its targets with the documents themselves, and counts the targets of each within
    /// it.
    fn check(
        &self,
        batch: &Batch,
        counts: &mut BTreeMap<(PathBuf, u64, usize), usize>,
    ) -> Result<(), TestCaseError> {
        let (mut tokens, mut bytes, mut bytes_within, mut masked) = (0, 0, 0, Vec::new());
        for row in 0..batch.rows() {
            for place in 0..batch.width() {
                let Some((piece, known, offset)) = self.at(batch, row, place) else {
                    prop_assert!(place >= batch.lengths()[row] as usize);
                    continue;
                };
                prop_assert!(known.is_packed, "a document that no row should have");
                let (id, is_learned) = known.ids[offset];
                prop_assert_eq!(batch.row(row)[place], id);
                if !is_learned {
                    masked.push((row, place));
                }
                if is_learned && (1..=batch.seq_len()).contains(&place) {
                    tokens += 1;
                    bytes += known.bytes(offset);
                    if place > piece.from as usize {
                        bytes_within += known.bytes(offset);
                        let key = (batch.path(&piece).to_owned(), piece.position.byte, offset);
                        *counts.entry(key).or_default() += 1;
                    }
                }
            }
        }
        let places = |ranges: &mut dyn Iterator<Item = (usize, Range<usize>)>| -> Vec<(usize, usize)> {
            ranges.flat_map(|(row, places)| places.map(move |place| (row, place))).collect()
        };
        prop_assert_eq!(places(&mut batch.masked()), masked.clone());
        let ranges: Vec<_> = batch.masked().collect();
        let touch =
            |pair: &[(usize, Range<usize>)]| pair[0].0 == pair[1].0 && pair[0].1.end >= pair[1].1.start;
        prop_assert!(!ranges.windows(2).any(touch) && ranges.iter().all(|range| !range.1.is_empty()));
        prop_assert_eq!(batch.is_masked(), !masked.is_empty());
        prop_assert_eq!(batch.tokens(), tokens);
        prop_assert_eq!((batch.text_bytes(), batch.text_bytes_within_documents()), (bytes, bytes_within));
        for ahead in 1..=batch.ahead() {
            let inputs = (0..batch.rows()).flat_map(|row| (0..batch.seq_len()).map(move |at| (row, at)));
            let expected: Vec<bool> = inputs
                .map(|(row, at)| match (self.at(batch, row, at), self.at(batch, row, at + ahead)) {
                    (Some((input, ..)), Some((target, known, offset))) => {
                        input.from == target.from && known.ids[offset].1
                    }
                    _ => false,
                })
                .collect();
            prop_assert_eq!(&batch.targets(ahead).mask, &expected, "{} ids ahead", ahead);
            if ahead == 1 {
                let targets = expected.iter().enumerate().filter(|(_, flag)| **flag);
                let targets = targets.map(|(at, _)| (at / batch.seq_len(), at % batch.seq_len() + 1));
                prop_assert_eq!(places(&mut batch.targets_within_documents()), targets.collect::<Vec<_>>());
                prop_assert_eq!(batch.loss_mask(), expected);
            }
        }
        Ok(())
    }
}

/// Configs whose rows may be grouped by length.
pub(crate) fn masked_configs() -> impl Strategy<Value = Config> {
    (configs(), prop::option::of(1_usize..4)).prop_map(|(mut config, budget)| {
        if let Some(rows) = budget.filter(|_| config.pipeline.pack == PackRule::Pad) {
            config.pipeline.batch_tokens = Some(rows * config.pipeline.seq_len);
        }
        config
    })
}

fn written(corpus: &Corpus, directory: &Path, mut config: Config) -> (Vec<(PathBuf, u64, String)>, Config) {
    let documents = corpus.write(directory);
    config.sources = vec![corpus.source(directory)];
    (documents, config)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_id_is_learned_from_as_its_document_says(corpus in corpora(), config in masked_configs()) {
        let directory = tempfile::tempdir().expect("a directory");
        let (documents, config) = written(&corpus, directory.path(), config);
        let model = Model::new(&documents, &config);
        let mut counts = BTreeMap::new();
        let (batches, skipped) = model.read_counted(builder(&config));
        for batch in &batches {
            model.check(batch, &mut counts)?;
        }
        let epochs = config.pipeline.epochs.expect("some epochs");
        let left_out = model.left_out().map(|documents| epochs * documents);
        prop_assert!(skipped.is_none_or(|skipped| skipped == left_out), "{skipped:?} {left_out:?}");
        // Nothing that is to be learned is lost, and nothing comes twice.
        let mut expected = BTreeMap::new();
        for ((path, byte), known) in model.0.iter().filter(|(_, known)| known.is_packed) {
            for offset in (1..known.ids.len()).filter(|offset| known.ids[*offset].1) {
                expected.insert((path.clone(), *byte, offset), epochs as usize);
            }
        }
        prop_assert_eq!(counts, expected);
    }

    #[test]
    fn masks_come_back_at_every_resume(corpus in corpora(), config in masked_configs()) {
        let directory = tempfile::tempdir().expect("a directory");
        let (documents, config) = written(&corpus, directory.path(), config);
        let whole = Model::new(&documents, &config).read(builder(&config));
        prop_assume!(!whole.is_empty(), "nothing is learned from");
        prop_assert_eq!(block_on(resumes_of(|| builder(&config), 120)), Ok(()));
    }

    #[test]
    fn ranks_have_the_masks_of_one_process(
        corpus in corpora(),
        mut config in configs(),
        cut in 1_usize..5,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        (config.pipeline.lanes, config.pipeline.batch_size) = (4.into(), 4 * config.pipeline.batch_size);
        let (documents, config) = written(&corpus, directory.path(), config);
        let one = Model::new(&documents, &config).read(builder(&config));
        block_on(worlds_agree(&config, builder, &one, &[2, 4], cut))?;
    }

    #[test]
    fn rows_of_other_ids_and_without_some_documents_keep_their_masks(
        corpus in corpora(),
        config in masked_configs(),
        excluded: prop::sample::Index,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let (documents, mut config) = written(&corpus, directory.path(), config);
        let (path, byte, _) = documents[excluded.index(documents.len())].clone();
        let mut model = Model::new(&documents, &config);
        model.0.remove(&(path.clone(), byte));
        config.exclude.documents = vec![ExcludedDocument { path, byte }];
        let plain = model.read(builder(&config));
        let mapped = builder(&config).row_stage("mapped", |rows, _| {
            rows.map_ok(|row| row.map(|row: Sequence| row.map_ids(|_, id| 256 - id))).boxed()
        });
        let mapped = model.read(mapped);
        prop_assert_eq!(mapped.len(), plain.len());
        for (mapped, plain) in mapped.iter().zip(&plain) {
            model.check(plain, &mut BTreeMap::new())?;
            prop_assert!(mapped.masked().eq(plain.masked()));
            prop_assert_eq!(mapped.text_bytes(), plain.text_bytes());
            prop_assert_eq!(mapped.targets(mapped.ahead()).mask, plain.targets(plain.ahead()).mask);
        }
    }
}

fn lines(directory: &Path) -> Config {
    crate::corpus::lines(directory, 300)
}

fn masked_from_the_start(builder: LoaderBuilder, bytes: usize) -> LoaderBuilder {
    builder.stage("masks", move |documents, _| {
        let masked = move |document: Document| {
            let len = document.text().len();
            document.with_mask(Mask::learning(Some(bytes..len), len))
        };
        documents.map_ok(move |it| it.map(masked)).boxed()
    })
}

#[test]
fn digests_tell_masks_apart_and_plain_texts_have_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = lines(directory.path());
    config.tokenizer.eos = None;
    let of = |builder: LoaderBuilder| {
        let batches = block_on(all_of(builder)).expect("no error");
        (batches[0].digest(), batches[0].cursor().digest(), batches[0].ids().to_vec(), batches[0].is_masked())
    };
    let (four, five) =
        (of(masked_from_the_start(bytes(&config), 4)), of(masked_from_the_start(bytes(&config), 5)));
    let (none, plain) = (of(masked_from_the_start(bytes(&config), 0)), of(bytes(&config)));
    assert!(four.2 == five.2 && five.2 == none.2, "the ids are the same");
    assert!(four.0 != five.0 && four.1 != five.1 && none.0 != four.0 && none.1 != four.1);
    assert_eq!(none, plain);
    assert!(four.3 && !plain.3);
}

async fn problem(builder: LoaderBuilder) -> (String, String) {
    match all_of(builder).await.expect_err("an error") {
        Error::Stage { name, problem } => (name, problem),
        error => panic!("{error:?}"),
    }
}

#[test]
fn whoever_changes_a_document_says_what_becomes_of_its_mask() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = lines(directory.path());
    let masked = || masked_from_the_start(bytes(&config), 4);
    let upper = |document: Document| document.with_text(document.text().to_uppercase());
    let loud = masked().stage("loud", move |documents, _| documents.map_ok(move |it| it.map(upper)).boxed());
    let (name, of_text) = block_on(problem(loud));
    assert_eq!(name, "loud");
    assert!(of_text.contains("lines.txt") && of_text.contains("Document::with_mask"), "{of_text}");

    let begun = |tokens: &Tokens| tokens.with_ids([&[1], &*tokens.ids()].concat());
    let stage =
        move |documents: TokenStream, _: &_| documents.map_ok(move |it| it.map(|it| begun(&it))).boxed();
    let (name, of_ids) = block_on(problem(masked().token_stage("begun", stage)));
    assert_eq!(name, "begun");
    assert!(of_ids.contains("lines.txt") && of_ids.contains("Tokens::with_mask"), "{of_ids}");
    // Where all is learned from there is nothing to say.
    assert!(block_on(all_of(bytes(&config).token_stage("begun", stage))).is_ok());

    let told = move |tokens: Tokens| {
        let mut mask = Mask::learning(None, 1);
        mask.append(&tokens.mask(), 0..tokens.len(), 1);
        begun(&tokens).with_mask(mask)
    };
    let stage = move |documents: TokenStream, _: &_| documents.map_ok(move |it| it.map(told)).boxed();
    let batches = block_on(all_of(masked().token_stage("begun", stage))).expect("no error");
    let loud = move |document: Document| upper(document.clone()).with_mask(document.mask());
    let told = masked().stage("loud", move |documents, _| documents.map_ok(move |it| it.map(loud)).boxed());
    assert!(!block_on(all_of(told)).expect("no error").is_empty());
    for piece in batches.iter().flat_map(|batch| batch.pieces().iter().map(move |piece| (batch, piece))) {
        let (batch, piece) = piece;
        let places = piece.from as usize..piece.to as usize;
        let learned: usize = batch.learned_in(piece.row as usize, places).map(|places| places.len()).sum();
        let masked = 5_u32.saturating_sub(piece.offset).min(piece.to - piece.from);
        assert_eq!(learned as u32, piece.to - piece.from - masked, "{piece:?}");
    }
}
