//! The simplest tokenizer, which needs no file.

use std::ops::Range;

use super::{END_OF_TEXT, EncodeError, Tokenizer};

/// Every byte is its own id; 256 is `<|endoftext|>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        ids.extend(text.bytes().map(u32::from));
        Ok(())
    }

    fn encode_spans(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        spans: &mut Vec<Range<usize>>,
    ) -> Result<(), EncodeError> {
        spans.extend((0..text.len()).map(|at| at..at + 1));
        self.encode(text, ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| u8::try_from(id).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn vocab_size(&self) -> usize {
        257
    }

    fn id(&self, token: &str) -> Option<u32> {
        match token {
            END_OF_TEXT => Some(256),
            token => match token.as_bytes() {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            },
        }
    }

    fn fingerprint(&self) -> String {
        "bytes".to_owned()
    }

    fn nearest(&self, _: &str) -> Option<String> {
        Some(END_OF_TEXT.to_owned())
    }
}
