//! Hugging Face tokenizers: a `tokenizer.json` in, ids out.
//!
//! Several engines can run the file. `tokenizers` 0.23 is the **reference**: its ids are the tokenizer's ids,
//! and it reads every file. `tokenizers` 1.0, a pre-release, gives the same ids some fifty times as fast, but
//! it refuses some files and encodes a few wrongly without any error. So it runs only behind a gate:
//! [`HfTokenizer::from_file`] compares the two on a set of probes, and [`HfTokenizer::trial`] on the corpus's
//! own first documents. After the first difference the reference runs, with a warning that shows the
//! difference. The feature `fastokens` adds an engine that is twice as fast again for the files that it
//! supports, behind the same gate. [`Check`] compares the engines on as much text as you like.
//!
//! The reference also encodes each text with a character that Unicode had not assigned when the reference was made:
//! the engines class such characters differently.
//!
//! Both steps run before the first id is delivered, on one thread, from the file and the corpus alone. So the choice of
//! the engine never depends on which worker meets which document first, and the ids of a text are a pure function of
//! the text.
//!
//! The result is cached on disk ([`open_tokenizer`](crate::loader::open_tokenizer)) under a digest of everything that
//! it depends on, so that a later start loads only the engine that runs.
//!
//! Held in memory: the fast engine's tables; 10 to 25 MB for each thread that encodes (the words that it
//! remembers); if texts are short, the tables and the words once more for each such thread, for 16 threads at
//! most; and the reference's tables too, until the trial, and from the first text that needs them.

mod candidate;
mod caught;
mod check;
mod engine;
mod fast;
#[cfg(feature = "fastokens")]
mod fastokens;
mod file;
mod gate;
mod instances;
mod loaded;
mod marked;
mod outline;
mod reference;
mod running;
mod spellings;
mod tokenizer;
mod unassigned;
mod verdicts;
mod vocabulary;

pub use check::{Check, Difference};
pub use engine::Engine;
pub use tokenizer::HfTokenizer;
