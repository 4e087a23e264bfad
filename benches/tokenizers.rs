//! The engines alone, on two threads, by the size of the documents.
//!
//!     cargo bench -- tokenizers
//!     cargo bench --features fastokens -- tokenizers
//!     cargo bench -- tokenizers TOKENIZER.json CORPUS_DIRECTORY
//!     cargo bench -- tokenizers families [TOKENIZER.json ...]
//!
//! The last one prints a line for each family of open models' tokenizers, with its published settings around a
//! vocabulary of 16,384 tokens, and for each file: the engine, its rate, the reference's, and their ratio. The table of
//! the guide's page on tokenizers has what it printed.
//!
//! MB/s a thread. One instance is shared by both threads, or each has one of its own; the rates of a row are taken in
//! turn, three times, and the medians stand. The threads have seen the documents once before; but `new text` and `new words`
//! (of random letters) come for the first time, in documents of 16 KiB. The last line is the reference.
//!
//! What it printed on two cores with the feature `fastokens`, a tokenizer of 16,384 tokens learned from Rust, and Rust:
//!
//! ```text
//! MB/s a thread, 2 threads      tokenizers 1.0 shared      of each thread      fastokens as the pipeline has it
//!       64 B                                      110                 123                           253
//!       80 B                                      102                 106                           254
//!      256 B                                      160                 156                           394
//!     1024 B                                      200                 206                           427
//!     4096 B                                      215                 219                           454
//!    16384 B                                      228                 234                           480
//!    65536 B                                      228                 242                           454
//!   new text                                      133                 135                           181
//!  new words                                       27                  28                            20
//!  reference                                      3.3
//! ```
//!
//! So instances of their own are worth something for short texts: `tokenizers` 1.0 has them there (`src/tokenizer/hf/instances.rs`
//! says why) and shares one above. `fastokens` keeps what it writes to by thread, so nothing is gained there.

use std::path::Path;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

use millstream::tokenizer::Tokenizer;
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use crate::common::{self, median};
use crate::families::families;

const THREADS: usize = 2;
const BYTES: usize = 24 << 20;
const SIZES: [usize; 7] = [64, 80, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tokenizer, and a directory of Rust, instead of what is learned from this crate's own; or `families`, and
    /// further tokenizers
    #[arg(value_name = "TOKENIZER.json")]
    files: Vec<String>,
}

/// What encodes for a thread.
type Encode<'a> = &'a (dyn Fn(usize, &str, &mut Vec<u32>) + Sync);

/// The engine by itself, as the library's authors would call it.
struct Bare {
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
}

impl Bare {
    fn load(json: &str) -> Self {
        let json = tokenizers::canonicalize_str(json).expect("it reads");
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: true,
            padding: Override::Off,
            truncation: Override::Off,
        };
        Self { pipeline: tokenizers::from_json(&json).expect("it loads"), options }
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        thread_local!(static TOKENS: std::cell::RefCell<Vec<PipelineToken>> = const { std::cell::RefCell::new(Vec::new()) });
        TOKENS.with_borrow_mut(|tokens| {
            tokens.clear();
            self.pipeline.encode_into(text, &self.options, tokens).expect("ids");
            ids.extend_from_slice(PipelineToken::cast_slice(tokens));
        });
    }
}

/// Text of a directory's Rust, from all over it; the crate's own, over and over, if there is no directory.
fn text(directory: Option<&String>, bytes: usize) -> String {
    let Some(directory) = directory else { return common::text(bytes) };
    let mut found = common::rust_files(Path::new(directory));
    found.sort_by_cached_key(|path| *blake3::hash(path.as_os_str().as_encoded_bytes()).as_bytes());
    let mut text = String::new();
    for path in found {
        // What is longer is generated.
        if let Some(more) = std::fs::read_to_string(path).ok().filter(|more| more.len() < 200 << 10) {
            text.push_str(&more);
        }
        if text.len() >= bytes {
            break;
        }
    }
    text
}

/// Words that come once, of random letters.
fn never_seen(bytes: usize) -> String {
    let mut random = common::random();
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        let number = random();
        let (mut letters, length) = (number >> 20, 3 + (number >> 61));
        for _ in 0..length {
            text.push(char::from(b'a' + (letters % 26) as u8));
            letters /= 26;
        }
        text.push(' ');
    }
    text
}

fn pieces(text: &str, size: usize) -> Vec<&str> {
    let (mut rest, mut pieces) = (text, Vec::new());
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(rest.floor_char_boundary(size));
        pieces.push(piece);
        rest = others;
    }
    pieces
}

/// MB/s a thread over `documents`, which the threads have seen once before if they are warm.
fn rate(documents: &[&str], is_warm: bool, encode: Encode<'_>) -> f64 {
    let threads = THREADS;
    let start = Barrier::new(threads);
    let rates = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (start, rates) = (&start, &rates);
            scope.spawn(move || {
                let own: Vec<&str> = documents.iter().skip(thread).step_by(threads).copied().collect();
                let mut ids = Vec::with_capacity(64 << 10);
                // The threads that ran before are gone, and with them what some engines keep by thread.
                if is_warm {
                    own.iter().for_each(|text| {
                        ids.clear();
                        encode(thread, text, &mut ids);
                    });
                }
                start.wait();
                let begun = Instant::now();
                for text in &own {
                    if ids.len() > 32 << 10 {
                        ids.clear();
                    }
                    encode(thread, text, &mut ids);
                }
                let bytes: usize = own.iter().map(|text| text.len()).sum();
                rates.lock().expect("no panic").push(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64());
            });
        }
    });
    let rates = rates.into_inner().expect("no panic");
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// How fast the reference encodes, in MB/s a thread. It takes little text, as it is slow.
fn reference_rate(json: &str, text: &str) -> f64 {
    let reference = tokenizers_reference::Tokenizer::from_bytes(json).expect("it loads");
    let encode = |_: usize, text: &str, ids: &mut Vec<u32>| {
        ids.extend_from_slice(reference.encode_fast(text, false).expect("ids").get_ids());
    };
    rate(&pieces(text, 16 << 10), false, &encode)
}

/// A line for each family and each file.
fn all_families(files: &[String]) {
    let text = common::text(BYTES / 3);
    let few = &text[..text.floor_char_boundary(BYTES / 24)];
    let learned = families().into_iter().map(|family| {
        let json = family.json(&[&text], 16_384);
        (family.name.to_owned(), json)
    });
    let read =
        files.iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a tokenizer.json")));
    println!(
        "MB/s a thread, {THREADS} threads: the engine that runs, the reference, and how many times as fast"
    );
    for (name, json) in learned.chain(read) {
        let tokenizer = common::loaded(&json, &text);
        let encode = |_: usize, text: &str, ids: &mut Vec<u32>| tokenizer.encode(text, ids).expect("ids");
        let ours = median((0..3).map(|_| rate(&pieces(&text, 16 << 10), true, &encode)).collect());
        let reference = reference_rate(&json, few);
        let engine = tokenizer.engine().to_string();
        println!("{ours:>8.1} {reference:>8.1} {:>8.0} {name}: {engine}", ours / reference);
    }
}

pub(crate) fn run(options: &Options, is_trial: bool) {
    let bytes = if is_trial { BYTES / 16 } else { BYTES };
    if let [first, files @ ..] = &options.files[..]
        && first == "families"
    {
        return all_families(files);
    }
    let text = text(options.files.get(1), bytes);
    let ours = match options.files.first() {
        Some(path) => common::loaded(&std::fs::read_to_string(path).expect("a tokenizer.json"), &text),
        None => common::learned(&text[..text.floor_char_boundary(bytes / 3)], 16_384),
    };
    let json = ours.json().to_owned();
    let engine = ours.engine().to_string();
    let warm = &text[..text.floor_char_boundary(bytes / 3)];
    let (shared, own) = (Bare::load(&json), [(); THREADS].map(|()| Bare::load(&json)));
    let ours = |_: usize, text: &str, ids: &mut Vec<u32>| ours.encode(text, ids).expect("ids");
    let shared = |_: usize, text: &str, ids: &mut Vec<u32>| shared.encode(text, ids);
    let own = |thread: usize, text: &str, ids: &mut Vec<u32>| own[thread].encode(text, ids);
    let engines: [Encode<'_>; 3] = [&shared, &own, &ours];

    println!(
        "MB/s a thread, {THREADS} threads      tokenizers 1.0 shared      of each thread      {engine} as the pipeline has it"
    );
    let row = |name: &str, is_warm: bool, rounds: usize, documents: &[&str]| {
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (engine, rates) in engines.iter().zip(&mut rates) {
                rates.push(rate(documents, is_warm, engine));
            }
        }
        let [shared, own, ours] = rates.map(median);
        println!("{name:>10} {shared:>45.0} {own:>19.0} {ours:>24.0}");
    };
    for size in SIZES {
        row(&format!("{size} B"), true, 3, &pieces(warm, size));
    }
    row("new text", false, 1, &pieces(&text[warm.len()..], 16 << 10));
    row("new words", false, 1, &pieces(&never_seen(bytes / 3), 16 << 10));
    let few = &text[..text.floor_char_boundary(bytes / 24)];
    println!("{:>10} {:>45.1}", "reference", reference_rate(&json, few));
}
