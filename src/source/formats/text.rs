//! Text that is framed by its bytes alone: lines, paragraphs, whole files, and lines of JSON. A `.json` file may be one
//! array instead.
//!
//! A file is cut between documents, or between the frames of a compressed file.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::array::{JsonArray, is_array};
use super::format::{Candidate, Format, Opened, Unopened};
use super::records::{Records, small_layout};
use crate::config::{DocumentKind, SourceConfig, SourceKind};
use crate::error::{Error, Result, Unit};
use crate::files::{Codec, DetectedCodec};
use crate::source::content::{Content, Frames, ReadEnd, packed, text_codec};
use crate::source::framing::{Shape, bom_len};
use crate::source::json_path::strings;
use crate::source::layout::{Laid, Layout};
use crate::source::problem::Unread;
use crate::source::split_size::{LONGEST, SHORTEST, SplitSize};
use crate::source::window::Window;
use crate::store::Stored;

/// Documents are long if no second one begins within this many bytes from a file's start.
const PROBED: u64 = 64 << 10;

/// How much of an array is read to learn the names of its fields, in bytes.
const SCANNED_BYTES: usize = 256 << 10;

/// How much is read to find the first lines, in bytes, and how much if the first one is longer.
const HEAD_BYTES: [usize; 2] = [1 << 20, 32 << 20];

/// How many values of JSON are looked at to learn the names of their fields.
const LOOKED_AT: usize = 64;

/// The Hugging Face libraries' name for the only column of a text file.
const COLUMN: &str = "text";

/// Text whose documents have one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    shape: Shape,
    is_json: bool,
    /// The longest document, in bytes.
    max: usize,
    zstd_window: u64,
}

impl Text {
    /// The text of a source: the kind of its documents; each line of JSON is one.
    pub(super) fn new(config: &SourceConfig) -> Self {
        let shape = match config.document {
            DocumentKind::Line => Shape::Line,
            DocumentKind::Paragraph => Shape::Paragraph,
            DocumentKind::File => Shape::File,
        };
        Self {
            shape,
            is_json: config.kind == SourceKind::Jsonl,
            max: config.max_document_bytes.as_usize(),
            zstd_window: config.zstd_window(),
        }
    }
}

impl Format for Text {
    fn shape(&self) -> Option<Shape> {
        Some(self.shape)
    }

    fn is_sought(&self, path: &Path) -> bool {
        !self.can_be_array(path)
    }

    fn looks_at(&self, file: Candidate) -> bool {
        self.shape != Shape::File && (file.is_long || file.is_longest)
    }

    fn layout(&self, file: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let stored = file.stored()?;
        if let Some(array) = self.array(&stored, true)? {
            let (packed, len) = (packed(&*stored)?, stored.len());
            return match packed {
                Some(held) => Ok(Laid { layout: Layout::Whole, held }),
                None => small_layout(Box::new(array), len, split_size),
            };
        }
        match stored.len() <= split_size.bytes {
            true => Ok(Laid { layout: Layout::Whole, held: packed(&*stored)?.unwrap_or(0) }),
            false => cut(stored, self.shape, split_size),
        }
    }

    fn open(&self, file: Unopened<'_>, layout: &Layout) -> Result<Opened> {
        let stored = file.stored()?;
        let content = match layout {
            Layout::Even(_) | Layout::Documents(_) => Content::plain(stored),
            Layout::Frames(frames) => Content::in_frames(stored, frames.clone(), self.zstd_window)?,
            Layout::Whole | Layout::Cuts(_) => {
                if let Some(array) = self.array(&stored, matches!(layout, Layout::Whole))? {
                    return Ok(Opened::records(array));
                }
                Content::open_text(stored, self.zstd_window)?
            }
        };
        Ok(Opened::Text(content, self.shape))
    }

    fn fields(&self, file: Unopened<'_>) -> Result<Vec<String>, Unread> {
        if !self.is_json {
            return Ok(vec![COLUMN.to_owned()]);
        }
        let mut names = BTreeSet::new();
        self.values(file.stored()?)?.iter().for_each(|value| strings(value, "", &mut names));
        Ok(names.into_iter().collect())
    }
}

impl Text {
    /// The first values of a file of JSON.
    fn values(&self, stored: Arc<dyn Stored>) -> Result<Vec<Value>> {
        if let Some(mut array) = self.array(&stored, false)? {
            let mut window = Window::default();
            array.take(0, u64::MAX, SCANNED_BYTES, &mut window)?;
            let values = serde_json::Deserializer::from_slice(&window.bytes).into_iter::<Value>();
            return Ok(values.take(LOOKED_AT).map_while(Result::ok).collect());
        }
        let mut content = Content::open_text(stored, self.zstd_window)?;
        let head = head(&mut content)?;
        let (mut values, mut next) = (Vec::new(), bom_len(&head));
        for (line, number) in head[next..].split(|byte| *byte == b'\n').zip(1..).take(LOOKED_AT) {
            let byte = next as u64;
            next += line.len() + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            values.push(serde_json::from_slice(line).map_err(|e| Error::Document {
                path: content.path().to_owned(),
                line: number,
                unit: Unit::Byte,
                byte,
                problem: format!("this line is not JSON: {e}"),
                remedy: "mend it: each line of such a file is one JSON value".to_owned(),
            })?);
        }
        Ok(values)
    }
}

/// The first lines of a text: whole ones, or the beginning of a very long one.
pub(crate) fn head(content: &mut Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for most in HEAD_BYTES {
        bytes.clear();
        if content.read(0, most, &mut bytes)? != ReadEnd::More {
            break;
        }
        if let Some(end) = memchr::memrchr(b'\n', &bytes) {
            bytes.truncate(end);
            break;
        }
    }
    Ok(bytes)
}

impl Text {
    /// Whether the file at this path can be one JSON array: only one with `.json` in its name, such as `a.json.gz`.
    fn can_be_array(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.is_json && name.split('.').skip(1).any(|part| part.eq_ignore_ascii_case("json"))
    }

    /// A file that is one JSON array.
    fn array(&self, stored: &Arc<dyn Stored>, counts_lines: bool) -> Result<Option<JsonArray>> {
        if !self.can_be_array(stored.path()) {
            return Ok(None);
        }
        let mut content = Content::open_text(stored.clone(), self.zstd_window)?;
        Ok(is_array(&mut content)?.then(|| JsonArray::new(content, self.max, counts_lines)))
    }
}

/// The cuts of a file that is longer than a split.
fn cut(stored: Arc<dyn Stored>, shape: Shape, split_size: &SplitSize) -> Result<Laid> {
    let (codec, held) = text_codec(&*stored)?;
    let layout = match codec {
        DetectedCodec::Text | DetectedCodec::TextNamed(_) => {
            let mut content = Content::plain(stored);
            let is_small = split_size.is_small
                || split_size.is_small_of_long && documents(&mut content, shape, PROBED)?.len() < 2;
            match is_small {
                true => {
                    let starts = documents(&mut content, shape, u64::MAX)?;
                    Layout::Documents(split_size.cuts(content.len().unwrap_or(0), &starts).into())
                }
                false if split_size.is_auto => Layout::Even(split_size.bytes.max(SHORTEST)),
                false => Layout::Even(split_size.bytes),
            }
        }
        DetectedCodec::Packed(Codec::Zstd) => {
            let bytes = if split_size.is_auto { split_size.bytes.max(LONGEST) } else { split_size.bytes };
            let frames = Frames::find(&*stored, bytes, stored.is_local())?;
            let frames = frames.filter(|frames| !frames.cuts().is_empty());
            frames.map_or(Layout::Whole, |frames| Layout::Frames(Arc::new(frames)))
        }
        DetectedCodec::Packed(Codec::Gzip | Codec::Bzip2 | Codec::Xz) | DetectedCodec::Unread(_) => {
            Layout::Whole
        }
    };
    let held = match &layout {
        // No read goes back beyond its frame, and no frame is longer than a split.
        Layout::Frames(frames) => held.min(longest_gap(frames.cuts())),
        _ => held,
    };
    Ok(Laid { layout, held })
}

/// Where documents begin, as far as they end in the first `most` bytes. The first one begins at the file's start.
fn documents(content: &mut Content, shape: Shape, most: u64) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    content.frames(shape, most, |frame| {
        starts.push(if starts.is_empty() { 0 } else { frame.start.byte });
        ControlFlow::Continue(())
    })?;
    Ok(starts)
}

/// The longest of the parts that end at these places.
fn longest_gap(ends: &[u64]) -> u64 {
    let begins = std::iter::once(&0).chain(ends);
    begins.zip(ends).map(|(begin, end)| end - begin).max().unwrap_or(u64::MAX)
}
