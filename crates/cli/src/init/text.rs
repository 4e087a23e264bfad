//! The text of a starter config.

use std::path::{Path, PathBuf};

use super::measure::Size;
use super::part::Part;
use super::plan;
use crate::words::bytes;
use millstream::config::{DocumentKind, SourceConfig, SourceKind, Task};

/// The tokenizer of the config.
#[derive(Clone, Debug)]
pub(super) enum Ids {
    /// A tokenizer's file, and its token for the end of a document, if it has a usual one.
    File { path: PathBuf, eos: Option<String> },
    /// Learned from the corpus, or bytes if that is tiny.
    OwnText,
    /// Bytes, which the token shards have.
    Bytes,
}

/// The text of the config at `output`, for sources with this size in total.
pub(super) fn toml(parts: &[Part], Size { text, documents, .. }: Size, ids: &Ids, output: &Path) -> String {
    let name = output.file_stem().filter(|name| *name != "-").unwrap_or("millstream".as_ref());
    let out = quoted(&Path::new("runs").join(name).to_string_lossy());
    let sources: String = (0..parts.len()).map(|number| source(parts, number)).collect();
    let (bytes, tokenizer) = (bytes(text), tokenizer(ids, text));
    let (holdout, why) = match plan::holdout(documents) {
        0.0 => ("0.0".to_owned(), "there are too few documents to keep some for validation"),
        share => (share.to_string(), "the share of documents kept for validation"),
    };
    let ([seq_len, batch_size, layers, d_model, heads, d_ff, steps], [lr, min_lr]) = plan::shape(text);
    let (warmup, every) = (steps / 20, steps / 4);
    let pack = match parts.iter().any(|part| has_records(&part.config)) {
        true => set("pack", &quoted("best_fit"), "no row begins within a conversation"),
        false => String::new(),
    };
    format!(
        r#"# A starting point for about {bytes} of text in about {documents} documents.
# Paths are relative to the directory that you run the program in. Keys that are not here have defaults.

seed = 42                     # draws the order, and the model's first weights
{sources}
[tokenizer]
{tokenizer}
[pipeline]
seq_len = {seq_len:<19} # tokens in a row
batch_size = {batch_size:<16} # rows in a batch
{pack}lanes = "auto"                # independent streams of documents: 16, or fewer for few and small files
window = "auto"               # documents that are shuffled together: 2048 over all lanes
holdout = {holdout:<19} # {why}
# epochs = 1                  # how often the corpus is read; without it, forever
memory = "512MiB"             # bounds the text, ids and batches in flight

[model]                       # only training uses this and what follows
layers = {layers}
d_model = {d_model}
heads = {heads}
d_ff = {d_ff}

[train]
out = {out:<23} # the run's directory
steps = {steps}
lr = {lr}
min_lr = {min_lr}
warmup = {warmup}
validate_every = {every}
checkpoint_every = {every}
"#
    )
}

/// The table of one of these sources.
fn source(parts: &[Part], number: usize) -> String {
    let Part { config, why, size, .. } = &parts[number];
    let kind = config.kind.name();
    let table = line("[[source]]", &format!("files: {}, about {} of text", size.files, bytes(size.text)));
    let mut lines = vec!["\n".to_owned(), table];
    if parts.len() > 1 {
        let before = parts[..number].iter().filter(|part| part.config.kind == config.kind).count();
        let name = if before == 0 { kind.to_owned() } else { format!("{kind}{}", before + 1) };
        lines.push(set("name", &quoted(&name), ""));
        let share = "its share of the rows; without weights, in proportion to the files' lengths";
        lines.push(set("# weight", "1.0", share));
    }
    lines.push(set("kind", &quoted(kind), ""));
    let paths: Vec<String> = config.paths.iter().map(|path| quoted(path)).collect();
    let paths = match &paths[..] {
        [one] => format!("[{one}]"),
        several => format!("[\n    {},\n]", several.join(",\n    ")),
    };
    lines.push(set("paths", &paths, ""));
    let of_field = if has_records(config) { "" } else { why };
    for (key, value, why) in
        [("subset", &config.subset, ""), ("part", &config.part, ""), ("field", &config.field, of_field)]
    {
        lines.extend(value.as_ref().map(|value| set(key, &quoted(value), why)));
    }
    if let Some(delimiter) = &config.csv.delimiter {
        lines.push(set("csv", &format!("{{ delimiter = {} }}", quoted(delimiter)), ""));
    }
    if has_records(config) {
        let task = if config.task == Task::Chat { "chat" } else { "completion" };
        lines.push(set("task", &quoted(task), why));
        let template = "its file, unless it lies beside tokenizer.path";
        lines.push(set("# chat", "{ template = \"chat_template.jinja\" }", template));
    }
    if config.kind == SourceKind::Text {
        let document = match config.document {
            DocumentKind::Line => "line",
            DocumentKind::Paragraph => "paragraph",
            DocumentKind::File => "file",
        };
        lines.push(set("document", &quoted(document), why));
    }
    lines.push(match config.kind {
        SourceKind::Shards => format!("# {why}\n"),
        _ => set("on_error", "{ skip = 100 }", "logs and leaves out up to 100 bad documents"),
    });
    lines.concat()
}

/// Whether a template renders the records of a source.
fn has_records(config: &SourceConfig) -> bool {
    matches!(config.task, Task::Chat | Task::Completion)
}

/// The tokenizer's table, for so many bytes of text.
fn tokenizer(ids: &Ids, text: u64) -> String {
    let ends = "is put after every document";
    let end = set("eos", &quoted("<|endoftext|>"), ends);
    let bytes = |why: &str| set("kind", &quoted("bytes"), why);
    match (ids, plan::learned(text)) {
        (Ids::File { path, eos }, _) => {
            let eos = match eos {
                Some(eos) => set("eos", &quoted(eos), ends),
                None => set("# eos", "\"…\"", "name the token to put after every document"),
            };
            set("path", &quoted(&path.to_string_lossy()), "") + &eos
        }
        (Ids::OwnText, Some((vocab_size, sample))) => format!(
            "# Learned from the corpus. If you have a tokenizer.json, use path = \"tokenizer.json\" instead.\n\
            train = {{ vocab_size = {vocab_size}, sample = \"{sample}\" }}\n{end}"
        ),
        (Ids::OwnText, None) => format!(
            "# There is too little text to learn from. If you have a tokenizer.json, use path = \"tokenizer.json\".\n\
            {}{end}",
            bytes("")
        ),
        (Ids::Bytes, _) => bytes("as in the token shards, which have no tokenizer.json") + &end,
    }
}

/// A key, its value, and a comment.
fn set(key: &str, value: &str, comment: &str) -> String {
    line(&format!("{key} = {value}"), comment)
}

/// A line of TOML. Comments are in one column.
fn line(line: &str, comment: &str) -> String {
    if comment.is_empty() { format!("{line}\n") } else { format!("{line:<29} # {comment}\n") }
}

/// A string in TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
