//! From paths on the command line to the parts of a corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::SourceKind;
use crate::{Error, Result};

use super::field::{Lengths, Wish};
use super::head::Head;
use super::part::{Part, exactly};
use super::{dataset, kind, plain, records};

/// How many files of one extension are looked into until one of them has text.
const TRIED: usize = 5;

/// How much longer text is than it is stored, about: compressed files, and tables in columns.
const UNPACKED: u64 = 4;

/// Some files of one extension in one directory, or a single file.
struct Files {
    pattern: String,
    /// The first of them.
    paths: Vec<PathBuf>,
    /// How many there are.
    count: usize,
    /// How long all are together, as they are stored.
    bytes: u64,
    /// Whether it is a single file that was named.
    is_named: bool,
}

/// The parts of the corpus at `paths`.
pub(super) fn parts(paths: &[PathBuf], wish: Wish<'_>) -> Result<Vec<Part>> {
    let mut all = Vec::new();
    for path in paths {
        let shown = path.display();
        if path.to_string_lossy().contains("://") {
            let problem = format!(
                "{shown} is a URL, and this looks at local files only; copy some of its files here, run this on the \
                 copy, and put the URL into the config's paths"
            );
            return Err(Error::Corpus { problem });
        }
        if path.as_os_str() == "-" {
            let problem =
                "standard input cannot be looked at; save some of it as a file and name that".to_owned();
            return Err(Error::Corpus { problem });
        }
        if fs::metadata(path).map_err(|e| Error::io(path, "look at", e))?.is_dir() {
            let before = all.len();
            directory(path, wish, &mut all)?;
            if all.len() == before {
                let problem = format!(
                    "{shown}: there is no text in this directory: neither plain text nor .jsonl, .csv, .tsv, .parquet, \
                     .arrow, .tar or .mds files; name the files that hold text"
                );
                return Err(Error::Corpus { problem });
            }
        } else {
            all.push(single(path, wish)?);
        }
    }
    Ok(all)
}

/// A file that was named. What it is has to be clear.
fn single(path: &Path, wish: Wish<'_>) -> Result<Part> {
    let metadata = fs::metadata(path).map_err(|e| Error::io(path, "look at", e))?;
    if !metadata.is_file() {
        let path = path.display();
        let problem = format!("{path} is a pipe, socket or device; name a file or a directory");
        return Err(Error::Corpus { problem });
    }
    let bytes = metadata.len();
    let pattern = exactly(&path.to_string_lossy());
    let files = Files { pattern, paths: vec![path.to_owned()], count: 1, bytes, is_named: true };
    part(&files, wish)?.ok_or_else(|| {
        let path = path.display();
        let problem = match bytes {
            0 => format!("{path} is empty; name a file with text"),
            _ => format!(
                "{path}: this is neither UTF-8 text nor a .parquet, .arrow, .tar or .mds file; convert it, or leave it out"
            ),
        };
        Error::Corpus { problem }
    })
}

/// All parts below a directory.
fn directory(path: &Path, wish: Wish<'_>, all: &mut Vec<Part>) -> Result<()> {
    if let Some(part) = dataset::known(path, wish)? {
        all.push(part);
        return Ok(());
    }
    let mut found = Found::default();
    walk(path, 0, &mut found)?;
    for known in &found.known {
        all.extend(dataset::known(known, wish)?);
    }
    let mut parts = Vec::new();
    let firsts: Vec<PathBuf> =
        found.groups.values().filter_map(|group| group.paths.first().cloned()).collect();
    // Files without an extension are the corpus only where there are no others.
    let nameless = found.groups.remove("");
    for (extension, group) in found.groups {
        parts.extend(part(&group.files(path, &format!(".{}", exactly(&extension))), wish)?);
    }
    if let (Some(group), true) = (nameless, parts.is_empty()) {
        parts.extend(part(&group.files(path, ""), wish)?);
    }
    if parts.is_empty() && found.known.is_empty() {
        // What is wrong with one of them says more than that there is no text.
        firsts.iter().try_for_each(|path| single(path, wish).map(|_| ()))?;
    }
    // Beside files of records, plain text is about them.
    let is_plain = |part: &Part| part.kind == SourceKind::Text;
    let text = |of_plain: bool| {
        parts.iter().filter(|part| is_plain(part) == of_plain).map(|part| part.text).sum::<u64>()
    };
    if text(false) > 20 * text(true) {
        parts.retain(|part| !is_plain(part));
    }
    all.extend(parts);
    Ok(())
}

/// The files of one extension.
#[derive(Default)]
struct Group {
    /// The first of them.
    paths: Vec<PathBuf>,
    count: usize,
    bytes: u64,
    /// Whether some lie in directories below.
    is_deep: bool,
}

impl Group {
    /// Them with their pattern, if they lie below `directory` and their names end so.
    fn files(self, directory: &Path, end: &str) -> Files {
        let directory = directory.to_string_lossy();
        let below = if self.is_deep { "/**/*" } else { "/*" };
        let pattern = format!("{}{below}{end}", exactly(directory.trim_end_matches('/')));
        // What begins with a tilde would be the home directory.
        let short = pattern.strip_prefix("./").filter(|short| !short.starts_with('~'));
        let pattern = short.map_or(pattern.clone(), str::to_owned);
        Files { pattern, paths: self.paths, count: self.count, bytes: self.bytes, is_named: false }
    }
}

/// What a directory holds.
#[derive(Default)]
struct Found {
    groups: BTreeMap<String, Group>,
    /// Directories within it that are a corpus by themselves.
    known: Vec<PathBuf>,
    /// Where it was looked, without links: they may lead in a circle.
    walked: BTreeSet<PathBuf>,
}

fn walk(path: &Path, depth: usize, found: &mut Found) -> Result<()> {
    let read = |e| Error::io(path, "read the directory", e);
    if !found.walked.insert(fs::canonicalize(path).map_err(read)?) {
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(read)? {
        entries.push(entry.map_err(read)?.path());
    }
    entries.sort_unstable();
    for entry in entries {
        // Pass over a link that leads nowhere.
        let Ok(metadata) = fs::metadata(&entry) else { continue };
        let extension = kind::extension(&entry);
        if kind::is_about(&entry) {
            continue;
        }
        if metadata.is_dir() {
            match dataset::is_shards(&entry) {
                true => found.known.push(entry),
                false => walk(&entry, depth + 1, found)?,
            }
        } else if metadata.len() > 0 {
            let group = found.groups.entry(extension).or_default();
            group.bytes += metadata.len();
            group.count += 1;
            group.is_deep |= depth > 0;
            if group.paths.len() < TRIED {
                group.paths.push(entry);
            }
        }
    }
    Ok(())
}

/// What some files of one extension are; none if there is no text in them.
fn part(files: &Files, wish: Wish<'_>) -> Result<Option<Part>> {
    let Files { pattern, paths, count, bytes, is_named } = files;
    for path in paths {
        let head = Head::read(path)?;
        let Some(kind) = kind::recognize(path, &head) else { continue };
        if kind == SourceKind::Text {
            let extension = kind::extension(path);
            if *is_named && extension == "json" {
                let problem = format!(
                    "{}: this is not one JSON value per line; make it so, for example with `jq -c '.[]' FILE > FILE.jsonl`",
                    path.display()
                );
                return Err(Error::Corpus { problem });
            }
            if head.lines().all(|line| line.trim().is_empty()) || !is_named && kind::is_settings(&extension) {
                continue;
            }
        }
        let packed = head.is_packed || kind == SourceKind::Parquet;
        let text = if packed { bytes.saturating_mul(UNPACKED) } else { *bytes };
        let mut part = Part { files: *count, text, ..Part::new(pattern.clone(), path, kind) };
        if kind == SourceKind::Text {
            let sight = plain::Sight { path, head: &head, files: *count, bytes: text };
            let (document, why) = plain::document(sight);
            part.document = document;
            part.why = why.to_owned();
            part.documents = plain::count(document, &head, *count, text);
        } else if kind == SourceKind::Mds {
            let problem = format!(
                "{}: .mds files are read through the index.json beside them; name their directory",
                path.display()
            );
            return Err(Error::Corpus { problem });
        } else {
            let fields = records::fields(path, kind, &head)?;
            if fields.records == 0 {
                continue;
            }
            let field = fields.chosen(path, wish)?;
            part = part.has(field, &fields, Lengths::new(path, *bytes, text)?);
        }
        return Ok(Some(part));
    }
    Ok(None)
}
