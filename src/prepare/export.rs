//! Exports token shards as files that other programs train from.

use std::fmt;
use std::path::Path;

use super::import::megatron;
use super::{ShardCounts, TokenFormat};
use crate::atomic::{AtomicFile, write_atomically};
use crate::budget::Lease;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::segment::{StoredText, Width};
use crate::shards::{ShardPlace, ShardSet, Shards};

/// Writes all documents of a shard directory to `file`, the `.bin`, in the order of the source's files. If the
/// directory has the shards of several sources, it writes all, in the order of their names. [`TokenFormat::Megatron`]
/// also gets an `.idx` of the same name. The id `eos`, if given, ends each document. Ids take two bytes if the whole
/// vocabulary fits, and four otherwise. Conversations that end with `eos` get no second one. This function blocks. Each
/// file is written as a whole or not at all.
///
/// # Errors
/// [`Error::Corpus`] if shards are damaged or missing, if some ids are not learned from, which neither format can say,
/// or if documents contain the id that ends documents in [`TokenFormat::NanoGpt`]; [`Error::Config`] if `eos` is missing or too large; [`Error::Io`].
pub fn export(directory: &Path, format: TokenFormat, file: &Path, eos: Option<u32>) -> Result<ShardCounts> {
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
    if Location::named(directory).is_remote() {
        let problem = "the shards are in a store; copy their directory to this machine first";
        return Err(Error::config(directory.display().to_string(), problem));
    }
    let set = ShardSet::open(&[ShardPlace::Directory(directory.to_owned())])?;
    set.all().iter().try_for_each(refuse_masked)?;
    let vocabulary = set.all().iter().map(|shards| shards.manifest().vocab_size).max().unwrap_or_default();
    let width = Width::for_vocab(vocabulary.max(eos.map_or(0, |eos| eos as usize + 1)));
    let mut out = AtomicFile::create(file)?;
    let index = match format {
        TokenFormat::NanoGpt => None,
        TokenFormat::Megatron if out.is_stream() => {
            let problem = "the index is written beside it; name a file that ends in .bin";
            return Err(Error::config("output", problem));
        }
        TokenFormat::Megatron => {
            let path = file.with_extension("idx");
            Some((AtomicFile::create(&path)?, path))
        }
    };
    // Before anything is written: a pipe takes nothing back.
    if let Some(ended) = eos.map(|eos| Ended::find(&set, eos)).transpose()?.flatten() {
        match format {
            TokenFormat::NanoGpt => return Err(ended.refusal()),
            TokenFormat::Megatron => tracing::warn!(
                "{ended}; the index keeps documents apart, but a program that looks for the token does not"
            ),
        }
    }
    let (mut done, mut lengths, mut bytes) = (ShardCounts::default(), Vec::new(), Vec::new());
    let document = |_: DocumentOrigin<'_>, ids: &mut Vec<u32>| {
        done.documents += 1;
        done.tokens += ids.len() as u64;
        ids.extend(eos);
        lengths.push(ids.len());
        bytes.clear();
        match width {
            Width::Two => bytes.extend(ids.iter().flat_map(|id| (*id as u16).to_le_bytes())),
            Width::Four => bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes())),
        }
        out.append(&bytes)
    };
    documents(&set, eos, document)?;
    let Some((index, path)) = index else { return out.finish().map(|()| done) };
    if !index.is_stream() && path.exists() {
        // An index of other ids would be worse than an empty one.
        write_atomically(&path, &[])?;
    }
    out.finish()?;
    write_index(index, width, &lengths)?;
    Ok(done)
}

fn refuse_masked(shards: &Shards) -> Result<()> {
    if !shards.are_masked()? {
        return Ok(());
    }
    let problem = format!(
        "{}: some of its ids are not learned from, as a user's words in conversations, and files of such a format cannot \
         say which: a program would learn all of them; train from the shards themselves, with kind = \"shards\"",
        shards.place().path().display()
    );
    Err(Error::Corpus { problem })
}

#[derive(Clone, Copy)]
struct DocumentOrigin<'a> {
    shards: &'a Shards,
    split: u32,
    begin: u64,
}

/// Gives all documents that have ids to `take`, each with its ids, but for an `eos` that ends a rendered text.
fn documents(
    set: &ShardSet,
    eos: Option<u32>,
    mut take: impl FnMut(DocumentOrigin<'_>, &mut Vec<u32>) -> Result<()>,
) -> Result<()> {
    let mut held = Vec::new();
    for shards in set.all() {
        for split in 0..u32::try_from(shards.manifest().splits()).unwrap_or(u32::MAX) {
            let Some(tokens) = shards.tokens(split) else { continue };
            let mut at = 0;
            for nth in 0..tokens.documents() {
                let entry = tokens.entry(nth)?;
                let range = std::mem::replace(&mut at, entry.end.ids)..entry.end.ids;
                if !matches!(entry.text, StoredText::Bytes(_)) {
                    continue;
                }
                held.clear();
                let place = tokens.place(range)?;
                let stored = tokens.stored_ids(&Lease::none());
                stored.append(place, &mut held);
                if stored.is_rendered() {
                    held.pop_if(|last| Some(*last) == eos);
                }
                take(DocumentOrigin { shards, split, begin: entry.start.byte }, &mut held)?;
            }
        }
    }
    Ok(())
}

/// Documents that contain the id that ends documents.
struct Ended {
    documents: u64,
    /// Where the first of them begins.
    first: String,
}

impl Ended {
    fn find(set: &ShardSet, eos: u32) -> Result<Option<Self>> {
        let mut found = None;
        documents(set, Some(eos), |place, ids| {
            if ids.contains(&eos) {
                let first = || place.shards.manifest().place(place.split, place.begin);
                found.get_or_insert_with(|| Self { documents: 0, first: first() }).documents += 1;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn refusal(&self) -> Error {
        let problem = format!(
            "{self}, which would cut them in such a file; name another token, or export to megatron, whose index \
             keeps them whole"
        );
        Error::Corpus { problem }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { documents, first } = self;
        let contain = if *documents == 1 { "document contains" } else { "documents contain" };
        write!(f, "{documents} {contain} the token that ends documents, the first at {first}")
    }
}

/// Writes Megatron's index, with one sequence per document.
fn write_index(mut out: AtomicFile, width: Width, lengths: &[usize]) -> Result<()> {
    let (code, bytes) = match width {
        Width::Two => (8_u8, 2),
        Width::Four => (4, 4),
    };
    out.append(megatron::MAGIC)?;
    out.append(&1_u64.to_le_bytes())?;
    out.append(&[code])?;
    out.append(&(lengths.len() as u64).to_le_bytes())?;
    out.append(&(lengths.len() as u64 + 1).to_le_bytes())?;
    for length in lengths {
        let length = i32::try_from(*length).map_err(|_| Error::Corpus {
            problem: format!("a document has {length} ids, but Megatron's index holds 2^31 - 1 at most"),
        })?;
        out.append(&length.to_le_bytes())?;
    }
    let mut at = 0_u64;
    for length in lengths {
        out.append(&at.to_le_bytes())?;
        at += (length * bytes) as u64;
    }
    (0..=lengths.len() as u64).try_for_each(|document| out.append(&document.to_le_bytes()))?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{SourceConfig, Task};
    use crate::error::Unit;
    use crate::segment::{Boundary, SegmentWriter, StoredDocument};
    use crate::shards::{Cut, Manifest, ShardedFile, seal};

    const EOS: u32 = 9;

    /// Exports one document with these ids to nanoGPT's format, and returns the ids in the file.
    fn exported(task: Task, ids: &[u32]) -> Result<Vec<u8>> {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, cut) = (directory.path().join("text"), Cut::Whole);
        let file = ShardedFile { path, len: 9, unit: Unit::Byte, etag: None, cut, held: 0, root: 0 };
        let source = SourceConfig { task, ..SourceConfig::text("text") };
        let manifest = Manifest::new("t".to_owned(), 10, source, vec![file]);
        let mut writer = SegmentWriter::new(directory.path(), Width::Two, &manifest.identity())?;
        let document = StoredDocument::without_ids(Boundary::default(), StoredText::Bytes(9));
        writer.document(StoredDocument { ids, ..document })?;
        writer.split(0)?;
        writer.finish()?;
        let place = ShardPlace::Directory(directory.path().to_owned());
        manifest.create(&place)?;
        seal(&place, &manifest)?;
        let out = directory.path().join("out.bin");
        let done = export(directory.path(), TokenFormat::NanoGpt, &out, Some(EOS));
        assert_eq!(out.exists(), done.is_ok(), "what is refused leaves nothing");
        done?;
        Ok(std::fs::read(&out).expect("read").into_iter().step_by(2).collect())
    }

    #[test]
    fn a_rendered_text_that_has_its_end_gets_no_other() {
        assert_eq!(exported(Task::Fim, &[1, 2, EOS]).expect("exported"), [1, 2, 9]);
        assert_eq!(exported(Task::Fim, &[1, 2]).expect("exported"), [1, 2, 9]);
        for (task, ids) in [(Task::Fim, [1, EOS, 2, EOS]), (Task::Text, [1, 2, 3, EOS])] {
            let error = exported(task, &ids).expect_err("it would be cut").to_string();
            assert!(error.contains("1 document contains the token that ends documents"), "{error}");
        }
    }
}
