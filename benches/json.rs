//! Which parser takes one field out of a JSON line the fastest.
//!
//!     cargo bench --bench json
//!
//! The swept variable is the parser; a group is a kind of line. The source reads with serde_json. Of the parsers with
//! vector instructions, built for any processor as a published program is, the faster one gains a quarter to a third on
//! long lines and takes twice as long on short ones; and on long lines parsing is a fifth of what tokenizing costs.

#[path = "common/mod.rs"]
mod common;

use std::fmt;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

const BYTES: usize = 4 << 20;

/// Appends the text of the field `text`, and passes over all else.
struct Object<'a>(&'a mut String);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(is_text) = map.next_key_seed(Key)? {
            match is_text {
                true => map.next_value_seed(Text(self.0))?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == "text")
    }
}

struct Text<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }
}

/// Lines of documents of about `size` bytes, each with `other` beside its text.
fn lines(size: usize, other: bool) -> Vec<String> {
    let text = common::text(BYTES);
    let line = |document: &String| match other {
        false => serde_json::json!({ "text": document }).to_string(),
        true => serde_json::json!({ "id": 7, "html": document, "scores": [1, 2.5, null], "text": document })
            .to_string(),
    };
    common::documents(&text, size).iter().map(line).collect()
}

fn parsers(criterion: &mut Criterion) {
    let kinds = [
        ("80 B", lines(80, false)),
        ("2 KB", lines(2 << 10, false)),
        ("2 KB and as much beside", lines(2 << 10, true)),
    ];
    for (kind, lines) in kinds {
        let bytes: usize = lines.iter().map(String::len).sum();
        let mut group = criterion.benchmark_group(format!("json/{kind}"));
        group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
        let mut out = String::with_capacity(bytes);
        group.bench_function("serde_json", |bencher| {
            bencher.iter(|| {
                out.clear();
                for line in &lines {
                    let mut json = serde_json::Deserializer::from_str(line);
                    json.deserialize_map(Object(&mut out)).expect("an object");
                }
            });
        });
        group.bench_function("sonic-rs", |bencher| {
            bencher.iter(|| {
                out.clear();
                for line in &lines {
                    let mut json = sonic_rs::Deserializer::from_str(line);
                    json.deserialize_map(Object(&mut out)).expect("an object");
                }
            });
        });
        let mut scratch = Vec::new();
        group.bench_function("simd-json", |bencher| {
            bencher.iter(|| {
                out.clear();
                for line in &lines {
                    scratch.clear();
                    scratch.extend_from_slice(line.as_bytes());
                    let mut json = simd_json::Deserializer::from_slice(&mut scratch).expect("JSON");
                    json.deserialize_map(Object(&mut out)).expect("an object");
                }
            });
        });
        group.finish();
    }
}

criterion_group!(benches, parsers);
criterion_main!(benches);
