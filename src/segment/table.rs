//! The end of a segment file: the table of its splits, and the trailer.

use twox_hash::XxHash3_64;

use super::format::{HEADER, MAGIC, ROW, SplitRow, TRAILER, Width};

/// The end of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Rows(Vec<SplitRow>),
    /// It takes so many bytes from the end.
    Longer(u64),
}

/// Reads the table of a segment of `len` bytes from its last bytes.
///
/// # Errors
/// The problem of the table.
pub(crate) fn parse(end: &[u8], len: u64, width: Width) -> Result<Table, &'static str> {
    let trailer = end.len().checked_sub(8 * TRAILER).ok_or("it is too short")?;
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let numbers: Vec<u64> = end[trailer..].chunks(8).map(number).collect();
    let (splits, table, sum) = (numbers[0], numbers[1], numbers[2]);
    if end[end.len() - 8..] != MAGIC {
        return Err("it does not end like a segment");
    }
    let rows_end = splits.checked_mul(8 * ROW as u64).and_then(|bytes| bytes.checked_add(table));
    if table < HEADER as u64 || rows_end != Some(len.saturating_sub(8 * TRAILER as u64)) {
        return Err("its table is wrong");
    }
    let taken = len - table;
    if taken > end.len() as u64 {
        return Ok(Table::Longer(taken));
    }
    let from = end.len() - taken as usize;
    if XxHash3_64::oneshot(&end[from..trailer + 16]) != sum {
        return Err("its table does not have its checksum");
    }
    let row = |bytes: &[u8]| {
        let mut numbers = [0; ROW];
        numbers.iter_mut().zip(bytes.chunks(8)).for_each(|(into, bytes)| *into = number(bytes));
        SplitRow::from_numbers(numbers)
    };
    let rows: Vec<SplitRow> = end[from..trailer].chunks(8 * ROW).map(row).collect();
    match rows.iter().all(|row| row.fits(width, table)) {
        true => Ok(Table::Rows(rows)),
        false => Err("a split is beyond its end"),
    }
}
