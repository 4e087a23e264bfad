//! Reads a file of ranks.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::MOST;

/// The longest token, in bytes. The longest that is published has 128.
const LONGEST: usize = 1024;

/// Returns the tokens and their ranks, lowest rank first.
pub(super) fn read(text: &str) -> Result<Vec<(Vec<u8>, u32)>, String> {
    let mut ranks = Vec::new();
    // The line that each token and each rank is on.
    let (mut tokens, mut taken) = (HashMap::new(), HashMap::new());
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    for (number, line) in (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty()) {
        let (token, rank) = entry(line).map_err(|problem| format!("line {number}: {problem}"))?;
        if let Some(first) = tokens.insert(token.clone(), number) {
            return Err(format!("line {number}: its token is also on line {first}"));
        }
        if let Some(first) = taken.insert(rank, number) {
            return Err(format!("line {number}: its rank {rank} is also on line {first}"));
        }
        ranks.push((token, rank));
    }
    if let Some(byte) = (0..=u8::MAX).find(|byte| !tokens.contains_key([*byte].as_slice())) {
        return Err(format!("the byte 0x{byte:02x} has no rank, so not every text can be spelled"));
    }
    ranks.sort_unstable_by_key(|(_, rank)| *rank);
    Ok(ranks)
}

fn entry(line: &str) -> Result<(Vec<u8>, u32), String> {
    let mut parts = line.split_ascii_whitespace();
    let (Some(token), Some(rank), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!(
            "{:?} is not a token in base64, a space, and its rank; tokenizer.path names a file of such lines, or a \
             tokenizer.json",
            &line[..line.floor_char_boundary(40)]
        ));
    };
    let token = BASE64_STANDARD.decode(token).map_err(|e| format!("its token is not base64: {e}"))?;
    if token.is_empty() || token.len() > LONGEST {
        return Err(format!("its token has {} bytes, but must have from 1 to {LONGEST}", token.len()));
    }
    match rank.parse() {
        Ok(rank) if rank < MOST => Ok((token, rank)),
        _ => Err(format!("its rank {rank:?} must be a number below {MOST}")),
    }
}
