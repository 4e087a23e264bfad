//! How well batches are mixed: how many documents and files each has, and how many of its rows share one.
//!
//! Takes batches, gives three figures. Held in memory: a few counts, and the places of the last batch's documents.

use std::collections::HashMap;

use super::Batch;

/// How well batches are mixed, over all batches that were [added](Mixing::add).
///
/// A document is identified by its file and the byte that it begins at. So all documents that a custom stage makes from
/// one document count as one, and a document that comes again in the next epoch is the same document.
///
/// Documents that come from no file cannot be told apart. A batch that has any of them is left out, and so is a batch
/// of only padding. If no batch remains, every figure is `None`.
///
/// Adding a batch visits each of its pieces once, which takes some microseconds for a few hundred of them. It allocates
/// nothing after the first batch of that size.
///
/// ```
/// use millstream::batch::Mixing;
/// use millstream::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let mut config = Config::default()
/// #     .with_source(SourceConfig::text("src/batch/*.rs"))
/// #     .with_tokenizer(TokenizerConfig::bytes());
/// # config.sources[0].document = millstream::config::DocumentKind::File;
/// # config.pipeline.epochs = Some(1);
/// let mut loader = Loader::open(&config).await?;
/// let mut mixing = Mixing::default();
/// while let Some(batch) = loader.next().await {
///     mixing.add(&batch?);
/// }
/// if let (Some(documents), Some(shared)) = (mixing.documents_per_batch(), mixing.shared_rows()) {
///     println!("{documents:.1} documents a batch; {:.1}% of rows share one", shared * 100.0);
/// }
/// # assert!(mixing.files_per_batch() >= Some(1.0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mixing {
    batches: u64,
    documents: u64,
    files: u64,
    rows: u64,
    shared: u64,
    /// For the batch being added: its files (each with its list), its documents with the first row that each was seen in,
    /// and which of its rows share a document.
    of_files: Vec<(u32, u32)>,
    of_documents: HashMap<((u32, u32), u64), u32>,
    is_shared: Vec<bool>,
}

impl Mixing {
    /// Counts a batch.
    pub fn add(&mut self, batch: &Batch) {
        self.of_files.clear();
        self.of_documents.clear();
        self.is_shared.clear();
        self.is_shared.resize(batch.rows(), false);
        for piece in &batch.pieces {
            let file = (piece.corpus, piece.position.file);
            // Neighbouring pieces often come from the same file.
            if self.of_files.last() != Some(&file) {
                let files = batch.corpora.get(piece.corpus as usize);
                if files.is_none_or(|files| files.len() <= piece.position.file as usize) {
                    return;
                }
                self.of_files.push(file);
            }
            let first = *self.of_documents.entry((file, piece.position.byte)).or_insert(piece.row);
            if first != piece.row {
                self.is_shared[first as usize] = true;
                self.is_shared[piece.row as usize] = true;
            }
        }
        self.of_files.sort_unstable();
        self.of_files.dedup();

        self.batches += u64::from(!batch.pieces.is_empty());
        self.documents += self.of_documents.len() as u64;
        self.files += self.of_files.len() as u64;
        self.rows += batch.lengths.iter().filter(|&&len| len > 0).count() as u64;
        self.shared += self.is_shared.iter().filter(|&&is_shared| is_shared).count() as u64;
    }

    /// The number of batches counted, without those that were left out.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// The mean number of documents that a batch has a part of.
    pub fn documents_per_batch(&self) -> Option<f64> {
        mean(self.documents, self.batches)
    }

    /// The mean number of files that a batch's documents come from.
    pub fn files_per_batch(&self) -> Option<f64> {
        mean(self.files, self.batches)
    }

    /// The share of rows that have a document in common with another row of their batch, from 0 to 1. Rows of padding
    /// do not count.
    ///
    /// Concatenated rows that follow each other in one lane overlap by an id, so they share at least one document. A
    /// batch has no such rows if there are as many lanes as rows.
    pub fn shared_rows(&self) -> Option<f64> {
        mean(self.shared, self.rows)
    }
}

fn mean(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::batch::Piece;
    use crate::error::Unit;
    use crate::files::{File, Files, Location, Position};

    /// A document: its list of files, the file in it, the byte.
    type Document = (u32, u32, u64);

    /// Three files, and a list of their own for each of two corpora.
    fn corpora() -> Vec<Arc<Files>> {
        let file = |name: &str| File {
            location: Location::Path(name.into()),
            len: 100,
            etag: None,
            source: 0,
            unit: Unit::Byte,
        };
        let files = || Arc::new(Files::new(["a", "b", "c"].map(file).into()));
        vec![files(), files()]
    }

    /// A batch whose rows have one id of each document; a row of none is padding.
    fn batch(rows: &[Vec<Document>], corpora: Vec<Arc<Files>>) -> Batch {
        let piece = |row: usize, at: usize, &(corpus, file, byte): &Document| Piece {
            row: row as u32,
            from: at as u32,
            to: at as u32 + 1,
            offset: 0,
            position: Position { file, byte, ..Position::default() },
            corpus,
            columns: 0,
        };
        let pieces = rows.iter().enumerate().flat_map(|(row, documents)| {
            documents.iter().enumerate().map(move |(at, document)| piece(row, at, document))
        });
        let lengths = rows.iter().map(|documents| documents.len() as u32).collect();
        Batch { pieces: pieces.collect(), lengths, corpora, ..Batch::empty(1) }
    }

    fn figures(mixing: &Mixing) -> [Option<f64>; 3] {
        [mixing.documents_per_batch(), mixing.files_per_batch(), mixing.shared_rows()]
    }

    #[test]
    fn a_batch_with_documents_of_no_file_or_of_padding_is_left_out() {
        let mut mixing = Mixing::default();
        mixing.add(&Batch::from_ids(vec![1; 8], 4));
        mixing.add(&batch(&[vec![], vec![]], Vec::new()));
        let corpora = [corpora(), vec![Files::none()]].concat();
        mixing.add(&batch(&[vec![(0, 0, 5), (2, 0, 0)]], corpora));
        assert_eq!((mixing.batches(), figures(&mixing)), (0, [None; 3]));
    }

    fn rows() -> impl Strategy<Value = Vec<Vec<Document>>> {
        let document = (0_u32..2, 0_u32..3, 0_u64..4);
        prop::collection::vec(prop::collection::vec(document, 0..5), 1..7)
    }

    /// Documents, files, rows and shared rows, counted the slow way.
    fn counted(rows: &[Vec<Document>]) -> [usize; 4] {
        let all = || rows.iter().flatten();
        let documents: HashSet<_> = all().collect();
        let files: HashSet<_> = all().map(|(corpus, file, _)| (corpus, file)).collect();
        let is_elsewhere = |row: usize, document: &Document| {
            rows.iter().enumerate().any(|(other, documents)| other != row && documents.contains(document))
        };
        let shared = rows
            .iter()
            .enumerate()
            .filter(|(row, documents)| documents.iter().any(|document| is_elsewhere(*row, document)));
        let filled = rows.iter().filter(|documents| !documents.is_empty());
        [documents.len(), files.len(), filled.count(), shared.count()]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_slow_count(batches in prop::collection::vec(rows(), 1..6)) {
            let (mut mixing, mut sums, mut batches_counted) = (Mixing::default(), [0; 4], 0);
            for rows in &batches {
                mixing.add(&batch(rows, corpora()));
                let counts = counted(rows);
                batches_counted += usize::from(counts[0] > 0);
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let [documents, files, rows, shared] = sums;
            let mean = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
            let expected =
                [mean(documents, batches_counted), mean(files, batches_counted), mean(shared, rows)];
            prop_assert_eq!(figures(&mixing), expected);
        }
    }
}
