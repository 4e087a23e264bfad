//! Python's numbers.

use minijinja::Value;
use minijinja::value::ValueKind;

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// A number, or a bool, which is one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value.kind() {
            ValueKind::Bool => Some(Self::Int(value.is_true().into())),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Self::Int),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Self::Float),
            _ => None,
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(super) fn is_nan(self) -> bool {
        self.float().is_nan()
    }
}

pub(super) fn int(value: &Value) -> Option<i128> {
    match Number::of(value)? {
        Number::Int(value) => Some(value),
        Number::Float(_) => None,
    }
}

pub(super) fn from_int(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}
