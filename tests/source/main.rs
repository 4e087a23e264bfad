//! The source through its public face, over real files.

mod corpus;
mod examples;
mod failures;
mod laws;
mod long;
mod tables;
