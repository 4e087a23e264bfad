//! The files of a run: those that its sources read now, and those that have gone since.

use std::io::ErrorKind;

use millstream::Result;
use millstream::config::SourceKind;
use millstream::files::{File, Listing, Location};
use millstream::replay::{self, Listed, Run};
use millstream_train::RunDirectory;

/// The files of a run.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) sources: Vec<Source>,
    /// Source by source. Those of a source that cannot be listed are those that the run has read.
    pub(super) present: Vec<File>,
    /// Local files that the run has read, and that its sources read no more.
    pub(super) gone: Vec<File>,
    /// How the files differ from those of the run; `None` if they do not.
    pub(super) changes: Option<String>,
}

/// A source of the config.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) kind: SourceKind,
    /// Why its files cannot be listed.
    pub(super) problem: Option<String>,
}

impl Files {
    /// Lists the files of a run. A source that cannot be listed has those of the run's own list.
    pub(super) async fn list(run: &Run, directory: &RunDirectory) -> Result<Self> {
        let known = directory.files().exists();
        let was = if known { Listing::load(directory.files())? } else { Listing::default() };
        let (mut sources, mut present, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (number, Listed { name, kind, files }) in replay::list(run).await?.into_iter().enumerate() {
            let problem = files.as_ref().err().map(|error| error.chain());
            match files {
                Ok(files) => present.extend(files),
                Err(_) => {
                    let (lost, left): (Vec<File>, _) = was.of_source(&name, number).partition(is_gone);
                    present.extend(left);
                    gone.extend(lost);
                }
            }
            sources.push(Source { name, kind, problem });
        }
        let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
        let changes = was.changes(&Listing::new(&names, &present));
        for (number, source) in sources.iter().enumerate().filter(|(_, source)| source.problem.is_none()) {
            let is_removed = |file: &File| changes.removed.contains(&file.path().display().to_string());
            gone.extend(was.of_source(&source.name, number).filter(is_removed));
        }
        let changes = match known {
            true => Some(changes.to_string()).filter(|changes| !changes.is_empty()),
            false => Some("unknown: the run has no list of its files".to_owned()),
        };
        Ok(Self { sources, present, gone, changes })
    }
}

/// Whether it is a local file that is not there.
fn is_gone(file: &File) -> bool {
    let Location::Path(path) = &file.location else { return false };
    path.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}
