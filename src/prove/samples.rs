//! Which text of a record ids are of: all of it, one of its samples, or one without its first turns.
//!
//! The likely ones are tried first, so that a long conversation is not rendered in full for each of its turns.

use std::ops::Range;

use serde_json::Value;

use super::conversation::{Conversation, Record, role};
use super::expected::Expected;
use super::fault::{FaultKind, Finding};
use super::judge::{Delivered, Judged, Rules, fits, judge};
use super::kept::contents;
use super::mistakes::named;
use crate::config::Truncate;

/// How many samples are tried as a whole before turns are taken to have left.
const LIKELY: usize = 8;

/// How many bytes of a template may stand behind the content that a sample ends with.
const BEHIND: usize = 256;

/// About how many bytes a template writes for a message beside its content.
const AROUND: usize = 32;

type Proved = Result<(Expected, Judged), Finding>;

/// Proves the ids of a record.
pub(super) fn judge_record(
    record: &Record,
    ends: &[String],
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
) -> Proved {
    match record {
        Record::Conversation(whole) => whole.judge(ends, delivered, rules),
        Record::Turns(whole) => judge_turns(whole, ends, delivered, rules),
        Record::Completion(completion) => {
            let expected = Expected::of_completion(completion, ends);
            let judged = judge(&expected, delivered, rules);
            let found = || rules.ids.text(delivered.ids);
            let judged = judged.unwrap_or_else(|| Err(named(&expected.text, &found(), || None)));
            judged.map(|judged| (expected, judged))
        }
    }
}

/// Proves the ids of one of a conversation's turns. Of ids that are none of them the likeliest one tells the fault.
fn judge_turns(
    whole: &Conversation,
    ends: &[String],
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
) -> Proved {
    let turns = whole.ends();
    let order = order_of_turns(whole, &turns, &rules.ids.text(delivered.ids));
    let (likely, may_leave) = (LIKELY.min(order.len()), rules.truncate == Truncate::Turns);
    let tried = order[..likely].iter().map(|nth| (*nth, false));
    let rest = match may_leave {
        true => order.iter().map(|nth| (*nth, true)).collect::<Vec<_>>(),
        false => order[likely..].iter().map(|nth| (*nth, false)).collect(),
    };
    let mut fault = None;
    for (nth, may_leave) in tried.chain(rest) {
        // A fault of the mask tells that the text is that of the sample.
        match whole.turn(&turns, nth).try_judge(ends, delivered, rules, may_leave) {
            Some(Err(finding)) => _ = fault.get_or_insert(finding),
            Some(proved) => return proved,
            None => {}
        }
    }
    Err(fault.unwrap_or_else(|| whole.turn(&turns, order[0]).another_text(delivered, rules)))
}

/// The turns with these ends, the likely ones for a text first: those whose content it ends with, and of these the ones
/// that are about as long.
fn order_of_turns(whole: &Conversation, turns: &[usize], text: &str) -> Vec<usize> {
    let lengths = whole.lengths();
    let ends_with = |nth: usize| {
        let content = contents(&whole.messages[turns[nth]]).last().map_or("", |content| content.trim());
        text[text.ceil_char_boundary(text.len().saturating_sub(content.len() + BEHIND))..].contains(content)
    };
    let mut order: Vec<usize> = (0..turns.len()).collect();
    let length = |nth: usize| lengths[turns[nth] + 1];
    order.sort_by_cached_key(|nth| (!ends_with(*nth), length(*nth).abs_diff(text.len())));
    order
}

impl Conversation {
    fn judge(&self, ends: &[String], delivered: &Delivered<'_>, rules: &Rules<'_>) -> Proved {
        let judged = self.try_judge(ends, delivered, rules, rules.truncate == Truncate::Turns);
        judged.unwrap_or_else(|| Err(self.another_text(delivered, rules)))
    }

    /// Proves the ids of the conversation, or if turns may leave, of what is left without its first ones. `None` if they
    /// are of another text.
    fn try_judge(
        &self,
        ends: &[String],
        delivered: &Delivered<'_>,
        rules: &Rules<'_>,
        may_leave: bool,
    ) -> Option<Proved> {
        let shorter = || self.shorter(rules.ids.text(delivered.ids).len());
        let without = std::iter::once(0..0).chain(may_leave.then(shorter).into_iter().flatten());
        without.into_iter().find_map(|without| {
            let left: Vec<usize> =
                (0..self.messages.len()).filter(|message| !without.contains(message)).collect();
            let text = self.engine.render(&left, &[], false).ok()?;
            if !fits(&text, delivered, rules) {
                return None;
            }
            let expected =
                Expected::of_conversation(self, &left, text, ends, rules.ids, rules.renders_prompts);
            Some(judge(&expected, delivered, rules)?.map(|judged| (expected, judged)))
        })
    }

    /// The fault of ids that are of another text.
    fn another_text(&self, delivered: &Delivered<'_>, rules: &Rules<'_>) -> Finding {
        let all: Vec<usize> = (0..self.messages.len()).collect();
        match self.engine.render(&all, &[], false) {
            Ok(text) => named(&text, &rules.ids.text(delivered.ids), || self.one_by_one()),
            Err(why) => Finding::refused(&why),
        }
    }

    /// Which messages may have left: ever more of those behind the system prompt. Those first of which about so many
    /// bytes are left.
    fn shorter(&self, bytes: usize) -> Vec<Range<usize>> {
        let is_system = |message: &&Value| ["system", "developer"].contains(&role(message));
        let first = self.messages.iter().take_while(is_system).count();
        let lengths = self.lengths();
        let all = *lengths.last().unwrap_or(&0);
        let mut shorter: Vec<usize> = (first + 1..self.messages.len()).collect();
        shorter.sort_by_key(|end| (all - (lengths[*end] - lengths[first])).abs_diff(bytes));
        shorter.into_iter().map(|end| first..end).collect()
    }

    /// About how many bytes of text the first messages have: none, one, two and so on.
    fn lengths(&self) -> Vec<usize> {
        let length = |message: &Value| {
            let calls = message.get("tool_calls").map_or(0, |calls| calls.to_string().len());
            AROUND + calls + contents(message).iter().map(|content| content.len()).sum::<usize>()
        };
        let mut lengths = vec![0];
        lengths.extend(self.messages.iter().scan(0, |sum, message| {
            *sum += length(message);
            Some(*sum)
        }));
        let all: Vec<usize> = (0..self.messages.len()).collect();
        let text = self.engine.render(&all, &[], false).map_or(0, |text| text.len());
        let sum = lengths[self.messages.len()].max(1) as u128;
        let scaled = |length: usize| (length as u128 * text as u128 / sum) as usize;
        lengths.into_iter().map(scaled).collect()
    }

    /// The text of messages that are rendered one by one.
    fn one_by_one(&self) -> Option<String> {
        (0..self.messages.len()).map(|message| self.engine.render(&[message], &[], false).ok()).collect()
    }
}

impl Finding {
    /// A record that gave ids, although the template refuses it.
    fn refused(why: &str) -> Self {
        let problem = format!("the template refuses the record, which gave ids: {why}");
        Self { kind: FaultKind::OtherText, bytes: 0..0, message: None, problem }
    }
}
