//! Parquet: row groups are splits, or parts of splits where there are few. Only the wanted columns are read.
//!
//! Held in memory: one footer of each open file and of [some closed ones](crate::source::formats::footers), the pages under
//! way, and the short batches of rows that the last reading has decoded.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetStatisticsPolicy, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use super::page::{HEAD_BYTES, PageSize};
use super::parts::{cut_evenly, most_parts, parts, scaled};
use super::{Columns, MOST_BATCHES, Rows, guarded, names_of_text, refuse, unreadable};
use crate::error::{Error, Result};
use crate::source::cuts::Cuts;
use crate::source::formats::footers::Footers;
use crate::source::formats::format::{Candidate, Format, Opened, Unopened};
use crate::source::formats::records::{Records, Stop};
use crate::source::layout::{Laid, Layout};
use crate::source::problem::{Problem, Unread};
use crate::source::split_size::SplitSize;
use crate::source::window::{WINDOW_DOCUMENTS, Window};
use crate::store::Stored;
use crate::threads::lock;

/// How much is read of a page's header, whose length is unknown, in bytes. Its page follows it.
const BUFFER_BYTES: usize = 4 << 10;

/// About how much text is decoded at a time, in bytes.
const BATCH_BYTES: u64 = 128 << 10;

/// The usual length of a page, in rows and in bytes, whichever is more.
const PAGE_ROWS: u64 = 1024;
const PAGE_BYTES: u64 = 1 << 20;

/// The usual bound on a dictionary, in bytes.
const LONGEST_DICTIONARY: usize = 1 << 20;

/// About how much comes with a footer from a store, in bytes.
const NEAR_FOOTER: u64 = 64 << 10;

/// About how many splits of a source are open at once.
const MOST_OPEN: u64 = 128;

/// The last bytes of a file: the length of the footer before them, and a mark.
const TAIL_BYTES: u64 = 8;

/// Parquet files, and their wanted columns.
#[derive(Debug)]
pub(crate) struct ParquetFormat {
    columns: Columns,
    footers: Mutex<Footers<Footer>>,
}

/// The wanted columns in a file's footer.
struct Footer {
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    /// The first row of each row group, and then the number of rows.
    firsts: Vec<u64>,
    /// Where the wanted columns of each row group are.
    places: Vec<Vec<Range<u64>>>,
    /// Where they end, in order: nothing is read ahead beyond these places.
    ends: Arc<[u64]>,
}

impl fmt::Debug for Footer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footer").field("firsts", &self.firsts).finish_non_exhaustive()
    }
}

impl ParquetFormat {
    pub(crate) fn new(columns: Columns) -> Self {
        Self { columns, footers: Mutex::default() }
    }

    fn footer(&self, stored: &Arc<dyn Stored>) -> Result<Arc<Footer>, Unread> {
        if let Some(footer) = lock(&self.footers).get(stored.path()) {
            return Ok(footer);
        }
        let footer = Footer::read(stored, &self.columns)?;
        Ok(lock(&self.footers).add(stored.path(), footer))
    }
}

impl Footer {
    /// Reads a file's footer, without the statistics of its columns.
    fn read(stored: &Arc<dyn Stored>, columns: &Columns) -> Result<Self, Unread> {
        let chunks = Chunks { stored: stored.clone(), ends: Arc::default(), failed: Arc::default() };
        let options = ArrowReaderOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let loaded = guarded(|| {
            // Without the library's own words for the kind of error.
            let what = |e: ParquetError| e.to_string().trim_start_matches("Parquet error: ").to_owned();
            ArrowReaderMetadata::load(&chunks, options).map_err(what)
        });
        if let Some(failure) = chunks.failure() {
            return Err(failure.into());
        }
        let read = loaded.and_then(|metadata| {
            let firsts = firsts(&metadata)?;
            let mask = mask(metadata.parquet_schema(), columns);
            let places = guarded(|| Ok(places(&metadata, &mask)))?;
            let mut ends: Vec<u64> = places.iter().flatten().map(|range| range.end).collect();
            ends.sort_unstable();
            Ok(Self { metadata, mask, firsts, places, ends: ends.into() })
        });
        read.map_err(|what| Problem::damage(format!("it is not a readable Parquet file: {what}")).into())
    }

    fn rows(&self) -> u64 {
        self.firsts[self.firsts.len() - 1]
    }

    fn group(&self, row: u64) -> usize {
        self.firsts.partition_point(|&first| first <= row) - 1
    }
}

/// The first row of each row group, and then the number of rows.
fn firsts(metadata: &ArrowReaderMetadata) -> Result<Vec<u64>, String> {
    let mut firsts = vec![0_u64];
    for group in metadata.metadata().row_groups() {
        let rows = u64::try_from(group.num_rows()).ok();
        // Each row has a value of each column, if only null.
        let rows =
            rows.filter(|_| group.columns().iter().all(|column| column.num_values() >= group.num_rows()));
        let next = rows.and_then(|rows| firsts[firsts.len() - 1].checked_add(rows));
        firsts.push(next.ok_or_else(|| format!("a row group has {} rows", group.num_rows()))?);
    }
    Ok(firsts)
}

/// Which columns are wanted. (The library's own search by names takes any dot for a step into a struct.)
fn mask(schema: &SchemaDescriptor, columns: &Columns) -> ProjectionMask {
    let names = columns.names();
    let roots = schema.root_schema().get_fields();
    let is_at = |path: &[String], name: &str| match roots.iter().any(|root| root.name() == name) {
        true => path[0] == name,
        // A path may also be shorter: for a column of nulls whose writer knew of no struct.
        false => name.split('.').zip(path).all(|(part, of)| part == of),
    };
    let leaves = (0..schema.num_columns()).filter(|&leaf| {
        let path = schema.column(leaf).path().clone();
        names.iter().any(|name| is_at(path.parts(), name))
    });
    ProjectionMask::leaves(schema, leaves)
}

/// The wanted columns of a row group.
fn wanted<'a>(
    group: &'a RowGroupMetaData,
    mask: &'a ProjectionMask,
) -> impl Iterator<Item = &'a ColumnChunkMetaData> {
    let leaves = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
    leaves.map(|(_, column)| column)
}

/// Where the wanted columns of each row group are.
fn places(metadata: &ArrowReaderMetadata, mask: &ProjectionMask) -> Vec<Vec<Range<u64>>> {
    let of_group = |group: &RowGroupMetaData| {
        let ranges = wanted(group, mask).map(|column| column.byte_range());
        ranges.map(|(start, len)| start..start.saturating_add(len)).collect()
    };
    metadata.metadata().row_groups().iter().map(of_group).collect()
}

/// Where a file's footer is; empty if its last bytes do not say.
fn footer(stored: &dyn Stored) -> Result<Range<u64>> {
    let Some(tail) = stored.len().checked_sub(TAIL_BYTES) else { return Ok(0..0) };
    let mut length = [0; 4];
    stored.look_at(tail, &mut length)?;
    let start = tail.checked_sub(u64::from(u32::from_le_bytes(length)));
    Ok(start.map_or(0..0, |start| start..stored.len()))
}

impl Format for ParquetFormat {
    /// Only a file's footer says where its row groups are.
    fn looks_at(&self, _: Candidate) -> bool {
        true
    }

    fn looked(&self) -> Result<()> {
        self.columns.absent.check()
    }

    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        let (footer, len, is_local) = (footer(&*stored)?, stored.len(), stored.is_local());
        let Ok(table) = Unread::split(self.footer(&stored))? else { return Ok(Layout::Whole.into()) };
        self.columns.check(stored.path(), table.metadata.schema())?;
        let opening =
            if lock(&self.footers).keep(stored.path(), &table, table.bytes()) { 0..0 } else { footer };
        let rows = table.rows();
        // Few row groups are cut too. In a store, each part would fetch the whole row group.
        let first = table.first_pages(&*stored);
        let parts = match is_local {
            true => parts(split_size, len, table.places.len() as u64, first.stored)
                .min(most_parts(first.longest).saturating_mul(first.pages)),
            false => 1,
        };
        let cut = |group: &[u64]| cut_evenly(group[0]..group[1], parts);
        let mut cuts: Vec<u64> = table.firsts.windows(2).flat_map(cut).collect();
        cuts.retain(|first| (1..rows).contains(first));
        cuts.dedup();
        let of_split = |split: Range<u64>| {
            let behind = table.firsts.partition_point(|&first| first < split.end);
            let groups = table.group(split.start)..behind.min(table.places.len());
            table.places[groups].iter().flatten().cloned().collect()
        };
        let held = first.held.saturating_add(table.held(cuts.len() as u64 + 1, split_size));
        Ok(Laid { layout: Layout::Cuts(Cuts::new(cuts).stored(opening, of_split)), held })
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        let stored = file.stored()?;
        let footer = self.footer(&stored);
        Opened::found(footer.map(|footer| {
            let chunks = Chunks { stored, ends: footer.ends.clone(), failed: Arc::default() };
            ParquetTable { columns: self.columns.of_file(chunks.stored.path()), chunks, footer, open: None }
        }))
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        let footer = self.footer(&file.stored()?)?;
        Ok(names_of_text(footer.metadata.schema().fields(), ""))
    }

    fn index_bytes(&self) -> u64 {
        lock(&self.footers).bytes()
    }
}

struct ParquetTable {
    columns: Columns,
    chunks: Chunks,
    footer: Arc<Footer>,
    open: Option<Open>,
}

impl fmt::Debug for ParquetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetTable").field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

/// A row group that is being read.
struct Open {
    reader: ParquetRecordBatchReader,
    /// Decoded rows, each with the number of the first: those that reading may go back to, and the next ones.
    batches: VecDeque<(u64, Rows)>,
    /// The first row after the decoded ones.
    decoded: u64,
    /// The first row of the group, and the first one after it.
    begin: u64,
    end: u64,
}

impl Open {
    /// Whether row `row` is among the decoded ones, or the next one of the group.
    fn reaches(&self, row: u64) -> bool {
        let first = self.batches.front().map_or(self.decoded, |(first, _)| *first);
        (first..=self.decoded).contains(&row) && row < self.end
    }

    /// Drops the decoded rows before `row`, as far as whole batches go.
    fn forget_before(&mut self, row: u64) {
        while self.batches.front().is_some_and(|(first, rows)| first + rows.len() as u64 <= row) {
            self.batches.pop_front();
        }
    }
}

/// The pages that must be read to begin anywhere in a row group: each column's dictionary, and one page.
#[derive(Clone, Copy, Default)]
struct FirstPages {
    /// Their length in the file and in memory, in bytes.
    stored: u64,
    held: u64,
    /// The length in memory of the longest page, and how many such pages its column has.
    longest: u64,
    pages: u64,
}

impl FirstPages {
    /// The first pages of one column: about the usual size, or more if their headers say so. The first page may be a
    /// short one: a column's text continues in other pages once its dictionary is full.
    fn of_column(column: &ColumnChunkMetaData, file: &dyn Stored) -> Self {
        let [rows, held, stored] =
            [column.num_values(), column.uncompressed_size(), column.compressed_size()]
                .map(|n| u64::try_from(n).unwrap_or(0));
        let usual = |held_bytes: u64| PageSize { held: held_bytes, stored: scaled(held_bytes, held, stored) };
        // In a store each look is a request, and this is one for both. A page near the footer came with that.
        let both = column.dictionary_page_offset().and_then(|at| {
            let [at, end] = [at, column.data_page_offset()].map(|at| u64::try_from(at).ok());
            let (at, end) = (at?, end?);
            let is_apart = !file.is_local() && end.saturating_add(NEAR_FOOTER) < file.len();
            let len = usize::try_from(end.checked_sub(at)?).ok()?;
            Some((at, len)).filter(|_| is_apart && len <= LONGEST_DICTIONARY)
        });
        if let Some((at, len)) = both {
            // If it fails, so do the looks.
            let _ = file.look_at(at, &mut vec![0; len + HEAD_BYTES]);
        }
        // Looked at before the dictionary: it is nearer to the footer, which was read just now.
        let page = PageSize::look(file, column.data_page_offset());
        let dictionary = column.dictionary_page_offset().map_or(PageSize::default(), |at| {
            let len = u64::try_from(column.data_page_offset().saturating_sub(at)).unwrap_or(0);
            PageSize::look(file, at).unwrap_or_else(|| usual(scaled(len, stored, held)))
        });
        let usual = usual(scaled(PAGE_ROWS, rows, held).max(PAGE_BYTES).min(held));
        let page = page.unwrap_or(usual).max(usual);
        Self {
            stored: page.stored.saturating_add(dictionary.stored),
            held: page.held.saturating_add(dictionary.held),
            longest: page.held,
            pages: (held / page.held.max(1)).max(1),
        }
    }

    fn and(self, other: Self) -> Self {
        let (longest, pages) = (self.longest, self.pages).max((other.longest, other.pages));
        Self {
            stored: self.stored.saturating_add(other.stored),
            held: self.held.saturating_add(other.held),
            longest,
            pages,
        }
    }
}

impl Footer {
    /// The first pages of the row group that takes the most memory.
    fn first_pages(&self, file: &dyn Stored) -> FirstPages {
        let held = |group: &&RowGroupMetaData| {
            wanted(group, &self.mask).map(|column| column.uncompressed_size().max(0)).max()
        };
        let group = self.metadata.metadata().row_groups().iter().max_by_key(held);
        let columns = group.into_iter().flat_map(|group| wanted(group, &self.mask));
        columns.map(|column| FirstPages::of_column(column, file)).fold(FirstPages::default(), FirstPages::and)
    }

    /// How many rows of a row group are decoded at once.
    fn batch_rows(&self, group: usize) -> u64 {
        let described = self.metadata.metadata().row_group(group);
        let bytes: i64 = wanted(described, &self.mask).map(|column| column.uncompressed_size().max(0)).sum();
        let rows = self.firsts[group + 1] - self.firsts[group];
        let row_bytes = (bytes as u64 / rows.max(1)).max(1);
        (BATCH_BYTES / row_bytes).clamp(1, WINDOW_DOCUMENTS as u64)
    }

    /// The rows that are decoded together with this one.
    fn batch(&self, row: u64) -> Range<u64> {
        let group = self.group(row);
        let (begin, rows) = (self.firsts[group], self.batch_rows(group));
        let start = begin + (row - begin) / rows * rows;
        start..(start + rows).min(self.firsts[group + 1])
    }

    /// How much memory the footer takes for each of the file's `splits` that may be open at once, in bytes.
    fn held(&self, splits: u64, split_size: &SplitSize) -> u64 {
        let open = (MOST_OPEN / split_size.files.max(1)).clamp(1, splits);
        self.bytes() / open
    }

    /// About how much memory it takes, in bytes.
    fn bytes(&self) -> u64 {
        self.metadata.metadata().memory_size() as u64
    }
}

impl ParquetTable {
    fn rows(&self) -> u64 {
        self.footer.rows()
    }

    /// Where reading stops before `row`, if rows up to `end` were wanted.
    fn stop(&self, row: u64, end: u64) -> Stop {
        if row < self.rows().min(end) || end < self.rows() { Stop::At(row) } else { Stop::End }
    }

    /// A reader of the row group that contains `row`, from the batch with that row on. Batches begin at the same rows
    /// wherever reading begins, so that damage always costs the same rows.
    fn open_at(&self, row: u64) -> Result<Open, String> {
        let footer = &*self.footer;
        let (group, batch) = (footer.group(row), footer.batch(row));
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.chunks.clone(), footer.metadata.clone());
        let (begin, end) = (footer.firsts[group], footer.firsts[group + 1]);
        let reader = builder
            .with_row_groups(vec![group])
            .with_projection(footer.mask.clone())
            .with_batch_size(footer.batch_rows(group) as usize)
            .with_offset(usize::try_from(batch.start - begin).map_err(|e| e.to_string())?)
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Open { reader, batches: VecDeque::new(), decoded: batch.start, begin, end })
    }

    /// Decoded rows that have row `row`, and the number of the first of them.
    fn fill(&mut self, row: u64) -> Result<&(u64, Rows), String> {
        let mut open = match self.open.take() {
            Some(open) if open.reaches(row) => open,
            _ => guarded(|| self.open_at(row))?,
        };
        while open.decoded <= row {
            let batch: Option<RecordBatch> =
                guarded(|| open.reader.next().transpose().map_err(|e| e.to_string()))?;
            let Some(batch) = batch else {
                return Err(format!(
                    "the row group has fewer rows than the {} that the footer says",
                    open.end - open.begin
                ));
            };
            let rows = guarded(|| self.columns.rows(&batch))?;
            let first = open.decoded;
            open.decoded += rows.len() as u64;
            open.batches.push_back((first, rows));
        }
        let open = self.open.insert(open);
        let behind = open.batches.partition_point(|(first, _)| *first <= row);
        behind.checked_sub(1).map(|nth| &open.batches[nth]).ok_or_else(|| format!("row {row} is not decoded"))
    }
}

impl Records for ParquetTable {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let (wanted, end) = (end, end.min(self.rows()));
        let full = window.bytes.len() + room;
        let mut row = from;
        let mut batches = 0;
        // Splits that are read side by side go back to where the next one has been read, and not before this place.
        if let Some(open) = &mut self.open {
            open.forget_before(from);
        }
        while row < end {
            if batches == MOST_BATCHES {
                return Ok(Stop::At(row));
            }
            batches += 1;
            let (first, rows) = match self.fill(row) {
                Ok((first, rows)) => (*first, rows),
                Err(what) => {
                    if let Some(failure) = self.chunks.failure() {
                        return Err(failure);
                    }
                    let behind = self.footer.batch(row).end.min(end);
                    let problem = unreadable(&format!("its row group cannot be read here: {what}"));
                    row = refuse(row..behind, &problem, window);
                    if window.is_full() {
                        return Ok(self.stop(row, wanted));
                    }
                    continue;
                }
            };
            while row < end.min(first + rows.len() as u64) {
                rows.append((row - first) as usize, row, window);
                row += 1;
                if window.is_full() || window.bytes.len() >= full {
                    return Ok(self.stop(row, wanted));
                }
            }
        }
        Ok(self.stop(row, wanted))
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let rows = self.rows();
        Ok((at > rows).then(|| format!("the table has {rows} rows")))
    }
}

/// The stored bytes, as the library reads them.
#[derive(Clone, Debug)]
struct Chunks {
    stored: Arc<dyn Stored>,
    /// As in [`Footer`].
    ends: Arc<[u64]>,
    /// Why the bytes could not be read. The library passes on only a message.
    failed: Arc<Mutex<Option<Error>>>,
}

impl Chunks {
    fn failure(&self) -> Option<Error> {
        lock(&self.failed).take()
    }

    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        self.stored.read_at(from, into).map_err(|error| {
            let said = io::Error::other(error.to_string());
            *lock(&self.failed) = Some(error);
            said
        })
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.stored.len()
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_BYTES, From { chunks: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.stored.len()) {
            let what = format!(
                "{length} bytes from byte {start} on reach beyond the file's {} bytes",
                self.stored.len()
            );
            return Err(ParquetError::EOF(what));
        }
        let mut bytes = vec![0; length];
        self.read(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// The stored bytes from one place on.
#[derive(Debug)]
struct From {
    chunks: Chunks,
    at: u64,
}

impl Read for From {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (ends, len) = (&self.chunks.ends, self.chunks.stored.len());
        let end = ends.get(ends.partition_point(|&end| end <= self.at)).copied();
        // A damaged footer names places behind the end of the file.
        let left = end.map_or(len, |end| end.min(len)).saturating_sub(self.at);
        let n = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        if n == 0 {
            return Ok(0);
        }
        self.chunks.read(self.at, &mut into[..n])?;
        self.at += n as u64;
        Ok(n)
    }
}
