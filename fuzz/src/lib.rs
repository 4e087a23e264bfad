//! Fuzz targets for everything that Millstream reads from outside.
//!
//! Each target is a function from bytes to nothing, and panics if a promise is broken. Whatever the bytes are, a reader
//! ends, does not panic and stays within its memory; and what it delivers does not depend on how much it reads at once
//! or where it was resumed. `cargo fuzz` looks for inputs that break these promises, and `cargo test` replays the inputs
//! that are kept in `corpus/`.
//!
//! Inputs are files as other programs write them, so a real file is a seed. Its last bytes choose the settings.

mod desk;
mod documents;
mod exchange;
mod settings;
mod words;

/// A target: whatever it is given, it returns.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 19] = [
    ("arrow", documents::arrow),
    ("card", documents::card),
    ("compressed", documents::compressed),
    ("config", words::config),
    ("csv", documents::csv),
    ("cursor", words::cursor),
    ("jsonl", documents::jsonl),
    ("mds", documents::mds),
    ("megatron", exchange::megatron),
    ("nanogpt", exchange::nanogpt),
    ("parquet", documents::parquet),
    ("ranks", words::ranks),
    ("shards", documents::shards),
    ("tar", documents::tar),
    ("template", words::template),
    ("text", documents::text),
    ("tokenizer", words::tokenizer),
    ("where", documents::filter),
    ("zstd", documents::zstd),
];

/// The target called `name`.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no target is called {name}")).1
}
