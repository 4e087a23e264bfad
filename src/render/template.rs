//! Chat templates: Jinja, as transformers renders it.
//!
//! A conversation enters, as JSON; a text leaves, and which of its bytes the template wrote in generation blocks. The
//! text is that of `apply_chat_template` of transformers 5.24, byte for byte, and what that refuses is refused.
//! minijinja parses and runs the template; [`program`] says how it comes to do what Python does.
//!
//! A template is not trusted. Time, memory and the length of the text are bounded by *fuel*, of which each instruction,
//! byte and item costs some; recursion is bounded too. What is beyond the bounds is an error.
//!
//! # Where it differs from the reference
//!
//! This renders otherwise:
//!
//! - A generation block in a macro, or in a `set` or `filter` block: its range is where the text comes to stand. The
//!   reference counts from where the outer block began. The text of that block has two marks, which `length` counts. Of
//!   nested blocks the reference has each range, here the outermost only.
//! - The `else` of a loop runs if the loop has no items; the reference runs it too if no round came to its end, for
//!   `break` or `continue`.
//! - What stands between constants only is computed by minijinja: `1 < 'a'` is an answer, and `1e22 ~ ''` has zeros.
//! - A value of `with` sees the variables before it.
//! - `self`, and a method of a string or a list that is not called, are undefined.
//!
//! This is refused, with its name. No real template that we know uses it.
//!
//! - Tags: `autoescape`, `block`, `extends`, `import`, `include`, `raw`. `break` and `continue` out of a `set`
//!   or `filter` block, or out of a generation block.
//! - Recursive loops, `loop.cycle` and `loop.changed`; a default of a macro's parameter that uses another parameter.
//! - Filters, tests, functions and methods that are not in the tables of [`filters`], [`tests`], [`functions`] and
//!   [`methods`], and their further parameters. Among them are `abs`, `groupby`, `round`, `sum` and `wordcount`;
//!   `callable`, `divisibleby` and `sameas`; `cycler` and `joiner`; `isdigit` and `zfill`.
//! - `'%5d' % x`, `'{:>5}'.format(x)`, chains such as `a < b < c`, the order of lists, `[0] * n`, tuples as keys, integers
//!   of more than 38 digits.
//! - The text of a range, a view of a dict, a generator or a function; methods of a string that is marked as safe.
//! - In strings `\/`, `\a`, `\v`, `\N{…}` and `\U…`; a tuple without parentheses in `{{ }}` and `for`; `a is b + c` without
//!   parentheses around the test.

mod arguments;
#[cfg(test)]
mod bounds;
mod calls;
mod compare;
mod date;
mod filters;
mod format;
mod functions;
mod methods;
mod noted;
mod numbers;
mod objects;
mod operators;
#[cfg(test)]
mod peer;
mod program;
mod recorder;
mod shape;
mod skeleton;
mod source;
mod tests;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use chrono::NaiveDate;
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

use calls::Calls;
use program::Program;
use recorder::Recorder;
use shape::{FIRST_BYTE, Placeholders, Shape};
use skeleton::{Skeleton, Skeletons};

use crate::render::RenderError;
use crate::render::json::{Json, Key};

/// The characters around generated text while it is rendered: two that Unicode says are none.
const MARKS: [char; 2] = ['\u{10FFFE}', '\u{10FFFF}'];

/// The longest text, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// What a rendering may cost. An instruction costs one, and so do 64 bytes.
const FUEL: u64 = 2_000_000;
/// What it may cost more for each byte that goes in.
const FUEL_PER_BYTE: u64 = 32;

/// How the error of a template begins that calls `raise_exception`.
const REFUSED: &str = "the template says: ";
/// The error of a template that asks for a date that is not set.
const NO_DATE: &str = "the template asks for today's date";

/// A compiled chat template.
pub(crate) struct Template {
    program: Program,
    tokens: Vec<(String, String)>,
    date: Option<NaiveDate>,
    env: Environment<'static>,
    asks_for_date: bool,
    marks_generation: bool,
    /// `None` if conversations of one shape may become other texts for reasons that cannot be noted.
    skeletons: Option<Skeletons>,
}

/// What a template is rendered with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) messages: &'a [Json],
    pub(crate) tools: Option<&'a [Json]>,
    pub(crate) documents: Option<&'a [Json]>,
    /// More variables, which come before special tokens of the same name.
    pub(crate) kwargs: &'a [(Key, Json)],
    pub(crate) add_generation_prompt: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemplateText {
    pub(crate) text: String,
    /// The bytes that were written in generation blocks, in their order.
    pub(crate) generated: Vec<Range<usize>>,
}

impl Template {
    /// Compiles a template.
    ///
    /// `tokens` are the special tokens by the names that templates know them by, such as `bos_token`. `date` is what
    /// `strftime_now` tells.
    pub(crate) fn compile(
        source: &str,
        tokens: &[(String, String)],
        date: Option<NaiveDate>,
    ) -> Result<Self, RenderError> {
        let mut env = environment(tokens, date, None);
        let compiled = source::prepare(source).and_then(|source| Program::compile(source, &env));
        let program = compiled.map_err(|e| RenderError {
            what: format!("the chat template cannot be read: {}", describe(&e)),
            remedy: "correct the template, or set `template` to another".to_owned(),
        })?;
        let asks_for_date = program.calls("strftime_now");
        let marks_generation = program.marks_generation();
        let is_plain = tokens.iter().all(|(_, token)| shape::plain(token).is_some());
        let skeletons = (is_plain && !program.disturbs_skeletons()).then(Skeletons::default);
        // For the calls of skeletons.
        env.set_fuel(Some(skeleton::QUARTER));
        let tokens = tokens.to_vec();
        Ok(Self { program, tokens, date, env, asks_for_date, marks_generation, skeletons })
    }

    /// Whether it calls `strftime_now`. It may have its own default for a date that is not set.
    pub(crate) fn asks_for_date(&self) -> bool {
        self.asks_for_date
    }

    /// Whether it has generation blocks.
    pub(crate) fn marks_generation(&self) -> bool {
        self.marks_generation
    }

    pub(crate) fn render(&self, input: &Input<'_>) -> Result<TemplateText, RenderError> {
        let Some(skeletons) = &self.skeletons else {
            return self.run(input).map(|text| self.read_marks(text));
        };
        let shape = Shape::of(input);
        let known = shape.as_ref().and_then(|shape| skeletons.fill(&self.env, shape));
        let text = match known {
            Some(text) => text,
            None => {
                let text = self.run(input)?;
                if let Some(shape) = shape {
                    skeletons.add(&self.env, shape, &text, |shape| self.skeleton(input, shape));
                }
                text
            }
        };
        Ok(self.read_marks(text))
    }

    /// The text, with the marks of generation blocks.
    fn run(&self, input: &Input<'_>) -> Result<String, RenderError> {
        let (mut fuel, mut bytes) = (FUEL, 0);
        let mut has_marks = false;
        let variables = variables(input, &mut |text: &str| {
            fuel += FUEL_PER_BYTE * (text.len() as u64 + 16);
            bytes += text.len();
            has_marks |= memchr::memchr(FIRST_BYTE, text.as_bytes()).is_some() && text.contains(MARKS);
        })?;
        if has_marks && self.marks_generation {
            return Err(bad("the conversation has a character that is none: U+10FFFE or U+10FFFF"));
        }
        let mut env = self.env.clone();
        env.set_fuel(Some(fuel));
        let text = self.program.run(&env, variables, bytes).map_err(|e| failed(&e))?;
        if text.len() > MOST_BYTES {
            return Err(failed(&Error::from(ErrorKind::OutOfFuel)));
        }
        Ok(text)
    }

    /// The skeleton of a conversation's shape, if there is one.
    fn skeleton(&self, input: &Input<'_>, shape: &Shape<'_>) -> Option<Skeleton> {
        let mut placeholders = Placeholders::default();
        let messages: Vec<Json> = input.messages.iter().map(|message| placeholders.put(message)).collect();
        let put = |(name, value): &(Key, Json)| (name.clone(), placeholders.put(value));
        let kwargs: Vec<(Key, Json)> = input.kwargs.iter().map(put).collect();
        let input = Input { messages: &messages, kwargs: &kwargs, ..*input };
        let recorder = Recorder::new(&shape.texts);
        let mut env = environment(&self.tokens, self.date, Some(recorder.clone()));
        env.set_fuel(Some(skeleton::QUARTER));
        let variables = variables(&input, &mut |_: &str| ()).ok()?;
        recorder.skeleton(self.program.run(&env, variables, 0).ok()?)
    }

    fn read_marks(&self, text: String) -> TemplateText {
        match self.marks_generation {
            true => without_marks(text),
            false => TemplateText { text, generated: Vec::new() },
        }
    }
}

/// What a template can call, and the special tokens.
fn environment(
    tokens: &[(String, String)],
    date: Option<NaiveDate>,
    recorder: Option<Recorder>,
) -> Environment<'static> {
    let mut calls = Calls::new(recorder);
    program::add_operators(&mut calls);
    filters::add(&mut calls);
    tests::add(&mut calls);
    functions::add(&mut calls, date);
    let mut env = calls.into_env();
    for (name, token) in tokens {
        env.add_global(name.clone(), token.as_str());
    }
    env
}

/// The variables of a rendering. `see` is shown every string.
fn variables(input: &Input<'_>, see: &mut impl FnMut(&str)) -> Result<Value, RenderError> {
    if input.messages.is_empty() {
        return Err(bad("the conversation has no messages"));
    }
    let kwargs = input.kwargs.iter();
    let mut variables: Vec<(Cow<'static, str>, Value)> =
        kwargs.map(|(name, value)| (name.clone(), objects::from_json(value, see))).collect();
    let messages = input.messages.iter().map(|message| match message {
        Json::Object(fields) => Ok(objects::message(fields, see)),
        _ => Err(bad("a message is not an object")),
    });
    variables.push(("messages".into(), objects::plain_list(messages.collect::<Result<_, _>>()?)));
    for (name, list) in [("tools", input.tools), ("documents", input.documents)] {
        let objects = list.map(|list| {
            if !list.iter().all(|item| matches!(item, Json::Object(_))) {
                return Err(bad(&format!("one of the {name} is not an object")));
            }
            Ok(objects::plain_list(list.iter().map(|item| objects::from_json(item, see)).collect()))
        });
        variables.push((name.into(), objects.transpose()?.unwrap_or_else(|| Value::from(()))));
    }
    variables.push(("add_generation_prompt".into(), Value::from(input.add_generation_prompt)));
    Ok(objects::variables(variables))
}

fn bad(what: &str) -> RenderError {
    RenderError { what: what.to_owned(), remedy: "correct the conversation, or leave it out".to_owned() }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").finish_non_exhaustive()
    }
}

/// The text without its marks, and what stood between them.
fn without_marks(marked: String) -> TemplateText {
    let mut out = TemplateText { text: String::with_capacity(marked.len()), generated: Vec::new() };
    let (mut copied, mut open, mut start) = (0, 0_usize, 0);
    for at in memchr::memchr_iter(FIRST_BYTE, marked.as_bytes()) {
        let begins = marked[at..].starts_with(MARKS[0]);
        if !begins && !marked[at..].starts_with(MARKS[1]) {
            continue;
        }
        out.text.push_str(&marked[copied..at]);
        copied = at + MARKS[0].len_utf8();
        if begins {
            if open == 0 {
                start = out.text.len();
            }
            open += 1;
        } else if open > 0 {
            open -= 1;
            if open == 0 && start < out.text.len() {
                out.generated.push(start..out.text.len());
            }
        }
    }
    out.text.push_str(&marked[copied..]);
    out
}

/// Writes a value into the text.
fn write(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None => Ok(out.write_str(&text::string(value)?)?),
    }
}

fn fail<T>(what: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, what))
}

/// Fails if there is too little fuel for a value of so many bytes, before it is made.
fn room(state: &State, bytes: usize) -> Result<(), Error> {
    match state.fuel_levels() {
        Some((_, left)) if bytes as u64 / 64 > left => Err(Error::from(ErrorKind::OutOfFuel)),
        _ => Ok(()),
    }
}

/// The innermost reason of an error, and its line.
fn describe(error: &Error) -> String {
    let mut inner = error;
    while let Some(next) = std::error::Error::source(inner).and_then(|source| source.downcast_ref::<Error>())
    {
        inner = next;
    }
    let what = inner.detail().map_or_else(|| inner.kind().to_string(), str::to_owned);
    match inner.line().or(error.line()) {
        Some(line) => format!("{what} (line {line} of the template)"),
        None => what,
    }
}

fn failed(error: &Error) -> RenderError {
    let what = describe(error);
    use ErrorKind::{UnknownFilter, UnknownFunction, UnknownMethod, UnknownTest};
    let remedy = if error.kind() == ErrorKind::OutOfFuel {
        "it runs too long or writes too much: shorten the conversation, or use another template"
    } else if matches!(error.kind(), UnknownFilter | UnknownFunction | UnknownMethod | UnknownTest) {
        "correct the template, or use another"
    } else if what.starts_with(NO_DATE) {
        "set `date`, such as \"2026-11-28\""
    } else {
        "correct the conversation, leave it out, or use another template"
    };
    RenderError { what: format!("the chat template refuses it: {what}"), remedy: remedy.to_owned() }
}
