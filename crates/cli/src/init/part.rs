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

/// What conversations are, for the reader of the config.
const CHATS: &str =
    "conversations: the model's chat template renders them, and the assistant's turns are learned from";

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
    /// What the files of `pattern` are, which `path` stands for: a file, or the directory that they lie in.
    pub(super) async fn new(kind: SourceKind, path: &Path, pattern: String, args: &InitArgs) -> Result<Self> {
        let mut config = SourceConfig { kind, paths: vec![pattern], ..SourceConfig::default() };
        if kind != SourceKind::Shards {
            config.on_error = OnError::Skip(100);
        }
        if kind == SourceKind::Huggingface {
            (config.subset, config.part) = (args.subset.clone(), args.part.clone());
        }
        let path = path.to_owned();
        let why = match kind {
            SourceKind::Shards => "tokens of `millstream prepare`: no text is tokenized again".to_owned(),
            SourceKind::Text => String::new(),
            _ => match found(&config, args).await {
                Some(found) => {
                    (config.task, config.field) = (found.task, found.field);
                    match config.task {
                        Task::Completion => "a prompt and its completion, which is learned from",
                        _ => CHATS,
                    }
                    .to_owned()
                }
                None => {
                    let (why, size) = records(&mut config, &path, args.field.as_deref()).await?;
                    return Ok(Self { config, path, why, size });
                }
            },
        };
        Self { config, path, why, size: Size::default() }.measured().await
    }

    /// The same with the size of its files, and if they are plain text with what a document is there.
    pub(super) async fn measured(mut self) -> Result<Self> {
        match (self.config.kind, self.config.task) {
            (SourceKind::Text, _) => (self.why, self.size) = plain(&mut self.config, &self.path).await?,
            (_, Task::Text) => self.size = size(&self.config).await?,
            _ => self.size = size_of_records(&self.config).await?,
        }
        Ok(self)
    }

    /// Whether the records of a file of this kind are read by the same settings.
    pub(super) async fn takes(&self, kind: SourceKind, pattern: &str, args: &InitArgs) -> bool {
        let here = SourceConfig { paths: vec![pattern.to_owned()], ..self.config.clone() };
        if kind != here.kind || kind == SourceKind::Text {
            return kind == here.kind;
        }
        match (found(&here, args).await, &here.field) {
            (Some(found), field) => found.task == here.task && found.field == *field,
            (None, Some(field)) => here.task == Task::Text && text_at(&here, field).await > 0,
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

/// Decides what a document is in plain text, and says why.
async fn plain(config: &mut SourceConfig, path: &Path) -> Result<(String, Size)> {
    let of = |document| SourceConfig { document, ..config.clone() };
    let lines = size(&of(DocumentKind::Line)).await?;
    let extension = extension(path);
    let is_whole = WHOLE.contains(&extension.split('.').next().unwrap_or_default());
    let (document, documents, why) = if lines.text <= SHORT * lines.files && (is_whole || lines.files >= MANY)
    {
        let why = "each file is a document: there are many short ones, or they are code or pages";
        (DocumentKind::File, lines.files, why)
    } else {
        // Without blank lines they may be too long to be read.
        let paragraphs = size(&of(DocumentKind::Paragraph)).await.unwrap_or_default().documents;
        let is_told = paragraphs > lines.files && 20 * paragraphs >= lines.documents;
        if is_told && lines.text < SHORT_LINE * lines.documents {
            let why = "blank lines separate documents; \"line\" makes each line one";
            (DocumentKind::Paragraph, paragraphs, why)
        } else {
            let why =
                "each line is a document; \"paragraph\" joins lines up to a blank one, \"file\" takes all";
            (DocumentKind::Line, lines.documents, why)
        }
    };
    config.document = document;
    Ok((why.to_owned(), Size { documents, ..lines }))
}

/// The task that records look made for; `None` if that is plain text, or if the field with the text is named.
async fn found(config: &SourceConfig, args: &InitArgs) -> Option<RecordsFound> {
    match args.field {
        None => Source::recognize_records(config).await.ok().flatten(),
        Some(_) => None,
    }
}

/// Decides which field of records holds the text, says which others there are, and measures the text.
async fn records(config: &mut SourceConfig, path: &Path, wanted: Option<&str>) -> Result<(String, Size)> {
    let mut names = match (Source::fields(config).await, wanted) {
        (names, None) => names?,
        // Errors of other fields do not matter.
        (names, Some(_)) => names.unwrap_or_default(),
    };
    if let ([name], SourceKind::Csv | SourceKind::Tsv) = (&names[..], config.kind)
        && let Some(delimiter) = name.chars().find(|c| [',', ';', '\t', '|'].contains(c))
    {
        config.csv.delimiter = Some(delimiter.to_string());
        names = Source::fields(config).await?;
    }
    config.field = match wanted {
        Some(wanted) => Some(wanted.to_owned()),
        None => field(config, &mut names).await,
    };
    let all = if config.field.is_some() { size(config).await? } else { Size::default() };
    if all.documents == 0 {
        // The error of a record that cannot be read says more.
        let field = wanted.map(str::to_owned).or_else(|| names.first().cloned());
        if let Some(field) = field.filter(|field| names.contains(field)) {
            size(&SourceConfig { field: Some(field), on_error: OnError::Fail, ..config.clone() }).await?;
        }
        let at = wanted.map(|wanted| format!(" at {wanted:?}")).unwrap_or_default();
        let remedy = match &names[..] {
            [] => "it has no field with text".to_owned(),
            names => {
                format!("name the field that has some with --field NAME; there are: {}", names.join(", "))
            }
        };
        let tokens = match config.kind {
            SourceKind::Mds => {
                let import = hint::command(["import", "--help"]);
                format!("; if it holds tokens, `{import}` says how to read them")
            }
            _ => String::new(),
        };
        let problem = format!("{}: no text{at} in its first records; {remedy}{tokens}", path.display());
        return Err(Error::Corpus { problem });
    }
    names.retain(|name| Some(name) != config.field.as_ref());
    let why = match &names[..] {
        [] => "the only field with text".to_owned(),
        others => format!("other fields: {}", others.join(", ")),
    };
    Ok((why, all))
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
