//! How a config is read, for a trainer that has tables of its own in the same file. It is no part of the public interface.

#[cfg(feature = "schema")]
pub use super::bounds::describe;
pub use super::bounds::{Bound, Bounded, COUNT, Limit, NOT_NEGATIVE, Number, POSITIVE, SHARE, require};
pub use super::fill::{fill, fill_loader};
pub use super::keys::{Section, fields, sections};
#[cfg(feature = "schema")]
pub use super::schema::schema;
pub use super::tree::{AnyValue, Tree};
