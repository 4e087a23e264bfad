//! What a template writes for all conversations of one shape: a text with places for theirs.
//!
//! Roles, keys and tools decide what a template writes; the texts seldom do, and then by a call of an operator, a filter,
//! a test or a method: the machine itself only asks whether they are empty, and they are not. So the first conversation of
//! a [`Shape`] is rendered once more, with placeholders for its texts, while a [`Recorder`](super::recorder::Recorder)
//! makes each call that looks into a text with the real one, and notes it with its answer. An answer that is a text has a
//! placeholder of its own.
//!
//! The next conversation of the shape is not rendered. The noted calls are made with its texts. If every answer is the
//! same, the template takes the same path, so the texts go to the places of their placeholders. If one differs, the
//! conversation is rendered, and becomes a skeleton too.
//!
//! A skeleton must not write a text for which the template would run out of fuel. So the rendering with placeholders, the
//! calls that are made again, and all uses of the texts may take a [`QUARTER`] of it each.

use std::collections::HashMap;
use std::sync::RwLock;

use minijinja::Environment;

use super::FUEL;
use super::noted::{Noted, Texts};
use super::shape::{Shape, placeholders};

/// A part of the fuel of a rendering.
pub(super) const QUARTER: u64 = FUEL / 4;

/// How many skeletons one shape may have, with those that could not be made.
const MOST_OF_A_SHAPE: u8 = 4;
/// How many all shapes may have.
const MOST: usize = 1024;
/// How many bytes they may have, about.
const MOST_BYTES: usize = 8 << 20;
/// The bytes of a call that is noted, and of a value in its arguments, about.
const CALL_BYTES: usize = 256;
const VALUE_BYTES: usize = 128;

/// What a template writes for a shape.
pub(super) struct Skeleton {
    calls: Vec<Noted>,
    /// With placeholders.
    text: String,
    /// The placeholders of the text: where they begin, and the numbers of their texts.
    places: Vec<(usize, usize)>,
    /// How often the template has used each text.
    uses: Vec<u64>,
    /// How many values the calls have in their arguments.
    values: usize,
}

impl Skeleton {
    /// `None` if a placeholder of the text is nobody's.
    pub(super) fn new(calls: Vec<Noted>, values: usize, text: String, mut uses: Vec<u64>) -> Option<Self> {
        let places: Vec<_> = placeholders(&text).collect();
        for (_, number) in &places {
            *uses.get_mut(*number)? += 1;
        }
        Some(Self { calls, text, places, uses, values })
    }

    fn bytes(&self) -> usize {
        self.text.len()
            + self.calls.len() * CALL_BYTES
            + self.values * VALUE_BYTES
            + size_of_val(&*self.places)
            + size_of_val(&*self.uses)
    }

    /// The text for these texts; `None` if a call answers otherwise, or if a rendering might lack fuel. `env` has a
    /// [`QUARTER`] of fuel.
    pub(super) fn fill(&self, env: &Environment<'_>, conversation: &[&str]) -> Option<String> {
        let mut texts = Texts::new(conversation);
        let mut left = self.charge(&texts, 0, QUARTER)?;
        if !self.calls.is_empty() {
            let state = env.empty_state();
            let mut values = Vec::new();
            for Noted { call, args, answer } in &self.calls {
                values.clear();
                for arg in args {
                    values.push(texts.put(&state, arg)?);
                }
                let first = texts.len();
                texts.agrees(&call(&state, &values).ok()?, answer).then_some(())?;
                left = self.charge(&texts, first, left)?;
            }
        }
        texts.put_text(&self.text, self.places.iter().copied())
    }

    /// What is left of some fuel after all uses of the texts from `first` on.
    fn charge(&self, texts: &Texts<'_>, first: usize, left: u64) -> Option<u64> {
        (first..texts.len()).try_fold(left, |left, number| {
            let uses = self.uses.get(number)?;
            left.checked_sub(uses.saturating_mul(texts.get(number)?.len() as u64))
        })
    }
}

/// The skeletons of a template.
#[derive(Default)]
pub(super) struct Skeletons(RwLock<Known>);

#[derive(Default)]
struct Known {
    shapes: HashMap<Vec<u8>, OfShape, foldhash::fast::RandomState>,
    /// How many skeletons there are, with those that could not be made, and how many bytes they have.
    count: usize,
    bytes: usize,
}

/// The skeletons of a shape.
#[derive(Default)]
struct OfShape {
    skeletons: Vec<Skeleton>,
    tries: u8,
}

impl Skeletons {
    /// The text of a conversation, if a skeleton is known that fits.
    pub(super) fn fill(&self, env: &Environment<'_>, shape: &Shape<'_>) -> Option<String> {
        let known = self.0.read().ok()?;
        known.shapes.get(&shape.key)?.skeletons.iter().find_map(|skeleton| skeleton.fill(env, &shape.texts))
    }

    /// Makes a skeleton that gives this conversation's text, if there is room for one. It may turn out that there is none.
    pub(super) fn add(
        &self,
        env: &Environment<'_>,
        shape: Shape<'_>,
        text: &str,
        make: impl FnOnce(&Shape<'_>) -> Option<Skeleton>,
    ) {
        let has_room = |known: &Known| {
            let tries = known.shapes.get(&shape.key).map_or(0, |of_shape| of_shape.tries);
            tries < MOST_OF_A_SHAPE && known.count < MOST && known.bytes < MOST_BYTES
        };
        if !self.0.read().is_ok_and(|known| has_room(&known)) {
            return;
        }
        let skeleton =
            make(&shape).filter(|skeleton| skeleton.fill(env, &shape.texts).as_deref() == Some(text));
        let Ok(mut known) = self.0.write() else { return };
        if has_room(&known) {
            known.count += 1;
            known.bytes += shape.key.len() + skeleton.as_ref().map_or(0, Skeleton::bytes);
            let of_shape = known.shapes.entry(shape.key).or_default();
            of_shape.tries += 1;
            of_shape.skeletons.extend(skeleton);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
