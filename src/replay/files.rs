//! The files of a run as they are now. They are listed once, for whoever names them and for whoever reads them again.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::{Replay, Run, Session};
use crate::config::{Config, ExcludeConfig, ExcludedDocument, SourceKind, names};
use crate::cursor::{Cursor, Event};
use crate::error::{Error, Result};
use crate::files::{Changes, File, Listing, Location};
use crate::loader::{is_of_files, listing, resolved_with, stay_at_commits};
use crate::source::{Source, SourceList};

/// How long a store may be silent before a run's files count as unreadable, in seconds.
pub const LONGEST_SILENCE: f64 = 20.0;

/// A run, and its files as they are now, none of which is open yet.
#[derive(Debug)]
pub struct RunFiles {
    run: Run,
    /// The config of the last session.
    config: Config,
    sources: SourceList,
}

/// A source of a run, and its files.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The format of its files.
    pub kind: SourceKind,
    /// The files that it reads: of token shards, their own. If they cannot be listed, those that the run has read, as far as
    /// they are not known to be gone.
    pub files: Vec<File>,
    /// Of token shards, the files that they were made from, as their manifests say.
    pub made_from: Vec<File>,
    /// Local files that the run has read, and that the source reads no more.
    pub gone: Vec<File>,
    /// Why its files cannot be listed.
    pub problem: Option<String>,
}

impl RunFiles {
    /// Lists the files of each source of a run, as the run's last session reads them. A source that cannot be listed does
    /// not keep the others from it.
    ///
    /// # Errors
    /// [`Error::Config`] if the run has no session, or a setting is out of bounds.
    pub async fn list(mut run: Run) -> Result<Self> {
        for session in &mut run.sessions {
            session.config = session.config.clone().with_sources_by_value()?;
        }
        let Some(Session { config, .. }) = run.sessions.last() else {
            return Err(Error::config("run", "it has no session"));
        };
        let mut config = config.clone();
        config.store.deadline = config.store.deadline.min(LONGEST_SILENCE);
        // One process makes the batches of all ranks.
        (config.pipeline.rank, config.pipeline.world) = (Some(0), Some(1));
        config.exclude = ExcludeConfig::default();
        if let Some(last) = run.trail.last() {
            stay_at_commits(last);
            run.batches = run.batches.max(last.batch());
        }
        let sources = SourceList::new(&config).await?;
        Ok(Self { run, config, sources })
    }

    /// The sources with their files, and how these differ from those of the run, if its listing is known. Takes samples of
    /// local files.
    pub async fn look(&self) -> (Vec<Listed>, Option<Changes>) {
        let (mut all, mut samples, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        let names = names(&self.config.sources);
        let listed = self.sources.sources().zip(names.iter().zip(&self.config.sources));
        for (number, (listed, (name, source))) in listed.enumerate() {
            let kind = source.kind;
            let mut own = Listed {
                name: name.clone(),
                kind,
                files: Vec::new(),
                made_from: Vec::new(),
                gone: Vec::new(),
                problem: None,
            };
            let is_of_shards = kind == SourceKind::Shards;
            match listed {
                Ok(listed) => {
                    let taken = listed.samples().await.unwrap_or_default();
                    samples.extend(taken.into_iter().map(|(nth, digest)| (all.len() + nth, digest)));
                    own.files = listed.files().to_vec();
                }
                Err(error) => {
                    own.problem = Some(error.chain());
                    let was = self.run.files.iter().flat_map(|was| was.of_source(name, number));
                    (own.gone, own.files) = was.partition(|file| !is_of_shards && is_gone(file));
                }
            }
            let is_listed = own.problem.is_none();
            all.extend(own.files.iter().map(|file| if is_listed { file.clone() } else { as_it_is(file) }));
            if is_of_shards {
                let shards = listed.ok().and_then(|listed| listed.shards()).unwrap_or_default();
                own.made_from = std::mem::replace(&mut own.files, shards);
            }
            sources.push(own);
        }
        let now = Listing::new(&names, &all).with_samples(samples);
        let changes = self.run.files.as_ref().map(|was| was.changes(&now));
        for (number, source) in sources.iter_mut().enumerate() {
            let (Some(was), Some(changes)) = (&self.run.files, &changes) else { break };
            if source.problem.is_none() && source.kind != SourceKind::Shards {
                let is_removed = |file: &File| changes.removed.contains(&file.path().display().to_string());
                source.gone.extend(was.of_source(&source.name, number).filter(is_removed));
            }
        }
        (sources, changes)
    }

    /// Opens the files.
    ///
    /// # Errors
    /// Those of opening a [`Source`]: the first source that cannot be listed.
    pub async fn open(self) -> Result<Replay> {
        let Self { mut run, config, sources } = self;
        let unlisted = unlisted(&config, &sources);
        let source = sources.open().await.map_err(|error| with_place(error, unlisted))?.quiet();
        if let Some(was) = &run.files {
            for session in &mut run.sessions {
                let documents = &mut session.config.exclude.documents;
                *documents =
                    documents.iter().flat_map(|document| moved(document, was, &config, &source)).collect();
            }
        }
        let config = resolved_with(config, &source, run.trail.first());
        let mut replay = Replay { run, config, source };
        replay.join_sessions();
        Ok(replay)
    }
}

/// A document that a run leaves out, by the paths that its file has now: in each source that had the file in the listing
/// `was`. Its path stays if none had it.
fn moved(
    document: &ExcludedDocument,
    was: &Listing,
    config: &Config,
    source: &Source,
) -> Vec<ExcludedDocument> {
    let names = names(&config.sources);
    let of_source = |(number, name): (usize, &String)| {
        let nth = was.of_source(name, number).position(|file| file.path() == document.path)?;
        let mut files = source.files().iter().filter(|file| file.source == number);
        Some(ExcludedDocument { path: files.nth(nth)?.path().to_owned(), ..document.clone() })
    };
    let moved: Vec<_> = names.iter().enumerate().filter_map(of_source).collect();
    if moved.is_empty() { vec![document.clone()] } else { moved }
}

/// The documents that the history of a cursor leaves out, by the paths that their files have now: those of the listing.
pub fn excluded_documents(cursor: &Cursor, listing: &Listing, config: &Config) -> Vec<ExcludedDocument> {
    let (names, mut all) = (names(&config.sources), BTreeSet::new());
    for event in cursor.history() {
        let Event::ExcludedDocuments { places, .. } = event else { continue };
        for (name, places) in places {
            let number = names.iter().position(|other| other == name).unwrap_or_default();
            let files: Vec<File> = listing.of_source(name, number).collect();
            let document = |(nth, byte): &(u32, u64)| {
                let path = files.get(*nth as usize)?.path().to_owned();
                Some(ExcludedDocument { path, byte: *byte })
            };
            all.extend(places.iter().filter_map(document));
        }
    }
    all.into_iter().collect()
}

/// Whether it is a local file that is not there, or something else is there.
fn is_gone(file: &File) -> bool {
    let Location::Path(path) = &file.location else { return false };
    match path.metadata() {
        Ok(found) => !found.is_file(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// A file that the run has read, with the length that it has now, if that is known.
fn as_it_is(file: &File) -> File {
    let len = match &file.location {
        Location::Path(path) => path.metadata().map_or(file.len, |found| found.len()),
        _ => file.len,
    };
    File { len, ..file.clone() }
}

/// The name of the first source that has no files now.
fn unlisted(config: &Config, sources: &SourceList) -> Option<String> {
    let number = sources.sources().position(|listed| matches!(listed, Err(Error::Corpus { .. })))?;
    names(&config.sources).into_iter().nth(number)
}

/// The same error of a source that has no files now, with the setting that says where they are.
fn with_place(error: Error, unlisted: Option<String>) -> Error {
    match (error, unlisted) {
        (Error::Corpus { problem }, Some(name)) => Error::Corpus {
            problem: format!(
                "{problem}; the run has read others: put them back, or say where they are: --set source.{name}.paths=…"
            ),
        },
        (error, _) => error,
    }
}

/// The error for a run whose cursors are refused, so that nothing can be said of its batches: it names the files that have
/// changed since the listing `was` was made, as `config` has them. Any other error stays.
pub async fn refused(error: Error, was: Option<&Listing>, config: &Config) -> Error {
    if matches!(error, Error::Corpus { .. }) {
        let sources = SourceList::new(config).await;
        return with_place(error, sources.ok().and_then(|sources| unlisted(config, &sources)));
    }
    if !is_of_files(&error) {
        return as_of_a_run(error, None);
    }
    let source = Source::from_config(config).await;
    refused_with(error, was, config, source.ok().as_ref()).await
}

/// The same, with the sources as they are open.
pub(super) async fn refused_with(
    error: Error,
    was: Option<&Listing>,
    config: &Config,
    source: Option<&Source>,
) -> Error {
    let changes = match (was, source) {
        (Some(was), Some(source)) if is_of_files(&error) => {
            Some(was.changes(&listing(config, source).await)).filter(|changes| !changes.is_empty())
        }
        _ => None,
    };
    as_of_a_run(error, changes)
}

fn as_of_a_run(error: Error, changes: Option<Changes>) -> Error {
    let Error::Fingerprint { field, saved, now } = error else { return error };
    let problem = match field.strip_suffix(".files") {
        Some(source) => {
            let key = format!("{source}.paths");
            let changes = changes.unwrap_or_default();
            let how = match changes.is_empty() {
                true => format!("they were {saved}, and are {now}"),
                false => changes.to_string(),
            };
            let are_added = !changes.added.is_empty();
            let why = match changes.relocated.is_empty() {
                true => "",
                false => {
                    "files of a store are known by its etags and cut otherwise than those of this machine, so a run's \
                     files can move to another store with the same etags, or on this machine; "
                }
            };
            let remedy = match changes == (Changes { added: changes.added.clone(), ..Changes::default() }) {
                true if are_added => "take away those that are new, or name the others",
                _ if are_added => "put them back and take away those that are new, or say where they are",
                _ => "put them back, or say where they are",
            };
            format!(
                "{key}: the files are not those that the run has read: {how}; {why}{remedy}: --set {key}=…"
            )
        }
        None => format!(
            "the run's batches cannot be made again: {field} was {saved:?}, and is {now:?}; set it back in the run's config"
        ),
    };
    Error::Corpus { problem }
}
