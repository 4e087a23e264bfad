//! Tokens that other programs prepared, as token shards.
//!
//! A place in such a file is the number of an id, from 0. Held in memory: the file's map, a document's ids, and of
//! Megatron's index the numbers of its documents.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;

use crate::config::SourceConfig;
use crate::error::{Error, Result, Unit};
use crate::files::write_atomically;
use crate::shards::{
    Cut, Document, Manifest, SegmentWriter, ShardedFile, Shards, TOKENIZER, Width, map_bytes,
};
use crate::source::digest;
use crate::tokenizer::Tokenizer;

/// After how many ids a split ends, with its document.
const SPLIT_IDS: u64 = 4 << 20;

/// What Megatron's index begins with.
pub(super) const MEGATRON: &[u8; 9] = b"MMIDIDX\0\0";

/// A format of prepared tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFormat {
    /// Ids and nothing else, little-endian, as nanoGPT has them in its `.bin`: an id ends each document.
    NanoGpt,
    /// Megatron's `.bin` with an `.idx` of the same name beside it.
    Megatron,
}

/// How to read prepared tokens.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Their format.
    pub format: TokenFormat,
    /// The id that ends documents. It is left out: `tokenizer.eos` puts it there again. [`TokenFormat::NanoGpt`] needs it.
    pub eos: Option<u32>,
    /// Whether the ids of [`TokenFormat::NanoGpt`] have four bytes and not two.
    pub is_wide: bool,
}

/// What was imported or exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exchanged {
    /// How many documents.
    pub documents: u64,
    /// How many ids, without those that end documents.
    pub tokens: u64,
}

/// Makes a shard directory of one file of tokens, the `.bin`. `tokenizer` is the one that made them. It blocks.
///
/// # Errors
/// [`Error::Corpus`] for a file that is none of that format, or has ids beyond the tokenizer's vocabulary, with the place;
/// [`Error::Config`] where `eos` is missing; [`Error::Io`].
pub fn import(file: &Path, how: Import, tokenizer: &dyn Tokenizer, directory: &Path) -> Result<Exchanged> {
    let bytes = map_bytes(file)?;
    let (width, documents) = match how.format {
        TokenFormat::NanoGpt => (if how.is_wide { 4 } else { 2 }, None),
        TokenFormat::Megatron => {
            let (width, documents) = megatron(file, bytes.len() as u64)?;
            (width, Some(documents))
        }
    };
    let refuse = |what: String| Error::Corpus { problem: format!("{}: {what}", file.display()) };
    if !bytes.len().is_multiple_of(width) {
        return Err(refuse(format!("its {} bytes are no whole number of ids of {width} bytes", bytes.len())));
    }
    let id = |at: u64| {
        let bytes = &bytes[at as usize * width..][..width];
        bytes.iter().rev().fold(0_u64, |id, byte| id << 8 | u64::from(*byte))
    };
    let ids = (bytes.len() / width) as u64;
    let documents: Box<dyn Iterator<Item = Range<u64>>> = match (documents, how.eos) {
        (Some(documents), _) => Box::new(documents.into_iter()),
        (None, Some(eos)) => Box::new(ended(ids, move |at| id(at) == u64::from(eos))),
        (None, None) => {
            let problem = "such files say only by an id where documents end; name the token";
            return Err(Error::config("eos", problem));
        }
    };
    if Manifest::is_in(directory) || Shards::has_segments(directory)? {
        return Err(occupied(directory));
    }
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
    let source = SourceConfig { paths: vec![file.display().to_string()], ..SourceConfig::default() };
    let (path, len) = (file.to_owned(), bytes.len() as u64);
    let file = ShardedFile { path, len, unit: Unit::Token, etag: None, cut: Cut::Whole };
    let mut manifest = Manifest::new(tokenizer.fingerprint(), tokenizer.vocab_size(), source, vec![file]);
    let mut writer = SegmentWriter::new(directory, Width::of(tokenizer.vocab_size()), &manifest.identity())?;
    let (mut done, mut cuts, mut split) = (Exchanged::default(), Vec::new(), 0..0);
    let mut held = Vec::new();
    for range in documents {
        let end = match (range.end.checked_sub(1), how.eos) {
            (Some(last), Some(eos)) if range.contains(&last) && id(last) == u64::from(eos) => last,
            _ => range.end,
        };
        if range.start == end {
            continue;
        }
        held.clear();
        for at in range.start..end {
            let id = u32::try_from(id(at)).ok().filter(|id| (*id as usize) < tokenizer.vocab_size());
            held.push(id.ok_or_else(|| {
                refuse(format!(
                    "id {at} is beyond the tokenizer's vocabulary of {}; name the tokenizer that made it, or the ids' width",
                    tokenizer.vocab_size()
                ))
            })?);
        }
        if split.end > split.start && range.start - split.start >= SPLIT_IDS {
            writer.split(cuts.len() as u32, 0)?;
            cuts.push(range.start);
            split = range.start..range.start;
        }
        split.end = range.end;
        let id_bytes: Vec<u8> = held.iter().flat_map(|id| id.to_le_bytes()).collect();
        writer.document(&Document {
            ids: Some(&held),
            start: (range.start, 0),
            next: (range.end, 0),
            digest: digest(&id_bytes),
            share: 1.0,
            text_bytes: tokenizer.decode(&held).len(),
            skipped: 0,
        })?;
        done.documents += 1;
        done.tokens += held.len() as u64;
    }
    if done.documents == 0 {
        return Err(refuse("it has no documents".to_owned()));
    }
    writer.split(cuts.len() as u32, 0)?;
    writer.finish()?;
    if let Some(json) = tokenizer.tokenizer_json() {
        write_atomically(&directory.join(TOKENIZER), json.as_bytes())?;
    }
    if !cuts.is_empty() {
        manifest.files[0].cut = Cut::At(cuts);
    }
    if !manifest.create(directory)? {
        return Err(occupied(directory));
    }
    Ok(done)
}

fn occupied(directory: &Path) -> Error {
    let problem =
        format!("{}: there are token shards already; import into an empty directory", directory.display());
    Error::Corpus { problem }
}

/// The documents of ids that an id ends, each with that id.
fn ended(ids: u64, mut is_end: impl FnMut(u64) -> bool) -> impl Iterator<Item = Range<u64>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start;
        if first == ids {
            return None;
        }
        let end = (first..ids).find(|at| is_end(*at)).map_or(ids, |at| at + 1);
        start = end;
        Some(first..end)
    })
}

/// The bytes of an id and the documents that Megatron's index names: after its mark the version (u64), a code of the
/// type (u8), how many sequences and document bounds there are (u64 each), then for each sequence its length (i32), for
/// each where it begins in bytes (i64), and the first sequence of each document, and the number of all (i64).
fn megatron(file: &Path, len: u64) -> Result<(usize, Vec<Range<u64>>)> {
    let path = file.with_extension("idx");
    let index = map_bytes(&path)?;
    let refuse = |what: &str| Error::Corpus {
        problem: format!("{}: it is no index of Megatron's that can be read: {what}", path.display()),
    };
    let number = |at: usize, width: usize| -> Result<u64> {
        let bytes = at
            .checked_add(width)
            .and_then(|end| index.get(at..end))
            .ok_or_else(|| refuse("it is too short"))?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if index.get(..MEGATRON.len()) != Some(&MEGATRON[..]) || number(9, 8)? != 1 {
        return Err(refuse("it does not begin as version 1 of it"));
    }
    let width = match number(17, 1)? {
        1 => 1,
        3 | 8 => 2,
        4 => 4,
        5 => 8,
        other => return Err(refuse(&format!("its ids are of type {other}, which holds none"))),
    };
    let (sequences, bounds) = (number(18, 8)? as usize, number(26, 8)? as usize);
    let whole = sequences
        .checked_mul(12)
        .and_then(|bytes| bytes.checked_add(bounds.checked_mul(8)?)?.checked_add(34));
    if whole != Some(index.len()) {
        return Err(refuse("its length is not that of so many sequences and documents"));
    }
    let sequence = |nth: usize| -> Result<Range<u64>> {
        let (ids, at) = (number(34 + 4 * nth, 4)?, number(34 + 4 * sequences + 8 * nth, 8)?);
        let end = at.checked_add(ids * width).filter(|end| *end <= len && at.is_multiple_of(width));
        Ok(at / width..end.ok_or_else(|| refuse("a sequence lies beyond the ids"))? / width)
    };
    let bound = |nth: usize| number(34 + 12 * sequences + 8 * nth, 8).map(|bound| bound as usize);
    let mut documents = Vec::with_capacity(bounds.saturating_sub(1));
    for nth in 1..bounds {
        let (first, beyond) = (bound(nth - 1)?, bound(nth)?);
        if first > beyond || beyond > sequences {
            return Err(refuse("a document has sequences that are not there"));
        }
        if first == beyond {
            continue;
        }
        let (start, last) = (sequence(first)?, sequence(beyond - 1)?);
        let follows = (first + 1..beyond).try_fold(start.end, |end, nth| {
            let next = sequence(nth)?;
            if next.start == end {
                Ok(next.end)
            } else {
                Err(refuse("a document's sequences do not follow each other"))
            }
        })?;
        let is_in_order = documents.last().is_none_or(|before: &Range<u64>| before.end <= start.start);
        if !is_in_order || follows != last.end {
            return Err(refuse("its documents are not in the order of their ids"));
        }
        documents.push(start.start..last.end);
    }
    Ok((width as usize, documents))
}
