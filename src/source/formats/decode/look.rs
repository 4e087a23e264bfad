//! Looks for fields of a JSON object, wherever they are in it. serde_json gives them as events, so nothing else is kept.
//!
//! A key of the outermost object with a field's whole name comes before what the parts of the name lead to, and of equal
//! keys the last counts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::document::ColumnValue;
use crate::excerpt::excerpt;
use crate::source::carried::FieldValue;
use crate::source::json_path::FieldPath;

pub(super) const LIST: FieldValue = FieldValue::Other(Cow::Borrowed("a list"));

/// The last value on the way to a field: the one at its path or, if some names are `left` of that, the one around it. An
/// object around it is none.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) left: usize,
    pub(super) value: FieldValue,
}

/// How to look for fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'a> {
    /// Whether a value on the way to a field that cannot be read is found as such; values are looked at twice then.
    pub(super) is_lenient: bool,
    /// What an empty list stands for.
    pub(super) empty_list: &'a FieldValue,
}

/// The way to a field from here on: the rest of its path. An empty one ends here.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    nth: usize,
    /// Its whole name, while keys are compared with it.
    name: Option<&'a str>,
    rest: &'a [String],
}

/// Looks for the fields at `paths` in a line, all of which must be JSON.
pub(super) fn look<'a>(
    line: &str,
    paths: impl Iterator<Item = &'a FieldPath>,
    manner: Manner<'_>,
) -> serde_json::Result<Vec<Option<Found>>> {
    let way = |(nth, path): (usize, &'a FieldPath)| Way { nth, name: Some(&path.name), rest: &path.parts };
    let ways: Vec<Way<'_>> = paths.enumerate().map(way).collect();
    let (mut found, mut found_whole) = (vec![None; ways.len()], vec![false; ways.len()]);
    let mut json = serde_json::Deserializer::from_str(line);
    Look { ways, manner, found_whole: &mut found_whole, found: &mut found }.deserialize(&mut json)?;
    json.end()?;
    Ok(found)
}

/// Looks into one value.
struct Look<'a, 'b> {
    ways: Vec<Way<'a>>,
    manner: Manner<'b>,
    /// Whether a key with the whole name of each field was found. Nothing else counts then.
    found_whole: &'b mut [bool],
    found: &'b mut [Option<Found>],
}

impl<'a> Look<'a, '_> {
    fn find<E>(&mut self, value: FieldValue) -> Result<(), E> {
        let Some((last, others)) = self.ways.split_last() else { return Ok(()) };
        for Way { nth, rest, .. } in others {
            self.found[*nth] = Some(Found { left: rest.len(), value: value.clone() });
        }
        self.found[last.nth] = Some(Found { left: last.rest.len(), value });
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
    fn within(&mut self, ways: Vec<Way<'a>>) -> Look<'a, '_> {
        Look { ways, manner: self.manner, found_whole: &mut *self.found_whole, found: &mut *self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        for Way { nth, rest, .. } in &self.ways {
            let value = FieldValue::Other("an object".into());
            self.found[*nth] = rest.is_empty().then_some(Found { left: 0, value });
        }
        while let Some(ways) = map.next_key_seed(Through(&mut self))? {
            if ways.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if !self.manner.is_lenient {
                map.next_value_seed(self.within(ways))?;
                continue;
            }
            let json = map.next_value::<&RawValue>()?.get();
            let within = self.within(ways.clone());
            if within.deserialize(&mut serde_json::Deserializer::from_str(json)).is_err() {
                let value = FieldValue::Other(format!("{}, which cannot be read", excerpt(json)).into());
                ways.iter()
                    .for_each(|way| self.found[way.nth] = Some(Found { left: 0, value: value.clone() }));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut is_empty = true;
        while list.next_element::<IgnoredAny>()?.is_some() {
            is_empty = false;
        }
        let value = if is_empty { self.manner.empty_list.clone() } else { LIST };
        self.find(value)
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.find(FieldValue::Value(ColumnValue::Text(text.into())))
    }

    fn visit_bool<E>(mut self, truth: bool) -> Result<(), E> {
        self.find(FieldValue::Value(ColumnValue::Bool(truth)))
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.find(FieldValue::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.find(FieldValue::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        self.find(FieldValue::Value(ColumnValue::Float(number)))
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.find(FieldValue::NULL)
    }
}

/// Reads a key, and returns the ways that go on through it.
struct Through<'l, 'a, 'b>(&'l mut Look<'a, 'b>);

impl<'de, 'a> DeserializeSeed<'de> for Through<'_, 'a, '_> {
    type Value = Vec<Way<'a>>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Through<'_, 'a, '_> {
    type Value = Vec<Way<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.through(key))
    }
}
