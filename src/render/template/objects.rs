//! Python's objects, as far as templates meet them: lists, dicts, namespaces, and what iterating them gives.
//!
//! A template can build values out of values. Each knows how deep it nests, and one that nests deeper than [`DEEPEST`]
//! is an error: freeing, comparing and printing it could overflow the stack.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{DynObject, Object, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::{fail, room};
use crate::render::json::Json;

/// The methods of a dict that a template may call.
const OF_DICTS: [&str; 5] = ["copy", "get", "items", "keys", "values"];

/// How deep values may nest. JSON that was read nests at most 127 levels.
const DEEPEST: usize = 200;

/// What a sequence is in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    /// `range(start, stop, step)`.
    Range(i64, i64, i64),
    /// What `keys`, `values` and `items` of a dict give, by the name of its type. It has no places.
    View(&'static str),
    /// A generator or an iterator: it is true, has no length and no places, and gives its items once.
    Iterator,
}

/// A sequence.
#[derive(Debug)]
pub(super) struct Seq {
    pub(super) kind: Kind,
    pub(super) items: Vec<Value>,
    depth: usize,
    /// Whether an iterator has given its items.
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

    pub(super) fn tuple(state: &State, items: Vec<Value>) -> Result<Value, Error> {
        Self::make(state, Kind::Tuple, items)
    }

    pub(super) fn iterator(state: &State, items: Vec<Value>) -> Result<Value, Error> {
        Self::make(state, Kind::Iterator, items)
    }

    /// The items, for whoever iterates.
    pub(super) fn take(&self) -> &[Value] {
        let spent = self.kind == Kind::Iterator && self.taken.swap(true, atomic::Ordering::Relaxed);
        if spent { &[] } else { &self.items }
    }

    /// Whether its items can be had by their places.
    pub(super) fn has_places(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Tuple | Kind::Range(..))
    }
}

/// A dict, whose entries keep their order.
#[derive(Debug)]
pub(super) struct Dict {
    pub(super) entries: Vec<(Value, Value)>,
    /// The places of the keys, if there are many.
    pub(super) places: Option<HashMap<Value, usize>>,
    depth: usize,
}

impl Dict {
    /// A dict of the entries; of equal keys the last value counts.
    pub(super) fn make(state: &State, entries: Vec<(Value, Value)>) -> Result<Value, Error> {
        state.consume_fuel(entries.len() as u64)?;
        let mut dict = Self { entries: Vec::with_capacity(entries.len()), places: None, depth: 1 };
        for (key, value) in entries {
            check_hashable(&key)?;
            dict.insert(key, value);
        }
        let parts = dict.entries.iter().flat_map(|(key, value)| [key, value]);
        dict.depth = depth_around(parts)?;
        Ok(Value::from_object(dict))
    }

    /// For values that nest no deeper than JSON does, and whose keys differ.
    fn plain(entries: Vec<(Value, Value)>, depth: usize) -> Self {
        let mut dict = Self { entries, places: None, depth };
        dict.index();
        dict
    }

    fn index(&mut self) {
        const FEW: usize = 12;
        if self.places.is_none() && self.entries.len() > FEW {
            let keys = self.entries.iter().enumerate();
            self.places = Some(keys.map(|(place, (key, _))| (key.clone(), place)).collect());
        }
    }

    fn insert(&mut self, key: Value, value: Value) {
        if let Some(place) = self.place(&key) {
            self.entries[place].1 = value;
            return;
        }
        if let Some(places) = &mut self.places {
            places.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        self.index();
    }

    fn place(&self, key: &Value) -> Option<usize> {
        match (&self.places, key.as_str()) {
            (Some(places), _) => places.get(key).copied(),
            (None, Some(name)) => self.entries.iter().position(|(key, _)| key.as_str() == Some(name)),
            (None, None) => self.entries.iter().position(|(other, _)| other == key),
        }
    }

    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        self.place(key).map(|place| &self.entries[place].1)
    }

    pub(super) fn get_str(&self, name: &str) -> Option<&Value> {
        if self.places.is_some() {
            return self.get(&Value::from(name));
        }
        self.entries.iter().find_map(|(key, value)| (key.as_str() == Some(name)).then_some(value))
    }

    pub(super) fn keys(&self) -> Vec<Value> {
        self.entries.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// The variables that a template begins with: no method hides one.
#[derive(Debug)]
pub(super) struct Variables(pub(super) Vec<(String, Value)>);

impl Object for Variables {
    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        self.0.iter().rev().find_map(|(key, value)| (key == name).then(|| value.clone()))
    }
}

/// A method of a dict that is not called at once.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) dict: Arc<Dict>,
    pub(super) name: &'static str,
}

/// The method `name` of a dict, as a value.
pub(super) fn bound(dict: &Arc<Dict>, name: &str) -> Option<Value> {
    let name = OF_DICTS.into_iter().find(|known| *known == name)?;
    Some(Value::from_object(Bound { dict: Arc::clone(dict), name }))
}

/// A function of the environment.
pub(super) struct Function(pub(super) fn(&mut State<'_, '_>, &[Value]) -> Result<Value, Error>);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<function>")
    }
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        (self.0)(state, args)
    }
}

/// What `namespace()` makes: the only object that a template can change.
#[derive(Debug, Default)]
pub(super) struct Namespace(Mutex<Vec<(String, Value)>>);

/// All namespaces of one rendering. They can hold each other, in a circle too, and so are emptied at its end.
#[derive(Debug, Default)]
pub(super) struct Namespaces(Vec<Arc<Namespace>>);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in &self.0 {
            let values = std::mem::take(&mut *namespace.entries());
            drop(values);
        }
    }
}

impl Namespace {
    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<(String, Value)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn make(state: &mut State<'_, '_>, entries: Vec<(String, Value)>) -> Result<Value, Error> {
        let namespace = Arc::new(Self::default());
        for (name, value) in entries {
            namespace.set(state, &name, value)?;
        }
        let all = state.get_or_insert_extension_with(Namespaces::default);
        all.0.push(Arc::clone(&namespace));
        Ok(Value::from_dyn_object(namespace))
    }

    pub(super) fn set(&self, state: &State, name: &str, value: Value) -> Result<(), Error> {
        if name.starts_with('_') {
            return fail(format!("a namespace stores nothing under a name that begins with `_`: {name}"));
        }
        depth_around([&value])?;
        let mut entries = self.entries();
        let old = entries.iter_mut().find(|(key, _)| key == name);
        let old = match old {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                room(state, 64)?;
                state.consume_fuel(1 + entries.len() as u64 / 16)?;
                entries.push((name.to_owned(), value));
                None
            }
        };
        // Not while the entries are locked: it may hold this namespace.
        drop(entries);
        drop(old);
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
        self.entries().iter().find_map(|(key, value)| (key == name).then(|| value.clone()))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// Where a generated text begins or ends, as the template writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(pub(super) char);

impl Object for Mark {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// How deep a value of these parts nests.
fn depth_around<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Result<usize, Error> {
    let mut deepest = 0;
    for part in parts {
        let Some(object) = part.as_object() else { continue };
        deepest = deepest.max(if let Some(seq) = object.downcast_ref::<Seq>() {
            seq.depth
        } else if let Some(dict) = object.downcast_ref::<Dict>() {
            dict.depth
        } else if object.downcast_ref::<Bound>().is_some() || object.type_name().ends_with("::Loop") {
            // They hold a value whose depth they do not tell.
            return fail("a loop or a method cannot be part of another value");
        } else {
            0
        });
    }
    if deepest < DEEPEST {
        Ok(deepest + 1)
    } else {
        fail(format!("a value nests deeper than {DEEPEST} levels"))
    }
}

/// Whether two objects are one.
pub(super) fn is_same(one: &DynObject, other: &DynObject) -> bool {
    fn both<T: Object + 'static>(one: &DynObject, other: &DynObject) -> bool {
        match (one.downcast_ref::<T>(), other.downcast_ref::<T>()) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            _ => false,
        }
    }
    both::<Seq>(one, other)
        || both::<Dict>(one, other)
        || both::<Namespace>(one, other)
        || both::<Bound>(one, other)
        || both::<Function>(one, other)
}

pub(super) fn check_hashable(key: &Value) -> Result<(), Error> {
    let hashable = match seq(key) {
        Some(seq) => seq.kind == Kind::Tuple && seq.items.iter().all(|item| check_hashable(item).is_ok()),
        None => dict(key).is_none(),
    };
    if hashable { Ok(()) } else { fail(format!("unhashable type: {}", type_name(key))) }
}

pub(super) fn seq(value: &Value) -> Option<&Seq> {
    value.downcast_object_ref()
}

pub(super) fn dict(value: &Value) -> Option<&Dict> {
    value.downcast_object_ref()
}

/// A list or a tuple.
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
            Some(Kind::Range(..)) => "range",
            Some(Kind::View(name)) => name,
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

/// Whether Python could iterate it.
pub(super) fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Undefined | ValueKind::String)
        || seq(value).is_some()
        || dict(value).is_some()
}

/// A value of JSON. `see` is shown every string.
pub(super) fn from_json(json: &Json, see: &mut impl FnMut(&str)) -> Value {
    from_json_at(json, see).0
}

/// The value and how deep it nests.
fn from_json_at(json: &Json, see: &mut impl FnMut(&str)) -> (Value, usize) {
    let leaf = match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Int(value) => i64::try_from(*value).map_or_else(|_| Value::from(*value), Value::from),
        Json::Float(value) => Value::from(*value),
        Json::String(text) => {
            see(text);
            Value::from(text.as_str())
        }
        Json::List(list) => {
            let mut deepest = 0;
            let items = list.iter().map(|item| {
                let (value, depth) = from_json_at(item, see);
                deepest = deepest.max(depth);
                value
            });
            let items = items.collect();
            let depth = deepest + 1;
            return (
                Value::from_object(Seq { kind: Kind::List, items, depth, taken: AtomicBool::new(false) }),
                depth,
            );
        }
        Json::Object(object) => {
            let (entries, deepest) = entries(object.iter(), see);
            return (Value::from_object(Dict::plain(entries, deepest + 1)), deepest + 1);
        }
    };
    (leaf, 0)
}

/// The entries of an object, and how deep the deepest nests.
fn entries<'a>(
    object: impl Iterator<Item = &'a (String, Json)>,
    see: &mut impl FnMut(&str),
) -> (Vec<(Value, Value)>, usize) {
    let mut deepest = 0;
    let entries = object.map(|(key, value)| {
        see(key);
        let (value, depth) = from_json_at(value, see);
        deepest = deepest.max(depth);
        (Value::from(key.as_str()), value)
    });
    (entries.collect(), deepest)
}

/// The names under which a message's reasoning comes.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message as the reference hands it to a template: without fields that are null, and with its reasoning under the
/// names that templates read.
pub(super) fn message(fields: &[(String, Json)], see: &mut impl FnMut(&str)) -> Value {
    let (mut entries, deepest) = entries(fields.iter().filter(|(_, value)| *value != Json::Null), see);
    let find = |entries: &[(Value, Value)], name: &str| {
        entries.iter().position(|(key, _)| key.as_str() == Some(name))
    };
    if let Some(place) = REASONING.iter().find_map(|name| find(&entries, name)) {
        let reasoning = entries[place].1.clone();
        let thinking = match find(&entries, "thinking") {
            Some(place) => entries.remove(place).1,
            None => reasoning.clone(),
        };
        entries.insert(0, (Value::from("thinking"), thinking));
        match find(&entries, "reasoning_content") {
            Some(place) => entries[place].1 = reasoning,
            None => entries.push((Value::from("reasoning_content"), reasoning)),
        }
    }
    Value::from_object(Dict::plain(entries, deepest + 1))
}

/// A list of values of JSON.
pub(super) fn plain_list(items: Vec<Value>) -> Value {
    let depth = items.iter().filter_map(dict).map(|dict| dict.depth).max().unwrap_or(0) + 1;
    Value::from_object(Seq { kind: Kind::List, items, depth, taken: AtomicBool::new(false) })
}
