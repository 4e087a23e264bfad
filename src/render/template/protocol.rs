//! How minijinja gets at lists and dicts: their entries, their methods, and whether they are equal.

use std::cmp::Ordering;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};
use minijinja::{Error, State, Value};

use super::objects::{Bound, Dict, Kind, Seq, bound};
use super::{compare, methods};

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

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        name: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::of_seq(state, self, name, args)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        equality(compare::same_seqs(self, other.downcast_ref()?, &mut compare::budget()))
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key).cloned()
    }

    /// The attribute `name`: a method hides an entry.
    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        bound(self, name).or_else(|| self.get_str(name).cloned())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        name: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::of_dict(state, self, name, args)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        equality(compare::same_dicts(self, other.downcast_ref()?, &mut compare::budget()))
    }
}

impl Object for Bound {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::of_dict(state, &self.dict, self.name, args)
    }
}

/// minijinja asks for an order where it compares two values for equality. What cannot be compared is not equal.
fn equality(same: Result<bool, Error>) -> Option<Ordering> {
    Some(if same.unwrap_or(false) { Ordering::Equal } else { Ordering::Less })
}
