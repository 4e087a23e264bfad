//! A part of the corpus: one source of the config, and the facts found about it.

use std::path::{Path, PathBuf};

use super::InitArgs;
use super::measure::{Size, size, size_of_records, text_at};
use crate::hint;
use millstream::config::{DocumentKind, OnError, SourceConfig, SourceKind, Task};
use millstream::source::{RecordsFound, extension};
use millstream::{Error, Result, Source};

/// The usual names of the field with the text, the most usual first.
const USUAL: [&str; 10] =
    ["text", "content", "txt", "body", "document", "article", "raw_content", "markdown", "story", "md"];

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
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) config: SourceConfig,
    /// The first file, or the directory.
    pub(super) path: PathBuf,
    /// The findings, for the reader of the config.
    pub(super) why: String,
    pub(super) size: Size,
}

impl Part {
    /// Finds out where the text is in the files of `pattern`, and how much of it there is. `first` is the pattern of some of
    /// them, which tell their fields.
    pub(super) async fn new(
        kind: SourceKind,
        path: &Path,
        pattern: String,
        first: String,
        args: &InitArgs,
    ) -> Result<Self> {
        let mut config = SourceConfig { kind, paths: vec![pattern], ..SourceConfig::default() };
        if kind != SourceKind::Shards {
            config.on_error = OnError::Skip(100);
        }
        if kind == SourceKind::Huggingface {
            (config.subset, config.part) = (args.subset.clone(), args.part.clone());
        }
        let (why, size) = match kind {
            SourceKind::Shards => {
                let why = "tokens of `millstream prepare`: no text is tokenized again";
                (why.to_owned(), size(&config).await?)
            }
            SourceKind::Text => plain(&mut config, path).await?,
            _ => {
                let first = SourceConfig { paths: vec![first], ..config.clone() };
                if args.field.is_none()
                    && let Some(found) = Source::recognize_records(&first).await.ok().flatten()
                {
                    let (why, size) = tasks(&mut config, found).await?;
                    return Ok(Self { config, path: path.to_owned(), why, size });
                }
                records(&mut config, &first, path, args.field.as_deref()).await?
            }
        };
        Ok(Self { config, path: path.to_owned(), why, size })
    }

    /// Whether both fit into one source.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let settings = |part: &Self| SourceConfig { paths: Vec::new(), ..part.config.clone() };
        let is_alone = matches!(self.config.kind, SourceKind::Huggingface | SourceKind::Shards);
        !is_alone && settings(self) == settings(other)
    }
}

/// Decides what a document is in plain text, and says why.
async fn plain(config: &mut SourceConfig, path: &Path) -> Result<(String, Size)> {
    let size = size(config).await?;
    let extension = extension(path);
    let is_whole = WHOLE.contains(&extension.split('.').next().unwrap_or_default());
    let (document, documents, why) = if size.text <= SHORT * size.files && (is_whole || size.files >= MANY) {
        let why = "each file is a document: there are many short ones, or they are code or pages";
        (DocumentKind::File, size.files, why)
    } else if size.after_blank > 0
        && 20 * size.after_blank >= size.documents
        && size.text < SHORT_LINE * size.documents
    {
        let why = "blank lines separate documents; \"line\" makes each line one";
        (DocumentKind::Paragraph, size.after_blank + 1, why)
    } else {
        let why = "each line is a document; \"paragraph\" joins lines up to a blank one, \"file\" takes all";
        (DocumentKind::Line, size.documents, why)
    };
    config.document = document;
    Ok((why.to_owned(), Size { documents, ..size }))
}

/// Sets the task that records look made for, and says how to render them.
async fn tasks(config: &mut SourceConfig, found: RecordsFound) -> Result<(String, Size)> {
    (config.task, config.field) = (found.task, found.field);
    let why = match config.task {
        Task::Completion => "a prompt and its completion, which is learned from",
        _ => {
            "conversations: the model's chat template renders them, and the assistant's turns are learned from"
        }
    };
    Ok((why.to_owned(), size_of_records(config).await?))
}

/// Decides which field of records holds the text, and says which others there are, by the `first` files.
async fn records(
    config: &mut SourceConfig,
    first: &SourceConfig,
    path: &Path,
    wanted: Option<&str>,
) -> Result<(String, Size)> {
    let mut names = match (Source::fields(first).await, wanted) {
        (names, None) => names?,
        // Errors of other fields do not matter.
        (names, Some(_)) => names.unwrap_or_default(),
    };
    if let ([name], SourceKind::Csv | SourceKind::Tsv) = (&names[..], config.kind)
        && let Some(other) = name.chars().find(|c| [',', ';', '\t', '|'].contains(c))
    {
        let problem = format!(
            "{}: its columns are separated by {other:?}; write a .csv file with commas, or a .tsv file with tabs",
            path.display()
        );
        return Err(Error::Corpus { problem });
    }
    config.field = match wanted {
        Some(wanted) => Some(wanted.to_owned()),
        None => field(first, &mut names).await,
    };
    let size = if config.field.is_some() { size(config).await? } else { Size::default() };
    if size.documents == 0 {
        let at = wanted.map(|wanted| format!(" at {wanted:?}")).unwrap_or_default();
        let tokens = match config.kind {
            SourceKind::Mds => {
                let import = hint::command(["import", "--help"]);
                format!("; if it holds tokens, `{import}` says how to read them")
            }
            _ => String::new(),
        };
        let problem = format!(
            "{}: no text{at} in its first records; name the field that has some with --field NAME; there are: {}{tokens}",
            path.display(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
        return Err(Error::Corpus { problem });
    }
    names.retain(|name| Some(name) != config.field.as_ref());
    let why = match &names[..] {
        [] => "the only field with text".to_owned(),
        others => format!("other fields: {}", others.join(", ")),
    };
    Ok((why, size))
}

/// The field that holds the text: one with a usual name, or else the one with the longest text.
async fn field(first: &SourceConfig, names: &mut [String]) -> Option<String> {
    let usual = |name: &String| {
        let last = name.rsplit('.').next().unwrap_or(name);
        USUAL.iter().position(|usual| last.eq_ignore_ascii_case(usual))
    };
    names.sort_by_key(|name| (usual(name).unwrap_or(USUAL.len()), name.matches('.').count()));
    let (mut longest, mut most) = (None, 0);
    for name in &*names {
        let bytes = text_at(first, name).await;
        if bytes > most {
            (longest, most) = (Some(name.clone()), bytes);
        }
        if bytes > 0 && usual(name).is_some() {
            break;
        }
    }
    longest
}
