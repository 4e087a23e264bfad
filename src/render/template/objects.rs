//! Python's objects, as far as templates meet them: lists, dicts, namespaces, and what iterating them gives.
//!
//! A template can build values out of values. Each knows how deep it nests, and one that nests deeper than [`DEEPEST`]
//! is an error: freeing, comparing and printing it could overflow the stack.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::{fail, room};
use crate::render::json::{Json, Key};
use crate::threads::lock;

/// The methods of a dict that a template may call. As attributes they hide its entries.
const OF_DICTS: [&str; 5] = ["copy", "get", "items", "keys", "values"];

/// Entries in their order. The keys of messages are hashed so often that the standard library's hasher would show.
type IndexMap<K, V> = indexmap::IndexMap<K, V, foldhash::fast::RandomState>;

/// How deep values may nest. JSON that was read nests at most 127 levels.
const DEEPEST: usize = 200;

/// What a sequence is in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    Range,
    /// What `keys`, `values` and `items` of a dict give. It has no places.
    View,
    /// A generator or an iterator: it is true, has no length and no places, and gives its items once.
    Iterator,
}

#[derive(Debug)]
pub(super) struct Seq {
    pub(super) kind: Kind,
    pub(super) items: Vec<Value>,
    depth: usize,
    /// Whether the items of an iterator are used up.
    taken: AtomicBool,
}

impl Seq {
    pub(super) fn make(state: &State, kind: Kind, items: Vec<Value>) -> Result<Value, Error> {
        state.consume_fuel(items.len() as u64 / 2)?;
        let depth = depth_around(&items)?;
        Ok(Value::from_object(Self { kind, items, depth, taken: AtomicBool::new(false) }))
    }

    pub(super) fn list(state: &State, items: Vec<Value>) -> Result<Value, Error> {
        Self::make(state, Kind::List, items)
    }

    /// The items, for whoever iterates.
    pub(super) fn take(&self) -> &[Value] {
        let spent = self.kind == Kind::Iterator && self.taken.swap(true, Ordering::Relaxed);
        if spent { &[] } else { &self.items }
    }

    /// Whether its items can be had by their places.
    pub(super) fn has_places(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Tuple | Kind::Range)
    }
}

impl Object for Seq {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, _: &str) -> Option<Value> {
        None
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.kind == Kind::Iterator || !self.items.is_empty()
    }
}

/// A dict. Its keys are strings, numbers and the like: not tuples.
#[derive(Debug)]
pub(super) struct Dict {
    pub(super) entries: IndexMap<Value, Value>,
    depth: usize,
}

impl Dict {
    /// A dict of the entries; of equal keys the last value counts.
    pub(super) fn make(state: &State, entries: Vec<(Value, Value)>) -> Result<Value, Error> {
        state.consume_fuel(entries.len() as u64)?;
        entries.iter().try_for_each(|(key, _)| check_key(key))?;
        let depth = depth_around(entries.iter().map(|(_, value)| value))?;
        Ok(Value::from_object(Self { entries: entries.into_iter().collect(), depth }))
    }

    /// For values of JSON.
    fn plain(entries: IndexMap<Value, Value>) -> Value {
        let depth = entries.values().map(depth).max().unwrap_or(0) + 1;
        Value::from_object(Self { entries, depth })
    }

    pub(super) fn keys(&self) -> Vec<Value> {
        self.entries.keys().cloned().collect()
    }

    /// A tuple of each key and its value.
    pub(super) fn pairs(&self, state: &State) -> Result<Vec<Value>, Error> {
        let pair =
            |(key, value): (&Value, &Value)| Seq::make(state, Kind::Tuple, vec![key.clone(), value.clone()]);
        self.entries.iter().map(pair).collect()
    }

    /// The attribute `name`: a method hides an entry.
    pub(super) fn attribute(&self, name: &str) -> Option<Value> {
        match OF_DICTS.contains(&name) {
            true => Some(Value::from_object(Method)),
            false => self.entries.get(&Value::from(name)).cloned(),
        }
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.entries.get(key).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        self.attribute(name)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A method of a dict that is not called. Some templates look whether there is one, where they mean an entry.
#[derive(Debug)]
struct Method;

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// What `namespace()` makes: the only object that a template can change.
#[derive(Debug)]
pub(super) struct Namespace(Mutex<Vec<(String, Value)>>);

impl Namespace {
    pub(super) fn make(state: &State, entries: Vec<(String, Value)>) -> Result<Value, Error> {
        let namespace = Self(Mutex::default());
        for (name, value) in entries {
            namespace.set(state, &name, value)?;
        }
        Ok(Value::from_object(namespace))
    }

    pub(super) fn set(&self, state: &State, name: &str, value: Value) -> Result<(), Error> {
        if name.starts_with('_') {
            return fail(format!("a namespace has no attribute whose name begins with `_`: {name}"));
        }
        depth_around([&value])?;
        let mut entries = lock(&self.0);
        match entries.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => {
                room(state, 64)?;
                state.consume_fuel(1 + entries.len() as u64 / 16)?;
                entries.push((name.to_owned(), value));
            }
        }
        Ok(())
    }
}

impl Object for Namespace {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        let entries = lock(&self.0);
        entries.iter().find_map(|(key, value)| (key == name).then(|| value.clone()))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

fn depth(value: &Value) -> usize {
    seq(value).map(|seq| seq.depth).or_else(|| dict(value).map(|dict| dict.depth)).unwrap_or(0)
}

/// How deep a value of these parts nests.
fn depth_around<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Result<usize, Error> {
    let mut deepest = 0;
    for part in parts {
        deepest = deepest.max(depth(part));
        // They could hold themselves, or what nests deeper than they tell.
        let is_loop = |object: &DynObject| object.type_name().ends_with("::Loop");
        if part.downcast_object_ref::<Namespace>().is_some() || part.as_object().is_some_and(is_loop) {
            return fail("a namespace or a loop cannot be part of another value");
        }
    }
    if deepest < DEEPEST {
        Ok(deepest + 1)
    } else {
        fail(format!("a value nests deeper than {DEEPEST} levels"))
    }
}

/// Whether two values are one object.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    fn both<T: Object + 'static>(a: &Value, b: &Value) -> bool {
        match (a.downcast_object_ref::<T>(), b.downcast_object_ref::<T>()) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            _ => false,
        }
    }
    both::<Seq>(a, b) || both::<Dict>(a, b) || both::<Namespace>(a, b)
}

pub(super) fn is_scalar(value: &Value) -> bool {
    value.as_object().is_none()
}

/// Fails if a dict can have no such key.
pub(super) fn check_key(key: &Value) -> Result<(), Error> {
    if is_scalar(key) { Ok(()) } else { fail(format!("a {} cannot be the key of a dict", type_name(key))) }
}

pub(super) fn seq(value: &Value) -> Option<&Seq> {
    value.downcast_object_ref()
}

pub(super) fn dict(value: &Value) -> Option<&Dict> {
    value.downcast_object_ref()
}

/// A list, a tuple or a range.
pub(super) fn places(value: &Value) -> Option<&Seq> {
    seq(value).filter(|seq| seq.has_places())
}

/// The name of the value's type in Python.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        _ => match seq(value).map(|seq| seq.kind) {
            Some(Kind::List) => "list",
            Some(Kind::Tuple) => "tuple",
            Some(Kind::Range) => "range",
            Some(Kind::View) => "dict view",
            Some(Kind::Iterator) => "generator",
            None if dict(value).is_some() => "dict",
            None => "object",
        },
    }
}

/// The items of something that can be iterated, each of which costs fuel.
pub(super) fn items(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    let items = if let Some(seq) = seq(value) {
        seq.take().to_vec()
    } else if let Some(dict) = dict(value) {
        dict.keys()
    } else if let Some(text) = value.as_str() {
        room(state, text.len().saturating_mul(32))?;
        text.chars().map(Value::from).collect()
    } else if value.is_undefined() {
        Vec::new()
    } else {
        return fail(format!("'{}' object is not iterable", type_name(value)));
    };
    state.consume_fuel(items.len() as u64 / 2)?;
    Ok(items)
}

/// A value of JSON. `see` is shown every string.
pub(super) fn from_json(json: &Json, see: &mut impl FnMut(&str)) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Int(value) => super::numbers::from_int(*value),
        Json::Float(value) => Value::from(*value),
        Json::String(text) => {
            see(text);
            Value::from(text.as_str())
        }
        Json::List(list) => plain_list(list.iter().map(|item| from_json(item, see)).collect()),
        Json::Object(object) => Dict::plain(entries(object, |_| true, see)),
    }
}

fn entries(
    object: &[(Key, Json)],
    is_kept: impl Fn(&Json) -> bool,
    see: &mut impl FnMut(&str),
) -> IndexMap<Value, Value> {
    let mut entries = IndexMap::with_capacity_and_hasher(object.len(), Default::default());
    for (key, value) in object.iter().filter(|(_, value)| is_kept(value)) {
        see(key);
        entries.insert(Value::from(&**key), from_json(value, see));
    }
    entries
}

/// The names under which a message's reasoning comes.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message as the reference passes it to a template: without fields that are null, and with its reasoning under the
/// names that templates read.
pub(super) fn message(fields: &[(Key, Json)], see: &mut impl FnMut(&str)) -> Value {
    let mut entries = entries(fields, |value| *value != Json::Null, see);
    let is_reasoning = |name: &&&str| fields.iter().any(|(key, _)| key == **name);
    let names = REASONING.iter().filter(is_reasoning);
    if let Some(reasoning) = names.filter_map(|name| entries.get(&Value::from(*name))).next().cloned() {
        let name = Value::from("thinking");
        let thinking = entries.shift_remove(&name).unwrap_or_else(|| reasoning.clone());
        entries.shift_insert(0, name, thinking);
        entries.insert(Value::from("reasoning_content"), reasoning);
    }
    Dict::plain(entries)
}

/// The variables of a rendering. Of one name the last one counts.
#[derive(Debug)]
struct Variables(Vec<(Cow<'static, str>, Value)>);

impl Object for Variables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        self.0.iter().rev().find_map(|(key, value)| (key == name).then(|| value.clone()))
    }
}

pub(super) fn variables(variables: Vec<(Cow<'static, str>, Value)>) -> Value {
    Value::from_object(Variables(variables))
}

/// A list of values of JSON.
pub(super) fn plain_list(items: Vec<Value>) -> Value {
    let depth = items.iter().map(depth).max().unwrap_or(0) + 1;
    Value::from_object(Seq { kind: Kind::List, items, depth, taken: AtomicBool::new(false) })
}
