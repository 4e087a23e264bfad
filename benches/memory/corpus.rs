//! The same documents in each format, made once, and the configs that read them without end.

use std::path::{Path, PathBuf};

use millstream::config::{ByteCount, Config, SourceConfig};
use millstream::prepare::prepare;
use millstream::tokenizer::learn::END_OF_TEXT;

use crate::server::{Content, Server};
use crate::{common, write};

/// About the length of a document, in bytes.
const DOCUMENT: usize = 2 << 10;

/// What the cache of remote data may take. It is less than the corpus, so that entries come and go.
const CACHE: ByteCount = ByteCount::mib(64);

pub(crate) struct Corpus {
    directory: PathBuf,
}

impl Corpus {
    /// Writes about `bytes` of text in all formats, unless they are there.
    pub(crate) fn make(bytes: usize) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}", bytes >> 20));
        let corpus = Self { directory };
        if !corpus.directory.join("done").exists() {
            corpus.write(bytes);
        }
        corpus
    }

    fn write(&self, bytes: usize) {
        let without_blanks = |document: String| {
            let lines: Vec<&str> = document.lines().filter(|line| !line.trim().is_empty()).collect();
            lines.join("\n")
        };
        let documents = common::documents(&common::text(bytes), DOCUMENT);
        let documents: Vec<String> = documents.into_iter().map(without_blanks).collect();
        let _ = std::fs::remove_dir_all(&self.directory);
        std::fs::create_dir_all(&self.directory).expect("a directory");
        let sample: String = documents.iter().take(4000).flat_map(|document| [document, "\n"]).collect();
        common::tokenizer(&sample).save(self.tokenizer()).expect("written");
        for format in write::FORMATS {
            let place = self.directory.join(format);
            std::fs::create_dir_all(&place).expect("a directory");
            if format == "shards" {
                let mut config = self.reading(self.source("jsonl"));
                config.pipeline.epochs = Some(1);
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(prepare(&config, &place, |_| {})).expect("prepared");
            } else {
                write::corpus(format, &documents, &place);
            }
        }
        std::fs::write(self.directory.join("done"), "").expect("written");
    }

    fn tokenizer(&self) -> PathBuf {
        self.directory.join("tokenizer.json")
    }

    fn source(&self, format: &str) -> SourceConfig {
        write::source(format, &self.directory.join(format))
    }

    fn reading(&self, source: SourceConfig) -> Config {
        let mut config = Config { sources: vec![source], ..Config::default() };
        config.tokenizer.path = Some(self.tokenizer());
        config.tokenizer.eos = Some(END_OF_TEXT.to_owned());
        config
    }

    /// Serves the JSON lines.
    pub(crate) fn serve(&self) -> Server {
        let files = std::fs::read_dir(self.directory.join("jsonl")).expect("the corpus");
        let content = |file: std::io::Result<std::fs::DirEntry>| {
            let file = file.expect("a file");
            let name = file.file_name().into_string().expect("a name");
            (name, Content::new(std::fs::read(file.path()).expect("it reads")))
        };
        Server::new(files.map(content))
    }

    /// Writes the config that reads a format, or what is served, and says where it is.
    pub(crate) fn config(&self, format: &str, memory: ByteCount, served: Option<&Server>) -> PathBuf {
        let mut source = self.source(if served.is_some() { "jsonl" } else { format });
        if let Some(server) = served {
            let files = server.state.files.lock().expect("no panic");
            source.paths = files.keys().map(|name| server.url(name.trim_start_matches('/'))).collect();
        }
        let mut config = self.reading(source);
        config.pipeline.memory = memory;
        if served.is_some() {
            config.store.cache = Some(self.directory.join("cache"));
            config.store.cache_limit = CACHE;
        }
        let path = self.directory.join(format!("{format}.json"));
        std::fs::write(&path, serde_json::to_string_pretty(&config).expect("JSON")).expect("written");
        path
    }
}
