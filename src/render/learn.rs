//! Which messages of a conversation are learned from, and where these stand in its text.

use std::ops::Range;

use super::RenderError;
use super::messages::{Conversation, error};
use super::sentinels::Place;
use super::turns::Turn;
use crate::config::Learn;

/// Whether each message is learned from.
pub(super) fn wanted(conversation: &Conversation, learn: &Learn) -> Vec<bool> {
    let last = conversation.about.iter().rposition(|about| about.is_assistant());
    let by_rule = |number: usize, role: &str| match learn {
        Learn::All => role == "assistant",
        Learn::Last => Some(number) == last,
        Learn::Roles(roles) => roles.iter().any(|other| other == role),
    };
    let messages = conversation.about.iter().enumerate();
    let of = |(number, about): (usize, &super::messages::About)| {
        number >= conversation.first && about.learned.unwrap_or_else(|| by_rule(number, &about.role))
    };
    messages.map(of).collect()
}

/// The turns that are learned from, given which message each comes from if that is known.
///
/// # Errors
/// If it depends on the message, and nobody knows it.
pub(super) fn chosen(
    conversation: &Conversation,
    wanted: &[bool],
    turns: Vec<Turn>,
    owners: impl FnOnce() -> Option<Vec<Option<usize>>>,
) -> Result<Vec<Turn>, RenderError> {
    let assistants: Vec<usize> =
        (0..wanted.len()).filter(|number| conversation.about[*number].is_assistant()).collect();
    let count = assistants.iter().filter(|number| wanted[**number]).count();
    if count == 0 {
        return Ok(Vec::new());
    }
    if count == assistants.len() {
        return Ok(turns);
    }
    let owners = owners().ok_or_else(unknown)?;
    let mut chosen = Vec::new();
    for (number, turn) in turns.into_iter().enumerate() {
        let mut of = candidates(&assistants, &owners, number).map(|message| wanted[message]);
        let first = of.next().ok_or_else(unknown)?;
        if of.any(|other| other != first) {
            return Err(unknown());
        }
        if first {
            chosen.push(turn);
        }
    }
    Ok(chosen)
}

/// The messages that a turn may come from: its owner; or else those between the owners around it, and without one
/// between them, these.
fn candidates<'a>(
    assistants: &'a [usize],
    owners: &'a [Option<usize>],
    turn: usize,
) -> impl Iterator<Item = usize> + 'a {
    let before = owners[..turn].iter().rev().flatten().next().copied();
    let after = owners[turn + 1..].iter().flatten().next().copied();
    let owner = owners[turn];
    let between = move |message: usize| {
        before.is_none_or(|before| message > before) && after.is_none_or(|after| message < after)
    };
    let is_between_any = assistants.iter().any(|message| between(*message));
    assistants.iter().copied().filter(move |message| match owner {
        Some(owner) => *message == owner,
        None if is_between_any => between(*message),
        None => Some(*message) == before || Some(*message) == after,
    })
}

/// The parts of messages that say otherwise than their message: those that are learned from, and those that are not.
pub(super) fn parts(conversation: &Conversation, wanted: &[bool]) -> (Vec<Place>, Vec<Place>) {
    let (mut learned, mut masked) = (Vec::new(), Vec::new());
    for (message, about) in conversation.about.iter().enumerate() {
        for (part, own) in about.parts.iter().enumerate() {
            let place = Place { message, part: Some(part) };
            match own {
                Some(true) if !wanted[message] && message >= conversation.first => learned.push(place),
                Some(false) if wanted[message] => masked.push(place),
                _ => (),
            }
        }
    }
    (learned, masked)
}

/// The union of ranges, sorted, without those of `masked`.
pub(super) fn without(mut ranges: Vec<Range<usize>>, mut masked: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    masked.sort_unstable_by_key(|range| range.start);
    let mut union: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match union.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    let mut left = Vec::new();
    for range in union {
        let mut at = range.start;
        for hole in masked.iter().filter(|hole| hole.start < range.end && hole.end > range.start) {
            if at < hole.start {
                left.push(at..hole.start);
            }
            at = at.max(hole.end);
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

fn unknown() -> RenderError {
    error(
        "only some turns of the conversation are learned from, and nothing tells which message each turn comes from"
            .to_owned(),
        "learn from all of them, or give every turn of the assistant a message of its own",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_without_others_agree_with_flags(
            ranges in prop::collection::vec((0_usize..30, 0_usize..6), 0..6),
            holes in prop::collection::vec((0_usize..30, 1_usize..4), 0..5),
        ) {
            let of = |list: &[(usize, usize)]| -> Vec<Range<usize>> {
                list.iter().map(|(start, len)| *start..start + len).collect()
            };
            let is_in = |list: &[Range<usize>], place: usize| list.iter().any(|range| range.contains(&place));
            let (ranges, holes) = (of(&ranges), of(&holes));
            let left = without(ranges.clone(), holes.clone());
            for place in 0..40 {
                prop_assert_eq!(is_in(&left, place), is_in(&ranges, place) && !is_in(&holes, place));
            }
            prop_assert!(left.iter().all(|range| !range.is_empty()));
            prop_assert!(left.windows(2).all(|two| two[0].end <= two[1].start));
        }
    }
}
