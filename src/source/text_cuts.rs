//! Where files of text are cut: between documents, or between the frames of a compressed file.

use std::sync::Arc;

use super::content::{After, Codec, Content, Frames, codec};
use super::framing::{Frame, Framer, Place, Shape, bom_len};
use super::layout::{Laid, Layout};
use super::nominal::{LONGEST, Nominal, SHORTEST};
use crate::error::Result;
use crate::store::Stored;

/// Documents are long where a second one does not begin within the first bytes of a file, so many of them.
const PROBED: u64 = 64 << 10;

/// How much is read at once to find where documents begin, in bytes.
const SCANNED_BYTES: usize = 256 << 10;

/// How a file of text, whose documents have this shape, is cut into splits.
pub(super) fn layout(stored: Arc<dyn Stored>, shape: Shape, nominal: &Nominal) -> Result<Laid> {
    let (codec, len) = (codec(&*stored)?, stored.len());
    let layout = match codec {
        None => {
            let mut content = Content::plain(stored);
            let is_small = nominal.is_small
                || nominal.is_small_of_long && documents(&mut content, shape, Some(PROBED))?.len() < 2;
            match is_small {
                true => {
                    let starts = documents(&mut content, shape, None)?;
                    Layout::Documents(nominal.cuts(content.len().unwrap_or(0), &starts).into())
                }
                false if nominal.is_auto => Layout::Even(nominal.bytes.max(SHORTEST)),
                false => Layout::Even(nominal.bytes),
            }
        }
        Some(Codec::Zstd) => {
            let bytes = if nominal.is_auto { nominal.bytes.max(LONGEST) } else { nominal.bytes };
            let frames = Frames::find(&*stored, bytes, stored.is_local())?;
            let frames = frames.filter(|frames| !frames.cuts().is_empty());
            frames.map_or(Layout::Whole, |frames| Layout::Frames(Arc::new(frames)))
        }
        Some(Codec::Gzip | Codec::Bzip2 | Codec::Xz) => Layout::Whole,
    };
    let held = codec.map_or(0, |codec| codec.held(len));
    let held = match &layout {
        // Nothing looks back beyond its frame, and none is longer than a split.
        Layout::Frames(frames) => held.min(longest_gap(frames.cuts())),
        _ => held,
    };
    Ok(Laid { layout, held })
}

/// Where documents begin, in the first `most` bytes or in all of them. The first one begins where the file does.
fn documents(content: &mut Content, shape: Shape, most: Option<u64>) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    let (mut at, mut bytes) = (0, Vec::new());
    let mut framer = None;
    while most.is_none_or(|most| at < most) {
        bytes.clear();
        let n = most.map_or(SCANNED_BYTES, |most| SCANNED_BYTES.min(most as usize));
        let after = content.read(at, n, &mut bytes)?;
        let mut done = 0;
        let framer = framer.get_or_insert_with(|| {
            done = bom_len(&bytes);
            Framer::new(shape, Place { byte: done as u64, line: 0 })
        });
        let mut note = |frame: Frame| {
            if frame.len > 0 {
                starts.push(if starts.is_empty() { 0 } else { frame.start.byte });
            }
        };
        while let Some((taken, frame)) = framer.push(&bytes[done..]) {
            done += taken;
            note(frame);
        }
        at += bytes.len() as u64;
        if after == After::End || bytes.is_empty() {
            note(framer.finish());
            break;
        }
    }
    Ok(starts)
}

/// The longest of the parts that end at these places.
fn longest_gap(ends: &[u64]) -> u64 {
    let begins = std::iter::once(&0).chain(ends);
    begins.zip(ends).map(|(begin, end)| end - begin).max().unwrap_or(u64::MAX)
}
