//! The corpora of all rounds: the same documents in each format, made when a round first asks for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use millstream::config::{ByteCount, Config, TokenizerConfig};
use millstream::prepare;
use tempfile::TempDir;

use crate::samples;
use crate::shim::Shim;
use crate::support::runtime::block_on;
use crate::support::server::{Content, Server};

/// How many documents each corpus has, besides those that are broken.
pub(crate) const DOCUMENTS: usize = 300;

/// How many files a corpus has.
const FILES: usize = 4;

/// The directory of the text that shards are made of.
const TEXT_OF_SHARDS: &str = "text of shards";

/// What the fussy tokenizer fails on.
pub(crate) const DISLIKED: char = '!';

/// One document of so many has it, and so many have it together.
const EACH_DISLIKED: usize = 29;
pub(crate) const DISLIKED_DOCUMENTS: usize = DOCUMENTS.div_ceil(EACH_DISLIKED);

/// Where everything lies that rounds make, and what they share.
pub(crate) struct Corpora {
    root: TempDir,
    made: Mutex<BTreeSet<String>>,
    pub(crate) shim: Option<Shim>,
    server: Arc<Server>,
}

impl Corpora {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let shim = Shim::build(root.path());
        let server = Arc::new(Server::new(std::iter::empty::<(String, Content)>()));
        Self { root, made: Mutex::default(), shim, server }
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
            match format {
                "shards" => self.shards(&directory),
                _ => {
                    samples::corpus(format, &documents(), &directory);
                    spoil(format, &directory);
                }
            }
        }
        directory
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
    fn shards(&self, directory: &Path) {
        let text = self.root.path().join(TEXT_OF_SHARDS);
        std::fs::create_dir(&text).expect("a directory");
        samples::corpus("jsonl", &documents(), &text);
        let mut source = samples::source("jsonl", &text);
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

/// The last part of the directory where the documents of a corpus lie.
pub(crate) fn directory_of_documents(format: &str) -> &str {
    if format == "shards" { TEXT_OF_SHARDS } else { format }
}

/// How many documents of a corpus are broken.
pub(crate) fn broken(format: &str) -> usize {
    if is_spoiled(format) { 2 * FILES } else { 0 }
}

fn is_spoiled(format: &str) -> bool {
    matches!(format, "text" | "jsonl")
}

/// Adds broken documents to the files of a format that has lines.
fn spoil(format: &str, directory: &Path) {
    if !is_spoiled(format) {
        return;
    }
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
