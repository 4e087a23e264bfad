//! The documents of each case, in memory and in files: the same ones.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::config::{Config, DocumentKind, SourceConfig};
use millstream::prepare::prepare;
use millstream::tokenizer::Tokenizer;

use crate::common::{self, kept, one_epoch, runtime};

/// How many files a corpus has, but where a document is one.
const FILES: usize = 16;

/// Longer files are generated tables, mostly.
const LONGEST_FILE: u64 = 256 << 10;

/// What a document is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Line,
    Paragraph,
    JsonLine,
    File,
    /// The ids of a paragraph, in token shards.
    Shard,
}

/// Documents of one shape, of about so many bytes.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    size: usize,
}

impl Case {
    pub(crate) const ALL: [Self; 7] = [
        Self { name: "text-8k", shape: Shape::Paragraph, size: 8 << 10 },
        Self { name: "text-1k", shape: Shape::Paragraph, size: 1 << 10 },
        Self { name: "lines-80", shape: Shape::Line, size: 80 },
        Self { name: "jsonl-1k", shape: Shape::JsonLine, size: 1 << 10 },
        Self { name: "jsonl-80", shape: Shape::JsonLine, size: 80 },
        Self { name: "files-8k", shape: Shape::File, size: 8 << 10 },
        Self { name: "shards", shape: Shape::Shard, size: 8 << 10 },
    ];

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|case| case.name).join(", ");
        Self::ALL.into_iter().find(|case| case.name == name).ok_or_else(|| format!("the cases are {names}"))
    }

    /// Whether a document is less than a line of the text, so that it is cut between words.
    fn is_line(self) -> bool {
        self.size < 1 << 10
    }
}

/// A text, a tokenizer, and the directory that keeps both.
pub(crate) struct Corpus {
    /// Without blank lines, so that any run of lines can be a paragraph.
    text: String,
    /// The same with spaces for line ends.
    line: String,
    directory: String,
    tokenizer: Arc<dyn Tokenizer>,
}

impl Corpus {
    /// A text of about so many MiB, which stays in the target directory.
    pub(crate) fn open(megabytes: usize) -> Self {
        let directory = format!("overhead-{megabytes}");
        let folder = kept(&directory, "", |folder| {
            let text = gather(megabytes << 20);
            std::fs::write(folder.join("text"), &text).expect("a file");
            common::learned(&text, 16_000).save(folder.join("tokenizer.json")).expect("a file");
        });
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
        let text = read("text");
        let line = text.replace('\n', " ");
        let tokenizer = common::loaded(&read("tokenizer.json"), &text);
        println!("engine: {}", tokenizer.engine());
        Self { text, line, directory, tokenizer: Arc::new(tokenizer) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The documents of a case, in the order of its files.
    pub(crate) fn documents(&self, case: Case) -> Vec<&str> {
        let text = if case.is_line() { &self.line } else { &self.text };
        cuts(text, case).map(|range| text[range].trim_end_matches(['\n', ' '])).collect()
    }

    /// The directory of a case's files, which are written unless they are there.
    fn folder(&self, case: Case) -> PathBuf {
        kept(&format!("{}/{}", self.directory, case.name), "", |folder| self.write(case, folder))
    }

    /// One epoch of a case.
    pub(crate) fn config(&self, case: Case, lanes: usize, workers: usize) -> Config {
        let folder = self.folder(case).display().to_string();
        let files = format!("{folder}/*.corpus");
        let source = match case.shape {
            Shape::JsonLine => SourceConfig::jsonl(files, "text"),
            Shape::Shard => SourceConfig::shards(folder),
            Shape::Line | Shape::Paragraph | Shape::File => SourceConfig::text(files),
        };
        let document = match case.shape {
            Shape::Paragraph => DocumentKind::Paragraph,
            Shape::File => DocumentKind::File,
            Shape::Line | Shape::JsonLine | Shape::Shard => DocumentKind::Line,
        };
        let mut config = one_epoch(SourceConfig { document, ..source });
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.window) = (lanes.into(), 1024.into());
        (pipeline.workers, pipeline.batch_size, pipeline.seq_len) = (workers.into(), 16, 1024);
        config
    }

    /// The files of a case.
    pub(crate) fn files(&self, case: Case) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder(case)).expect("a directory");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "corpus"));
        paths.sort();
        paths
    }

    fn write(&self, case: Case, folder: &Path) {
        if case.shape == Shape::Shard {
            let mut config = self.config(Case { name: "text-8k", shape: Shape::Paragraph, ..case }, 1, 2);
            config.tokenizer.path = folder.parent().map(|corpus| corpus.join("tokenizer.json"));
            runtime().block_on(prepare(&config, folder, |_| {})).expect("prepared");
            return;
        }
        let documents = self.documents(case);
        let files = if case.shape == Shape::File { documents.len() } else { FILES };
        for (number, part) in documents.chunks(documents.len().div_ceil(files)).enumerate() {
            let mut content = String::new();
            for document in part {
                match case.shape {
                    Shape::Line => writeln!(content, "{document}"),
                    Shape::Paragraph => writeln!(content, "{document}\n"),
                    Shape::JsonLine => {
                        writeln!(content, "{}", serde_json::json!({ "id": number, "text": document }))
                    }
                    Shape::File | Shape::Shard => write!(content, "{document}"),
                }
                .expect("a string takes all");
            }
            std::fs::write(folder.join(format!("{number:06}.corpus")), content).expect("a file");
        }
    }
}

/// Where the documents of a case lie: cut behind a blank, where they are long enough.
fn cuts(text: &str, case: Case) -> impl Iterator<Item = Range<usize>> + '_ {
    // Some bytes follow until the next blank: about a word of them, which counts where documents are short.
    let (blank, least) = if case.is_line() { (b' ', case.size - 8) } else { (b'\n', case.size) };
    let mut start = 0;
    std::iter::from_fn(move || {
        while start < text.len() {
            let from = (start + least).min(text.len());
            let end = memchr::memchr(blank, &text.as_bytes()[from..]).map_or(text.len(), |at| from + at + 1);
            let range = start..end;
            start = end;
            if !text[range.clone()].trim().is_empty() {
                return Some(range);
            }
        }
        None
    })
}

/// Rust that cargo has unpacked, and this crate's own for what is missing; without blank lines.
fn gather(bytes: usize) -> String {
    let mut files = common::unpacked();
    files.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() <= LONGEST_FILE));
    // Evenly over all crates, whatever their names.
    let mut gathered = String::with_capacity(bytes + (1 << 20));
    for file in (0..16).flat_map(|start| files.iter().skip(start).step_by(16)) {
        if gathered.len() >= bytes {
            return gathered;
        }
        let Ok(content) = std::fs::read_to_string(file) else { continue };
        append(&mut gathered, &content);
    }
    let rest = common::text(bytes.saturating_sub(gathered.len()));
    append(&mut gathered, &rest);
    gathered
}

fn append(text: &mut String, content: &str) {
    for line in content.lines().filter(|line| !line.trim().is_empty()) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
