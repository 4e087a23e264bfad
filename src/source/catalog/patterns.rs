//! Paths in configs: with variables, braces, and patterns for many files.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf, is_separator};

use glob::PatternError;

use super::braces;
use super::walk::Walk;
use crate::config::{SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::location::{GLOB_RULES, Location};

/// Returns the pattern with its variables and its tilde replaced. The variables come first, so that a variable's
/// default may begin with a tilde.
pub(crate) fn expanded(key: &str, pattern: &str) -> Result<String> {
    let variable = |name: &str| match std::env::var(name) {
        Ok(value) if value.is_empty() => Err("is empty"),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Err("is not set"),
        Err(std::env::VarError::NotUnicode(_)) => Err("is not UTF-8"),
    };
    let pattern = shellexpand::env_with_context(pattern, variable).map_err(|e| {
        let (name, fault) = (e.var_name, e.cause);
        Error::config(
            key,
            format!("the variable {name} in {pattern:?} {fault}; set it, or write ${{{name}:-default}}"),
        )
    })?;
    Ok(match shellexpand::tilde(&pattern) {
        Cow::Borrowed(same) => same.to_owned(),
        Cow::Owned(other) => other,
    })
}

/// The patterns that `pattern` stands for, after its variables, tilde and braces are replaced.
pub(crate) fn all(key: &str, pattern: &str) -> Result<Vec<String>> {
    let pattern = expanded(key, pattern)?;
    braces::expanded(&pattern).ok_or_else(|| {
        let most = braces::MOST;
        Error::config(key, format!("{pattern:?} stands for more than {most} paths; write a wildcard instead"))
    })
}

/// What is wrong if the paths of one of the `sources` match a local file that will be written: one of those called `names`
/// below `directory`. None of them need be there yet.
pub fn covered(sources: &[SourceConfig], directory: &Path, names: &[PathBuf]) -> Option<String> {
    let directory = real(directory);
    let matched = |(index, source)| Some((index, matched(source, &directory, names)?));
    let (index, file) = sources.iter().enumerate().find_map(matched)?;
    Some(format!(
        "source.{index}.paths match {}, so what is written there would be read as data; name another place, or narrow the \
         paths",
        file.display()
    ))
}

/// The first of the files called `names` below the real `directory` that the paths of a source match.
fn matched(source: &SourceConfig, directory: &Path, names: &[PathBuf]) -> Option<PathBuf> {
    // Shards are directories.
    if source.kind == SourceKind::Shards {
        return None;
    }
    let is_local = |path: &&String| !Location::named(*path).is_remote();
    let patterns = source.paths.iter().filter(is_local).filter_map(|path| all("paths", path).ok()).flatten();
    // Patterns that come of one path mostly have one root, and asking the system what it is takes time.
    let mut roots: HashMap<String, PathBuf> = HashMap::new();
    let mut found = patterns.filter_map(|pattern| {
        let fixed = root(&pattern);
        let real_root = roots.entry(fixed.to_owned()).or_insert_with(|| match fixed {
            "" => real(Path::new(".")),
            fixed => real(Path::new(fixed)),
        });
        let is_near = directory.starts_with(&*real_root) || real_root.starts_with(directory);
        let rest = glob::Pattern::new(&pattern[fixed.len()..]).ok().filter(|_| is_near)?;
        names.iter().map(|name| directory.join(name)).find(|file| {
            file.strip_prefix(&*real_root).is_ok_and(|within| rest.matches_path_with(within, GLOB_RULES))
        })
    });
    found.next()
}

/// A path without links and `..`, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = whole.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    match known {
        Some((known, real)) => real.join(whole.strip_prefix(known).unwrap_or(&whole)),
        None => whole,
    }
}

/// The fixed part of a pattern: the directory before its first wildcard or brace, with the separator at its end. For a
/// path without any, the directory of the file.
pub(super) fn root(pattern: &str) -> &str {
    let fixed = &pattern[..pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len())];
    &fixed[..fixed.rfind(is_separator).map_or(0, |at| at + 1)]
}

/// The search for the local files that `pattern` matches.
pub(crate) fn files(key: &str, pattern: &str) -> Result<Walk> {
    Walk::new(pattern).map_err(|e| invalid(key, pattern, &e))
}

/// The directories that `pattern` matches, in the order of their paths.
pub(crate) fn directories(key: &str, pattern: &str) -> Result<Vec<PathBuf>> {
    let found = glob::glob(pattern).map_err(|e| invalid(key, pattern, &e))?;
    let is_wanted = |path: &Path| path.is_dir() && path.components().all(|part| is_wanted(pattern, part));
    let found = found.filter(|found| found.as_ref().map_or(true, |path| is_wanted(path)));
    found.map(|found| found.map_err(unread)).collect()
}

/// Whether a part of a path is not hidden, or `pattern` names it.
fn is_wanted(pattern: &str, part: Component<'_>) -> bool {
    let Component::Normal(name) = part else { return true };
    let name = name.to_string_lossy();
    let is_name =
        |part: &str| glob::Pattern::new(part).is_ok_and(|part| part.matches_with(&name, GLOB_RULES));
    !name.starts_with('.') || pattern.split(is_separator).any(is_name)
}

/// The error for a directory that cannot be read.
fn unread(error: glob::GlobError) -> Error {
    let path = error.path().to_owned();
    Error::io(path, "read the directory", error.into())
}

fn invalid(key: &str, pattern: &str, e: &PatternError) -> Error {
    let problem = format!("{pattern:?} is not a valid pattern: {} at character {}", e.msg, e.pos + 1);
    Error::config(key, problem)
}

/// A path's bytes, so that the order is the same on every file system.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
