//! A record of an event file: `Event`, `Summary` and their parts as protobuf messages (TensorFlow's `event.proto`,
//! `summary.proto`, `tensor.proto`), framed as [TFRecord] frames them.
//!
//! ```text
//! length: u64 | masked CRC-32C of the length: u32 | the bytes | masked CRC-32C of the bytes: u32
//! ```
//!
//! All numbers are little-endian. CRC-32C is iSCSI's checksum.
//!
//! [TFRecord]: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details

use crc_fast::crc32_iscsi;

/// The first event of every file: readers then obey [`Body::Start`].
const VERSION: &str = "brain.Event:2";

/// `SessionLog.START`, `DT_STRING` and `DATA_CLASS_TENSOR`.
const START: u64 = 1;
const STRING: u64 = 7;
const TENSOR: u64 = 2;

/// The content of an event.
#[derive(Debug)]
pub(super) enum Body<'a> {
    /// The version of the format.
    Version,
    /// A session begins: readers drop the events of this step and later ones that came before.
    Start,
    /// Numbers by their tags.
    Scalars(&'a [(String, f64)]),
    /// A text, which is shown verbatim.
    Text { tag: &'a str, text: &'a str },
}

/// The checksum as a record stores it. A checksum of bytes that hold their own checksum would say little.
fn masked(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The record of an event of this time, in seconds since 1970.
pub(super) fn record(time: f64, step: u64, body: &Body<'_>) -> Vec<u8> {
    let event = encoded(time, step, body);
    let length = (event.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), &event, &masked(&event).to_le_bytes()].concat()
}

fn encoded(time: f64, step: u64, body: &Body<'_>) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, time);
    event.varint(2, step);
    match body {
        Body::Version => event.bytes(3, VERSION.as_bytes()),
        Body::Start => event.message(7, |session| session.varint(1, START)),
        Body::Scalars(scalars) => event.message(5, |summary| {
            for (tag, value) in *scalars {
                summary.message(1, |scalar| {
                    scalar.bytes(1, tag.as_bytes());
                    scalar.float(2, *value as f32);
                });
            }
        }),
        Body::Text { tag, text } => event.message(5, |summary| {
            summary.message(1, |value| {
                value.bytes(1, tag.as_bytes());
                value.message(8, |tensor| {
                    tensor.varint(1, STRING);
                    // Without dimensions: a single text.
                    tensor.message(2, |_| ());
                    tensor.bytes(8, verbatim(text).as_bytes());
                });
                value.message(9, |metadata| {
                    metadata.message(1, |plugin| plugin.bytes(1, b"text"));
                    metadata.varint(4, TENSOR);
                });
            });
        }),
    }
    event.0
}

/// TensorBoard reads texts as Markdown. Indented lines are shown verbatim, whatever is in them.
fn verbatim(text: &str) -> String {
    text.lines().flat_map(|line| ["    ", line, "\n"]).collect()
}

/// A message under way: <https://protobuf.dev/programming-guides/encoding>.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, wire_type: u64) {
        self.plain(field << 3 | wire_type);
    }

    fn plain(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn varint(&mut self, field: u64, number: u64) {
        self.key(field, 0);
        self.plain(number);
    }

    fn double(&mut self, field: u64, number: f64) {
        self.key(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    fn float(&mut self, field: u64, number: f32) {
        self.key(field, 5);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.plain(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut message = Self::default();
        fill(&mut message);
        self.bytes(field, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_the_protobuf_library_makes() {
        // `Event(wall_time=1.5, step=300, summary=Summary(value=[Value(tag="loss", simple_value=0.5)]))`, serialized.
        let scalars = [("loss".to_owned(), 0.5)];
        let event = encoded(1.5, 300, &Body::Scalars(&scalars));
        assert_eq!(
            event,
            b"\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f"
        );
        // And `Event(wall_time=1.5, file_version="brain.Event:2")`, but for the step, 0, which is written.
        assert_eq!(
            encoded(1.5, 0, &Body::Version),
            b"\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x10\x00\x1a\x0dbrain.Event:2"
        );
    }

    #[test]
    fn checksums_are_those_of_tensorflow() {
        // The record of `brain.Event:2` at the time 0 begins with its length, 24.
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
    }
}
