//! What a chat template costs: conversations of some 2 KB, beside the same texts without a template.
//!
//!     cargo bench -- chats
//!     cargo bench -- chats --template chatml --pairs 15
//!
//! The swept variable is the template, and with it how it is found what is learned from: `chatml` has generation
//! blocks, `llama` has markers of a known family, and `plain` has neither, so that each conversation is rendered
//! again. `chat` is a loader of the conversations. `text` is a loader of the texts that come of them, in a field of JSON
//! lines; it parses special tokens, so both make the same ids. Both pack whole documents into rows of 2,048 targets, and a
//! consumer only looks at the ids. They take turns, since machines drift, and the ratio is taken of each pair: the
//! table has its median, least and most. A time begins before the loader is opened.
//!
//! The conversations have four to eight messages, whose contents are the library's own Rust. They, the tokenizer, which
//! is learned from them, and the templates stay in the target directory: `benches/chats.py` reads them there.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use millstream::config::{ChatConfig, LearnConfig, PackRule, SourceConfig, SpecialTokens, Task};
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::learn;
use millstream::tokenizer::{END_OF_TEXT, Tokenizer};
use millstream::{Config, Loader};
use serde_json::{Value, json};

use crate::common::{self, kept, median, one_epoch, open, positive, random, runtime};

const TEMPLATES: [(&str, &str); 3] = [
    ("chatml", include_str!("chats/chatml.jinja")),
    ("llama", include_str!("chats/llama.jinja")),
    ("plain", include_str!("chats/plain.jinja")),
];

/// The tokens that the templates write.
const SPECIAL: [&str; 7] = [
    END_OF_TEXT, "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>",
];

/// What the library's own sources have, and conversations have not: tokens, and words that the renderer uses.
const FOREIGN: [&str; 5] = ["<|", "Qzj", "vXk", "Kxv", "jZq"];

/// About the length of a conversation's contents, in bytes.
const CONTENTS: usize = 1900;

const FILES: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which templates [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = TEMPLATES.map(|(name, _)| name))]
    template: Vec<String>,
    /// How often each side runs [default: 9]
    #[arg(long, value_name = "N", value_parser = positive)]
    pairs: Option<usize>,
    /// The size of the contents, in MiB [default: 64]
    #[arg(long, value_name = "N", value_parser = positive)]
    mb: Option<usize>,
    /// One side alone, for `perf` and `callgrind`
    #[arg(long)]
    only: Option<Side>,
}

/// What is read.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Side {
    Chat,
    Text,
}

pub(crate) fn run(options: &Options, is_trial: bool) {
    let corpus = Corpus::open(options.mb.unwrap_or(if is_trial { 1 } else { 64 }));
    let pairs = options.pairs.unwrap_or(if is_trial { 1 } else { 9 });
    println!(
        "{:<10} {:>7} {:>8} {:>13} {:>13} {:>8} {:>18}",
        "template", "chats", "bytes", "chat MB/s", "text MB/s", "ratio", "least to most"
    );
    let is_asked =
        |name: &str| options.template.is_empty() || options.template.iter().any(|asked| asked == name);
    for (template, _) in TEMPLATES.into_iter().filter(|(name, _)| is_asked(name)) {
        compare(&corpus, template, pairs, options.only);
    }
}

/// Runs both sides in turn and prints a line.
fn compare(corpus: &Corpus, template: &str, pairs: usize, only: Option<Side>) {
    let configs = [Side::Chat, Side::Text].map(|side| (side, corpus.config(template, side)));
    let (mut rates, mut made) = ([Vec::new(), Vec::new()], None);
    for pair in 0..pairs {
        // Who begins changes, so that neither is always the one that finds the caches warm.
        let mut turns = [0, 1];
        turns.rotate_left(pair % 2);
        for turn in turns {
            let (side, config) = &configs[turn];
            if only.is_none_or(|only| only == *side) {
                let (seconds, now) = load(config, corpus.tokenizer(*side));
                rates[turn].push(now.bytes as f64 / seconds / 1e6);
                assert_eq!(*made.get_or_insert(now), now, "{template}: both sides make the same ids");
            }
        }
    }
    let Made { documents, bytes, .. } = made.expect("one side at least");
    let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(chat, text)| 100.0 * chat / text).collect();
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let [chat, text] = rates.map(|rates| match rates.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.1}", median(rates)),
    });
    let (ratio, spread) = match ratios.is_empty() {
        true => ("-".to_owned(), "-".to_owned()),
        false => (format!("{:.1}%", median(ratios)), format!("{least:.1}% to {most:.1}%")),
    };
    let each = bytes / documents;
    println!("{template:<10} {documents:>7} {each:>8} {chat:>13} {text:>13} {ratio:>8} {spread:>18}");
}

/// What a loader made of all documents.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Made {
    documents: u64,
    /// Of text.
    bytes: u64,
    tokens: u64,
}

/// Reads all batches and looks at every id: the seconds that it took, and what was made.
fn load(config: &Config, tokenizer: &Arc<dyn Tokenizer>) -> (f64, Made) {
    runtime().block_on(async {
        let began = Instant::now();
        let mut loader = open(config, tokenizer, None).await;
        while let Some(batch) = loader.next().await {
            black_box(batch.expect("no error").ids().iter().fold(0_u32, |sum, id| sum.wrapping_add(*id)));
        }
        let seconds = began.elapsed().as_secs_f64();
        let meters = loader.meters();
        let tokenize = meters.stages.iter().find(|stage| stage.stage == "tokenize").expect("it is there");
        (seconds, Made { documents: tokenize.documents, bytes: tokenize.bytes, tokens: tokenize.tokens })
    })
}

/// The conversations, the texts that come of them, and the tokenizer for each.
struct Corpus {
    directory: PathBuf,
    chat: Arc<dyn Tokenizer>,
    text: Arc<dyn Tokenizer>,
}

impl Corpus {
    /// With so many MiB of contents. It stays in the target directory.
    fn open(megabytes: usize) -> Self {
        let text = common::text(megabytes << 20);
        let is_own = |line: &&str| !line.trim().is_empty() && !FOREIGN.iter().any(|word| line.contains(word));
        let lines: Vec<&str> = text.lines().filter(is_own).collect();
        let of = format!("{} {}", text.len(), TEMPLATES.map(|(_, source)| source).concat());
        let directory = kept(&format!("chats-{megabytes}"), &of, |directory| {
            let config = LearnConfig { vocab_size: 16_000, ..LearnConfig::default() };
            let json = learn([text.as_str()], &config, &SPECIAL).expect("a tokenizer");
            std::fs::write(directory.join("tokenizer.json"), json).expect("written");
            for (name, source) in TEMPLATES {
                std::fs::write(directory.join(format!("{name}.jinja")), source).expect("written");
            }
            write(&directory.join("chat"), &conversations(&lines));
        });
        let json = std::fs::read_to_string(directory.join("tokenizer.json")).expect("a tokenizer");
        let tokenizer = |special| -> Arc<dyn Tokenizer> {
            let mut tokenizer = HfTokenizer::from_json("bench", json.as_str(), special).expect("it loads");
            tokenizer.trial([&text]);
            Arc::new(tokenizer)
        };
        let (chat, text) = (tokenizer(SpecialTokens::Text), tokenizer(SpecialTokens::Parse));
        Self { directory, chat, text }
    }

    fn tokenizer(&self, side: Side) -> &Arc<dyn Tokenizer> {
        match side {
            Side::Chat => &self.chat,
            Side::Text => &self.text,
        }
    }

    /// One epoch of a side.
    fn config(&self, template: &str, side: Side) -> Config {
        let files = |folder: &Path| format!("{}/*.jsonl", folder.display());
        let mut config = match side {
            Side::Chat => {
                let template = Some(self.directory.join(format!("{template}.jinja")));
                let source = SourceConfig::jsonl(files(&self.directory.join("chat")), "messages");
                let chat = ChatConfig { template, ..ChatConfig::default() };
                one_epoch(source.with_task(Task::Chat).with_chat(chat))
            }
            Side::Text => {
                let mut config = one_epoch(SourceConfig::jsonl(files(&self.texts(template)), "text"));
                config.tokenizer.special_tokens = SpecialTokens::Parse;
                // The texts have all their special tokens. Rows are filled with the same one.
                config.tokenizer.pad = config.tokenizer.eos.take();
                config
            }
        };
        config.tokenizer.path = Some(self.directory.join("tokenizer.json"));
        (config.pipeline.lanes, config.pipeline.pack) = (4.into(), PackRule::BestFit);
        (config.pipeline.seq_len, config.pipeline.batch_size) = (2048, 8);
        config
    }

    /// The directory of the texts that come of the conversations, which are written unless they are there.
    fn texts(&self, template: &str) -> PathBuf {
        let name = self.directory.file_name().expect("a name").to_string_lossy();
        kept(&format!("{name}/{template}"), "", |folder| {
            let mut config = self.config(template, Side::Chat);
            config.pipeline.lanes = 1.into();
            let texts = Arc::new(Mutex::new(Vec::new()));
            let seen = texts.clone();
            let builder = Loader::builder(&config).with_tokenizer(self.chat.clone());
            let builder = builder.stage("see texts", move |documents, _| {
                let seen = seen.clone();
                let see = move |text: &str| seen.lock().expect("no panic").push(json!({ "text": text }));
                documents.inspect_ok(move |document| see(document.value.text())).boxed()
            });
            runtime().block_on(async {
                let loader = builder.open().await.expect("it opens");
                loader.try_for_each(|_| async { Ok(()) }).await.expect("no error");
            });
            write(folder, &texts.lock().expect("no panic"));
        })
    }
}

/// Writes records as files of JSON lines.
fn write(folder: &Path, records: &[Value]) {
    std::fs::create_dir_all(folder).expect("a directory");
    for (number, part) in records.chunks(records.len().div_ceil(FILES)).enumerate() {
        let lines: String = part.iter().map(|record| format!("{record}\n")).collect();
        std::fs::write(folder.join(format!("{number}.jsonl")), lines).expect("written");
    }
}

/// Conversations whose contents are the lines, in their order.
fn conversations(lines: &[&str]) -> Vec<Value> {
    let (mut lines, mut random) = (lines.iter().copied().peekable(), random());
    let mut below = move |end: usize| (random() >> 33) as usize % end;
    let mut conversations = Vec::new();
    while lines.peek().is_some() {
        let count = 4 + below(5);
        let mean = CONTENTS / count;
        let messages = (0..count).map(|number| {
            // The assistant comes last.
            let role = match (count - number) % 2 {
                _ if number == 0 && count % 2 == 1 => "system",
                1 => "assistant",
                _ => "user",
            };
            let (size, mut content) = (mean / 2 + below(mean), String::new());
            while let Some(line) = lines.next_if(|_| content.len() < size) {
                content.extend([line, "\n"]);
            }
            json!({ "role": role, "content": content.trim() })
        });
        conversations.push(json!({ "messages": messages.collect::<Vec<_>>() }));
    }
    // The lines may have ended within it.
    conversations.pop();
    conversations
}
