//! Arrow IPC, as a stream or a file: record batches are where a long file is cut.
//!
//! Both are the same messages, one after the other; a file only has a mark before and a footer behind them. Opening
//! one walks over the messages and reads no bodies but those of dictionaries. Held in memory: where the batches are,
//! the dictionaries, and one batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MessageHeader, MetadataVersion, convert::try_fb_to_schema, root_as_message};
use arrow_schema::Schema;

use super::{Columns, Rows, guarded};
use crate::error::{Error, Result};
use crate::source::content::Broken;
use crate::source::corpus::Layout;
use crate::source::decode::Problem;
use crate::source::records::{RecordFormat, Records, Stop};
use crate::source::window::Window;
use crate::store::Stored;

/// What a file, not a stream, begins with; it is padded to eight bytes.
const MARK: &[u8] = b"ARROW1";

/// The longest description of a message that is believed, in bytes.
const MOST_METADATA: u64 = 64 << 20;

/// Arrow files, and which columns of them are wanted.
#[derive(Debug)]
pub(in crate::source) struct ArrowFormat {
    columns: Columns,
}

impl ArrowFormat {
    /// Those of a source, by what it wants.
    pub(in crate::source) fn new(columns: Columns) -> Self {
        Self { columns }
    }

    fn open_table(&self, stored: Arc<dyn Stored>) -> Result<Table> {
        let path = stored.path().display().to_string();
        let table = Table::open(stored, self.columns.clone())?;
        self.columns.check(&path, &table.schema)?;
        Ok(table)
    }
}

impl RecordFormat for ArrowFormat {
    fn layout(&self, stored: Arc<dyn Stored>, nominal: u64) -> Result<Layout> {
        let table = self.open_table(stored)?;
        let (mut cuts, mut row, mut last) = (Vec::new(), 0, 0);
        for batch in &table.batches {
            let at = batch.block.offset() as u64;
            if row > 0 && at / nominal > last / nominal {
                cuts.push(row);
                last = at;
            }
            row = batch.first + batch.rows;
        }
        cuts.dedup();
        Ok(Layout::Cuts(cuts.into()))
    }

    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>> {
        Ok(Box::new(self.open_table(stored)?))
    }
}

/// One open file.
#[derive(Debug)]
struct Table {
    stored: Arc<dyn Stored>,
    columns: Columns,
    schema: Arc<Schema>,
    decoder: FileDecoder,
    batches: Vec<Batch>,
    /// Where the messages break off, if they do.
    broken: Option<Broken>,
    /// The number of the batch that is decoded.
    open: Option<(usize, Rows)>,
}

/// Where a record batch is, and its rows.
#[derive(Debug)]
struct Batch {
    block: Block,
    first: u64,
    rows: u64,
}

/// One message, as far as it was looked at.
struct Message {
    /// Its description, and where it and the body lie.
    metadata: Vec<u8>,
    block: Block,
    next: u64,
}

impl Table {
    fn open(stored: Arc<dyn Stored>, columns: Columns) -> Result<Self> {
        let refuse = |what: &str| Error::Corpus {
            problem: format!(
                "{}: it is no Arrow file that can be read: {what}; get the file anew",
                stored.path().display()
            ),
        };
        let mut at = start(&*stored)?;
        let message = match message(&*stored, at)? {
            Found::Message(message) => message,
            Found::End => return Err(refuse("it has no schema")),
            Found::Broken(broken) => return Err(refuse(&broken.what)),
        };
        let (schema, version) = schema(&message.metadata).map_err(|what| refuse(&what))?;
        let schema = Arc::new(schema);
        let mut decoder = FileDecoder::new(schema.clone(), version).with_require_alignment(false);
        let wanted: Vec<usize> = columns
            .names()
            .iter()
            .filter_map(|name| schema.index_of(name.split('.').next().unwrap_or(name)).ok())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        decoder = decoder.with_projection(wanted);
        at = message.next;
        let mut table = Self {
            stored: stored.clone(),
            columns,
            schema,
            decoder,
            batches: Vec::new(),
            broken: None,
            open: None,
        };
        loop {
            let message = match self::message(&*stored, at)? {
                Found::Message(message) => message,
                Found::End => break,
                Found::Broken(broken) => {
                    table.broken = Some(broken);
                    break;
                }
            };
            if let Err(what) = table.note(&message)? {
                table.broken = Some(Broken { byte: at, what, remedy: Broken::ANEW });
                break;
            }
            at = message.next;
        }
        Ok(table)
    }

    /// Notes a batch, or reads a dictionary.
    fn note(&mut self, message: &Message) -> Result<Result<(), String>> {
        let described = match root_as_message(&message.metadata) {
            Ok(described) => described,
            Err(e) => return Ok(Err(e.to_string())),
        };
        match described.header_type() {
            MessageHeader::RecordBatch => {
                let rows =
                    described.header_as_record_batch().and_then(|batch| u64::try_from(batch.length()).ok());
                let Some(rows) = rows else { return Ok(Err("a record batch has no length".to_owned())) };
                let first = self.rows();
                self.batches.push(Batch { block: message.block, first, rows });
            }
            MessageHeader::DictionaryBatch => {
                let bytes = self.bytes(&message.block)?;
                return Ok(guarded(|| {
                    self.decoder.read_dictionary(&message.block, &bytes).map_err(|e| super::said(&e))
                }));
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    /// How many rows there are.
    fn rows(&self) -> u64 {
        self.batches.last().map_or(0, |batch| batch.first + batch.rows)
    }

    /// A message's description and body.
    fn bytes(&self, block: &Block) -> Result<Buffer> {
        let mut bytes = vec![0; block.metaDataLength() as usize + block.bodyLength() as usize];
        self.stored.read_at(block.offset() as u64, &mut bytes)?;
        Ok(Buffer::from_vec(bytes))
    }

    /// The rows of batch `number`, or why there are none.
    fn decode(&self, number: usize) -> Result<Result<Rows, String>> {
        let Batch { block, rows, .. } = &self.batches[number];
        let bytes = self.bytes(block)?;
        Ok(guarded(|| {
            let batch = self.decoder.read_record_batch(block, &bytes).map_err(|e| super::said(&e))?;
            let batch = batch.ok_or("the message is no record batch")?;
            if batch.num_rows() as u64 != *rows {
                return Err(format!("the batch has {} rows and says {rows}", batch.num_rows()));
            }
            self.columns.rows(&batch)
        }))
    }
}

impl Records for Table {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        let mut row = from;
        while row < end.min(self.rows()) {
            let number = self.batches.partition_point(|batch| batch.first + batch.rows <= row);
            let (first, last) =
                (self.batches[number].first, self.batches[number].first + self.batches[number].rows);
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                self.open = None;
                match self.decode(number)? {
                    Ok(rows) => self.open = Some((number, rows)),
                    Err(what) => {
                        let mut problem = Problem::new(
                            0,
                            format!("the record batch cannot be read: {what}"),
                            "get the file anew",
                        );
                        problem.stored = Some(self.batches[number].block.offset() as u64);
                        window.refuse_record(row, last, problem);
                        row = last;
                        continue;
                    }
                }
            }
            let Some((_, rows)) = &self.open else { break };
            while row < last.min(end) {
                rows.append((row - first) as usize, row, window);
                row += 1;
                if window.is_full() || window.bytes.len() >= full {
                    return Ok(Stop::At(row));
                }
            }
        }
        if let (Some(broken), true) = (&self.broken, end > self.rows()) {
            window.refuse_record(row, row, broken.clone().into());
        }
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let rows = self.rows();
        Ok((at > rows).then(|| format!("the table has {rows} rows")))
    }
}

/// Where the messages begin: behind a file's mark, or at once.
fn start(stored: &dyn Stored) -> Result<u64> {
    let mut mark = [0; MARK.len()];
    if stored.len() >= 8 {
        stored.read_at(0, &mut mark)?;
    }
    Ok(if mark == MARK { 8 } else { 0 })
}

/// What lies at a place.
enum Found {
    Message(Message),
    End,
    Broken(Broken),
}

/// Looks at the message at `at`: its length, after a mark of continuation in all but the oldest files, then its
/// description, then its body.
fn message(stored: &dyn Stored, at: u64) -> Result<Found> {
    let len = stored.len();
    let broken =
        |what: &str| Ok(Found::Broken(Broken { byte: at, what: what.to_owned(), remedy: Broken::ANEW }));
    let left = len.saturating_sub(at);
    if left == 0 {
        return Ok(Found::End);
    }
    if left < 8 {
        return if left == 4 { Ok(Found::End) } else { broken("the file ends within a message") };
    }
    let mut head = [0; 8];
    stored.read_at(at, &mut head)?;
    let [first, second] =
        [&head[..4], &head[4..]].map(|half| u32::from_le_bytes([half[0], half[1], half[2], half[3]]));
    let (prefix, length) = if first == u32::MAX { (8, second) } else { (4, first) };
    let length = u64::from(length);
    if length == 0 {
        return Ok(Found::End);
    }
    if length > MOST_METADATA || prefix + length > left {
        return broken("the file ends within a message, or its length is wrong");
    }
    let mut metadata = vec![0; length as usize];
    stored.read_at(at + prefix, &mut metadata)?;
    let body = match root_as_message(&metadata) {
        Ok(message) => u64::try_from(message.bodyLength()).unwrap_or(u64::MAX),
        Err(e) => return broken(&format!("a message cannot be read: {e}")),
    };
    if body > left - prefix - length {
        return broken("the file ends within a message's body");
    }
    let block = Block::new(at as i64, (prefix + length) as i32, body as i64);
    Ok(Found::Message(Message { metadata, block, next: at + prefix + length + body }))
}

/// The schema that the first message describes.
fn schema(metadata: &[u8]) -> Result<(Schema, MetadataVersion), String> {
    guarded(|| {
        let message = root_as_message(metadata).map_err(|e| e.to_string())?;
        let schema = message.header_as_schema().ok_or("its first message is no schema")?;
        Ok((try_fb_to_schema(schema).map_err(|e| super::said(&e))?, message.version()))
    })
}
