//! Checks the settings of a source.

use super::super::require;
use super::{CsvConfig, DocumentKind, SampleConfig, SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::location::STDIN;

impl SourceConfig {
    pub(crate) fn validate(&self, key: &str) -> Result<()> {
        self.validate_synthetic(key)?;
        if self.paths.is_empty() && self.kind != SourceKind::Synthetic {
            return Err(Error::config(
                format!("{key}.paths"),
                "no paths; name the corpus's files, such as \"corpus/**/*.txt\"",
            ));
        }
        self.validate_stdin(key)?;
        self.validate_dataset(key)?;
        self.validate_shards(key)?;
        self.validate_columns(key)?;
        self.validate_csv(&format!("{key}.csv"))?;
        self.validate_cache(&format!("{key}.cache"))?;
        self.validate_zstd_window(&format!("{key}.zstd_window"))?;
        if self.epochs == Some(0) {
            return Err(Error::config(
                format!("{key}.epochs"),
                "must be at least 1, not 0; leave it out for pipeline.epochs",
            ));
        }
        match (self.kind, &self.field) {
            (SourceKind::Text | SourceKind::Synthetic, None) | (SourceKind::Shards | SourceKind::Rows, _) => {
            }
            (SourceKind::Text, Some(_)) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    "a text source has no fields; remove it, or set kind = \"jsonl\"",
                ));
            }
            (kind, None) => {
                return Err(Error::config(
                    format!("{key}.field"),
                    format!("a {} source needs the field that holds the text, such as \"text\"", kind.name()),
                ));
            }
            (SourceKind::Jsonl | SourceKind::Parquet | SourceKind::Arrow | SourceKind::Tar, Some(field)) => {
                require_path(field, &format!("{key}.field"))?;
            }
            (_, Some(_)) => {}
        }
        if let Some(sample) = &self.sample {
            self.validate_sample(sample, &format!("{key}.sample"))?;
        }
        if self.kind != SourceKind::Text && self.document != DocumentKind::Line {
            let what = if self.kind == SourceKind::Jsonl { "line" } else { "record" };
            let problem = format!(
                "each {what} of a {} source is a document; remove it, or set kind = \"text\"",
                self.kind.name()
            );
            return Err(Error::config(format!("{key}.document"), problem));
        }
        if let Some(split) = self.split {
            require(split.0 >= 1, &format!("{key}.split"), split, "at least 1 byte")?;
        }
        require(
            (1..=1 << 30).contains(&self.max_document_bytes.0),
            &format!("{key}.max_document_bytes"),
            self.max_document_bytes,
            "from 1 byte to 1GiB",
        )
    }

    /// Checks standard input: it comes once, stands alone, and only text formats can be read from it.
    fn validate_stdin(&self, key: &str) -> Result<()> {
        if !self.is_stdin() {
            return match self.paths.iter().any(|path| path == STDIN) {
                true => {
                    let problem =
                        "\"-\" is standard input and stands alone; give the files a [[source]] of their own";
                    Err(Error::config(format!("{key}.paths"), problem))
                }
                false => Ok(()),
            };
        }
        if !matches!(self.kind, SourceKind::Text | SourceKind::Jsonl) {
            let problem =
                format!("{} cannot be read from standard input; text and jsonl can", self.kind.name());
            return Err(Error::config(format!("{key}.kind"), problem));
        }
        if self.epochs.is_some_and(|epochs| epochs > 1) {
            let problem = "standard input comes only once; leave it out";
            return Err(Error::config(format!("{key}.epochs"), problem));
        }
        Ok(())
    }

    /// Checks what only tables in columns have.
    fn validate_columns(&self, key: &str) -> Result<()> {
        let is_columnar = matches!(self.kind, SourceKind::Parquet | SourceKind::Arrow);
        if is_columnar && cfg!(not(feature = "columnar")) {
            let problem =
                format!("this build cannot read {}; build with the feature `columnar`", self.kind.name());
            return Err(Error::config(format!("{key}.kind"), problem));
        }
        if self.filter.is_some() && !is_columnar && self.kind != SourceKind::Huggingface {
            let problem = format!("a {} source has no columns to look at; remove it", self.kind.name());
            return Err(Error::config(format!("{key}.where"), problem));
        }
        Ok(())
    }

    fn validate_dataset(&self, key: &str) -> Result<()> {
        let is_dataset = self.kind == SourceKind::Huggingface;
        if is_dataset && self.paths.len() != 1 {
            let problem =
                format!("a source of kind huggingface is one directory, and here are {}", self.paths.len());
            return Err(Error::config(format!("{key}.paths"), problem));
        }
        for (setting, value) in [("subset", &self.subset), ("part", &self.part)] {
            if !is_dataset && value.is_some() {
                let problem = "only a directory of kind huggingface has them; remove it";
                return Err(Error::config(format!("{key}.{setting}"), problem));
            }
        }
        Ok(())
    }

    fn validate_csv(&self, key: &str) -> Result<()> {
        if self.csv == CsvConfig::default() {
            return Ok(());
        }
        if !matches!(self.kind, SourceKind::Csv | SourceKind::Tsv | SourceKind::Huggingface) {
            let problem = format!("a {} source is no table of text; remove it", self.kind.name());
            return Err(Error::config(key, problem));
        }
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

    fn validate_zstd_window(&self, key: &str) -> Result<()> {
        let Some(window) = self.zstd_window else { return Ok(()) };
        match self.kind {
            SourceKind::Text
            | SourceKind::Jsonl
            | SourceKind::Csv
            | SourceKind::Tsv
            | SourceKind::Tar
            | SourceKind::Huggingface => {
                require((1 << 10..=1 << 31).contains(&window.0), key, window, "from 1KiB to 2GiB")
            }
            kind => Err(Error::config(key, format!("files of kind {} need none; remove it", kind.name()))),
        }
    }

    fn validate_cache(&self, key: &str) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let problem = match self.kind {
            SourceKind::Shards => "token shards are tokens already; remove it",
            SourceKind::Rows => "rows are tokens already; remove it",
            _ if self.is_stdin() => "standard input comes only once; remove it",
            _ if self.sample.is_some() => {
                "each epoch draws other documents, so that none sees whole splits; prepare token shards instead"
            }
            _ => {
                let is_limit = cache.limit.0 >= 1 << 20;
                return require(is_limit, &format!("{key}.limit"), cache.limit, "at least 1MiB");
            }
        };
        Err(Error::config(key, problem))
    }

    /// Refuses settings that token shards and rows fixed when they were made.
    fn validate_shards(&self, key: &str) -> Result<()> {
        let made = match self.kind {
            SourceKind::Shards => "token shards",
            SourceKind::Rows => "rows",
            _ => return Ok(()),
        };
        let default = Self::default();
        let fixed = [
            ("split", self.split != default.split),
            ("field", self.field != default.field),
            ("max_document_bytes", self.max_document_bytes != default.max_document_bytes),
            ("oversize", self.oversize != default.oversize),
        ];
        match fixed.iter().find(|(_, is_chosen)| *is_chosen) {
            None => Ok(()),
            Some((setting, _)) => {
                let problem = format!("{made} know what they were made of; remove it");
                Err(Error::config(format!("{key}.{setting}"), problem))
            }
        }
    }

    fn validate_sample(&self, SampleConfig { field, max }: &SampleConfig, key: &str) -> Result<()> {
        if matches!(
            self.kind,
            SourceKind::Text
                | SourceKind::Tar
                | SourceKind::Mds
                | SourceKind::Shards
                | SourceKind::Rows
                | SourceKind::Synthetic
        ) {
            let kind = self.kind.name();
            let problem = format!("a {kind} source has no weights; remove it, or set kind = \"jsonl\"");
            return Err(Error::config(key, problem));
        }
        if self.kind == SourceKind::Jsonl {
            require_path(field, &format!("{key}.field"))?;
        }
        if self.field.as_ref() == Some(field) {
            return Err(Error::config(
                format!("{key}.field"),
                format!("{field:?} is the text's field; name that of a number"),
            ));
        }
        require(max.is_finite() && *max > 0.0, &format!("{key}.max"), max, "a number above 0")
    }
}

fn require_path(path: &str, key: &str) -> Result<()> {
    if path.split('.').any(str::is_empty) {
        return Err(Error::config(key, format!("{path:?} has an empty part; write it as \"doc.text\"")));
    }
    Ok(())
}
