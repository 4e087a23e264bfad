//! Arrow IPC, as a stream or a file. A long file is cut between record batches.
//!
//! Both are the same messages, one after the other. A file has a mark before them, and after them a footer that lists
//! them. Opening a file walks over its messages without reading their bodies. Held in memory: the places of the batches
//! and dictionaries, the dictionaries of the current batch, and that batch as it is stored. The Hugging Face libraries
//! write batches of a thousand rows.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::Schema;

use super::messages::{
    self, Dictionary, END, Footer, Header, Message, MessageAt, footer, is_padding, message, schema, sound,
    start, unpacked,
};
use super::parts::{cut_evenly, most_parts, parts, scaled};
use super::{Columns, MOST_BATCHES, Rows, guarded, names_of_text, refuse, unreadable};
use crate::error::Result;
use crate::source::cuts::Cuts;
use crate::source::formats::footers::Footers;
use crate::source::formats::format::{Candidate, Format, Opened, Unopened};
use crate::source::formats::records::{Records, Stop};
use crate::source::layout::{Laid, Layout};
use crate::source::problem::{Problem, Unread};
use crate::source::split_size::SplitSize;
use crate::source::window::Window;
use crate::store::Stored;
use crate::threads::lock;

/// A record batch with more rows than this for each of its bytes does not have them.
const MOST_ROWS_A_BYTE: u64 = 64;

/// Arrow files, and their wanted columns.
#[derive(Debug)]
pub(crate) struct ArrowFormat {
    columns: Columns,
    messages: Mutex<Footers<Messages>>,
}

impl ArrowFormat {
    pub(crate) fn new(columns: Columns) -> Self {
        Self { columns, messages: Mutex::default() }
    }

    fn messages(&self, stored: &dyn Stored) -> Result<Arc<Messages>, Unread> {
        if let Some(messages) = lock(&self.messages).get(stored.path()) {
            return Ok(messages);
        }
        let messages = Messages::find(stored)?;
        self.columns.check(stored.path(), &messages.schema)?;
        Ok(lock(&self.messages).add(stored.path(), messages))
    }
}

impl Format for ArrowFormat {
    /// Any file may have a column that others lack.
    fn looks_at(&self, file: Candidate) -> bool {
        let is_usual = file.is_first || file.is_long || file.is_longest;
        is_usual || self.columns.looked_for().next().is_some()
    }

    fn looked(&self) -> Result<()> {
        self.columns.absent.check()
    }

    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        let (len, is_local) = (stored.len(), stored.is_local());
        let Ok(messages) = Unread::split(self.messages(&*stored))? else { return Ok(Layout::Whole.into()) };
        let (mut cuts, mut last) = (Vec::new(), 0);
        // Where there are few record batches, short ones are cut too: each part reads all of its batch.
        let held = messages.batches.iter().map(|batch| messages.held(batch)).max().unwrap_or(0);
        let parts = if is_local { parts(split_size, len, messages.batches.len() as u64, 0) } else { 1 };
        for batch in &messages.batches {
            let at = batch.begin();
            let parts = parts.min(most_parts(messages.held(batch)));
            if at / split_size.bytes > last / split_size.bytes || parts > 1 {
                cuts.extend(cut_evenly(batch.first..batch.first + batch.rows, parts));
                last = at;
            }
        }
        cuts.retain(|row| (1..messages.rows()).contains(row));
        cuts.dedup();
        let cuts = Cuts::new(cuts).stored(messages.common_dictionaries(), |rows| vec![messages.bytes(rows)]);
        lock(&self.messages).keep(stored.path(), &messages, messages.index_bytes());
        Ok(Laid { layout: Layout::Cuts(cuts), held })
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        let stored = file.stored()?;
        let messages = self.messages(&*stored);
        Opened::found(messages.map(|messages| ArrowTable::new(stored, &self.columns, messages)))
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        Ok(names_of_text(Messages::find(&*file.stored()?)?.schema.fields(), ""))
    }

    fn index_bytes(&self) -> u64 {
        lock(&self.messages).bytes()
    }
}

#[derive(Debug)]
struct ArrowTable {
    stored: Arc<dyn Stored>,
    columns: Columns,
    messages: Arc<Messages>,
    decoder: FileDecoder,
    /// The numbers of the dictionaries that the decoder holds.
    loaded: Vec<usize>,
    /// The number of the decoded batch, and its rows.
    open: Option<(usize, Rows)>,
}

/// The contents of a file's messages.
#[derive(Debug)]
struct Messages {
    schema: Arc<Schema>,
    version: MetadataVersion,
    batches: Vec<Batch>,
    dictionaries: Vec<Dictionary>,
    /// Whether the dictionaries apply to all batches, wherever they are: a file's do, and a stream's apply to what
    /// follows.
    has_footer: bool,
    /// How long the longest compressed batch is, in bytes: as it is stored, and decompressed.
    packed: (u64, u64),
    /// Where the file breaks off, if it does.
    broken: Option<Problem>,
}

/// Where a record batch is, and its rows.
#[derive(Debug)]
struct Batch {
    block: Block,
    first: u64,
    rows: u64,
    is_packed: bool,
}

impl Messages {
    /// Walks over the messages of a file.
    fn find(stored: &dyn Stored) -> Result<Self, Unread> {
        let refuse = |what: String| Problem::damage(format!("it is not a readable Arrow file: {what}"));
        let (first, is_file) = start(stored)?;
        let footer = is_file.then(|| Unread::split(footer(stored))).transpose()?;
        let problem = match footer {
            Some(Ok(footer)) => return Self::listed(stored, footer),
            Some(Err(problem)) => Some(problem.what),
            None => None,
        };
        let message = match Unread::split(message(stored, first, is_file))? {
            Ok(MessageAt::Message(message)) => message,
            Ok(MessageAt::End(_)) => {
                return Err(refuse(problem.unwrap_or_else(|| "it has no schema".to_owned())).into());
            }
            Err(problem) => return Err(refuse(problem.what).into()),
        };
        let (schema, version) = schema(&message.metadata).map_err(refuse)?;
        let mut messages = Self::new(schema, version);
        messages.broken = Unread::split(messages.walk(stored, message.next, problem))?.err();
        messages.measure(stored)?;
        Ok(messages)
    }

    /// The messages that a file's footer lists. They must cover the whole file: writers differ only in how they begin
    /// and end it.
    fn listed(stored: &dyn Stored, footer: Footer) -> Result<Self, Unread> {
        let mut messages = Self::new(footer.schema.clone(), footer.version);
        messages.has_footer = true;
        messages.broken = Unread::split(messages.walk_listed(stored, &footer))?.err();
        messages.measure(stored)?;
        Ok(messages)
    }

    fn new(schema: Schema, version: MetadataVersion) -> Self {
        let (batches, dictionaries) = (Vec::new(), Vec::new());
        let (has_footer, packed, broken) = (false, (0, 0), None);
        Self { schema: Arc::new(schema), version, batches, dictionaries, has_footer, packed, broken }
    }

    /// Looks at how long compressed batches are.
    fn measure(&mut self, stored: &dyn Stored) -> Result<()> {
        let packed = self.batches.iter().filter(|batch| batch.is_packed);
        if let Some(longest) = packed.max_by_key(|batch| batch.len()) {
            self.packed = (longest.len(), unpacked(stored, &longest.block)?.unwrap_or_default());
        }
        Ok(())
    }

    /// Notes the messages from `at` on, as far as they can be read. A file without a footer breaks off at its end, by
    /// this `problem`.
    fn walk(&mut self, stored: &dyn Stored, mut at: u64, problem: Option<String>) -> Result<(), Unread> {
        let what = loop {
            let message = match message(stored, at, problem.is_some())? {
                MessageAt::Message(message) => message,
                MessageAt::End(behind) => {
                    let follows = || "the end is marked here, and more follows".to_owned();
                    match problem.or_else(|| (!is_padding(behind, stored.len())).then(follows)) {
                        Some(what) => break what,
                        None => return Ok(()),
                    }
                }
            };
            if let Err(what) = self.note(&message) {
                break what;
            }
            at = message.next;
        };
        Err(Problem::damage_at(at, what).into())
    }

    /// Notes the messages that a footer lists, as far as they can be read.
    fn walk_listed(&mut self, stored: &dyn Stored, footer: &Footer) -> Result<(), Unread> {
        let unlisted = |end: Option<u64>| {
            Problem::damage_at(end.unwrap_or_default(), "its footer does not list what is here").into()
        };
        let mut end = None;
        for block in &footer.blocks {
            let at = u64::try_from(block.offset()).unwrap_or(u64::MAX);
            if !end.map_or(footer.can_begin(at), |end| is_padding(end, at)) || at >= footer.at {
                return Err(unlisted(end));
            }
            let MessageAt::Message(message) = message(stored, at, true)? else {
                return Err(Problem::damage_at(at, "its footer lists a message that is not there").into());
            };
            self.note(&message).map_err(|what| Problem::damage_at(at, what))?;
            end = Some(message.next);
        }
        // Most writers mark the end before the footer.
        let ends = |end: u64| is_padding(end, footer.at) || is_padding(end + END, footer.at);
        if end.map_or(footer.can_begin(footer.at), ends) { Ok(()) } else { Err(unlisted(end)) }
    }

    /// Notes a message, or returns its problem.
    fn note(&mut self, message: &Message) -> Result<(), String> {
        match message.header()? {
            Header::Batch { rows, column, is_packed } => {
                let first = self.rows();
                // A batch that claims to have no rows is never decoded, so it is checked here.
                let expected = (!self.schema.fields().is_empty()).then_some(rows);
                if column.map(|length| length.max(0) as u64) != expected {
                    return Err(format!(
                        "a record batch has {rows} rows, and its first column has another length"
                    ));
                }
                if first.checked_add(rows).is_none() {
                    return Err(format!("a record batch has {rows} rows"));
                }
                self.batches.push(Batch { block: message.block, first, rows, is_packed });
            }
            Header::Dictionary(dictionary) => self.dictionaries.push(dictionary),
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.batches.last().map_or(0, |batch| batch.first + batch.rows)
    }

    /// Where the batches of these rows are.
    fn bytes(&self, rows: Range<u64>) -> Range<u64> {
        let first = self.batches.partition_point(|batch| batch.first + batch.rows <= rows.start);
        let behind = self.batches.partition_point(|batch| batch.first < rows.end).max(first);
        match &self.batches[first..behind] {
            [] => 0..0,
            [first, ..] => first.begin()..self.batches[behind - 1].end(),
        }
    }

    /// About how much memory they take, in bytes.
    fn index_bytes(&self) -> u64 {
        let places = size_of_val(&*self.batches) + size_of_val(&*self.dictionaries);
        (places + self.schema.fields().size()) as u64
    }

    /// About how much memory a batch takes, stored and decompressed, in bytes.
    fn held(&self, batch: &Batch) -> u64 {
        let (stored, unpacked) = self.packed;
        let len = batch.len();
        len.saturating_add(if batch.is_packed { scaled(len, stored, unpacked) } else { 0 })
    }

    /// The place of the dictionaries that every batch needs, if there are any.
    fn common_dictionaries(&self) -> Range<u64> {
        let place = |dictionary: &Dictionary| messages::bytes(&dictionary.block);
        let Some(first) = self.dictionaries.first().map(|first| place(first).start) else { return 0..0 };
        match (self.has_footer, self.dictionaries.last(), self.batches.first()) {
            (true, Some(last), _) => first..place(last).end,
            (false, _, Some(batch)) if batch.begin() > first => first..batch.begin(),
            _ => 0..0,
        }
    }
}

impl Batch {
    fn begin(&self) -> u64 {
        messages::bytes(&self.block).start
    }

    fn end(&self) -> u64 {
        messages::bytes(&self.block).end
    }

    fn len(&self) -> u64 {
        self.end() - self.begin()
    }
}

impl ArrowTable {
    fn new(stored: Arc<dyn Stored>, columns: &Columns, messages: Arc<Messages>) -> Self {
        let (decoder, columns) = (decoder(&messages, columns), columns.of_file(stored.path()));
        Self { stored, columns, messages, decoder, loaded: Vec::new(), open: None }
    }

    /// A message's description and body.
    fn bytes(&self, block: &Block) -> Result<Buffer> {
        let mut bytes = vec![0; block.metaDataLength() as usize + block.bodyLength() as usize];
        self.stored.read_at(block.offset() as u64, &mut bytes)?;
        Ok(Buffer::from_vec(bytes))
    }

    /// Gives the decoder the dictionaries that apply at `offset`. A stream may replace them on its way; files of polars
    /// have them after the batches.
    fn load_dictionaries(&mut self, offset: i64) -> Result<(), Unread> {
        let mut needed: Vec<usize> = Vec::new();
        for (number, dictionary) in self.messages.dictionaries.iter().enumerate() {
            if !self.messages.has_footer && dictionary.block.offset() > offset {
                break;
            }
            if !dictionary.is_delta {
                needed.retain(|&before| self.messages.dictionaries[before].id != dictionary.id);
            }
            needed.push(number);
        }
        if !needed.starts_with(&self.loaded) {
            self.loaded.clear();
            self.decoder = decoder(&self.messages, &self.columns);
        }
        for &number in &needed[self.loaded.len()..] {
            let block = self.messages.dictionaries[number].block;
            let bytes = self.bytes(&block)?;
            let read = guarded(|| {
                sound(&block, &bytes)?;
                self.decoder.read_dictionary(&block, &bytes).map_err(|e| e.to_string())
            });
            let of = |what| format!("its dictionary at byte {}: {what}", block.offset());
            read.map_err(|what| Problem::damage(of(what)))?;
            self.loaded.push(number);
        }
        Ok(())
    }

    fn decode(&mut self, number: usize) -> Result<Rows, Unread> {
        let Batch { block, rows, .. } = self.messages.batches[number];
        self.load_dictionaries(block.offset())?;
        let bytes = self.bytes(&block)?;
        let rows = guarded(|| {
            sound(&block, &bytes)?;
            let batch = self.decoder.read_record_batch(&block, &bytes).map_err(|e| e.to_string())?;
            let batch = batch.ok_or("the message is not a record batch")?;
            if batch.num_rows() as u64 != rows {
                return Err(format!("the batch has {} rows and says {rows}", batch.num_rows()));
            }
            self.columns.rows(&batch)
        });
        Ok(rows.map_err(Problem::damage)?)
    }
}

/// A decoder of the wanted columns, without dictionaries.
fn decoder(Messages { schema, version, .. }: &Messages, columns: &Columns) -> FileDecoder {
    let names = columns.names();
    let wanted = names.iter().filter_map(|name| {
        let whole = schema.index_of(name).ok();
        whole.or_else(|| schema.index_of(name.split('.').next()?).ok())
    });
    let wanted: BTreeSet<usize> = wanted.collect();
    FileDecoder::new(schema.clone(), *version).with_projection(wanted.into_iter().collect())
}

impl Records for ArrowTable {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        let mut row = from;
        let mut decoded = 0;
        while row < end.min(self.messages.rows()) {
            let number = self.messages.batches.partition_point(|batch| batch.first + batch.rows <= row);
            let Batch { block, first, rows, .. } = self.messages.batches[number];
            let last = first + rows;
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                self.open = None;
                if decoded == MOST_BATCHES {
                    return Ok(Stop::At(row));
                }
                decoded += 1;
                match Unread::split(self.decode(number))? {
                    Ok(rows) => self.open = Some((number, rows)),
                    Err(Problem { what, .. }) => {
                        let problem = unreadable(&format!("the record batch cannot be read: {what}"));
                        let problem = Problem { stored: Some(block.offset() as u64), ..problem };
                        // A header may claim any number of rows.
                        if rows > MOST_ROWS_A_BYTE.saturating_mul(self.messages.batches[number].len()) {
                            window.refuse_record(row, last, problem);
                            row = last;
                            continue;
                        }
                        row = refuse(row..last.min(end), &problem, window);
                        if window.is_full() {
                            return Ok(Stop::At(row));
                        }
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
        if end < self.messages.rows() {
            return Ok(Stop::At(row));
        }
        if let (Some(broken), true) = (&self.messages.broken, end > self.messages.rows()) {
            window.refuse_record(row, row, broken.clone());
        }
        Ok(Stop::End)
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let rows = self.messages.rows();
        Ok((at > rows).then(|| format!("the table has {rows} rows")))
    }
}
