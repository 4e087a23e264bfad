//! What is learned from in batches: as text, as rows of 0 and 1, and counted.

use serde::Serialize;

use super::super::words::count;
use super::super::{print_line, print_text, terminal};
use super::{place, title};
use millstream::prove::learned;
use millstream::tokenizer::{END_OF_TEXT, Tokenizer};
use millstream::{Batch, Loader, Result};

/// Around what is learned from, without and with colors. White space has no color of its own, so its background has one.
const BRACKETS: [&str; 2] = ["⟦", "⟧"];
const COLORS: [&str; 2] = ["\u{1b}[30;42m", "\u{1b}[0m"];

/// Stands for the end of a line that is learned from.
const LINE_END: &str = "⏎";

/// How much of some batches is learned from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Shares {
    ids: u64,
    learned: u64,
    rows: u64,
    rows_without: u64,
}

impl Shares {
    pub(super) fn add(&mut self, batch: &Batch) {
        let learned = learned(batch);
        self.ids += batch.lengths().iter().map(|length| u64::from(*length)).sum::<u64>();
        for row in learned.chunks(batch.width().max(1)) {
            let learned = row.iter().filter(|learned| **learned).count() as u64;
            self.learned += learned;
            self.rows += 1;
            self.rows_without += u64::from(learned == 0);
        }
    }

    /// The shares in words.
    pub(super) fn line(&self) -> String {
        let share = 100.0 * self.learned as f64 / self.ids.max(1) as f64;
        let rows = match self.rows_without {
            0 => "each row has some".to_owned(),
            without => format!("{without} of {} have none", count(self.rows, "row")),
        };
        format!("learned from: {} of {} ({share:.1}%); {rows}", self.learned, count(self.ids, "id"))
    }
}

/// For each row, 1 for each id that is learned from, and 0 for the others.
pub(super) fn rows(batch: &Batch) -> Vec<Vec<u8>> {
    let learned: Vec<u8> = learned(batch).into_iter().map(u8::from).collect();
    learned.chunks(batch.width().max(1)).map(<[u8]>::to_vec).collect()
}

/// Prints all of a batch's text, with what is learned from in colors or in brackets.
pub(super) fn print(batch: &Batch, loader: &Loader) -> Result<()> {
    let (learned, width) = (learned(batch), batch.width());
    let around = if terminal::output_has_colors() { COLORS } else { BRACKETS };
    print_line(&title(batch))?;
    for piece in batch.pieces() {
        print_line(&place(batch, piece))?;
        let places = piece.from as usize..piece.to as usize;
        let ids = &batch.row(piece.row as usize)[places.clone()];
        let learned = &learned[piece.row as usize * width..][places];
        // An id may be a part of a character, so ids are decoded in runs.
        let mut at = 0;
        let runs = learned.chunk_by(|a, b| a == b).map(|run| {
            let ids = &ids[at..at + run.len()];
            at += run.len();
            (decoded(&**loader.tokenizer(), ids), run[0])
        });
        print_text(&painted(runs, around))?;
    }
    Ok(())
}

/// The text of ids. The end of a text is spelled out for bytes, too: it is what a mask must not forget.
fn decoded(tokenizer: &dyn Tokenizer, ids: &[u32]) -> String {
    let silent = tokenizer.id(END_OF_TEXT).filter(|id| tokenizer.decode(&[*id]).is_empty());
    let Some(silent) = silent else { return tokenizer.decode(ids) };
    let runs = ids.chunk_by(|a, b| (*a == silent) == (*b == silent));
    runs.map(|run| match run[0] == silent {
        true => END_OF_TEXT.repeat(run.len()),
        false => tokenizer.decode(run),
    })
    .collect()
}

/// Runs of text as indented lines, with `around` what is learned from. The end of a line that is learned from is shown.
fn painted(runs: impl Iterator<Item = (String, bool)>, [open, close]: [&str; 2]) -> String {
    let mut painted = String::from("      ");
    for (text, is_learned) in runs {
        for line in terminal::shown(&text).split_inclusive('\n') {
            let (text, end) = line.strip_suffix('\n').map_or((line, false), |text| (text, true));
            match is_learned {
                true => painted.extend([open, text, if end { LINE_END } else { "" }, close]),
                false => painted.push_str(text),
            }
            if end {
                painted.push_str("\n      ");
            }
        }
    }
    painted.push('\n');
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_from_stands_in_brackets_line_by_line() {
        let runs = [("user\nHi\n", false), ("Hello\nyou<end>", true), ("\u{1b}[31m", false)];
        let runs = runs.map(|(text, is_learned)| (text.to_owned(), is_learned));
        let expected = "      user\n      Hi\n      ⟦Hello⏎⟧\n      ⟦you<end>⟧\\u{1b}[31m\n";
        assert_eq!(painted(runs.into_iter(), BRACKETS), expected);
    }

    #[test]
    fn padding_is_not_counted_and_rows_without_anything_are() {
        let mut shares = Shares::default();
        shares.add(&Batch::from_ids(vec![1, 2, 3, 4], 2));
        assert_eq!(shares, Shares { ids: 4, learned: 4, rows: 2, rows_without: 0 });
        assert_eq!(shares.line(), "learned from: 4 of 4 ids (100.0%); each row has some");
        let some = Shares { learned: 1, rows_without: 1, ..shares };
        assert_eq!(some.line(), "learned from: 1 of 4 ids (25.0%); 1 of 2 rows have none");
    }
}
