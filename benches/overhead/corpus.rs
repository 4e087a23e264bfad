//! The documents of each case, in memory and in files: the same ones.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::config::{Config, DocumentKind, LearnConfig, SourceConfig, SourceKind, SpecialTokens};
use millstream::prepare::prepare;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::{END_OF_TEXT, learn};

use super::text;

/// How many files a corpus has, but where a document is one.
const FILES: usize = 16;

/// Longer files are generated tables, mostly.
const LONGEST_FILE: u64 = 256 << 10;

/// How much the tokenizer is learned from.
const SAMPLE: usize = 16 << 20;

/// A shape of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Lines of about so many bytes.
    Lines(usize),
    /// Paragraphs.
    Text(usize),
    /// JSON lines.
    Jsonl(usize),
    /// Files.
    Files(usize),
    /// Token shards of paragraphs.
    Shards(usize),
}

impl Case {
    pub(crate) const ALL: [Self; 7] = [
        Self::Text(8 << 10),
        Self::Text(1 << 10),
        Self::Lines(80),
        Self::Jsonl(1 << 10),
        Self::Jsonl(80),
        Self::Files(8 << 10),
        Self::Shards(8 << 10),
    ];

    pub(crate) fn name(self) -> String {
        let (kind, size) = match self {
            Self::Lines(size) => ("lines", size),
            Self::Text(size) => ("text", size),
            Self::Jsonl(size) => ("jsonl", size),
            Self::Files(size) => ("files", size),
            Self::Shards(_) => return "shards".to_owned(),
        };
        if size >= 1 << 10 { format!("{kind}-{}k", size >> 10) } else { format!("{kind}-{size}") }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|case| case.name() == name).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.into_iter().map(Self::name).collect();
            format!("{name:?} is not a case; they are {}", names.join(", "))
        })
    }

    fn size(self) -> usize {
        let (Self::Lines(size)
        | Self::Text(size)
        | Self::Jsonl(size)
        | Self::Files(size)
        | Self::Shards(size)) = self;
        size
    }

    /// Whether a document is less than a line of the text, so that it is cut between words.
    fn is_line(self) -> bool {
        self.size() < 1 << 10
    }
}

/// A text, a tokenizer, and the directory that keeps both.
pub(crate) struct Corpus {
    /// Without blank lines, so that any run of lines can be a paragraph.
    text: String,
    /// The same with spaces for line ends.
    line: String,
    directory: PathBuf,
    tokenizer: Arc<dyn Tokenizer>,
}

impl Corpus {
    /// The text of about so many bytes; what lies in the target directory is used again.
    pub(crate) fn open(bytes: usize) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("overhead-{}", bytes >> 20));
        std::fs::create_dir_all(&directory).expect("a directory");
        let text = kept(&directory.join("text"), || gather(bytes));
        let line = text.replace('\n', " ");
        let json = kept(&directory.join("tokenizer.json"), || {
            let sample = &text[..text.floor_char_boundary(SAMPLE)];
            let config = LearnConfig { vocab_size: 16_000, ..LearnConfig::default() };
            learn([sample], &config, &[END_OF_TEXT]).expect("a tokenizer")
        });
        let mut tokenizer = HfTokenizer::from_json("overhead", json, SpecialTokens::Text).expect("it loads");
        let engine = tokenizer.trial([&text[..text.floor_char_boundary(1 << 20)]]);
        println!("engine: {engine:?}");
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

    /// One epoch of a case, from files that are written unless they are there.
    pub(crate) fn config(&self, case: Case, lanes: usize, workers: usize) -> Config {
        let directory = self.directory.join(case.name());
        let written = directory.join("written");
        if !written.exists() {
            std::fs::create_dir_all(&directory).expect("a directory");
            self.write(case, &directory);
            std::fs::write(written, "").expect("a file");
        }
        let path = directory.join(if matches!(case, Case::Shards(_)) { "" } else { "*.corpus" });
        let kind = match case {
            Case::Jsonl(_) => SourceKind::Jsonl,
            Case::Shards(_) => SourceKind::Shards,
            _ => SourceKind::Text,
        };
        let document = match case {
            Case::Text(_) => DocumentKind::Paragraph,
            Case::Files(_) => DocumentKind::File,
            _ => DocumentKind::Line,
        };
        let field = (kind == SourceKind::Jsonl).then(|| "text".to_owned());
        let paths = vec![path.display().to_string()];
        let source = SourceConfig { kind, paths, field, document, ..SourceConfig::default() };
        let mut config = Config { sources: vec![source], ..Config::default() };
        config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
        let pipeline = &mut config.pipeline;
        (pipeline.lanes, pipeline.window) = (lanes.into(), 1024.into());
        (pipeline.workers, pipeline.batch_size, pipeline.seq_len) = (workers.into(), 16, 1024);
        pipeline.epochs = Some(1);
        config
    }

    /// The files of a case, which are written.
    pub(crate) fn files(&self, case: Case) -> Vec<PathBuf> {
        let directory = self.directory.join(case.name());
        let entries = std::fs::read_dir(directory).expect("a directory");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "corpus"));
        paths.sort();
        paths
    }

    fn write(&self, case: Case, directory: &Path) {
        if let Case::Shards(size) = case {
            let mut config = self.config(Case::Text(size), 1, 2);
            config.tokenizer.path = Some(self.directory.join("tokenizer.json"));
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(prepare(&config, directory, |_| {})).expect("prepared");
            return;
        }
        let documents = self.documents(case);
        let files = if matches!(case, Case::Files(_)) { documents.len() } else { FILES };
        for (number, part) in documents.chunks(documents.len().div_ceil(files)).enumerate() {
            let mut content = String::new();
            for document in part {
                match case {
                    Case::Lines(_) => writeln!(content, "{document}"),
                    Case::Text(_) => writeln!(content, "{document}\n"),
                    Case::Jsonl(_) => {
                        writeln!(content, "{}", serde_json::json!({ "id": number, "text": document }))
                    }
                    Case::Files(_) | Case::Shards(_) => write!(content, "{document}"),
                }
                .expect("a string takes all");
            }
            std::fs::write(directory.join(format!("{number:06}.corpus")), content).expect("a file");
        }
    }
}

/// Where the documents of a case lie: cut behind a blank, where they are long enough.
fn cuts(text: &str, case: Case) -> impl Iterator<Item = Range<usize>> + '_ {
    // Some bytes follow until the next blank: about a word of them, which counts where documents are short.
    let (blank, least) = if case.is_line() { (b' ', case.size() - 8) } else { (b'\n', case.size()) };
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

/// What a file holds, made if it is not there.
fn kept(path: &Path, make: impl FnOnce() -> String) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|_| {
        let made = make();
        std::fs::write(path, &made).expect("a file");
        made
    })
}

/// Rust that cargo has unpacked, and this crate's own for what is missing; without blank lines.
fn gather(bytes: usize) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let mut files = Vec::new();
    home.into_iter().for_each(|home| walk(&home.join("registry/src"), &mut files));
    files.sort();
    // Evenly over all crates, whatever their names.
    let mut gathered = String::with_capacity(bytes + (1 << 20));
    for file in (0..16).flat_map(|start| files.iter().skip(start).step_by(16)) {
        if gathered.len() >= bytes {
            return gathered;
        }
        let Ok(content) = std::fs::read_to_string(file) else { continue };
        append(&mut gathered, &content);
    }
    let rest = text::text(bytes - gathered.len());
    append(&mut gathered, &rest);
    gathered
}

fn append(text: &mut String, content: &str) {
    for line in content.lines().filter(|line| !line.trim().is_empty()) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The Rust files below a directory that are not too long.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && entry.metadata().is_ok_and(|metadata| metadata.len() <= LONGEST_FILE)
        {
            files.push(path);
        }
    }
}
