//! Arrow IPC, as a stream or a file: record batches are where a long file is cut.
//!
//! Both are the same messages, one after the other; a file only has a mark before and a footer behind them. Opening
//! one walks over the messages and reads no bodies. Held in memory: where the batches and dictionaries are, the
//! dictionaries of the batch that is read, and the batch as it is stored: those that the Hugging Face libraries write
//! have a thousand rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::Schema;

use super::messages::{Dictionary, Found, Header, message, schema, start, unpacked};
use super::{Columns, MOST_BATCHES, Rows, guarded};
use crate::error::Result;
use crate::source::content::Broken;
use crate::source::corpus::Layout;
use crate::source::decode::Problem;
use crate::source::records::{RecordFormat, Records, Stop, opened};
use crate::source::window::Window;
use crate::store::Stored;

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

    fn open_table(&self, stored: Arc<dyn Stored>) -> Result<Result<Table, Problem>> {
        let path = stored.path().display().to_string();
        let table = Table::open(stored, &self.columns)?;
        if let Ok(table) = &table {
            self.columns.check(&path, &table.schema)?;
        }
        Ok(table)
    }
}

impl RecordFormat for ArrowFormat {
    fn layout(&self, stored: Arc<dyn Stored>, nominal: u64) -> Result<Layout> {
        let Ok(table) = self.open_table(stored)? else { return Ok(Layout::Whole) };
        let (mut cuts, mut last) = (Vec::new(), 0);
        for batch in &table.batches {
            let at = batch.block.offset() as u64;
            if batch.first > 0 && at / nominal > last / nominal {
                cuts.push(batch.first);
                last = at;
            }
        }
        cuts.dedup();
        Ok(Layout::Cuts(cuts.into()))
    }

    fn open(&self, stored: Arc<dyn Stored>) -> Result<Box<dyn Records>> {
        self.open_table(stored).map(opened)
    }
}

/// One open file.
#[derive(Debug)]
struct Table {
    stored: Arc<dyn Stored>,
    columns: Columns,
    schema: Arc<Schema>,
    version: MetadataVersion,
    decoder: FileDecoder,
    batches: Vec<Batch>,
    dictionaries: Vec<Dictionary>,
    /// The numbers of the dictionaries that the decoder has.
    loaded: Vec<usize>,
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

impl Table {
    fn open(stored: Arc<dyn Stored>, columns: &Columns) -> Result<Result<Self, Problem>> {
        let refuse = |what: String| {
            let what = format!("it is no Arrow file that can be read: {what}");
            Ok(Err(Problem::new(0, what, Broken::ANEW)))
        };
        let (first, is_file) = start(&*stored)?;
        let message = match message(&*stored, first, is_file)? {
            Found::Message(message) => message,
            Found::End => return refuse("it has no schema".to_owned()),
            Found::Broken(broken) => return refuse(broken.what),
        };
        let (schema, version) = match schema(&message.metadata) {
            Ok((schema, version)) => (Arc::new(schema), version),
            Err(what) => return refuse(what),
        };
        let mut table = Self {
            decoder: decoder(&schema, version, columns),
            stored,
            columns: columns.clone(),
            schema,
            version,
            batches: Vec::new(),
            dictionaries: Vec::new(),
            loaded: Vec::new(),
            broken: None,
            open: None,
        };
        table.broken = table.walk(message.next, is_file)?;
        Ok(Ok(table))
    }

    /// Notes the messages from `at` on, and where they break off.
    fn walk(&mut self, mut at: u64, is_file: bool) -> Result<Option<Broken>> {
        loop {
            let message = match message(&*self.stored, at, is_file)? {
                Found::Message(message) => message,
                Found::End => return Ok(None),
                Found::Broken(broken) => return Ok(Some(broken)),
            };
            let broken = |what: String| Ok(Some(Broken { byte: at, what, remedy: Broken::ANEW }));
            match message.header() {
                Ok(Header::Batch(rows)) => {
                    let first = self.rows();
                    if first.checked_add(rows).is_none() {
                        return broken(format!("a record batch has {rows} rows"));
                    }
                    self.batches.push(Batch { block: message.block, first, rows });
                }
                Ok(Header::Dictionary(dictionary)) => self.dictionaries.push(dictionary),
                Ok(Header::Other) => {}
                Err(what) => return broken(what),
            }
            at = message.next;
        }
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

    /// Sees to it that the decoder has the dictionaries that hold for what lies at `offset`. A stream may replace them
    /// on its way.
    fn load_dictionaries(&mut self, offset: i64) -> Result<Result<(), String>> {
        let mut needed: Vec<usize> = Vec::new();
        for (number, dictionary) in self.dictionaries.iter().enumerate() {
            if dictionary.block.offset() > offset {
                break;
            }
            if !dictionary.is_delta {
                needed.retain(|&before| self.dictionaries[before].id != dictionary.id);
            }
            needed.push(number);
        }
        if !needed.starts_with(&self.loaded) {
            self.loaded.clear();
            self.decoder = decoder(&self.schema, self.version, &self.columns);
        }
        for &number in &needed[self.loaded.len()..] {
            let block = self.dictionaries[number].block;
            let bytes = self.bytes(&block)?;
            let read = guarded(|| {
                unpacked(&block, &bytes)?;
                self.decoder.read_dictionary(&block, &bytes).map_err(|e| super::said(&e))
            });
            if let Err(what) = read {
                return Ok(Err(format!("its dictionary at byte {}: {what}", block.offset())));
            }
            self.loaded.push(number);
        }
        Ok(Ok(()))
    }

    /// The rows of batch `number`, or why there are none.
    fn decode(&mut self, number: usize) -> Result<Result<Rows, String>> {
        let Batch { block, rows, .. } = self.batches[number];
        if let Err(what) = self.load_dictionaries(block.offset())? {
            return Ok(Err(what));
        }
        let bytes = self.bytes(&block)?;
        Ok(guarded(|| {
            unpacked(&block, &bytes)?;
            let batch = self.decoder.read_record_batch(&block, &bytes).map_err(|e| super::said(&e))?;
            let batch = batch.ok_or("the message is no record batch")?;
            if batch.num_rows() as u64 != rows {
                return Err(format!("the batch has {} rows and says {rows}", batch.num_rows()));
            }
            self.columns.rows(&batch)
        }))
    }
}

/// A decoder without dictionaries, of the columns that are wanted.
fn decoder(schema: &Arc<Schema>, version: MetadataVersion, columns: &Columns) -> FileDecoder {
    let names = columns.names();
    let wanted = names.iter().filter_map(|name| schema.index_of(name.split('.').next()?).ok());
    let wanted: BTreeSet<usize> = wanted.collect();
    FileDecoder::new(schema.clone(), version).with_projection(wanted.into_iter().collect())
}

impl Records for Table {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        let mut row = from;
        let mut decoded = 0;
        while row < end.min(self.rows()) {
            let number = self.batches.partition_point(|batch| batch.first + batch.rows <= row);
            let Batch { block, first, rows } = self.batches[number];
            let last = first + rows;
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                self.open = None;
                if decoded == MOST_BATCHES {
                    return Ok(Stop::At(row));
                }
                decoded += 1;
                match self.decode(number)? {
                    Ok(rows) => self.open = Some((number, rows)),
                    Err(what) => {
                        let what = format!("the record batch cannot be read: {what}");
                        let mut problem = Problem::new(0, what, Broken::ANEW);
                        problem.stored = Some(block.offset() as u64);
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
