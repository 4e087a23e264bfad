//! Reading a lane: from its splits to documents with their cursors.
//!
//! A [`reader`] reads one slab of text, or of stored tokens, at a time. Its documents become a [`group`]. In a loader
//! each job of the tokenizer makes one of the lane's [`reads`] and encodes its group. Where custom stages want
//! documents, the stream of [`documents`] makes the reads and hands out the groups one document at a time.
//!
//! - `documents`: the stream of one lane, which runs its reads on blocking threads
//! - `reads`: the reads of one lane, one after the other
//! - `reader`: one lane's reading, a slab at a time: from the open splits, or scattered over the whole source
//! - `upcoming`: which ranges of stored bytes a lane will read, so that stores are asked early
//! - `open_split`: one of the splits that a lane reads side by side
//! - `begin`: where the first document of a split begins
//! - `framed`: framed text (lines, paragraphs, whole files) from a file's bytes
//! - `stored`: documents that are tokenized already
//! - `document_order`: which stored documents of an epoch a lane reads, if all of them are shuffled together
//! - `texts`: the texts of one read
//! - `group`: the documents of one read
//! - `grouper`: from frames to documents, and the policy for bad ones
//! - `gather`: puts the documents that a step found in the open splits into one order
//! - `splits`: all documents of one split, for token shards

mod begin;
pub(super) mod document_order;
pub(super) mod documents;
pub(super) mod framed;
mod gather;
pub(super) mod group;
pub(super) mod grouper;
mod open_split;
pub(super) mod reader;
pub(super) mod reads;
pub(super) mod splits;
mod stored;
mod texts;
mod upcoming;
