//! Reads files of a format that Millstream does not know, as custom documents. They have records: each is a length (u32,
//! little-endian) and so many bytes of text.
//!
//!     cargo run --release --example records
//!
//! The cursor after a record says where the next one begins. So a resume seeks there, and costs the same early and late.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use futures::stream;
use millstream::loader::{DocumentStream, LoaderBuilder};
use millstream::prelude::*;
use millstream::{LaneCursor, Tracked};

/// Each lane reads a file of its own.
const LANES: usize = 2;

/// An open file, before one of its records.
struct Records {
    path: PathBuf,
    file: BufReader<File>,
    /// How many records were before, and the byte where this one begins.
    cursor: LaneCursor,
}

impl Records {
    fn open(path: PathBuf, start: &LaneCursor) -> Result<Self> {
        let open = || -> io::Result<_> {
            let mut file = BufReader::new(File::open(&path)?);
            file.seek(SeekFrom::Start(start.byte))?;
            Ok(file)
        };
        let file = open().map_err(|e| Error::io(&path, "open", e))?;
        let mut cursor = LaneCursor::after(start.documents);
        cursor.byte = start.byte;
        Ok(Self { path, file, cursor })
    }

    /// The next record; `None` at the end.
    fn read(&mut self) -> io::Result<Option<Tracked<Document>>> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut len = [0; 4];
        self.file.read_exact(&mut len)?;
        let len = u64::from(u32::from_le_bytes(len));
        let mut text = String::new();
        if (self.file.by_ref().take(len).read_to_string(&mut text)? as u64) < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.cursor.documents += 1;
        self.cursor.byte += 4 + len;
        Ok(Some(Tracked::new(Document::new(text), self.cursor)))
    }
}

impl Iterator for Records {
    type Item = Result<Tracked<Document>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|e| Error::io(&self.path, "read", e)).transpose()
    }
}

/// The documents of one lane from `start` on.
fn documents(path: PathBuf, start: &LaneCursor) -> DocumentStream {
    match Records::open(path, start) {
        Ok(records) => stream::iter(records).boxed(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    }
}

fn loader(directory: &Path) -> LoaderBuilder {
    let mut config = Config::default().with_tokenizer(TokenizerConfig::bytes().with_eos("<|endoftext|>"));
    config.pipeline.lanes = LANES.into();
    config.pipeline.window = 64.into();
    config.pipeline.seq_len = 64;
    let directory = directory.to_owned();
    Loader::builder(&config).documents("records", move |lane, start| documents(file(&directory, lane), start))
}

/// The file of a lane.
fn file(directory: &Path, lane: usize) -> PathBuf {
    directory.join(format!("{lane}.records"))
}

/// Writes a file for each lane.
fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for lane in 0..LANES {
        let mut bytes = Vec::new();
        for text in (0..500).map(|number| format!("record {number} of file {lane}")) {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        fs::write(file(directory, lane), bytes)?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("millstream-records-{}", std::process::id()));
    write(&directory).map_err(|e| Error::io(&directory, "write in", e))?;
    let batches: Vec<Batch> = loader(&directory).open().await?.try_collect().await?;

    let cursor = batches[9].cursor().clone();
    let rest: Vec<Batch> = loader(&directory).with_cursor(cursor).open().await?.try_collect().await?;
    assert!(rest.iter().map(Batch::ids).eq(batches[10..].iter().map(Batch::ids)));
    println!("{} batches, the last {} of them read again after a resume", batches.len(), rest.len());
    fs::remove_dir_all(&directory).map_err(|e| Error::io(&directory, "remove", e))
}
