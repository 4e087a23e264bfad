//! The document that is asked for, by its path and line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::error::{Error, Result, Unit};
use crate::excerpt::listed;
use crate::source::{Fate, Holdout, Named, Source};

/// How alike a path must be to be named instead of one that is not there.
const ALIKE: f64 = 0.8;

/// How many are named.
const MOST_NAMED: usize = 3;

/// A document of a run. Several records may begin on one line, and several sources may read one file.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// Its file, as batches name it.
    #[serde(serialize_with = "for_people")]
    pub path: PathBuf,
    /// Its line; none if the file is one document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Its records.
    pub records: Vec<Record>,
}

/// A record of a source.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    #[serde(rename = "source")]
    pub(super) name: String,
    /// Where it begins: a byte or a row.
    #[serde(rename = "byte")]
    pub(super) begin: u64,
    #[serde(skip)]
    pub(super) source: usize,
    #[serde(skip)]
    pub(super) file: u32,
    /// Whether it is all that the file has.
    #[serde(skip)]
    is_file: bool,
    /// Whether it may become several documents.
    #[serde(skip)]
    pub(super) is_rendered: bool,
    #[serde(skip)]
    fate: Fate,
}

/// A path, with what is not UTF-8 in it replaced.
fn for_people<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Record {
    pub(super) fn is_trained(&self) -> bool {
        self.fate == Fate::Trained
    }

    /// Whether a document of its file that begins at this byte is of the record.
    pub(super) fn has(&self, byte: u64) -> bool {
        self.is_file || self.begin == byte
    }

    pub(super) fn why_not(&self) -> &'static str {
        match self.fate {
            Fate::HeldOut => "it is held out for validation (pipeline.holdout), so it was never trained on",
            Fate::Skipped => "it cannot be read, and is skipped (source.on_error)",
            Fate::Trained | Fate::LeftOut => {
                "it is left out: it has no text, is too long, or source.where or its task leaves it out"
            }
        }
    }
}

/// Finds a document of `source`, whose sources have these names. Reads its file on the calling thread.
pub(super) fn find(
    source: &Source,
    names: &[String],
    holdout: Holdout,
    path: &str,
    line: Option<u64>,
) -> Result<Asked> {
    let files = files(source, path)?;
    let shown = source.files().path(files[0]).to_owned();
    let (mut records, mut before) = (Vec::new(), None);
    for file in files {
        let is_file = source.is_one_document(file);
        let begins = match (is_file, line) {
            (true, None | Some(0 | 1)) => vec![0],
            (true, Some(_)) => {
                return Err(refused(format!("{} is one document; leave the line out", shown.display())));
            }
            (false, None) => {
                let problem = format!(
                    "{} has many documents; say on which line this one begins, such as {}:1",
                    shown.display(),
                    shown.display()
                );
                return Err(refused(problem));
            }
            (false, Some(line)) => {
                let Named { begins, before: last } = source.named(file, line)?;
                before = before.or(last.map(|(byte, line)| (file, byte, line)));
                begins
            }
        };
        let index = source.files()[file as usize].source;
        let source = source.only(index);
        for begin in begins {
            records.push(Record {
                name: names.get(index).cloned().unwrap_or_default(),
                begin,
                source: index,
                file,
                is_file,
                is_rendered: source.rendered(index).is_some(),
                fate: source.fate(file, begin, holdout)?,
            });
        }
    }
    let line = line.filter(|_| records.iter().all(|record| !record.is_file));
    match records.is_empty() {
        true => Err(refused(nothing_begins(source, &shown, line.unwrap_or_default(), before))),
        false => Ok(Asked { path: shown, line, records }),
    }
}

/// The files that a path names, of all sources: it is theirs as people see it, leads to them, or is the end of exactly one
/// path.
fn files(source: &Source, path: &str) -> Result<Vec<u32>> {
    let all = || (0..).zip(source.files().iter().map(|file| file.path()));
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let leads_to =
        |file: &Path, path: &Path| path.file_name() == file.file_name() && whole(path) == whole(file);
    let is_exact = |other: &Path| {
        let other = other.to_string_lossy();
        other == path || without_commit(&other).is_some_and(|other| other == path)
    };
    let ends_so = |other: &Path| Path::new(&*other.to_string_lossy()).ends_with(path);
    let rules: [&dyn Fn(&Path) -> bool; 3] = [&is_exact, &|other| leads_to(other, Path::new(path)), &ends_so];
    let found = rules.iter().map(|rule| all().map(|(_, path)| path).filter(|path| rule(path)).collect());
    let found: Vec<&Path> =
        found.into_iter().find(|found: &Vec<&Path>| !found.is_empty()).unwrap_or_default();
    // Sources may spell one path in several ways.
    let paths: BTreeMap<PathBuf, &Path> = found.into_iter().rev().map(|path| (whole(path), path)).collect();
    let paths: Vec<&Path> = paths.into_values().collect();
    match &paths[..] {
        [] => {
            let likeness = |other: &Path| strsim::jaro_winkler(path, &other.to_string_lossy());
            let of_name = |other: &Path| {
                let names = [Path::new(path), other].map(|path| path.file_name().unwrap_or_default());
                let [name, other] = names.map(|name| name.to_string_lossy());
                strsim::jaro_winkler(&name, &other)
            };
            let mut alike: Vec<(f64, &Path)> =
                all().map(|(_, other)| (likeness(other).max(of_name(other)), other)).collect();
            alike.retain(|(likeness, _)| *likeness > ALIKE);
            alike.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            let mut alike: Vec<String> =
                alike.into_iter().map(|(_, path)| path.display().to_string()).collect();
            alike.dedup();
            alike.truncate(MOST_NAMED);
            let meant = match alike.is_empty() {
                true => "`inspect` names the files of each batch".to_owned(),
                false => format!("did you mean {}?", alike.join(" or ")),
            };
            Err(refused(format!("{path} is not a file of the run; {meant}")))
        }
        [path] => Ok(all().filter(|(_, other)| leads_to(path, other)).map(|(file, _)| file).collect()),
        _ => Err(refused(format!(
            "several files of the run end so: {}; give more of the path",
            listed(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
        ))),
    }
}

/// The name of a file on the Hub without the commit, as configs may name it.
fn without_commit(path: &str) -> Option<String> {
    let (repository, rest) = path.strip_prefix("hf://")?.split_once('@')?;
    let (_, file) = rest.split_once('/')?;
    Some(format!("hf://{repository}/{file}"))
}

/// Says that no document begins on this line, and which is the last one before it.
fn nothing_begins(source: &Source, path: &Path, line: u64, before: Option<(u32, u64, u64)>) -> String {
    let path = path.display();
    let near = match before {
        Some((file, byte, 0)) => {
            let number = if source.files().unit(file) == Unit::Byte { "byte" } else { "row" };
            format!("; the last one before it begins at {number} {byte}")
        }
        Some((.., line)) => format!("; the last one before it is {path}:{line}"),
        None => String::new(),
    };
    format!("no document begins at {path}:{line}{near}")
}

fn refused(problem: String) -> Error {
    Error::config("--document", problem)
}
