//! Tables in columns, archives and shards, over files that other programs wrote.

mod archives;
mod custom;
mod faults;
mod filters;
mod golden;
mod laws;
mod others;
mod rule;
mod tables;
