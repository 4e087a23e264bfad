//! A config as it was written: every value with its place.
//!
//! TOML, JSON and YAML become the same tree, settings change it, and the structs are filled from it. Nothing is checked
//! here but the syntax.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;

use crate::error::{Error, Place, Result};

mod json;
mod toml;
mod yaml;

pub(super) use json::given;
pub(super) use toml::literal;

/// A value, and where it is written: at its key or, in a list, where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) spot: Spot,
    pub(super) value: Value,
}

/// Where a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Nowhere: the root, and tables that were made for a key in them.
    Nowhere,
    /// In the config's text. Lines and columns (in characters) are counted from 1.
    Text { line: u64, column: u64 },
    /// In a setting, `key=value`.
    Setting(String),
    /// In a value that the caller gave.
    Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Null, or unset by a setting: as if the key were not there.
    Absent,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Date(String),
    Text(String),
    List(Vec<Node>),
    Table(Table),
}

pub(super) type Table = BTreeMap<String, Node>;

/// How much of a text messages show, in characters.
const SHOWN: usize = 60;

impl fmt::Display for Value {
    /// Writes the value as a message names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("nothing"),
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // A float stays one in print: 8.0, and not 8.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Date(date) => write!(f, "the date {date}"),
            Self::Text(text) if text.chars().count() > SHOWN => {
                write!(f, "{:?}…", text.chars().take(SHOWN).collect::<String>())
            }
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

impl Node {
    /// A table that stands nowhere in the text.
    pub(super) fn table() -> Self {
        Self { spot: Spot::Nowhere, value: Value::Table(Table::new()) }
    }

    /// Where the key is written, such as `pipeline.lanes` or `source.0.paths`, or else the innermost table around it.
    pub(super) fn spot(&self, key: &str) -> &Spot {
        let (mut node, mut spot) = (self, &self.spot);
        for part in key.split('.') {
            let inner = match &node.value {
                Value::Table(table) => table.get(part),
                Value::List(list) => part.parse().ok().and_then(|index: usize| list.get(index)),
                _ => None,
            };
            let Some(inner) = inner else { break };
            node = inner;
            if node.spot != Spot::Nowhere {
                spot = &node.spot;
            }
        }
        // Of a table that was made for settings, what was set in it.
        let is_made = node.spot == Spot::Nowhere && !std::ptr::eq(node, self);
        if is_made { node.within().unwrap_or(spot) } else { spot }
    }

    /// Takes what is absent here from `base`. It is written nowhere.
    pub(super) fn lie_over(&mut self, base: Self) {
        match (&mut self.value, base.unwritten().value) {
            (Value::Table(table), Value::Table(base)) => {
                for (key, node) in base {
                    match table.entry(key) {
                        Entry::Occupied(mut written) => written.get_mut().lie_over(node),
                        Entry::Vacant(absent) => drop(absent.insert(node)),
                    }
                }
            }
            (absent @ Value::Absent, base) => *absent = base,
            _ => {}
        }
    }

    /// Takes the place of what is here, key by key.
    pub(super) fn overlay(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (_, Value::Absent) => {}
            (Value::Table(table), Value::Table(over)) => {
                for (key, node) in over {
                    match table.entry(key) {
                        Entry::Occupied(mut below) => below.get_mut().overlay(node),
                        Entry::Vacant(absent) => drop(absent.insert(node)),
                    }
                }
            }
            (below, value) => {
                *below = value;
                self.spot = over.spot;
            }
        }
    }

    /// The same value, written nowhere.
    fn unwritten(self) -> Self {
        let value = match self.value {
            Value::List(list) => Value::List(list.into_iter().map(Self::unwritten).collect()),
            Value::Table(table) => {
                Value::Table(table.into_iter().map(|(key, node)| (key, node.unwritten())).collect())
            }
            value => value,
        };
        Self { spot: Spot::Nowhere, value }
    }

    /// Where the first value of a table is written.
    fn within(&self) -> Option<&Spot> {
        match &self.value {
            Value::Table(table) => table.values().find_map(|node| match &node.spot {
                Spot::Nowhere => node.within(),
                spot => Some(spot),
            }),
            _ => None,
        }
    }
}

/// The formats of config files.
#[derive(Clone, Copy, Debug)]
enum Format {
    Toml,
    Json,
    Yaml,
}

/// The text of a config, and the file that it is from, if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'t> {
    text: &'t str,
    path: Option<&'t Path>,
    format: Format,
}

impl<'t> Written<'t> {
    /// A file's text. Its extension says which format it is.
    pub(super) fn of_file(path: &'t Path, text: &'t str) -> Result<Self> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Format::Toml,
            Some("json") => Format::Json,
            Some("yaml" | "yml") => Format::Yaml,
            _ => {
                let problem = "a config is a .toml, .json, .yaml or .yml file";
                return Err(Error::config(path.display().to_string(), problem));
            }
        };
        Ok(Self { text, path: Some(path), format })
    }

    /// Text in TOML that is from no file.
    pub(super) fn toml(text: &'t str) -> Self {
        Self { text, path: None, format: Format::Toml }
    }

    /// The tree. Its root is a table.
    pub(super) fn tree(&self) -> Result<Node> {
        let value = match self.format {
            Format::Toml => toml::read(self)?,
            Format::Json => json::read(self)?,
            Format::Yaml => yaml::read(self)?,
        };
        match value {
            Value::Absent => Ok(Node::table()),
            value @ Value::Table(_) => Ok(Node { spot: Spot::Nowhere, value }),
            other => {
                let problem = format!("a config is a table of keys, and this is {other}");
                Err(Error::config(self.name(), problem))
            }
        }
    }

    /// The error for text that is not valid in its format.
    fn invalid(&self, spot: Spot, problem: &str) -> Error {
        let format = match self.format {
            Format::Toml => "TOML",
            Format::Json => "JSON",
            Format::Yaml => "YAML",
        };
        let error = Error::config(self.name(), format!("not valid {format}: {problem}"));
        self.placed(error, &spot)
    }

    /// What an error about the whole text has as its key.
    fn name(&self) -> String {
        self.path.map_or_else(|| "config".to_owned(), |path| path.display().to_string())
    }

    /// The error, with the place.
    pub(super) fn placed(&self, error: Error, spot: &Spot) -> Error {
        match self.place(spot) {
            Some(place) => error.at(place),
            None => error,
        }
    }

    /// The place that a spot is; `None` for text from no file without a line.
    pub(super) fn place(&self, spot: &Spot) -> Option<Place> {
        let file = self.path.map(Path::to_owned);
        match spot {
            Spot::Nowhere => file.map(Place::File),
            Spot::Value => None,
            Spot::Text { line, column } => Some(Place::Line { file, line: *line, column: *column }),
            Spot::Setting(setting) => Some(Place::Setting(setting.clone())),
        }
    }

    /// The spot at a byte of the text.
    fn spot(&self, byte: usize) -> Spot {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let column = String::from_utf8_lossy(&before[begin..]).chars().count() + 1;
        Spot::Text { line: line as u64, column: column as u64 }
    }
}
