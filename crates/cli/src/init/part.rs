//! A part of the corpus: one source of the config, and the facts found about it.

use std::path::{Path, PathBuf};
use std::slice;

use super::InitArgs;
use crate::hint;
use millstream::config::{DocumentKind, OnError, SourceConfig, SourceKind, Task};
use millstream::source::{Estimate, RecordsFound, extension};
use millstream::{Error, Result, Source};

/// Extensions of programs and pages: each file is written to be read as a whole.
const WHOLE: [&str; 26] = [
    "rs", "py", "c", "h", "cc", "cpp", "hpp", "java", "js", "ts", "tsx", "go", "rb", "php", "cs", "swift",
    "kt", "scala", "hs", "lua", "sh", "sql", "tex", "html", "md", "rst",
];

/// With at least this many files, short files are documents.
const MANY: u64 = 8;

/// The longest mean length of files that are documents, in bytes.
const SHORT: u64 = 1 << 20;

/// The longest mean length of lines that are parts of paragraphs, in bytes.
const SHORT_LINE: u64 = 400;

/// One source of the config.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) config: SourceConfig,
    /// The first file, or the directory.
    pub(super) path: PathBuf,
    /// The fields that may hold text and are not read.
    pub(super) others: Vec<String>,
    pub(super) size: Estimate,
}

impl Part {
    /// What the files of `pattern` are, which `path` stands for: a file, or the directory that they lie in.
    pub(super) async fn new(kind: SourceKind, path: &Path, pattern: String, args: &InitArgs) -> Result<Self> {
        let mut config = SourceConfig { kind, paths: vec![pattern], ..SourceConfig::default() };
        if kind != SourceKind::Shards {
            config.on_error = OnError::Skip(100);
        }
        if kind == SourceKind::Huggingface {
            (config.subset, config.part) = (args.subset.clone(), args.part.clone());
        }
        let mut others = Vec::new();
        if !matches!(kind, SourceKind::Shards | SourceKind::Text) {
            match found(&config, args).await {
                Some(found) => {
                    (config.task, config.field, config.chat.fields) = (found.task, found.field, found.fields);
                    if !config.chat.fields.is_empty() {
                        others = Source::fields(&config).await.unwrap_or_default();
                        others.retain(|name| {
                            name != "prompt" && !config.chat.fields.values().any(|read| read == name)
                        });
                    }
                }
                None => others = records(&mut config, path, args.field.as_deref()).await?,
            }
        }
        Ok(Self { config, path: path.to_owned(), others, size: Estimate::default() })
    }

    /// The same with its size, and if it is plain text with what a document is there. Without a document it is refused.
    pub(super) async fn measured(mut self) -> Result<Self> {
        self.size = match self.config.kind {
            SourceKind::Text => plain(&mut self.config, &self.path).await?,
            _ => Source::estimate(&self.config).await?,
        };
        if self.size.documents > 0 {
            return Ok(self);
        }
        let path = self.path.display();
        let problem = format!("{path}: no document can be read there; name other files, or another --field");
        Err(Error::Corpus { problem })
    }

    /// Whether the records of a file of this kind are read by the same settings.
    pub(super) async fn takes(&self, kind: SourceKind, pattern: &str, args: &InitArgs) -> bool {
        let here = SourceConfig { paths: vec![pattern.to_owned()], ..self.config.clone() };
        if kind != here.kind || kind == SourceKind::Text {
            return kind == here.kind;
        }
        match (found(&here, args).await, &here.field) {
            (Some(found), field) => {
                found.task == here.task && found.field == *field && found.fields == here.chat.fields
            }
            (None, Some(field)) => {
                here.task == Task::Text && Source::text_field(&here, slice::from_ref(field)).await.is_some()
            }
            (None, None) => false,
        }
    }

    /// Whether both fit into one source.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let settings = |part: &Self| SourceConfig { paths: Vec::new(), ..part.config.clone() };
        let is_alone = matches!(self.config.kind, SourceKind::Huggingface | SourceKind::Shards);
        !is_alone && settings(self) == settings(other)
    }
}

/// Decides what a document is in plain text, and measures it.
async fn plain(config: &mut SourceConfig, path: &Path) -> Result<Estimate> {
    let of = |document| SourceConfig { document, ..config.clone() };
    let lines = Source::estimate(&of(DocumentKind::Line)).await?;
    let is_whole = WHOLE.contains(&extension(path).split('.').next().unwrap_or_default());
    let (document, documents) = if lines.text <= SHORT * lines.files && (is_whole || lines.files >= MANY) {
        (DocumentKind::File, lines.files)
    } else {
        // Without blank lines they may be too long to be read.
        let paragraphs = Source::estimate(&of(DocumentKind::Paragraph)).await.unwrap_or_default().documents;
        let is_told = paragraphs > lines.files && 20 * paragraphs >= lines.documents;
        match is_told && lines.text < SHORT_LINE * lines.documents {
            true => (DocumentKind::Paragraph, paragraphs),
            false => (DocumentKind::Line, lines.documents),
        }
    };
    config.document = document;
    Ok(Estimate { documents, ..lines })
}

/// The task that records look made for; `None` if that is plain text, or if the field with the text is named.
async fn found(config: &SourceConfig, args: &InitArgs) -> Option<RecordsFound> {
    match args.field {
        None => Source::recognize_records(config).await.ok().flatten(),
        Some(_) => None,
    }
}

/// Decides which field of records holds the text, and returns the others that may.
async fn records(config: &mut SourceConfig, path: &Path, wanted: Option<&str>) -> Result<Vec<String>> {
    let mut names = Source::fields(config).await;
    // A bad line does not matter if others have the usual field.
    let usual = ["text".to_owned()];
    if names.is_err() && Source::text_field(config, &usual).await.is_some() {
        names = Ok(usual.to_vec());
    }
    // Errors of other fields do not matter.
    let mut names = if wanted.is_some() { names.unwrap_or_default() } else { names? };
    if let ([name], SourceKind::Csv | SourceKind::Tsv) = (&names[..], config.kind)
        && let Some(delimiter) = name.chars().find(|c| [',', ';', '\t', '|'].contains(c))
    {
        config.csv.delimiter = Some(delimiter.to_string());
        names = Source::fields(config).await?;
    }
    config.field = match wanted {
        Some(wanted) => Some(wanted.to_owned()),
        None => Source::text_field(config, &names).await,
    };
    // A field that is named may have only numbers.
    let is_empty = wanted.is_some() && Source::estimate(config).await?.documents == 0;
    if is_empty || config.field.is_none() {
        // The error of a record that cannot be read says more.
        if let Some(field) = names.iter().find(|name| wanted.is_none_or(|wanted| wanted == *name)) {
            let field = Some(field.clone());
            Source::estimate(&SourceConfig { field, on_error: OnError::Fail, ..config.clone() }).await?;
        }
        let at = wanted.map(|wanted| format!(" at {wanted:?}")).unwrap_or_default();
        let (there, import) = (names.join(", "), hint::command(["import", "--help"]));
        let remedy = match names.is_empty() {
            true => "it has no field with text".to_owned(),
            false => format!("name the field that has some with --field NAME; there are: {there}"),
        };
        let tokens = match config.kind {
            SourceKind::Mds => format!("; if it holds tokens, `{import}` says how to read them"),
            _ => String::new(),
        };
        let problem = format!("{}: no text{at} in its first records; {remedy}{tokens}", path.display());
        return Err(Error::Corpus { problem });
    }
    names.retain(|name| Some(name) != config.field.as_ref());
    Ok(names)
}
