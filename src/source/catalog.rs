//! Finds what a source reads: paths and patterns, dataset directories, files and their splits, and each lane's share.
//!
//! From a config to a [`Corpus`](corpus::Corpus), in this order:
//!
//! - `resolved`: replaces dataset directories by their files, and token shards by the source they were made from
//! - `dataset`: dataset directories as the Hugging Face libraries write them
//! - `directory`: where such a directory is: on this machine, or on the Hub
//! - `parts`: which files of such a directory belong to which part, by their names
//! - `paths`: lists the files that the paths of a config name
//! - `patterns`: variables, braces and wildcards in those paths
//! - `braces`: `{a,b}` and `{000..099}`
//! - `walk`: finds the local files that a pattern matches
//! - `origin`: where the documents of a source come from
//! - `samples`: a digest of the text of local files
//! - `corpus`: the files, their formats, and the splits that they are cut into
//! - `holdout`: which documents are kept for validation

mod braces;
pub(super) mod corpus;
pub(super) mod dataset;
pub(super) mod directory;
pub(super) mod holdout;
pub(super) mod origin;
mod parts;
pub(super) mod paths;
pub(super) mod patterns;
pub(super) mod resolved;
pub(super) mod samples;
mod walk;
