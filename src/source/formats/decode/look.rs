//! Looks for fields of a JSON object, wherever they are in it. serde_json gives them as events, so nothing else is kept.
//!
//! A key of the outermost object with a field's whole name comes before what the parts of the name lead to, and of equal
//! keys the last counts.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::source::json_path::FieldPath;

/// A value on the way to a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    Null,
    Truth(bool),
    Integer(i128),
    Float(f64),
    Text(&'a str),
    List {
        is_empty: bool,
    },
    Object,
    /// JSON that cannot be read.
    Unreadable(&'a str),
}

/// Takes what is found.
pub(super) trait Find {
    /// Takes the last value so far on the way to field `nth`: the one at its path or, if some names are `left` of that, the
    /// one around it.
    fn see(&mut self, nth: usize, left: usize, seen: Seen<'_>);
}

/// The way to a field from here on: the rest of its path. An empty one ends here.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    nth: usize,
    /// Its whole name, while keys are compared with it.
    name: Option<&'a str>,
    rest: &'a [String],
}

/// Looks for the fields at `paths` in a line, all of which must be JSON. If it `is_lenient`, a value on the way to a field
/// that cannot be read is found as such; values are looked at twice then.
pub(super) fn look<'a>(
    line: &str,
    paths: impl Iterator<Item = &'a FieldPath>,
    is_lenient: bool,
    find: &mut impl Find,
) -> serde_json::Result<()> {
    let way = |(nth, path): (usize, &'a FieldPath)| Way { nth, name: Some(&path.name), rest: &path.parts };
    let ways: Vec<Way<'_>> = paths.enumerate().map(way).collect();
    let mut found_whole = vec![false; ways.len()];
    let mut json = serde_json::Deserializer::from_str(line);
    Look { ways, is_lenient, found_whole: &mut found_whole, find }.deserialize(&mut json)?;
    json.end()
}

/// Looks into one value.
struct Look<'a, 'b, F> {
    ways: Vec<Way<'a>>,
    is_lenient: bool,
    /// Whether a key with the whole name of each field was found. Nothing else counts then.
    found_whole: &'b mut [bool],
    find: &'b mut F,
}

impl<'a, F: Find> Look<'a, '_, F> {
    fn see<E>(&mut self, seen: Seen<'_>) -> Result<(), E> {
        self.ways.iter().for_each(|way| self.find.see(way.nth, way.rest.len(), seen));
        Ok(())
    }

    /// The ways that go on through `key`.
    fn through(&mut self, key: &str) -> Vec<Way<'a>> {
        let found_whole = &mut *self.found_whole;
        let through = self.ways.iter().filter_map(|way| {
            let (first, rest) = way.rest.split_first()?;
            let is_whole = way.name == Some(key);
            found_whole[way.nth] |= is_whole;
            let goes_on = is_whole || first == key && !found_whole[way.nth];
            let rest = if is_whole { &[] } else { rest };
            goes_on.then_some(Way { nth: way.nth, name: None, rest })
        });
        through.collect()
    }

    /// The same for the value of a key, on the ways through that.
    fn within(&mut self, ways: Vec<Way<'a>>) -> Look<'a, '_, F> {
        Look { ways, is_lenient: self.is_lenient, found_whole: &mut *self.found_whole, find: &mut *self.find }
    }
}

impl<'de, F: Find> DeserializeSeed<'de> for Look<'_, '_, F> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Find> Visitor<'de> for Look<'_, '_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.see(Seen::Object)?;
        while let Some(ways) = map.next_key_seed(Through(&mut self))? {
            if ways.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if !self.is_lenient {
                map.next_value_seed(self.within(ways))?;
                continue;
            }
            let json = map.next_value::<&RawValue>()?.get();
            let within = self.within(ways.clone());
            if within.deserialize(&mut serde_json::Deserializer::from_str(json)).is_err() {
                self.within(ways).see(Seen::Unreadable(json))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut is_empty = true;
        while list.next_element::<IgnoredAny>()?.is_some() {
            is_empty = false;
        }
        self.see(Seen::List { is_empty })
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.see(Seen::Text(text))
    }

    fn visit_bool<E>(mut self, truth: bool) -> Result<(), E> {
        self.see(Seen::Truth(truth))
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.see(Seen::Integer(number.into()))
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.see(Seen::Integer(number.into()))
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        self.see(Seen::Float(number))
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.see(Seen::Null)
    }
}

/// Reads a key, and returns the ways that go on through it.
struct Through<'l, 'a, 'b, F>(&'l mut Look<'a, 'b, F>);

impl<'de, 'a, F: Find> DeserializeSeed<'de> for Through<'_, 'a, '_, F> {
    type Value = Vec<Way<'a>>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a, F: Find> Visitor<'_> for Through<'_, 'a, '_, F> {
    type Value = Vec<Way<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.through(key))
    }
}
