//! Checks the settings of a source: which keys its kind takes, their bounds, and what they are together.

use super::super::bounds::Bounded;
use super::{
    ChatConfig, Contents, CsvConfig, DocumentKind, FimConfig, Learn, SampleConfig, Samples, SourceConfig,
    SourceKind, Task,
};
use crate::error::{Error, Result};
use crate::location::STDIN;

use SourceKind::{Arrow, Custom, Huggingface, Jsonl, Parquet, Shards, Synthetic, Tar, Text};

impl SourceConfig {
    pub(crate) fn validate(&self, key: &str) -> Result<()> {
        let wrong = |name: &str, problem: String| Err(Error::config(format!("{key}.{name}"), problem));
        let kind = self.kind;
        if let Some(name) = self.foreign_key() {
            return wrong(name, of_another_kind(kind, name));
        }
        self.check_bounds(key)?;
        if self.repo.is_some() && !self.paths.is_empty() {
            return wrong("repo", "paths name the dataset already; keep one of them".to_owned());
        }
        if self.revision.is_some() && self.repo.is_none() {
            let problem = "it is of the dataset that repo names; write hf://…@REVISION in paths, or set repo";
            return wrong("revision", problem.to_owned());
        }
        if self.texts.is_some() {
            if !matches!(kind, Text | Jsonl) {
                return wrong("kind", "texts in memory are of kind \"text\" or \"jsonl\"".to_owned());
            }
            if let Some(key) = self.key_of_files() {
                return wrong(key, "it is for files, and the texts are in memory; remove it".to_owned());
            }
        }
        if self.reads_nothing() {
            let problem = "no paths; name the corpus's files, such as \"corpus/**/*.txt\"";
            return wrong("paths", problem.to_owned());
        }
        self.validate_stdin(key)?;
        if kind == Huggingface && self.repo.is_none() && self.paths.len() != 1 {
            let paths = self.paths.len();
            return wrong(
                "paths",
                format!("a source of kind huggingface is one directory, and here are {paths}"),
            );
        }
        if !kind.is_built() {
            return Err(kind.unread(key));
        }
        if kind == Custom && self.format.is_none() {
            let problem = "a custom source needs the name of its format, such as \"records\"";
            return wrong("format", problem.to_owned());
        }
        self.validate_task(key)?;
        if self.field.is_none() && kind.takes("field") && !self.task.reads_records() {
            let problem = format!("a {kind} source needs the field that holds the text, such as \"text\"");
            return wrong("field", problem);
        }
        if let (Some(field), Jsonl | Parquet | Arrow | Tar) = (&self.field, kind) {
            require_path(field, &format!("{key}.field"))?;
        }
        self.validate_columns(&format!("{key}.columns"))?;
        self.validate_csv(&format!("{key}.csv"))?;
        self.validate_sample(&format!("{key}.sample"))?;
        self.validate_cache(&format!("{key}.cache"))
    }

    /// The first key that is set, and that only other kinds take.
    fn foreign_key(&self) -> Option<&'static str> {
        let keys = |config: &Self| serde_json::to_value(config).unwrap_or_default();
        let (set, default) = (keys(self), keys(&Self::default()));
        let mut all = SourceKind::ALL.iter().flat_map(|kind| kind.keys());
        all.find(|key| set[key] != default[key] && !self.kind.takes(key))
    }

    /// Whether it names nothing to read, or what it named was in memory and is gone.
    pub(crate) fn reads_nothing(&self) -> bool {
        let is_named = !self.paths.is_empty() || self.repo.is_some() || self.texts.is_some();
        !is_named && self.kind != Synthetic
    }

    /// The first key that is set, and that says something of files.
    fn key_of_files(&self) -> Option<&'static str> {
        let keys = [
            ("paths", !self.paths.is_empty()),
            ("split", self.split.is_some()),
            ("document", self.document != DocumentKind::default()),
            ("zstd_window", self.zstd_window.is_some()),
        ];
        keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
    }

    /// Checks standard input: it comes once, stands alone, and only text formats can be read from it.
    fn validate_stdin(&self, key: &str) -> Result<()> {
        let (name, problem) = if !self.is_stdin() {
            if !self.paths.iter().any(|path| path == STDIN) {
                return Ok(());
            }
            let problem =
                "\"-\" is standard input and stands alone; give the files a [[source]] of their own";
            ("paths", problem.to_owned())
        } else if self.kind.contents() != Contents::FramedText {
            let can = listed(|kind| kind.contents() == Contents::FramedText, " and ");
            ("kind", format!("{} cannot be read from standard input; {can} can", self.kind))
        } else if self.epochs.is_some_and(|epochs| epochs > 1) {
            ("epochs", "standard input comes only once; leave it out".to_owned())
        } else {
            return Ok(());
        };
        Err(Error::config(format!("{key}.{name}"), problem))
    }

    /// Checks what records are rendered to, and that nothing is set for another task.
    pub(crate) fn validate_task(&self, key: &str) -> Result<()> {
        let Self { kind, task, chat, fim, .. } = self;
        let is_chat = task.reads_records();
        let (name, problem) = if is_chat && *kind == Text {
            let problem = "plain text has no messages, prompts and completions; set kind = \"jsonl\", or the kind of \
                           another format with fields";
            ("task", problem)
        } else if !is_chat && !ChatConfig::is_default(chat) {
            ("chat", "it belongs to task = \"chat\" or \"completion\"; set one of them, or remove it")
        } else if *task != Task::Fim && !FimConfig::is_default(fim) {
            ("fim", "it belongs to task = \"fim\"; set that, or remove it")
        } else if *task != Task::Fim && *kind != Synthetic && self.seed.is_some() {
            ("seed", "nothing is drawn from it; set kind = \"synthetic\" or task = \"fim\", or remove it")
        } else if *task == Task::Completion && self.field.is_some() {
            let problem = "a completion is read from the fields `prompt` and `completion`; give them other names with \
                           chat.fields, and remove it";
            ("field", problem)
        } else if *task == Task::Completion && chat.learn != Learn::All {
            ("chat.learn", "all of a completion is learned from, whoever says it; remove it")
        } else if *task == Task::Completion && chat.samples != Samples::Chat {
            ("chat.samples", "a completion is one sample; set task = \"chat\", or remove it")
        } else {
            chat.validate(&format!("{key}.chat"))?;
            return fim.validate(&format!("{key}.fim"));
        };
        Err(Error::config(format!("{key}.{name}"), problem))
    }

    fn validate_columns(&self, key: &str) -> Result<()> {
        for (nth, name) in self.columns.iter().enumerate() {
            if name.is_empty() {
                let problem = "a name is empty; write it as \"lang\" or \"meta.url\", or remove it";
                return Err(Error::config(key, problem));
            }
            if self.columns[..nth].contains(name) {
                return Err(Error::config(key, format!("{name:?} is named twice; remove one of them")));
            }
            if let Jsonl | Parquet | Arrow | Tar = self.kind {
                require_path(name, key)?;
            }
        }
        Ok(())
    }

    fn validate_csv(&self, key: &str) -> Result<()> {
        let CsvConfig { delimiter, quote, escape } = &self.csv;
        let quote = Some(quote).filter(|quote| !quote.is_empty());
        for (name, value) in
            [("delimiter", delimiter.as_ref()), ("quote", quote), ("escape", escape.as_ref())]
        {
            let is_one =
                |value: &String| value.len() == 1 && value.is_ascii() && !value.contains(['\n', '\r', '\0']);
            if let Some(value) = value.filter(|value| !is_one(value)) {
                let problem = format!("{value:?} is not one ASCII character");
                return Err(Error::config(format!("{key}.{name}"), problem));
            }
        }
        if quote.is_some() && (quote == delimiter.as_ref() || quote == escape.as_ref()) {
            let problem =
                "the delimiter and the escape character must be others; two quotes stand for one anyway";
            return Err(Error::config(format!("{key}.quote"), problem));
        }
        if escape.is_some() && (quote.is_none() || escape == delimiter) {
            let problem = "it has a meaning within quotes only, and is not the delimiter; remove it";
            return Err(Error::config(format!("{key}.escape"), problem));
        }
        Ok(())
    }

    fn validate_sample(&self, key: &str) -> Result<()> {
        let Some(sample) = &self.sample else { return Ok(()) };
        let SampleConfig { field, .. } = sample;
        if self.kind == Jsonl {
            require_path(field, &format!("{key}.field"))?;
        }
        if self.field.as_ref() == Some(field) {
            let problem = format!("{field:?} is the text's field; name that of a number");
            return Err(Error::config(format!("{key}.field"), problem));
        }
        sample.check_bounds(key)
    }

    fn validate_cache(&self, key: &str) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let problem = if self.is_stdin() {
            "standard input comes only once; remove it"
        } else if self.sample.is_some() {
            "each epoch draws other documents, so that none sees whole splits; prepare token shards instead"
        } else {
            return cache.check_bounds(key);
        };
        Err(Error::config(key, problem))
    }
}

/// What to do about a key that is not of this kind of source.
fn of_another_kind(kind: SourceKind, key: &str) -> String {
    match (kind, key) {
        (Shards, "cache") => "shards are tokens already; remove it".to_owned(),
        (Shards, "sample") => "token shards have only ids; name the field when you prepare them".to_owned(),
        (Shards, "field" | "split" | "max_document_bytes" | "oversize" | "document" | "zstd_window") => {
            "token shards know what they were made of; remove it".to_owned()
        }
        _ => {
            let others = listed(|kind| kind.takes(key), " or ");
            format!("a source of kind {kind} has no `{key}`; remove it, or set kind = {others}")
        }
    }
}

/// The names of some kinds, in quotes.
fn listed(is_one: impl Fn(SourceKind) -> bool, between: &str) -> String {
    let kinds = SourceKind::ALL.iter().filter(|kind| is_one(**kind));
    kinds.map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(between)
}

fn require_path(path: &str, key: &str) -> Result<()> {
    if path.split('.').any(str::is_empty) {
        return Err(Error::config(key, format!("{path:?} has an empty part; write it as \"doc.text\"")));
    }
    Ok(())
}
