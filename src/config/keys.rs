//! The keys of each section, and what an unknown one may have meant.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{
    Config, CsvConfig, ExcludeConfig, LearnConfig, MixtureConfig, ModelConfig, PipelineConfig, RopeScaling,
    SampleConfig, SourceConfig, StoreConfig, TokenCacheConfig, TokenizerConfig, TrainConfig,
};

/// How alike two names must be for one to be taken for the other, from 0 to 1, in one section and in different ones.
const ALIKE: f64 = 0.7;
const ALIKE_ELSEWHERE: f64 = 0.93;

/// What to do about the unknown key of a section, whose keys are `known`.
pub(super) fn advice(key: &str, known: &[&str]) -> String {
    let others = sections();
    let others = || {
        let others = others.iter().filter(|(_, keys)| *keys != known);
        others.flat_map(|(section, keys)| keys.iter().map(move |other| (*section, *other)))
    };
    let exact: Vec<String> =
        others().filter(|(_, other)| *other == key).map(|(section, key)| dotted(section, key)).collect();
    if !exact.is_empty() {
        return format!("it is {}", exact.join(" or "));
    }
    let here = nearest(key, known.iter().copied(), |name| name);
    let elsewhere = nearest(key, others(), |(_, name)| name);
    match (here, elsewhere) {
        (here, Some(((section, name), likeness)))
            if likeness > ALIKE_ELSEWHERE && here.is_none_or(|(_, of_here)| likeness > of_here) =>
        {
            format!("did you mean {}?", dotted(section, name))
        }
        (Some((name, likeness)), _) if likeness > ALIKE => format!("did you mean `{name}`?"),
        _ => format!("it can be {}", known.join(", ")),
    }
}

/// What to do about an unknown word of a key whose words are `known`.
pub(super) fn advice_of_words(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied(), |name| name) {
        Some((name, likeness)) if likeness > ALIKE => format!("did you mean `{name}`?"),
        _ => {
            let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
            format!("it can be {}", known.join(", "))
        }
    }
}

/// Whether a dotted key is of a config.
pub(super) fn is_of_config(key: &str) -> bool {
    fields::<Config>().contains(&key.split('.').next().unwrap_or_default())
}

fn nearest<'k, T: Copy>(
    key: &str,
    known: impl Iterator<Item = T>,
    name: impl Fn(T) -> &'k str,
) -> Option<(T, f64)> {
    let likeness = known.map(|of| (of, strsim::jaro_winkler(key, name(of))));
    likeness.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn dotted(section: &str, key: &str) -> String {
    match section {
        "" => format!("`{key}` at the top of the config"),
        section => format!("`{section}.{key}`"),
    }
}

/// Every section with its keys.
fn sections() -> [(&'static str, &'static [&'static str]); 14] {
    [
        ("", fields::<Config>()),
        ("source", fields::<SourceConfig>()),
        ("source.csv", fields::<CsvConfig>()),
        ("source.sample", fields::<SampleConfig>()),
        ("source.cache", fields::<TokenCacheConfig>()),
        ("mixture", fields::<MixtureConfig>()),
        ("exclude", fields::<ExcludeConfig>()),
        ("store", fields::<StoreConfig>()),
        ("tokenizer", fields::<TokenizerConfig>()),
        ("tokenizer.train", fields::<LearnConfig>()),
        ("pipeline", fields::<PipelineConfig>()),
        ("model", fields::<ModelConfig>()),
        ("model.rope_scaling", fields::<RopeScaling>()),
        ("train", fields::<TrainConfig>()),
    ]
}

/// The keys of a struct, as serde reads them.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(Lister).err().map_or(&[], |Listed(fields)| fields)
}

/// Reads nothing: it takes note of the keys that a struct asks for.
struct Lister;

/// The keys that were asked for, as the error that ends the reading.
#[derive(Debug)]
struct Listed(&'static [&'static str]);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Listed {}

impl de::Error for Listed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Lister {
    type Error = Listed;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Listed> {
        Err(Listed(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Listed> {
        Err(Listed(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
