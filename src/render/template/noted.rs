//! Calls that look into a conversation's texts, noted so that they can be made again with other texts.

use std::sync::Arc;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, State, Value};

use super::arguments::split;
use super::numbers::Number;
use super::objects::{Dict, Kind, Seq, dict, seq};
use super::shape::{MOST, PLACEHOLDER, placeholders};

/// A call of an operator, a filter, a test, a function or a method. What it returns depends on its arguments alone.
pub(super) type Call = Arc<dyn Fn(&State<'_, '_>, &[Value]) -> Result<Value, Error> + Send + Sync>;

/// The most items of an answer.
const MOST_ITEMS: usize = 64;

/// A call that looks into a text.
pub(super) struct Noted {
    pub(super) call: Call,
    pub(super) args: Vec<Arg>,
    pub(super) answer: Answer,
}

/// An argument of a call.
pub(super) enum Arg {
    /// Without a placeholder.
    Value(Value),
    /// The text with this number.
    Text(usize),
    /// Anything else with placeholders.
    Holds(Value),
}

/// What a call has returned.
#[derive(Debug)]
pub(super) enum Answer {
    /// A text, which may be marked as safe. It is the next one with a placeholder.
    Text {
        is_safe: bool,
    },
    /// Anything else without items.
    Value(Value),
    Items(Kind, Vec<Answer>),
}

/// What a look at a value has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// A placeholder.
    pub(super) holds: bool,
    /// Whether a later copy behaves the same: no iterator, view, namespace, loop or NaN.
    pub(super) is_fixed: bool,
}

impl Look {
    /// Looks at a value and all in it, of which lists may share parts: at no more than `left` values and lines of text.
    /// Adds the uses of texts to `uses`. `None` if there is more.
    pub(super) fn of(value: &Value, left: &mut usize, uses: &mut [u64]) -> Option<Self> {
        let mut look = Self { holds: false, is_fixed: true };
        look.add(value, left, uses)?;
        Some(look)
    }

    fn add(&mut self, value: &Value, left: &mut usize, uses: &mut [u64]) -> Option<()> {
        let text = value.as_str().unwrap_or_default();
        *left = left.checked_sub(1 + text.len() / 64)?;
        for (_, number) in placeholders(text) {
            self.holds = true;
            let uses = uses.get_mut(number)?;
            *uses = uses.saturating_add(1);
        }
        if let Some(seq) = seq(value) {
            self.is_fixed &= !matches!(seq.kind, Kind::Iterator | Kind::View);
            seq.items.iter().try_for_each(|item| self.add(item, left, uses))
        } else if let Some(dict) = dict(value) {
            let mut both = dict.entries.iter().flat_map(|(key, value)| [key, value]);
            both.try_for_each(|value| self.add(value, left, uses))
        } else if value.is_kwargs() {
            let (_, named) = split(std::slice::from_ref(value));
            named.iter().try_for_each(|(_, value)| self.add(value, left, uses))
        } else {
            self.is_fixed &= value.as_object().is_none() && !Number::of(value).is_some_and(Number::is_nan);
            Some(())
        }
    }
}

/// Whether a value has a placeholder. It was looked at before, so it is not endless.
pub(super) fn holds(value: &Value) -> bool {
    if let Some(text) = value.as_str() {
        placeholders(text).next().is_some()
    } else if let Some(seq) = seq(value) {
        seq.items.iter().any(holds)
    } else if let Some(dict) = dict(value) {
        dict.entries.values().any(holds)
    } else {
        value.is_kwargs() && split(std::slice::from_ref(value)).1.iter().any(|(_, value)| holds(value))
    }
}

impl Arg {
    /// `None` if it cannot be had again.
    pub(super) fn new(value: &Value, look: Look) -> Option<Self> {
        if !look.is_fixed {
            return None;
        }
        let text = value.as_str().filter(|text| text.len() == PLACEHOLDER && !value.is_safe());
        Some(match text.and_then(|text| placeholders(text).next()) {
            Some((_, number)) => Self::Text(number),
            None if look.holds => Self::Holds(value.clone()),
            None => Self::Value(value.clone()),
        })
    }
}

/// The texts behind placeholders: those of a conversation, then those that calls have returned.
pub(super) struct Texts<'a> {
    conversation: &'a [&'a str],
    /// As values, once they have been asked for.
    values: Vec<Option<Value>>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(conversation: &'a [&'a str]) -> Self {
        Self { conversation, values: vec![None; conversation.len()] }
    }

    /// With texts of its own.
    pub(super) fn owned(texts: &[&str]) -> Texts<'static> {
        Texts { conversation: &[], values: texts.iter().map(|text| Some(Value::from(*text))).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<&str> {
        match self.conversation.get(number) {
            Some(text) => Some(text),
            None => self.values.get(number)?.as_ref()?.as_str(),
        }
    }

    fn value(&mut self, number: usize) -> Option<Value> {
        let conversation = self.conversation.get(number);
        let value = self.values.get_mut(number)?;
        if value.is_none() {
            *value = conversation.map(|text| Value::from(*text));
        }
        match value {
            Some(value) if value.is_safe() => value.as_str().map(Value::from),
            value => value.clone(),
        }
    }

    /// An argument with the texts in the place of their placeholders.
    pub(super) fn put(&mut self, state: &State<'_, '_>, arg: &Arg) -> Option<Value> {
        match arg {
            Arg::Value(value) => Some(value.clone()),
            Arg::Text(number) => self.value(*number),
            Arg::Holds(value) => self.put_within(state, value),
        }
    }

    fn put_within(&self, state: &State<'_, '_>, value: &Value) -> Option<Value> {
        if let Some(text) = value.as_str() {
            let out = self.put_text(text, placeholders(text))?;
            Some(if value.is_safe() { Value::from_safe_string(out) } else { Value::from(out) })
        } else if let Some(seq) = seq(value) {
            let items = seq.items.iter().map(|item| self.put_within(state, item)).collect::<Option<_>>()?;
            Seq::make(state, seq.kind, items).ok()
        } else if let Some(dict) = dict(value) {
            let put = |(key, value): (&Value, &Value)| Some((key.clone(), self.put_within(state, value)?));
            Dict::make(state, dict.entries.iter().map(put).collect::<Option<_>>()?).ok()
        } else if value.is_kwargs() {
            let (_, named) = split(std::slice::from_ref(value));
            let put = |(name, value): (String, Value)| Some((name, self.put_within(state, &value)?));
            Some(Value::from(named.into_iter().map(put).collect::<Option<Kwargs>>()?))
        } else {
            Some(value.clone())
        }
    }

    /// A text with the texts in the places of their placeholders.
    pub(super) fn put_text(
        &self,
        text: &str,
        places: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Option<String> {
        let length: usize = places.clone().map(|(_, number)| self.get(number).map_or(0, str::len)).sum();
        let (mut out, mut at) = (String::with_capacity(text.len() + length), 0);
        for (place, number) in places {
            out.push_str(&text[at..place]);
            out.push_str(self.get(number)?);
            at = place + PLACEHOLDER;
        }
        out.push_str(&text[at..]);
        Some(out)
    }

    /// What to note of a value that a call has returned. Its texts are the next ones. `None` for what cannot be noted.
    pub(super) fn note(&mut self, value: &Value) -> Option<Answer> {
        if value.as_str().is_some_and(|text| !text.is_empty()) {
            self.values.push(Some(value.clone()));
            return (self.len() < MOST).then_some(Answer::Text { is_safe: value.is_safe() });
        }
        if let Some(seq) = seq(value) {
            if matches!(seq.kind, Kind::Iterator | Kind::View) || seq.items.len() > MOST_ITEMS {
                return None;
            }
            let items = seq.items.iter().map(|item| self.note(item)).collect::<Option<_>>()?;
            return Some(Answer::Items(seq.kind, items));
        }
        value.as_object().is_none().then(|| Answer::Value(value.clone()))
    }

    /// Whether a call has answered the same, but for texts. These are the next ones.
    pub(super) fn agrees(&mut self, value: &Value, answer: &Answer) -> bool {
        match answer {
            Answer::Text { is_safe } => {
                let agrees =
                    value.as_str().is_some_and(|text| !text.is_empty()) && value.is_safe() == *is_safe;
                self.values.push(agrees.then(|| value.clone()));
                agrees
            }
            Answer::Value(noted) => is_identical(value, noted),
            Answer::Items(kind, items) => seq(value).is_some_and(|seq| {
                seq.kind == *kind
                    && seq.items.len() == items.len()
                    && seq.items.iter().zip(items).all(|(item, answer)| self.agrees(item, answer))
            }),
        }
    }
}

/// Whether two values without items are one and the same: 1 and 1.0 are not, nor are 0.0 and -0.0.
fn is_identical(a: &Value, b: &Value) -> bool {
    if a.kind() != b.kind() || a.is_safe() != b.is_safe() {
        return false;
    }
    match (a.kind(), Number::of(a), Number::of(b)) {
        (ValueKind::Undefined, ..) => true,
        (ValueKind::Number, Some(Number::Int(a)), Some(Number::Int(b))) => a == b,
        (ValueKind::Number, Some(Number::Float(a)), Some(Number::Float(b))) => a.to_bits() == b.to_bits(),
        (ValueKind::Number, ..) => false,
        _ => a == b,
    }
}
