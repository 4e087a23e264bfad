//! The tokens of a file and their ids.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::reference::Reference;

/// How many ids there may be for each token, and for any number of tokens. The engines have tables by id, so one id of
/// a hundred million takes gigabytes. Files that leave out ids leave out some hundreds.
const SPARSE: usize = 16;
const LEAST: usize = 1 << 20;

pub(super) struct Vocabulary {
    /// One more than the largest id.
    pub(super) size: usize,
    /// The added tokens, including special ones, by id.
    pub(super) added: Vec<(String, u32)>,
    /// Every token. Only the reference knows them all, and it is not loaded for them before somebody asks.
    all: OnceLock<HashMap<String, u32>>,
}

impl Vocabulary {
    pub(super) fn new(reference: &Reference) -> Result<Self, String> {
        let ids = reference.ids();
        let last = ids.iter().max_by_key(|(token, id)| (**id, token.as_str()));
        let size = last.map_or(0, |(_, id)| *id as usize + 1);
        let most = (ids.len() * SPARSE).max(LEAST);
        if let Some((token, id)) = last
            && size > most
        {
            return Err(format!(
                "the token {:?} has the id {id}, but with {} tokens ids must be below {most}; correct the file",
                &token[..token.floor_char_boundary(60)],
                ids.len()
            ));
        }
        let added = reference.added_tokens().into_iter();
        let added = added.filter_map(|token| Some((ids.get(&token).copied()?, token)));
        Ok(Self { size, added: added.map(|(id, token)| (token, id)).collect(), all: OnceLock::from(ids) })
    }

    /// A vocabulary that was cached.
    pub(super) fn known(size: usize, added: Vec<(String, u32)>) -> Self {
        Self { size, added, all: OnceLock::new() }
    }

    /// The id of a token. `load` gives all tokens.
    pub(super) fn id(&self, token: &str, load: impl FnOnce() -> HashMap<String, u32>) -> Option<u32> {
        let added = self.added.iter().find(|(added, _)| added == token);
        added.map(|(_, id)| *id).or_else(|| self.all.get_or_init(load).get(token).copied())
    }

    /// The token that is spelled most like `token`: an added one, or any if the file has added none.
    pub(super) fn nearest(&self, token: &str, load: impl FnOnce() -> HashMap<String, u32>) -> Option<String> {
        let likeness = |other: &str| strsim::jaro_winkler(token, other);
        let by_likeness =
            |a: &&String, b: &&String| likeness(a).total_cmp(&likeness(b)).then_with(|| b.cmp(a));
        let added = self.added.iter().map(|(token, _)| token).max_by(by_likeness);
        added.or_else(|| self.all.get_or_init(load).keys().max_by(by_likeness)).cloned()
    }
}
