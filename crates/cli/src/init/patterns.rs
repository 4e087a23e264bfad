//! Patterns for the texts of a directory. They leave out what runs write there.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::text::RUNS;
use millstream::{Error, Result};

/// The directories below `directory` that runs write to: the one of the config that is made, and those of the runs among
/// its `files`.
pub(super) fn runs_within<'a>(
    directory: &Path,
    files: impl Iterator<Item = &'a Path>,
) -> Result<Vec<PathBuf>> {
    let own = real(Path::new("."))?.join(RUNS);
    let own = own.canonicalize().unwrap_or(own);
    let own = own.strip_prefix(real(directory)?).ok().filter(|rest| !rest.as_os_str().is_empty());
    let own = own.map(|rest| plain(directory).join(rest));
    let configs = files.filter(|file| file.ends_with("config.toml")).filter_map(Path::parent);
    let runs = configs.filter(|run| run.join("files.jsonl").is_file()).map(Path::to_owned);
    Ok(own.into_iter().chain(runs).collect())
}

/// Patterns for `files` with an ending, all of which lie below `around`, that match nothing in the directories of `runs`.
pub(super) fn patterns(around: &Path, files: &[&Path], end: &str, runs: &[PathBuf]) -> Vec<String> {
    let is_deep = files.iter().any(|file| file.parent() != Some(around));
    if !is_deep || !runs.iter().any(|run| run.starts_with(around)) {
        return vec![below(around, &format!("{}*{end}", if is_deep { "**/" } else { "" }))];
    }
    let mut folders: BTreeMap<Option<PathBuf>, Vec<&Path>> = BTreeMap::new();
    for file in files {
        let mut parts = file.strip_prefix(around).unwrap_or(file).components();
        let (first, rest) = (parts.next(), parts.next());
        let folder = first.filter(|_| rest.is_some()).map(|folder| around.join(folder));
        folders.entry(folder).or_default().push(file);
    }
    let of_folder = |(folder, files): (Option<PathBuf>, Vec<&Path>)| match folder {
        Some(folder) => patterns(&folder, &files, end, runs),
        None => vec![below(around, &format!("*{end}"))],
    };
    folders.into_iter().flat_map(of_folder).collect()
}

/// A path without links.
pub(super) fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| Error::io(path, "look at", e))
}

/// A path without `./`, like the paths of listed files.
pub(super) fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// The pattern of files below a directory.
fn below(directory: &Path, rest: &str) -> String {
    let name = exactly(&plain(directory).to_string_lossy());
    Path::new(&name).join(rest).to_string_lossy().into_owned()
}

/// The pattern in a config that only this path matches.
pub(super) fn exactly(path: &str) -> String {
    literal(&glob::Pattern::escape(path).replace('{', "[{]"))
}

/// A path for a config key that is not a pattern: its variables escaped.
pub(super) fn literal(path: &str) -> String {
    let path = path.replace('$', "$$");
    if path.starts_with('~') { format!("./{path}") } else { path }
}
