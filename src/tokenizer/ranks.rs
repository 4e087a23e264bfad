//! tiktoken's ranks, as a `tokenizer.json`.
//!
//! A file of ranks has a line for each token: its bytes in base64, a space, and its rank, which is its id. A
//! pattern cuts text into words. A word that is a token becomes that token. In any other word, the two
//! neighbours whose bytes together have the lowest rank are joined, the leftmost first, again and again.
//! (<https://github.com/openai/tiktoken>)
//!
//! A `tokenizer.json` names the two tokens that a merge joins, and ranks do not. But each token can come from only one
//! pair: as long as no merge reaches across the token's two ends, the merges between them depend on nothing outside. So
//! the pair is found by joining the token's own bytes, by the ranks, until two pieces are left. If more are left and
//! none can be joined, the token comes up only as a whole word.
//!
//! Held in memory: the file's text, its tokens, and the text of the `tokenizer.json`, some four times as long.

mod file;
mod published;

use std::collections::{BTreeMap, HashMap};

use super::byte_level::{ByteLevel, spelling};
use crate::error::{Error, Result};

use published::published;
pub(super) use published::{CL100K, GPT2};

/// Ids must be less than this, so that no file asks for gigabytes of tables.
const MOST: u32 = 1 << 24;

/// Returns the text of a `tokenizer.json` that gives the ids that tiktoken gives by these `ranks`, with its
/// special tokens.
///
/// `pattern` is a name whose pattern is published with tiktoken (`gpt2`, `r50k_base`, `p50k_base`,
/// `p50k_edit`, `cl100k_base`, `o200k_base`), or a regex; what a regex does not match is a word too.
/// `special` are the special tokens' ids; if there are none, those that are published with the name apply.
/// Errors call the tokenizer `name`.
///
/// The names stand for the patterns that the encodings were first published with, which Hugging Face's files
/// of them and Llama 3 have too. tiktoken has changed that of `cl100k_base` since: it takes the white space
/// at the end of a text as one word, while this one cuts it after its last line end. If you need the newer
/// pattern, give its regex.
///
/// # Errors
///
/// [`Error::Tokenizer`], with the line if there is one, if these are not ranks, if the ranks leave out a
/// byte, or if special tokens conflict with each other or with a rank; [`Error::Config`] if the name is
/// unknown.
pub fn to_json(name: &str, ranks: &str, pattern: &str, special: &BTreeMap<String, u32>) -> Result<String> {
    let failed = |problem: String| Error::tokenizer(name, problem);
    let special = special_tokens(pattern, special)?;
    let (pattern, _) = published(pattern)?;
    let ranks = file::read(ranks).map_err(failed)?;
    let mut vocab: Vec<(String, u32)> = ranks.iter().map(|(token, rank)| (spelling(token), *rank)).collect();
    check(&vocab, &special).map_err(failed)?;
    let merges = merges(&ranks);
    vocab.extend_from_slice(&special);
    vocab.sort_unstable_by_key(|(_, id)| *id);
    ByteLevel { pattern, vocab, merges, special: &special, ignore_merges: true }.json(name)
}

/// The special tokens of ranks and their ids, by id: those that the config names, or else those that are published with
/// the pattern.
pub(crate) fn special_tokens(pattern: &str, special: &BTreeMap<String, u32>) -> Result<Vec<(String, u32)>> {
    let (_, published) = published(pattern)?;
    let mut tokens: Vec<(String, u32)> = match special.is_empty() {
        true => published.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect(),
        false => special.iter().map(|(token, id)| (token.clone(), *id)).collect(),
    };
    tokens.sort_unstable_by_key(|(_, id)| *id);
    Ok(tokens)
}

/// Checks that no special token has the id or the spelling of another token.
fn check(vocab: &[(String, u32)], special: &[(String, u32)]) -> Result<(), String> {
    let mut ids: HashMap<u32, &str> = vocab.iter().map(|(token, id)| (*id, token.as_str())).collect();
    let tokens: HashMap<&str, u32> = vocab.iter().map(|(token, id)| (token.as_str(), *id)).collect();
    for (token, id) in special {
        let of = format!("the special token {token:?}");
        if token.is_empty() {
            return Err("a special token is empty; give it a name in tokenizer.special".to_owned());
        }
        if *id >= MOST {
            return Err(format!("{of} has the id {id}, but ids must be below {MOST}"));
        }
        if let Some(other) = ids.insert(*id, token) {
            return Err(format!("{of} has the id {id}, which is that of {other:?}; see tokenizer.special"));
        }
        if let Some(rank) = tokens.get(token.as_str()) {
            return Err(format!("{of} is spelled like the token of rank {rank}; see tokenizer.special"));
        }
    }
    Ok(())
}

/// The two tokens that each token is joined from, in the order of ranks.
fn merges(ranks: &[(Vec<u8>, u32)]) -> Vec<(String, String)> {
    let by_token: HashMap<&[u8], u32> = ranks.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
    let halves = ranks.iter().filter_map(|(token, _)| halves(token, &by_token));
    halves.map(|(left, right)| (spelling(left), spelling(right))).collect()
}

/// Joins a token's bytes, and returns the last two pieces.
fn halves<'a>(token: &'a [u8], ranks: &HashMap<&[u8], u32>) -> Option<(&'a [u8], &'a [u8])> {
    // Where the pieces begin, and where the last one ends.
    let mut cuts: Vec<usize> = (0..=token.len()).collect();
    let rank_at = |cuts: &[usize], at: usize| {
        let end = cuts.get(at + 2)?;
        ranks.get(&token[cuts[at]..*end]).copied()
    };
    // The rank of each piece joined with the next one.
    let mut pairs: Vec<Option<u32>> = (0..token.len()).map(|at| rank_at(&cuts, at)).collect();
    while cuts.len() > 3 {
        let lowest = pairs.iter().enumerate().filter_map(|(at, rank)| Some(((*rank)?, at))).min();
        let (_, at) = lowest?;
        cuts.remove(at + 1);
        pairs.remove(at + 1);
        pairs[at] = rank_at(&cuts, at);
        if at > 0 {
            pairs[at - 1] = rank_at(&cuts, at - 1);
        }
    }
    (cuts.len() == 3).then(|| token.split_at(cuts[1]))
}
