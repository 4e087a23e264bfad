//! What there is to read: paths and patterns, dataset directories, files and their splits, and which lane reads which.
//!
//! From a config to a [`Corpus`](corpus::Corpus): `resolved` replaces directories of datasets and token shards by what
//! they contain, `paths` lists the files, `corpus` cuts them into splits, and `deal` gives each lane its splits.

pub(super) mod corpus;
mod dataset;
pub(super) mod deal;
pub(super) mod holdout;
pub(super) mod origin;
pub(super) mod paths;
pub(super) mod patterns;
pub(super) mod resolved;
