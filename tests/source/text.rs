//! Plain text, JSON lines and tables of text.

mod array;
mod csv;
mod examples;
mod failures;
mod laws;
mod long;
