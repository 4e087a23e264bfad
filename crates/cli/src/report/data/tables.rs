//! A receipt as tables with titles, for the terminal and the page.

use std::ops::Range;

use super::{Receipt, Share, Source, part};
use crate::cursor::change;
use crate::report::unit::Kind;
use crate::words::{bytes, count, value as shown, word};
use millstream::replay::{Checked, Epochs};

/// A table with a title. Its first row has the heads, if it has any.
#[derive(Debug)]
pub(in crate::report) struct Table {
    pub(in crate::report) title: String,
    pub(in crate::report) rows: Vec<Vec<String>>,
    /// Whether its columns are words, or numbers behind a name.
    pub(in crate::report) is_words: bool,
}

impl Table {
    fn new(title: impl Into<String>, heads: &[&str], body: impl IntoIterator<Item = Vec<String>>) -> Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        Self { title: title.into(), rows: std::iter::once(heads).chain(body).collect(), is_words: false }
    }

    fn of_words(self) -> Self {
        Self { is_words: true, ..self }
    }

    /// Leaves out what is behind the first `most` rows, and says so in a row.
    pub(in crate::report) fn first(mut self, most: usize, all_in: &str) -> Self {
        let more = self.rows.len().saturating_sub(most + 1);
        if more > 0 {
            self.rows.truncate(most + 1);
            self.rows.push(vec![format!("and {more} more: {all_in}")]);
        }
        self
    }
}

impl Receipt {
    /// All of it, the most important first.
    pub(in crate::report) fn tables(&self) -> Vec<Table> {
        let title = format!("{} after {}", self.run, count(self.batches, "batch"));
        let tables = [Some(self.sources(title)), self.unread(), self.checked(), self.changed()];
        let ledger =
            Table { title: "What became of all ids".to_owned(), rows: self.ledger.rows(), is_words: false };
        let by_value = Some(self.ledger.rows_by_value()).filter(|rows| !rows.is_empty());
        let by_value = by_value.map(|rows| Table {
            title: format!("What became of all ids, by {}", rows[0][0]),
            rows,
            is_words: false,
        });
        let values = self.values.values.iter().map(|(name, values)| {
            let rows = values.iter().map(|(value, &Share { ids, share })| {
                vec![shown(value).into_owned(), ids.to_string(), percent(share)]
            });
            let some = match self.values.values_batches {
                batches if batches == self.batches => String::new(),
                batches => format!(", of the first {}", count(batches, "batch")),
            };
            Table::new(format!("Targets by {name}{some}"), &["value", "targets", "share"], rows)
        });
        let rest = [self.skipped(), self.happened(), self.files(), self.made_from(), Some(self.order())];
        let tables = tables.into_iter().flatten().chain([ledger]).chain(by_value).chain(values);
        tables.chain(rest.into_iter().flatten()).collect()
    }

    fn sources(&self, title: String) -> Table {
        let heads = ["source", "kind", "files", "bytes", "ids", "share", "epochs"];
        let rows = self.sources.iter().map(|source| {
            let Share { ids, share } = source.delivered;
            let Epochs { complete, begun, at_least } = source.epochs;
            let least = if at_least { "at least " } else { "" };
            let epochs = match complete == begun {
                true => format!("{least}{complete}"),
                false => format!("{least}{complete} to {begun}"),
            };
            let kind = source.kind.as_ref().map_or_else(String::new, word);
            let unknown = || "unknown".to_owned();
            let files = source.files.map_or_else(unknown, |files| files.to_string());
            let bytes = source.bytes.map_or_else(unknown, bytes);
            vec![source.name.clone(), kind, files, bytes, ids.to_string(), percent(share), epochs]
        });
        Table::new(title, &heads, rows)
    }

    fn unread(&self) -> Option<Table> {
        let problem = |source: &Source| Some(vec![source.name.clone(), source.problem.clone()?]);
        let rows: Vec<Vec<String>> = self.sources.iter().filter_map(problem).collect();
        (!rows.is_empty()).then(|| Table::new("What cannot be read", &["source", "why"], rows).of_words())
    }

    fn checked(&self) -> Option<Table> {
        let check = self.check.as_ref()?;
        let same = if check.is_same { "the same" } else { "not the same" };
        let lanes = match check.lanes == check.of_lanes {
            true => String::new(),
            false => format!(", in {}", part(check.lanes as u64, check.of_lanes as u64, "lane")),
        };
        let made = part(check.batches, check.of_batches, "batch");
        let rows = check.stretches.iter().map(|Checked { from, to, lanes, difference }| {
            let result = difference.clone().unwrap_or_else(|| "the same".to_owned());
            let some = match *lanes == check.of_lanes {
                true => String::new(),
                false => format!(", in {}", part(*lanes as u64, check.of_lanes as u64, "lane")),
            };
            vec![format!("{from} to {}", to - 1), result + &some]
        });
        let unchecked = check.unchecked.iter().map(|Range { start, end }| {
            let why = "not checked: the cursors before and after are of different numbers of ranks";
            vec![format!("{start} to {}", end - 1), why.to_owned()]
        });
        let rows = rows.chain(unchecked);
        Some(
            Table::new(format!("Made again: {made}{lanes}, {same}"), &["batches", "result"], rows).of_words(),
        )
    }

    fn changed(&self) -> Option<Table> {
        let changes = self.changes.clone()?;
        Some(Table {
            title: "How the files have changed since".to_owned(),
            rows: vec![vec![changes]],
            is_words: true,
        })
    }

    fn skipped(&self) -> Option<Table> {
        let rows = self.skipped.iter().map(|skipped| {
            let line = if skipped.line > 0 { format!(":{}", skipped.line) } else { String::new() };
            let place = format!("{}{line} ({} {})", skipped.path, skipped.unit, skipped.byte);
            vec![place, skipped.reason.clone()]
        });
        let documents = count(self.skipped.len() as u64, "document");
        let title = format!("Skipped: {documents}, each once; the ledger counts one again in each epoch");
        (!self.skipped.is_empty()).then(|| Table::new(title, &["document", "reason"], rows).of_words())
    }

    fn happened(&self) -> Option<Table> {
        let rows = self.history.iter().map(|event| change(event).to_vec());
        (!self.history.is_empty())
            .then(|| Table::new("Changes of the stream", &["when", "setting"], rows).of_words())
    }

    fn files(&self) -> Option<Table> {
        let rows = self.files.iter().map(|file| {
            let etag = || file.etag.as_ref().map(|etag| format!("etag {etag}"));
            let version = file.problem.clone().or_else(|| file.sha256.clone()).or_else(etag);
            let version = version.unwrap_or_default();
            vec![file.path.clone(), file.source.clone(), bytes(file.bytes), version]
        });
        let heads = ["file", "source", "bytes", "SHA-256"];
        (!self.files.is_empty()).then(|| Table::new("Files as they are now", &heads, rows).of_words())
    }

    fn made_from(&self) -> Option<Table> {
        let rows = self.made_from.iter().map(|file| {
            let etag = file.etag.as_ref().map_or_else(String::new, |etag| format!("etag {etag}"));
            vec![file.path.clone(), file.source.clone(), bytes(file.bytes), etag]
        });
        let title = "What token shards were made from, as their manifests say";
        let heads = ["file", "source", "bytes", "version"];
        (!self.made_from.is_empty()).then(|| Table::new(title, &heads, rows).of_words())
    }

    fn order(&self) -> Table {
        let rows = self.order.iter().map(|(key, value)| vec![key.clone(), value.clone()]);
        Table::new("What the order depends on", &["setting", "value"], rows).of_words()
    }
}

fn percent(share: f64) -> String {
    Kind::Share.shown(share)
}
