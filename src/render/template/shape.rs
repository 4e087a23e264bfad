//! The shape of a conversation: all but its texts.
//!
//! Conversations of one shape have the same roles, keys, numbers and tools, and texts at the same places. Roles, types of
//! parts and descriptions of tools belong to the shape: many conversations share them.

use super::Input;
use crate::render::json::{Json, Key};

/// The longest key of a shape, in bytes.
const LONGEST: usize = 32 << 10;

/// The keys whose texts belong to the shape.
const OF_SHAPE: [&str; 2] = ["role", "type"];

/// The first byte of placeholders, and of the marks of generation blocks. No text of a shape has it.
pub(super) const FIRST_BYTE: u8 = 0xf4;

/// The number of the first placeholder, which is a character for private use.
const FIRST: u32 = 0x10_0000;

/// How many placeholders there are.
pub(super) const MOST: usize = 0xfff0;

/// The placeholder of a text.
pub(super) fn placeholder(number: usize) -> String {
    let char = u32::try_from(number).ok().and_then(|number| char::from_u32(FIRST + number));
    char.unwrap_or(char::MAX).into()
}

/// The placeholders in a text: where they begin, and the numbers of their texts.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = (usize, usize)> + Clone {
    memchr::memchr_iter(FIRST_BYTE, text.as_bytes()).filter_map(|at| {
        let number = text[at..].chars().next().map(u32::from)?.checked_sub(FIRST)? as usize;
        (number < MOST).then_some((at, number))
    })
}

/// How many bytes each placeholder has.
pub(super) const PLACEHOLDER: usize = 4;

/// A shape, and the texts of one conversation that has it.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) key: Vec<u8>,
    /// They are not empty.
    pub(super) texts: Vec<&'a str>,
}

impl<'a> Shape<'a> {
    /// `None` if a text may have a placeholder, or if there are too many texts or too long a key.
    pub(super) fn of(input: &Input<'a>) -> Option<Self> {
        let mut shape = Self { key: Vec::with_capacity(512), texts: Vec::new() };
        shape.add_list(input.messages, true)?;
        shape.key.push(input.add_generation_prompt.into());
        for list in [input.tools, input.documents] {
            match list {
                Some(list) => shape.add_list(list, false)?,
                None => shape.key.push(b'-'),
            }
        }
        shape.add_length(input.kwargs.len());
        for (name, value) in input.kwargs {
            shape.add_text(name)?;
            shape.add(value, true)?;
        }
        (shape.texts.len() < MOST && shape.key.len() < LONGEST).then_some(shape)
    }

    /// Adds a value. `differs` says whether its texts may differ between conversations of the shape.
    fn add(&mut self, json: &'a Json, differs: bool) -> Option<()> {
        match json {
            Json::Null => self.key.push(b'n'),
            Json::Bool(value) => self.key.extend([b'b', (*value).into()]),
            Json::Int(value) => {
                self.key.push(b'i');
                self.key.extend(value.to_le_bytes());
            }
            Json::Float(value) => {
                self.key.push(b'f');
                self.key.extend(value.to_bits().to_le_bytes());
            }
            Json::String(text) if differs && !text.is_empty() => {
                self.key.push(b't');
                self.texts.push(plain(text)?);
            }
            Json::String(text) => self.add_text(text)?,
            Json::List(items) => self.add_list(items, differs)?,
            Json::Object(entries) => {
                self.key.push(b'o');
                self.add_length(entries.len());
                for (key, value) in entries {
                    self.add_text(key)?;
                    self.add(value, differs && !OF_SHAPE.contains(&&**key))?;
                }
            }
        }
        Some(())
    }

    fn add_list(&mut self, items: &'a [Json], differs: bool) -> Option<()> {
        self.key.push(b'l');
        self.add_length(items.len());
        (self.key.len() < LONGEST).then_some(())?;
        items.iter().try_for_each(|item| self.add(item, differs))
    }

    /// A text that belongs to the shape.
    fn add_text(&mut self, text: &str) -> Option<()> {
        self.key.push(b's');
        self.add_length(text.len());
        self.key.extend(plain(text)?.as_bytes());
        (self.key.len() < LONGEST).then_some(())
    }

    /// The key is shorter than what four bytes count.
    fn add_length(&mut self, length: usize) {
        self.key.extend((length as u32).to_le_bytes());
    }
}

/// Values with placeholders for their texts, in the order in which a shape has these.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    count: usize,
}

impl Placeholders {
    pub(super) fn put(&mut self, json: &Json) -> Json {
        match json {
            Json::String(text) if !text.is_empty() => {
                self.count += 1;
                Json::String(placeholder(self.count - 1))
            }
            Json::List(items) => Json::List(items.iter().map(|item| self.put(item)).collect()),
            Json::Object(entries) => {
                let put = |(key, value): &(Key, Json)| {
                    let is_of_shape = OF_SHAPE.contains(&&**key);
                    (key.clone(), if is_of_shape { value.clone() } else { self.put(value) })
                };
                Json::Object(entries.iter().map(put).collect())
            }
            other => other.clone(),
        }
    }
}

/// The text, if it has no placeholder.
pub(super) fn plain(text: &str) -> Option<&str> {
    memchr::memchr(FIRST_BYTE, text.as_bytes()).is_none().then_some(text)
}
