//! Checks that the fast engine is exact on a whole corpus, however large: the gate reads only its first
//! mebibyte.

use std::fmt;

use super::candidate::Candidate;
use super::caught::caught;
use super::engine::Engine;
use super::gate::{Right, first_difference};
use super::reference::{Reference, Refusal};
use super::tokenizer::HfTokenizer;
use super::unassigned;
use crate::error::{Error, Result};

/// How many ids are shown before a difference, and how many from there on.
const NEAR: (usize, usize) = (3, 8);

/// How much text is shown around it, in bytes.
const AROUND: usize = 40;

/// A fast engine of a tokenizer, beside the reference.
///
/// It may be the engine that the gate chose, or one that the gate refuses: then the check shows why. A `Check` is
/// `Sync`, so threads can share it.
pub struct Check {
    fast: Candidate,
    reference: Reference,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("fast", &self.fast.engine()).finish_non_exhaustive()
    }
}

/// Where the engines differ on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The byte of the text where the first id that differs begins, as the reference has it.
    pub byte: usize,
    /// The text around that byte.
    pub around: String,
    /// The fast engine's ids from shortly before it, or why it fails.
    pub fast: std::result::Result<Vec<u32>, String>,
    /// The reference's ids from there, or why it fails.
    pub reference: std::result::Result<Vec<u32>, String>,
    /// Whether the reference gave up, so that nothing is known of the right ids.
    is_unknown: bool,
}

impl Difference {
    /// Whether there is nothing to compare with: the reference has a bound on the work for one text, and the text is
    /// beyond it. The fast engine's ids may be right.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }
}

impl Check {
    /// Loads both engines of a tokenizer: the fast one that the gate chose or, if it chose none, the fastest that can
    /// load the file.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if no fast engine can load it, so that there is nothing to check.
    pub fn new(tokenizer: &HfTokenizer) -> Result<Self> {
        let failed = |problem: String| Error::tokenizer(tokenizer.name(), problem);
        let file = &tokenizer.loaded.file;
        let reference = file.reference().map_err(failed)?;
        let engines = Candidate::load(&file.json, file.special).map_err(|reason| {
            failed(format!("only the reference runs it, so there is nothing to check: {reason}"))
        })?;
        let chosen = tokenizer.engine();
        let (mut right, mut others): (Vec<_>, Vec<_>) =
            engines.into_iter().partition(|engine| engine.engine() == chosen);
        let fast = if right.is_empty() { others.remove(0) } else { right.remove(0) };
        Ok(Self { fast, reference })
    }

    /// The fast engine that is checked.
    pub fn engine(&self) -> Engine {
        self.fast.engine()
    }

    /// Encodes a text with both engines. Returns how many ids it has; 0 if both engines refuse it.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self, text: &str) -> std::result::Result<usize, Box<Difference>> {
        let reference = Right::encode(&self.reference, text).ids;
        if unassigned::has_any(text) {
            // Such texts go to the reference, whichever engine runs.
            return Ok(reference.map_or(0, |ids| ids.len()));
        }
        let mut ours = Vec::new();
        let fast: std::result::Result<_, String> =
            caught(|| self.fast.encode(text, &mut ours)).map(|()| ours);
        match (&fast, &reference) {
            (Ok(ours), Ok(right)) if ours == right => return Ok(ours.len()),
            (Err(_), Err(_)) => return Ok(0),
            _ => {}
        }
        let at = match (&fast, &reference) {
            (Ok(ours), Ok(right)) => first_difference(ours, right),
            _ => 0,
        };
        let byte =
            self.reference.starts(text).get(at).copied().unwrap_or(if at == 0 { 0 } else { text.len() });
        let from = text.floor_char_boundary(byte.saturating_sub(AROUND));
        let to = text.ceil_char_boundary((byte + AROUND).min(text.len()));
        let near = |ids: Vec<u32>| {
            ids[at.saturating_sub(NEAR.0).min(ids.len())..ids.len().min(at + NEAR.1)].to_vec()
        };
        Err(Box::new(Difference {
            byte,
            around: text[from..to].to_owned(),
            fast: fast.map(near),
            is_unknown: matches!(reference, Err(Refusal::GaveUp(_))),
            reference: reference.map(near).map_err(|refusal| refusal.to_string()),
        }))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |ids: &std::result::Result<Vec<u32>, String>| match ids {
            Ok(ids) => format!("{ids:?}"),
            Err(problem) => format!("fails: {problem}"),
        };
        write!(
            f,
            "at byte {} of the text, near {:?}\n  fast       {}\n  reference  {}",
            self.byte,
            self.around,
            ids(&self.fast),
            ids(&self.reference),
        )
    }
}
