//! Which messages of a conversation are learned from, and where these stand in its text.

use std::ops::Range;

use super::RenderError;
use super::conversation::{About, Conversation};
use super::sentinels::{Owners, Place};
use super::turns::Turn;
use crate::config::Learn;
use crate::document::Mask;

/// Whether each message is learned from.
pub(super) fn wanted(conversation: &Conversation, learn: &Learn) -> Vec<bool> {
    let last = conversation.about.iter().rposition(|about| about.is_assistant());
    let by_rule = |number: usize, role: &str| match learn {
        Learn::All => role == "assistant",
        Learn::Last => Some(number) == last,
        Learn::Roles(roles) => roles.iter().any(|other| other == role),
    };
    let messages = conversation.about.iter().enumerate();
    let of = |(number, about): (usize, &About)| {
        number >= conversation.first && about.learned.unwrap_or_else(|| by_rule(number, &about.role))
    };
    messages.map(of).collect()
}

/// The messages that are learned from, at least in part, and whether each is as a whole.
pub(super) fn samples(conversation: &Conversation, learn: &Learn) -> Vec<(usize, bool)> {
    let wanted = wanted(conversation, learn);
    let (more, _) = parts(conversation, &wanted);
    let is_partly = |message: &usize| more.iter().any(|place| place.message == *message);
    let samples = (0..wanted.len()).filter(|message| wanted[*message] || is_partly(message));
    samples.map(|message| (message, wanted[message])).collect()
}

/// The assistant's messages.
pub(super) fn assistants(conversation: &Conversation) -> Vec<usize> {
    (0..conversation.about.len()).filter(|number| conversation.about[*number].is_assistant()).collect()
}

/// Gives turns an owner that have none, where only one is possible.
pub(super) fn complete(owners: &mut Owners, turns: &[Turn], assistants: &[usize]) {
    let of_turns = &mut owners.of_turns;
    // The generation blocks of one message may touch.
    for number in 1..turns.len() {
        if of_turns[number].is_empty() && turns[number - 1].end() == Some(turns[number].marker) {
            of_turns[number] = of_turns[number - 1].clone();
        }
    }
    let mut start = 0;
    while start < of_turns.len() {
        let len = of_turns[start..].iter().take_while(|owners| owners.is_empty()).count();
        let mut between: Vec<usize> =
            assistants.iter().copied().filter(|message| is_between(of_turns, start, *message)).collect();
        between.retain(|message| !owners.outside.contains(message));
        if between.len() == len {
            for (offset, message) in between.into_iter().enumerate() {
                of_turns[start + offset] = vec![message];
            }
        }
        start += len + 1;
    }
}

/// Whether a message stands between the owners of the turns around a turn without one.
fn is_between(of_turns: &[Vec<usize>], turn: usize, message: usize) -> bool {
    let before = of_turns[..turn].iter().rev().find_map(|owners| owners.iter().max());
    let after = of_turns[turn..].iter().find_map(|owners| owners.iter().min());
    before.is_none_or(|before| message > *before) && after.is_none_or(|after| message < *after)
}

/// Whether each turn is learned from.
pub(super) fn chosen(
    owners: &Owners,
    wanted: &[bool],
    assistants: &[usize],
) -> Result<Vec<bool>, RenderError> {
    let of_turns = &owners.of_turns;
    let of_turn = |turn: usize| {
        let mut candidates = of_turns[turn].clone();
        if candidates.is_empty() {
            candidates = assistants.to_vec();
            candidates.retain(|message| is_between(of_turns, turn, *message));
        }
        if candidates.is_empty() {
            // Another part of the message before it or behind it.
            let before = of_turns[..turn].iter().rev().find_map(|owners| owners.last());
            let after = of_turns[turn..].iter().find_map(|owners| owners.first());
            candidates.extend(before.into_iter().chain(after));
        }
        let mut choices = candidates.into_iter().map(|message| wanted[message]);
        match choices.next() {
            Some(choice) if choices.all(|other| other == choice) => Ok(choice),
            _ => Err(unknown()),
        }
    };
    (0..of_turns.len()).map(of_turn).collect()
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

/// The range of a part that is not learned from, with the white space before it: most tokenizers make one id of a space
/// and the word behind it, and an id that has anything of what is learned from is learned.
pub(super) fn with_space(text: &str, part: Range<usize>) -> Range<usize> {
    text[..part.start].trim_ascii_end().len()..part.end
}

/// The union of ranges, sorted, without those of `masked`.
pub(super) fn without(ranges: Vec<Range<usize>>, masked: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let (ranges, masked) = (Mask::union(ranges), Mask::union(masked));
    ranges.masked().iter().flat_map(|range| masked.learned_in(range.clone())).collect()
}

pub(super) fn unknown() -> RenderError {
    RenderError::new(
        "nothing tells which message each turn in its text comes from, and that decides what is learned from"
            .to_owned(),
        "learn from all turns of the assistant, or use a template with generation blocks",
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
