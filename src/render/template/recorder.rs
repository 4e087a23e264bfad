//! Notes the calls that look into a conversation's texts while it is rendered with placeholders for them.
//!
//! [`hands_on`] names the calls that only hand texts on: these are made with placeholders. Whoever adds an operator, a
//! filter, a test or a function need not name it there; it is taken for one that looks.

use std::sync::{Arc, Mutex};

use minijinja::{Error, State, Value};

use super::arguments::split;
use super::fail;
use super::noted::{Answer, Arg, Call, Look, Noted, Texts, holds};
use super::objects::{Seq, dict, is_same, seq};
use super::operators::{GENERATION, MACRO, MISSING};
use super::shape::placeholder;
use super::skeleton::Skeleton;
use super::text::string;
use crate::threads::lock;

/// What is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Called {
    Operator(&'static str),
    Filter(&'static str),
    Test(&'static str),
    Function(&'static str),
    Method,
}

/// How many values, and lines of text in them, are looked at in one rendering.
const MOST_SEEN: usize = 200_000;
/// How many calls are noted.
const MOST_CALLS: usize = 1000;

/// Records one rendering.
#[derive(Clone)]
pub(super) struct Recorder(Arc<Mutex<Recording>>);

struct Recording {
    texts: Texts<'static>,
    calls: Vec<Noted>,
    uses: Vec<u64>,
    /// How much may still be looked at.
    left: usize,
    /// How many values the calls have in their arguments.
    values: usize,
}

impl Recorder {
    pub(super) fn new(texts: &[&str]) -> Self {
        let uses = vec![0; texts.len()];
        let texts = Texts::owned(texts);
        Self(Arc::new(Mutex::new(Recording { texts, calls: Vec::new(), uses, left: MOST_SEEN, values: 0 })))
    }

    /// Makes a call.
    pub(super) fn call(
        &self,
        state: &State<'_, '_>,
        called: Called,
        call: &Call,
        args: &[Value],
    ) -> Result<Value, Error> {
        if let Some(looks) = self.looks_into(called, args)? {
            return self.note(state, call, args, &looks);
        }
        let value = call(state, args)?;
        self.look(std::slice::from_ref(&value))?;
        Ok(value)
    }

    /// Fails if a call that cannot be noted looks into texts.
    pub(super) fn check(&self, called: Called, args: &[Value]) -> Result<(), Error> {
        match self.looks_into(called, args)? {
            Some(_) => fail("the call cannot be noted"),
            None => Ok(()),
        }
    }

    /// The arguments of a call that looks into texts, as they were found; `None` of any other call.
    fn looks_into(&self, called: Called, args: &[Value]) -> Result<Option<Vec<Look>>, Error> {
        let looks = self.look(args)?;
        let holds = looks.iter().any(|look| look.holds);
        Ok((holds && !hands_on(called, args)).then_some(looks))
    }

    /// What is written for a value: a text as it is.
    pub(super) fn written(&self, state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
        let values = std::slice::from_ref(value);
        let looks = self.look(values)?;
        if value.as_str().is_some() || !looks[0].holds {
            return Ok(value.clone());
        }
        let call: Call = Arc::new(|_, args: &[Value]| string(&args[0]).map(Value::from));
        self.note(state, &call, values, &looks)
    }

    /// Makes a call with the texts, and notes it.
    fn note(
        &self,
        state: &State<'_, '_>,
        call: &Call,
        args: &[Value],
        looks: &[Look],
    ) -> Result<Value, Error> {
        let args: Option<Vec<Arg>> =
            args.iter().zip(looks).map(|(value, look)| Arg::new(value, *look)).collect();
        let Some(args) = args else { return fail("a value cannot be had again") };
        let put: Option<Vec<Value>> = {
            let texts = &mut lock(&self.0).texts;
            args.iter().map(|arg| texts.put(state, arg)).collect()
        };
        let Some(put) = put else { return fail("a value cannot be had again") };
        let value = call(state, &put)?;
        let before = lock(&self.0).left;
        self.look(&put)?;
        let recording = &mut *lock(&self.0);
        recording.values += before - recording.left;
        let mut number = recording.texts.len();
        let answer = recording.texts.note(&value).filter(|_| recording.calls.len() < MOST_CALLS);
        let Some(answer) = answer else { return fail("an answer cannot be noted") };
        recording.uses.resize(recording.texts.len(), 1);
        let shown = shown(state, &answer, &mut number)?;
        recording.calls.push(Noted { call: call.clone(), args, answer });
        Ok(shown)
    }

    /// Looks at values, and counts the uses of the texts in them.
    fn look(&self, values: &[Value]) -> Result<Vec<Look>, Error> {
        let Recording { uses, left, .. } = &mut *lock(&self.0);
        match values.iter().map(|value| Look::of(value, left, uses)).collect() {
            Some(looks) => Ok(looks),
            None => fail("there is too much to look at"),
        }
    }

    /// The skeleton of what was written.
    pub(super) fn skeleton(&self, text: String) -> Option<Skeleton> {
        let recording = &mut *lock(&self.0);
        let (calls, uses) = (std::mem::take(&mut recording.calls), std::mem::take(&mut recording.uses));
        Skeleton::new(calls, recording.values, text, uses)
    }
}

/// An answer with placeholders for its texts.
fn shown(state: &State<'_, '_>, answer: &Answer, number: &mut usize) -> Result<Value, Error> {
    match answer {
        Answer::Text { is_safe } => {
            let text = placeholder(*number);
            *number += 1;
            Ok(if *is_safe { Value::from_safe_string(text) } else { Value::from(text) })
        }
        Answer::Value(value) => Ok(value.clone()),
        Answer::Items(kind, items) => {
            let items = items.iter().map(|item| shown(state, item, number)).collect::<Result<_, _>>()?;
            Seq::make(state, *kind, items)
        }
    }
}

/// Whether an argument is a text without a digit, or has such texts by name.
fn is_word(arg: &Value) -> bool {
    let is_word =
        |value: &Value| value.as_str().is_some_and(|text| !text.contains(|char: char| char.is_ascii_digit()));
    let (_, named) = split(std::slice::from_ref(arg));
    is_word(arg) || arg.is_kwargs() && named.iter().all(|(_, value)| is_word(value))
}

/// Whether a call does the same for all texts that its arguments have: it hands them on, or asks only whether they are
/// empty.
fn hands_on(called: Called, args: &[Value]) -> bool {
    let first = args.first().unwrap_or(&Value::UNDEFINED);
    let is_text = first.as_str().is_some();
    let is_plain = |place: usize| !args.get(place).is_some_and(holds);
    let is_string = |value: &Value| value.as_str().is_some() && !value.is_safe();
    match called {
        Called::Operator("+") => args.iter().all(is_string) || args.iter().all(|arg| seq(arg).is_some()),
        Called::Operator("~") => args.iter().all(|arg| is_string(arg) || !holds(arg)),
        Called::Operator("==" | "!=") => is_same(&args[0], &args[1]),
        // An entry of a dict.
        Called::Operator("in!") => is_plain(0) && dict(&args[1]).is_some(),
        Called::Operator("[]") => !is_text && is_plain(1),
        Called::Operator("[:]" | "for!") => !is_text,
        Called::Operator("dict!") => args.iter().step_by(2).all(|key| !holds(key)),
        Called::Operator("list!" | "tuple!" | ".=" | GENERATION | MACRO | MISSING) => true,
        Called::Filter("d" | "default") => true,
        Called::Filter("count" | "first" | "items" | "last" | "length" | "list" | "reverse") => !is_text,
        Called::Filter("join") => {
            let is_written = |item: &Value| is_string(item) || !holds(item);
            args.len() <= 2
                && seq(first).is_some_and(|seq| seq.items.iter().all(is_written))
                && args.get(1).is_none_or(is_string)
        }
        // A path with a number may lead into a text.
        Called::Filter("map" | "reject" | "rejectattr" | "select" | "selectattr") => {
            seq(first).is_some() && args[1..].iter().all(|arg| !holds(arg) && is_word(arg))
        }
        Called::Filter("string") => is_text,
        Called::Test(test) => matches!(
            test,
            "boolean"
                | "defined"
                | "false"
                | "float"
                | "integer"
                | "iterable"
                | "mapping"
                | "none"
                | "number"
                | "sequence"
                | "string"
                | "true"
                | "undefined"
        ),
        Called::Function(name) => matches!(name, "dict" | "namespace"),
        Called::Method => dict(first).is_some() && is_plain(1),
        Called::Operator(_) | Called::Filter(_) => false,
    }
}
