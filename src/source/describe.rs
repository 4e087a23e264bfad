//! Describes a path before a config says how to read it: its kind of source, and the fields that may hold the text.
//!
//! For a file, its first lines or its list of columns are read; for a directory, its index and the names of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Deserializer, Value};

use super::Source;
use super::catalog::dataset::is_dataset;
use super::catalog::directory::kinds;
use super::catalog::paths;
use super::content::Content;
use super::formats::mds::shards;
use super::formats::text::head;
use super::formats::{Format, Opened, Unopened, Wanted, registered};
use super::framing::bom_len;
use super::layout::Layout;
use super::listed::{ListedSource, list};
use super::problem::Unread;
use super::window::Window;
use crate::bounded;
use crate::config::reading::did_you_mean;
use crate::config::{Config, Contents, SourceConfig, SourceKind, StoreConfig, Task};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::files::{Codec, ZSTD_WINDOW, is_text};
use crate::render::IS_ALPACA;
use crate::shards::{Manifest, ShardPlace};
use crate::store::{Cancellable, FileOpener, Local, Stores};
use crate::tasks::blocking;

/// How many files are looked at until one has fields.
const LOOKED_AT: usize = 5;

/// How many lines are looked at to tell whether they are JSON.
const LINES: usize = 4;

/// How far into a file a record is looked at, in bytes or rows, and how much is read of records, in bytes.
const WITHIN: u64 = 1 << 20;
const READ_BYTES: usize = 16 << 10;

/// Returns the kind of source that a local path is: a file's kind by its first bytes and its name, or the kind of a
/// directory of token shards, MosaicML's shards or a Hugging Face dataset. `None` for another directory, or a file that
/// is neither text nor of a supported format.
///
/// A `.json` file is `jsonl` if its first lines are objects, or if it is an array of objects, and text if not: most other
/// ones are settings.
///
/// # Errors
/// [`Error::Io`] for a path that cannot be read.
pub fn recognize(path: impl AsRef<Path>) -> Result<Option<SourceKind>> {
    let path = path.as_ref();
    let metadata = fs::metadata(path).map_err(|e| Error::io(path, "look at", e))?;
    if !metadata.is_file() {
        return Ok(if metadata.is_dir() { directory(path) } else { None });
    }
    // A pointer of git LFS is refused.
    bounded::open(path).map_err(|e| Error::io(path, "read", e))?;
    let stored = Local::open(path, metadata.len())?;
    let head = head(&mut Content::open(Arc::new(stored), ZSTD_WINDOW)?)?;
    let name = path.to_string_lossy().to_lowercase();
    let named = kinds(Path::new(&name)).last();
    let is_json = name.split('.').any(|ending| ending == "json");
    let signed = SourceKind::of_signature(&head);
    Ok(match named {
        _ if signed.is_some() => signed,
        // All Parquet files have their signature.
        Some(kind) if kind.contents() == Contents::Bytes && kind != SourceKind::Parquet => named,
        _ if head.is_empty() || !is_text(&head) => None,
        Some(kind) if kind.contents() == Contents::TextRecords => named,
        Some(SourceKind::Jsonl) if !is_json => named,
        _ if are_objects(&head[bom_len(&head)..]) => Some(SourceKind::Jsonl),
        Some(SourceKind::Jsonl) if is_array(&head[bom_len(&head)..]) => Some(SourceKind::Jsonl),
        _ => Some(SourceKind::Text),
    })
}

/// Returns the end of a file's name that tells its format, with that of its compression: `jsonl.gz` of `a.jsonl.gz`.
/// Empty if it has none.
pub fn extension(path: &Path) -> String {
    let end =
        |path: &Path| path.extension().map(|end| end.to_string_lossy().into_owned()).unwrap_or_default();
    let (last, inner) = (end(path), end(&path.with_extension("")));
    let is_packed = Codec::named(path).is_some() && !inner.is_empty();
    if is_packed { format!("{inner}.{last}") } else { last }
}

/// The kind of a directory as a whole.
fn directory(path: &Path) -> Option<SourceKind> {
    if Manifest::load(&ShardPlace::Directory(path.to_owned())).is_ok() {
        return Some(SourceKind::Shards);
    }
    match shards(path) {
        Ok(shards) if !shards.is_empty() => Some(SourceKind::Mds),
        _ => is_dataset(path).then_some(SourceKind::Huggingface),
    }
}

/// Whether each of the first lines is a JSON object.
fn are_objects(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty()).take(LINES).peekable();
    lines.peek().is_some()
        && lines.all(|line| line.starts_with(b"{") && serde_json::from_slice::<Value>(line).is_ok())
}

/// Whether an array of objects begins here.
fn is_array(head: &[u8]) -> bool {
    let within = head.trim_ascii_start().strip_prefix(b"[");
    within.is_some_and(|within| within.trim_ascii_start().starts_with(b"{"))
}

/// What the records of a source look made for, beside plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordsFound {
    /// Their task: `chat` or `completion`.
    pub task: Task,
    /// The field of the messages, if it has another name than `messages`.
    pub field: Option<String>,
    /// The fields of a prompt and its completion that have other names, as `chat.fields` has them.
    pub fields: BTreeMap<String, String>,
}

/// The usual names of the field with the messages of a conversation.
const MESSAGES: [&str; 3] = ["messages", "conversations", "conversation"];

/// The fields of a prompt with its completion, and other usual names of the two.
const PAIR: [&str; 2] = ["prompt", "completion"];
const PAIRS: [[&str; 2]; 5] = [
    PAIR,
    ["prompt", "response"],
    ["query", "response"],
    ["question", "answer"],
    ["instruction", "response"],
];

/// The usual names of the field with the text, the most usual first.
const USUAL: [&str; 10] =
    ["text", "content", "txt", "body", "document", "article", "raw_content", "markdown", "story", "md"];

/// How many documents are looked at to tell which field holds the text.
const DOCUMENTS: usize = 64;

impl Source {
    /// Returns the dotted names of the fields that may hold the text of a source, by its first file with records. Usual
    /// names, such as `text`, come first. It ignores the config's `field`.
    ///
    /// # Errors
    /// As [`open`](Source::open), and [`Error::Document`] for a file that is not of `config.kind`.
    pub async fn fields(config: &SourceConfig) -> Result<Vec<String>> {
        let wanted = Wanted::Text(String::new());
        let mut names = look(config, wanted, |format, file| format.fields(file)).await?;
        names.sort_by_key(|name| (usual(name), name.matches('.').count()));
        Ok(names)
    }

    /// Returns which of these fields holds the text of a source, by its first 64 documents: the first one with a usual name,
    /// or else the one with the longest text. `None` if none has text; numbers do not count as text. It ignores the config's
    /// `field`.
    pub async fn text_field(config: &SourceConfig, names: &[String]) -> Option<String> {
        let (mut longest, mut most) = (None, 0);
        for name in names {
            let bytes = text_at(config, name).await;
            if bytes > most {
                (longest, most) = (Some(name), bytes);
            }
            if bytes > 0 && usual(name) < USUAL.len() {
                break;
            }
        }
        longest.cloned()
    }

    /// Returns the task that the records of a source look made for, by its first file with records: those with messages,
    /// or in Alpaca's form, are conversations, those with a prompt and a completion are completions. `None` for others.
    /// It ignores the config's `field` and `task`.
    ///
    /// # Errors
    /// As [`open`](Source::open).
    pub async fn recognize_records(config: &SourceConfig) -> Result<Option<RecordsFound>> {
        if !config.kind.takes("chat") {
            return Ok(None);
        }
        let names = MESSAGES.iter().chain(PAIRS.as_flattened()).chain(&IS_ALPACA);
        let names: BTreeSet<String> = names.map(|name| (*name).to_owned()).collect();
        let wanted = Wanted::Record(names.into_iter().collect());
        let records = look(config, wanted, |format, file| Ok(first_records(format, file)?)).await?;
        let has_messages = |name: &&str| records.iter().any(|record| are_messages(&record[*name]));
        let has =
            |names: [&str; 2]| records.iter().any(|record| names.iter().all(|name| !record[*name].is_null()));
        let is = |pair: &[&str; 2], kind: fn(&Value) -> bool| {
            records.iter().any(|record| pair.iter().all(|name| kind(&record[*name])))
        };
        let is_pair = |pair: &[&str; 2]| is(pair, Value::is_string) || is(pair, Value::is_array);
        let mut fields = BTreeMap::new();
        let (task, field) = match MESSAGES.into_iter().find(has_messages) {
            Some(name) => (Task::Chat, Some(name).filter(|name| *name != MESSAGES[0])),
            None if has(IS_ALPACA) => (Task::Chat, None),
            None => {
                let Some(pair) = PAIRS.iter().find(|pair| is_pair(pair)) else { return Ok(None) };
                let other = PAIR.iter().zip(pair).filter(|(name, other)| name != other);
                fields.extend(other.map(|(name, other)| ((*name).to_owned(), (*other).to_owned())));
                (Task::Completion, None)
            }
        };
        Ok(Some(RecordsFound { task, field: field.map(str::to_owned), fields }))
    }
}

/// Refuses `mixture.by` if it names no field of the first records and is like one: no document would have one of its values,
/// which shows only when the files have been read. Tables refuse a column that they lack by themselves.
pub(super) async fn check_column_of_mixture(config: &Config, source: &Source) -> Result<()> {
    let (Some(column), Some(of)) = (&config.mixture.was_by, config.sources.first()) else { return Ok(()) };
    let directory = format!("{column}=");
    let in_path = |path: &Path| path.iter().any(|name| name.to_string_lossy().starts_with(&directory));
    if of.kind != SourceKind::Jsonl || source.files().iter().any(|file| in_path(file.path())) {
        return Ok(());
    }
    let wanted = Wanted::Record(Arc::from([column.clone()]));
    let records = look(of, wanted, |format, file| Ok(first_records(format, file)?)).await?;
    let has = |record: &Value| {
        let nested = column.split('.').try_fold(record, |value, name| value.get(name));
        record.get(column).or(nested).is_some()
    };
    let names = records.iter().filter_map(Value::as_object).flat_map(|record| record.keys());
    match did_you_mean(column, names.map(String::as_str)) {
        Some(question) if !records.iter().any(has) => {
            let problem =
                format!("no record at the beginning of the source has the field {column:?}; {question}");
            Err(Error::config("mixture.by", problem))
        }
        _ => Ok(()),
    }
}

/// The first records of a file, as far as they are JSON.
fn first_records(format: &dyn Format, file: Unopened<'_>) -> Result<Vec<Value>> {
    let bytes = match format.open(file, &Layout::Whole) {
        Ok(Opened::Text(mut content, _)) => head(&mut content)?,
        Ok(Opened::Records(mut records)) => {
            let mut window = Window::default();
            records.take(0, WITHIN, READ_BYTES, &mut window)?;
            window.bytes
        }
        // A table without these columns.
        Err(Error::Corpus { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let values = Deserializer::from_slice(&bytes[bom_len(&bytes)..]).into_iter();
    Ok(values.map_while(std::result::Result::ok).collect())
}

/// Whether a field holds messages: objects, or a string of JSON in a format without lists.
fn are_messages(value: &Value) -> bool {
    let are_objects = |list: &[Value]| !list.is_empty() && list.iter().all(Value::is_object);
    match value {
        Value::Array(list) => are_objects(list),
        Value::String(text) => serde_json::from_str::<Vec<Value>>(text).is_ok_and(|list| are_objects(&list)),
        _ => false,
    }
}

/// The place of a field's name among the usual ones, behind them if it is another.
fn usual(name: &str) -> usize {
    let last = name.rsplit('.').next().unwrap_or(name);
    USUAL.iter().position(|usual| last.eq_ignore_ascii_case(usual)).unwrap_or(USUAL.len())
}

/// How much text the first documents of a source have in a field, in bytes.
async fn text_at(config: &SourceConfig, field: &str) -> usize {
    let config = SourceConfig { field: Some(field.to_owned()), ..config.clone() };
    let Ok(source) = Source::open(&[config]).await else { return 0 };
    let mut first = source.quiet().documents(&LaneCursor::default()).take(DOCUMENTS);
    let mut bytes = 0;
    while let Some(Ok(document)) = first.next().await {
        let text = document.value.text();
        bytes += if text.trim().parse::<f64>().is_ok() { 0 } else { text.len() };
    }
    bytes
}

/// What `find` finds in the first file of a source where it finds something.
pub(super) async fn look<T: Send + 'static>(
    config: &SourceConfig,
    wanted: Wanted,
    find: impl Fn(&dyn Format, Unopened<'_>) -> Result<Vec<T>, Unread> + Send + 'static,
) -> Result<Vec<T>> {
    let stores = Arc::new(Stores::new(&StoreConfig::default()));
    let config = SourceConfig { task: Task::Text, ..config.clone() };
    let ListedSource { resolved, files } = list(0, &config, &stores, &Arc::default()).await?;
    let files = Arc::new(paths::joined(vec![files])?);
    let opener = FileOpener::unplanned(files.clone(), stores, Cancellable::never());
    blocking("source", move || {
        let format = registered(0, &resolved.reads, wanted, &Arc::default())?;
        for number in 0..files.len().min(LOOKED_AT) as u32 {
            let refused = |unread| match unread {
                Unread::Damaged(problem) => Error::Document {
                    path: files.path(number).to_owned(),
                    line: 0,
                    unit: files.unit(number),
                    byte: problem.stored.unwrap_or(problem.offset as u64),
                    problem: problem.what,
                    remedy: problem.remedy.into_owned(),
                },
                Unread::Failed(error) => error,
            };
            let found = find(&*format, Unopened::new(&opener, number)).map_err(refused)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    })
    .await
}
