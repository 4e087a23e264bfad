//! The keys that the config's structs have, and their defaults, asked of the structs themselves: serde tells a format
//! the names of a struct's fields before it reads any, those among them that are absent by default.

use std::cell::Cell;
use std::collections::BTreeMap;

use millstream::Config;
use millstream_train::RunConfig;
use millstream_train::config::{ModelConfig, TrainConfig};
use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

/// All keys, such as `source.sample.field` and `mixture.changes[].batch`, with their defaults; none for a key that is
/// absent by default, or has to be given.
pub(crate) fn all() -> BTreeMap<String, Option<Value>> {
    // Tables that are absent by default, with the keys that they cannot do without.
    let given = json!({
        "source": [{ "sample": { "field": "quality", "max": 1 }, "cache": { "path": "tokens" } }],
        "mixture": { "changes": [{ "batch": 1, "weights": {} }] },
        "exclude": { "documents": [{ "path": "a.txt", "byte": 0 }] },
        "tokenizer": { "train": {} },
        "model": { "rope_scaling": {} },
        "train": { "lora": {} },
    });
    let config: RunConfig = serde_json::from_value(given.clone()).expect("a config");
    let written = serde_json::to_value(config).expect("configs are written");
    // What a list holds by default is nothing, and not the element that is given here.
    let default = serde_json::to_value(RunConfig::default()).expect("configs are written");
    let mut keys = BTreeMap::new();
    let mut leaves = Vec::new();
    find::<Config>(&[], &[], &mut leaves);
    find::<ModelConfig>(&["model"], &[], &mut leaves);
    find::<TrainConfig>(&["train"], &[], &mut leaves);
    for path in leaves {
        let value = match at(&given, &path) {
            Some(_) => None,
            None => at(&default, &path).or_else(|| at(&written, &path)).cloned(),
        };
        keys.insert(path.join(".").replace(".[]", "[]").replacen("source[]", "source", 1), value);
    }
    keys
}

/// The value at a path, in the first element of each list on the way.
fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| if *part == "[]" { value.get(0) } else { value.get(part) })
}

/// Adds the paths of all keys below `path` in the struct at `root` that are no tables.
fn find<T: DeserializeOwned>(
    root: &[&'static str],
    path: &[&'static str],
    leaves: &mut Vec<Vec<&'static str>>,
) {
    let found = Cell::new(None);
    let _ = T::deserialize(Probe { path, list: false, found: &found });
    match found.get() {
        None => leaves.push([root, path].concat()),
        Some((list, fields)) => {
            for field in fields {
                let below = path.iter().copied().chain(list.then_some("[]")).chain([*field]);
                find::<T>(root, &below.collect::<Vec<_>>(), leaves);
            }
        }
    }
}

/// A format that has one key, at `path`, and tells the fields of the struct there.
#[derive(Clone, Copy)]
struct Probe<'a> {
    path: &'a [&'static str],
    /// Whether this is an element of a list.
    list: bool,
    found: &'a Cell<Option<(bool, &'static [&'static str])>>,
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.path {
            [] => {
                self.found.set(Some((self.list, fields)));
                Err(Error::custom("found"))
            }
            [_, ..] => visitor.visit_map(One(Some(self))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let path = if self.path.first() == Some(&"[]") { &self.path[1..] } else { self.path };
        visitor.visit_seq(One(Some(Self { path, list: true, ..self })))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no table"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map enum identifier ignored_any
    }
}

/// One entry of a table, or one element of a list.
struct One<'a>(Option<Probe<'a>>);

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key = self.0.and_then(|probe| probe.path.first());
        key.map(|key| seed.deserialize((*key).into_deserializer())).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let probe = self.0.take().expect("a key came before");
        seed.deserialize(Probe { path: &probe.path[1..], list: false, ..probe })
    }
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.take().map(|probe| seed.deserialize(probe)).transpose()
    }
}

#[test]
fn keys_are_found_however_deep_they_lie() {
    let keys = all();
    for (key, default) in [
        ("seed", Some(json!(42))),
        ("source.kind", Some(json!("text"))),
        ("source.name", None),
        ("source.where", None),
        ("source.sample.max", None),
        ("source.cache.limit", Some(json!("50GiB"))),
        ("mixture.changes[].weights", None),
        ("exclude.batches", Some(json!([]))),
        ("tokenizer.train.vocab_size", Some(json!(4096))),
        ("pipeline.lanes", Some(json!("auto"))),
    ] {
        assert_eq!(keys.get(key), Some(&default), "{key}");
    }
    assert!(!keys.contains_key("source.sample") && !keys.contains_key("mixture.changes"));
}
