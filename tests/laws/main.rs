//! The laws of order, resume and world, over generated corpora and configs, through the loader.

#[path = "../support/chats.rs"]
mod chats_in_files;
#[path = "../support/mod.rs"]
mod support;

/// The library's own proof of a loader that is not Millstream's.
mod any_loader;
/// Conversations that a template renders.
mod chats;
/// Columns that come along.
mod columns;
mod corpus;
mod cursors;
mod custom_documents;
mod custom_stages;
/// Batches of a budget of tokens.
mod dynamic;
mod golden;
/// The same records in files of every kind: their documents under a filter, and their columns.
mod kinds;
/// The rank and world that launchers give by their environment.
mod launchers;
/// What became of every id.
mod ledger;
/// The same by the values of a column.
mod ledger_by;
/// The same of conversations that are left out.
mod ledger_chats;
/// Which ids are learned from.
mod masks;
/// The law of the budget.
mod memory;
mod mixture;
mod on_demand;
/// Order, resume and once: the laws of one process.
mod order;
#[cfg(target_os = "linux")]
mod pin;
mod replay;
/// What a resume encodes.
mod resumed_windows;
/// All documents of a source, shuffled together.
mod shuffle_global;
/// Documents that are made from the seed.
mod synthetic;
/// Texts in memory in place of files.
mod texts;
mod trail;
/// The held-out stream.
mod validation;
/// The library's own proof, which starts this program as its children.
mod verify;
/// In which batches of a run a document was.
mod when;
/// The law of the world: any number of ranks makes the rows of one process.
mod world;
