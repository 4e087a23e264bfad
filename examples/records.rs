//! Reads files of a format that Millstream does not know. They have records: each is a length (u32, little-endian) and
//! so many bytes of text.
//!
//!     cargo run --release --example records
//!
//! The loader cuts the files, deals and shuffles the records, and resumes at one with a seek.

use std::path::Path;
use std::{fs, io};

use millstream::config::CustomFormat;
use millstream::loader::LoaderBuilder;
use millstream::prelude::*;
use millstream::source::{RecordFile, RecordFormat, RecordReader, RecordText};

/// The format, and its reader, which has nothing to remember.
#[derive(Clone, Copy, Debug)]
struct Records;

impl RecordFormat for Records {
    fn open(&self, _: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>> {
        Ok(Box::new(*self))
    }
}

impl RecordReader for Records {
    fn read(&mut self, file: &mut dyn RecordFile, text: &mut RecordText) -> io::Result<bool> {
        if file.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut len = [0; 4];
        file.read_exact(&mut len)?;
        text.append(file, u32::from_le_bytes(len).into())?;
        Ok(true)
    }
}

fn loader(directory: &Path) -> LoaderBuilder {
    let pattern = directory.join("*.records").to_string_lossy().into_owned();
    let mut config = Config::default()
        .with_source(SourceConfig::custom(pattern, CustomFormat::new("records", Records)))
        .with_tokenizer(TokenizerConfig::bytes().with_eos("<|endoftext|>"));
    config.pipeline.seq_len = 64;
    config.pipeline.batch_size = 8;
    config.pipeline.epochs = Some(1);
    Loader::builder(&config)
}

/// Writes some files.
fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for file in 0..2 {
        let mut bytes = Vec::new();
        for text in (0..500).map(|number| format!("record {number} of file {file}")) {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        fs::write(directory.join(format!("{file}.records")), bytes)?;
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
