//! The corpora of all rounds: the same documents, or conversations, in each format, made when a round first asks for
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use millstream::config::{ByteCount, ChatConfig, Config, SourceConfig, SourceKind, Task, TokenizerConfig};
use millstream::prepare;
use tempfile::TempDir;

use crate::chats_in_files::{self, Chat, TEMPLATES};
use crate::samples;
use crate::shim::Shim;
use crate::support::runtime::block_on;
use crate::support::server::{Content, Server};

/// How many documents each corpus has, besides those that are broken.
pub(crate) const DOCUMENTS: usize = 300;

/// How many files a corpus has.
const FILES: usize = 4;

/// The formats of conversations.
pub(crate) const CHATS: [&str; 8] = [
    "chats.jsonl", "chats.csv", "chats.tsv", "chats.parquet", "chats.arrow", "chats.tar", "chats.mds",
    "chats.shards",
];

/// One conversation of so many has no answer, from this one on; and so many have none together.
const EACH_UNANSWERED: usize = 31;
const FIRST_UNANSWERED: usize = 7;
const UNANSWERED: usize = (DOCUMENTS - FIRST_UNANSWERED).div_ceil(EACH_UNANSWERED);

/// What the fussy tokenizer fails on.
pub(crate) const DISLIKED: char = '!';

/// One document of so many has it, and so many have it together.
const EACH_DISLIKED: usize = 29;
pub(crate) const DISLIKED_DOCUMENTS: usize = DOCUMENTS.div_ceil(EACH_DISLIKED);

/// Where everything lies that rounds make, and what they share.
pub(crate) struct Corpora {
    root: TempDir,
    /// How conversations are rendered.
    pub(crate) chat: ChatConfig,
    made: Mutex<BTreeSet<String>>,
    pub(crate) shim: Option<Shim>,
    server: Arc<Server>,
}

impl Corpora {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let (shim, chat) = (Shim::build(root.path()), TEMPLATES[0].chat(root.path()));
        let server = Arc::new(Server::new(std::iter::empty::<(String, Content)>()));
        Self { root, chat, made: Mutex::default(), shim, server }
    }

    /// Where all files of all rounds are.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// An empty directory for a round.
    pub(crate) fn scratch(&self) -> TempDir {
        tempfile::tempdir_in(self.root.path()).expect("a directory")
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// The directory of the corpus in this format. Some documents cannot be read in lines of text and of JSON.
    pub(crate) fn directory(&self, format: &str) -> PathBuf {
        let directory = self.root.path().join(format);
        if self.made.lock().expect("no panic").insert(format.to_owned()) {
            std::fs::create_dir(&directory).expect("a directory");
            match (format, inner(format)) {
                (_, "shards") => self.shards(format, &directory),
                ("text" | "jsonl", _) => {
                    samples::corpus(format, &documents(), &directory);
                    spoil(format, &directory);
                }
                _ if is_chats(format) => write_chats(format, &directory),
                _ => samples::corpus(format, &documents(), &directory),
            }
        }
        directory
    }

    /// How the corpus of this format in a directory is read.
    pub(crate) fn source(&self, format: &str, directory: &Path) -> SourceConfig {
        let source = samples::source(inner(format), directory);
        match source.kind {
            SourceKind::Shards => source,
            _ if is_chats(format) => {
                SourceConfig { field: None, ..source }.with_task(Task::Chat).with_chat(self.chat.clone())
            }
            _ => source,
        }
    }

    /// The URLs of the corpus in this format.
    pub(crate) fn urls(&self, format: &str) -> Vec<String> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.directory(format))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        let url = |path: PathBuf| {
            let name = format!("{format}/{}", path.file_name().expect("a name").to_string_lossy());
            self.server.set(&name, Content::new(std::fs::read(path).expect("a file")));
            self.server.url(&name)
        };
        files.into_iter().map(url).collect()
    }

    /// Makes shards of JSON lines, which lie elsewhere: another source of the round may read those.
    fn shards(&self, format: &str, directory: &Path) {
        let text = self.root.path().join(directory_of_documents(format));
        std::fs::create_dir(&text).expect("a directory");
        let lines = format.replace("shards", "jsonl");
        match is_chats(format) {
            true => write_chats(&lines, &text),
            false => samples::corpus(&lines, &documents(), &text),
        }
        let mut source = self.source(&lines, &text);
        source.split = Some(ByteCount(2000));
        let config = Config { tokenizer: TokenizerConfig::bytes(), ..Config::default().with_source(source) };
        block_on(prepare::prepare(&config, directory, |_| {})).expect("shards");
    }
}

/// Short and long documents, with and without line ends and what formats escape.
fn documents() -> Vec<String> {
    let words =
        ["one", "word", "of", "the \"text\"", "and, then", "größer", "漢字", "a\nline", "\\n", "tab\tbed"];
    let document = |n: usize| {
        let length = if n % 37 == 5 { 150 } else { 1 + n * 7 % 23 };
        let word = |at: usize| words[(n * 31 + at * at + at / 3) % words.len()];
        let text: Vec<&str> = (0..length).map(word).collect();
        let end = if n.is_multiple_of(EACH_DISLIKED) { DISLIKED } else { '.' };
        format!("{n} {}{end}", text.join(" "))
    };
    (0..DOCUMENTS).map(document).collect()
}

/// Questions, one of which has the whole document, and short answers; some conversations have none.
fn conversations() -> Vec<Chat> {
    let conversation = |(n, document): (usize, String)| {
        let system = n.is_multiple_of(5).then(|| ("system", format!("be {n}")));
        let turn = |turn: usize| {
            let question = if turn == 0 { document.clone() } else { format!("and {turn}?") };
            let answer = ("assistant", format!("größer {n} ").repeat(1 + (n + turn) % 4));
            let is_answered = n % EACH_UNANSWERED != FIRST_UNANSWERED;
            [Some(("user", question)), is_answered.then_some(answer)]
        };
        Chat(system.into_iter().chain((0..1 + n % 3).flat_map(turn).flatten()).collect())
    };
    documents().into_iter().enumerate().map(conversation).collect()
}

/// Whether a format has conversations.
pub(crate) fn is_chats(format: &str) -> bool {
    CHATS.contains(&format)
}

/// The format of the files of conversations, or that of other documents.
pub(crate) fn inner(format: &str) -> &str {
    format.strip_prefix("chats.").unwrap_or(format)
}

fn write_chats(format: &str, directory: &Path) {
    let source = samples::source(inner(format), directory);
    for (index, part) in conversations().chunks(DOCUMENTS.div_ceil(FILES)).enumerate() {
        let path = directory.join(format!("{index}.{}", inner(format)));
        std::fs::write(path, chats_in_files::bytes(source.kind, part)).expect("written");
    }
}

/// The last part of the directory where the documents of a corpus lie.
pub(crate) fn directory_of_documents(format: &str) -> String {
    if inner(format) == "shards" { format!("text of {format}") } else { format.to_owned() }
}

/// How many documents of a corpus are skipped, whatever the tokenizer: broken ones, and conversations without an answer,
/// which are not in shards.
pub(crate) fn skipped(format: &str) -> usize {
    match format {
        "text" | "jsonl" => 2 * FILES,
        "chats.shards" => 0,
        _ => left_out(format),
    }
}

/// How many conversations have no answer.
pub(crate) fn left_out(format: &str) -> usize {
    if is_chats(format) { UNANSWERED } else { 0 }
}

/// Adds broken documents to the files of a format that has lines.
fn spoil(format: &str, directory: &Path) {
    for file in 0..FILES {
        let path = directory.join(format!("{file}.{format}"));
        let mut bytes = std::fs::read(&path).expect("a file");
        let (end, broken): (&[u8], &[u8]) = match format {
            "text" => (b"\n\n", b"not \xff\xfe text\n\n"),
            _ => (b"\n", b"{\"text\": not JSON\n"),
        };
        let ends: Vec<usize> = bytes
            .windows(end.len())
            .enumerate()
            .filter(|(_, at)| *at == end)
            .map(|(at, _)| at + end.len())
            .collect();
        for at in [ends[ends.len() * 2 / 3], ends[3]] {
            bytes.splice(at..at, broken.iter().copied());
        }
        std::fs::write(&path, bytes).expect("written");
    }
}
