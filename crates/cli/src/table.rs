//! Tables for people.

use super::terminal::on_a_line;

/// Rows as lines: the first column to the left, the others to the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    lines(rows, false)
}

/// Rows of words as lines: all columns to the left.
#[cfg(feature = "train")]
pub(super) fn left_aligned(rows: &[Vec<String>]) -> Vec<String> {
    lines(rows, true)
}

/// Tables as lines, with a blank line between two. Tables without rows are left out.
pub(super) fn several(tables: &[Vec<Vec<String>>]) -> Vec<String> {
    let some = tables.iter().map(|rows| aligned(rows)).filter(|lines| !lines.is_empty());
    some.collect::<Vec<_>>().join(&String::new())
}

fn lines(rows: &[Vec<String>], is_left: bool) -> Vec<String> {
    let shown = |cell: &String| on_a_line(cell).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let width = |column: usize| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<0$}", width(0)),
            _ if is_left => format!("  {cell:<0$}", width(column)),
            _ => format!("  {cell:>0$}", width(column)),
        });
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
