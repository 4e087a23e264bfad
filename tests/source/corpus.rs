//! Corpora on disk, what a stream delivers of them, and a naive reader to compare it with.

use std::fs;
use std::path::Path;

use futures::{Stream, StreamExt};
use millstream::config::{ByteCount, DocumentKind, Oversize, SourceConfig, SourceKind};
use millstream::files::Position;
use millstream::{Document, LaneCursor, Result, Source, Tracked};

pub(crate) use crate::support::runtime::block_on_here as run;

/// Files under a directory that is removed with it.
pub(crate) struct Corpus(tempfile::TempDir);

impl Corpus {
    pub(crate) fn new<N: AsRef<Path>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let corpus = Self(tempfile::tempdir().expect("a directory"));
        for (name, bytes) in files {
            corpus.write(name, bytes);
        }
        corpus
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// All files, as lines.
    pub(crate) fn lines(&self) -> SourceConfig {
        SourceConfig { paths: vec![self.path("**/*")], ..SourceConfig::default() }
    }

    /// All files, as JSON lines with a field `text`.
    pub(crate) fn jsonl(&self) -> SourceConfig {
        SourceConfig { kind: SourceKind::Jsonl, field: Some("text".to_owned()), ..self.lines() }
    }
}

/// Makes a named pipe, to which nobody writes.
#[cfg(unix)]
pub(crate) fn pipe(corpus: &Corpus, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(corpus.path(name)).status();
    assert!(made.expect("it runs").success());
}

/// What `work` gives, on another thread: it fails if `work` waits for ever.
#[cfg(unix)]
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends")
}

/// Opens one source.
pub(crate) async fn open(config: &SourceConfig) -> Source {
    Source::open(std::slice::from_ref(config)).await.expect("opened")
}

/// A document as a test compares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) position: Position,
    pub(crate) cursor: LaneCursor,
}

/// All that a stream delivers, and the error that ends it.
pub(crate) async fn drain(
    documents: impl Stream<Item = Result<Tracked<Document>>>,
) -> (Vec<Seen>, Option<millstream::Error>) {
    let mut documents = std::pin::pin!(documents);
    let mut seen = Vec::new();
    while let Some(document) = documents.next().await {
        match document {
            Ok(Tracked { value, cursor }) => {
                seen.push(Seen { text: value.text().to_owned(), position: value.position(), cursor });
            }
            Err(error) => {
                assert!(documents.next().await.is_none(), "nothing follows an error");
                return (seen, Some(error));
            }
        }
    }
    assert!(documents.next().await.is_none(), "nothing follows the end");
    (seen, None)
}

/// All that a stream delivers.
pub(crate) async fn all(documents: impl Stream<Item = Result<Tracked<Document>>>) -> Vec<Seen> {
    let (seen, error) = drain(documents).await;
    assert!(error.is_none(), "{error:?}");
    seen
}

pub(crate) fn texts(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.text.as_str()).collect()
}

/// A document that the naive reader finds: its line from 1, its byte, and its text unless it is skipped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) line: u64,
    pub(crate) byte: u64,
    pub(crate) text: Option<String>,
}

/// Reads one whole file, by definitions and not by the code under test.
pub(crate) fn naive(config: &SourceConfig, file: &[u8]) -> Vec<Expected> {
    let bom = if file.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let mut framed: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    if config.kind == SourceKind::Text && config.document == DocumentKind::File {
        framed.push((1, bom, file[bom..].to_vec()));
    } else {
        let mut byte = bom;
        let mut is_within = false;
        for (index, whole) in file[bom..].split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line = whole.strip_suffix(b"\r\n").or(whole.strip_suffix(b"\n")).unwrap_or(whole);
            if config.kind == SourceKind::Text && config.document == DocumentKind::Paragraph {
                let is_blank = line.trim_ascii().is_empty();
                if !is_blank && is_within {
                    let (_, start, text) = framed.last_mut().expect("the paragraph");
                    *text = file[*start..byte + line.len()].to_vec();
                } else if !is_blank {
                    framed.push((index as u64 + 1, byte, line.to_vec()));
                }
                is_within = !is_blank;
            } else {
                framed.push((index as u64 + 1, byte, line.to_vec()));
            }
            byte += whole.len();
        }
    }
    let max = config.max_document_bytes.as_usize();
    let entry = |(line, byte, mut bytes): (u64, usize, Vec<u8>)| {
        let is_long = bytes.len() > max;
        if is_long && config.oversize == Oversize::Truncate && config.kind == SourceKind::Text {
            let end = (1..4)
                .find_map(|cut| is_begun_character(&bytes[max.checked_sub(cut)?..max]).then(|| max - cut));
            let end = end.filter(|&end| std::str::from_utf8(&bytes[..end]).is_ok()).unwrap_or(max);
            bytes.truncate(end);
            if bytes.is_empty() {
                return Some(Expected { line, byte: byte as u64, text: None });
            }
        } else if is_long {
            return Some(Expected { line, byte: byte as u64, text: None });
        }
        let text = String::from_utf8(bytes).ok();
        let text = match (text, config.kind) {
            (Some(text), SourceKind::Text) => Some(text),
            (Some(text), SourceKind::Jsonl) if text.trim_ascii().is_empty() => Some(String::new()),
            (Some(text), _) => serde_json::from_str(&text)
                .ok()
                .and_then(|value: serde_json::Value| Some(value.get("text")?.as_str()?.to_owned())),
            (None, _) => None,
        };
        (text.as_deref() != Some("")).then_some(Expected { line, byte: byte as u64, text })
    };
    framed.into_iter().filter_map(entry).collect()
}

/// Whether more bytes could make these a character.
fn is_begun_character(bytes: &[u8]) -> bool {
    let more = [0x80, 0x90, 0xbf].iter().flat_map(|&fill| (1..4).map(move |n| vec![fill; n]));
    more.into_iter()
        .any(|more| std::str::from_utf8(&[bytes, &more].concat()).is_ok_and(|s| s.chars().count() == 1))
}

pub(crate) fn bound(bytes: usize) -> ByteCount {
    ByteCount(bytes as u64)
}
