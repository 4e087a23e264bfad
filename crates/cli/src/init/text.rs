//! The text of a starter config.

use std::path::Path;

use super::part::Part;
use crate::words::{bytes, toml_of};
use millstream::config::{DocumentKind, SourceKind, Task, TokenizerConfig, TokenizerKind};
use millstream::source::Estimate;

/// The directory of the runs that configs begin.
pub(super) const RUNS: &str = "runs";

/// The longest rows of a starter config, in ids.
const LONGEST_ROW: u64 = 4096;

/// The text of the config at `output`, for sources with this size in total.
pub(super) fn toml(
    parts: &[Part],
    Estimate { text, documents, .. }: Estimate,
    ids: &TokenizerConfig,
    output: &Path,
) -> String {
    let name = output.file_stem().filter(|name| *name != "-").unwrap_or("millstream".as_ref());
    let out = toml_of(&Path::new(RUNS).join(name).to_string_lossy());
    let sources: String = (0..parts.len()).map(|number| source(parts, number)).collect();
    let has_shards = parts.iter().any(|part| part.config.kind == SourceKind::Shards);
    let (bytes, tokenizer) = (bytes(text), tokenizer(ids, has_shards));
    let (holdout, why) = match held_out(documents) {
        0.0 => ("0.0".to_owned(), "there are too few documents to keep some for validation"),
        share => (share.to_string(), "the share of documents kept for validation"),
    };
    let ([usual, rows, layers, d_model, heads, d_ff, steps], [lr, min_lr]) = shape(text);
    let (warmup, every) = (steps / 20, steps / 4);
    let mut records = parts.iter().filter(|part| part.config.task.reads_records()).peekable();
    let pack = match records.peek() {
        Some(_) => set("pack", "\"best_fit\"", "no row begins within a conversation"),
        None => String::new(),
    };
    let seq_len = records.fold(usual, |longest, part| longest.max(row_of_records(part.size, ids)));
    let batch_size = (rows * usual / seq_len).max(4);
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
    let Part { config, others, size, .. } = &parts[number];
    let kind = config.kind.name();
    let table = line("[[source]]", &format!("files: {}, about {} of text", size.files, bytes(size.text)));
    let mut lines = vec!["\n".to_owned(), table];
    if parts.len() > 1 {
        let before = parts[..number].iter().filter(|part| part.config.kind == config.kind).count();
        let name = if before == 0 { kind.to_owned() } else { format!("{kind}{}", before + 1) };
        lines.push(set("name", &toml_of(&name), ""));
        let share = "its share of the rows; without weights, in proportion to the files' lengths";
        lines.push(set("# weight", "1.0", share));
    }
    lines.push(set("kind", &toml_of(&kind), ""));
    let paths: Vec<String> = config.paths.iter().map(toml_of).collect();
    let paths = match &paths[..] {
        [one] => format!("[{one}]"),
        several => format!("[\n    {},\n]", several.join(",\n    ")),
    };
    lines.push(set("paths", &paths, ""));
    for (key, value) in [("subset", &config.subset), ("part", &config.part)] {
        lines.extend(value.as_ref().map(|value| set(key, &toml_of(value), "")));
    }
    if let Some(field) = &config.field {
        let why = match &others[..] {
            _ if config.task.reads_records() => String::new(),
            [] => "the only field with text".to_owned(),
            others => format!("other fields: {}", others.join(", ")),
        };
        lines.push(set("field", &toml_of(field), &why));
    }
    if let Some(delimiter) = &config.csv.delimiter {
        lines.push(set("csv", &format!("{{ delimiter = {} }}", toml_of(delimiter)), ""));
    }
    if config.task.reads_records() {
        let why = match config.task {
            Task::Completion => "a prompt and its completion, which is learned from",
            _ => {
                "conversations: the model's template renders them, and the assistant's turns are learned from"
            }
        };
        lines.push(set("task", &toml_of(&config.task), why));
        let field = |name: &str| Some(format!("{name} = {}", toml_of(config.chat.fields.get(name)?)));
        let fields = ["prompt", "completion"].into_iter().filter_map(field).collect::<Vec<_>>().join(", ");
        let others = others.join(", ");
        let unused = if others.is_empty() { others } else { format!("not used: {others}") };
        let template = "its file, unless it lies beside tokenizer.path";
        lines.push(match &*fields {
            "" => set("# chat.template", "\"chat_template.jinja\"", template),
            fields => set("chat.fields", &format!("{{ {fields} }}"), &unused),
        });
    }
    if config.kind == SourceKind::Text {
        let why = match config.document {
            DocumentKind::File => {
                "each file is a document: there are many short ones, or they are code or pages"
            }
            DocumentKind::Paragraph => "blank lines separate documents; \"line\" makes each line one",
            _ => "each line is a document; \"paragraph\" joins lines up to a blank one, \"file\" takes all",
        };
        lines.push(set("document", &toml_of(&config.document), why));
    }
    lines.push(match config.kind {
        SourceKind::Shards => "# tokens of `millstream prepare`: no text is tokenized again\n".to_owned(),
        _ => {
            set("on_error", "{ skip = 100 }", "up to 100 bad documents of each lane are left out and counted")
        }
    });
    lines.concat()
}

/// The tokenizer's table.
fn tokenizer(TokenizerConfig { path, train, eos, .. }: &TokenizerConfig, has_shards: bool) -> String {
    let bytes = |why: &str| set("kind", "\"bytes\"", why);
    let ids = match (path, train) {
        (Some(path), _) => set("path", &toml_of(&path.to_string_lossy()), ""),
        (None, Some(train)) => format!(
            "# Learned from the corpus. If you have a tokenizer.json, use path = \"tokenizer.json\" instead.\n\
            train = {{ vocab_size = {}, sample = \"{}\" }}\n",
            train.vocab_size, train.sample
        ),
        (None, None) if has_shards => bytes("as in the token shards, which have no tokenizer.json"),
        (None, None) => format!(
            "# There is too little text to learn from. If you have a tokenizer.json, use path = \"tokenizer.json\".\n{}",
            bytes("")
        ),
    };
    ids + &match eos {
        Some(eos) => set("eos", &toml_of(eos), "is put after every document"),
        None => set("# eos", "\"…\"", "name the token to put after every document"),
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

/// Rows, batches, a model and its training for so many bytes of text: `seq_len`, `batch_size`, `layers`, `d_model`, `heads`,
/// `d_ff` and `steps`; `lr` and `min_lr`.
fn shape(text: u64) -> ([u32; 7], [&'static str; 2]) {
    match text {
        text if text < 1 << 20 => ([64, 8, 2, 64, 2, 128, 200], ["3e-3", "3e-4"]),
        text if text < 128 << 20 => ([128, 16, 4, 128, 4, 384, 800], ["3e-3", "3e-4"]),
        text if text < 2 << 30 => ([256, 16, 6, 512, 8, 1536, 10000], ["1e-3", "1e-4"]),
        _ => ([1024, 16, 12, 768, 12, 2048, 20000], ["6e-4", "6e-5"]),
    }
}

/// How long rows should be for records of this size, so that most of them fit: three times their mean length.
fn row_of_records(Estimate { text, documents, .. }: Estimate, ids: &TokenizerConfig) -> u32 {
    let bytes_of_id = if ids.kind == TokenizerKind::Bytes { 1 } else { 3 };
    let length = 3 * text / (documents.max(1) * bytes_of_id);
    (length.min(LONGEST_ROW) as u32).next_power_of_two()
}

/// The share of so many documents to hold out, so that some surely are; 0 if there are too few.
fn held_out(documents: u64) -> f64 {
    match documents {
        0..100 => 0.0,
        100..400 => 0.1,
        400..4000 => 0.05,
        4000..200_000 => 0.01,
        _ => 0.001,
    }
}
