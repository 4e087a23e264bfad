//! Exports token shards as files that other programs train from.

use std::io::{BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::exchange::{Exchanged, TokenFormat};
use super::import::megatron;
use crate::atomic::temporary;
use crate::error::{Error, Result};
use crate::segment::Width;
use crate::shards::Shards;

/// Writes all documents of a shard directory to `file`, the `.bin`, in the order of the source's files.
/// [`TokenFormat::Megatron`] also gets an `.idx` of the same name. The id `eos`, if given, ends each
/// document. Ids take two bytes if the whole vocabulary fits, and four otherwise. This function blocks. Each
/// file is written as a whole or not at all.
///
/// # Errors
/// [`Error::Corpus`] if shards are damaged or missing, [`Error::Config`] if `eos` is missing or too large,
/// [`Error::Io`].
pub fn export(directory: &Path, format: TokenFormat, file: &Path, eos: Option<u32>) -> Result<Exchanged> {
    if format == TokenFormat::NanoGpt && eos.is_none() {
        let problem = "in such files only an id marks where documents end; name the token";
        return Err(Error::config("eos", problem));
    }
    if format == TokenFormat::Megatron && file.extension().is_some_and(|extension| extension == "idx") {
        return Err(Error::config(
            "output",
            "name the file of ids, which ends in .bin; the index is written beside it",
        ));
    }
    let shards = Shards::open(directory)?.whole()?;
    let vocabulary = shards.manifest().vocab_size.max(eos.map_or(0, |eos| eos as usize + 1));
    let width = Width::for_vocab(vocabulary);
    let mut out = Out::new(file)?;
    let (mut done, mut lengths, mut held) = (Exchanged::default(), Vec::new(), Vec::new());
    for number in 0..u32::try_from(shards.manifest().splits()).unwrap_or(u32::MAX) {
        let Some(tokens) = shards.tokens(number) else { continue };
        let mut at = 0;
        for nth in 0..tokens.documents() {
            let entry = tokens.entry(nth)?;
            let range = std::mem::replace(&mut at, entry.ids_end)..entry.ids_end;
            if entry.text_bytes.is_none() {
                continue;
            }
            held.clear();
            tokens.segment().append_ids(tokens.place(range)?, &mut held);
            done.documents += 1;
            done.tokens += held.len() as u64;
            held.extend(eos);
            lengths.push(held.len());
            for id in &held {
                match width {
                    Width::Two => out.write(&(*id as u16).to_le_bytes())?,
                    Width::Four => out.write(&id.to_le_bytes())?,
                }
            }
        }
    }
    let beside = file.with_extension("idx");
    if format == TokenFormat::Megatron && beside.exists() {
        // An index of other ids would be worse than none.
        std::fs::remove_file(&beside).map_err(|e| Error::io(&beside, "remove", e))?;
    }
    out.finish()?;
    if format == TokenFormat::Megatron {
        index(&beside, width, &lengths)?;
    }
    Ok(done)
}

/// Writes Megatron's index, with one sequence per document.
fn index(path: &Path, width: Width, lengths: &[usize]) -> Result<()> {
    let mut out = Out::new(path)?;
    let (code, bytes) = match width {
        Width::Two => (8_u8, 2),
        Width::Four => (4, 4),
    };
    out.write(megatron::MAGIC)?;
    out.write(&1_u64.to_le_bytes())?;
    out.write(&[code])?;
    out.write(&(lengths.len() as u64).to_le_bytes())?;
    out.write(&(lengths.len() as u64 + 1).to_le_bytes())?;
    for length in lengths {
        let length = i32::try_from(*length).map_err(|_| Error::Corpus {
            problem: format!("a document has {length} ids, but Megatron's index holds 2^31 - 1 at most"),
        })?;
        out.write(&length.to_le_bytes())?;
    }
    let mut at = 0_u64;
    for length in lengths {
        out.write(&at.to_le_bytes())?;
        at += (length * bytes) as u64;
    }
    (0..=lengths.len() as u64).try_for_each(|document| out.write(&document.to_le_bytes()))?;
    out.finish()
}

/// A file that is written as a whole or not at all.
struct Out<'a> {
    path: &'a Path,
    out: BufWriter<NamedTempFile>,
}

impl<'a> Out<'a> {
    fn new(path: &'a Path) -> Result<Self> {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = temporary(".tmp").tempfile_in(directory).map_err(|e| Error::io(path, "write", e))?;
        Ok(Self { path, out: BufWriter::with_capacity(1 << 20, file) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io(self.path, "write", e))
    }

    fn finish(self) -> Result<()> {
        let failed = |e| Error::io(self.path, "write", e);
        let file = self.out.into_inner().map_err(|e| failed(e.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(self.path).map_err(|e| failed(e.error))?;
        Ok(())
    }
}
