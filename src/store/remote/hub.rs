//! The Hugging Face Hub: repositories of files at commits.
//!
//! A branch or tag stands for one commit in a process: the one that a cursor names or, without one, the one that the
//! server gave first. All files of a commit are listed once, and the list stays in the Hub's [cache] on this machine.
//! The server is asked once where a file's bytes are; its ranges are then requested from there until that place expires.
//!
//! | file | what |
//! |---|---|
//! | `name` | `hf://datasets/OWNER/NAME@REVISION/PATH` |
//! | `env` | the server, the account and the cache |
//! | `cache` | the cache's layout |
//! | `client` | requests, and what refusals mean |
//! | `files` | ranges of files, as of any other store |
//! | `copies` | whole files in the cache |
//! | `needed` | the files that come along with one |

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use crate::bounded;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::files::{File, Location};
use crate::threads::lock;

mod cache;
mod client;
mod copies;
mod env;
mod files;
mod name;
mod needed;

use cache::{Entry, Folder, Tree, has_length};
use client::Client;
use env::Env;
use name::{Repo, RepoKind};

pub(super) use copies::{Copy, read};
pub(super) use files::HubFiles;
pub(super) use name::split;
pub(crate) use name::{PREFIX, in_name};

/// The files of a repository at a commit.
#[derive(Clone, Debug)]
pub(crate) struct HubTree {
    /// The name of the repository at that commit.
    pub(crate) root: String,
    /// The rest of the name that was asked for.
    pub(crate) path: String,
    /// The paths of all files.
    pub(crate) files: Vec<String>,
}

/// What this process knows of the Hub. Neither changes: a name keeps its commit, and a commit its files.
#[derive(Debug)]
struct Known {
    /// Commits by the names of repositories at branches and tags.
    commits: BTreeMap<String, String>,
    /// Files by the names of repositories at commits.
    trees: BTreeMap<String, Arc<Tree>>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { commits: BTreeMap::new(), trees: BTreeMap::new() });

/// Makes the commits of a cursor those of this process, from now on.
pub(crate) fn pin(commits: impl IntoIterator<Item = (String, String)>) {
    lock(&KNOWN).commits.extend(commits);
}

/// The name of the repository of `url` at its branch or tag, and the commit that this stands for in this process.
pub(crate) fn commit(url: &str) -> Option<(String, String)> {
    let (repo, _) = Repo::parse("source.paths", url.starts_with(PREFIX).then_some(url)?).ok()?;
    let name = repo.to_string();
    let commit = lock(&KNOWN).commits.get(&name)?.clone();
    Some((name, commit))
}

/// Refuses a name that is not one of files on the Hub.
pub(super) fn check(key: &str, url: &str) -> Result<()> {
    match Repo::parse(key, url)? {
        (_, path) if !path.is_empty() => Ok(()),
        (repo, _) => {
            let problem = format!(
                "{url:?} is a repository; name files in it, such as \"{repo}/**/*.parquet\", or set kind = \"huggingface\" to \
                 read it as a dataset"
            );
            Err(Error::config(key, problem))
        }
    }
}

/// What the API says of a repository.
#[derive(Deserialize)]
struct Info {
    sha: String,
}

/// An item of a listing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    oid: String,
    #[serde(default)]
    size: u64,
    path: String,
    lfs: Option<Lfs>,
    xet_hash: Option<String>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// The Hub, as the environment names it.
#[derive(Debug)]
pub(super) struct Hub {
    env: Env,
    client: Client,
    copies: copies::Copies,
    files: Mutex<HashMap<String, Arc<HubFiles>>>,
}

impl Hub {
    pub(super) fn new(config: &Arc<StoreConfig>) -> Self {
        let env = Env::new();
        let client = Client::new(&env, config);
        let copies = copies::Copies::new(env.cache.clone(), config.hub_cache.map(|limit| limit.0));
        Self { env, client, copies, files: Mutex::default() }
    }

    /// The URL with the commit that its branch or tag stands for.
    pub(super) async fn pinned(&self, key: &str, url: &str) -> Result<String> {
        let (repo, path) = Repo::parse(key, url)?;
        Ok(format!("{}/{path}", self.at_commit(&repo).await?))
    }

    /// The files of the repository that `root` names.
    pub(super) fn files(self: &Arc<Self>, root: &str) -> Result<Arc<HubFiles>> {
        let (repo, _) = Repo::parse("source.paths", root)?;
        let mut files = lock(&self.files);
        let new = || Arc::new(HubFiles::new(self.clone(), repo));
        Ok(files.entry(root.to_owned()).or_insert_with(new).clone())
    }

    fn folder(&self, repo: &Repo) -> Folder {
        Folder::new(&self.env.cache, repo)
    }

    /// The repository at the commit that its branch or tag stands for.
    async fn at_commit(&self, repo: &Repo) -> Result<Repo> {
        if repo.is_pinned() {
            return Ok(repo.clone());
        }
        let name = repo.to_string();
        let kept = lock(&KNOWN).commits.get(&name).cloned();
        if let Some(commit) = kept {
            return Ok(repo.at(&commit));
        }
        let folder = self.folder(repo);
        let commit = match self.env.is_offline {
            true => folder.commit(&repo.revision).ok_or_else(|| not_cached(&name, "this repository"))?,
            false => {
                let url = format!("{}/revision/{}", repo.api(&self.env.endpoint), repo.encoded_revision());
                let Info { sha } = self.client.json(&url, repo).await?;
                self.complain(folder.note_commit(&repo.revision, &sha));
                sha
            }
        };
        let at = repo.at(&commit);
        if !at.is_pinned() {
            let problem =
                format!("{name}: {commit:?} is not a commit; set HF_ENDPOINT to a server of the Hub");
            return Err(Error::Corpus { problem });
        }
        tracing::info!(name, commit, "this branch or tag stands for this commit");
        // Another task may have been first.
        let commit = lock(&KNOWN).commits.entry(name).or_insert(commit).clone();
        Ok(repo.at(&commit))
    }

    /// All files of a commit.
    async fn tree(&self, repo: &Repo) -> Result<Arc<Tree>> {
        let repo = &self.at_commit(repo).await?;
        let name = repo.to_string();
        let kept = lock(&KNOWN).trees.get(&name).cloned();
        if let Some(tree) = kept {
            return Ok(tree);
        }
        let (folder, commit) = (self.folder(repo), &repo.revision);
        let tree = match folder.tree(commit) {
            Some(tree) => tree,
            None if self.env.is_offline => {
                let tree = folder.tree_of_snapshot(commit).ok_or_else(|| not_cached(&name, "this commit"))?;
                tracing::warn!(
                    name,
                    files = tree.files.len(),
                    "offline: the cache may not have all files of this commit"
                );
                tree
            }
            None => {
                let tree = self.list(repo).await?;
                self.complain(folder.keep_tree(commit, &tree));
                tree
            }
        };
        Ok(lock(&KNOWN).trees.entry(name).or_insert(Arc::new(tree)).clone())
    }

    /// All files of the repository that `name` begins with.
    pub(super) async fn listing(&self, key: &str, name: &str) -> Result<HubTree> {
        let (repo, path) = Repo::parse(key, name)?;
        let repo = self.at_commit(&repo).await?;
        let files = self.tree(&repo).await?.files.keys().cloned().collect();
        Ok(HubTree { root: repo.to_string(), path: path.to_owned(), files })
    }

    /// Where a file or directory is in the cache once the files that it needs are there, and those that are not there yet.
    pub(super) async fn needed(&self, name: &str) -> Result<(PathBuf, Vec<File>)> {
        let (repo, path) = Repo::parse(name, name)?;
        let path = path.trim_end_matches('/');
        let repo = self.at_commit(&repo).await?;
        let (tree, folder) = (self.tree(&repo).await?, self.folder(&repo));
        let files = match repo.kind {
            RepoKind::Model => needed::needed(path, &tree),
            RepoKind::Dataset | RepoKind::Space => {
                tree.files.get_key_value(path).map(|(path, _)| path).into_iter().collect()
            }
        };
        if files.is_empty() {
            self.complain(folder.note_absent(&repo.revision, path));
            let said = needed::nearest(path, tree.files.keys());
            return Err(Error::io(name, "read", io::Error::new(io::ErrorKind::NotFound, said)));
        }
        let listed = |path: &String| {
            let entry = &tree.files[path];
            let url = Location::Url(format!("{repo}/{path}"));
            File::new(url, entry.len(), Some(entry.etag().to_owned()))
        };
        let is_missing =
            |path: &&String| !has_length(&folder.snapshot(&repo.revision, path), tree.files[*path].len());
        let missing = files.into_iter().filter(is_missing).map(listed).collect();
        Ok((folder.snapshot(&repo.revision, path), missing))
    }

    /// Asks for all files of a commit, page by page.
    async fn list(&self, repo: &Repo) -> Result<Tree> {
        let revision = repo.encoded_revision();
        let mut next = Some(format!("{}/tree/{revision}?recursive=true", repo.api(&self.env.endpoint)));
        let (mut files, mut seen) = (BTreeMap::new(), BTreeSet::new());
        while let Some(url) = next {
            if !seen.insert(url.clone()) {
                let problem =
                    format!("{repo}: the server lists the same page again and again; look at HF_ENDPOINT");
                return Err(Error::Corpus { problem });
            }
            let (items, link): (Vec<Item>, Option<String>) = self.client.page(&url, repo).await?;
            for Item { kind, oid, size, path, lfs, xet_hash } in items {
                if kind != "file" {
                    continue;
                }
                let (lfs_sha256, lfs_size) = lfs.map(|Lfs { oid, size }| (oid, size)).unzip();
                let entry = Entry { size, blob_id: oid, lfs_sha256, lfs_size, xet_hash };
                if !bounded::is_within(&path) || !entry.is_valid() {
                    let problem =
                        format!("{repo}: the server lists {path:?}, which is not the path of a file");
                    return Err(Error::Corpus { problem });
                }
                files.insert(path, entry);
            }
            next = link;
        }
        Ok(Tree::new(files))
    }

    /// Logs that the cache cannot be written. Nothing depends on it.
    fn complain(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.copies.complain(&error);
        }
    }
}

/// The error for what the cache lacks while the server may not be asked.
fn not_cached(name: &str, what: &str) -> Error {
    let problem = format!(
        "HF_HUB_OFFLINE is set, and the cache does not have {what}; unset it, or download the repository first: \
         `hf download`"
    );
    Error::io(Path::new(name), "read", io::Error::new(io::ErrorKind::NotFound, problem))
}
