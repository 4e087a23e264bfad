//! The messages of Arrow IPC: where one begins, what it is, and where the next one begins.

use std::ops::Range;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::Schema;

use super::guarded;
use crate::error::Result;
use crate::source::problem::{Problem, Unread};
use crate::store::Stored;

/// The mark that begins a file, unlike a stream. It is padded to eight bytes.
const MARK: &[u8] = b"ARROW1";

/// How many bytes follow a file's footer: its length and the mark.
const TAIL: u64 = 4 + MARK.len() as u64;

/// The padding between parts of a file is shorter than this, in bytes.
const PADDING: u64 = 64;

/// How long the mark of the end is, in bytes.
pub(super) const END: u64 = 8;

/// The longest description of a message that is accepted, in bytes.
const MOST_METADATA: u64 = 64 << 20;

/// The longest buffer that is decompressed, in bytes: its memory is reserved before its first byte is read.
const MOST_UNPACKED: i64 = 1 << 30;

/// One message, without its body.
pub(super) struct Message {
    /// Its description, and where it and the body are.
    pub(super) metadata: Vec<u8>,
    pub(super) block: Block,
    pub(super) next: u64,
}

/// The thing at a place.
pub(super) enum MessageAt {
    Message(Message),
    /// A mark of the end, or the end itself: what follows it begins at this byte.
    End(u64),
}

/// The kind of a message.
pub(super) enum Header {
    /// A record batch: the number of its rows, the length of its first column if it has columns, and whether its buffers
    /// are compressed.
    Batch {
        rows: u64,
        column: Option<i64>,
        is_packed: bool,
    },
    Dictionary(Dictionary),
}

#[derive(Debug)]
pub(super) struct Dictionary {
    pub(super) block: Block,
    pub(super) id: i64,
    /// Whether it adds to the dictionary of this number. Otherwise it replaces it.
    pub(super) is_delta: bool,
}

pub(super) fn bytes(block: &Block) -> Range<u64> {
    let begin = block.offset() as u64;
    begin..begin + block.metaDataLength() as u64 + block.bodyLength() as u64
}

impl Message {
    pub(super) fn header(&self) -> Result<Header, String> {
        let message = root_as_message(&self.metadata).map_err(|e| e.to_string())?;
        Ok(match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch();
                let rows = batch.and_then(|batch| u64::try_from(batch.length()).ok());
                let is_packed = batch.is_some_and(|batch| batch.compression().is_some());
                let nodes = batch.and_then(|batch| batch.nodes());
                let column = nodes.filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.get(0).length());
                Header::Batch { rows: rows.ok_or("a record batch has no length")?, column, is_packed }
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or("a dictionary has no number")?;
                let (id, is_delta) = (batch.id(), batch.isDelta());
                Header::Dictionary(Dictionary { block: self.block, id, is_delta })
            }
            other => {
                return Err(format!("a message is neither a record batch nor a dictionary, but {other:?}"));
            }
        })
    }
}

/// Where the messages begin (after a file's mark, or at once), and whether it is a file.
pub(super) fn start(stored: &dyn Stored) -> Result<(u64, bool)> {
    let mut mark = [0; MARK.len()];
    if stored.len() >= 8 {
        stored.look_at(0, &mut mark)?;
    }
    Ok(if mark == MARK { (8, true) } else { (0, false) })
}

/// Looks at the message at `at`. It has its length (after a continuation mark in all but the oldest files), then its
/// description, then its body. A stream may simply end; a file has a footer after its last message.
pub(super) fn message(stored: &dyn Stored, at: u64, is_file: bool) -> Result<MessageAt, Unread> {
    let broken = |what: String| Err(Problem::damage_at(at, what).into());
    let cut = |what: &str| broken(format!("the file ends within {what}"));
    let left = stored.len().saturating_sub(at);
    if left == 0 && !is_file {
        return Ok(MessageAt::End(at));
    }
    let mut head = [0; 8];
    let head = &mut head[..left.min(8) as usize];
    stored.look_at(at, head)?;
    let (prefix, length) = match *head {
        [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0] => return Ok(MessageAt::End(at + 8)),
        [0, 0, 0, 0, ..] => return Ok(MessageAt::End(at + 4)),
        [0xff, 0xff, 0xff, 0xff, a, b, c, d] => (8, u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, _, _, _, _] => (4, u32::from_le_bytes([a, b, c, d])),
        _ => return cut("a message, or before its footer"),
    };
    let length = u64::from(length);
    if length > MOST_METADATA {
        return broken(format!(
            "a message's description has {length} bytes, more than the limit of {MOST_METADATA}"
        ));
    }
    if prefix + length > left {
        return cut("a message");
    }
    let mut metadata = vec![0; length as usize];
    stored.look_at(at + prefix, &mut metadata)?;
    let body = match root_as_message(&metadata) {
        Ok(message) => u64::try_from(message.bodyLength()).unwrap_or(u64::MAX),
        Err(e) => return broken(format!("a message cannot be read: {e}")),
    };
    if body > left - prefix - length {
        return cut("a message's body");
    }
    let block = Block::new(at as i64, (prefix + length) as i32, body as i64);
    Ok(MessageAt::Message(Message { metadata, block, next: at + prefix + length + body }))
}

/// The contents of a file's footer.
pub(super) struct Footer {
    pub(super) schema: Schema,
    pub(super) version: MetadataVersion,
    /// Its dictionaries and record batches, in the order of the file.
    pub(super) blocks: Vec<Block>,
    /// Where the footer begins, and its length in bytes.
    pub(super) at: u64,
    pub(super) len: u64,
}

pub(super) fn footer(stored: &dyn Stored) -> Result<Footer, Unread> {
    let wrong = |what: String| Err(Problem::damage(what).into());
    let mut tail = [0; TAIL as usize];
    let Some(end) = stored.len().checked_sub(TAIL) else { return wrong("it has no footer".to_owned()) };
    stored.look_at(end, &mut tail)?;
    let [a, b, c, d, mark @ ..] = tail;
    let len = u64::from(u32::from_le_bytes([a, b, c, d]));
    if mark != *MARK || len > end {
        return wrong("it does not end with a footer".to_owned());
    }
    if len > MOST_METADATA {
        return wrong(format!("its footer has {len} bytes, more than the limit of {MOST_METADATA}"));
    }
    let mut bytes = vec![0; len as usize];
    stored.look_at(end - len, &mut bytes)?;
    let read = guarded(|| {
        let footer = root_as_footer(&bytes).map_err(|e| e.to_string())?;
        let schema = footer.schema().ok_or("it has no schema")?;
        let schema = try_fb_to_schema(schema).map_err(|e| e.to_string())?;
        let listed = [footer.dictionaries(), footer.recordBatches()];
        let mut blocks: Vec<Block> = listed.into_iter().flatten().flatten().copied().collect();
        blocks.sort_by_key(Block::offset);
        Ok(Footer { schema, version: footer.version(), blocks, at: end - len, len })
    });
    read.or_else(|what| wrong(format!("its footer cannot be read: {what}")))
}

/// Whether only padding can be between `end`, where one thing ends, and `next`, where the next one begins.
pub(super) fn is_padding(end: u64, next: u64) -> bool {
    next.checked_sub(end).is_some_and(|gap| gap < PADDING)
}

impl Footer {
    /// Whether a file's first message can begin at `first`: before it is the schema, which the footer has too.
    pub(super) fn can_begin(&self, first: u64) -> bool {
        first <= self.len + 4 * PADDING
    }
}

/// The schema that the first message describes.
pub(super) fn schema(metadata: &[u8]) -> Result<(Schema, MetadataVersion), String> {
    guarded(|| {
        let message = root_as_message(metadata).map_err(|e| e.to_string())?;
        let schema = message.header_as_schema().ok_or("its first message is not a schema")?;
        Ok((try_fb_to_schema(schema).map_err(|e| e.to_string())?, message.version()))
    })
}

/// How many bytes the buffers of a compressed record batch have when decompressed: each begins with that number, or
/// with -1 if it is stored uncompressed. `None` if the batch does not say so.
pub(super) fn unpacked(stored: &dyn Stored, block: &Block) -> Result<Option<u64>> {
    let [at, described] = [block.offset() as u64, block.metaDataLength() as u64];
    let mut metadata = vec![0; described as usize];
    stored.look_at(at, &mut metadata)?;
    let prefix = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = metadata.get(prefix..).and_then(|metadata| root_as_message(metadata).ok());
    let batch = message.and_then(|message| message.header_as_record_batch());
    let (mut sum, mut length) = (0_u64, [0; 8]);
    for buffer in batch.and_then(|batch| batch.buffers()).into_iter().flatten() {
        let place = u64::try_from(buffer.offset()).ok().and_then(|offset| offset.checked_add(at + described));
        let Some(place) = place.filter(|place| place.checked_add(8).is_some_and(|end| end <= stored.len()))
        else {
            return Ok(None);
        };
        if buffer.length() >= 8 {
            stored.look_at(place, &mut length)?;
            let unpacked = u64::try_from(i64::from_le_bytes(length));
            sum = sum.saturating_add(unpacked.unwrap_or(buffer.length() as u64));
        }
    }
    Ok(Some(sum))
}

/// Refuses a message with a buffer that is outside of its body, or that claims to decompress to more than may be
/// reserved for one.
pub(super) fn sound(block: &Block, bytes: &[u8]) -> Result<(), String> {
    let (described, body) =
        bytes.split_at_checked(block.metaDataLength() as usize).ok_or("it has no body")?;
    let prefix = if described.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = root_as_message(&described[prefix..]).map_err(|e| e.to_string())?;
    let batch = match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    let Some(batch) = batch else { return Ok(()) };
    let is_packed = batch.compression().is_some();
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let place = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let content = place.and_then(|(at, length)| body.get(at..)?.get(..length)).ok_or_else(|| {
            format!(
                "one of its buffers, {length} bytes at {offset}, is outside of its body of {} bytes",
                body.len()
            )
        })?;
        let unpacked = content.first_chunk().map_or(0, |&length| i64::from_le_bytes(length));
        if is_packed && unpacked > MOST_UNPACKED {
            return Err(format!(
                "one of its buffers has {unpacked} bytes decompressed, more than the limit of {MOST_UNPACKED}; \
                 write the table in smaller batches"
            ));
        }
    }
    Ok(())
}
