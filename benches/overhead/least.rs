//! The least that any loader does beside tokenizing, in straight loops: what the loader could reach at best.
//!
//! Each thread does by itself, piece by piece, all that the text of a piece needs: reading it, checking that it is
//! UTF-8, finding its documents, encoding each, copying the ids into rows, digesting the rows, and the consumer's look
//! at each id. Nothing is handed over, shuffled, waited for, or known of a document. Of token shards it is what
//! follows the encoding, over ids of two bytes in memory.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millstream::tokenizer::Tokenizer;
use twox_hash::xxhash3_128;

use super::corpus::{Case, Corpus, Shape};
use super::measure::EPOCHS;

/// What is read at once.
const PIECE: usize = 512 << 10;

/// The rows of a batch, and the ids that each shares with none before it.
const ROWS: usize = 16;
const SEQ_LEN: usize = 1024;

/// The other bound, beside the bare tokenizer.
pub(crate) struct Least<'a> {
    work: Work,
    tokenizer: &'a dyn Tokenizer,
    workers: usize,
}

enum Work {
    /// Pieces of files that begin and end between documents, and what stands between these.
    Text {
        pieces: Vec<(PathBuf, Range<usize>)>,
        between: &'static str,
    },
    Ids(Vec<u16>),
}

impl<'a> Least<'a> {
    /// None for documents that need more than to be found.
    pub(crate) fn new(corpus: &'a Corpus, case: Case, workers: usize, tokens: u64) -> Option<Self> {
        let text = |between: &'static str| {
            let pieces = corpus.files(case).into_iter().flat_map(|path| cut(&path, between)).collect();
            Work::Text { pieces, between }
        };
        let work = match case.shape {
            Shape::Line => text("\n"),
            Shape::Paragraph => text("\n\n"),
            Shape::Shard => Work::Ids((0..tokens).map(|id| id as u16).collect()),
            Shape::JsonLine | Shape::File => return None,
        };
        Some(Self { work, tokenizer: &**corpus.tokenizer(), workers })
    }

    pub(crate) fn run(&self) -> Duration {
        let began = Instant::now();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| match &self.work {
                    Work::Text { pieces, between } => {
                        let mut rows = Rows::new();
                        while let Some((path, range)) = pieces.get(next.fetch_add(1, Relaxed)) {
                            let text = read(path, range.clone());
                            let mut ids = Vec::with_capacity(text.len() / 2);
                            for document in text.split_terminator(between) {
                                self.tokenizer.encode(document, &mut ids).expect("it encodes");
                                ids.push(0);
                            }
                            rows.take(ids.len(), |range, row| row.extend_from_slice(&ids[range]));
                        }
                    }
                    Work::Ids(ids) => {
                        let mut rows = Rows::new();
                        let pieces: Vec<&[u16]> = ids.chunks(PIECE).collect();
                        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
                        for number in numbers.take_while(|number| *number < pieces.len() * EPOCHS as usize) {
                            let piece = pieces[number % pieces.len()];
                            rows.take(piece.len(), |range, row| {
                                row.extend(piece[range].iter().map(|id| u32::from(*id)));
                            });
                        }
                    }
                });
            }
        });
        began.elapsed()
    }
}

/// One thread's rows, one batch after the other.
struct Rows {
    batch: Vec<u32>,
    digest: u128,
}

impl Rows {
    fn new() -> Self {
        Self { batch: Vec::with_capacity(ROWS * SEQ_LEN), digest: 0 }
    }

    /// Takes so many ids, each range of which `copy` appends.
    fn take(&mut self, ids: usize, mut copy: impl FnMut(Range<usize>, &mut Vec<u32>)) {
        let mut start = 0;
        while start < ids {
            let room = SEQ_LEN - self.batch.len() % SEQ_LEN;
            let end = ids.min(start + room);
            copy(start..end, &mut self.batch);
            start = end;
            if self.batch.len().is_multiple_of(SEQ_LEN) {
                let row = &self.batch[self.batch.len() - SEQ_LEN..];
                self.digest ^= xxhash3_128::Hasher::oneshot(bytemuck::cast_slice(row));
            }
            if self.batch.len() == ROWS * SEQ_LEN {
                black_box(self.batch.iter().fold(self.digest as u32, |sum, id| sum.wrapping_add(*id)));
                self.batch = Vec::with_capacity(ROWS * SEQ_LEN);
            }
        }
    }
}

/// A piece of a file, as text.
fn read(path: &PathBuf, range: Range<usize>) -> String {
    let mut file = File::open(path).expect("a file");
    file.seek(SeekFrom::Start(range.start as u64)).expect("it has the place");
    let mut bytes = Vec::with_capacity(range.len());
    file.take(range.len() as u64).read_to_end(&mut bytes).expect("it is read");
    String::from_utf8(bytes).expect("it is text")
}

/// Where a file's pieces lie.
fn cut(path: &PathBuf, between: &str) -> Vec<(PathBuf, Range<usize>)> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut start = 0;
    std::iter::from_fn(|| {
        let from = text.floor_char_boundary(start + PIECE);
        let end = text[from..].find(between).map_or(text.len(), |at| from + at + between.len());
        let range = std::mem::replace(&mut start, end)..end;
        (!range.is_empty()).then(|| (path.clone(), range))
    })
    .collect()
}
