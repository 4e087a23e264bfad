//! Tables, archives and shards as other programs write them; `tests/data/make_formats.py` made these.

#![cfg(all(feature = "columnar", feature = "compression"))]

mod damage;
mod filter;
mod laws;
mod rows;
