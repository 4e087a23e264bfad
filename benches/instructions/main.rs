//! How many instructions the hot loops take, by callgrind, and how often they allocate: a check that does not depend
//! on time.
//!
//!     cargo bench --bench instructions               # compares with benches/instructions.json; fails if 3% more
//!     cargo bench --bench instructions -- --accept   # keeps what is counted now
//!     cargo bench --bench instructions -- --profile pack   # where one loop's go, by function
//!
//! Each loop is a chain of stages over the same documents, made on demand, so that there is one thread: documents of
//! some 80 bytes, but for `loader-8k`, whose documents have some 8 KiB, and `chats`, whose conversations have some
//! 2 KiB; ids are bytes. A chain is run over one epoch and over three in a process of its own under valgrind, and the
//! difference is divided by the documents of two, so that nothing counts that is done once. What a stage takes is what the
//! chain with it takes more than the one without it. Memory comes from an allocator that takes nothing back, or the
//! counts would differ from run to run.
//!
//! Counts depend on the compiler: under another than that of `instructions.json` they are shown and not judged.
//! It needs valgrind.

mod bump;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use futures::{Stream, StreamExt};
use millstream::config::{ChatConfig, Config, PackRule, Packing, SourceConfig, Task, TokenizerConfig};
use millstream::prepare::prepare;
use millstream::source::{Lane, Source};
use millstream::stage::{StageExt, Workers};
use millstream::tokenizer::{ByteTokenizer, Encoder};
use millstream::{Cursor, LaneCursor, Loader};
use serde::{Deserialize, Serialize};

#[global_allocator]
static MEMORY: bump::Bump = bump::Bump::new();

/// How much more fails.
const TOLERANCE: f64 = 0.03;

/// How often all loops are counted at most.
const ATTEMPTS: usize = 3;

/// What makes this program a child: a loop and how many epochs of it.
const LOOP: &str = "MILLSTREAM_LOOP";

const SHORT: usize = 80;
const SHORT_DOCUMENTS: usize = 16_000;
const LONG: usize = 8 << 10;
const LONG_DOCUMENTS: usize = 200;
const MESSAGE: usize = 320;
const CHATS: usize = 200;
/// Of a conversation.
const ROLES: [&str; 6] = ["user", "assistant", "user", "assistant", "user", "assistant"];

/// A chain, the one that it is longer than, and its documents.
struct Loop {
    name: &'static str,
    without: Option<&'static str>,
    documents: usize,
}

const LOOPS: [Loop; 10] = [
    Loop { name: "lines", without: None, documents: SHORT_DOCUMENTS },
    Loop { name: "tokenize", without: Some("lines"), documents: SHORT_DOCUMENTS },
    Loop { name: "shuffle", without: Some("tokenize"), documents: SHORT_DOCUMENTS },
    Loop { name: "pack", without: Some("shuffle"), documents: SHORT_DOCUMENTS },
    Loop { name: "batch", without: Some("pack"), documents: SHORT_DOCUMENTS },
    Loop { name: "jsonl", without: None, documents: SHORT_DOCUMENTS },
    Loop { name: "loader", without: None, documents: SHORT_DOCUMENTS },
    Loop { name: "loader-8k", without: None, documents: LONG_DOCUMENTS },
    Loop { name: "chats", without: None, documents: CHATS },
    Loop { name: "shards", without: None, documents: SHORT_DOCUMENTS },
];

/// The least instructions and allocations of each loop and number of epochs.
type Least = BTreeMap<(&'static str, u64), (u64, u64)>;

/// What a document takes in each loop, and the compiler that it holds for.
#[derive(Serialize, Deserialize)]
struct Counts {
    compiler: String,
    loops: BTreeMap<String, Count>,
}

/// What a document takes.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Count {
    instructions: f64,
    allocations: f64,
}

fn main() -> ExitCode {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    if let Ok(told) = std::env::var(LOOP) {
        let (name, epochs) = told.split_once(' ').expect("a loop and epochs");
        run(name, epochs.parse().expect("a number"), &directory);
        println!("{}", MEMORY.allocations());
        // What is torn down is not the loop's.
        std::process::exit(0);
    }
    make(&directory);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--profile") {
        return profile(arguments.get(at + 1).map_or("", String::as_str), &directory);
    }
    match count_and_judge(arguments.iter().any(|argument| argument == "--accept")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Counts every loop, and keeps the least that each took so far: waiting for threads only adds to it.
fn count(least: &mut Least) -> Result<BTreeMap<String, Count>, String> {
    let mut chains = BTreeMap::new();
    for it in &LOOPS {
        let mut counts = |epochs| -> Result<(u64, u64), String> {
            let (instructions, allocations) = counts(it.name, epochs)?;
            let least = least.entry((it.name, epochs)).or_insert((u64::MAX, u64::MAX));
            *least = (least.0.min(instructions), least.1.min(allocations));
            Ok(*least)
        };
        let (once, thrice) = (counts(1)?, counts(3)?);
        let each = |once: u64, thrice: u64| thrice.saturating_sub(once) as f64 / (2 * it.documents) as f64;
        chains.insert(it.name, (each(once.0, thrice.0), each(once.1, thrice.1)));
    }
    let round = |value: f64, digits: f64| (value * digits).round() / digits;
    let own = |it: &Loop| {
        let (whole, without) = (chains[it.name], it.without.map_or((0.0, 0.0), |without| chains[without]));
        let instructions = round(whole.0 - without.0, 10.0);
        Count { instructions, allocations: round(whole.1 - without.1, 1000.0) }
    };
    Ok(LOOPS.iter().map(|it| (it.name.to_owned(), own(it))).collect())
}

/// Counts, and counts again if a loop took more than was kept.
fn count_and_judge(accept: bool) -> Result<(), String> {
    let mut least = Least::new();
    for _ in 1..ATTEMPTS {
        if judge(&count(&mut least)?, accept).is_ok() {
            return Ok(());
        }
    }
    judge(&count(&mut least)?, accept)
}

/// Compares what was counted with what was kept, or keeps it.
fn judge(counted: &BTreeMap<String, Count>, accept: bool) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/instructions.json");
    let now = Counts { compiler: compiler()?, loops: counted.clone() };
    let kept: Option<Counts> = std::fs::read(&path).ok().and_then(|json| serde_json::from_slice(&json).ok());
    println!(
        "{:<10} {:>13} {:>10} {:>8} {:>12} {:>8}",
        "a document", "instructions", "kept", "change", "allocations", "kept"
    );
    let mut worse = Vec::new();
    for it in &LOOPS {
        let (now, was) = (counted[it.name], kept.as_ref().and_then(|kept| kept.loops.get(it.name)));
        let change = was.map(|was| now.instructions / was.instructions - 1.0);
        let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        println!(
            "{:<10} {:>13.1} {:>10} {:>8} {:>12.3} {:>8}",
            it.name,
            now.instructions,
            shown(was.map(|was| format!("{:.1}", was.instructions))),
            shown(change.map(|change| format!("{:+.1}%", change * 100.0))),
            now.allocations,
            shown(was.map(|was| format!("{:.3}", was.allocations))),
        );
        let allocates = was.is_some_and(|was| now.allocations > was.allocations * (1.0 + TOLERANCE) + 0.002);
        if change.is_none_or(|change| change > TOLERANCE) || allocates {
            worse.push(it.name);
        }
    }
    if accept {
        let json = serde_json::to_string_pretty(&now).map_err(|e| e.to_string())? + "\n";
        std::fs::write(&path, json).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("kept in benches/instructions.json");
        return Ok(());
    }
    let Some(kept) = kept else {
        return Err("nothing is kept yet: cargo bench --bench instructions -- --accept".to_owned());
    };
    if kept.compiler != now.compiler {
        println!("NOT JUDGED: counts were kept with {}, and this is {}", kept.compiler, now.compiler);
        return Ok(());
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a document takes more than was kept, or nothing was kept: {}; see where it goes with \
         `cargo bench --bench instructions -- --profile {}`, or accept it: \
         `cargo bench --bench instructions -- --accept`",
        worse.join(", "),
        worse[0]
    ))
}

fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().map_err(|e| format!("rustc: {e}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(format!("{version}, {}", std::env::consts::ARCH))
}

/// A loop in a process of its own under callgrind, its profile written to `out`: what both said, allocations on standard
/// output.
fn callgrind(name: &str, epochs: u64, out: &Path) -> Result<Output, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display())).arg(own);
    // No other variables: how much they take on the stack must not count.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env(LOOP, format!("{name} {epochs}"));
    let output = command.output();
    let output =
        output.map_err(|e| format!("valgrind: {e}; install it, as by `apt-get install valgrind`"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Instructions and allocations.
fn counts(name: &str, epochs: u64) -> Result<(u64, u64), String> {
    let output = callgrind(name, epochs, Path::new("/dev/null"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    let instructions = line.and_then(|count| count.trim().parse().ok());
    let allocations = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    instructions.zip(allocations).ok_or_else(|| format!("{name}: no count in {said}"))
}

/// Prints the functions that take most of a loop's instructions.
fn profile(name: &str, directory: &Path) -> ExitCode {
    if !LOOPS.iter().any(|it| it.name == name) {
        eprintln!("error: --profile takes one of {}", LOOPS.map(|it| it.name).join(", "));
        return ExitCode::FAILURE;
    }
    let out = directory.join("callgrind.out");
    if let Err(problem) = callgrind(name, 3, &out) {
        eprintln!("error: {problem}");
        return ExitCode::FAILURE;
    }
    match Command::new("callgrind_annotate").arg("--threshold=95").arg(&out).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        other => {
            eprintln!("error: callgrind_annotate: {other:?}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the documents in every format.
fn make(directory: &Path) {
    let write = |name: &str, content: String| {
        let home = directory.join(name);
        std::fs::create_dir_all(&home).expect("a directory");
        std::fs::write(home.join("corpus"), content).expect("a file");
    };
    let short: Vec<String> = documents(SHORT_DOCUMENTS, SHORT);
    let lines = |documents: &[String]| documents.iter().fold(String::new(), |text, line| text + line + "\n");
    write("lines", lines(&short));
    write("loader-8k", lines(&documents(LONG_DOCUMENTS, LONG)));
    let jsonl = short.iter().fold(String::new(), |mut text, document| {
        let line = serde_json::json!({ "id": 1, "text": document });
        writeln!(text, "{line}").expect("a string takes all");
        text
    });
    write("jsonl", jsonl);
    write("chats", chats());
    std::fs::write(directory.join("chats/template"), include_str!("../chats/chatml.jinja")).expect("a file");
    let shards = directory.join("shards");
    let _ = std::fs::remove_dir_all(&shards);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(prepare(&config("lines", 1, directory), &shards, |_| {})).expect("prepared");
}

/// The records of conversations.
fn chats() -> String {
    let record = |contents: &[String]| {
        let messages = ROLES.iter().zip(contents);
        let messages =
            messages.map(|(role, content)| serde_json::json!({ "role": role, "content": content }));
        serde_json::json!({ "messages": messages.collect::<Vec<_>>() }).to_string() + "\n"
    };
    documents(CHATS * ROLES.len(), MESSAGE).chunks(ROLES.len()).map(record).collect()
}

/// Documents of about so many bytes: words of a fixed sequence, some of them quoted.
fn documents(count: usize, bytes: usize) -> Vec<String> {
    const WORDS: [&str; 8] = ["stream", "the", "window", "of", "a", "cursor", "\"quoted\"", "deterministic"];
    let mut state = 1_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(state >> 61) as usize]
    };
    let document = |_| {
        let mut text = word().to_owned();
        while text.len() < bytes {
            text.push(' ');
            text.push_str(word());
        }
        text
    };
    (0..count).map(document).collect()
}

fn source(name: &str, directory: &Path) -> SourceConfig {
    let file = |name: &str| directory.join(name).join("corpus").display().to_string();
    match name {
        "jsonl" => SourceConfig::jsonl(file(name), "text"),
        "chats" => {
            let template = Some(directory.join("chats/template"));
            let chat = ChatConfig { template, ..ChatConfig::default() };
            SourceConfig::jsonl(file(name), "messages").with_task(Task::Chat).with_chat(chat)
        }
        "shards" => SourceConfig::shards(directory.join(name).display().to_string()),
        "loader-8k" => SourceConfig::text(file(name)),
        _ => SourceConfig::text(file("lines")),
    }
}

fn config(name: &str, epochs: u64, directory: &Path) -> Config {
    let tokenizer = TokenizerConfig::bytes().with_eos("<|endoftext|>");
    let mut config = Config::default().with_source(source(name, directory)).with_tokenizer(tokenizer);
    config.pipeline.window = 1024.into();
    config.pipeline.epochs = Some(epochs);
    config
}

/// So many epochs of a loop, on this thread. Another one, always one, opens the files.
fn run(name: &str, epochs: u64, directory: &Path) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        if ["loader", "loader-8k", "chats", "shards"].contains(&name) {
            let loader = Loader::builder(&config(name, epochs, directory)).with_on_demand(true).open();
            return drain(loader.await.expect("it opens")).await;
        }
        let source = Source::open(&[source(name, directory)]).await.expect("it opens").with_on_demand(true);
        let start = Cursor::default();
        let at: &LaneCursor = start.at(0, 0);
        let documents = source.lane(Lane { epochs: Some(epochs), ..Lane::default() }, at);
        if ["lines", "jsonl"].contains(&name) {
            return drain(documents).await;
        }
        let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos("<|endoftext|>").expect("it has it");
        let tokens = documents.tokenize(&encoder, &Workers::on_demand());
        if name == "tokenize" {
            return drain(tokens).await;
        }
        let shuffled = tokens.shuffle(1024, 42, at);
        if name == "shuffle" {
            return drain(shuffled).await;
        }
        let packed = shuffled.pack(Packing::new(PackRule::Concat, 1024), at);
        if name == "pack" {
            return drain(packed).await;
        }
        drain(packed.batch(16, 0, &start)).await;
    });
}

async fn drain<T>(mut items: impl Stream<Item = millstream::Result<T>> + Unpin) {
    while let Some(item) = items.next().await {
        black_box(&item.expect("no error"));
    }
}
