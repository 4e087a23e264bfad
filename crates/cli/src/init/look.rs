//! From paths on the command line to the parts of a corpus.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::slice;

use serde::{Serialize, Serializer};

use super::InitArgs;
use super::part::Part;
use super::patterns::{exactly, literal, patterns, plain, real, runs_within};
use crate::words::count;
use millstream::config::{OnError, SourceConfig, SourceKind};
use millstream::source::{covered, extension, recognize};
use millstream::{Error, Result, Source};

/// How many files of one extension are looked at, to find out whether they hold the same.
const LOOKED_AT: usize = 64;

/// Names of files that are about a corpus and not part of it.
const ABOUT: [&str; 6] = ["readme", "license", "licence", "changelog", "requirements", "dataset_infos"];

/// Extensions of text files that are not a corpus: settings, indexes.
const SETTINGS: [&str; 9] = ["toml", "yaml", "yml", "cfg", "ini", "idx", "svg", "log", "json"];

/// Extensions of backups, of downloads that have not ended, and of what lies beside a file.
const LEFTOVERS: [&str; 11] =
    ["bak", "tmp", "part", "crdownload", "orig", "swp", "incomplete", "lock", "crc", "sha256", "md5"];

/// The most text in `.json` files that have one record each and are about a corpus, in bytes.
const SMALL: u64 = 512;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) parts: Vec<Part>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Files of one extension that are not part of the corpus.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    extension: String,
    files: usize,
    /// What is wrong with the first of them, if something is.
    #[serde(serialize_with = "as_words")]
    problem: Option<Error>,
}

fn as_words<S: Serializer>(problem: &Option<Error>, to: S) -> Result<S::Ok, S::Error> {
    problem.as_ref().map(Error::to_string).serialize(to)
}

impl LeftOut {
    fn what(&self) -> String {
        let files = self.files as u64;
        match &*self.extension {
            "" => format!("{} without an extension", count(files, "file")),
            extension => count(files, &format!(".{extension} file")),
        }
    }
}

/// What was left out, in lines.
pub(super) fn told(left_out: &[LeftOut]) -> Vec<String> {
    let told = |of: &LeftOut| Some(format!("left out {}: {}", of.what(), of.problem.as_ref()?));
    let mut lines: Vec<String> = left_out.iter().filter_map(told).collect();
    let others = left_out.iter().filter(|of| of.problem.is_none()).map(LeftOut::what);
    let others = others.collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        lines.push(format!("left out {others}; if they hold text, name them"));
    }
    lines
}

impl Found {
    /// Adds a part, or joins it to one that is read by the same settings.
    fn add(&mut self, part: Part) {
        match self.parts.iter_mut().find(|other| other.is_like(&part)) {
            Some(other) => {
                other.config.paths.extend(part.config.paths);
                other.size += part.size;
            }
            None => self.parts.push(part),
        }
    }

    fn leave_out(&mut self, extension: &str, files: usize, problem: Option<Error>) {
        let same = |of: &&mut LeftOut| of.extension == extension && of.problem.is_none() && problem.is_none();
        if let Some(of) = self.left_out.iter_mut().find(same) {
            of.files += files;
        } else if files > 0 {
            self.left_out.push(LeftOut { extension: extension.to_owned(), files, problem });
        }
    }

    fn leave_parts_out(&mut self, is_out: impl Fn(&Part) -> bool) {
        let out: Vec<Part> = self.parts.extract_if(.., |part| is_out(part)).collect();
        for Part { path, size, .. } in out {
            self.leave_out(&extension(&path), size.files as usize, None);
        }
    }
}

/// The corpus at the paths.
pub(super) async fn look(args: &InitArgs) -> Result<Found> {
    let mut all = Found::default();
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    // A path that is named twice is read once.
    let mut seen = HashSet::new();
    for path in &args.paths {
        if path.to_str().is_some_and(|path| path.starts_with("hf://")) {
            all.add(whole(SourceKind::Huggingface, path, args).await?);
            continue;
        }
        let named = if metadata(path)?.is_dir() { &mut directories } else { &mut files };
        let real = real(path)?;
        if seen.insert(real.clone()) {
            named.push((path, real));
        }
    }
    for (path, real) in &directories {
        let around = directories.iter().find(|(_, around)| around != real && real.starts_with(around));
        if let Some((around, _)) = around {
            let (path, around) = (path.display(), around.display());
            let problem = format!("{path} lies in {around}, which is named too; name one of them");
            return Err(Error::Corpus { problem });
        }
        let found = directory(path, args).await?;
        found.parts.into_iter().for_each(|part| all.add(part));
        all.left_out.extend(found.left_out);
    }
    for (path, real) in files {
        let (around, name) = (real.parent().unwrap_or(&real), real.file_name().map(PathBuf::from));
        let has_it = |part: &Part| covered(slice::from_ref(&part.config), around, name.as_slice()).is_some();
        if !all.parts.iter().any(has_it) {
            all.add(file(path, args).await?);
        }
    }
    let is_dataset = all.parts.iter().any(|part| part.config.kind == SourceKind::Huggingface);
    for (option, value) in [("--subset", &args.subset), ("--part", &args.part)] {
        if value.is_some() && !is_dataset {
            let problem = "there is no Hugging Face dataset at these paths; leave it out";
            return Err(Error::config(option, problem));
        }
    }
    Ok(all)
}

/// What lies at a path. What cannot be a part of a corpus is refused.
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
    let pattern = exactly(&path.to_string_lossy());
    let problem = match recognize(path)? {
        None => {
            let (known, ending) = (SourceKind::endings(), format!(".{}", extension(path)));
            if known.split(", ").any(|known| known == ending) {
                // Reading it says which byte is wrong.
                let text = SourceConfig { on_error: OnError::Fail, ..SourceConfig::text(pattern) };
                Source::estimate(&text).await?;
            }
            format!(
                "{shown}: this is neither UTF-8 text nor a file that is known by its ending ({known}); convert it, or leave \
                 it out"
            )
        }
        Some(SourceKind::Text) if extension(path) == "json" => format!(
            "{shown}: this is neither an array of objects nor one JSON object per line; make it so, for example with \
             `jq -c . FILE > FILE.jsonl`"
        ),
        Some(kind) => return Part::new(kind, path, pattern, args).await?.measured().await,
    };
    Err(Error::Corpus { problem })
}

/// What is below a directory, or the directory as a whole.
async fn directory(path: &Path, args: &InitArgs) -> Result<Found> {
    let mut found = Found::default();
    if let Some(kind) = recognize(path)? {
        found.parts.push(whole(kind, path, args).await?);
        return Ok(found);
    }
    let (listing, runs) = listing(path)?;
    let files: Vec<&Path> = listing.iter().map(PathBuf::as_path).collect();
    // Shards in its directories are read through their descriptions.
    let described =
        files.iter().filter(|file| file.ends_with("manifest.json") || file.ends_with("index.json"));
    let within: BTreeSet<&Path> = described.filter_map(|file| file.parent()).collect();
    let mut shards = Vec::new();
    let itself = plain(path);
    for within in within.into_iter().filter(|within| *within != itself) {
        if let Some(kind @ (SourceKind::Shards | SourceKind::Mds)) = recognize(within)? {
            found.parts.push(whole(kind, within, args).await?);
            shards.push(within);
        }
    }
    let mut groups: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for file in files.into_iter().filter(|file| !shards.iter().any(|shards| file.starts_with(shards))) {
        let extension = extension(file);
        match LEFTOVERS.contains(&&*extension.to_lowercase()) || file.to_string_lossy().ends_with('~') {
            true => found.leave_out(&extension, 1, None),
            false => groups.entry(extension).or_default().push(file),
        }
    }
    // Files without an extension count only if there are no others.
    let nameless = groups.remove("").unwrap_or_default();
    for (extension, files) in &groups {
        group(path, extension, files, &runs, args, &mut found).await?;
    }
    match found.parts.is_empty() {
        true => group(path, "", &nameless, &runs, args, &mut found).await?,
        false => found.leave_out("", nameless.len(), None),
    }
    if found.parts.is_empty() {
        // The error of one file says more than that there is no text.
        if let Some(error) = found.left_out.into_iter().find_map(|files| files.problem) {
            return Err(error);
        }
        for first in groups.values().chain([&nameless]).filter_map(|files| files.first()) {
            file(first, args).await?;
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
        found.parts.iter().filter(|part| is_plain(part) == plain).map(|part| part.size.text).sum()
    };
    if text(false) > 20 * text(true) {
        found.leave_parts_out(is_plain);
    }
    // Beside other files, small .json files with one record each are about them.
    let is_small = |Part { path, size, .. }: &Part| {
        let is_json = extension(path).split('.').next() == Some("json");
        is_json && size.documents <= size.files && size.text < SMALL
    };
    if !found.parts.iter().all(is_small) {
        found.leave_parts_out(is_small);
    }
    Ok(found)
}

/// The part that is a directory as a whole.
async fn whole(kind: SourceKind, path: &Path, args: &InitArgs) -> Result<Part> {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches('/');
    let pattern = if kind == SourceKind::Mds { exactly(name) } else { literal(name) };
    Part::new(kind, path, pattern, args).await?.measured().await
}

/// The files below a directory that may be a part of the corpus, in order, and the directories there that runs write to.
fn listing(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut files = Vec::new();
    // Paths without a link come first, and what was seen is passed over: links may lead in a circle.
    let (mut direct, mut links, mut seen) = (vec![(plain(path), real(path)?)], Vec::new(), HashSet::new());
    while let Some((path, real)) = direct.pop().or_else(|| links.pop()) {
        let failed = |e| Error::io(&path, "look at", e);
        let metadata = fs::metadata(&real).map_err(failed)?;
        if !seen.insert(real.clone()) {
            continue;
        } else if metadata.is_file() && metadata.len() > 0 {
            files.push(path);
        } else if metadata.is_dir() {
            for entry in fs::read_dir(&real).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (name, inner) = (entry.file_name(), entry.path());
                let is_link = entry.file_type().map_err(failed)?.is_symlink();
                match if is_link { inner.canonicalize() } else { Ok(inner) } {
                    _ if is_about(&name) => {}
                    Ok(real) if is_link => links.push((path.join(name), real)),
                    Ok(real) => direct.push((path.join(name), real)),
                    // Its group says what is wrong with it.
                    Err(_) => files.push(path.join(name)),
                }
            }
        }
    }
    files.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let runs = runs_within(path, files.iter().map(PathBuf::as_path))?;
    files.retain(|file| !runs.iter().any(|run| file.starts_with(run)));
    Ok((files, runs))
}

/// Whether a file or a directory with this name is hidden, or probably not a part of the corpus.
fn is_about(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    name.starts_with(['_', '.']) || ABOUT.contains(&name.split('.').next().unwrap_or_default())
}

/// Finds the parts that the files of one extension below a directory are: one for each way to read them.
async fn group(
    directory: &Path,
    extension: &str,
    files: &[&Path],
    runs: &[PathBuf],
    args: &InitArgs,
    found: &mut Found,
) -> Result<()> {
    let end = if extension.is_empty() { String::new() } else { format!(".{}", exactly(extension)) };
    let all = patterns(&plain(directory), files, &end, runs);
    let (mut ways, mut error, mut odd): (Vec<Part>, _, _) = (Vec::new(), None, None);
    // Some from all over them.
    let looked_at = files.len().min(LOOKED_AT);
    'files: for file in (0..looked_at).map(|number| files[number * files.len() / looked_at]) {
        let name = exactly(&file.to_string_lossy());
        let is_settings = |kind: SourceKind| kind == SourceKind::Text && SETTINGS.contains(&extension);
        let kind = recognize(file).unwrap_or_else(|failed| {
            error.get_or_insert(failed);
            None
        });
        odd = odd.or(Some(file).filter(|_| kind.is_none()));
        let Some(kind) = kind.filter(|kind| !is_settings(*kind)) else { continue };
        for part in &mut ways {
            if part.takes(kind, &name, args).await {
                part.config.paths.push(name);
                continue 'files;
            }
        }
        match Part::new(kind, file, name, args).await {
            Ok(part) => ways.push(part),
            Err(failed) => error = error.or(Some(failed)),
        }
    }
    let taken: usize = ways.iter().map(|part| part.config.paths.len()).sum();
    // Among files that tell what they are, one that does not is damaged.
    if let (Some(odd), None, false) = (odd, &error, ways.is_empty()) {
        error = file(odd, args).await.err();
    }
    // Other files of JSON are settings. Of another format, they are damaged; of many files, reading them tells.
    let is_json = extension.split('.').next() == Some("json");
    // Without an extension, a pattern would match what is left out.
    let is_apart = !extension.is_empty() || found.left_out.is_empty();
    let is_all = ways.len() == 1
        && if looked_at < files.len() {
            taken == looked_at || !is_json
        } else {
            taken == looked_at && is_apart
        };
    if is_all {
        ways[0].config.paths = all;
    } else if ways.is_empty() || looked_at == files.len() {
        found.leave_out(extension, files.len() - taken, error);
    } else {
        let different = ways.iter().take(2).map(|part| part.path.display().to_string());
        let problem = format!(
            "{}: its {} .{extension} files do not all hold the same, such as {}; name the files of one kind",
            directory.display(),
            files.len(),
            different.collect::<Vec<_>>().join(" and "),
        );
        return Err(Error::Corpus { problem });
    }
    for part in ways {
        let files = if is_all { files.len() } else { part.config.paths.len() };
        match part.measured().await {
            Ok(part) => found.parts.push(part),
            Err(error) => found.leave_out(extension, files, Some(error)),
        }
    }
    Ok(())
}
