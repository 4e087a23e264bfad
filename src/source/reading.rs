//! Reading a lane: from its splits to documents with their cursors.
//!
//! A [`reader`] reads one slab of text, or of stored tokens, at a time. What it found becomes a [`group`] of documents,
//! which the stream of [`documents`] hands out one by one.

mod begin;
pub(super) mod documents;
pub(super) mod framed;
mod gather;
pub(super) mod group;
pub(super) mod kept;
pub(super) mod observer;
pub(super) mod reader;
mod resume;
pub(super) mod splits;
mod stored;
mod strand;
mod texts;
mod upcoming;
