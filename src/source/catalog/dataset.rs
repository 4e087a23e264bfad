//! Dataset directories as the Hugging Face libraries write them, read as they are.
//!
//! There are two kinds: a repository of the Hub, there or as a snapshot on this machine, and the output of
//! `save_to_disk`. A directory becomes a source of its files and their format. In a repository the README's `configs` say
//! which files belong to which part of which subset. Without them, [names](super::parts) do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::directory::{Directory, endings, kinds, text};
use super::parts::{self, TRAIN};
use super::patterns;
use crate::bounded;
use crate::config::{SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::source::formats::mds;
use crate::store::{HUB, hub_revision};

/// The subset of a repository that names none.
const DEFAULT: &str = "default";

/// The file whose front matter says what belongs to what.
const README: &str = "README.md";

/// The longest card or list of files that is read, in bytes.
const CARD_BYTES: u64 = 64 << 20;

/// The longest name of a snapshot that is read, in bytes.
const NAME_BYTES: u64 = 4 << 10;

/// The endings that win, first one first, where a directory has equally many files of several. An MDS directory has an
/// index in JSON.
const PREFERRED: [&str; 6] = ["mds", "parquet", "arrow", "jsonl", "json", "csv"];

/// Returns the source with its dataset directory replaced by the files in it. Other kinds of sources stay as they are.
pub(crate) fn with_files(key: &str, config: &SourceConfig) -> Result<SourceConfig> {
    if config.kind == SourceKind::Mds {
        return with_shards(key, config);
    }
    let paths = format!("{key}.paths");
    let (paths, directory) = match (config.kind, repository(config), &config.paths[..]) {
        (SourceKind::Huggingface, Some(repository), _) => (format!("{key}.repo"), repository),
        (SourceKind::Huggingface, None, [path]) => (paths.clone(), patterns::expanded(&paths, path)?),
        _ => return Ok(config.clone()),
    };
    let directory = match directory.starts_with(HUB) {
        true => Directory::on_hub(&paths, &directory)?,
        false => Directory::Local(snapshot(&paths, PathBuf::from(directory))?),
    };
    let dataset = Dataset {
        directory,
        subset: config.subset.as_deref(),
        part: config.part.as_deref().unwrap_or(TRAIN),
        key,
    };
    let files = dataset.files()?;
    let kind = dataset.kind(&files)?;
    if kind == SourceKind::Text && config.task.reads_records() {
        let problem = "its files are plain text, which has no messages, prompts and completions; remove it";
        return Err(dataset.problem("task", problem));
    }
    Ok(SourceConfig {
        kind,
        paths: files.iter().map(|path| pattern(path)).collect(),
        // In a text file each line is a row, and its only column is called `text`.
        field: config.field.clone().filter(|_| kind != SourceKind::Text),
        ..config.clone()
    })
}

/// The name on the Hub of the dataset that `repo` and `revision` name.
fn repository(config: &SourceConfig) -> Option<String> {
    let revision = config.revision.iter().map(|revision| format!("@{}", hub_revision(revision)));
    Some(format!("{HUB}datasets/{}{}", config.repo.as_ref()?, revision.collect::<String>()))
}

/// What a source reads from the Hub, by its names there.
pub(crate) fn hub_names(config: &SourceConfig) -> Vec<String> {
    let paths = config.paths.iter().flat_map(|path| patterns::all("source.paths", path).unwrap_or_default());
    paths.chain(repository(config)).filter(|name| name.starts_with(HUB)).collect()
}

/// Whether the Hugging Face libraries wrote a directory, or its data files are named by their parts.
pub(crate) fn is_dataset(directory: &Path) -> bool {
    let has = |names: &[&str]| names.iter().all(|name| directory.join(name).exists());
    let is_written = [
        &["dataset_dict.json"][..],
        &["state.json", "dataset_info.json"],
        &["snapshots", "blobs"],
        &["snapshots", "refs"],
    ];
    is_written.into_iter().any(has) || has_subsets(directory) || has_parts(directory)
}

/// Whether a directory has a README that lists subsets.
fn has_subsets(directory: &Path) -> bool {
    let path = directory.join(README);
    let card = text(&path, CARD_BYTES).and_then(|text| card(&path, text));
    card.is_ok_and(|card| !card.configs.is_empty())
}

/// Whether most data files of a directory are named by their parts, some of them by `train`.
fn has_parts(directory: &Path) -> bool {
    let around = [directory.to_owned(), directory.join("data")];
    let entries = around.iter().flat_map(|around| fs::read_dir(around).into_iter().flatten().flatten());
    let files = entries.map(|entry| entry.path()).filter(|path| kinds(path).next().is_some());
    let files: Vec<PathBuf> = files.collect();
    let parts = parts::by_name(directory, &files);
    let named: usize = parts.values().map(Vec::len).sum();
    parts.len() > 1 && 2 * named > files.len() && parts.keys().any(|part| part.starts_with(TRAIN))
}

/// The snapshot in a hub cache: the main branch's, or the only one. Other directories stay as they are.
fn snapshot(key: &str, directory: PathBuf) -> Result<PathBuf> {
    let snapshots = directory.join("snapshots");
    let Ok(entries) = fs::read_dir(&snapshots) else { return Ok(directory) };
    let main = directory.join("refs/main");
    if let Some(name) = text(&main, NAME_BYTES)? {
        let name = name.trim();
        let mut parts = Path::new(name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            let problem = format!(
                "{}: {name:?} is not the name of a snapshot; get the dataset again, or set {key} to one of those in {}",
                main.display(),
                snapshots.display()
            );
            return Err(Error::Corpus { problem });
        }
        return Ok(snapshots.join(name));
    }
    let read = |e| Error::io(&snapshots, "read the directory", e);
    let there: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>().map_err(read)?;
    <[PathBuf; 1]>::try_from(there).map(|[only]| only).map_err(|there| {
        let problem = format!("{} holds {} snapshots; name one of them", snapshots.display(), there.len());
        Error::config(key, problem)
    })
}

/// Returns the source with each directory that has an index of shards replaced by those shards.
fn with_shards(key: &str, config: &SourceConfig) -> Result<SourceConfig> {
    let mut paths = Vec::new();
    for path in &config.paths {
        for path in patterns::all(&format!("{key}.paths"), path)? {
            let directory = Path::new(&path);
            match directory.join("index.json").exists() {
                true => paths.extend(mds::shards(directory)?.iter().map(|path| pattern(path))),
                // Its variables are replaced already.
                false => paths.push(path.replace('$', "$$")),
            }
        }
    }
    Ok(SourceConfig { paths, ..config.clone() })
}

/// The pattern that matches only this path. It leaves variables and braces alone: only configs have them.
fn pattern(path: &Path) -> String {
    glob::Pattern::escape(&path.to_string_lossy()).replace('$', "[$]").replace('{', "[{]")
}

/// A directory, and the wanted part of it.
struct Dataset<'a> {
    directory: Directory,
    subset: Option<&'a str>,
    part: &'a str,
    key: &'a str,
}

/// `dataset_dict.json`, as `DatasetDict.save_to_disk` writes it.
#[derive(Deserialize)]
struct Parts {
    #[serde(rename = "splits")]
    parts: Vec<String>,
}

/// `state.json`, as `Dataset.save_to_disk` writes it.
#[derive(Deserialize)]
struct DatasetState {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: String,
}

/// The front matter of a repository's README.
#[derive(Default, Deserialize)]
struct Card {
    #[serde(default)]
    configs: Vec<Subset>,
}

#[derive(Deserialize)]
struct Subset {
    config_name: String,
    #[serde(default)]
    default: bool,
    data_dir: Option<String>,
    data_files: Option<DataFiles>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DataFiles {
    Patterns(Patterns),
    Parts(Vec<DatasetPart>),
}

#[derive(Deserialize)]
struct DatasetPart {
    #[serde(rename = "split")]
    name: String,
    path: Patterns,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Many(Vec<String>),
}

impl Dataset<'_> {
    /// The files of the wanted part of the wanted subset.
    fn files(&self) -> Result<Vec<PathBuf>> {
        if !self.directory.is_there() {
            let problem = match self.directory {
                Directory::Local(_) => "it is not a directory; name the directory of a dataset",
                Directory::Hub { .. } => {
                    "the repository has no files there; name a dataset, or a directory in it"
                }
            };
            return Err(self.problem("paths", problem));
        }
        let path = |name: &str| self.directory.path().join(name);
        if let Some(Parts { parts }) = self.json(&path("dataset_dict.json"))? {
            if !parts.iter().any(|part| part == self.part) {
                let there = parts.join(", ");
                return Err(
                    self.problem("part", &format!("there is no part {:?}; it has {there}", self.part))
                );
            }
            return self.saved(&path(self.part));
        }
        if self.directory.has(&path("state.json")) {
            return self.saved(self.directory.path());
        }
        let readme = path(README);
        let card = card(&readme, self.directory.text(&readme, CARD_BYTES)?)?;
        match self.subset_of(&card)? {
            Some(subset) => self.listed(subset),
            None => {
                // Without a card, a subset is a directory, and all of the dataset is `default`.
                let is_all = match self.subset {
                    Some(DEFAULT) => self.directory.data_files(&path(DEFAULT))?.is_empty(),
                    subset => subset.is_none(),
                };
                let named = self.subset.filter(|_| !is_all).map(path);
                self.by_name(named.as_deref().unwrap_or(self.directory.path()))
            }
        }
    }

    /// A JSON file, if there is one.
    fn json<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>> {
        let Some(text) = self.directory.text(path, CARD_BYTES)? else { return Ok(None) };
        let value = serde_json::from_str(&text).map_err(|e| Error::Corpus {
            problem: format!("{}: {e}; get the dataset again", path.display()),
        })?;
        Ok(Some(value))
    }

    /// The files that `save_to_disk` wrote into a directory.
    fn saved(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let state = directory.join("state.json");
        let Some(DatasetState { data_files }) = self.json(&state)? else {
            return Err(self.problem("paths", &format!("{} is missing", state.display())));
        };
        let file = |DataFile { filename }: &DataFile| match bounded::is_within(filename) {
            true => Ok(directory.join(filename)),
            false => {
                let path = state.display();
                let problem =
                    format!("{path}: {filename:?} is not a path within its directory; get the dataset again");
                Err(Error::Corpus { problem })
            }
        };
        data_files.iter().map(file).collect()
    }

    /// The wanted subset, if the README lists subsets.
    fn subset_of<'a>(&self, card: &'a Card) -> Result<Option<&'a Subset>> {
        let configs = &card.configs;
        if configs.is_empty() {
            return Ok(None);
        }
        let wanted = self.subset.unwrap_or(DEFAULT);
        let named = configs.iter().find(|subset| subset.config_name == wanted);
        let chosen = match (named, self.subset, &configs[..]) {
            (Some(named), ..) => Some(named),
            (None, None, [only]) => Some(only),
            (None, None, several) => several.iter().find(|subset| subset.default),
            (None, Some(_), _) => None,
        };
        chosen.map(Some).ok_or_else(|| {
            let there: Vec<&str> = configs.iter().map(|subset| subset.config_name.as_str()).collect();
            let there = there.join(", ");
            match self.subset {
                Some(subset) => {
                    self.problem("subset", &format!("there is no subset {subset:?}; it has {there}"))
                }
                None => self.problem("subset", &format!("it has several subsets; name one of {there}")),
            }
        })
    }

    /// The files that a README lists for a subset.
    fn listed(&self, subset: &Subset) -> Result<Vec<PathBuf>> {
        let root = self.directory.path();
        let directory = match &subset.data_dir {
            Some(data_dir) => root.join(self.within(data_dir)?),
            None => root.to_owned(),
        };
        let patterns = match &subset.data_files {
            None => return self.by_name(&directory),
            Some(DataFiles::Patterns(patterns)) if self.part == TRAIN => vec![patterns],
            Some(DataFiles::Patterns(_)) => Vec::new(),
            Some(DataFiles::Parts(parts)) => {
                parts.iter().filter(|part| part.name == self.part).map(|part| &part.path).collect()
            }
        };
        if patterns.is_empty() {
            let there: Vec<&str> = match &subset.data_files {
                Some(DataFiles::Parts(parts)) => parts.iter().map(|part| part.name.as_str()).collect(),
                _ => vec![TRAIN],
            };
            let problem = format!("there is no part {:?}; it has {}", self.part, there.join(", "));
            return Err(self.problem("part", &problem));
        }
        let mut files = BTreeSet::new();
        for pattern in patterns.into_iter().flat_map(Patterns::iter) {
            let pattern = self.within(pattern)?;
            let found = self.directory.matching(&directory, pattern)?;
            let found = found.map_err(|problem| self.problem("paths", &format!("README.md: {problem}")))?;
            if found.is_empty() {
                return Err(self.problem("paths", &format!("README.md: no file matches {pattern:?}")));
            }
            files.extend(found);
        }
        Ok(files.into_iter().collect())
    }

    /// A path that the README names, if it stays below the README's directory.
    fn within<'a>(&self, path: &'a str) -> Result<&'a str> {
        if bounded::is_within(path) {
            return Ok(path);
        }
        let problem = format!(
            "README.md: {path:?} is not a path within its directory; correct its front matter, or name the files one \
             by one"
        );
        Err(self.problem("paths", &problem))
    }

    /// The files below a directory whose names belong to the wanted part, in the format that most of them have.
    fn by_name(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let mut files = self.directory.data_files(directory)?;
        if files.is_empty() {
            let problem = format!(
                "{} holds no data files; name a dataset's directory, or another subset",
                directory.display()
            );
            return Err(self.problem("paths", &problem));
        }
        files.sort_unstable();
        let mut parts = parts::by_name(directory, &files);
        let wanted = parts.remove(self.part).or_else(|| parts.remove(parts::by_keyword(self.part)?));
        let Some(mut files) = wanted else {
            let there: Vec<String> = parts.into_keys().collect();
            let problem = format!("there is no part {:?}; it has {}", self.part, there.join(", "));
            return Err(self.problem("part", &problem));
        };
        let format = most_frequent(&files);
        // The libraries read both tables with one reader.
        let reader = |kind| if kind == SourceKind::Tsv { SourceKind::Csv } else { kind };
        files.retain(|path| kinds(path).any(|kind| Some(reader(kind)) == format.map(reader)));
        Ok(files)
    }

    /// The format that all files have.
    fn kind(&self, files: &[PathBuf]) -> Result<SourceKind> {
        let Some(kind) = most_frequent(files) else {
            let problem = format!("its files have none of the known endings: {}", SourceKind::endings());
            return Err(self.problem("paths", &problem));
        };
        if files.iter().all(|path| kinds(path).any(|other| other == kind)) {
            return Ok(kind);
        }
        let several: BTreeSet<&str> =
            files.iter().flat_map(|path| kinds(path)).map(SourceKind::name).collect();
        let several: Vec<&str> = several.into_iter().collect();
        let problem = format!("its files are of several formats: {}; name some of them", several.join(", "));
        Err(self.problem("paths", &problem))
    }

    fn problem(&self, setting: &str, problem: &str) -> Error {
        let key = format!("{}.{setting}", self.key);
        Error::config(key, format!("{}: {problem}", self.directory.path().display()))
    }
}

impl Patterns {
    fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            Self::One(pattern) => std::slice::from_ref(pattern),
            Self::Many(patterns) => patterns,
        }
        .iter()
    }
}

/// The front matter of a README; the default if there is no README.
fn card(path: &Path, text: Option<String>) -> Result<Card> {
    let Some(text) = text else { return Ok(Card::default()) };
    let mut lines = text.trim_start_matches('\u{feff}').split_inclusive('\n');
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return Ok(Card::default());
    }
    let matter: String = lines.take_while(|line| line.trim_end() != "---").collect();
    if matter.trim().is_empty() {
        return Ok(Card::default());
    }
    serde_saphyr::from_str(&matter).map_err(|e| Error::Corpus {
        problem: format!("{}: {e}; correct its front matter, or name the files one by one", path.display()),
    })
}

/// The format of the most frequent ending of these files.
fn most_frequent(files: &[PathBuf]) -> Option<SourceKind> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in files {
        for ending in endings(path).filter(|ending| SourceKind::of_extension(ending).is_some()) {
            *counts.entry(ending).or_default() += 1;
        }
    }
    let preferred = |ending: &str| PREFERRED.iter().rev().position(|preferred| *preferred == ending);
    let most = counts.iter().max_by_key(|(ending, count)| (**count, preferred(ending), ending.as_str()));
    most.and_then(|(ending, _)| SourceKind::of_extension(ending))
}
