//! Reads single records again, at the places that batches name.

use super::Source;
use super::content::Content;
use super::formats::Opened;
use super::formats::records::Records;
use super::framing::{Framer, Shape};
use super::window::Window;
use crate::error::Result;
use crate::segment::Boundary;
use crate::store::Cancellable;

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 16 << 10;

impl Source {
    /// The records of file `file` that begin at these places, as they are stored or, in a table, as JSON: what a task
    /// renders. `None` where no record of UTF-8 begins, or one that is longer than `max_document_bytes`. Reads the file on
    /// the calling thread; compressed files fastest in the order of the places.
    pub(crate) fn records(&self, file: u32, places: &[u64]) -> Result<Vec<Option<String>>> {
        let opener = self.corpus.unplanned(Cancellable::never());
        let max = self.corpus.format(file).max;
        match self.corpus.open(file, &opener)? {
            Opened::Text(mut content, shape) => {
                places.iter().map(|place| framed(&mut content, shape, *place, max)).collect()
            }
            Opened::Records(mut records) => {
                places.iter().map(|place| record(&mut *records, *place, max)).collect()
            }
        }
    }
}

/// The text that begins at `byte`.
fn framed(content: &mut Content, shape: Shape, byte: u64, max: usize) -> Result<Option<String>> {
    let mut framer = Framer::new(shape, Boundary { byte, line: 0 });
    let mut bytes = Vec::new();
    loop {
        let read = bytes.len();
        content.read(byte + read as u64, READ_BYTES, &mut bytes)?;
        let frame = match framer.push(&bytes[read..]) {
            Some((_, frame)) => frame,
            None if bytes.len() == read => framer.finish(),
            None if bytes.len() > max => return Ok(None),
            None => continue,
        };
        bytes.truncate(usize::try_from(frame.len).unwrap_or(usize::MAX));
        return Ok(text(bytes, max));
    }
}

/// The record at `place`.
fn record(records: &mut dyn Records, place: u64, max: usize) -> Result<Option<String>> {
    let mut window = Window::default();
    records.take(place, place.saturating_add(1), READ_BYTES, &mut window)?;
    let found = window.framed.first().filter(|framed| framed.frame.start.byte == place);
    let bytes = found.map(|framed| {
        let end = framed.at.saturating_add(framed.frame.len as usize).min(window.bytes.len());
        window.bytes[framed.at..end].to_vec()
    });
    Ok(bytes.and_then(|bytes| text(bytes, max)))
}

fn text(bytes: Vec<u8>, max: usize) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty() && text.len() <= max)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use crate::config::SourceConfig;
    use crate::source::Source;

    #[tokio::test]
    async fn each_line_is_read_where_it_begins() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines.jsonl");
        let lines = ["{\"text\": \"one\"}".to_owned(), "x".repeat(40_000), "{}".to_owned()];
        let mut file = std::fs::File::create(&path).expect("a file");
        write!(file, "{}\r\n{}\n{}", lines[0], lines[1], lines[2]).expect("written");
        let starts = [0, lines[0].len() as u64 + 2, (lines[0].len() + lines[1].len()) as u64 + 3];
        let config = SourceConfig::jsonl(path.display().to_string(), "text");
        let source = Source::open(std::slice::from_ref(&config)).await.expect("a source");
        let found = source.records(0, &starts).expect("read");
        assert_eq!(found, lines.clone().map(Some));
        assert_eq!(source.records(0, &[starts[2] + 2]).expect("read"), [None], "nothing begins at the end");
        let short = SourceConfig { max_document_bytes: crate::config::ByteCount(100), ..config };
        let source = Source::open(&[short]).await.expect("a source");
        assert_eq!(
            source.records(0, &starts).expect("read"),
            [Some(lines[0].clone()), None, Some("{}".into())]
        );
    }
}
