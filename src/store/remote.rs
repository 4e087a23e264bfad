//! Files of object stores and HTTP servers, read ahead of need.
//!
//! | step | where | what it does |
//! |---|---|---|
//! | files | `url.rs`, `list.rs`, `stores.rs` | takes URLs apart and expands globs; a client for each bucket or server |
//! | listings | `odd_keys.rs` | keys that the library cannot name |
//! | plan | `opener.rs` | takes a lane's plan of reads, and opens its files |
//! | pieces | `ahead.rs`, `pieces.rs` | requests as much of the plan as there is room for, and hands it out |
//! | disk | `cache.rs` | caches fetched ranges, for other epochs and processes |
//! | ranges | `object.rs` | checks that a range arrives whole, and from the same file |
//! | the Hub | `hub.rs`, `hub/`, `local.rs` | repositories of the Hugging Face Hub at commits, as a store; small files of theirs |
//! | objects | `objects.rs` | lists, reads, writes and removes whole objects |
//! | requests | `client.rs`, `patient.rs`, `attempts.rs`, `hosts.rs`, `said.rs` | makes requests, retries those that failed, and says why |

mod ahead;
mod attempts;
mod cache;
mod client;
mod hosts;
mod hub;
mod list;
mod local;
mod object;
mod objects;
mod odd_keys;
mod opener;
mod patient;
mod pieces;
mod said;
mod stores;
mod url;

pub(crate) use hub::{HubTree, PREFIX as HUB, commit as hub_commit, in_name as hub_revision, pin as pin_hub};
pub use local::{ask_hub_with, local};
pub(crate) use local::{hub_tree, pinned};
pub(crate) use opener::FileOpener;
pub(crate) use stores::Stores;
