//! Assigns spans to the rows of a trace.

/// The stages in the order of the journey, which is the order of the rows.
const STAGES: [&str; 8] = ["source", "own", "tokenize", "shuffle", "pack", "batch", "prefetch", "trainer"];

/// The most rows of a stage. Further spans lie in the last one.
const MOST: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    stage: usize,
    number: usize,
    /// Whether the span lies inside another span of the row.
    is_shared: bool,
}

impl Row {
    pub(super) fn tid(&self) -> u32 {
        (self.stage * MOST + self.number + 1) as u32
    }

    pub(super) fn name(&self) -> String {
        let stage = STAGES.get(self.stage).copied().unwrap_or("other");
        if self.number == 0 { stage.to_owned() } else { format!("{stage} {}", self.number + 1) }
    }
}

/// The rows so far, and whether each has an open span.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<Vec<bool>>);

impl Rows {
    /// A row for a span of `stage`, inside a span of the row `around` if there is one, and whether the row is new.
    pub(super) fn take(&mut self, stage: &str, around: Option<&Row>) -> (Row, bool) {
        let stage = STAGES.iter().position(|name| *name == stage).unwrap_or(STAGES.len());
        if let Some(row) = around.filter(|row| row.stage == stage) {
            return (Row { is_shared: true, ..row.clone() }, false);
        }
        if self.0.len() <= stage {
            self.0.resize_with(stage + 1, Vec::new);
        }
        let rows = &mut self.0[stage];
        let free = rows.iter().position(|is_taken| !is_taken);
        let number = free.unwrap_or(rows.len()).min(MOST - 1);
        let is_new = number == rows.len();
        if is_new {
            rows.push(true);
        }
        rows[number] = true;
        (Row { stage, number, is_shared: false }, is_new)
    }

    /// Frees the row of a span that has closed.
    pub(super) fn give_back(&mut self, row: Row) {
        if !row.is_shared {
            self.0[row.stage][row.number] = false;
        }
    }
}
