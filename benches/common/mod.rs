//! What the benches share.
//!
//! | module | what it has |
//! |---|---|
//! | this one | figures, options, runs of a loader and of the tokenizer alone, and corpora that are kept |
//! | `text` | text that every machine can make, and tokenizers that are learned from it |
//! | `formats` | the same documents in each format |

use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use millstream::config::SourceConfig;
use millstream::tokenizer::{END_OF_TEXT, Tokenizer};
use millstream::{Config, Cursor, Loader};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::server::{Content, Server};

pub(crate) mod formats;
mod text;

pub(crate) use text::{documents, learned, loaded, rust_files, text, unpacked};

/// Text that a thread takes at once.
const CHUNK: usize = 128 << 10;

/// A number above zero, on the command line.
pub(crate) fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse::<usize>().ok().filter(|&number| number > 0).ok_or("it is not a number above zero")
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Numbers by Knuth's generator, always the same ones. The upper bits of each are good.
pub(crate) fn random() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    }
}

/// Encodes all documents on so many threads, and returns how many ids they have.
pub(crate) fn encode<T: AsRef<str> + Sync>(
    documents: &[T],
    tokenizer: &dyn Tokenizer,
    threads: usize,
) -> u64 {
    let bytes: usize = documents.iter().map(|document| document.as_ref().len()).sum();
    let chunks: Vec<&[T]> = documents.chunks((CHUNK * documents.len() / bytes.max(1)).max(1)).collect();
    let (next, tokens) = (AtomicUsize::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut ids = Vec::new();
                while let Some(chunk) = chunks.get(next.fetch_add(1, Relaxed)) {
                    for document in *chunk {
                        ids.clear();
                        tokenizer.encode(document.as_ref(), &mut ids).expect("it encodes");
                        black_box(&ids);
                        tokens.fetch_add(ids.len() as u64, Relaxed);
                    }
                }
            });
        }
    });
    tokens.into_inner()
}

/// One epoch of a source.
pub(crate) fn one_epoch(source: SourceConfig) -> Config {
    let mut config = Config::default().with_source(source);
    config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
    config.pipeline.epochs = Some(1);
    config
}

/// A loader with this tokenizer, from a cursor on if there is one.
pub(crate) async fn open(config: &Config, tokenizer: &Arc<dyn Tokenizer>, cursor: Option<&Cursor>) -> Loader {
    let builder = Loader::builder(config).with_tokenizer(tokenizer.clone());
    let builder = match cursor {
        Some(cursor) => builder.with_cursor(cursor.clone()),
        None => builder,
    };
    builder.open().await.expect("it opens")
}

/// A directory below the target directory. `make` fills it, unless it did so before, when `of` was the same.
pub(crate) fn kept(name: &str, of: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let done = directory.join("done");
    let is_made = std::fs::read_to_string(&done).is_ok_and(|made| made == of);
    if !is_made {
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        make(&directory);
        std::fs::write(done, of).expect("written");
    }
    directory
}

/// Writes a Parquet file whose only column is `text`.
pub(crate) fn write_parquet<W: Write + Send>(
    texts: impl IntoIterator<Item = impl AsRef<str>>,
    properties: WriterProperties,
    out: W,
) -> W {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("text", texts)]).expect("a batch");
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.into_inner().expect("written")
}

/// Serves the files of a directory, below `corpus/`.
pub(crate) fn serve(directory: &Path) -> Server {
    let entries = std::fs::read_dir(directory).expect("a directory");
    Server::new(entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        (format!("corpus/{name}"), Content::new(std::fs::read(&path).expect("it reads")))
    }))
}
