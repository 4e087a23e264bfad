//! A loader's batches, and how far their documents lie apart in the corpus.

use futures::StreamExt;
use millstream::batch::Mixing;
use millstream::config::Config;
use millstream::files::Position;
use millstream::{Batch, LaneCursor, Loader, Source};

/// The documents of a corpus, in file order.
pub(crate) struct Index {
    places: Vec<(u32, u64)>,
}

impl Index {
    /// Reads the source once.
    pub(crate) async fn of(source: &Source) -> Self {
        let mut documents = source.documents(&LaneCursor::default());
        let mut places = Vec::new();
        while let Some(document) = documents.next().await {
            places.push(place(&document.expect("a document").value.position()));
        }
        assert!(places.is_sorted(), "documents come in file order");
        Self { places }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The number of the document that begins at `position`.
    fn number(&self, position: &Position) -> usize {
        self.places.binary_search(&place(position)).expect("a document of the corpus")
    }
}

fn place(position: &Position) -> (u32, u64) {
    (position.file, position.byte)
}

/// What is known of the batches so far.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    pub(crate) batches: u64,
    pub(crate) mixing: Mixing,
    order: Correlation,
    /// The distances between neighbours, in documents, and how many there were.
    apart: (f64, u64),
}

impl Figures {
    /// The correlation of the order of delivery with file order.
    pub(crate) fn order(&self) -> Option<f64> {
        self.order.coefficient()
    }

    /// The mean distance between neighbours, as a share of what a full shuffle of `documents` gives.
    pub(crate) fn apart(&self, documents: usize) -> Option<f64> {
        let (sum, count) = self.apart;
        // Two different numbers of 0 to n - 1 that are drawn at random are (n + 1) / 3 apart.
        let shuffled = (documents + 1) as f64 / 3.0;
        (count > 0).then(|| sum / count as f64 / shuffled)
    }
}

/// Reads at most `most` batches: the figures of the first `first` ones, and of all.
pub(crate) async fn measure(config: &Config, index: &Index, first: u64, most: u64) -> [Figures; 2] {
    let mut loader = Loader::open(config).await.expect("it opens");
    let mut figures = Figures::default();
    let mut beginning = None;
    let (mut delivered, mut is_delivered) = (0, vec![false; index.len()]);
    while figures.batches < most
        && let Some(batch) = loader.next().await
    {
        let batch = batch.expect("a batch");
        figures.mixing.add(&batch);
        let numbers = numbers(&batch, index);
        for pair in numbers.windows(2) {
            figures.apart.0 += pair[0].abs_diff(pair[1]) as f64;
            figures.apart.1 += 1;
        }
        for number in numbers {
            if !std::mem::replace(&mut is_delivered[number], true) {
                figures.order.add(f64::from(delivered), number as f64);
                delivered += 1;
            }
        }
        figures.batches += 1;
        if figures.batches == first {
            beginning = Some(figures.clone());
        }
    }
    [beginning.unwrap_or_else(|| figures.clone()), figures]
}

/// The documents of a batch, row by row and from left to right, each once in a row.
fn numbers(batch: &Batch, index: &Index) -> Vec<usize> {
    let mut numbers = Vec::new();
    for row in batch.pieces().chunk_by(|a, b| a.row == b.row) {
        let begin = numbers.len();
        for piece in row {
            let number = index.number(&piece.position);
            if !numbers[begin..].contains(&number) {
                numbers.push(number);
            }
        }
    }
    numbers
}

/// Pearson's correlation of two series.
#[derive(Clone, Copy, Default)]
struct Correlation {
    count: f64,
    means: [f64; 2],
    /// The sums of the products of what the series differ from their means by: x x, y y, x y.
    sums: [f64; 3],
}

impl Correlation {
    /// Adds a pair, by Welford's method: nothing large is subtracted from something large.
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let (before, after) = (x - self.means[0], y - self.means[1]);
        self.means[0] += before / self.count;
        self.means[1] += after / self.count;
        self.sums[0] += before * (x - self.means[0]);
        self.sums[1] += after * (y - self.means[1]);
        self.sums[2] += before * (y - self.means[1]);
    }

    /// None if a series does not vary.
    fn coefficient(&self) -> Option<f64> {
        let [xx, yy, xy] = self.sums;
        let scale = (xx * yy).sqrt();
        (scale > 0.0).then(|| xy / scale)
    }
}
