//! From paths on the command line to the parts of a corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

use super::InitArgs;
use super::part::Part;
use millstream::config::{DocumentKind, SourceConfig, SourceKind};
use millstream::source::{extension, recognize};
use millstream::{Error, Result, Source};

/// How many files of one extension are looked at until one has text.
const TRIED: usize = 5;

/// Names of files that are about a corpus and not part of it.
const ABOUT: [&str; 6] = ["readme", "license", "licence", "changelog", "requirements", "dataset_infos"];

/// Extensions of text files that are not a corpus: settings, lists of checksums, indexes.
const SETTINGS: [&str; 13] =
    ["toml", "yaml", "yml", "lock", "cfg", "ini", "crc", "sha256", "md5", "idx", "svg", "log", "json"];

/// The parts of the corpus at the paths. Equal ones are joined.
pub(super) async fn parts(args: &InitArgs) -> Result<Vec<Part>> {
    let mut all: Vec<Part> = Vec::new();
    for path in &args.paths {
        let found = match path.to_str().is_some_and(|path| path.starts_with("hf://")) {
            true => vec![whole(SourceKind::Huggingface, path, args).await?],
            false if metadata(path)?.is_dir() => directory(path, args).await?,
            false => vec![file(path, args).await?],
        };
        for part in found {
            match all.iter_mut().find(|other| other.is_like(&part)) {
                Some(other) => {
                    other.config.paths.extend(part.config.paths);
                    other.size.add(part.size);
                }
                None => all.push(part),
            }
        }
    }
    Ok(all)
}

/// The parts of the corpus at a path. A path that cannot be one is refused.
fn metadata(path: &Path) -> Result<Metadata> {
    let shown = path.display();
    let problem = if path.to_string_lossy().contains("://") {
        format!(
            "{shown} is a URL, and this looks at local files only; copy some of its files here, run this on the copy, and \
             put the URL into the config's paths"
        )
    } else if path.as_os_str() == "-" {
        "standard input cannot be looked at; save some of it as a file and name that".to_owned()
    } else {
        let metadata = fs::metadata(path).map_err(|e| Error::io(path, "look at", e))?;
        match (metadata.is_dir(), metadata.is_file(), metadata.len()) {
            (false, false, _) => format!("{shown} is a pipe, socket or device; name a file or a directory"),
            (false, true, 0) => format!("{shown} is empty; name a file with text"),
            _ => return Ok(metadata),
        }
    };
    Err(Error::Corpus { problem })
}

/// The part that is one file, whose format must be known.
async fn file(path: &Path, args: &InitArgs) -> Result<Part> {
    let shown = path.display();
    let problem = match recognize(path)? {
        None => format!(
            "{shown}: this is neither UTF-8 text nor a file that is known by its ending ({}); convert it, or leave it out",
            SourceKind::endings()
        ),
        Some(SourceKind::Text) if extension(path) == "json" => format!(
            "{shown}: this is not one JSON value per line; make it so, for example with `jq -c '.[]' FILE > FILE.jsonl`"
        ),
        Some(kind) => {
            let pattern = exactly(&path.to_string_lossy());
            let part = Part::new(kind, path, pattern.clone(), pattern, args).await?;
            if part.size.documents > 0 {
                return Ok(part);
            }
            format!("{shown}: no document can be read there; name other files, or another --field")
        }
    };
    Err(Error::Corpus { problem })
}

/// All parts below a directory, or the directory as a whole.
async fn directory(path: &Path, args: &InitArgs) -> Result<Vec<Part>> {
    if let Some(kind) = recognize(path)? {
        return Ok(vec![whole(kind, path, args).await?]);
    }
    let listing = listing(path).await?;
    let files: Vec<&Path> = listing.iter().map(PathBuf::as_path).collect();
    let mut parts = Vec::new();
    // Shards in its directories are read through their descriptions.
    let described =
        files.iter().filter(|file| file.ends_with("manifest.json") || file.ends_with("index.json"));
    let within: BTreeSet<&Path> = described.filter_map(|file| file.parent()).collect();
    let mut shards = Vec::new();
    let itself = plain(path);
    for within in within.into_iter().filter(|within| *within != itself) {
        if let Some(kind @ (SourceKind::Shards | SourceKind::Mds)) = recognize(within)? {
            parts.push(whole(kind, within, args).await?);
            shards.push(within);
        }
    }
    let mut groups: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for file in files.into_iter().filter(|file| !shards.iter().any(|shards| file.starts_with(shards))) {
        groups.entry(extension(file)).or_default().push(file);
    }
    // Files without an extension count only if there are no others.
    let nameless = groups.remove("");
    for (extension, files) in &groups {
        parts.extend(group(path, extension, files, args).await?);
    }
    if let (Some(files), true) = (&nameless, parts.is_empty()) {
        parts.extend(group(path, "", files, args).await?);
    }
    if parts.is_empty() {
        // The error of one file says more than that there is no text.
        for files in groups.values().chain(&nameless) {
            file(files[0], args).await?;
        }
        let problem = format!(
            "{}: there is no text in this directory: neither plain text nor files that are known by their endings ({}); \
             name the files that hold text",
            path.display(),
            SourceKind::endings()
        );
        return Err(Error::Corpus { problem });
    }
    // Beside files of records, plain text is documentation.
    let is_plain = |part: &Part| part.config.kind == SourceKind::Text;
    let text = |plain: bool| -> u64 {
        parts.iter().filter(|part| is_plain(part) == plain).map(|part| part.size.text).sum()
    };
    if text(false) > 20 * text(true) {
        parts.retain(|part| !is_plain(part));
    }
    Ok(parts)
}

/// The part that is a directory as a whole.
async fn whole(kind: SourceKind, path: &Path, args: &InitArgs) -> Result<Part> {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches('/');
    let pattern = if kind == SourceKind::Mds { exactly(name) } else { literal(name) };
    Part::new(kind, path, pattern.clone(), pattern, args).await
}

/// The files below a directory that may be a part of the corpus, in order.
async fn listing(path: &Path) -> Result<Vec<PathBuf>> {
    // Opening a source whose documents are files reads none of them.
    let all = SourceConfig { document: DocumentKind::File, ..SourceConfig::text(below(path, "/**/*")) };
    let source = match Source::open(&[all]).await {
        // The directory has no files.
        Err(Error::Corpus { .. }) => return Ok(Vec::new()),
        opened => opened?,
    };
    let files = source.files().iter().filter(|file| file.len > 0).map(|file| file.path());
    let is_part = |file: &&Path| !file.strip_prefix(plain(path)).unwrap_or(file).iter().any(is_about);
    Ok(files.filter(is_part).map(Path::to_owned).collect())
}

/// Whether a file or a directory with this name is probably not a part of the corpus.
fn is_about(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    name.starts_with('_') || ABOUT.contains(&name.split('.').next().unwrap_or_default())
}

/// The part that the files of one extension below a directory are; none if there is no text in them.
async fn group(directory: &Path, extension: &str, files: &[&Path], args: &InitArgs) -> Result<Option<Part>> {
    let around = plain(directory);
    let is_deep = files.iter().any(|file| file.parent() != Some(&*around));
    let end = if extension.is_empty() { String::new() } else { format!(".{}", exactly(extension)) };
    let pattern = below(directory, &format!("{}{end}", if is_deep { "/**/*" } else { "/*" }));
    for file in &files[..files.len().min(TRIED)] {
        let Some(kind) = recognize(file)? else { continue };
        if kind == SourceKind::Text && SETTINGS.contains(&extension) {
            continue;
        }
        let part = Part::new(kind, file, pattern, exactly(&file.to_string_lossy()), args).await?;
        return Ok(Some(part).filter(|part| part.size.documents > 0));
    }
    Ok(None)
}

/// A path without `./`, like the paths of listed files.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// The pattern of files below a directory.
fn below(directory: &Path, rest: &str) -> String {
    let name = directory.to_string_lossy();
    let pattern = format!("{}{rest}", exactly(name.trim_end_matches('/')));
    // A tilde would mean the home directory.
    match pattern.strip_prefix("./").filter(|short| !short.starts_with('~')) {
        Some(short) => short.to_owned(),
        None => pattern,
    }
}

/// The pattern in a config that only this path matches.
fn exactly(path: &str) -> String {
    literal(&glob::Pattern::escape(path).replace('{', "[{]"))
}

/// A path for a config key that is not a pattern: its variables escaped.
fn literal(path: &str) -> String {
    let path = path.replace('$', "$$");
    if path.starts_with('~') { format!("./{path}") } else { path }
}
