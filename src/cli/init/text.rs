//! The text of a starter config.

use std::path::{Path, PathBuf};

use crate::config::{DocumentKind, SourceKind};

use super::part::Part;
use super::plan::{self, Learned, Shape, Size};

/// Where ids come from.
#[derive(Clone, Debug)]
pub(super) enum Ids {
    /// A tokenizer's file, and the token that ends documents in it, if it has one of the usual.
    File { path: PathBuf, eos: Option<String> },
    /// Learned from the corpus, or bytes if that is tiny.
    OwnText,
    /// Bytes, since token shards were made of them.
    Bytes,
}

/// Everything that is written.
#[derive(Clone, Debug)]
pub(super) struct Starter {
    /// The parts of each source.
    pub(super) sources: Vec<Vec<Part>>,
    pub(super) ids: Ids,
    pub(super) size: Size,
    /// The run's directory.
    pub(super) out: PathBuf,
}

impl Starter {
    /// Parts that are alike make one source.
    pub(super) fn new(parts: Vec<Part>, ids: Ids, out: PathBuf) -> Self {
        let size = Size {
            text: parts.iter().map(|part| part.text).sum(),
            documents: parts.iter().map(|part| part.documents).sum(),
        };
        let mut sources: Vec<Vec<Part>> = Vec::new();
        for part in parts {
            match sources.iter_mut().find(|source| source[0].is_like(&part)) {
                Some(source) => source.push(part),
                None => sources.push(vec![part]),
            }
        }
        Self { sources, ids, size, out }
    }

    /// The config.
    pub(super) fn toml(&self) -> String {
        let mut text = Text::default();
        let (bytes, documents) = (plan::bytes(self.size.text), self.size.documents);
        text.line(&format!("# A starting point for about {bytes} of text in about {documents} documents."));
        text.line("# Paths are relative to the directory that you run the program in. Keys that are not here have defaults.");
        text.line("");
        text.set("seed", "42", "draws the order, and the model's first weights");
        let names = self.names();
        for (source, name) in self.sources.iter().zip(&names) {
            self.source(&mut text, source, name);
        }
        self.tokenizer(&mut text);
        self.pipeline(&mut text);
        self.model(&mut text);
        text.0
    }

    /// A name for each source that tells what it is.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for source in &self.sources {
            let name = kind_name(source[0].kind);
            let like =
                names.iter().filter(|other| other.trim_end_matches(|c: char| c.is_ascii_digit()) == name);
            let number = like.count() + 1;
            names.push(if number == 1 { name.to_owned() } else { format!("{name}{number}") });
        }
        names
    }

    fn source(&self, text: &mut Text, parts: &[Part], name: &str) {
        let Part { kind, field, document, why, subset, part, .. } = &parts[0];
        let files: usize = parts.iter().map(|part| part.files).sum();
        let bytes = plan::bytes(parts.iter().map(|part| part.text).sum());
        text.table("[[source]]", &format!("files: {files}, about {bytes} of text"));
        if self.sources.len() > 1 {
            text.set("name", &quoted(name), "");
            text.set(
                "# weight",
                "1.0",
                "its share of the rows; without weights, in proportion to the files' lengths",
            );
        }
        text.set("kind", &quoted(kind_name(*kind)), "");
        let paths: Vec<String> = parts.iter().map(|part| quoted(&part.pattern)).collect();
        match &paths[..] {
            [one] => text.set("paths", &format!("[{one}]"), ""),
            several => text.set("paths", &format!("[\n    {},\n]", several.join(",\n    ")), ""),
        }
        if let Some((subset, others)) = subset {
            let others = others.join(", ");
            let others = if others.is_empty() { others } else { format!("there are also: {others}") };
            text.set("subset", &quoted(subset), &others);
        }
        if let Some(part) = part {
            text.set("part", &quoted(part), "");
        }
        if let Some(field) = field {
            text.set("field", &quoted(field), why);
        }
        if *kind == SourceKind::Text {
            let document = match document {
                DocumentKind::File => "\"file\"",
                DocumentKind::Paragraph => "\"paragraph\"",
                _ => "\"line\"",
            };
            text.set("document", document, why);
        }
        match kind {
            SourceKind::Shards => text.line(&format!("# {why}")),
            _ => text.set("on_error", "{ skip = 100 }", "logs and leaves out up to 100 bad documents"),
        }
    }

    fn tokenizer(&self, text: &mut Text) {
        text.line("");
        text.line("[tokenizer]");
        let (end, ends) = ("\"<|endoftext|>\"", "is put after every document");
        match (&self.ids, self.size.learned()) {
            (Ids::File { path, eos }, _) => {
                text.set("path", &quoted(&path.to_string_lossy()), "");
                match eos {
                    Some(eos) => text.set("eos", &quoted(eos), ends),
                    None => text.set("# eos", "\"…\"", "name the token to put after every document"),
                }
            }
            (Ids::OwnText, Some(Learned { vocab_size, sample })) => {
                let train = format!("{{ vocab_size = {vocab_size}, sample = \"{sample}\" }}");
                text.line("# Learned from the corpus. If you have a tokenizer.json, use path = \"tokenizer.json\" instead.");
                text.set("train", &train, "");
                text.set("eos", end, ends);
            }
            (Ids::OwnText, None) => {
                text.line("# There is too little text to learn from. If you have a tokenizer.json, use path = \"tokenizer.json\".");
                text.set("kind", "\"bytes\"", "");
                text.set("eos", end, ends);
            }
            (Ids::Bytes, _) => {
                text.set("kind", "\"bytes\"", "as in the token shards, which have no tokenizer.json");
                text.set("eos", end, ends);
            }
        }
    }

    fn pipeline(&self, text: &mut Text) {
        let Shape { seq_len, batch_size, .. } = self.size.shape();
        text.line("");
        text.line("[pipeline]");
        text.set("seq_len", &seq_len.to_string(), "tokens in a row");
        text.set("batch_size", &batch_size.to_string(), "rows in a batch");
        text.set(
            "lanes",
            "\"auto\"",
            "independent streams of documents: 16, or fewer for few and small files",
        );
        text.set("window", "\"auto\"", "documents that are shuffled together: 2048 over all lanes");
        match self.size.holdout() {
            0.0 => text.set("holdout", "0.0", "there are too few documents to keep some for validation"),
            share => text.set("holdout", &share.to_string(), "the share of documents kept for validation"),
        }
        text.set("# epochs", "1", "how often the corpus is read; without it, forever");
        text.set("memory", "\"512MiB\"", "bounds the text, ids and batches in flight");
    }

    fn model(&self, text: &mut Text) {
        let Shape { layers, d_model, heads, d_ff, steps, lr, min_lr, .. } = self.size.shape();
        text.table("[model]", "only training uses this and what follows");
        for (key, value) in [("layers", layers), ("d_model", d_model), ("heads", heads), ("d_ff", d_ff)] {
            text.set(key, &value.to_string(), "");
        }
        text.line("");
        text.line("[train]");
        text.set("out", &quoted(&self.out.to_string_lossy()), "the run's directory");
        text.set("steps", &steps.to_string(), "");
        text.set("lr", lr, "");
        text.set("min_lr", min_lr, "");
        text.set("warmup", &(steps / 20).to_string(), "");
        text.set("validate_every", &(steps / 4).to_string(), "");
        text.set("checkpoint_every", &(steps / 4).to_string(), "");
    }
}

/// Lines of TOML, with comments in one column.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// A key and its value, and what to know of it.
    fn set(&mut self, key: &str, value: &str, comment: &str) {
        self.commented(&format!("{key} = {value}"), comment);
    }

    /// A table, after a blank line.
    fn table(&mut self, name: &str, comment: &str) {
        self.line("");
        self.commented(name, comment);
    }

    fn commented(&mut self, line: &str, comment: &str) {
        match comment {
            "" => self.line(line),
            _ => self.line(&format!("{line:<29} # {comment}")),
        }
    }
}

/// What configs call a kind.
pub(super) fn kind_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Jsonl => "jsonl",
        SourceKind::Csv => "csv",
        SourceKind::Tsv => "tsv",
        SourceKind::Parquet => "parquet",
        SourceKind::Arrow => "arrow",
        SourceKind::Tar => "tar",
        SourceKind::Mds => "mds",
        SourceKind::Shards => "shards",
        SourceKind::Rows => "rows",
        SourceKind::Huggingface => "huggingface",
        _ => "text",
    }
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Where runs of a config go: by its name.
pub(super) fn run_directory(config: &Path) -> PathBuf {
    let name = config.file_stem().filter(|name| *name != "-").unwrap_or("millstream".as_ref());
    Path::new("runs").join(name)
}
